//! What a connection to a scheduler is, whatever it goes over; and the local socket in a scheduler's state directory.
//! The scheduler sees by the peer's credentials who calls, so there is nothing to prove here.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use crate::failure::{Exit, Failure};

/// A scheduler that says nothing for this long, beyond the time it was asked to wait, has gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A connection that carries bytes of frames.
pub(super) trait Wire: Send {
    /// What it goes over.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Sends a whole frame.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Waits for more bytes, for at most `patience`; none at the end of the stream.
    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>>;
}

/// The socket's name in the state directory.
pub(super) const SOCKET: &str = "admin.sock";

/// Bytes that one call reads at most.
const PIECE_BYTES: usize = 64 * 1024;

/// Connects to the scheduler whose state directory is `folder`.
///
/// # Errors
/// [`Exit::Unreachable`] where no scheduler runs there, [`Exit::Refused`] where it is another user's.
pub(super) fn connect(folder: &Path) -> Result<UnixStream, Failure> {
    connect_socket(folder).map_err(|error| failure(folder, &error))
}

/// Whether no scheduler runs in `folder`. One that is too busy to be reached does.
pub(super) fn nobody_listens(folder: &Path) -> bool {
    match connect_socket(folder).map_err(|error| error.kind()) {
        Err(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => true,
        // The socket that was left behind in a copy that nobody may write to: does a scheduler hold the lock?
        Err(ErrorKind::PermissionDenied) => holds_lock(folder).is_ok_and(|held| !held),
        _ => false,
    }
}

/// Whether a scheduler holds the lock of `folder`.
///
/// # Errors
/// Those of opening and looking at the lock's file: there is none where no scheduler ever ran.
pub(crate) fn holds_lock(folder: &Path) -> io::Result<bool> {
    let lock = std::fs::File::open(folder.join("lock"))?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A socket's path has at most 107 bytes, a folder's many more: so the folder is opened first, and the
/// socket reached through it.
fn connect_socket(folder: &Path) -> io::Result<UnixStream> {
    let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let socket = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()))?;
    socket.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(socket)
}

fn failure(folder: &Path, error: &io::Error) -> Failure {
    let folder = folder.display();
    match error.kind() {
        ErrorKind::NotFound => Failure::unreachable(format!(
            "no scheduler runs in {folder}: start it with `starfarm scheduler --state {folder}`, or give \
             the right directory by --farm"
        )),
        ErrorKind::ConnectionRefused => Failure::unreachable(format!(
            "the scheduler in {folder} has stopped: start it again with `starfarm scheduler --state {folder}`"
        )),
        ErrorKind::PermissionDenied => Failure::new(
            Exit::Refused,
            format!(
                "the scheduler in {folder} belongs to another user: call as that user, or give a copy of its \
                 admin.join by --farm"
            ),
        ),
        _ => Failure::unreachable(format!("cannot reach the scheduler in {folder}: {error}")),
    }
}

impl Wire for UnixStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write_all(frame)
    }

    fn receive(&mut self, patience: Duration) -> io::Result<Vec<u8>> {
        self.set_read_timeout(Some(patience))?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match self.read(&mut piece) {
                // A read with a time limit is not taken up again by the system after a signal.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    piece.truncate(read?);
                    return Ok(piece);
                }
            }
        }
    }
}
