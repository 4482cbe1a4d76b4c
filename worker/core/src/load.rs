//! How busy the slots are: what the paper calls load per slot and idle time. Only the times at which slots
//! begin and end count; what they run does not.

use starfarm_protocol::wire::{LOAD_SLOTS_MAX, Load};

/// Busy all the time.
const BUSY: u64 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    busy_us: u64,
    /// It is busy since then, or since the last report if that came later.
    since_us: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// When the last report was made, or the worker began.
    from_us: u64,
    slots: Vec<Usage>,
    /// Since when no slot is busy; none while one is.
    idle_us: Option<u64>,
}

impl Meter {
    pub(crate) fn new(slots: u16, now_us: u64) -> Self {
        Self { from_us: now_us, slots: vec![Usage::default(); usize::from(slots)], idle_us: Some(now_us) }
    }

    pub(crate) fn begin(&mut self, slot: u16, now_us: u64) {
        let before = self.slots[usize::from(slot)].since_us.replace(now_us);
        assert_eq!(before, None, "a slot that begins is not busy");
        self.idle_us = None;
    }

    pub(crate) fn end(&mut self, slot: u16, now_us: u64) {
        let slot = &mut self.slots[usize::from(slot)];
        let since_us = slot.since_us.take().expect("a slot that ends has begun");
        slot.busy_us += now_us.saturating_sub(since_us);
        if self.slots.iter().all(|slot| slot.since_us.is_none()) {
            self.idle_us = Some(now_us);
        }
    }

    /// How busy the first `cores` slots were, and each of those behind them.
    pub(crate) fn report(&mut self, cores: usize, now_us: u64) -> (Load, Vec<u16>) {
        let period_us = now_us.saturating_sub(std::mem::replace(&mut self.from_us, now_us)).max(1);
        let load = |slot: &mut Usage| {
            let running_us = slot.since_us.as_mut().map_or(0, |since_us| {
                let from_us = std::mem::replace(since_us, now_us);
                now_us.saturating_sub(from_us)
            });
            let busy_us = std::mem::take(&mut slot.busy_us) + running_us;
            (busy_us.saturating_mul(BUSY) / period_us).min(BUSY) as u16
        };
        let mut slots: Vec<u16> = self.slots.iter_mut().map(load).collect();
        let devices = slots.split_off(cores.min(slots.len()));
        if slots.len() > LOAD_SLOTS_MAX {
            let sum: u64 = slots.iter().map(|&load| u64::from(load)).sum();
            slots = vec![(sum / slots.len() as u64) as u16];
        }
        let idle_us = self.idle_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
        (Load { idle_us, slots }, devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(meter: &mut Meter, now_us: u64) -> Load {
        meter.report(usize::MAX, now_us).0
    }

    #[test]
    fn a_slot_that_is_busy_half_the_time_has_half_a_load() {
        let mut meter = Meter::new(3, 0);
        // One slot by pieces, one through the report, one never.
        for at_us in (0..1_000_000).step_by(100_000) {
            meter.begin(0, at_us);
            meter.end(0, at_us + 50_000);
        }
        meter.begin(1, 750_000);
        assert_eq!(load(&mut meter, 1_000_000), Load { idle_us: 0, slots: vec![500, 250, 0] });
        meter.end(1, 1_200_000);
        assert_eq!(load(&mut meter, 2_000_000), Load { idle_us: 800_000, slots: vec![0, 200, 0] });
    }

    #[test]
    fn idle_time_grows_from_the_start_and_from_the_last_end() {
        let mut meter = Meter::new(2, 5);
        assert_eq!(load(&mut meter, 1_005).idle_us, 1_000);
        meter.begin(0, 2_000);
        meter.begin(1, 2_000);
        meter.end(0, 3_000);
        assert_eq!(load(&mut meter, 4_000).idle_us, 0);
        meter.end(1, 5_000);
        assert_eq!(load(&mut meter, 9_000).idle_us, 4_000);
        assert_eq!(load(&mut meter, 70_000_000).idle_us, 69_995_000);
    }

    #[test]
    fn devices_stand_for_themselves_and_keep_the_worker_from_being_idle() {
        let mut meter = Meter::new(3, 0);
        meter.begin(2, 500);
        let (cores, devices) = meter.report(2, 1_000);
        assert_eq!((cores, devices), (Load { idle_us: 0, slots: vec![0, 0] }, vec![500]));
    }

    #[test]
    fn many_slots_have_one_mean() {
        let mut meter = Meter::new(100, 0);
        (0..50).for_each(|slot| meter.begin(slot, 0));
        assert_eq!(load(&mut meter, 10).slots, [500]);
    }

    #[test]
    fn two_reports_at_one_moment_and_a_clock_that_stands_are_no_harm() {
        let mut meter = Meter::new(1, 0);
        meter.begin(0, 10);
        load(&mut meter, 10);
        assert_eq!(load(&mut meter, 10).slots, [0]);
        meter.end(0, 10);
        meter.begin(0, 10);
        meter.end(0, 10);
        assert_eq!(load(&mut meter, 10), Load { idle_us: 0, slots: vec![0] });
    }
}
