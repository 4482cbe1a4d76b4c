//! The process of a service: started, heard, ended, and started again.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use starfarm_exec::{Relative, spawn};
use starfarm_overlay::{Reactor, Watch};

use super::Heard;
use crate::file::ServiceEntry;
use crate::lines::Lines;

/// The next process is started after this pause, and each time after twice that, up to the longest, in microseconds.
const PAUSE_US: u64 = 1_000_000;
const PAUSE_US_MAX: u64 = 60_000_000;
/// Bytes that are read of a program in a second: one that prints more waits.
const SECOND_BYTES: usize = 256 << 10;
const SECOND_US: u64 = 1_000_000;

/// A program beside the agent. Dropping it ends it.
pub(crate) struct Service {
    name: String,
    program: Vec<String>,
    watch: Watch,
    heard: Rc<RefCell<Heard>>,
    process: Option<Process>,
    /// When the next process is started, if there is none, and the pause after that.
    again_us: u64,
    pause_us: u64,
}

struct Process {
    relative: Option<Relative>,
    pid: Pid,
    output: ChildStdout,
    /// Its end is the end of the agent, for programs that heed that.
    _input: Option<ChildStdin>,
    lines: Lines,
    since_us: u64,
    /// There may be more to read than was read.
    is_readable: bool,
    /// Bytes that may yet be read of it, and when there are more.
    room: usize,
    refill_us: u64,
}

impl Service {
    /// One that runs from the next [`Service::turn`] on, and whose output is watched by that number.
    pub(crate) fn new(entry: ServiceEntry, watch: Watch, heard: Rc<RefCell<Heard>>) -> Self {
        let ServiceEntry { name, program } = entry;
        Self { name: name.1, program, watch, heard, process: None, again_us: 0, pause_us: PAUSE_US }
    }

    /// Its output can be read.
    pub(crate) fn on_readable(&mut self, watch: Watch) {
        if watch == self.watch {
            self.process.iter_mut().for_each(|process| process.is_readable = true);
        }
    }

    /// When something is to be done.
    pub(crate) fn due_us(&self) -> Option<u64> {
        match &self.process {
            None => Some(self.again_us),
            Some(process) => {
                process.is_readable.then_some(if process.room > 0 { 0 } else { process.refill_us })
            }
        }
    }

    /// Starts it where it is time, and takes what it has said.
    pub(crate) fn turn(&mut self, reactor: &Reactor, now_us: u64) {
        self.heard.borrow_mut().now_us = now_us;
        if self.process.is_none() && now_us >= self.again_us {
            match Process::start(&self.program, reactor, self.watch, now_us) {
                Ok(process) => self.process = Some(process),
                Err(error) => self.pause(&format!("cannot be started: {error}"), now_us),
            }
        }
        let Some(process) = &mut self.process else { return };
        let (heard, name) = (&self.heard, &self.name);
        let Err(why) = process.read(now_us, &mut heard.borrow_mut(), name) else { return };
        // One that ran for long has not ended because of its start.
        if now_us.saturating_sub(process.since_us) >= PAUSE_US_MAX {
            self.pause_us = PAUSE_US;
        }
        self.process = None;
        // What it said of things is not so any more.
        self.heard.borrow_mut().figures.clear();
        self.pause(&why, now_us);
    }

    /// There is no process, and another one comes later.
    fn pause(&mut self, why: &str, now_us: u64) {
        let pause_s = self.pause_us / SECOND_US;
        starfarm_net::say(&format!(
            "starfarm-agent: the service `{}` {why}; it is started again in {pause_s} s",
            self.name
        ));
        self.again_us = now_us + self.pause_us;
        self.pause_us = (self.pause_us * 2).min(PAUSE_US_MAX);
    }
}

impl Process {
    fn start(program: &[String], reactor: &Reactor, watch: Watch, now_us: u64) -> io::Result<Self> {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut relative = spawn(&mut command)?;
        let pid = Pid::from_child(&relative.child);
        let output = relative.child.stdout.take().expect("it is a pipe");
        let input = relative.child.stdin.take();
        let process = Self {
            relative: Some(relative),
            pid,
            output,
            _input: input,
            lines: Lines::default(),
            since_us: now_us,
            is_readable: true,
            room: SECOND_BYTES,
            refill_us: now_us + SECOND_US,
        };
        rustix::fs::fcntl_setfl(&process.output, OFlags::NONBLOCK)?;
        reactor.watch(process.output.as_raw_fd(), watch)?;
        Ok(process)
    }

    /// Reads what there is, and may be read now.
    ///
    /// # Errors
    /// It says nothing more, in words.
    fn read(&mut self, now_us: u64, heard: &mut Heard, name: &str) -> Result<(), String> {
        let relative = self.relative.as_mut().expect("it is there until it is dropped");
        // What it has left behind may hold its output for long.
        let ended = relative.child.try_wait().map_err(|error| format!("cannot be waited for: {error}"))?;
        self.is_readable |= ended.is_some();
        if now_us >= self.refill_us {
            (self.room, self.refill_us) = (SECOND_BYTES, now_us + SECOND_US);
        }
        let mut piece = [0; 16 * 1024];
        while self.is_readable && self.room > 0 {
            let most = piece.len().min(self.room);
            match self.output.read(&mut piece[..most]) {
                Ok(0) => {
                    return Err(
                        ended.map_or("says no more".to_owned(), |status| format!("has ended ({status})"))
                    );
                }
                Ok(count) => {
                    self.room -= count;
                    let bad =
                        self.lines.read(&piece[..count], |figure, value| heard.take(name, figure, value));
                    heard.not_taken += bad;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot be heard: {error}")),
            }
        }
        match ended {
            Some(status) if !self.is_readable => Err(format!("has ended ({status})")),
            _ => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        let Some(mut relative) = self.relative.take() else { return };
        if !matches!(relative.child.try_wait(), Ok(Some(_))) {
            // One that is deep in the kernel may stay for long: nobody waits for it here.
            std::thread::spawn(move || relative.wait());
        }
    }
}
