//! A slot host as its worker sees it: a child that is asked by lines and answers by lines. One that is silent for too long
//! is killed, whatever its device does.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::words::{HostWork, Listed, Reply, Request};
use starfarm_exec::{CancelFlag, Relative, spawn, wait, wait_for};

/// A host that says nothing for so long hangs: it tells ten times a second how far its scan is, or that it goes on, and twice a
/// second that it is busy otherwise.
pub(super) const HANGS: Duration = Duration::from_secs(5);
/// So long it may be busy otherwise: a program is compiled in seconds.
const BUSY_MAX: Duration = Duration::from_secs(120);
/// So long a scan that is stopped may go on.
pub(super) const STOPS: Duration = Duration::from_secs(1);
/// What makes a process a host: it comes before all other arguments.
pub(super) const FLAG: &str = "--slot-host=";
/// How often a child that should end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A host. Dropping it kills it.
pub(super) struct Host {
    /// Until it is dropped.
    child: Option<Relative>,
    to: ChildStdin,
    from: Lines,
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

/// What a child says, line by line.
pub(super) struct Lines {
    pub(super) pipe: ChildStdout,
    /// What was read behind the last whole line.
    rest: Vec<u8>,
    /// So much of it has no end of a line.
    searched: usize,
}

/// What was read.
pub(super) enum Piece {
    /// Nothing yet.
    None,
    /// A part of a line.
    Part,
    /// The end of a line, at least.
    Line,
    /// It will say nothing more.
    End,
}

impl Lines {
    pub(super) fn of(pipe: ChildStdout) -> Self {
        Self { pipe, rest: Vec::new(), searched: 0 }
    }

    /// The next line of what was read.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let Some(end) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.rest.len();
            return None;
        };
        let line = self.rest.drain(..=self.searched + end).collect();
        self.searched = 0;
        Some(line)
    }

    /// Reads on, and waits for what there is to read.
    pub(super) fn read(&mut self) -> io::Result<Piece> {
        let mut piece = [0; 64 * 1024];
        match self.pipe.read(&mut piece) {
            Ok(0) => Ok(Piece::End),
            Ok(read) => {
                self.rest.extend_from_slice(&piece[..read]);
                Ok(if piece[..read].contains(&b'\n') { Piece::Line } else { Piece::Part })
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Piece::None),
            Err(error) => Err(error),
        }
    }
}

/// Why a host is of no use any more, in words.
#[derive(Debug)]
pub(super) enum Lost {
    /// It says nothing.
    Hangs(String),
    /// It compiles without an end.
    Compiles(String),
    /// It has ended.
    Ended(String),
}

impl Lost {
    pub(super) fn why(self) -> String {
        match self {
            Self::Hangs(why) | Self::Compiles(why) | Self::Ended(why) => why,
        }
    }
}

/// Starts a child for `work`: this same program. The worker's own arguments are there to be seen: whose child it is.
pub(super) fn start(work: HostWork) -> io::Result<Relative> {
    let mut command = Command::new("/proc/self/exe");
    let is_agent = matches!(work, HostWork::Agent | HostWork::AgentFile);
    let name = if is_agent { "starfarm-agent" } else { "starfarm-slot-host" };
    command.arg0(name).arg(format!("{FLAG}{}", work.word()));
    command.args(std::env::args_os().skip(1));
    // Devices are numbered as the files of the driver number cards.
    command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // A group of its own: Ctrl-C at a terminal is meant for the worker, which drains.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    // What a driver prints is for nobody; an agent says where something of its file goes wrong.
    command.stderr(if is_agent { Stdio::inherit() } else { Stdio::null() });
    spawn(&mut command)
}

/// Waits for a child's end; none where it did not end within that time and is killed.
pub(super) fn end_within(relative: &mut Relative, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let by = Instant::now() + patience;
    loop {
        if let Some(status) = relative.child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= by {
            relative.child.kill()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Kills a child, and does not wait for longer than that takes: one that is deep in its driver may stay for ever.
pub(super) fn kill(mut relative: Relative) {
    let _ = relative.child.kill();
    if end_within(&mut relative, STOPS).is_ok_and(|ended| ended.is_none()) {
        std::thread::spawn(move || relative.wait());
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
    /// Starts the host of device `number`, which is that one, and keeps compiled programs in `cache`.
    pub(super) fn start(number: usize, device: Listed, cache: Option<PathBuf>) -> Result<Self, Lost> {
        let mut host = Self::spawn(number)
            .map_err(|error| Lost::Ended(format!("its host cannot be started: {error}")))?;
        host.ask(&Request::Open { device, cache }, HANGS)?;
        Ok(host)
    }

    fn spawn(number: usize) -> io::Result<Self> {
        let mut child = start(HostWork::Device(number))?;
        let to = child.child.stdin.take().expect("it is a pipe");
        let from = child.child.stdout.take().expect("it is a pipe");
        // A job may be longer than the pipe, and a host that hangs reads nothing.
        rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK)?;
        let (from, heard) = (Lines::of(from), Instant::now());
        Ok(Self { child: Some(child), to, from, patience: HANGS, heard, busy: None })
    }

    /// Asks; from now on silence may last so long.
    pub(super) fn ask(&mut self, request: &Request, patience: Duration) -> Result<(), Lost> {
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
    fn patient_until(&self) -> Result<Instant, Lost> {
        let until = self.heard + self.patience;
        match until <= Instant::now() {
            true => {
                Err(Lost::Hangs(format!("it hangs: it has said nothing for {} s", self.patience.as_secs())))
            }
            false => Ok(until),
        }
    }

    /// Waits for what the host says next, or, where there is a flag, for that.
    ///
    /// # Errors
    /// It has gone, or hangs: in words. It is of no use any more.
    pub(super) fn hear(&mut self, cancel: Option<&CancelFlag>) -> Result<Heard, Lost> {
        loop {
            if let Some(line) = self.from.next() {
                let reply: Reply = serde_json::from_slice(&line)
                    .map_err(|error| Lost::Ended(format!("it says what nobody understands: {error}")))?;
                if reply == Reply::Busy {
                    let since = *self.busy.get_or_insert(self.heard);
                    if since.elapsed() > BUSY_MAX {
                        return Err(Lost::Compiles(format!("it compiled for {} s", BUSY_MAX.as_secs())));
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
                if reply == Reply::Runs {
                    continue;
                }
                return Ok(Heard::Reply(reply));
            }
            let until = self.patient_until()?;
            let flag = cancel.map(CancelFlag::asked_fd);
            let [from, flag] = wait([Some(self.from.pipe.as_fd()), flag], Some(until));
            if !flag.is_empty() {
                return Ok(Heard::Cancelled);
            }
            if from.is_empty() {
                continue;
            }
            match self.from.read() {
                Ok(Piece::End) => return Err(self.why_gone()),
                // A part of a line is a sign of life as well.
                Ok(Piece::Part) => self.heard = Instant::now(),
                Ok(Piece::None | Piece::Line) => {}
                Err(error) => return Err(Lost::Ended(format!("it cannot be heard: {error}"))),
            }
        }
    }

    /// How a host ended that says nothing any more.
    fn why_gone(&mut self) -> Lost {
        let child = self.child.as_mut().expect("it is there until it is dropped");
        match end_within(child, STOPS) {
            Ok(Some(status)) => Lost::Ended(format!("its driver crashed ({})", ending(status))),
            Ok(None) => Lost::Hangs("it hangs: it has ended half".to_owned()),
            Err(error) => Lost::Ended(format!("it has gone: {error}")),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.take().into_iter().for_each(kill);
    }
}
