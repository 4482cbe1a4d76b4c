//! What of a job waits for another node than the one that computed it first. That one gets it after a while all the same:
//! the others may all be busy, or gone.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;

use super::task::Size;
use crate::limits::CHECK_PATIENCE_US;
use crate::runs::Runs;

/// The node that computed it, and since when it waits.
#[derive(Debug, Default)]
pub(super) struct Apart(Runs<(NodeId, u64)>);

impl Apart {
    pub(super) fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        self.0.iter().map(|(at, _)| at)
    }

    /// `at` waits for another node than `first`.
    pub(super) fn add(&mut self, at: Interval, first: NodeId, now_us: u64) {
        self.0.insert(at, (first, now_us));
    }

    /// What of `at` is here leaves; how many units that were.
    pub(super) fn remove(&mut self, at: Interval) -> u128 {
        let before = self.0.units();
        self.0.remove(at);
        before - self.0.units()
    }

    /// What waits for another node than `first` leaves.
    pub(super) fn remove_of(&mut self, first: NodeId) -> Vec<Interval> {
        let its = self.0.iter().filter(|(_, (of, _))| *of == first);
        let gone: Vec<Interval> = its.map(|(at, _)| at).collect();
        gone.iter().for_each(|at| self.0.remove(*at));
        gone
    }

    /// What node `id` may have: the first of what others computed, or what it computed itself and nobody took for long.
    ///
    /// # Errors
    /// There is nothing, and when there will be.
    pub(super) fn take(&mut self, id: NodeId, size: Size, now_us: u64) -> Result<Interval, Option<u64>> {
        let of_others = self.0.iter().find(|(_, (first, _))| *first != id);
        // Where all of it is its own.
        let own = || self.0.iter().min_by_key(|(_, (_, since_us))| *since_us);
        let (mut at, (first, since_us)) = of_others.or_else(own).ok_or(None)?;
        let again_us = since_us.saturating_add(CHECK_PATIENCE_US);
        if first == id && now_us < again_us {
            return Err(Some(again_us));
        }
        if at.units() > size.whole {
            at.hi = at.lo + size.units;
        }
        self.remove(at);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_have_it_first_and_the_node_itself_after_a_while() {
        let (a, b, size) = (NodeId(1), NodeId(2), Size { units: 4, whole: 6 });
        let mut apart = Apart::default();
        apart.add(Interval::new(10, 20), a, 5);
        apart.add(Interval::new(0, 3), b, 7);
        assert_eq!(apart.take(b, size, 9), Ok(Interval::new(10, 14)));
        assert_eq!(apart.take(b, size, 9), Ok(Interval::new(14, 20)), "as long as a whole one");
        assert_eq!(apart.take(b, size, 9), Err(Some(7 + CHECK_PATIENCE_US)));
        assert_eq!(apart.take(b, size, 7 + CHECK_PATIENCE_US), Ok(Interval::new(0, 3)));
        assert_eq!((apart.take(a, size, u64::MAX), apart.intervals().count()), (Err(None), 0));
        apart.add(Interval::new(0, 9), a, 5);
        apart.add(Interval::new(9, 12), b, 4);
        assert_eq!(apart.remove_of(b), [Interval::new(9, 12)]);
        assert_eq!((apart.remove(Interval::new(2, 4)), apart.intervals().count()), (2, 2));
        assert_eq!(apart.remove_of(a), [Interval::new(0, 2), Interval::new(4, 9)]);
        assert_eq!(apart.intervals().count(), 0);
    }
}
