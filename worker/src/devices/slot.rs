//! The device of a slot, over the lives of its hosts. A host that crashes or hangs costs its task no more than that goes
//! back; until the device is tried again, after a pause that grows with each failure in a row, it is sick.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use starfarm_kernels::Hit;
use starfarm_protocol::devices::{DeviceFacts, DeviceState};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::units::Units;

use super::host::{HANGS, Heard, Host, Lost, STOPS};
use super::words::{Left, Listed, Reply, Request};
use starfarm_exec::CancelFlag;

/// Pauses after failures in a row: a second, then twice as long each time, up to this.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// So much longer than its launch a host may say nothing: what the launch left is read, and travels.
const SLACK: Duration = Duration::from_secs(1);

/// The device of a slot.
pub(crate) struct DeviceSlot {
    number: usize,
    device: Listed,
    card: Option<u16>,
    /// Where programs that its hosts compile are kept.
    cache: Option<PathBuf>,
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

/// What was computed by a launch of a user's kernel.
pub(crate) struct Ran {
    pub(crate) units: u64,
    pub(crate) spent: Duration,
    pub(crate) left: Left,
}

/// Why the units of a user's kernel were not all computed.
pub(crate) enum KernelEnded {
    /// As with a search.
    Device(Ended),
    /// A launch over these units did not come to its end: it took too long, or its host ended, in words.
    Launch { units: (u128, u128), hangs: bool, why: String },
}

/// What is asked of a device.
pub(crate) struct Ask<'a> {
    pub(crate) spec: ContentHash,
    /// Gives the specification, where the device does not know it.
    pub(crate) read: &'a dyn Fn() -> Option<JobSpec>,
    /// The first unit, and the first one that is not asked for.
    pub(crate) units: (u128, u128),
    /// Most units of a launch of a user's kernel.
    pub(crate) most: Option<u64>,
    pub(crate) cancel: &'a CancelFlag,
}

