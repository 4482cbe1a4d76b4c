//! Programs that run for something that has happened, each in a process group of its own: so many at once and no more, one that
//! takes too long is ended with all that it started. A thread waits for them.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// One that runs for longer is ended.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How programs run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// So many at once.
    pub(crate) running_max: usize,
    /// So many wait.
    pub(crate) waiting_max: usize,
    pub(crate) limit: Duration,
    /// So much time lies between the starts of two.
    pub(crate) apart: Duration,
}

/// Has a program run for each `T`.
pub(crate) struct Runner<T>(SyncSender<T>);

impl<T: Send + 'static> Runner<T> {
    /// By what `start` does, in a thread of that name.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn new(
        name: &str,
        rules: Rules,
        start: impl FnMut(T) -> Option<Child> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to, things) = sync_channel(rules.waiting_max);
        std::thread::Builder::new().name(name.into()).spawn(move || run_all(rules, start, &things))?;
        Ok(Self(to))
    }

    /// Has one run as soon as it may; false where too many wait.
    pub(crate) fn run(&self, thing: T) -> bool {
        !matches!(self.0.try_send(thing), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

/// A command in a group of its own that hears nothing, and whose output goes nowhere.
pub(crate) fn alone(mut command: Command) -> Command {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn run_all<T>(rules: Rules, mut start: impl FnMut(T) -> Option<Child>, things: &Receiver<T>) {
    let mut running = Vec::<(Child, Instant)>::new();
    let mut last: Option<Instant> = None;
    loop {
        running.retain_mut(|(child, since)| goes_on(child, *since, rules.limit));
        let rest = last.map_or(Duration::ZERO, |last| rules.apart.saturating_sub(last.elapsed()));
        if running.len() >= rules.running_max || !rest.is_zero() {
            // What is asked for meanwhile waits where it is.
            std::thread::sleep(if running.is_empty() { rest.min(LOOK) } else { LOOK });
            continue;
        }
        let next = if running.is_empty() {
            things.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            things.recv_timeout(LOOK)
        };
        match next {
            Ok(thing) => {
                last = Some(Instant::now());
                running.extend(start(thing).map(|child| (child, Instant::now())));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody asks any more. What runs goes on to its end, also where the whole process ends.
            Err(RecvTimeoutError::Disconnected) if running.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
    }
}

/// It has not ended, by itself or for having run for too long.
fn goes_on(child: &mut Child, since: Instant, limit: Duration) -> bool {
    if !matches!(child.try_wait(), Ok(None)) {
        return false;
    }
    if since.elapsed() >= limit {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        return false;
    }
    true
}
