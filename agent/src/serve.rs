//! The start of an agent: what its worker says first, and what is set once for the whole process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use rustix::fs::OFlags;
use starfarm_overlay::Reactor;

use crate::cpus;
use crate::pipe::Worker;
use crate::process::{Agent, STDIN};
use crate::words::{OwnFile, line};

/// How much nicer than others it is.
const NICE: i32 = 10;

/// Lives as an agent whose worker is heard by standard input, and told by `output`.
///
/// # Errors
/// The system's.
pub fn serve(output: File) -> io::Result<()> {
    // An agent that is not nice measures all the same.
    let _ = rustix::process::nice(NICE);
    let mut worker = Worker::new(output);
    let stdin = io::stdin();
    // What it is for comes first, and is waited for.
    let Some(begin) = worker.first()? else { return Ok(()) };
    cpus::pin(&begin.cpus);
    rustix::fs::fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
    let reactor = Reactor::new()?;
    reactor.watch(stdin.as_raw_fd(), STDIN)?;
    Agent::new(begin, reactor, worker)?.run()
}

/// Checks a node's own file, which comes by standard input, and says by `output` what came of it. Modules that are shared
/// objects run in this process for it, which may not live through that.
///
/// # Errors
/// The system's.
pub fn check(mut output: File) -> io::Result<()> {
    let file: OwnFile = serde_json::from_reader(io::stdin().lock())?;
    output.write_all(&line(&file.check().map_err(|error| error.to_string())))
}
