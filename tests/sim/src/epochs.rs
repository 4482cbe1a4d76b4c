//! The scheduler's end and its next beginning: crashes, starts from what the disk has kept, and schedulers
//! that were started beside the right one by mistake. What must hold at a start is asked in `checker`.

use starfarm_protocol::ids::Epoch;
use starfarm_protocol::journal::Record;
use starfarm_scheduler_core::{Farm, Restoring};

use crate::agenda::{Incarnation, MachineId, What};
use crate::disk::Disk;
use crate::plan::us;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::seat::{self, BEGINNING_US, Seat};
use crate::sim::Sim;
use crate::violation::Broken;

/// A sleeper that woke up runs so long beside its successor.
const AWAKE_US: u64 = 60_000_000;

impl Sim {
    /// The scheduler's process dies. What it had not synced may be lost.
    pub(crate) fn scheduler_crash(&mut self, down_us: u64) -> Result<(), Broken> {
        if !self.farm.up || self.farm.disk.is_none() {
            return Ok(());
        }
        self.replay_equals_live()?;
        self.farm.up = false;
        self.hang_up();
        if let Some(disk) = &mut self.farm.disk {
            disk.crash(&mut self.fate)?;
        }
        self.tally.faults += 1;
        self.agenda.at(self.now_us + down_us, What::Restart);
        Ok(())
    }

    /// The next scheduler starts from the disk of the last one.
    pub(crate) fn restart(&mut self) -> Result<(), Broken> {
        if self.farm.up {
            return Ok(());
        }
        let Some(disk) = self.farm.disk.take() else { return Ok(()) };
        let epoch = Epoch(self.farm.epoch.0 + 1);
        let (seat, records) = self.start_from(disk, epoch)?;
        self.farm = seat;
        self.tally.restarts += 1;
        self.inherit(&records)?;
        self.turn()
    }

    /// What was promised holds, and who got no answer asks again.
    fn inherit(&mut self, records: &[Record]) -> Result<(), Broken> {
        self.promises_hold(records)?;
        self.orders_in_force(records)?;
        self.count_unfinished();
        self.orders_again()
    }

    /// A scheduler starts from a disk: a new epoch is on the disk before anything is sent.
    fn start_from(&mut self, mut disk: Disk, epoch: Epoch) -> Result<(Seat, Vec<Record>), Broken> {
        let incarnation = Incarnation(self.epochs.len() as u32);
        self.epochs.push(epoch);
        let back_us = self.fate.below(us(self.scenario.farm.clock_back_s) + 1);
        let ahead_us = self.farm.ahead_us.saturating_sub(back_us).max(BEGINNING_US / 2);
        let now_us = self.now_us + ahead_us;
        let mut records = disk.records(0);
        records.push(disk.start(epoch, now_us));
        let farm = self.restore(&disk, &records, (incarnation, epoch), now_us)?;
        let mut seat = Seat::new(farm, (incarnation, epoch), (self.now_us, ahead_us), self.machines.len());
        seat.disk = Some(disk);
        Ok((seat, records))
    }

    /// The farm that `records` make. Where there is a checkpoint to begin with, the same must come of it.
    fn restore(
        &mut self,
        disk: &Disk,
        records: &[Record],
        number: (Incarnation, Epoch),
        now_us: u64,
    ) -> Result<Farm, Broken> {
        let after = (disk.len(), now_us);
        let whole = self.replay(&[records], number, after)?;
        let Some((sequence, checkpoint)) = disk.checkpoint() else { return Ok(whole) };
        let farm = self.replay(&[&checkpoint, &records[sequence as usize..]], number, after)?;
        self.same("a checkpoint and the records after it are the records", &farm, &whole)?;
        Ok(if self.fate.below(8) == 0 { whole } else { farm })
    }

    /// Somebody starts a scheduler from an old copy of the state. It gets the address as far as the machines
    /// named are concerned; it may run beside the right one, which it does not know of.
    pub(crate) fn old_copy(&mut self, [first, last]: [MachineId; 2], lasts_us: u64) -> Result<(), Broken> {
        if self.other.is_some() {
            return Ok(());
        }
        let copy = self.farm.disk.as_ref().and_then(|disk| disk.old_copy(&mut self.fate));
        let Some((disk, epoch)) = copy else { return Ok(()) };
        let (seat, _) = self.start_from(disk, Epoch(epoch.0 + 1))?;
        self.astray[first as usize..=last as usize].fill(true);
        self.run_beside(seat, lasts_us)
    }

    /// The scheduler sleeps, and a successor starts from its disk; then it wakes up beside it.
    pub(crate) fn sleeper(&mut self, lasts_us: u64) -> Result<(), Broken> {
        if self.other.is_some() || !self.farm.up {
            return Ok(());
        }
        self.replay_equals_live()?;
        let Some(mut disk) = self.farm.disk.clone() else { return Ok(()) };
        disk.crash(&mut self.fate)?;
        self.hang_up();
        let (seat, records) = self.start_from(disk, Epoch(self.farm.epoch.0 + 1))?;
        let mut sleeper = std::mem::replace(&mut self.farm, seat);
        self.tally.restarts += 1;
        sleeper.stalled_until_us = self.now_us + lasts_us;
        self.run_beside(sleeper, lasts_us + AWAKE_US)?;
        self.inherit(&records)?;
        self.turn()
    }

    /// A second scheduler runs for a while.
    fn run_beside(&mut self, mut seat: Seat, lasts_us: u64) -> Result<(), Broken> {
        let incarnation = seat.incarnation;
        seat.rightful = false;
        seat.settling.clear();
        self.other = Some(Box::new(seat));
        self.tally.faults += 1;
        self.agenda.at(self.now_us + lasts_us, What::EndSecond(incarnation));
        self.at_seat(incarnation, Self::turn)
    }

    /// The second scheduler is stopped and the address goes back to where it belongs.
    pub(crate) fn end_second(&mut self, incarnation: Incarnation) {
        if self.other.as_ref().is_none_or(|other| other.incarnation == incarnation) {
            self.other = None;
            self.astray.fill(false);
        }
    }
}

/// The first scheduler, at the beginning of the world.
pub(crate) fn first(scenario: &Scenario, needs_disk: bool, machines: usize) -> Seat {
    let epoch = Epoch(1);
    let mut disk = Disk::default();
    let mut restoring = Restoring::new(seat::config(scenario, (Incarnation(0), epoch)), BEGINNING_US);
    restoring.apply(&disk.start(epoch, BEGINNING_US)).expect("the first record fits");
    let farm = restoring.finish(1, BEGINNING_US);
    let mut seat = Seat::new(farm, (Incarnation(0), epoch), (0, BEGINNING_US), machines);
    seat.disk = needs_disk.then_some(disk);
    seat
}

/// Chance of what disks lose and clocks show.
pub(crate) fn fate(seed: u64) -> Random {
    Random::stream(seed, 3)
}