impl DeviceSlot {
    /// Device `number`, which is that one, and which card of the worker it is. No host is started yet.
    pub(crate) fn new(number: usize, device: Listed, card: Option<u16>, cache: Option<PathBuf>) -> Self {
        Self {
            number,
            device,
            card,
            cache,
            host: None,
            prepared: None,
            scans: 0,
            failures: 0,
            again_at: None,
            tell: Box::new(|_| {}),
        }
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
        &self.device.facts
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

    /// Scans the units of a search, and tells of each part.
    pub(crate) fn scan(&mut self, ask: &Ask<'_>, tell: &mut dyn FnMut(Part)) -> Result<(), Ended> {
        let (mut next, hi) = ask.units;
        let ended = self.try_ask(ask, HANGS, &mut |reply| match reply {
            Reply::Part { reached, hits, us } => {
                let hits: Vec<Hit> = hits.into_iter().map(Hit::from).collect();
                let (from, to) = (next, reached.0);
                if !(from < to && to <= hi && hits.iter().all(|hit| (from..to).contains(&hit.unit))) {
                    return Err(not_given());
                }
                next = to;
                tell(Part { reached: to, hits, spent: Duration::from_micros(us) });
                Ok(())
            }
            _ => Err(out_of_turn()),
        });
        let ended = if ended.is_ok() && next < hi { Err(Failure::Ended(Ended::Cancelled)) } else { ended };
        ended.map_err(|failure| self.ended(failure))
    }

    /// Runs a user's kernel over the units, a launch of which may take so long, and tells of each launch. Where one does not
    /// come to its end that is the kernel's doing.
    pub(crate) fn run(
        &mut self,
        ask: &Ask<'_>,
        launch: Duration,
        tell: &mut dyn FnMut(Ran),
    ) -> Result<(), KernelEnded> {
        let (mut next, hi) = ask.units;
        let mut begun = None;
        let ended = self.try_ask(ask, launch + SLACK, &mut |reply| match reply {
            Reply::Begins(upto) if next < upto.0 && upto.0 <= hi => {
                begun = Some((next, upto.0));
                Ok(())
            }
            Reply::Ran { reached, us, left } if begun.is_some_and(|(_, upto)| reached.0 <= upto) => {
                if reached.0 <= next {
                    return Err(not_given());
                }
                tell(Ran { units: (reached.0 - next) as u64, spent: Duration::from_micros(us), left });
                (next, begun) = (reached.0, None);
                Ok(())
            }
            _ => Err(out_of_turn()),
        });
        match (ended, begun) {
            (Ok(()), _) if next == hi => Ok(()),
            (Ok(()), _) => Err(KernelEnded::Device(Ended::Cancelled)),
            (Err(Failure::Device(why)), Some(units)) => Err(self.launch_failed(ask, units, false, why)),
            (Err(Failure::Hangs(why)), Some(units)) => Err(self.launch_failed(ask, units, true, why)),
            // A driver that crashes over a user's text does so again, unless it would do so over any.
            (Err(Failure::Compiles(why)), _) => {
                self.host = None;
                let ended = match self.check() {
                    Ok(()) => Ended::Refused(format!("the kernel cannot be compiled: {why}")),
                    Err(failure) => self.ended(failure),
                };
                Err(KernelEnded::Device(ended))
            }
            (Err(failure), _) => Err(KernelEnded::Device(self.ended(failure))),
        }
    }

    fn launch_failed(&mut self, ask: &Ask<'_>, units: (u128, u128), hangs: bool, why: String) -> KernelEnded {
        self.host = None;
        // Of one unit alone it is to be said that it fails: not where the device is gone, which fails again now.
        if units.1 - units.0 == 1
            && let Err(failure) = self.make_ready(ask)
        {
            return KernelEnded::Device(self.ended(failure));
        }
        KernelEnded::Launch { units, hangs, why }
    }

    fn ended(&mut self, failure: Failure) -> Ended {
        match failure {
            Failure::Stopped => {
                // It did not stop in time, perhaps since it compiles: no fault of the device.
                self.host = None;
                Ended::Cancelled
            }
            Failure::Device(why) | Failure::Hangs(why) | Failure::Compiles(why) => {
                self.fails(&why);
                Ended::Failed
            }
            Failure::Ended(ended) => ended,
        }
    }

    /// The host, which is started where there is none.
    fn host(&mut self) -> Result<&mut Host, Failure> {
        let host = match self.host.take() {
            Some(host) => host,
            None => {
                self.prepared = None;
                Host::start(self.number, self.device.clone(), self.cache.clone())?
            }
        };
        Ok(self.host.insert(host))
    }

    /// The device runs a program of ours, by a host of its own.
    fn check(&mut self) -> Result<(), Failure> {
        let host = self.host()?;
        host.ask(&Request::Check, HANGS)?;
        match host.hear(None)? {
            Heard::Reply(Reply::Works) => Ok(()),
            Heard::Reply(Reply::Failed(why)) => Err(Failure::Device(why)),
            Heard::Reply(_) | Heard::Cancelled => Err(out_of_turn()),
        }
    }

    /// Starts a host where there is none, and has it prepare the job where it has not.
    fn make_ready(&mut self, ask: &Ask<'_>) -> Result<(), Failure> {
        self.host()?;
        while self.prepared != Some(ask.spec) {
            self.prepared = None;
            let Some(job) = (ask.read)() else { return Err(Failure::Ended(Ended::Cancelled)) };
            let host = self.host()?;
            host.ask(&Request::Prepare(Box::new(job)), HANGS)?;
            (self.tell)(DeviceState::Compiling);
            // A device that is made ready is not interrupted: the next task wants it so, too.
            let heard = self.host()?.hear(None);
            (self.tell)(DeviceState::Ready);
            match heard.map_err(|lost| Failure::Compiles(lost.why()))? {
                Heard::Reply(Reply::Prepared) => self.prepared = Some(ask.spec),
                Heard::Reply(Reply::Occupied) => self.host = None,
                Heard::Reply(Reply::Refused(why)) => return Err(Failure::Ended(Ended::Refused(why))),
                Heard::Reply(Reply::Failed(why)) => return Err(Failure::Device(why)),
                Heard::Reply(_) | Heard::Cancelled => return Err(out_of_turn()),
            }
        }
        Ok(())
    }

    /// Asks the host for the units, once it is ready for the job; `on` hears all that it says of them. Where the flag is raised
    /// it stops, and that is no error.
    fn try_ask(
        &mut self,
        ask: &Ask<'_>,
        patience: Duration,
        on: &mut dyn FnMut(Reply) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.make_ready(ask)?;
        let host = self.host.as_mut().expect("it was made ready");
        self.scans += 1;
        let ((lo, hi), number) = (ask.units, self.scans);
        host.ask(&Request::Scan { number, lo: Units(lo), hi: Units(hi), most: ask.most }, patience)?;
        let mut flag = Some(ask.cancel);
        loop {
            let heard = host.hear(flag);
            match heard.map_err(|lost| if flag.is_some() { lost.into() } else { Failure::Stopped })? {
                Heard::Cancelled => {
                    flag = None;
                    host.ask(&Request::Stop(number), STOPS)?;
                }
                Heard::Reply(Reply::Over) => {
                    self.failures = 0;
                    return Ok(());
                }
                Heard::Reply(Reply::Failed(why)) => return Err(Failure::Device(why)),
                Heard::Reply(reply) => on(reply)?,
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
            self.device.facts.name,
            pause.as_secs()
        ));
    }
}

enum Failure {
    Ended(Ended),
    /// It failed, in words.
    Device(String),
    /// It said nothing for too long, in words.
    Hangs(String),
    /// It was lost when it compiled, or was made ready for a job.
    Compiles(String),
    /// It was told to stop, and did not.
    Stopped,
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Hangs(why) => Self::Hangs(why),
            Lost::Compiles(why) => Self::Compiles(why),
            Lost::Ended(why) => Self::Device(why),
        }
    }
}

fn not_given() -> Failure {
    Failure::Device("it tells of units that it was not given".to_owned())
}

fn out_of_turn() -> Failure {
    Failure::Device("it says something that it was not asked".to_owned())
}
