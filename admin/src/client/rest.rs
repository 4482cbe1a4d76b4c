//! A farm that nobody runs: a thread of this process answers in its scheduler's place, from what lies on the disk.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use starfarm_protocol::admin::Request;
use starfarm_protocol::admin::frames::{FrameReader, frame};
use starfarm_scheduler::AtRest;

use super::local::PIECE_BYTES;
use crate::failure::{Exit, Failure};

/// A connection to what lies in the state directory `folder`; none where it holds no farm.
///
/// # Errors
/// [`Exit::Conflict`] where something there is damaged or cannot be read.
pub(super) fn connect(folder: &Path) -> Result<Option<UnixStream>, Failure> {
    let farm = AtRest::read(folder).map_err(|error| Failure::new(Exit::Conflict, error.to_string()))?;
    let Some(farm) = farm else { return Ok(None) };
    let (ours, theirs) = UnixStream::pair()
        .map_err(|error| Failure::new(Exit::Conflict, format!("the system gives no sockets: {error}")))?;
    // It ends when the caller hangs up.
    std::thread::spawn(move || serve(farm, theirs));
    Ok(Some(ours))
}

fn serve(mut farm: AtRest, mut caller: UnixStream) -> io::Result<()> {
    let (mut reader, mut piece) = (FrameReader::default(), vec![0; PIECE_BYTES]);
    loop {
        while let Some(request) = reader.next_message::<Request>().map_err(io::Error::other)? {
            let answer = frame(&farm.answer(&request)).map_err(io::Error::other)?;
            caller.write_all(&answer)?;
        }
        match caller.read(&mut piece)? {
            0 => return Ok(()),
            bytes => reader.push(&piece[..bytes]),
        }
    }
}
