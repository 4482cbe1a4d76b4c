//! One program from its start to its end: it is started, watched, ended if it must be, and nothing of
//! its process group is left. What leaves the group is ended in `strays`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::cancel::CancelFlag;
use super::capture::Captured;
use super::command::{CommandLine, Lack};
use super::ending::Watch;
use super::family::{self, Relative};
use super::phase::{Phase, Why};
use super::pipes::{Stream, wait};
use super::progress::Progress;
use super::strays;

/// The most a pipe can hold unless root has raised `fs.pipe-max-size`, in bytes.
const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// A program that runs for so long is a long one.
const LONG: Duration = Duration::from_millis(100);

/// A program that should stop, and has not told how far it is, is looked at so often.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// A program that somebody has open for writing cannot be started: a copy that is not finished, or a process that was
/// forked meanwhile and has not started its own program yet. Both are over soon: it is tried again after each of these.
const BUSY_WAITS_MS: [u64; 6] = [5, 10, 20, 40, 80, 160];

/// What became of a unit's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitRun {
    /// How it ended.
    pub end: End,
    /// From before its start until its end was seen; the clearing away of descendants is not in it.
    pub duration: Duration,
    /// CPU time of it and of those of its descendants that were waited for.
    pub cpu: Duration,
    /// What it and its descendants wrote to stdout.
    pub stdout: Captured,
    /// What it and its descendants wrote to stderr.
    pub stderr: Captured,
}

/// How a program ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, with this code, 0 to 255.
    Exit(i32),
    /// By a signal of this number that did not come from us.
    Signal(i32),
    /// Ended by us because its time was over, in whatever way it then ended.
    Timeout,
    /// Ended by us because its [`CancelFlag`] was raised, or not even started.
    Cancelled,
    /// It never ran; why, and what to do, in a sentence for the user.
    NotStarted(String, Lack),
}

/// What a program is given beyond its time; each span is at most a year.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// From TERM to KILL, at a timeout and at a cancel.
    pub term_to_kill: Duration,
    /// From the program's end until descendants that still hold its stdout or stderr are killed.
    pub end_to_kill: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { term_to_kill: Duration::from_secs(5), end_to_kill: Duration::from_millis(100) }
    }
}

/// Runs `command` to its end, or until `cancel` is killed. Blocks; every other failure is an [`End`].
///
/// After [`become_subreaper`](super::become_subreaper), descendants that left the process group are
/// ended as well. A process that not even KILL ends (one stuck in the kernel, or one of another user)
/// keeps this call waiting.
pub fn run(command: &CommandLine, cancel: &CancelFlag) -> UnitRun {
    run_noting(command, cancel, Patience::default(), &mut |_| {}, &mut || None)
}

/// [`run`] with other time spans, that calls `started` with the program's process id once it has one, and `lasts` if the program still runs after 0.1 s: what the caller has put off
/// until its end should not wait any longer. It is called again after the time that it says, if it says one.
pub fn run_noting(
    command: &CommandLine,
    cancel: &CancelFlag,
    patience: Patience,
    started: &mut dyn FnMut(u32),
    lasts: &mut dyn FnMut() -> Option<Duration>,
) -> UnitRun {
    let start = Instant::now();
    if cancel.is_forced() {
        return nothing_ran(End::Cancelled, start);
    }
    match once_not_busy(|| Process::start(command), std::thread::sleep) {
        Ok(process) => {
            started(process.relative.child.id());
            attend(process, command, start, cancel, patience, lasts)
        }
        Err(error) => {
            let (why, lack) = command.why_not_started(&error);
            nothing_ran(End::NotStarted(why, lack), start)
        }
    }
}

/// Starts a program, again where it was busy.
pub(super) fn once_not_busy<T>(
    mut start: impl FnMut() -> io::Result<T>,
    mut wait: impl FnMut(Duration),
) -> io::Result<T> {
    for pause in BUSY_WAITS_MS.map(Duration::from_millis) {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => wait(pause),
            outcome => return outcome,
        }
    }
    start()
}

