//! The handshake: two packets that turn keys into a session. `Initiator` is the worker's or admin's side,
//! `Responder` the scheduler's. Who is admitted is decided in `store.rs`, when a cookie is asked for in
//! `cookie.rs`; keeping the sessions is for `table.rs`.
//!
//! A response that is lost is cured by a new initiation with a new [`Initiator`]: nothing is ever sent
//! twice, so nothing here depends on whether a repeat is recognised.

use snow::HandshakeState;

use super::cookie::{Cookie, CookieJar, Disguise, INITIATIONS_PER_SECOND, LoadMeter, SECOND_US, Shown};
use super::door::Door;
use super::error::SealError;
use super::keys::{Secret, StaticKey, is_valid_name};
use super::packet::{
    ANSWER_BYTES, Answer, GREETING_BYTES, Greeting, HEADER_BYTES, INITIATION_BYTES, INITIATION_HEADER_BYTES,
    InitiationHeader, Kind, MAC_BYTES, Mode, RESPONSE_BYTES, answer_body,
};
use super::refusal::Refusal;
use super::role::Role;
use super::session::{Cipher, Session};
use super::store::Claim;
use super::{PROLOGUE, SEAL_VERSION, noise_builder};
use crate::ids::{Boot, Epoch, FarmId, PublicKey};

/// Who is calling, and whom.
#[derive(Clone, Copy)]
pub struct Introduction<'a> {
    /// The caller's static key.
    pub key: &'a StaticKey,
    /// The scheduler's public key, from the join file: nobody else can answer.
    pub scheduler: &'a PublicKey,
    /// The join secret, from the join file.
    pub join_secret: &'a Secret,
    /// The name the caller wants, see [`is_valid_name`].
    pub name: &'a str,
    /// The caller's incarnation.
    pub boot: Boot,
    /// What comes after the handshake.
    pub mode: Mode,
}

/// The calling side of one handshake.
pub struct Initiator {
    noise: Option<HandshakeState>,
    header: InitiationHeader,
    disguise: Disguise,
}

/// How a handshake ended for the caller.
pub enum Outcome {
    /// The scheduler has agreed. The caller is enrolled once its first message has arrived, so it should
    /// send one soon.
    Accepted(Accepted),
    /// The scheduler has refused, and trying again the same way is useless.
    Refused {
        /// Why; `None` where a newer scheduler has a reason that this version does not know.
        refusal: Option<Refusal>,
        /// What is wrong and what to do, for the user. The scheduler is proved, so this can be shown.
        reason: String,
    },
}

/// What the scheduler said when it agreed.
pub struct Accepted {
    /// Identity of the farm.
    pub farm: FarmId,
    /// The scheduler's incarnation.
    pub epoch: Epoch,
    /// What the caller may do there.
    pub role: Role,
    /// The keys.
    pub(super) established: Established,
}

impl Accepted {
    /// The session over datagrams.
    pub fn into_session(self, now_us: u64) -> Session {
        self.established.into_session(now_us)
    }
}

impl Initiator {
    /// Begins a handshake: the second value is the initiation to send. `index` must be random, other than
    /// that of each session the caller still has. `cookie` is what the scheduler gave last, if still fresh.
    ///
    /// # Errors
    /// [`SealError::BadName`], [`SealError::NoRandomness`].
    pub fn start(
        who: &Introduction<'_>,
        index: u32,
        cookie: Option<&Cookie>,
    ) -> Result<(Self, Vec<u8>), SealError> {
        Self::start_as(SEAL_VERSION, who, index, cookie)
    }

    /// [`Initiator::start`] as a program of another version would do it.
    pub(super) fn start_as(
        version: u8,
        who: &Introduction<'_>,
        index: u32,
        cookie: Option<&Cookie>,
    ) -> Result<(Self, Vec<u8>), SealError> {
        if !is_valid_name(who.name) {
            return Err(SealError::BadName);
        }
        let header = InitiationHeader {
            version,
            mode: who.mode,
            sender: index,
            join_key: who.join_secret.join_key_id(),
        };
        let mut noise = noise_builder()
            .prologue(&prologue(&header))
            .and_then(|builder| builder.local_private_key(&who.key.private().0))
            .and_then(|builder| builder.remote_public_key(&who.scheduler.0))
            .and_then(|builder| builder.psk(2, &who.join_secret.0))
            .and_then(snow::Builder::build_initiator)
            .map_err(|_| SealError::NoRandomness)?;

        let mut bytes = vec![0; INITIATION_BYTES];
        bytes[..INITIATION_HEADER_BYTES].copy_from_slice(&header.write());
        let greeting = Greeting { boot: who.boot, name: who.name.to_owned() }.write();
        let body = INITIATION_BYTES - MAC_BYTES;
        noise
            .write_message(&greeting, &mut bytes[INITIATION_HEADER_BYTES..body])
            .map_err(|_| SealError::NoRandomness)?;
        if let Some(cookie) = cookie {
            let mac = cookie.mac(&bytes[..body]);
            bytes[body..].copy_from_slice(&mac);
        }
        let disguise = Disguise::new(who.scheduler, &bytes);
        Ok((Self { noise: Some(noise), header, disguise }, bytes))
    }

