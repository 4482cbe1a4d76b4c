//! The same handshake and seal over a byte stream, for TCP. Pure: bytes in, bytes out, so that blocking
//! sockets and tokio can both drive it. Reading and writing the bytes, time limits and what the records
//! mean live elsewhere.
//!
//! A frame is a length, u32 little endian, and that many bytes. The first frame each way is a handshake
//! packet, every later one a record: a sealed message whose counter is its place in the stream. Reading
//! is the same everywhere: 4 bytes, [`frame_bytes`], as many bytes more, then the step that is due.
//!
//! The end of a stream is not sealed: whoever cuts the connection can cut off the last records, so the
//! records themselves must say what is complete.

use std::sync::Arc;

use super::door::Door;
use super::error::SealError;
use super::handshake::{Accepted, Initiator, Introduction, Peer, Pending, Reply, Request, Responder};
use super::packet::{InitiationHeader, Mode, TAG_BYTES};
use super::refusal::Refusal;
use super::session::Cipher;
use crate::ids::JoinKeyId;

/// Bytes of a frame's length.
pub const FRAME_HEADER_BYTES: usize = 4;
/// Longest frame: the longest Noise message.
pub const FRAME_BYTES_MAX: usize = 65_535;
/// Longest message of a record.
pub const RECORD_PLAIN_MAX: usize = FRAME_BYTES_MAX - TAG_BYTES;

/// Bytes that follow a frame's length. Asked before any memory is taken for them.
///
/// # Errors
/// [`SealError::Malformed`] for more than [`FRAME_BYTES_MAX`] or fewer than a tag's 16.
pub fn frame_bytes(header: [u8; FRAME_HEADER_BYTES]) -> Result<usize, SealError> {
    let bytes = u32::from_le_bytes(header) as usize;
    if !(TAG_BYTES..=FRAME_BYTES_MAX).contains(&bytes) {
        return Err(SealError::Malformed("a frame of this length does not exist"));
    }
    Ok(bytes)
}

/// Both directions of a stream after its handshake; each side keeps one pair.
pub struct Stream {
    /// The direction that sends.
    pub sealer: StreamSealer,
    /// The direction that receives.
    pub opener: StreamOpener,
}

impl Stream {
    fn new(cipher: Cipher) -> Self {
        let cipher = Arc::new(cipher);
        let opener = StreamOpener { cipher: Arc::clone(&cipher), counter: 0, broken: false };
        Self { sealer: StreamSealer { cipher, counter: 0 }, opener }
    }
}

/// The direction that sends.
pub struct StreamSealer {
    cipher: Arc<Cipher>,
    counter: u64,
}

impl StreamSealer {
    /// Appends a frame with `plain`, sealed, to `out`. An empty message is a record too.
    ///
    /// # Errors
    /// [`SealError::TooLarge`] beyond [`RECORD_PLAIN_MAX`]; `out` is then unchanged.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        if plain.len() > RECORD_PLAIN_MAX {
            return Err(SealError::TooLarge { max: RECORD_PLAIN_MAX });
        }
        let start = out.len();
        let bytes = plain.len() + TAG_BYTES;
        out.extend((bytes as u32).to_le_bytes());
        out.resize(start + FRAME_HEADER_BYTES + bytes, 0);
        self.cipher.seal(self.counter, plain, &mut out[start + FRAME_HEADER_BYTES..])?;
        self.counter += 1;
        Ok(())
    }
}

/// The direction that receives.
pub struct StreamOpener {
    cipher: Arc<Cipher>,
    counter: u64,
    broken: bool,
}

impl StreamOpener {
    /// Opens the record in a frame's `body` into `out`, which is cleared first. After an error no record
    /// opens any more: on a stream a wrong byte is an attack or a bug, never a loss.
    ///
    /// # Errors
    /// [`SealError::Forged`] for a record that was changed, repeated, left out or moved;
    /// [`SealError::Broken`] after that.
    pub fn open(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        if self.broken {
            return Err(SealError::Broken);
        }
        out.clear();
        out.resize(body.len(), 0);
        match self.cipher.open(self.counter, body, out) {
            Ok(bytes) => {
                out.truncate(bytes);
                self.counter += 1;
                Ok(())
            }
            Err(error) => {
                out.clear();
                self.broken = true;
                Err(error)
            }
        }
    }
}

impl Accepted {
    /// The stream, after a handshake that [`call`] began.
    pub fn into_stream(self) -> Stream {
        Stream::new(self.established.cipher)
    }
}

/// Begins the calling side's handshake: the second value is the frame to send. The body of the scheduler's first frame is
/// for [`Initiator::read_response`]; after an error of that the connection must be closed. `who.mode.stream` is set here.
///
/// # Errors
/// As [`Initiator::start`].
pub fn call(who: &Introduction<'_>) -> Result<(Initiator, Vec<u8>), SealError> {
    let mode = Mode { stream: true, ..who.mode };
    // A stream is its own index.
    let (initiator, packet) = Initiator::start(&Introduction { mode, ..*who }, 0, None)?;
    Ok((initiator, frame(&packet)))
}

/// Answers the body of a stream's first frame: the frame to send, and what to keep until the caller's first record opens,
/// or why to close. `responder` must be one for streams; `source` is the caller's IP address and port.
///
/// # Errors
/// As [`Responder::answer`]; the connection must then be closed without an answer.
pub fn answer(
    responder: &mut Responder,
    door: &impl Door,
    body: &[u8],
    source: &[u8],
    now_us: u64,
) -> Result<(Vec<u8>, Result<Pending, Refusal>), SealError> {
    match responder.answer(door, &Request { datagram: body, source, index: 0, now_us })? {
        Reply::Accepted { bytes, pending } => Ok((frame(&bytes), Ok(pending))),
        Reply::Refused { bytes, refusal, .. } => Ok((frame(&bytes), Err(refusal))),
        Reply::Cookie { .. } => Err(SealError::Malformed("a responder for streams is needed here")),
    }
}

/// The join key id that the body of a stream's first frame names, by which whoever answers finds its door.
pub fn join_key(body: &[u8]) -> Option<JoinKeyId> {
    InitiationHeader::read(body).ok().map(|header| header.join_key)
}

impl Pending {
    /// Opens the first record of the stream into `out`, which proves the join secret, and enrols the peer; `now_unix`
    /// is in seconds since 1970. Nothing can be sealed for the peer before. The last value says whether the store has changed and must be written.
    /// Whether the role may have what it asks for is for the caller to check, see [`super::Role::may`].
    ///
    /// # Errors
    /// [`SealError::Forged`]; [`SealError::Refused`] where the rules have changed since the handshake, or
    /// another key took the name. The connection must be closed.
    pub fn confirm(
        self,
        door: &mut impl Door,
        body: &[u8],
        out: &mut Vec<u8>,
        now_unix: u64,
    ) -> Result<(Stream, Peer, bool), SealError> {
        let mut stream = Stream::new(self.established.cipher);
        stream.opener.open(body, out)?;
        let store_changed = door.enrol(&self.peer.claim, now_unix).map_err(SealError::Refused)?;
        Ok((stream, self.peer, store_changed))
    }
}

/// `packet` with its length before it.
fn frame(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + packet.len());
    bytes.extend((packet.len() as u32).to_le_bytes());
    bytes.extend(packet);
    bytes
}