fn attend(
    mut process: Process,
    command: &CommandLine,
    start: Instant,
    cancel: &CancelFlag,
    patience: Patience,
    lasts: &mut dyn FnMut() -> Option<Duration>,
) -> UnitRun {
    let mut phase = Phase::Runs { until: command.timeout.and_then(|timeout| start.checked_add(timeout)) };
    let mut note = Note { at: Some(start + LONG), lasts };
    let stop = Stop { cancel, progress: command.progress.as_ref() };
    process.follow(&mut phase, stop, patience.term_to_kill, &mut note);
    let duration = start.elapsed();
    process.hear_out(patience.end_to_kill);
    let (ended, stdout, stderr) = process.collect();
    strays::reap_strays();
    let cpu = ended.as_ref().map(|(_, cpu)| *cpu).unwrap_or_default();
    let status = ended.map(|(status, _)| status);
    UnitRun { end: end_of(command, phase.why(), status), duration, cpu, stdout, stderr }
}

fn nothing_ran(end: End, start: Instant) -> UnitRun {
    let (cpu, stdout, stderr) = Default::default();
    UnitRun { end, duration: start.elapsed(), cpu, stdout, stderr }
}

fn end_of(command: &CommandLine, why: Option<Why>, status: io::Result<ExitStatus>) -> End {
    match (why, status) {
        (Some(Why::Timeout), _) => End::Timeout,
        (Some(Why::Cancelled), _) => End::Cancelled,
        (None, Ok(status)) => match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code),
            // The wait was for ended children only, so that without a code there is a signal.
            (None, signal) => End::Signal(signal.unwrap_or(0)),
        },
        (None, Err(error)) => {
            let program = command.program.to_string_lossy();
            let why = format!(
                "how `{program}` ended is not known ({error}): start the worker with SIGCHLD not ignored"
            );
            End::NotStarted(why, Lack::Line)
        }
    }
}

/// What is to be done while a long program runs, and when next.
struct Note<'a> {
    at: Option<Instant>,
    lasts: &'a mut dyn FnMut() -> Option<Duration>,
}

impl Note<'_> {
    fn do_if_due(&mut self) {
        if self.at.take_if(|at| *at <= Instant::now()).is_some() {
            self.at = (self.lasts)().map(|after| Instant::now() + after);
        }
    }
}

/// When a program is to end before it does so by itself.
#[derive(Clone, Copy)]
struct Stop<'a> {
    cancel: &'a CancelFlag,
    progress: Option<&'a Progress>,
}

impl<'a> Stop<'a> {
    /// It is asked how far it is.
    fn is_asked(self) -> bool {
        self.progress.is_some() && self.cancel.is_raised()
    }

    /// Readable when the answer may have changed.
    fn fd(self) -> BorrowedFd<'a> {
        match self.progress {
            Some(_) if !self.is_asked() => self.cancel.asked_fd(),
            _ => self.cancel.as_fd(),
        }
    }

    /// When to ask again.
    fn alarm(self) -> Option<Instant> {
        self.is_asked().then(|| Instant::now() + ASKED_AGAIN)
    }

    fn is_due(self) -> bool {
        let tells = || self.progress.is_some_and(|progress| progress.told(u64::MAX).is_some());
        self.cancel.is_forced() || self.is_asked() && tells()
    }
}

/// A program that was started and not yet collected. Until then its process id, and with it the id of
/// its group, cannot become another's: signals go to the right processes.
struct Process {
    relative: Relative,
    pid: Pid,
    watch: Watch,
    stdout: Stream,
    stderr: Stream,
    buffer: Vec<u8>,
}

impl Process {
    fn start(command: &CommandLine) -> io::Result<Self> {
        let mut relative = family::spawn(&mut command.to_std()?)?;
        let pid = Pid::from_child(&relative.child);
        let stdout = relative.child.stdout.take().map(OwnedFd::from);
        let stderr = relative.child.stderr.take().map(OwnedFd::from);
        Ok(Self {
            relative,
            pid,
            watch: Watch::new(pid),
            stdout: Stream::new(stdout, command.output_limit),
            stderr: Stream::new(stderr, command.output_limit),
            buffer: Vec::new(),
        })
    }

