//! Sealed sessions: how two programs of a farm prove who they are and then talk so that nobody else can
//! read, change, repeat or invent a message. Sockets, clocks, files and random numbers live at the rim:
//! time comes in as monotonic microseconds `now_us`, random numbers as arguments; only Noise draws its
//! own ephemeral keys.
//!
//! The model is WireGuard (J. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel"), with Noise
//! `Noise_IKpsk2_25519_AESGCM_SHA256`: the caller knows the scheduler's public key, the scheduler learns
//! the caller's in the first message, and the psk is a join secret. AES-GCM, because ring seals 1 400
//! bytes with it in a fraction of a microsecond.
//!
//! # Packets
//! All numbers are little endian, all lengths fixed but that of data.
//!
//! | 1: initiation | bytes | |
//! | --- | --- | --- |
//! | type | 1 | 1 |
//! | version | 1 | [`SEAL_VERSION`] |
//! | flags | 2 | bit 0: on a stream; bit 1: the messages are not sealed (loopback only); others 0 |
//! | sender index | 4 | random; answers and data carry it |
//! | join key id | 8 | which join secret is the psk |
//! | ephemeral key | 32 | Noise message 1: `e, es, s, ss` |
//! | static key, sealed | 48 | |
//! | greeting, sealed | 272 | boot u64, name length u8, name 64, zeros; 256 bytes and a tag |
//! | cookie mac | 16 | first half of BLAKE3 of all before, keyed by the cookie; zeros without one |
//!
//! | 2: response | bytes | |
//! | --- | --- | --- |
//! | type | 1 | 2 |
//! | version, flags | 3 | those of the initiation |
//! | receiver index | 4 | the initiation's sender index |
//! | ephemeral key | 32 | Noise message 2: `e, ee, se, psk` |
//! | answer, sealed | 272 | status u8 (0 accepted, else [`Refusal`]), role u8, responder's version u8, reason length u8, responder's index u32, epoch u64, farm id 16, reason 224; a tag |
//!
//! | 3: cookie answer | bytes | |
//! | --- | --- | --- |
//! | type | 1 | 3 |
//! | version, flags, receiver index | 7 | as in a response |
//! | cookie, masked | 32 | XOR of the cookie and BLAKE3 of B, keyed by K |
//! | tag | 16 | first half of BLAKE3 of B and all before, keyed by K |
//!
//! B is the BLAKE3 of the whole initiation, K is BLAKE3 `derive_key` of the scheduler's public key in the
//! context `starfarm 2026 cookie answer v1`. The join key id is the first 8 bytes of `derive_key` of the
//! join secret in the context `starfarm 2026 join key id v1`.
//!
//! | 4: data | bytes | |
//! | --- | --- | --- |
//! | type | 1 | 4 |
//! | reserved | 3 | 0 |
//! | receiver index | 4 | whose session |
//! | counter | 8 | 0, 1, 2 .. 2^60 - 1 in each direction; the nonce |
//! | message, sealed | n + 16 | no associated data: each header byte is checked, selects the key, or is the nonce |
//!
//! | 5: no session | bytes | |
//! | --- | --- | --- |
//! | type | 1 | 5 |
//! | reserved | 3 | 0 |
//! | receiver index, counter | 12 | those of the data packet that it answers |
//!
//! The prologue is the ASCII text `starfarm/1` and the first 16 bytes of the initiation, so that no clear
//! byte can be changed unnoticed, but for the cookie mac, which proves nothing but an address.
//!
//! On a stream each packet and each record is a frame, a u32 length and that many bytes; records are the
//! sealed message alone, with the counter implied. See [`stream`].
//!
//! # What holds
//! - Nothing is answered that is not a genuine first message, but for a cookie answer under load, and
//!   that only to those who name a join key, and a few hints a second to data packets of unknown sessions.
//!   No answer is larger than what it answers.
//! - A hint proves nothing. It makes a worker shake hands, at most once a second; no session ends by it.
//! - Message 1 proves the static key, the first transport message the join secret: only then is a key
//!   enrolled. An initiation that is replayed leaves one more pending session, of which there is a
//!   bounded number, and nothing else.
//! - The first message's payload (name, boot) would be readable to somebody who stole the scheduler's
//!   private key later; all that follows would not.
//! - The join secret is symmetric: whoever has a join file can read nothing of others, but can enrol.

pub mod cookie;
pub mod door;
pub mod error;
pub mod handshake;
pub mod hint;
mod index;
pub mod keys;
pub mod line;
pub mod packet;
pub mod proof;
pub mod refusal;
pub mod role;
pub mod session;
pub mod store;
pub mod stream;
pub mod table;
pub mod vouch;
pub mod window;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use cookie::Cookie;
pub use door::Door;
pub use error::SealError;
pub use handshake::{Accepted, Initiator, Introduction, Outcome, Peer, Pending, Reply, Request, Responder};
pub use hint::Hints;
pub use keys::{Secret, StaticKey, is_valid_name};
pub use line::{Line, NoLine};
pub use packet::{Kind, Mode};
pub use proof::{EpochProof, EpochProofs, Nonce};
pub use refusal::Refusal;
pub use role::{Action, Role};
pub use session::{Opener, Sealer, Session};
pub use store::{Claim, EnrolledKey, JoinKey, KeyStore, Meant};
pub use table::SessionTable;
pub use vouch::{PairKey, Vouchers, pair_secret, post_name, post_of};

/// Version of the packets above. A scheduler of another version answers in words, so an initiation keeps
/// its layout for good.
pub const SEAL_VERSION: u8 = 1;

/// Opens the prologue of every handshake.
const PROLOGUE: &[u8] = b"starfarm/1";

/// A Noise handshake of ours, before its keys are set.
fn noise_builder<'a>() -> snow::Builder<'a> {
    let params = "Noise_IKpsk2_25519_AESGCM_SHA256".parse();
    snow::Builder::new(params.expect("a fixed name that snow knows, or no test would pass"))
}
