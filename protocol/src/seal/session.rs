//! A session after its handshake: messages are sealed into data packets and opened again. The halves are
//! separate types, so that one thread seals and another opens without a lock. Which session a packet
//! belongs to is decided in `table.rs` or, on a worker, by the few sessions it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use snow::StatelessTransportState;

use super::error::SealError;
use super::packet::{
    DATA_HEADER_BYTES, DATA_OVERHEAD_BYTES, TAG_BYTES, read_data, read_no_session, write_data_header,
};
use super::window::Window;

/// Counters stop here, long before a nonce could come twice.
pub const REJECT_AFTER_MESSAGES: u64 = 1 << 60;

/// Messages in one direction after which new keys are due: half of what RFC 9001 (appendix B.1) allows
/// AES-GCM for packets of up to 2 KiB.
pub const REKEY_AFTER_MESSAGES: u64 = 1 << 27;

/// Age at which new keys are due. WireGuard takes 120 s; ten minutes keep a farm of 10 000 nodes at 17
/// handshakes a second, 0.4 % of a core.
pub const REKEY_AFTER_US: u64 = 600_000_000;

/// A hint that a session is not known must be about one of this many messages sent last.
const DOUBT_MESSAGES: u64 = 4_096;

/// What turns a message into sealed bytes: the cipher of a Noise session, or nothing.
pub(super) enum Cipher {
    Noise(Box<StatelessTransportState>),
    /// The same bytes, zeros where the tag stands: for measuring on loopback.
    Plain,
}

impl Cipher {
    /// Writes `plain` and its tag to the front of `out`, which must have room for both. `counter` must
    /// never come twice.
    pub(super) fn seal(&self, counter: u64, plain: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let bytes = plain.len() + TAG_BYTES;
        let out = out.get_mut(..bytes).ok_or(SealError::BufferTooSmall { needed: bytes })?;
        match self {
            Self::Noise(noise) => noise
                .write_message(counter, plain, out)
                .map_err(|_| SealError::TooLarge { max: usize::from(u16::MAX) - TAG_BYTES }),
            Self::Plain => {
                let (text, tag) = out.split_at_mut(plain.len());
                text.copy_from_slice(plain);
                tag.fill(0);
                Ok(bytes)
            }
        }
    }

    /// Opens `sealed` into the front of `out` and returns the bytes of the message. `out` must be as long
    /// as `sealed`: the cipher works in place there, and a shorter one would cost it an allocation.
    pub(super) fn open(&self, counter: u64, sealed: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        if out.len() < sealed.len() {
            return Err(SealError::BufferTooSmall { needed: sealed.len() });
        }
        match self {
            Self::Noise(noise) => noise.read_message(counter, sealed, out).map_err(|_| SealError::Forged),
            Self::Plain => {
                let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(SealError::Forged)?;
                if *tag != [0; TAG_BYTES] {
                    return Err(SealError::Forged);
                }
                out[..text.len()].copy_from_slice(text);
                Ok(text.len())
            }
        }
    }
}

/// What both halves know.
struct Shared {
    cipher: Cipher,
    /// Index that the peer writes into its packets.
    local: u32,
    /// Index that we write into ours.
    peer: u32,
    born_us: u64,
    /// Counter of the next message we seal.
    next: AtomicU64,
}

impl Shared {
    fn is_old(&self, now_us: u64, messages: u64) -> bool {
        messages >= REKEY_AFTER_MESSAGES || now_us.saturating_sub(self.born_us) >= REKEY_AFTER_US
    }
}

/// Both halves of a session.
pub struct Session {
    /// The half that sends.
    pub sealer: Sealer,
    /// The half that receives.
    pub opener: Opener,
}

impl Session {
    pub(super) fn new(cipher: Cipher, local: u32, peer: u32, now_us: u64) -> Self {
        let shared = Arc::new(Shared { cipher, local, peer, born_us: now_us, next: AtomicU64::new(0) });
        let opener = Opener { shared: Arc::clone(&shared), window: Window::default() };
        Self { sealer: Sealer { shared }, opener }
    }

    /// A session without a cipher, with the same framing, counters and replay window: what sealing costs
    /// is measured against it. The caller must see to it that it never leaves loopback. `local` and
    /// `peer` are the indexes of the two ends.
    pub fn plain(local: u32, peer: u32, now_us: u64) -> Self {
        Self::new(Cipher::Plain, local, peer, now_us)
    }
}

/// The sending half. Clones share one counter, so any number of threads may seal at once.
#[derive(Clone)]
pub struct Sealer {
    shared: Arc<Shared>,
}

