//! A user's program that merges: it is fed, and what it writes is the result.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use starfarm_protocol::spec::MergeProgram;

use crate::host_program::{HostProgram, Stopped, created};

/// Runs the program in `work`, fed by `stdin`; its standard output goes into the file `output`.
///
/// # Errors
/// It cannot be started, fails or takes too long, in words.
pub(super) fn run(
    of: &MergeProgram,
    work: &Path,
    output: &Path,
    stdin: impl FnOnce(&mut dyn Write) -> Result<(), String> + Send,
    stopped: Stopped<'_>,
) -> Result<(), String> {
    let stdout = Stdio::from(created(output)?);
    let mut program = HostProgram::start(&of.program, Some(work), work, stdout, &[])?;
    let mut to = program.child.stdin.take().expect("it was asked for");
    let (ended, fed) = std::thread::scope(|scope| {
        let fed = scope.spawn(move || stdin(&mut to));
        let ended = program.until_end(of.timeout_ms.map(Duration::from_millis), stopped);
        // What it has left behind could hold the pipe open, and so whoever feeds it.
        program.kill();
        let fed = fed.join().expect("a panic ends the process");
        (ended, fed)
    });
    match ended {
        Err(why) => Err(program.told(&why)),
        Ok(status) if !status.success() => Err(program.told(&format!("failed, {status}"))),
        Ok(_) => fed,
    }
}
