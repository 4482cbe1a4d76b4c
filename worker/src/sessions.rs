//! The worker's end of its sealed sessions: handshakes that are under way, the session that sends, the
//! ones that still receive. It owns no socket; when to shake hands is decided in the core.

use std::net::SocketAddr;

use starfarm_protocol::ids::{Boot, Epoch};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::limits::DATAGRAM_BYTES_MAX;
use starfarm_protocol::path::{self, Path};
use starfarm_protocol::seal::packet;
use starfarm_protocol::seal::{
    Cookie, Initiator, Introduction, Kind, Mode, Opener, Outcome, Refusal, Role, SealError, Sealer, StaticKey,
};

/// Handshakes that may be under way: a few addresses, twice.
const PENDING_MAX: usize = 16;
/// A scheduler that was not heard for this long answers no probe, whatever the path does: three heartbeats.
const HEARD_US: u64 = 3_000_000;
/// Sessions that receive: the present one and those that it replaced a moment ago.
const OPENERS_MAX: usize = 3;

pub(crate) struct Identity {
    pub(crate) key: StaticKey,
    pub(crate) join: JoinFile,
    pub(crate) name: String,
    pub(crate) boot: Boot,
    /// The seal is off; only loopback addresses are spoken to.
    pub(crate) plain: bool,
}

impl Identity {
    pub(crate) fn introduction(&self, stream: bool) -> Introduction<'_> {
        Introduction {
            key: &self.key,
            scheduler: &self.join.scheduler_key,
            join_secret: &self.join.join_secret,
            name: &self.name,
            boot: self.boot,
            // Streams are always sealed: it is datagrams that are measured without.
            mode: Mode { stream, plain: self.plain && !stream },
        }
    }
}

pub(crate) enum Heard {
    /// A message of so many bytes at the front of the buffer, and the scheduler's incarnation in the session that sealed
    /// it.
    Message { bytes: usize, epoch: Epoch },
    /// A probe of the path: send this back.
    Probe(Vec<u8>),
    /// A session with this incarnation of the scheduler is up.
    Up(Epoch),
    /// The scheduler may not know the present session.
    NoSession,
    /// Send this: the handshake begins again with a cookie.
    Again(Vec<u8>),
    /// The scheduler does not want us, for good.
    Refused(String),
    /// The scheduler does not want us yet.
    NotYet(String),
    /// Not for us, damaged, forged or late.
    Nothing,
}

struct Handshake {
    initiator: Initiator,
    with_cookie: bool,
}

#[derive(Default)]
pub(crate) struct Sessions {
    cookie: Option<Cookie>,
    handshakes: Vec<Handshake>,
    current: Option<(Sealer, SocketAddr)>,
    /// What opens, by the scheduler's incarnation that it was agreed with. The newest is last.
    openers: Vec<(Epoch, Opener)>,
    path: Path,
    /// When a datagram of the scheduler opened last.
    heard_us: u64,
    /// Size of datagrams that a person was told of.
    told: Option<usize>,
}

impl Sessions {
    /// Begins a handshake and returns the datagram to send.
    pub(crate) fn initiate(&mut self, who: &Identity, now_us: u64) -> Result<Vec<u8>, SealError> {
        let cookie = self.cookie.take().filter(|cookie| cookie.is_fresh(now_us));
        let index = getrandom::u32().map_err(|_| SealError::NoRandomness)?;
        let (initiator, datagram) = Initiator::start(&who.introduction(false), index, cookie.as_ref())?;
        if self.handshakes.len() == PENDING_MAX {
            self.handshakes.remove(0);
        }
        self.handshakes.push(Handshake { initiator, with_cookie: cookie.is_some() });
        self.cookie = cookie;
        Ok(datagram)
    }

    /// The sending half and where to; `None` before the first session.
    pub(crate) fn current(&self) -> Option<(&Sealer, SocketAddr)> {
        self.current.as_ref().map(|(sealer, to)| (sealer, *to))
    }

