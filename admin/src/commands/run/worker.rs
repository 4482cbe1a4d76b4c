//! The worker of an embedded farm: a child process that is started again when it dies, as a unit that
//! kills its worker makes it do, but not for ever.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use starfarm_protocol::admin::{KeyInfo, KeyKind, Request, Response};
use starfarm_protocol::seal::StaticKey;

use crate::client::{Client, ask};
use crate::daemon::{Daemon, worker_arguments};
use crate::failure::{Exit, Failure};
use crate::interrupt::Signals;
use crate::output::say;

/// Deaths without any unit settled in between after which we give up. A unit is isolated after three
/// deaths; a few such units in a row are still no reason.
const DEATHS_MAX: u32 = 12;
/// Pause before the first restart; it doubles with each death without progress.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A worker with nothing left to do ends within milliseconds; one that takes longer than this hangs.
const END_MAX: Duration = Duration::from_secs(10);

/// Its name in the farm.
const NAME: &str = "local";

/// The child, or the wait for the next one.
pub(super) struct Worker {
    arguments: Vec<OsString>,
    log: PathBuf,
    process: Process,
    patience: Patience,
    begun: Instant,
}

/// Exit code of a worker whose state directory is in use.
const IN_USE: i32 = 6;
/// The worker of a run that was killed leaves within seconds, once its programs are ended.
const ORPHAN_MAX: Duration = Duration::from_secs(20);
/// How often it is tried whether it has left.
const ORPHAN_WAIT: Duration = Duration::from_secs(1);

enum Process {
    Running(Daemon),
    Waiting { until: Instant },
}

/// The farm's one worker takes a new key where that of an earlier run is lost or damaged: its name passes to the new one.
pub(super) fn renew_key(state: &Path, client: &mut Client) -> Result<(), Failure> {
    let path = state.join("worker").join("key");
    match fs::read(&path) {
        Ok(bytes) if std::str::from_utf8(&bytes).is_ok_and(|text| StaticKey::from_file(text).is_ok()) => {
            return Ok(());
        }
        Ok(_) => {
            let aside = path.with_extension("damaged");
            let moved = fs::rename(&path, &aside);
            moved.map_err(|e| {
                Failure::usage(format!("cannot move the damaged key {} aside: {e}", path.display()))
            })?;
            say(&format!("{} is damaged: it is set aside as {}", path.display(), aside.display()));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // The worker says what is wrong with it.
        Err(_) => return Ok(()),
    }
    let keys = ask!(client, &Request::Keys, Response::Keys(keys) => keys)?;
    let is_old = |key: &KeyInfo| key.kind == KeyKind::Enrolled && key.name == NAME && !key.revoked;
    if let Some(old) = keys.into_iter().find(is_old) {
        ask!(client, &Request::RevokeKey { key: old.id }, Response::Keys(_) => ())?;
        say("the worker's key of the earlier run is lost: the worker takes a new one");
    }
    Ok(())
}

impl Worker {
    /// Starts a worker that joins the farm in `state`, with so many slots and these devices, where that is not as usual.
    pub(super) fn start(state: &Path, uses: (Option<u16>, Option<&str>)) -> Result<Self, Failure> {
        let arguments = worker_arguments(state, &state.join("worker"), NAME, uses);
        let log = state.join("worker.log");
        let process = Process::Running(Daemon::start(&arguments, &log)?);
        Ok(Self { arguments, log, process, patience: Patience::default(), begun: Instant::now() })
    }

    /// Starts it again if it has died. `settled` units have an outcome by now.
    pub(super) fn keep_alive(&mut self, settled: u128) -> Result<(), Failure> {
        match &mut self.process {
            Process::Running(daemon) => {
                let Some(status) = daemon.ended() else { return Ok(()) };
                if status.code() == Some(IN_USE) && self.begun.elapsed() < ORPHAN_MAX {
                    say("the worker of a run that was killed is still leaving: waiting for it");
                    self.process = Process::Waiting { until: Instant::now() + ORPHAN_WAIT };
                    return Ok(());
                }
                let pause = self.patience.after_death(settled).filter(|_| may_go_away(status));
                let Some(pause) = pause else {
                    let words = format!(
                        "the worker has ended ({status}) and is not started again; {} says:\n{}",
                        self.log.display(),
                        daemon.last_words()
                    );
                    return Err(Failure::usage(words));
                };
                say(&format!("the worker has died ({status}); it is started again"));
                self.process = Process::Waiting { until: Instant::now() + pause };
            }
            Process::Waiting { until } if Instant::now() >= *until => {
                self.process = Process::Running(Daemon::start(&self.arguments, &self.log)?);
            }
            Process::Waiting { .. } => {}
        }
        Ok(())
    }

    /// Lets it finish the running units; a second signal ends it at once.
    pub(super) fn drain(&mut self, signals: &Signals) {
        self.end_with(|| signals.so_far() < 2);
    }

    /// Ends it when there is nothing more to do.
    pub(super) fn end(&mut self) {
        let deadline = Instant::now() + END_MAX;
        self.end_with(|| Instant::now() < deadline);
    }

    fn end_with(&mut self, patience: impl FnMut() -> bool) {
        if let Process::Running(daemon) = &mut self.process {
            daemon.ask_to_end();
            if !daemon.wait_while(patience) {
                daemon.end_now();
            }
        }
    }
}

/// Whether a new worker may fare better: not where this one was refused or wrongly called.
fn may_go_away(status: ExitStatus) -> bool {
    let lasting = [Exit::Usage, Exit::Refused, Exit::Conflict].map(|exit| exit as i32);
    status.signal().is_some() || !status.code().is_some_and(|code| lasting.contains(&code))
}

/// How often it died, and how far the job was then.
#[derive(Debug, Default)]
struct Patience {
    deaths: u32,
    settled: u128,
}

impl Patience {
    /// How long to wait before the next start; `None` to give up.
    fn after_death(&mut self, settled: u128) -> Option<Duration> {
        if settled > self.settled {
            self.deaths = 0;
            self.settled = settled;
        }
        self.deaths += 1;
        (self.deaths <= DEATHS_MAX).then(|| (PAUSE_MIN * 2_u32.pow(self.deaths - 1)).min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_come_to_an_end() {
        let mut patience = Patience::default();
        let pauses: Vec<_> = (0..DEATHS_MAX).map(|_| patience.after_death(0).unwrap()).collect();
        assert_eq!(pauses[..3], [100, 200, 400].map(Duration::from_millis));
        assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX));
        assert_eq!(patience.after_death(0), None);
    }

    #[test]
    fn progress_gives_new_patience() {
        let mut patience = Patience::default();
        for settled in 1..100 {
            assert_eq!(patience.after_death(settled), Some(PAUSE_MIN));
        }
    }

    #[test]
    fn only_what_may_go_away_is_tried_again() {
        for (raw, again) in [(9, true), (1 << 8, true), (101 << 8, true), (2 << 8, false), (5 << 8, false)] {
            assert_eq!(may_go_away(ExitStatus::from_raw(raw)), again, "{raw}");
        }
    }
}
