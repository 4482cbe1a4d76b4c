//! A process that outlives the worker for a moment: it waits until the worker has gone, however it went, and
//! ends what that has left running. A worker which is killed can do nothing itself, and its programs would run
//! on beside those that its next incarnation starts for the same units.
//!
//! The warden is the same program, started with the same arguments and `--warden`. It finds the worker's
//! descendants by their mark, so that what clears its environment escapes it as it escapes `strays`.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::family::{self, Relative};
use super::strays::mark_of;

/// How often to look again: a process may start another one while it is looked for.
const ROUNDS_MAX: usize = 64;
/// How long those that are killed get to be gone.
const ROUND: Duration = Duration::from_millis(5);

/// The worker's hold on its warden: a pipe, whose other end tells when the worker has gone.
pub struct Warden(Relative);

impl Warden {
    /// Starts the warden of this process.
    ///
    /// # Errors
    /// Those of starting a process.
    pub fn post() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("starfarm-warden").args(std::env::args_os().skip(1)).arg("--warden");
        // A group of its own: Ctrl-C at a terminal is meant for the worker, which drains.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        family::spawn(&mut command).map(Self)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // This closes the pipe first.
        let _ = self.0.child.wait();
    }
}

/// The life of a warden: waits for the end of stdin, then kills all that carries a mark of the worker that
/// started it, but itself. Without a mark of its own it does nothing.
pub fn keep_watch() {
    let own = mark_of(getpid()).unwrap_or_default();
    let Some(marks) = family::siblings(&own) else { return };
    let mut bytes = [0; 64];
    let mut stdin = io::stdin().lock();
    while !matches!(stdin.read(&mut bytes), Ok(0)) {}
    for _ in 0..ROUNDS_MAX {
        if processes().filter(|&pid| pid != getpid() && kill_marked(pid, marks)).count() == 0 {
            return;
        }
        std::thread::sleep(ROUND);
    }
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw)
}

/// The pidfd comes before the look at the mark: should the number become another process's meanwhile, the
/// signal finds nobody.
fn kill_marked(pid: Pid, marks: &[u8]) -> bool {
    pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|pidfd| {
        mark_of(pid).is_some_and(|mark| mark.starts_with(marks))
            && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
    })
}
