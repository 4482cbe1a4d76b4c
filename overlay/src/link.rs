//! One link: a socket that never blocks, its handshake, and then the seal and the lanes. Whose turn it is, and what comes
//! of a link's end, is decided in `reactor`.

use std::io::{self, Read, Write};
use std::net::IpAddr;

use mio::net::TcpStream;
use starfarm_overlay_core::pipe::{End, Pipe};
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::seal::stream::{self, FRAME_HEADER_BYTES, Stream, frame_bytes};
use starfarm_protocol::seal::{Claim, Initiator, Outcome, Pending, Responder, Vouchers};

use crate::strangers::Stranger;

/// Bytes that are sealed ahead of what the socket takes: what is urgent waits behind no more than that.
const AHEAD_BYTES: usize = 16 * 1024;
/// Bytes read from a link before others have their turn.
const TURN_BYTES: usize = 256 * 1024;

/// How far a link is.
enum Phase {
    /// Its response is awaited.
    Calls { initiator: Box<Initiator>, farm: FarmId },
    /// Its first frame is awaited, which the reactor answers.
    Accepted,
    /// It was answered; its first record is awaited.
    Answered(Box<Pending>),
    /// Records go both ways.
    Up(Box<Stream>),
}

pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    phase: Phase,
    pub(crate) pipe: Pipe,
    /// Frames that the socket has not taken yet, and how much of them it has.
    out: Vec<u8>,
    taken: usize,
    /// What was read and is no whole frame yet.
    rest: Vec<u8>,
    /// There may be more to read than was read.
    pub(crate) readable: bool,
    /// Somebody has called, and not yet proved to be anybody: from where, and when.
    pub(crate) stranger: Option<Stranger>,
}

/// What was read from a link.
pub(crate) enum Came {
    /// Its handshake is over.
    Up,
    /// A post that called has shaken hands: who it is, and its first record.
    Called(Box<(Claim, Vec<u8>)>),
    /// A record.
    Record(Vec<u8>),
}

/// Whoever calls this process, and what it answers.
pub(crate) struct Host {
    pub(crate) responder: Responder,
    pub(crate) vouchers: Vouchers,
}

impl Host {
    /// Answers a caller's first frame.
    fn answer(
        &mut self,
        frame: &[u8],
        source: &[u8],
        now_us: u64,
    ) -> Result<(Vec<u8>, Result<Pending, String>), String> {
        let answered = stream::answer(&mut self.responder, &self.vouchers, frame, source, now_us);
        let (reply, pending) = answered.map_err(|error| error.to_string())?;
        Ok((reply, pending.map_err(|refusal| refusal.to_string())))
    }
}

impl Link {
    /// A link whose caller has sent nothing yet: `hello` goes first, and then what waits once there is an answer of `farm`.
    pub(crate) fn calls(
        socket: TcpStream,
        (initiator, hello): (Initiator, Vec<u8>),
        farm: FarmId,
        now_us: u64,
    ) -> Self {
        Self::new(socket, Phase::Calls { initiator: Box::new(initiator), farm }, hello, now_us)
    }

    /// A link that has shaken hands.
    pub(crate) fn up(socket: TcpStream, stream: Stream, now_us: u64) -> Self {
        Self::new(socket, Phase::Up(Box::new(stream)), Vec::new(), now_us)
    }

    /// A link that somebody else opened, and has said nothing on yet.
    pub(crate) fn accepted(socket: TcpStream, from: IpAddr, now_us: u64) -> Self {
        let stranger = Some(Stranger { from, since_us: now_us });
        Self { stranger, ..Self::new(socket, Phase::Accepted, Vec::new(), now_us) }
    }

