//! A caller's end of a [sealed stream](super::stream) over anything that is read and written with blocking calls.
//! Connecting, and how long a call may block, live with the caller.

use std::fmt;
use std::io::{self, Read, Write};

use super::handshake::{Introduction, Outcome};
use super::stream::{FRAME_HEADER_BYTES, Stream, call, frame_bytes};
use crate::ids::FarmId;

/// A stream that has shaken hands.
pub struct Line<S> {
    io: S,
    stream: Stream,
    frame: Vec<u8>,
    record: Vec<u8>,
}

/// Why there is no line.
#[derive(Debug)]
pub enum NoLine {
    /// Nobody answers, or nobody who has the scheduler's key: [`io::ErrorKind::InvalidData`].
    Broken(io::Error),
    /// The scheduler does not want this caller; why, in words.
    Refused(String),
}

impl fmt::Display for NoLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(error) => error.fmt(f),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for NoLine {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl<S: Read + Write> Line<S> {
    /// Shakes hands with the scheduler of `farm` and sends the first record.
    ///
    /// # Errors
    /// Each [`NoLine`].
    pub fn open(mut io: S, who: &Introduction<'_>, farm: FarmId, first: &[u8]) -> Result<Self, NoLine> {
        let (mut initiator, hello) = call(who).map_err(|error| NoLine::Refused(error.to_string()))?;
        io.write_all(&hello)?;
        let mut frame = Vec::new();
        read_frame(&mut io, &mut frame)?;
        let stream = match initiator.read_response(&frame).map_err(invalid)? {
            Outcome::Accepted(accepted) if accepted.farm == farm => accepted.into_stream(),
            Outcome::Accepted(_) => return Err(invalid("another farm with the same key").into()),
            Outcome::Refused { reason, .. } => return Err(NoLine::Refused(reason)),
        };
        let mut line = Self { io, stream, frame, record: Vec::new() };
        line.send(first)?;
        Ok(line)
    }

    /// Sends a record.
    ///
    /// # Errors
    /// The stream's; it is of no more use then.
    pub fn send(&mut self, record: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.stream.sealer.seal(record, &mut self.frame).map_err(invalid)?;
        self.io.write_all(&self.frame)
    }

    /// Waits for a record.
    ///
    /// # Errors
    /// The stream's; it is of no more use then.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        read_frame(&mut self.io, &mut self.frame)?;
        self.stream.opener.open(&self.frame, &mut self.record).map_err(invalid)?;
        Ok(&self.record)
    }

    /// What it goes over.
    pub fn io(&self) -> &S {
        &self.io
    }
}

/// Reads the body of a frame.
///
/// # Errors
/// The stream's; [`io::ErrorKind::InvalidData`] where there is no frame of such a length.
pub fn read_frame(io: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<()> {
    let mut header = [0; FRAME_HEADER_BYTES];
    io.read_exact(&mut header)?;
    frame.resize(frame_bytes(header).map_err(invalid)?, 0);
    io.read_exact(frame)
}

fn invalid(why: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}