    /// Reads and waits until the program itself has ended, and sees to it that it does in time.
    /// `note` is done when it is due.
    fn follow(&mut self, phase: &mut Phase, stop: Stop<'_>, term_to_kill: Duration, note: &mut Note<'_>) {
        loop {
            note.do_if_due();
            let cancel_fd = phase.heeds_cancel().then(|| stop.fd());
            let fds = [self.stdout.fd(), self.stderr.fd(), self.watch.fd(), cancel_fd];
            let stop_at = stop.alarm().filter(|_| phase.heeds_cancel());
            let alarm = [phase.alarm(), self.watch.alarm(), note.at, stop_at].into_iter().flatten().min();
            let [stdout, stderr, ended, _] = wait(fds, alarm);
            self.take(stdout, stderr);
            let is_silent = !self.is_heard();
            if self.watch.sees_end(ended, is_silent) {
                return;
            }
            match phase.step(Instant::now(), phase.heeds_cancel() && stop.is_due(), term_to_kill) {
                Some(Signal::KILL) => self.kill(),
                Some(signal) => self.ask(signal),
                None => {}
            }
        }
    }

    fn take(&mut self, stdout: PollFlags, stderr: PollFlags) -> usize {
        self.stdout.take(stdout, &mut self.buffer) + self.stderr.take(stderr, &mut self.buffer)
    }

    /// After the program's end: waits a while for the end of its output, kills the rest of its group, and
    /// reads what the pipes still hold.
    fn hear_out(&mut self, end_to_kill: Duration) {
        let until = Instant::now() + end_to_kill;
        while self.is_heard() && Instant::now() < until {
            let [stdout, stderr] = wait([self.stdout.fd(), self.stderr.fd()], Some(until));
            self.take(stdout, stderr);
        }
        // The program itself is not collected yet, so that the group's id is still its own.
        let _ = kill_process_group(self.pid, Signal::KILL);
        // A descendant that left the group may write for ever: no more than the pipes could hold.
        let mut left = 2 * PIPE_BYTES_MAX;
        while self.is_heard() && left > 0 {
            let [stdout, stderr] = wait([self.stdout.fd(), self.stderr.fd()], Some(until));
            if stdout.is_empty() && stderr.is_empty() {
                return;
            }
            left = left.saturating_sub(self.take(stdout, stderr));
        }
    }

    fn is_heard(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    /// Sends `signal` once to each process of the group. A program that has left its group for another
    /// gets it directly, but only if nobody else was there: no program should get it twice.
    fn ask(&self, signal: Signal) {
        if kill_process_group(self.pid, signal).is_err() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// KILL for the group and for the program, wherever it is. Both may be gone, which is as well.
    fn kill(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = kill_process(self.pid, Signal::KILL);
    }

    fn collect(self) -> (io::Result<(ExitStatus, Duration)>, Captured, Captured) {
        (self.relative.collect(), self.stdout.finish(), self.stderr.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On kernels without pidfd the end is found by asking.
    #[test]
    fn a_run_without_pidfd_ends_as_well() {
        let shell = |script: &str, timeout| CommandLine {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            output_limit: 100,
            timeout,
            ..CommandLine::default()
        };
        let run = |command: &CommandLine| {
            let mut process = Process::start(command).unwrap();
            process.watch = Watch::by_asking(process.pid);
            let cancel = CancelFlag::new().unwrap();
            attend(process, command, Instant::now(), &cancel, Patience::default(), &mut || None)
        };
        let quiet = run(&shell("exec >&- 2>&-; sleep 0.1; exit 5", None));
        assert_eq!(quiet.end, End::Exit(5));
        let chatty = run(&shell("echo hello; kill -USR1 $$", None));
        assert_eq!((chatty.end, chatty.stdout.bytes), (End::Signal(10), b"hello\n".to_vec()));
        let hanging = run(&shell("exec sleep 600", Some(Duration::from_millis(50))));
        assert_eq!(hanging.end, End::Timeout);
    }
}