    fn new(socket: TcpStream, phase: Phase, out: Vec<u8>, now_us: u64) -> Self {
        let (pipe, rest, taken, stranger) = (Pipe::new(now_us), Vec::new(), 0, None);
        Self { socket, phase, pipe, out, taken, rest, readable: true, stranger }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up(_))
    }

    /// Reads what there is, up to a turn's worth.
    ///
    /// # Errors
    /// The link is of no use any more, and why.
    pub(crate) fn read(
        &mut self,
        host: &mut Option<Host>,
        now_us: u64,
        came: &mut Vec<Came>,
    ) -> Result<(), End> {
        let mut piece = [0; 32 * 1024];
        for _ in 0..TURN_BYTES / piece.len() {
            match self.socket.read(&mut piece) {
                Ok(0) => return Err(End::Broken("it has hung up".into())),
                Ok(count) => {
                    self.rest.extend_from_slice(&piece[..count]);
                    self.take_frames(host, now_us, came).map_err(End::Broken)?;
                }
                // Before it is connected, some systems have a word of their own.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) =>
                {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(end_of(&error)),
            }
        }
        Ok(())
    }

    /// Opens all frames that have come whole.
    fn take_frames(
        &mut self,
        host: &mut Option<Host>,
        now_us: u64,
        came: &mut Vec<Came>,
    ) -> Result<(), String> {
        let mut start = 0;
        while let Some(header) = self.rest[start..].first_chunk::<FRAME_HEADER_BYTES>() {
            let bytes = frame_bytes(*header).map_err(|error| error.to_string())?;
            let body = start + FRAME_HEADER_BYTES;
            let Some(frame) = self.rest.get(body..body + bytes) else { break };
            let frame = frame.to_vec();
            self.take_frame(&frame, host, now_us, came)?;
            start = body + bytes;
        }
        self.rest.drain(..start);
        Ok(())
    }

    fn take_frame(
        &mut self,
        frame: &[u8],
        host: &mut Option<Host>,
        now_us: u64,
        came: &mut Vec<Came>,
    ) -> Result<(), String> {
        match std::mem::replace(&mut self.phase, Phase::Accepted) {
            Phase::Up(mut stream) => {
                let mut record = Vec::new();
                stream.opener.open(frame, &mut record).map_err(|error| error.to_string())?;
                // What is no whole record yet anybody may have sent.
                self.pipe.on_heard(now_us);
                self.pipe.on_record(&record);
                came.push(Came::Record(record));
                self.phase = Phase::Up(stream);
            }
            Phase::Calls { mut initiator, farm } => {
                let stream = answered(&mut initiator, farm, frame)?;
                self.phase = Phase::Up(Box::new(stream));
                self.pipe.on_heard(now_us);
                came.push(Came::Up);
            }
            Phase::Accepted => {
                let host = host.as_mut().ok_or("nobody takes links here")?;
                let source = self.socket.peer_addr().map_err(|error| error.to_string())?.to_string();
                let (reply, pending) = host.answer(frame, source.as_bytes(), now_us)?;
                self.out.extend_from_slice(&reply);
                match pending {
                    Ok(pending) => self.phase = Phase::Answered(Box::new(pending)),
                    // It is told why, as far as the socket takes that at once.
                    Err(why) => {
                        let _ = self.write();
                        return Err(why);
                    }
                }
            }
            Phase::Answered(pending) => {
                let host = host.as_mut().ok_or("nobody takes links here")?;
                let mut first = Vec::new();
                let confirmed = pending.confirm(&mut host.vouchers, frame, &mut first, now_us / 1_000_000);
                let (stream, peer, _) = confirmed.map_err(|error| error.to_string())?;
                self.phase = Phase::Up(Box::new(stream));
                self.pipe.on_heard(now_us);
                self.stranger = None;
                came.push(Came::Called(Box::new((peer.claim, first))));
            }
        }
        Ok(())
    }

    /// Writes what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub(crate) fn write(&mut self) -> Result<(), End> {
        loop {
            self.seal_ahead().map_err(End::Broken)?;
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
                Err(error) => return Err(end_of(&error)),
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
            && let Some(record) = self.pipe.take_next()
        {
            stream.sealer.seal(&record, &mut self.out).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// What an error of a socket says of the other end: the system may give up on a machine before we do.
fn end_of(error: &io::Error) -> End {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    match error.kind() {
        HostUnreachable | NetworkUnreachable | TimedOut => End::Silent,
        _ => End::Broken(error.to_string()),
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