    /// Hands a message on to be sealed and sent, in pieces where the path swallows long ones.
    pub(crate) fn send(&mut self, plain: &[u8], mut push: impl FnMut(&Sealer, SocketAddr, &[u8])) {
        if let Some((sealer, to)) = &self.current {
            self.path.cut(plain, |piece| push(sealer, *to, piece));
        }
    }

    /// A probe to seal and send as it is, if one is due.
    pub(crate) fn probe(&mut self, now_us: u64) -> Option<Vec<u8>> {
        let heard = self.heard_us > 0 && now_us.saturating_sub(self.heard_us) < HEARD_US;
        if heard { self.path.probe(now_us) } else { None }
    }

    /// What a person should know of the path now.
    pub(crate) fn news(&mut self) -> Option<String> {
        let bytes = self.path.bytes();
        if *self.told.get_or_insert(DATAGRAM_BYTES_MAX) == bytes {
            return None;
        }
        self.told = Some(bytes);
        Some(match bytes {
            DATAGRAM_BYTES_MAX => format!("datagrams of {bytes} bytes get through to the scheduler again"),
            _ => format!(
                "large datagrams do not get through to the scheduler: those sent have at most {bytes} bytes from now \
                 on (does something on the way drop ICMP? what is its MTU?)"
            ),
        })
    }

    /// New keys are due, by age or by number of messages.
    pub(crate) fn needs_rekey(&self, now_us: u64) -> bool {
        self.current.as_ref().is_some_and(|(sealer, _)| sealer.needs_rekey(now_us))
            || self.openers.last().is_some_and(|(_, opener)| opener.needs_rekey(now_us))
    }

    /// Reads a datagram; a message is opened into the front of `out`, which has room for any.
    pub(crate) fn hear(
        &mut self,
        who: &Identity,
        datagram: &[u8],
        from: SocketAddr,
        now_us: u64,
        out: &mut [u8],
    ) -> Heard {
        let index = packet::index(datagram);
        match packet::kind(datagram) {
            Some(Kind::Data) => {
                let session = self.openers.iter_mut().find(|(_, opener)| Some(opener.local_index()) == index);
                let opened =
                    session.and_then(|(epoch, opener)| Some((*epoch, opener.open(datagram, out).ok()?)));
                opened.map_or(Heard::Nothing, |(epoch, bytes)| self.hear_opened(epoch, bytes, now_us, out))
            }
            Some(Kind::Response) => self.hear_response(datagram, from, now_us),
            Some(Kind::CookieAnswer) => self.hear_cookie(who, datagram, now_us),
            // Nothing proves a hint but what only the scheduler, and who reads what we send it, can know.
            Some(Kind::NoSession) => match &self.current {
                Some((sealer, to)) if *to == from && sealer.is_doubted_by(datagram) => Heard::NoSession,
                _ => Heard::Nothing,
            },
            Some(Kind::Initiation) | None => Heard::Nothing,
        }
    }

    fn hear_opened(&mut self, epoch: Epoch, bytes: usize, now_us: u64, out: &mut [u8]) -> Heard {
        self.heard_us = now_us;
        match self.path.hear(&out[..bytes], now_us) {
            path::Heard::Messages => Heard::Message { bytes, epoch },
            path::Heard::Whole(whole) => {
                let bytes = whole.len();
                out[..bytes].copy_from_slice(&whole);
                Heard::Message { bytes, epoch }
            }
            path::Heard::Probe(answer) => Heard::Probe(answer),
            path::Heard::Nothing => Heard::Nothing,
        }
    }

