//! A farm of processes for a measurement: one scheduler, some workers, a folder. All are gone when the
//! value is, however it goes.

use starfarm_protocol::state::NodeState;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;

use crate::cli::Dispatch;
use crate::client::Client;
use crate::daemon::{Daemon, worker_arguments};
use crate::failure::{Exit, Failure};
use crate::interrupt::Signals;

/// Processes that are not ready by then will not be.
const START_MAX: Duration = Duration::from_secs(30);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// A folder that is gone when the value is.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("starfarm-bench-{}", std::process::id()));
        let made = std::fs::create_dir(&path);
        made.map_err(|error| {
            Failure::usage(format!("cannot make the directory {}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The farm. The fields are dropped in their order: workers before their scheduler, the folder last.
pub(super) struct Farm {
    pub(super) client: Client,
    workers: Vec<Daemon>,
    scheduler: Daemon,
    _folder: Folder,
}

impl Farm {
    /// Starts the scheduler and the workers, and waits until all are there.
    ///
    /// # Errors
    /// One of them does not start; [`Exit::Interrupted`].
    pub(super) fn start(dispatch: &Dispatch, signals: &Signals) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let state = folder.0.join("s");
        let mut scheduler = Daemon::start(&scheduler_arguments(&state, dispatch), &folder.0.join("s.log"))?;
        let client = ready(signals, || {
            check(&mut scheduler, "scheduler")?;
            // Its socket is there before all else; it answers once its state is read and its keys are written.
            match Client::connect(&state).and_then(|mut client| client.nodes().map(|_| client)) {
                Ok(client) => Ok(Some(client)),
                Err(failure) if failure.exit == Exit::Unreachable => Ok(None),
                Err(failure) => Err(failure),
            }
        })?;
        let start = |number| {
            let own = folder.0.join(format!("w{number}"));
            let mut arguments =
                worker_arguments(&state, &own, &format!("bench-{number}"), (Some(dispatch.slots), None));
            arguments.extend(dispatch.no_seal.then(|| "--no-seal".into()));
            arguments.extend(dispatch.no_monitor.then(|| "--no-monitor".into()));
            Daemon::start(&arguments, &folder.0.join(format!("w{number}.log")))
        };
        let workers = (0..dispatch.nodes).map(start).collect::<Result<_, _>>()?;
        let mut farm = Self { client, workers, scheduler, _folder: folder };
        ready(signals, || {
            farm.check()?;
            let up = farm.client.nodes()?.iter().filter(|node| node.state == NodeState::Up).count();
            Ok((up == usize::from(dispatch.nodes)).then_some(()))
        })?;
        Ok(farm)
    }

    pub(super) fn check(&mut self) -> Result<(), Failure> {
        check(&mut self.scheduler, "scheduler")?;
        self.workers.iter_mut().try_for_each(|worker| check(worker, "worker"))
    }

    /// User and system time that the scheduler's process has used so far.
    pub(super) fn scheduler_cpu_seconds(&self) -> Result<f64, Failure> {
        let path = format!("/proc/{}/stat", self.scheduler.id());
        let stat = std::fs::read_to_string(&path).ok();
        let ticks = stat.as_deref().and_then(cpu_ticks);
        ticks
            .map(|ticks| ticks as f64 / clock_ticks_per_second() as f64)
            .ok_or_else(|| Failure::usage(format!("cannot read the scheduler's CPU time in {path}")))
    }
}

fn check(daemon: &mut Daemon, name: &str) -> Result<(), Failure> {
    match daemon.ended() {
        None => Ok(()),
        Some(status) => {
            let words = format!("the {name} has ended ({status}); it said:\n{}", daemon.last_words());
            Err(Failure::usage(words))
        }
    }
}

/// Asks `look` until it has something.
fn ready<T>(signals: &Signals, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let deadline = Instant::now() + START_MAX;
    while Instant::now() < deadline {
        signals.check()?;
        if let Some(found) = look()? {
            return Ok(found);
        }
        std::thread::sleep(LOOK);
    }
    let words = format!("the farm is not ready after {} s: is this machine very busy?", START_MAX.as_secs());
    Err(Failure::unreachable(words))
}

fn scheduler_arguments(state: &Path, dispatch: &Dispatch) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["scheduler".into(), "--listen".into(), "127.0.0.1:0".into(), "--state".into(), state.into()];
    arguments.extend(dispatch.no_journal.then(|| "--no-journal".into()));
    arguments.extend(dispatch.no_log.then(|| "--no-log".into()));
    arguments.extend(dispatch.no_seal.then(|| "--no-seal".into()));
    arguments.extend(dispatch.no_monitor.then(|| "--no-monitor".into()));
    arguments
}

/// `utime` and `stime` of a line of `/proc/PID/stat`, see proc_pid_stat(5). The second field is the
/// program's name in brackets and may hold anything, so counting begins behind it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let line = "42 (a ) b) S 1 42 42 0 -1 4194560 500 0 0 0 120 34 7 8 20 0 9 0 1000 1 2 3";
        assert_eq!(cpu_ticks(line), Some(154));
        assert_eq!(cpu_ticks("42 (a) S 1"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(cpu_ticks(&own).is_some());
    }
}