impl Sealer {
    /// Seals `plain` into a datagram at the front of `out` and returns its length, which is
    /// [`DATA_OVERHEAD_BYTES`] more than the message has.
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`]; [`SealError::TooLarge`] beyond 65 519 bytes;
    /// [`SealError::Exhausted`] after [`REJECT_AFTER_MESSAGES`].
    pub fn seal(&self, plain: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let needed = plain.len() + DATA_OVERHEAD_BYTES;
        let Some((header, body)) = out.split_first_chunk_mut::<DATA_HEADER_BYTES>() else {
            return Err(SealError::BufferTooSmall { needed });
        };
        if body.len() < plain.len() + TAG_BYTES {
            return Err(SealError::BufferTooSmall { needed });
        }
        // Relaxed: all that matters is that nobody gets the same number.
        let counter = self.shared.next.fetch_add(1, Ordering::Relaxed);
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(SealError::Exhausted);
        }
        *header = write_data_header(self.shared.peer, counter);
        Ok(DATA_HEADER_BYTES + self.shared.cipher.seal(counter, plain, body)?)
    }

    /// Messages sealed so far.
    pub fn messages(&self) -> u64 {
        self.shared.next.load(Ordering::Relaxed)
    }

    /// Whether new keys are due, by age or by messages sent. The initiator then shakes hands anew beside this session,
    /// which goes on working.
    pub fn needs_rekey(&self, now_us: u64) -> bool {
        self.shared.is_old(now_us, self.messages())
    }

    /// The index that the peer's packets carry.
    pub fn local_index(&self) -> u32 {
        self.shared.local
    }

    /// Whether `hint` says that the peer does not know this session, about a packet that was sent lately.
    /// Whoever reads our packets can make such a hint, and nobody else: it may cost a handshake, never a
    /// session.
    pub fn is_doubted_by(&self, hint: &[u8]) -> bool {
        let sent = self.messages();
        let lately = sent.saturating_sub(DOUBT_MESSAGES)..sent;
        read_no_session(hint).is_some_and(|(index, at)| index == self.shared.peer && lately.contains(&at))
    }

    #[cfg(test)]
    pub(super) fn skip_to(&self, counter: u64) {
        self.shared.next.store(counter, Ordering::Relaxed);
    }
}

/// The receiving half, with the replay window.
pub struct Opener {
    shared: Arc<Shared>,
    window: Window,
}

impl Opener {
    /// Opens `datagram` into the front of `out` and returns the length of the message. `out` must be as
    /// long as the datagram less its header of 16 bytes; what it holds after an error means nothing.
    ///
    /// # Errors
    /// [`SealError::Malformed`], [`SealError::UnknownSession`] (another receiver index),
    /// [`SealError::Replayed`], [`SealError::TooOld`], [`SealError::Forged`],
    /// [`SealError::Exhausted`], [`SealError::BufferTooSmall`]. None of them changes the window.
    pub fn open(&mut self, datagram: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let (receiver, counter, sealed) = read_data(datagram)?;
        if receiver != self.shared.local {
            return Err(SealError::UnknownSession);
        }
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(SealError::Exhausted);
        }
        self.window.check(counter)?;
        let bytes = self.shared.cipher.open(counter, sealed, out)?;
        // Only now: a forged packet must not move the window.
        self.window.accept(counter)?;
        Ok(bytes)
    }

    /// Whether new keys are due, by age or by messages received.
    pub fn needs_rekey(&self, now_us: u64) -> bool {
        self.shared.is_old(now_us, self.window.top())
    }

    /// The index that the peer's packets carry.
    pub fn local_index(&self) -> u32 {
        self.shared.local
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Chance, Pair, open_one, seal_one};
    use super::super::window::WINDOW_PACKETS;
    use super::*;

    fn both(test: impl Fn(Pair)) {
        test(Pair::sealed());
        test(Pair::plain());
    }

    #[test]
    fn messages_of_all_lengths_go_both_ways() {
        both(|mut pair| {
            for bytes in [0, 1, 15, 16, 17, 200, 1368, 9000, 65_519] {
                let message: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
                let there = seal_one(&pair.a, &message);
                assert_eq!(there.len(), bytes + 32);
                assert_eq!(open_one(&mut pair.b, &there), Ok(message.clone()));
                let back = seal_one(&pair.b, &message);
                assert_eq!(open_one(&mut pair.a, &back), Ok(message));
            }
        });
    }

    /// Breaks when the replay window is taken out of [`Opener::open`].
    #[test]
    fn a_replayed_packet_is_refused_at_once_later_and_beyond_the_window() {
        both(|mut pair| {
            let packets: Vec<_> = (0..WINDOW_PACKETS + 10).map(|_| seal_one(&pair.a, b"pay")).collect();
            assert_eq!(open_one(&mut pair.b, &packets[0]), Ok(b"pay".to_vec()));
            assert_eq!(open_one(&mut pair.b, &packets[0]), Err(SealError::Replayed));
            assert_eq!(open_one(&mut pair.b, &packets[9]), Ok(b"pay".to_vec()));
            assert_eq!(open_one(&mut pair.b, &packets[0]), Err(SealError::Replayed));
            let last = packets.last().unwrap();
            assert_eq!(open_one(&mut pair.b, last), Ok(b"pay".to_vec()));
            assert_eq!(open_one(&mut pair.b, &packets[0]), Err(SealError::TooOld));
            assert_eq!(open_one(&mut pair.b, &packets[9]), Err(SealError::TooOld));
            assert_eq!(open_one(&mut pair.b, last), Err(SealError::Replayed));
        });
    }

    #[test]
    fn reordered_packets_all_open_once() {
        both(|mut pair| {
            let mut packets: Vec<_> = (0..2000_u32).map(|i| seal_one(&pair.a, &i.to_le_bytes())).collect();
            Chance::new(3).shuffle(&mut packets);
            let mut seen: Vec<_> =
                packets.iter().map(|packet| open_one(&mut pair.b, packet).unwrap()).collect();
            seen.sort_by_key(|bytes| u32::from_le_bytes(bytes.as_slice().try_into().unwrap()));
            seen.dedup();
            assert_eq!(seen.len(), 2000);
            for packet in &packets {
                assert_eq!(open_one(&mut pair.b, packet), Err(SealError::Replayed));
            }
        });
    }

    #[test]
    fn a_counter_far_ahead_opens_when_genuine_and_moves_nothing_when_forged() {
        let mut pair = Pair::sealed();
        let early = seal_one(&pair.a, b"early");
        let mut forged = early.clone();
        forged[8..16].copy_from_slice(&(1_u64 << 50).to_le_bytes());
        assert_eq!(open_one(&mut pair.b, &forged), Err(SealError::Forged));
        assert_eq!(open_one(&mut pair.b, &early), Ok(b"early".to_vec()));
        pair.a.sealer.skip_to(1 << 50);
        let late = seal_one(&pair.a, b"late");
        assert_eq!(open_one(&mut pair.b, &late), Ok(b"late".to_vec()));
        assert_eq!(open_one(&mut pair.b, &early), Err(SealError::TooOld));
    }

    #[test]
    fn nothing_is_sealed_or_opened_beyond_the_last_counter() {
        both(|mut pair| {
            pair.a.sealer.skip_to(REJECT_AFTER_MESSAGES - 1);
            let last = seal_one(&pair.a, b"x");
            assert_eq!(pair.a.sealer.seal(b"x", &mut [0; 64]), Err(SealError::Exhausted));
            assert_eq!(open_one(&mut pair.b, &last), Ok(b"x".to_vec()));
            for counter in [REJECT_AFTER_MESSAGES, u64::MAX] {
                let mut beyond = last.clone();
                beyond[8..16].copy_from_slice(&counter.to_le_bytes());
                assert_eq!(open_one(&mut pair.b, &beyond), Err(SealError::Exhausted));
            }
        });
    }

    #[test]
    fn new_keys_are_due_by_age_and_by_messages_either_way() {
        let mut pair = Pair::plain();
        for (now_us, due) in [(REKEY_AFTER_US - 1, false), (REKEY_AFTER_US, true)] {
            assert_eq!(pair.a.sealer.needs_rekey(now_us), due);
            assert_eq!(pair.a.opener.needs_rekey(now_us), due);
        }
        pair.a.sealer.skip_to(REKEY_AFTER_MESSAGES);
        assert!(pair.a.sealer.needs_rekey(0));
        assert!(!pair.b.sealer.needs_rekey(0) && !pair.b.opener.needs_rekey(0));
        let packet = seal_one(&pair.a, b"x");
        open_one(&mut pair.b, &packet).unwrap();
        assert!(pair.b.opener.needs_rekey(0) && !pair.b.sealer.needs_rekey(0));
    }

    #[test]
    fn short_buffers_are_refused_before_a_counter_is_spent() {
        both(|mut pair| {
            let needed = 5 + DATA_OVERHEAD_BYTES;
            for bytes in 0..needed {
                let refused = pair.a.sealer.seal(b"hello", &mut vec![0; bytes]);
                assert_eq!(refused, Err(SealError::BufferTooSmall { needed }));
            }
            assert_eq!(pair.a.sealer.messages(), 0);
            let packet = seal_one(&pair.a, b"hello");
            for bytes in 0..packet.len() - DATA_HEADER_BYTES {
                let refused = pair.b.opener.open(&packet, &mut vec![0; bytes]);
                assert_eq!(refused, Err(SealError::BufferTooSmall { needed: 21 }));
            }
            assert_eq!(open_one(&mut pair.b, &packet), Ok(b"hello".to_vec()));
        });
    }

    #[test]
    fn a_sealed_packet_does_not_open_where_the_seal_is_off() {
        let mut pair = Pair::plain();
        let mut packet = seal_one(&pair.a, b"hello");
        *packet.last_mut().unwrap() = 1;
        assert_eq!(open_one(&mut pair.b, &packet), Err(SealError::Forged));
        *packet.last_mut().unwrap() = 0;
        assert_eq!(open_one(&mut pair.b, &packet), Ok(b"hello".to_vec()));
    }

    #[test]
    fn threads_that_share_a_sealer_never_share_a_counter() {
        let mut pair = Pair::sealed();
        let packets: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let sealer = pair.a.sealer.clone();
                    scope.spawn(move || {
                        let one = |_| {
                            let mut out = vec![0; 40];
                            sealer.seal(b"together", &mut out).map(|_| out)
                        };
                        (0..300).map(one).collect::<Result<Vec<_>, _>>().unwrap()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(packets.iter().all(|packet| open_one(&mut pair.b, packet).is_ok()));
        assert_eq!(packets.len(), 1200);
    }
}