    fn hear_response(&mut self, datagram: &[u8], from: SocketAddr, now_us: u64) -> Heard {
        let index = packet::index(datagram);
        let pending = self.handshakes.iter_mut().find(|pending| Some(pending.initiator.index()) == index);
        match pending.map(|pending| pending.initiator.read_response(datagram)) {
            Some(Ok(Outcome::Accepted(accepted))) if accepted.role == Role::Worker => {
                // The other handshakes were the same attempt at other addresses.
                self.handshakes.clear();
                self.path.ask_again();
                let epoch = accepted.epoch;
                let session = accepted.into_session(now_us);
                self.current = Some((session.sealer, from));
                if self.openers.len() == OPENERS_MAX {
                    self.openers.remove(0);
                }
                self.openers.push((epoch, session.opener));
                Heard::Up(epoch)
            }
            Some(Ok(Outcome::Accepted(accepted))) => Heard::Refused(format!(
                "the join file is for the role {}: a worker needs the scheduler's `worker.join`",
                accepted.role
            )),
            Some(Ok(Outcome::Refused { refusal: Some(Refusal::Crowded), reason })) => Heard::NotYet(reason),
            Some(Ok(Outcome::Refused { reason, .. })) => Heard::Refused(reason),
            Some(Err(_)) | None => Heard::Nothing,
        }
    }

    fn hear_cookie(&mut self, who: &Identity, datagram: &[u8], now_us: u64) -> Heard {
        let index = packet::index(datagram);
        let pending = self.handshakes.iter().find(|pending| Some(pending.initiator.index()) == index);
        let Some(pending) = pending else { return Heard::Nothing };
        let Ok(cookie) = pending.initiator.read_cookie(datagram, now_us) else { return Heard::Nothing };
        let first = !pending.with_cookie;
        self.cookie = Some(cookie);
        // A cookie that is answered by another cookie waits for the next handshake's turn.
        let again = if first { self.initiate(who, now_us).ok() } else { None };
        again.map_or(Heard::Nothing, Heard::Again)
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::FarmId;
    use starfarm_protocol::seal::{Hints, KeyStore, Reply, Request, Responder, Secret};

    use super::*;

    fn identity(scheduler: &StaticKey) -> Identity {
        let join = JoinFile::new(FarmId([1; 16]), vec![], scheduler.public(), Secret([7; 32]), Role::Worker);
        Identity { key: StaticKey::generate().unwrap(), join, name: "a".into(), boot: Boot(1), plain: false }
    }

    #[test]
    fn a_hint_counts_from_the_schedulers_address_and_about_the_present_session_only() {
        let key = StaticKey::generate().unwrap();
        let (who, mut sessions) = (identity(&key), Sessions::default());
        let mut keys = KeyStore::default();
        keys.add_join_key(Secret([7; 32]), Role::Worker);
        let mut responder = Responder::new(key, FarmId([1; 16]), Epoch(1), Mode::default(), [1; 32]);
        let (there, elsewhere) = ("127.0.0.1:7".parse().unwrap(), "127.0.0.1:8".parse().unwrap());
        let mut connect = |sessions: &mut Sessions, index| {
            let datagram = &sessions.initiate(&who, 0).unwrap();
            let reply = responder.answer(&keys, &Request { datagram, source: b"", index, now_us: 0 });
            let Ok(Reply::Accepted { bytes, .. }) = reply else { panic!("not accepted") };
            assert!(matches!(sessions.hear(&who, &bytes, there, 0, &mut []), Heard::Up(_)));
            let mut sealed = [0; 64];
            let length = sessions.current().unwrap().0.seal(b"beat", &mut sealed).unwrap();
            Hints::default().answer(&sealed[..length], 0).unwrap()
        };
        let hint = connect(&mut sessions, 11);
        assert!(matches!(sessions.hear(&who, &hint, elsewhere, 0, &mut []), Heard::Nothing));
        assert!(matches!(sessions.hear(&who, &hint[..15], there, 0, &mut []), Heard::Nothing));
        assert!(matches!(sessions.hear(&who, &hint, there, 0, &mut []), Heard::NoSession));
        let newer = connect(&mut sessions, 12);
        assert!(matches!(sessions.hear(&who, &hint, there, 0, &mut []), Heard::Nothing), "it came late");
        assert!(matches!(sessions.hear(&who, &newer, there, 0, &mut []), Heard::NoSession));
    }
}
