//! A slot host as its worker sees it: a child that is asked by lines and answers by lines. One that is silent for too long
//! is killed, whatever its device does.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::words::{HostWork, Reply, Request};
use crate::exec::{CancelFlag, Relative, spawn, wait, wait_for};

/// A host that says nothing for so long hangs: it tells ten times a second how far its scan is, and twice a second that it
/// is busy otherwise.
pub(super) const HANGS: Duration = Duration::from_secs(5);
/// So long it may be busy otherwise: a program is compiled in seconds.
const BUSY_MAX: Duration = Duration::from_secs(120);
/// So long a scan that is stopped may go on.
pub(super) const STOPS: Duration = Duration::from_secs(1);
/// How the words begin that say of a host that it hangs.
pub(super) const IT_HANGS: &str = "it hangs";
/// How often a child that should end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A host. Dropping it kills it.
pub(super) struct Host {
    child: Relative,
    to: ChildStdin,
    from: ChildStdout,
    /// What was read behind the last whole line.
    rest: Vec<u8>,
    patience: Duration,
    /// When something was heard last, or asked.
    heard: Instant,
    /// Since when it says that it is busy, and nothing else.
    busy: Option<Instant>,
}

/// What came of waiting for a host.
pub(super) enum Heard {
    /// It said this.
    Reply(Reply),
    /// The flag was raised meanwhile.
    Cancelled,
}

/// Starts a child for `work`: this same program, with the same arguments.
pub(super) fn start(work: HostWork) -> io::Result<Relative> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("starfarm-slot-host").args(own_arguments());
    command.arg(format!("--slot-host={}", work.word()));
    // Devices are numbered as the files of the driver number cards.
    command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // A group of its own: Ctrl-C at a terminal is meant for the worker, which drains.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    spawn(&mut command)
}

/// What makes a worker of this program: its own arguments where it is one, so that one sees whose child this is.
fn own_arguments() -> Vec<OsString> {
    let own: Vec<OsString> = std::env::args_os().skip(1).collect();
    let has_commands =
        std::env::current_exe().is_ok_and(|path| path.file_name() == Some("starfarm".as_ref()));
    match own.first() {
        Some(first) if has_commands && first != "worker" => vec!["worker".into()],
        _ => own,
    }
}

/// Waits for a child's end; none where it did not end within that time and was killed.
pub(super) fn end_within(relative: &mut Relative, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let by = Instant::now() + patience;
    loop {
        if let Some(status) = relative.child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= by {
            relative.child.kill()?;
            relative.child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// How a process ended, in words.
pub(super) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"))
}

/// Says what a host noted, once: all hosts use the same cache, and each one after a crash notes it again.
fn note(words: &str) {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| starfarm_net::say(&format!("starfarm-worker: {words}")));
}

impl Host {
    /// Starts the host of device `number`.
    pub(super) fn start(number: usize) -> io::Result<Self> {
        let mut child = start(HostWork::Device(number))?;
        let to = child.child.stdin.take().expect("it is a pipe");
        let from = child.child.stdout.take().expect("it is a pipe");
        // A job may be longer than the pipe, and a host that hangs reads nothing.
        rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK)?;
        Ok(Self { child, to, from, rest: Vec::new(), patience: HANGS, heard: Instant::now(), busy: None })
    }

    /// Asks; from now on silence may last so long.
    pub(super) fn ask(&mut self, request: &Request, patience: Duration) -> Result<(), String> {
        (self.heard, self.patience) = (Instant::now(), patience);
        let mut line = serde_json::to_vec(request).expect("requests are JSON");
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(written) => (rest, self.heard) = (&rest[written..], Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let until = self.patient_until()?;
                    wait_for(PollFlags::OUT, [Some(self.to.as_fd())], Some(until));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.why_gone()),
            }
        }
        Ok(())
    }

    /// Until when it may say nothing.
    fn patient_until(&self) -> Result<Instant, String> {
        let until = self.heard + self.patience;
        match until <= Instant::now() {
            true => Err(format!("{IT_HANGS}: it has said nothing for {} s", self.patience.as_secs())),
            false => Ok(until),
        }
    }

    /// Waits for what the host says next, or, where there is a flag, for that.
    ///
    /// # Errors
    /// It has gone, or hangs: in words. It is of no use any more.
    pub(super) fn hear(&mut self, cancel: Option<&CancelFlag>) -> Result<Heard, String> {
        loop {
            if let Some(reply) = self.next_line()? {
                if reply == Reply::Busy {
                    let since = *self.busy.get_or_insert(self.heard);
                    if since.elapsed() > BUSY_MAX {
                        return Err(format!("{IT_HANGS}: it was busy for {} s", BUSY_MAX.as_secs()));
                    }
                    // One that should stop is not waited for longer because it is busy.
                    if self.patience != STOPS {
                        self.heard = Instant::now();
                    }
                    continue;
                }
                if let Reply::Note(words) = reply {
                    note(&words);
                    continue;
                }
                (self.heard, self.busy) = (Instant::now(), None);
                return Ok(Heard::Reply(reply));
            }
            let until = self.patient_until()?;
            let flag = cancel.map(CancelFlag::asked_fd);
            let [from, flag] = wait([Some(self.from.as_fd()), flag], Some(until));
            if !flag.is_empty() {
                return Ok(Heard::Cancelled);
            }
            if from.is_empty() {
                continue;
            }
            let mut piece = [0; 16 * 1024];
            match self.from.read(&mut piece) {
                Ok(0) => return Err(self.why_gone()),
                Ok(read) => self.rest.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("it cannot be heard: {error}")),
            }
        }
    }

    fn next_line(&mut self) -> Result<Option<Reply>, String> {
        let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.rest.drain(..=end).collect();
        let reply = serde_json::from_slice(&line);
        reply.map(Some).map_err(|error| format!("it says what nobody understands: {error}"))
    }

    /// How a host ended that says nothing any more.
    fn why_gone(&mut self) -> String {
        match end_within(&mut self.child, STOPS) {
            Ok(Some(status)) => format!("its driver crashed ({})", ending(status)),
            Ok(None) => IT_HANGS.to_owned(),
            Err(error) => format!("it has gone: {error}"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may be anywhere in its driver.
        let _ = self.child.child.kill();
        let _ = self.child.child.wait();
    }
}
