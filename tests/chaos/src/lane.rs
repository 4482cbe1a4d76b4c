//! One direction of one peer: from a datagram that came in to what goes out and when. Pure: time and
//! chance are arguments.

use std::collections::VecDeque;

use crate::faults::{Counters, Faults};
use crate::random::Random;

/// A datagram that goes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// When, in microseconds of the clock that [`Lane::pass`] was told.
    pub due_us: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// One direction of one peer.
#[derive(Debug)]
pub struct Lane {
    random: Random,
    history: VecDeque<Vec<u8>>,
    /// When the latest of those that came in goes out.
    latest_due_us: u64,
    counters: Counters,
}

impl Lane {
    /// A lane whose faults follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            history: VecDeque::new(),
            latest_due_us: 0,
            counters: Counters::default(),
        }
    }

    /// What has happened here so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A datagram came in at `now_us`: adds what goes out to `out`. A lane that is `cut` lets nothing pass.
    pub fn pass(
        &mut self,
        datagram: &[u8],
        faults: &Faults,
        cut: bool,
        now_us: u64,
        out: &mut Vec<Delivery>,
    ) {
        self.counters.received += 1;
        if cut {
            self.counters.cut += 1;
            return;
        }
        let before = out.len();
        if self.random.chance(faults.replay) && !self.history.is_empty() {
            let old = self.random.below(self.history.len() as u64) as usize;
            self.counters.replayed += 1;
            out.push(Delivery { due_us: now_us, bytes: self.history[old].clone() });
        }
        let swallowed = faults.swallows_above > 0 && datagram.len() > faults.swallows_above;
        if self.random.chance(faults.loss) || swallowed {
            self.counters.lost += 1;
        } else {
            let twice = self.random.chance(faults.duplication);
            self.counters.duplicated += u64::from(twice);
            for _ in 0..=u64::from(twice) {
                let delivery = self.deliver(datagram, faults, now_us);
                out.push(delivery);
            }
        }
        self.counters.delivered += (out.len() - before) as u64;
        self.remember(datagram);
    }

    fn deliver(&mut self, datagram: &[u8], faults: &Faults, now_us: u64) -> Delivery {
        let mut late_us = faults.delay_us + self.random.below(faults.jitter_us + 1);
        if faults.late > 0.0 && self.random.chance(faults.late) {
            late_us += self.random.below(faults.late_us + 1);
        }
        let due_us = now_us + late_us;
        self.counters.reordered += u64::from(due_us < self.latest_due_us);
        self.latest_due_us = self.latest_due_us.max(due_us);
        let mut bytes = datagram.to_vec();
        if self.random.chance(faults.corruption) {
            self.counters.corrupted += 1;
            damage(&mut bytes, &mut self.random);
        }
        Delivery { due_us, bytes }
    }

    fn remember(&mut self, datagram: &[u8]) {
        if self.history.len() == Faults::HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(datagram.to_vec());
    }
}

/// Turns one bit, or cuts the datagram short by a byte or more. An empty one stays as it is.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let place = random.below(bytes.len() as u64) as usize;
    if random.chance(0.5) {
        bytes[place] ^= 1 << random.below(8);
    } else {
        bytes.truncate(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 2_000;

    /// Passes numbered datagrams, one each 100 us; returns them in the order in which they go out.
    fn passed(seed: u64, faults: Faults) -> (Vec<Vec<u8>>, Counters) {
        let mut lane = Lane::new(seed);
        let mut out = Vec::new();
        (0..COUNT).for_each(|i| lane.pass(&i.to_le_bytes(), &faults, false, i * 100, &mut out));
        out.sort_by_key(|delivery| delivery.due_us);
        (out.into_iter().map(|delivery| delivery.bytes).collect(), lane.counters())
    }

    fn sent() -> Vec<Vec<u8>> {
        (0..COUNT).map(|i| i.to_le_bytes().to_vec()).collect()
    }

    #[test]
    fn a_good_network_changes_nothing() {
        let (out, counters) = passed(1, Faults::NONE);
        assert_eq!(out, sent());
        assert_eq!(counters, Counters { received: COUNT, delivered: COUNT, ..Counters::default() });
    }

    #[test]
    fn the_same_seed_does_the_same_harm() {
        let faults = Faults { loss: 0.3, duplication: 0.2, jitter_us: 900, ..Faults::NONE };
        assert_eq!(passed(5, faults), passed(5, faults));
        assert_ne!(passed(5, faults).0, passed(6, faults).0);
    }

    #[test]
    fn each_fault_does_what_it_says_and_is_counted() {
        let (out, counters) = passed(2, Faults { loss: 0.2, ..Faults::NONE });
        assert_eq!(out.len() as u64, COUNT - counters.lost);
        assert!((300..500).contains(&counters.lost), "{counters}");

        let (out, counters) = passed(2, Faults { duplication: 0.1, ..Faults::NONE });
        assert_eq!(out.len() as u64, COUNT + counters.duplicated);
        assert!((120..280).contains(&counters.duplicated), "{counters}");

        let (out, counters) = passed(2, Faults { jitter_us: 1_000, delay_us: 50, ..Faults::NONE });
        assert!(counters.reordered > 100, "{counters}");
        assert_ne!(out, sent());
        let mut sorted = out.clone();
        sorted.sort_by_key(|bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
        assert_eq!(sorted, sent());

        let few = Faults { late: 0.01, late_us: 1_000, ..Faults::NONE };
        let (_, counters) = passed(2, few);
        assert!((10..300).contains(&counters.reordered), "{counters}");

        let (out, counters) = passed(2, Faults { replay: 0.1, ..Faults::NONE });
        assert_eq!(out.len() as u64, COUNT + counters.replayed);
        assert!(counters.replayed > 100, "{counters}");

        let (out, counters) = passed(2, Faults { corruption: 0.1, ..Faults::NONE });
        let differ = out.iter().zip(sent()).filter(|(out, sent)| *out != sent).count() as u64;
        assert_eq!(differ, counters.corrupted);
        assert!(differ > 100, "{counters}");
    }

    #[test]
    fn a_lane_that_swallows_large_datagrams_lets_small_ones_pass() {
        let (mut lane, mut out) = (Lane::new(1), Vec::new());
        let faults = Faults { swallows_above: 600, ..Faults::NONE };
        for bytes in [600, 601] {
            lane.pass(&vec![0; bytes], &faults, false, 0, &mut out);
        }
        assert_eq!((out.len(), lane.counters().lost), (1, 1));
    }

    #[test]
    fn a_cut_lane_lets_nothing_pass() {
        let (mut lane, mut out) = (Lane::new(1), Vec::new());
        lane.pass(b"x", &Faults::NONE, true, 0, &mut out);
        assert!(out.is_empty());
        assert_eq!(lane.counters(), Counters { received: 1, cut: 1, ..Counters::default() });
    }

    #[test]
    fn an_empty_datagram_is_not_damaged_further() {
        let (mut lane, mut out) = (Lane::new(1), Vec::new());
        lane.pass(b"", &Faults { corruption: 1.0, ..Faults::NONE }, false, 0, &mut out);
        assert_eq!(out[0].bytes, b"");
    }
}
