//! The beat of the loop that owns a farm, the dispatcher's and the simulator's: how long it waits for inputs, and
//! what the farm is told before those of a turn.

use starfarm_events::Event;

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;

/// Inputs of one turn beside the one that was waited for: enough to batch, few enough that a turn stays short.
pub const INPUTS_PER_TURN: usize = 32;
/// A turn that comes so much later than planned was held up: by the disk, or because the process was stopped.
const STALLED_US: u64 = 1_000_000;

/// A farm's beat.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// When the last turn began, and how long the wait for the next one may be.
    turned_us: u64,
    wait_us: u64,
    /// Records up to this one are durable, as the farm knows.
    pub durable: u64,
}

impl Beat {
    /// The beat of a farm that starts.
    pub fn new(farm: &Farm, now_us: u64) -> Self {
        Self { turned_us: now_us, wait_us: 0, durable: farm.last_sequence() }
    }

    /// So long inputs may be waited for, from `now_us` on.
    pub fn wait_us(&mut self, farm: &Farm, now_us: u64) -> u64 {
        self.wait_us = farm.next_deadline_us().saturating_sub(now_us);
        self.wait_us
    }

    /// The wait is over. What it took too long is told, then what is durable by now; only then come the inputs.
    pub fn turn_begins(&mut self, farm: &mut Farm, durable: u64, now_us: u64, deeds: &mut Deeds) {
        let stalled_us = now_us.saturating_sub(self.turned_us).saturating_sub(self.wait_us);
        self.turned_us = now_us;
        if stalled_us > STALLED_US {
            farm.on_stall(stalled_us, now_us);
            deeds.0.push(Deed::Event(Event::Stalled { for_us: stalled_us }));
        }
        assert!(durable <= farm.last_sequence(), "only a record that was made is durable");
        if durable > self.durable {
            self.durable = durable;
            farm.on_durable(durable, now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Epoch, FarmId};

    use super::*;
    use crate::farm::Config;

    #[test]
    fn a_turn_that_comes_later_than_planned_was_held_up_and_one_that_was_long_waited_for_was_not() {
        let mut farm = Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 0);
        let (mut beat, mut deeds) = (Beat::new(&farm, 0), Deeds::default());
        let mut waited = |late_us: u64, now_us: &mut u64| {
            *now_us += beat.wait_us(&farm, *now_us) + late_us;
            beat.turn_begins(&mut farm, 0, *now_us, &mut deeds);
            farm.on_tick(*now_us, &mut deeds);
            let stalls = deeds.0.drain(..).filter_map(|deed| match deed {
                Deed::Event(Event::Stalled { for_us }) => Some(for_us),
                _ => None,
            });
            stalls.collect::<Vec<_>>()
        };
        let (mut now_us, none) = (0, Vec::<u64>::new());
        assert_eq!(waited(0, &mut now_us), none);
        assert_eq!(waited(STALLED_US, &mut now_us), none);
        assert!(now_us > 2 * STALLED_US, "it waited for long");
        assert_eq!(waited(STALLED_US + 1, &mut now_us), [STALLED_US + 1]);
        assert_eq!(waited(0, &mut now_us), none);
    }
}
