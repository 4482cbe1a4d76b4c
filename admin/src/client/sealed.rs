//! The sealed stream to a scheduler elsewhere, by a join file. The handshake itself is the protocol's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use starfarm_protocol::admin::frames::{ADMIN_STREAM, records};
use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::stream::{
    FRAME_HEADER_BYTES, Stream, StreamInitiator, StreamOutcome, frame_bytes,
};
use starfarm_protocol::seal::{Introduction, Mode, Role, SealError, StaticKey};

use super::identity;
use super::wire::{SILENCE_MAX, Wire};
use crate::failure::{Exit, Failure};
use crate::output::say;

/// An address that does not take a connection by then is given up.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A handshake takes milliseconds; a scheduler under load may take longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A sealed connection.
pub(super) struct Sealed {
    socket: TcpStream,
    stream: Stream,
}

/// Connects by the join file at `path`; the second value is the address that answered.
///
/// # Errors
/// As [`super::Client::connect`].
pub(super) fn connect(path: &Path) -> Result<(Sealed, String), Failure> {
    let join = read_join_file(path)?;
    let key = identity::key(join.role)?;
    let mut tried = Vec::new();
    for address in &join.addresses {
        match dial(address) {
            Ok(socket) => {
                let sealed = shake_hands(socket, address, &join, &key)?;
                return Ok((sealed, address.clone()));
            }
            Err(error) => tried.push(format!("{address} ({error})")),
        }
    }
    Err(Failure::unreachable(format!(
        "no scheduler answers at {}: see whether it runs and whether a firewall is between; if it has moved, \
         copy its admin.join again",
        tried.join(", ")
    )))
}

fn read_join_file(path: &Path) -> Result<JoinFile, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map(zeroize::Zeroizing::new).map_err(|error| {
        Failure::usage(format!("cannot read the join file {shown}: {error}: copy admin.join again"))
    })?;
    let join =
        JoinFile::from_text(&text).map_err(|error| Failure::usage(format!("--farm {shown}: {error}")))?;
    if join.role == Role::Worker {
        let words = format!(
            "{shown} lets workers join, it does not let anyone give commands: use the scheduler's admin.join"
        );
        return Err(Failure::new(Exit::Refused, words));
    }
    warn_if_readable_by_others(path);
    Ok(join)
}

/// Who can read a join file can use it.
fn warn_if_readable_by_others(path: &Path) {
    let is_open = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if is_open {
        let path = path.display();
        say(&format!("warning: {path} is secret, but others can read it: chmod 600 {path}"));
    }
}

/// A host may have several addresses; the last error is told.
fn dial(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, CONNECT_MAX) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_write_timeout(Some(SILENCE_MAX))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn shake_hands(
    mut socket: TcpStream,
    address: &str,
    join: &JoinFile,
    key: &StaticKey,
) -> Result<Sealed, Failure> {
    let name = identity::name(&key.public());
    let who = Introduction {
        key,
        scheduler: &join.scheduler_key,
        join_secret: &join.join_secret,
        name: &name,
        // A caller has no incarnations: each command stands for itself.
        boot: Boot(0),
        mode: Mode { stream: true, plain: false },
    };
    let (initiator, first) =
        StreamInitiator::start(&who).map_err(|error| Failure::usage(error.to_string()))?;
    let answer = socket
        .write_all(&first)
        .and_then(|()| socket.set_read_timeout(Some(HANDSHAKE_MAX)))
        .and_then(|()| read_frame(&mut socket));
    let stranger = |why: String| {
        Failure::unreachable(format!(
            "what listens at {address} is not the scheduler of this join file ({why}): if the farm was made \
             anew or is another one, copy its admin.join again"
        ))
    };
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => stranger("it hung up".to_owned()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::unreachable(format!(
            "what listens at {address} does not answer: see whether the scheduler still runs, and try again"
        )),
        _ => stranger(error.to_string()),
    })?;
    let stream = match initiator.finish(&answer).map_err(|error| stranger(error.to_string()))? {
        StreamOutcome::Accepted { farm, stream, .. } if farm == join.farm => stream,
        StreamOutcome::Accepted { .. } => return Err(stranger("another farm with the same key".to_owned())),
        StreamOutcome::Refused { reason, .. } => return Err(Failure::new(Exit::Refused, reason)),
    };
    let mut sealed = Sealed { socket, stream };
    sealed.send_record(&[ADMIN_STREAM]).map_err(|error| stranger(error.to_string()))?;
    Ok(sealed)
}

/// The body of the next frame of the seal.
fn read_frame(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header)?;
    let mut body = vec![0; frame_bytes(header).map_err(invalid)?];
    socket.read_exact(&mut body)?;
    Ok(body)
}

fn invalid(error: SealError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error.to_string())
}

impl Sealed {
    fn send_record(&mut self, plain: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        self.stream.sealer.seal(plain, &mut frame).map_err(invalid)?;
        self.socket.write_all(&frame)
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Wire for Sealed {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        records(frame).try_for_each(|record| self.send_record(record))
    }

    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        self.socket.set_read_timeout(Some(patience))?;
        let body = read_frame(&mut self.socket)?;
        let mut plain = Vec::new();
        self.stream.opener.open(&body, &mut plain).map_err(invalid)?;
        Ok(plain)
    }
}
