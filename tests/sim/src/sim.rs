//! The simulation: what is true, and who is meant by it. The loop over events lies in `run`, what happens at each end
//! in `at_farm` and `at_worker`, what befalls them in `trouble`.

use starfarm_protocol::ids::Epoch;

use crate::agenda::{Agenda, Incarnation, MachineId};
use crate::farm_log::FarmLog;
use crate::job::Job;
use crate::machine::{Machine, Process};
use crate::narrow::Paths;
use crate::network::Network;
use crate::plan::{Orders, Plan};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::seat::Seat;
use crate::slot::Report;
use crate::tally::{LogHash, Tally};
use crate::violation::Broken;
use crate::wiretap::Wiretap;

/// Ticks at one instant after which a core is said to spin.
pub(crate) const SPINS_MAX: u32 = 100;
/// A run of a scenario.
#[derive(Debug)]
pub struct Sim {
    pub(crate) scenario: Scenario,
    pub(crate) now_us: u64,
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    pub(crate) paths: Paths,
    /// The scheduler.
    pub(crate) farm: Seat,
    /// A second one, which does not count.
    pub(crate) other: Option<Box<Seat>>,
    /// The scheduler while something happens to the second one.
    pub(crate) parked: Option<Box<Seat>>,
    /// Machines whose datagrams go to the second one.
    pub(crate) astray: Vec<bool>,
    /// The epoch of each scheduler that ever started.
    pub(crate) epochs: Vec<Epoch>,
    /// Records up to this one were durable in the right scheduler: users were answered.
    pub(crate) answered: u64,
    pub(crate) orders: Orders,
    /// Handshakes so far.
    pub(crate) shaken: u32,
    /// What disks lose and clocks show.
    pub(crate) fate: Random,
    pub(crate) machines: Vec<Machine>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) plan: Plan,
    pub(crate) planned: usize,
    pub(crate) wiretap: Wiretap,
    pub(crate) tally: Tally,
    pub(crate) log: LogHash,
    /// The farm's log, from its first turn on, where one is wanted.
    pub(crate) farm_log: Option<FarmLog>,
    /// Jobs that have not ended, those to be submitted included.
    pub(crate) unfinished: usize,
    /// When the last job ended.
    pub(crate) ended_us: u64,
    /// Scratch of `at_worker`.
    pub(crate) deeds: Vec<starfarm_worker_core::Deed>,
    /// See `deeds`.
    pub(crate) reports: Vec<Report>,
    /// Says what happens on stderr.
    pub(crate) verbose: bool,
}

impl Sim {
    /// Says every event of the farm on stderr, too.
    pub fn verbose(mut self) -> Self {
        self.verbose = true;
        self
    }

    /// Notes which share of their time the slots have computed so far.
    pub(crate) fn utilise(&mut self) {
        let (mut busy_us, mut available_us) = (0, 0);
        for machine in &mut self.machines {
            machine.account(self.now_us);
            let running = machine.slots.iter().map(|slot| slot.busy_us).sum::<u64>();
            busy_us += machine.busy_us + if machine.process == Process::Down { 0 } else { running };
            available_us += machine.totals.available_us;
        }
        self.tally.slots_us = available_us;
        self.tally.utilisation = busy_us as f64 / available_us.max(1) as f64;
    }

    /// The time on the scheduler's clock.
    pub(crate) fn farm_us(&self) -> u64 {
        self.now_us + self.farm.ahead_us
    }

    /// Which scheduler has the address, as the machine sees it, if one runs there.
    pub(crate) fn reached(&self, machine: MachineId) -> Option<Incarnation> {
        let seat = if self.astray[machine as usize] { self.other.as_deref() } else { Some(&self.farm) };
        seat.filter(|seat| seat.up).map(|seat| seat.incarnation)
    }

    /// Something happens to the scheduler of `incarnation`, if it still runs: it stands in `self.farm` meanwhile.
    pub(crate) fn at_seat(
        &mut self,
        incarnation: Incarnation,
        act: impl FnOnce(&mut Self) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        if self.farm.incarnation == incarnation {
            return if self.farm.up { act(self) } else { Ok(()) };
        }
        let Some(mut other) = self.other.take_if(|other| other.incarnation == incarnation && other.up) else {
            return Ok(());
        };
        std::mem::swap(&mut self.farm, &mut *other);
        self.parked = Some(other);
        let result = act(self);
        let mut other = self.parked.take().expect("nobody else takes it");
        std::mem::swap(&mut self.farm, &mut *other);
        self.other = Some(other).filter(|other| other.up);
        result
    }
}
