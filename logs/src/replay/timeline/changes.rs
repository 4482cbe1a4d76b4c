//! The changes of a node's state, exactly; where there are too many of them, the shortest spells are left out.

use super::shown::Shown;

/// Changes of a node's state, ascending in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Vec<(u64, Shown)>);

impl Changes {
    /// From `at_us` on the node is shown otherwise. Times must not go back.
    pub(crate) fn push(&mut self, at_us: u64, shown: Shown) {
        // Several changes at one moment are one: the last.
        while self.0.last().is_some_and(|(last, _)| *last >= at_us) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|(_, last)| *last != shown) {
            self.0.push((at_us, shown));
        }
    }

    pub(crate) fn as_slice(&self) -> &[(u64, Shown)] {
        &self.0
    }

    /// Leaves out spells shorter than `least_us`; with `only_well`, those alone that are no trouble. What came
    /// before is shown in their place. The last spell stays: nobody knows yet how long it is.
    pub(crate) fn thin(&mut self, least_us: u64, only_well: bool) {
        let mut thinned = Self::default();
        for (at, &(from_us, shown)) in self.0.iter().enumerate() {
            let is_short = self.0.get(at + 1).is_some_and(|(to_us, _)| to_us - from_us < least_us);
            if thinned.0.is_empty() || !is_short || (only_well && !shown.is_well()) {
                thinned.push(from_us, shown);
            }
        }
        *self = thinned;
    }
}

#[cfg(test)]
mod tests {
    use starfarm_events::{IdleReason, NodeState};

    use super::*;

    const UP: Shown = Shown::State(NodeState::Up);
    const LOST: Shown = Shown::State(NodeState::Lost);
    const IDLE: Shown = Shown::Idle(IdleReason::Waiting);

    fn changes(list: &[(u64, Shown)]) -> Changes {
        let mut changes = Changes::default();
        list.iter().for_each(|(at_us, shown)| changes.push(*at_us, *shown));
        changes
    }

    #[test]
    fn changes_are_changes() {
        let list = changes(&[(1, UP), (2, UP), (5, IDLE), (5, LOST), (9, IDLE), (9, LOST)]);
        assert_eq!(list.as_slice(), [(1, UP), (5, LOST)]);
    }

    #[test]
    fn the_shortest_are_left_out_trouble_last() {
        let mut list = changes(&[(0, UP), (100, IDLE), (103, UP), (200, LOST), (202, UP), (300, IDLE)]);
        list.thin(10, true);
        assert_eq!(list.as_slice(), [(0, UP), (200, LOST), (202, UP), (300, IDLE)]);
        list.thin(10, false);
        assert_eq!(list.as_slice(), [(0, UP), (300, IDLE)]);
    }
}
