//! One link: a socket that never blocks, its handshake, and then the seal and the lanes. Whose turn it is, and what comes
//! of a link's end, is decided in `reactor`.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use starfarm_overlay_core::lanes::{Full, Lane, Lanes};
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::seal::stream::{FRAME_HEADER_BYTES, Stream, frame_bytes};
use starfarm_protocol::seal::{Initiator, Outcome};

/// Bytes that are sealed ahead of what the socket takes: what is urgent waits behind no more than that.
const AHEAD_BYTES: usize = 16 * 1024;
/// Bytes read from a link before others have their turn.
const TURN_BYTES: usize = 256 * 1024;

/// How far a link is.
enum Phase {
    /// Its response is awaited; then the first record goes.
    Calls { initiator: Box<Initiator>, farm: FarmId, first: Vec<u8> },
    /// Records go both ways.
    Up(Box<Stream>),
}

pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    phase: Phase,
    pub(crate) lanes: Lanes,
    /// Frames that the socket has not taken yet, and how much of them it has.
    out: Vec<u8>,
    taken: usize,
    /// What was read and is no whole frame yet.
    rest: Vec<u8>,
    /// There may be more to read than was read.
    pub(crate) readable: bool,
    pub(crate) heard_us: u64,
    pub(crate) said_us: u64,
}

/// What was read from a link.
pub(crate) enum Came {
    /// Its handshake is over.
    Up,
    /// A record.
    Record(Vec<u8>),
}

impl Link {
    /// A link whose caller has sent nothing yet: `hello` goes first, and `first` once there is an answer of `farm`.
    pub(crate) fn calls(
        socket: TcpStream,
        (initiator, hello): (Initiator, Vec<u8>),
        farm: FarmId,
        first: Vec<u8>,
        now_us: u64,
    ) -> Self {
        Self::new(socket, Phase::Calls { initiator: Box::new(initiator), farm, first }, hello, now_us)
    }

    /// A link that has shaken hands.
    pub(crate) fn up(socket: TcpStream, stream: Stream, now_us: u64) -> Self {
        Self::new(socket, Phase::Up(Box::new(stream)), Vec::new(), now_us)
    }

    fn new(socket: TcpStream, phase: Phase, out: Vec<u8>, now_us: u64) -> Self {
        let (lanes, rest) = (Lanes::default(), Vec::new());
        Self { socket, phase, lanes, out, taken: 0, rest, readable: true, heard_us: now_us, said_us: now_us }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up(_))
    }

    /// Puts a record into a lane.
    pub(crate) fn put(&mut self, lane: Lane, record: Vec<u8>, now_us: u64) -> Result<(), Full> {
        self.said_us = now_us;
        self.lanes.put(lane, record)
    }

    /// Reads what there is, up to a turn's worth.
    ///
    /// # Errors
    /// The link is of no use any more; why, in words.
    pub(crate) fn read(&mut self, now_us: u64, came: &mut Vec<Came>) -> Result<(), String> {
        let mut piece = [0; 32 * 1024];
        for _ in 0..TURN_BYTES / piece.len() {
            match self.socket.read(&mut piece) {
                Ok(0) => return Err("it has hung up".into()),
                Ok(count) => {
                    self.heard_us = now_us;
                    self.rest.extend_from_slice(&piece[..count]);
                    self.take_frames(came)?;
                }
                // Before it is connected, some systems have a word of their own.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) =>
                {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Opens all frames that have come whole.
    fn take_frames(&mut self, came: &mut Vec<Came>) -> Result<(), String> {
        let mut start = 0;
        while let Some(header) = self.rest[start..].first_chunk::<FRAME_HEADER_BYTES>() {
            let bytes = frame_bytes(*header).map_err(|error| error.to_string())?;
            let body = start + FRAME_HEADER_BYTES;
            let Some(frame) = self.rest.get(body..body + bytes) else { break };
            match &mut self.phase {
                Phase::Up(stream) => {
                    let mut record = Vec::new();
                    stream.opener.open(frame, &mut record).map_err(|error| error.to_string())?;
                    came.push(Came::Record(record));
                }
                Phase::Calls { initiator, farm, first } => {
                    let mut stream = answered(initiator, *farm, frame)?;
                    stream.sealer.seal(first, &mut self.out).map_err(|error| error.to_string())?;
                    self.phase = Phase::Up(Box::new(stream));
                    came.push(Came::Up);
                }
            }
            start = body + bytes;
        }
        self.rest.drain(..start);
        Ok(())
    }

    /// Writes what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub(crate) fn write(&mut self) -> Result<(), String> {
        loop {
            self.seal_ahead()?;
            if self.taken == self.out.len() {
                return Ok(());
            }
            match self.socket.write(&self.out[self.taken..]) {
                Ok(count) => self.taken += count,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) =>
                {
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Seals the next records, so that as many as fit leave together.
    fn seal_ahead(&mut self) -> Result<(), String> {
        if self.taken == self.out.len() {
            self.out.clear();
            self.taken = 0;
        }
        let Phase::Up(stream) = &mut self.phase else { return Ok(()) };
        while self.out.len() - self.taken < AHEAD_BYTES
            && let Some(record) = self.lanes.take_next()
        {
            stream.sealer.seal(&record, &mut self.out).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The stream that an answer begins, if it is one of that farm that agrees.
fn answered(initiator: &mut Initiator, farm: FarmId, frame: &[u8]) -> Result<Stream, String> {
    match initiator.read_response(frame).map_err(|error| error.to_string())? {
        Outcome::Accepted(accepted) if accepted.farm == farm => Ok(accepted.into_stream()),
        Outcome::Accepted(_) => Err("it is of another farm".into()),
        Outcome::Refused { reason, .. } => Err(reason),
    }
}
