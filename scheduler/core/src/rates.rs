//! How fast a job goes: on the slots of one kind of each node, and in the mean on cores and on devices, which say nothing of
//! each other.

use std::collections::BTreeMap;

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::journal::Record;

use crate::limits::{LEARNT_TASKS, PREFETCH_US};
use crate::pace::Pace;
use crate::seat::Seat;
use crate::start::Start;

/// What slots of one kind of one node do of one job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Units per second of one slot, from measured durations; newer ones weigh more.
    pub(crate) units_per_s: f64,
    /// Largest task that it has done, in units.
    pub(crate) largest: u64,
    /// Results that told of its speed, and their units.
    pub(crate) results: u64,
    pub(crate) units: u64,
    /// Units that it did within about the time that it may hold work for, whatever it says of its speed.
    pub(crate) pace: Pace<PREFETCH_US>,
    /// What starting takes; of runs over whole tasks.
    pub(crate) start: Start,
}

impl Rate {
    /// As a checkpoint kept it.
    pub(crate) fn known(units_per_s: f64, largest: u64) -> Self {
        Self { units_per_s, largest, ..Self::default() }
    }

    /// What one of its `slots` has done, where that are so many results that they tell as much as a large one does.
    pub(crate) fn learnt(&self, slots: u16) -> u64 {
        let slots = u64::from(slots.max(1));
        if self.results < LEARNT_TASKS * slots { 0 } else { self.units / slots }
    }
}

/// How fast a job goes.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    seats: BTreeMap<Seat, Rate>,
    /// Units per second of a core and of a device, in the mean; 0 where nothing was measured.
    cores: f64,
    devices: f64,
}

impl Rates {
    pub(crate) fn get(&self, seat: Seat) -> Option<&Rate> {
        self.seats.get(&seat)
    }

    pub(crate) fn get_mut(&mut self, seat: Seat) -> Option<&mut Rate> {
        self.seats.get_mut(&seat)
    }

    /// Of all seats, or of those of a kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seat, &Rate)> {
        self.seats.iter().map(|(seat, rate)| (*seat, rate))
    }

    /// What slots like those of that kind do in the mean.
    pub(crate) fn mean(&self, kind: SlotKind) -> f64 {
        if kind.is_device() { self.devices } else { self.cores }
    }

    /// What a core does in the mean, where that is known, else what a device does.
    pub(crate) fn standard(&self) -> f64 {
        if self.cores > 0.0 { self.cores } else { self.devices }
    }

    /// What a slot of `seat` does, as far as was measured there, else such slots in the mean.
    pub(crate) fn on(&self, seat: Seat) -> f64 {
        self.get(seat).map_or_else(|| self.mean(seat.kind), |rate| rate.units_per_s)
    }

    /// Nothing was measured.
    pub(crate) fn are_unknown(&self) -> bool {
        self.standard() == 0.0
    }

    /// So many units took so long at `seat`, and a task should take so long.
    pub(crate) fn measured(
        &mut self,
        seat: Seat,
        units: u64,
        (duration_us, target_us): (u64, u64),
        now_us: u64,
    ) -> &mut Rate {
        assert!(units > 0, "a result that counts has units");
        let sample = units as f64 * 1e6 / duration_us.max(1) as f64;
        assert!(sample.is_finite() && sample > 0.0, "{sample} units per second");
        let mean = if seat.kind.is_device() { &mut self.devices } else { &mut self.cores };
        let rate = self.seats.entry(seat).or_default();
        let first = rate.largest == 0;
        // A sample that took a target time replaces most of what was known; a short one moves it little.
        let weight = (duration_us as f64 / target_us as f64).clamp(0.05, 0.5);
        let mix = |old: f64, weight: f64| old + (sample - old) * weight;
        rate.units_per_s = if first { sample } else { mix(rate.units_per_s, weight) };
        rate.largest = rate.largest.max(units);
        (rate.results, rate.units) = (rate.results + 1, rate.units.saturating_add(units));
        rate.pace.count(units, now_us);
        *mean = if *mean == 0.0 { sample } else { mix(*mean, weight / 4.0) };
        rate
    }

    /// A checkpoint has these, and the mean of slots of such a kind.
    pub(crate) fn restore(
        &mut self,
        kind: SlotKind,
        mean: f64,
        seats: impl Iterator<Item = (Seat, f64, u64)>,
    ) {
        *(if kind.is_device() { &mut self.devices } else { &mut self.cores }) = mean;
        self.seats
            .extend(seats.map(|(seat, units_per_s, largest)| (seat, Rate::known(units_per_s, largest))));
    }

    /// What a checkpoint keeps.
    pub(crate) fn records(&self, job: JobId) -> Vec<Record> {
        let of = |is_device| self.iter().filter(move |(seat, _)| seat.kind.is_device() == is_device);
        let nodes = of(false).map(|(seat, rate)| (seat.node, rate.units_per_s, rate.largest)).collect();
        let seat = |(seat, rate): (Seat, &Rate)| (seat.node, seat.kind, rate.units_per_s, rate.largest);
        let seats: Vec<_> = of(true).map(seat).collect();
        let mut records = vec![Record::Rates { job, mean: self.cores, nodes }];
        if !seats.is_empty() || self.devices > 0.0 {
            records.push(Record::DeviceRates { job, mean: self.devices, seats });
        }
        records
    }

    /// The nodes that something was measured on.
    pub(crate) fn nodes(&self) -> usize {
        let mut before = None;
        self.seats.keys().filter(|seat| before.replace(seat.node) != Some(seat.node)).count()
    }

    /// Of these nodes nothing was measured. How many of them there were.
    pub(crate) fn keep_nodes(&mut self, is_known: impl Fn(NodeId) -> bool) -> u64 {
        let before = self.nodes();
        self.seats.retain(|seat, _| is_known(seat.node));
        (before - self.nodes()) as u64
    }

    /// A node is not known any more; true where something was measured on it.
    pub(crate) fn forget_node(&mut self, id: NodeId) -> bool {
        let its = Seat::cores(id)..=Seat::new(id, SlotKind(u8::MAX));
        let seats: Vec<Seat> = self.seats.range(its).map(|(seat, _)| *seat).collect();
        for seat in &seats {
            self.seats.remove(seat);
        }
        !seats.is_empty()
    }

    /// The slots of a seat are others now.
    pub(crate) fn forget(&mut self, seat: Seat) {
        self.seats.remove(&seat);
    }

    /// What was measured on single seats does not matter any more.
    pub(crate) fn forget_all(&mut self) {
        self.seats.clear();
    }

    /// What was measured so far says nothing.
    pub(crate) fn start_anew(&mut self) {
        *self = Self::default();
    }
}