    /// The index that answers to this handshake carry.
    pub fn index(&self) -> u32 {
        self.header.sender
    }

    /// Reads a response. After an error the handshake goes on, for the genuine response may still come.
    ///
    /// # Errors
    /// [`SealError::Malformed`], [`SealError::Forged`] (or the join secret is not the scheduler's);
    /// [`SealError::Finished`] where a genuine response came before.
    pub fn read_response(&mut self, response: &[u8]) -> Result<Outcome, SealError> {
        let noise = self.noise.as_mut().ok_or(SealError::Finished)?;
        let body = answer_body(response, &self.header, Kind::Response, RESPONSE_BYTES)?;
        let mut payload = [0; ANSWER_BYTES];
        noise.read_message(body, &mut payload).map_err(|_| SealError::Forged)?;
        let noise = self.noise.take().ok_or(SealError::Finished)?;
        let answer = Answer::read(&payload);
        let Some(role) = answer.role.filter(|_| answer.status == 0) else {
            let refusal = Refusal::from_number(answer.status);
            return Ok(Outcome::Refused { refusal, reason: answer.reason });
        };
        let established = Established::new(noise, &self.header, self.header.sender, answer.sender)?;
        Ok(Outcome::Accepted(Accepted { farm: answer.farm, epoch: answer.epoch, role, established }))
    }

    /// Reads a cookie answer: the caller starts again with the cookie, after a pause of its own choice.
    ///
    /// # Errors
    /// [`SealError::Malformed`], [`SealError::Forged`].
    pub fn read_cookie(&self, answer: &[u8], now_us: u64) -> Result<Cookie, SealError> {
        Cookie::read_answer(answer, &self.header, &self.disguise, now_us)
    }
}

/// The answering side: the scheduler.
pub struct Responder {
    key: StaticKey,
    farm: FarmId,
    epoch: Epoch,
    mode: Mode,
    cookies: CookieJar,
    load: LoadMeter,
    shown: Shown,
}

/// An initiation and what came with it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The bytes received.
    pub datagram: &'a [u8],
    /// The sender's address in a form that is always the same: IP address and port.
    pub source: &'a [u8],
    /// Index for the new session: random, and free, see [`super::table::SessionTable::free_index`].
    pub index: u32,
    /// Monotonic time.
    pub now_us: u64,
}

/// What an initiation is answered with. The bytes are never more than those of the initiation.
pub enum Reply {
    /// Agreed, as far as the first message can tell.
    Accepted {
        /// To send.
        bytes: Vec<u8>,
        /// To keep until its first message opens.
        pending: Pending,
    },
    /// Refused in words.
    Refused {
        /// To send.
        bytes: Vec<u8>,
        /// Why.
        refusal: Refusal,
        /// Who it was; the key is proved, the join key is not.
        claim: Claim,
    },
    /// Under load: "show that you receive at your address".
    Cookie {
        /// To send.
        bytes: Vec<u8>,
    },
}

impl Reply {
    /// What to send.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Accepted { bytes, .. } | Self::Refused { bytes, .. } | Self::Cookie { bytes } => bytes,
        }
    }
}

/// Somebody whose role is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who it is.
    pub claim: Claim,
    /// What it may do.
    pub role: Role,
}

/// A session whose peer has proved its static key, but not yet the join key.
pub struct Pending {
    pub(super) peer: Peer,
    pub(super) established: Established,
}

impl Responder {
    /// A responder. `cookie_secret` must be random and new with each start; `mode` says whether it
    /// answers on datagrams or on a stream, and whether the seal is off, which the caller must restrict
    /// to loopback.
    pub fn new(key: StaticKey, farm: FarmId, epoch: Epoch, mode: Mode, cookie_secret: [u8; 32]) -> Self {
        let (cookies, load) = (CookieJar::new(cookie_secret), LoadMeter::new(INITIATIONS_PER_SECOND));
        Self { key, farm, epoch, mode, cookies, load, shown: Shown::default() }
    }

    /// Asks for cookies from `per_second` initiations a second on, instead of
    /// [`INITIATIONS_PER_SECOND`]; 0 always asks.
    pub fn set_load_limit(&mut self, per_second: u32) {
        self.load = LoadMeter::new(per_second);
    }

