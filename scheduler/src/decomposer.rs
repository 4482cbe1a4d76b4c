//! A user's decomposer as a process: one question, one batch. What the lines mean is in `starfarm_decomposers::growth`; when a
//! job wants units is the core's to say, and `threads::decomposers` asks for them.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use starfarm_decomposers::growth::{Answer, Batch, NO_STATE, request};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::spec::OwnSpace;

use crate::host_program::{HostProgram, LOOK, Stopped, WITH_SCHEDULER};

/// Bytes that are read at one time.
const READ_BYTES: usize = 256 * 1024;
/// Bytes that a pipe which takes any takes at once.
const WRITE_BYTES: usize = 4_096;
/// How long one that has named its last unit may take to end.
const TO_END: Duration = Duration::from_secs(5);

/// Why there is no batch.
#[derive(Debug)]
pub(crate) enum NoBatch {
    /// The scheduler stops, or nobody wants it any more.
    Stopped,
    /// It died before its batch was whole; it may do better if it is started again.
    Died(String),
    /// It did what it must not.
    Wrong(String),
}

/// One that runs.
pub(crate) struct Decomposer<'a> {
    space: &'a OwnSpace,
    program: HostProgram,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl<'a> Decomposer<'a> {
    /// Starts the program of `space`. What is noted of it lies beside `mark`.
    ///
    /// # Errors
    /// It cannot be started, in words.
    pub(crate) fn start(space: &'a OwnSpace, mark: &Path, job: Option<JobId>) -> Result<Self, String> {
        let dir = space.cwd.as_deref().map(Path::new).filter(|dir| dir.is_dir());
        let env = job.map(|job| ("STARFARM_JOB", job.0.to_string()));
        let mut program = HostProgram::start(&space.program, dir, mark, Stdio::piped(), env.as_slice())?;
        let (stdin, stdout) = (program.child.stdin.take(), program.child.stdout.take());
        let asked = "it was asked for";
        Ok(Self { space, program, stdin: stdin.expect(asked), stdout: stdout.expect(asked) })
    }

    /// Asks for up to `next` units, behind `units` others.
    pub(crate) fn ask(
        &mut self,
        (next, state, units): (u32, &str, u128),
        stopped: Stopped<'_>,
    ) -> Result<Batch, NoBatch> {
        let line = request(next, state, units).map_err(NoBatch::Wrong)?;
        let mut unsent = line.as_slice();
        let timeout = Duration::from_millis(self.space.timeout_ms);
        let (begun, mut answer) = (Instant::now(), Answer::new(&self.space.names, next));
        let mut bytes = vec![0; READ_BYTES];
        loop {
            if stopped().is_some() {
                return Err(NoBatch::Stopped);
            }
            if begun.elapsed() > timeout {
                let what =
                    format!("did not name a batch of up to {next} units within {} s", timeout.as_secs_f64());
                return Err(NoBatch::Wrong(self.program.told(&what)));
            }
            let (readable, writable) = self
                .wait(!unsent.is_empty())
                .map_err(|e| self.died(&format!("cannot be waited for: {e}")))?;
            if readable {
                match self.stdout.read(&mut bytes) {
                    Ok(0) => return Err(self.ended(answer.lines())),
                    Ok(read) => match answer.take(&bytes[..read]) {
                        Ok(Some(batch)) => return Ok(batch),
                        Ok(None) => {}
                        Err(why) => {
                            return Err(NoBatch::Wrong(self.program.told(&format!("is wrong: {why}"))));
                        }
                    },
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(self.died(&format!("cannot be read: {e}"))),
                }
            }
            if writable {
                match self.stdin.write(&unsent[..unsent.len().min(WRITE_BYTES)]) {
                    Ok(written) => unsent = &unsent[written..],
                    // It does not read any more; what it still has to say shows whether that is well.
                    Err(_) => unsent = &[],
                }
            }
        }
    }

    /// Whether it has said something, or ended; and whether it takes what is said to it.
    fn wait(&self, to_say: bool) -> io::Result<(bool, bool)> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.stdout.as_fd(), PollFlags::IN)];
        if to_say {
            fds.push(PollFd::from_borrowed_fd(self.stdin.as_fd(), PollFlags::OUT));
        }
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        match poll(&mut fds, Some(&look)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok((is_ready(0), is_ready(1)))
    }

    fn died(&self, what: &str) -> NoBatch {
        NoBatch::Died(self.program.told(what))
    }

    /// It closed its standard output.
    fn ended(&mut self, lines: u64) -> NoBatch {
        // Whatever still runs has nothing to say any more.
        self.program.kill();
        let how = match self.program.child.wait() {
            Ok(status) if status.signal() == Some(9) => {
                "was killed, or closed its standard output,".to_owned()
            }
            Ok(status) => format!("ended ({status})"),
            Err(e) => format!("ended ({e})"),
        };
        self.died(&format!("{how} after {lines} lines of its answer, before the line that closes a batch"))
    }

    /// It has named its last unit: it may end by itself.
    pub(crate) fn finish(self) {
        let Self { mut program, stdin, stdout, .. } = self;
        drop((stdin, stdout));
        let begun = Instant::now();
        while begun.elapsed() < TO_END && matches!(program.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
    }
}

