//! The sealed stream to a scheduler elsewhere, by a join file. The handshake itself is the protocol's.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use starfarm_protocol::admin::frames::{ADMIN_STREAM, records};
use starfarm_protocol::ids::Boot;
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Introduction, Line, Mode, NoLine, Role, StaticKey};

use super::identity;
use super::local::{SILENCE_MAX, Wire};
use crate::failure::{Exit, Failure};
use crate::output::say;

/// An address that does not take a connection by then is given up.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A handshake takes milliseconds; a scheduler under load may take longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Connects by the join file at `path`; the second value is the address that answered.
pub(super) fn connect(path: &Path) -> Result<(Line<TcpStream>, String), Failure> {
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
    socket: TcpStream,
    address: &str,
    join: &JoinFile,
    key: &StaticKey,
) -> Result<Line<TcpStream>, Failure> {
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
    let stranger = |why: String| {
        Failure::unreachable(format!(
            "what listens at {address} is not the scheduler of this join file ({why}): if the farm was made \
             anew or is another one, copy its admin.join again"
        ))
    };
    socket.set_read_timeout(Some(HANDSHAKE_MAX)).map_err(|error| stranger(error.to_string()))?;
    Line::open(socket, &who, join.farm, &[ADMIN_STREAM]).map_err(|no_line| match no_line {
        NoLine::Refused(reason) => Failure::new(Exit::Refused, reason),
        NoLine::Broken(error) => match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => stranger("it hung up".to_owned()),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::unreachable(format!(
                "what listens at {address} does not answer: see whether the scheduler still runs, and try again"
            )),
            _ => stranger(error.to_string()),
        },
    })
}

impl Wire for Line<TcpStream> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.io().as_fd()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        records(frame).try_for_each(|record| Line::send(self, record))
    }

    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        self.io().set_read_timeout(Some(patience))?;
        Line::receive(self).map(<[u8]>::to_vec)
    }
}
