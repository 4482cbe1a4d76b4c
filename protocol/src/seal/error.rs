//! What can be wrong with a packet, a key or a call. Words of refusal that travel to the peer live in
//! `refusal.rs`; whatever is listed here stays on this side, and its sender gets no answer.

use std::fmt;

use super::refusal::Refusal;

/// Why a packet was not accepted, or a call not carried out. Anything a stranger sends ends here as a
/// value, never as a panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealError {
    /// Wrong length, type or reserved bytes; the text says which. The sender's fault; drop the packet.
    Malformed(&'static str),
    /// The initiation names a join key this farm never had, so no answer could be sealed.
    UnknownJoinKey,
    /// No session has this receiver index: it ended, was revoked, or belongs to an earlier epoch.
    UnknownSession,
    /// The seal did not open: forged, damaged, or made with other keys.
    Forged,
    /// This counter was received before.
    Replayed,
    /// This counter is older than the replay window reaches.
    TooOld,
    /// The session has carried as many messages as its keys may: shake hands anew.
    Exhausted,
    /// The caller's buffer is too short.
    BufferTooSmall {
        /// Bytes it must have.
        needed: usize,
    },
    /// The caller's message is too long.
    TooLarge {
        /// Bytes it may have.
        max: usize,
    },
    /// Too many shake hands in this second, from this address or in all.
    Busy,
    /// This handshake has had its answer.
    Finished,
    /// An earlier record of this stream did not open; the connection must be closed.
    Broken,
    /// The peer proved its keys, and the farm's rules do not admit it (any more).
    Refused(Refusal),
    /// A node's name that breaks the rule of [`super::keys::is_valid_name`].
    BadName,
    /// The system gave no random numbers, so no key could be made.
    NoRandomness,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "not a starfarm packet: {what}"),
            Self::UnknownJoinKey => f.write_str("the join key is not one of this farm's"),
            Self::UnknownSession => f.write_str("no such session: its peer must shake hands anew"),
            Self::Forged => f.write_str("the seal does not open: forged, damaged, or other keys"),
            Self::Replayed => f.write_str("replayed: this packet was received before"),
            Self::TooOld => f.write_str("older than the replay window reaches"),
            Self::Exhausted => f.write_str("the session's keys are used up: shake hands anew"),
            Self::BufferTooSmall { needed } => write!(f, "the buffer must have {needed} bytes"),
            Self::TooLarge { max } => write!(f, "a message may have {max} bytes: split it"),
            Self::Busy => f.write_str("too many shake hands at one time: try again"),
            Self::Finished => f.write_str("this handshake has had its answer: start another"),
            Self::Broken => f.write_str("an earlier record did not open: close the connection"),
            Self::Refused(refusal) => write!(f, "refused: {}", refusal.word()),
            Self::BadName => f.write_str(super::refusal::NAME_RULE),
            Self::NoRandomness => f.write_str("the system gives no random numbers: is /dev/urandom there?"),
        }
    }
}

impl std::error::Error for SealError {}