/// The first units that the program of `space` names on this machine, up to `count`, and whether it has no more.
///
/// # Errors
/// It cannot be started, or does what it must not, in words.
pub fn preview(space: &OwnSpace, count: u32) -> Result<Batch, String> {
    let dir = Preview::new().map_err(|e| format!("no directory can be made for it: {e}"))?;
    let mut program = Decomposer::start(space, &dir.0.join("preview"), None)?;
    program.ask((count, NO_STATE, 0), &|| None).map_err(|no| match no {
        NoBatch::Stopped => WITH_SCHEDULER.to_owned(),
        NoBatch::Died(why) | NoBatch::Wrong(why) => why,
    })
}

/// A directory that is gone with its value.
struct Preview(PathBuf);

impl Preview {
    fn new() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("starfarm-preview-{}", std::process::id()));
        starfarm_net::private_folder(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Preview {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decomposer that is a line of shell.
    fn space(script: &str) -> OwnSpace {
        let program = ["sh", "-c", script].map(str::to_owned).into();
        OwnSpace { program, names: Vec::new(), cwd: None, timeout_ms: 2_000 }
    }

    fn asked(script: &str) -> Result<Batch, String> {
        preview(&space(script), 5)
    }

    #[test]
    fn a_program_is_asked_and_answers() {
        let batch =
            asked("read q; echo '{\"unit\":1}'; echo '{\"unit\":2}'; echo '{\"state\":3}'; read q").unwrap();
        assert_eq!((batch.units(), &*batch.state, batch.end), (2, "3", false));
    }

    #[test]
    fn what_a_program_does_wrong_is_told_with_what_it_said_of_it() {
        for (script, why) in [
            ("read q; echo oops >&2; exit 3", "ended (exit status: 3) after 0 lines of its answer"),
            ("read q; echo oops >&2; exit 3", ": oops"),
            (
                "read q; echo '{\"unit\":1}'; kill -9 $$",
                "was killed, or closed its standard output, after 1 lines",
            ),
            ("read q; echo hello; read q", "is wrong: line 1 of its answer cannot be read"),
            ("yes '{\"unit\":1}'", "is one unit more than the 5"),
            ("tr '\\0' x </dev/zero", "is longer than 64 KiB"),
            ("sleep 60", "did not name a batch of up to 5 units within 2 s"),
            ("exec nothing-of-that-name", "ended (exit status: 127)"),
        ] {
            let told = asked(script).unwrap_err();
            assert!(told.contains(why), "{script}: {told}");
        }
        let none = OwnSpace { program: vec!["/nothing/here".into()], ..space("") };
        assert!(preview(&none, 5).unwrap_err().contains("was not started on the scheduler's host"));
    }

    #[test]
    fn a_state_longer_than_a_pipe_comes_through() {
        let script = "read q; printf '{\"state\":\"'; head -c 60000 /dev/zero | tr '\\0' s; echo '\"}'; \
                      IFS= read -r q; echo \"{\\\"unit\\\":${#q}}\"; echo '{\"end\":true}'";
        let (space, dir) = (space(script), Preview::new().unwrap());
        let mut program = Decomposer::start(&space, &dir.0.join("long"), None).unwrap();
        let first = program.ask((5, NO_STATE, 0), &|| None).unwrap();
        assert_eq!(first.state.len(), 60_002);
        let second = program.ask((5, &first.state, 0), &|| None).unwrap();
        let asked = "{\"next\":5,\"state\":,\"units_so_far\":0}".len() + 60_002;
        assert_eq!(second.chunks[0].content, format!("[\"{asked}\"]\n").into_bytes());
        program.finish();
    }
}
