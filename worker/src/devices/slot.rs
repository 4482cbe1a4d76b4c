//! The device of a slot, over the lives of its hosts. A host that crashes or hangs costs its task no more than that goes
//! back; until the device is tried again, after a pause that grows with each failure in a row, it is sick.

use std::time::{Duration, Instant};

use starfarm_kernels::Hit;
use starfarm_protocol::devices::{DeviceFacts, DeviceState};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::units::Units;

use super::host::{Heard, Host};
use super::words::{Reply, Request};
use crate::exec::CancelFlag;

/// Pauses after failures in a row: a second, then twice as long each time, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The device of a slot.
pub(crate) struct DeviceSlot {
    number: usize,
    facts: DeviceFacts,
    card: Option<u16>,
    host: Option<Host>,
    /// The job that the host is prepared for.
    prepared: Option<ContentHash>,
    /// Counts scans.
    scans: u64,
    /// Failures in a row.
    failures: u32,
    /// It is sick until then.
    again_at: Option<Instant>,
    /// Hears how it does, where that changes.
    tell: Box<dyn Fn(DeviceState) + Send>,
}

/// Why a scan did not come to its end.
pub(crate) enum Ended {
    /// The flag was raised.
    Cancelled,
    /// The device cannot run this job, in words.
    Refused(String),
    /// The device failed, in words. It was said to a person, and is tried again later.
    Failed,
}

/// Units up to there were scanned, in such a time, and this was found.
pub(crate) struct Part {
    pub(crate) reached: u128,
    pub(crate) hits: Vec<Hit>,
    pub(crate) spent: Duration,
}

impl DeviceSlot {
    /// Device `number`, of which that is known, and which card of the worker it is. No host is started yet.
    pub(crate) fn new(number: usize, facts: DeviceFacts, card: Option<u16>) -> Self {
        let tell = Box::new(|_| {});
        Self { number, facts, card, host: None, prepared: None, scans: 0, failures: 0, again_at: None, tell }
    }

    /// The same, and `tell` hears how it does.
    pub(crate) fn telling(self, tell: impl Fn(DeviceState) + Send + 'static) -> Self {
        Self { tell: Box::new(tell), ..self }
    }

    /// Which card of the worker it is; none where it is no card that programs may have.
    pub(crate) fn card(&self) -> Option<u16> {
        self.card
    }

    /// What it is.
    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// When it is tried again, where it is sick.
    pub(crate) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// It is tried again from now on.
    pub(crate) fn try_again(&mut self) {
        self.again_at = None;
        (self.tell)(DeviceState::Ready);
    }

    /// Scans `[lo, hi)` of the job `spec`, whose specification `read` gives, and tells of each part.
    pub(crate) fn scan(
        &mut self,
        spec: ContentHash,
        read: impl FnOnce() -> Option<JobSpec>,
        (lo, hi): (u128, u128),
        cancel: &CancelFlag,
        tell: &mut dyn FnMut(Part),
    ) -> Result<(), Ended> {
        match self.try_scan(spec, read, (lo, hi), cancel, tell) {
            Err(Failure::Stopped) => {
                // It did not stop in time, perhaps since it compiles: no fault of the device.
                self.host = None;
                Err(Ended::Cancelled)
            }
            Err(Failure::Device(why)) => {
                self.fails(&why);
                Err(Ended::Failed)
            }
            Err(Failure::Ended(ended)) => Err(ended),
            Ok(()) => {
                self.failures = 0;
                Ok(())
            }
        }
    }

    fn try_scan(
        &mut self,
        spec: ContentHash,
        read: impl FnOnce() -> Option<JobSpec>,
        (lo, hi): (u128, u128),
        cancel: &CancelFlag,
        tell: &mut dyn FnMut(Part),
    ) -> Result<(), Failure> {
        if self.host.is_none() {
            self.prepared = None;
            let started = Host::start(self.number);
            self.host = Some(
                started.map_err(|error| Failure::Device(format!("its host cannot be started: {error}")))?,
            );
        }
        let host = self.host.as_mut().expect("it was started");
        if self.prepared != Some(spec) {
            self.prepared = None;
            let Some(job) = read() else { return Err(Failure::Ended(Ended::Cancelled)) };
            host.ask(&Request::Prepare(Box::new(job)))?;
            (self.tell)(DeviceState::Compiling);
            // A device that is made ready is not interrupted: the next task wants it so, too.
            let heard = host.hear(None)?;
            (self.tell)(DeviceState::Ready);
            match heard {
                Heard::Reply(Reply::Prepared) => self.prepared = Some(spec),
                Heard::Reply(Reply::Refused(why)) => return Err(Failure::Ended(Ended::Refused(why))),
                Heard::Reply(Reply::Failed(why)) => return Err(Failure::Device(why)),
                Heard::Reply(_) | Heard::Cancelled => return Err(out_of_turn()),
            }
        }
        self.scans += 1;
        host.ask(&Request::Scan { number: self.scans, lo: Units(lo), hi: Units(hi) })?;
        let mut flag = Some(cancel);
        let mut next = lo;
        loop {
            let heard = host.hear(flag);
            match heard.map_err(|why| if flag.is_some() { Failure::Device(why) } else { Failure::Stopped })? {
                Heard::Cancelled => {
                    flag = None;
                    host.ask(&Request::Stop(self.scans))?;
                }
                Heard::Reply(Reply::Part { reached, hits, us }) => {
                    let hits: Vec<Hit> = hits.into_iter().map(Hit::from).collect();
                    let (from, to) = (next, reached.0);
                    if !(from < to && to <= hi && hits.iter().all(|hit| (from..to).contains(&hit.unit))) {
                        return Err(Failure::Device("it tells of units that it was not given".to_owned()));
                    }
                    next = to;
                    tell(Part { reached: to, hits, spent: Duration::from_micros(us) });
                }
                Heard::Reply(Reply::Over) if next == hi => return Ok(()),
                Heard::Reply(Reply::Over) => return Err(Failure::Ended(Ended::Cancelled)),
                Heard::Reply(Reply::Failed(why)) => return Err(Failure::Device(why)),
                Heard::Reply(Reply::Prepared | Reply::Refused(_) | Reply::Busy) => return Err(out_of_turn()),
            }
        }
    }

    /// The device failed: its host goes, and the next one comes after a pause.
    fn fails(&mut self, why: &str) {
        self.host = None;
        let pause = Duration::from_secs(1 << self.failures.min(6)).min(PAUSE_MAX);
        self.failures += 1;
        self.again_at = Some(Instant::now() + pause);
        (self.tell)(DeviceState::Sick);
        starfarm_net::say(&format!(
            "starfarm-worker: device {} ({}) failed: {why}; its task goes back, and it is tried again in {} s",
            self.number,
            self.facts.name,
            pause.as_secs()
        ));
    }
}

enum Failure {
    Ended(Ended),
    /// It failed, in words.
    Device(String),
    /// It was told to stop, and did not.
    Stopped,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Device(why)
    }
}

fn out_of_turn() -> Failure {
    Failure::Device("it says something that it was not asked".to_owned())
}
