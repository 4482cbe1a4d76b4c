//! The network: what becomes of a datagram. Loss, duplication, delay and reordering by chance; partitions by
//! the plan. Bounded buffers are at the ends, not here.

use crate::random::{Chance, Random};
use crate::scenario::Network as Model;

/// Copies of one datagram arrive after these delays; none: it is lost.
pub(crate) type Fate = [Option<u64>; 2];

/// The way between the scheduler and all machines.
#[derive(Debug)]
pub(crate) struct Network {
    random: Random,
    loss: Chance,
    duplicate: Chance,
    reorder: Chance,
    delay_us: u64,
    jitter_us: u64,
    reorder_us: u64,
    /// Per machine, how many partitions cut the way to the scheduler, and the way back.
    cuts: Vec<[u32; 2]>,
}

/// Direction of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From a machine to the scheduler.
    Up = 0,
    /// From the scheduler to a machine.
    Down = 1,
}

impl Network {
    pub(crate) fn new(model: &Model, machines: usize, random: Random) -> Self {
        let us = |ms: f64| (ms * 1e3) as u64;
        Self {
            random,
            loss: Chance::new(model.loss),
            duplicate: Chance::new(model.duplicate),
            reorder: Chance::new(model.reorder),
            delay_us: us(model.delay_ms),
            jitter_us: us(model.jitter_ms),
            reorder_us: us(model.reorder_ms),
            cuts: vec![[0; 2]; machines],
        }
    }

    /// What becomes of one datagram of or to a machine.
    pub(crate) fn fate(&mut self, machine: u32, way: Way) -> Fate {
        if self.cuts[machine as usize][way as usize] > 0 || self.random.happens(self.loss) {
            return [None, None];
        }
        let first = self.delay();
        let second = self.random.happens(self.duplicate).then(|| self.delay());
        [Some(first), second]
    }

    fn delay(&mut self) -> u64 {
        let late = if self.random.happens(self.reorder) { self.random.below(self.reorder_us) } else { 0 };
        self.delay_us + self.random.below(self.jitter_us + 1) + late
    }

    /// A partition cuts the machine off in some direction.
    pub(crate) fn is_cut(&self, machine: u32) -> bool {
        self.cuts[machine as usize] != [0, 0]
    }

    /// A partition begins or ends for a machine.
    pub(crate) fn cut(&mut self, machine: u32, ways: [bool; 2], begins: bool) {
        for (count, cut) in self.cuts[machine as usize].iter_mut().zip(ways) {
            if cut {
                *count = if begins { *count + 1 } else { *count - 1 };
            }
        }
    }
}
