//! What of a job waits for another node than the one that computed it first. That one gets it after a while all the same:
//! the others may all be busy, or gone.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;

use super::task::Size;
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

    /// What node `id` may have: the first of what others computed, or the oldest of what it computed itself. `from_us` says from
    /// when on, by the first unit, by who computed that, and since when it waits.
    ///
    /// # Errors
    /// There is nothing, and when there will be.
    pub(super) fn take(
        &mut self,
        id: NodeId,
        size: Size,
        from_us: impl Fn(u128, NodeId, u64) -> u64,
        now_us: u64,
    ) -> Result<Interval, Option<u64>> {
        let (mut own, mut again_us): (Option<(u64, Interval)>, Option<u64>) = (None, None);
        let mut of_others = None;
        for (at, (first, since_us)) in self.0.iter() {
            let from_us = from_us(at.lo, first, since_us);
            if now_us < from_us {
                again_us = Some(again_us.map_or(from_us, |us| us.min(from_us)));
            } else if first != id {
                of_others = Some(at);
                break;
            } else if own.is_none_or(|(oldest_us, _)| since_us < oldest_us) {
                own = Some((since_us, at));
            }
        }
        let mut at = of_others.or(own.map(|(_, at)| at)).ok_or(again_us)?;
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
        let after = |id| move |_, first, since_us: u64| if first == id { since_us + 30 } else { 0 };
        assert_eq!(apart.take(b, size, after(b), 9), Ok(Interval::new(10, 14)));
        assert_eq!(apart.take(b, size, after(b), 9), Ok(Interval::new(14, 20)), "as long as a whole one");
        assert_eq!(apart.take(b, size, after(b), 9), Err(Some(37)));
        assert_eq!(apart.take(b, size, after(b), 37), Ok(Interval::new(0, 3)));
        assert_eq!((apart.take(a, size, after(a), u64::MAX), apart.intervals().count()), (Err(None), 0));
        apart.add(Interval::new(0, 9), a, 5);
        assert_eq!(apart.take(b, size, |_, _, _| 12, 11), Err(Some(12)), "what it gave back is kept from it");
        apart.remove(Interval::new(0, 9));
        apart.add(Interval::new(0, 9), a, 5);
        apart.add(Interval::new(9, 12), b, 4);
        assert_eq!(apart.remove_of(b), [Interval::new(9, 12)]);
        assert_eq!((apart.remove(Interval::new(2, 4)), apart.intervals().count()), (2, 2));
        assert_eq!(apart.remove_of(a), [Interval::new(0, 2), Interval::new(4, 9)]);
        assert_eq!(apart.intervals().count(), 0);
    }
}
