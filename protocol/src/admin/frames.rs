//! Admin requests and answers as bytes. Pure: sockets are read and written by the command line, with
//! blocking calls, and by the scheduler, with tokio.
//!
//! A frame is a length, u32 little endian, and that many bytes of JSON: a [`super::Request`] one way, a
//! [`super::Response`] the other, one for each request, in order. Behind a request that announces a content
//! come frames that are no JSON: its [pieces](super::pieces). The local socket carries frames as they
//! are. A sealed stream carries them cut into records, see [`records`], after a first record that is the
//! one byte [`ADMIN_STREAM`]; a frame may begin and end anywhere in a record.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first record of a caller who will send admin requests; a scheduler tells callers apart by it.
pub const ADMIN_STREAM: u8 = crate::bulk::ADMIN;
/// Bytes of a frame's length.
pub const FRAME_HEADER_BYTES: usize = 4;
/// Longest JSON of a frame: a search for six million targets still fits. Nobody sets memory aside for a
/// length that is only announced.
pub const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest request of somebody who may only look: such keys are given to many.
pub const WATCH_BYTES_MAX: usize = 64 << 10;
/// Bytes of a frame that one sealed record carries at most.
pub const RECORD_BYTES_MAX: usize = crate::seal::stream::RECORD_PLAIN_MAX;

/// Why a frame cannot be written or read. After an error in reading, the connection must be closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// It has, or announces, more bytes than are allowed: at most [`FRAME_BYTES_MAX`], of who may only look
    /// [`WATCH_BYTES_MAX`].
    TooLong(usize),
    /// It is not the JSON that was expected here; the text says why.
    Malformed(String),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => {
                write!(f, "a message of {bytes} bytes is longer than is allowed here")
            }
            Self::Malformed(why) => write!(f, "not a message that this version knows: {why}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The frame of `message`.
///
/// # Errors
/// [`FrameError::TooLong`]; [`FrameError::Malformed`] where it has no JSON, which no message of ours does.
pub fn frame<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(|e| FrameError::Malformed(e.to_string()))?;
    let length = bytes.len() - FRAME_HEADER_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    bytes[..FRAME_HEADER_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// The frame of what is no JSON; at most [`FRAME_BYTES_MAX`].
pub(super) fn raw_frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

/// What the records of a sealed stream carry of `frame`, in order.
pub fn records(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    frame.chunks(RECORD_BYTES_MAX)
}

/// Puts frames together from bytes as they come in, in pieces of any size.
pub struct FrameReader {
    held: Vec<u8>,
    bytes_max: usize,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::limited(FRAME_BYTES_MAX)
    }
}

impl FrameReader {
    /// One for messages of at most so many bytes.
    pub fn limited(bytes_max: usize) -> Self {
        Self { held: Vec::new(), bytes_max }
    }

    /// Adds bytes that came in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next message; `None` until all of it is there. To be called until it gives `None`.
    ///
    /// # Errors
    /// [`FrameError`], as soon as a length that is too long is there.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(json) = self.body(self.bytes_max)? else { return Ok(None) };
        let (message, length) = (serde_json::from_slice(json), json.len());
        let message = message.map_err(|e| FrameError::Malformed(e.to_string()))?;
        self.held.drain(..FRAME_HEADER_BYTES + length);
        Ok(Some(message))
    }

    /// The next frame as it is, of at most so many bytes; `None` until all of it is there.
    ///
    /// # Errors
    /// [`FrameError::TooLong`], as soon as the length is there.
    pub fn next_bytes(&mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, FrameError> {
        let Some(body) = self.body(bytes_max)?.map(<[u8]>::to_vec) else { return Ok(None) };
        self.held.drain(..FRAME_HEADER_BYTES + body.len());
        Ok(Some(body))
    }

    /// The next frame without its length, once all of it is there.
    fn body(&self, bytes_max: usize) -> Result<Option<&[u8]>, FrameError> {
        let Some((header, rest)) = self.held.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        match u32::from_le_bytes(*header) as usize {
            length if length > bytes_max => Err(FrameError::TooLong(length)),
            length => Ok(rest.get(..length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Request, Response};
    use super::*;
    use crate::ids::JobId;

    #[test]
    fn messages_come_back_whatever_pieces_they_come_in() {
        let requests = [Request::Status, Request::Jobs { ids: vec![JobId(7)] }, Request::Nodes];
        let bytes: Vec<u8> = requests.iter().flat_map(|request| frame(request).unwrap()).collect();
        for piece in [1, 2, 3, 5, 64, bytes.len()] {
            let mut reader = FrameReader::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                reader.push(part);
                while let Some(request) = reader.next_message::<Request>().unwrap() {
                    found.push(request);
                }
            }
            assert_eq!(found, requests, "in pieces of {piece}");
            assert_eq!(reader.held.len(), 0);
        }
    }

    #[test]
    fn a_frame_is_a_length_and_json() {
        assert_eq!(frame(&Response::Done).unwrap(), b"\x06\0\0\0\"done\"");
    }

    #[test]
    fn a_cut_frame_is_held() {
        let mut reader = FrameReader::default();
        reader.push(&frame(&Request::Keys).unwrap()[..7]);
        assert_eq!(reader.next_message::<Request>(), Ok(None));
        assert_eq!(reader.held.len(), 7);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
        let mut reader = FrameReader::default();
        reader.push(&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes());
        assert_eq!(reader.next_message::<Request>(), Err(FrameError::TooLong(FRAME_BYTES_MAX + 1)));
        let mut reader = FrameReader::limited(WATCH_BYTES_MAX);
        reader.push(&(WATCH_BYTES_MAX as u32 + 1).to_le_bytes());
        assert_eq!(reader.next_message::<Request>(), Err(FrameError::TooLong(WATCH_BYTES_MAX + 1)));
    }

    #[test]
    fn what_is_no_request_is_malformed() {
        for json in ["", "{}", "\"reboot\"", "{\"jobs\":{\"ids\":[],\"more\":1}}", "\u{0}"] {
            let mut reader = FrameReader::default();
            reader.push(&(json.len() as u32).to_le_bytes());
            reader.push(json.as_bytes());
            let found = reader.next_message::<Request>();
            assert!(matches!(found, Err(FrameError::Malformed(_))), "{json}: {found:?}");
        }
    }

    #[test]
    fn records_carry_a_frame_in_order() {
        let frame: Vec<u8> = (0..RECORD_BYTES_MAX * 2 + 9).map(|i| i as u8).collect();
        let lengths: Vec<usize> = records(&frame).map(<[u8]>::len).collect();
        assert_eq!(lengths, [RECORD_BYTES_MAX, RECORD_BYTES_MAX, 9]);
        assert_eq!(records(&frame).collect::<Vec<_>>().concat(), frame);
    }
}