    /// Answers an initiation. Whatever is not worth an answer is an error, and must get none.
    ///
    /// # Errors
    /// [`SealError::Malformed`]; [`SealError::UnknownJoinKey`]: without its secret no answer could be
    /// sealed; [`SealError::Forged`]: made by somebody who does not know our public key, or damaged;
    /// [`SealError::Busy`]: there are too many from this address, or in all.
    pub fn answer(&mut self, door: &impl Door, request: &Request<'_>) -> Result<Reply, SealError> {
        let header = InitiationHeader::read(request.datagram)?;
        if header.mode.stream != self.mode.stream {
            return Err(SealError::Malformed("an initiation for another transport"));
        }
        // Strangers who know no join key id end here, before any costly arithmetic.
        let secret = door.secret(&header.join_key).ok_or(SealError::UnknownJoinKey)?;
        if self.load.is_over(request.now_us) {
            // A stream's address has been shown by its own handshake.
            if !header.mode.stream && !self.shows(request) {
                return Ok(Reply::Cookie { bytes: self.ask_for_cookie(&header, request) });
            }
            if !self.shown.has_room(request.source, request.now_us) {
                return Err(SealError::Busy);
            }
        }
        let (noise, mut claim) = self.read_initiation(&header, request.datagram, secret)?;
        match self.judge(door, &header, &claim, request.now_us) {
            Ok(role) => {
                if let Some((name, _)) = door.known(&claim.key) {
                    name.clone_into(&mut claim.name);
                }
                let (noise, bytes) =
                    self.respond(noise, &header, 0, Some(role), request.index, String::new())?;
                let established = Established::new(noise, &header, request.index, header.sender)?;
                Ok(Reply::Accepted { bytes, pending: Pending { peer: Peer { claim, role }, established } })
            }
            Err(refusal) => {
                let words = refusal.words(&claim.name, header.version, door.known(&claim.key));
                let (_, bytes) = self.respond(noise, &header, refusal as u8, None, 0, words)?;
                Ok(Reply::Refused { bytes, refusal, claim })
            }
        }
    }

    /// Whether it carries a cookie of its source.
    fn shows(&self, &Request { datagram, source, now_us, .. }: &Request<'_>) -> bool {
        self.cookies.admits(datagram, source, now_us)
    }

    fn ask_for_cookie(
        &self,
        header: &InitiationHeader,
        &Request { datagram, source, now_us, .. }: &Request<'_>,
    ) -> Vec<u8> {
        let disguise = Disguise::new(&self.key.public(), datagram);
        self.cookies.answer(header, &disguise, source, now_us)
    }

    fn read_initiation(
        &self,
        header: &InitiationHeader,
        datagram: &[u8],
        join_secret: &Secret,
    ) -> Result<(HandshakeState, Claim), SealError> {
        let mut noise = noise_builder()
            .prologue(&prologue(header))
            .and_then(|builder| builder.local_private_key(&self.key.private().0))
            .and_then(|builder| builder.psk(2, &join_secret.0))
            .and_then(snow::Builder::build_responder)
            .map_err(|_| SealError::NoRandomness)?;
        let message = &datagram[INITIATION_HEADER_BYTES..INITIATION_BYTES - MAC_BYTES];
        let mut payload = [0; GREETING_BYTES];
        noise.read_message(message, &mut payload).map_err(|_| SealError::Forged)?;
        let Greeting { boot, name } = Greeting::read(&payload);
        let key = noise.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(SealError::Forged)?;
        Ok((noise, Claim { key: PublicKey(key), name, boot, join_key: header.join_key }))
    }

    /// Version and mode first: a stranger to our version may mean something else by the rest.
    fn judge(
        &self,
        door: &impl Door,
        header: &InitiationHeader,
        claim: &Claim,
        now_us: u64,
    ) -> Result<Role, Refusal> {
        if header.version != SEAL_VERSION {
            return Err(Refusal::VersionSkew);
        }
        if header.mode.plain != self.mode.plain {
            return Err(Refusal::SealMismatch);
        }
        door.admit(claim, now_us / SECOND_US)
    }

    fn respond(
        &self,
        mut noise: HandshakeState,
        header: &InitiationHeader,
        status: u8,
        role: Option<Role>,
        sender: u32,
        reason: String,
    ) -> Result<(HandshakeState, Vec<u8>), SealError> {
        let (epoch, farm) = (self.epoch, self.farm);
        let answer = Answer { status, role, version: SEAL_VERSION, sender, epoch, farm, reason };
        let mut bytes = vec![0; RESPONSE_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header.opening(Kind::Response));
        noise
            .write_message(&answer.write(), &mut bytes[HEADER_BYTES..])
            .map_err(|_| SealError::NoRandomness)?;
        Ok((noise, bytes))
    }
}

/// The keys and indexes that a handshake leaves.
pub(super) struct Established {
    pub(super) cipher: Cipher,
    pub(super) local: u32,
    peer: u32,
}

impl Established {
    fn new(
        noise: HandshakeState,
        header: &InitiationHeader,
        local: u32,
        peer: u32,
    ) -> Result<Self, SealError> {
        let cipher = if header.mode.plain {
            Cipher::Plain
        } else {
            Cipher::Noise(Box::new(noise.into_stateless_transport_mode().map_err(|_| SealError::Forged)?))
        };
        Ok(Self { cipher, local, peer })
    }

    pub(super) fn into_session(self, now_us: u64) -> Session {
        Session::new(self.cipher, self.local, self.peer, now_us)
    }
}

/// What both sides hash into the handshake first: the protocol, and every clear byte of the initiation
/// before its Noise message, so that none of them can be changed on the way.
fn prologue(header: &InitiationHeader) -> Vec<u8> {
    [PROLOGUE, &header.write()].concat()
}
