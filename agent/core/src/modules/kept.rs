//! What stages remember of jobs and posts from message to message: so much at most, and nothing of those that are not heard
//! of any more. What it is their types know.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Numbers that a stage remembers, at most; jobs and posts, where it remembers no numbers. Values beyond are counted.
pub(super) const ROOM: usize = 65_536;

/// How long something is remembered that is not heard of, in microseconds, where no setting says it: ten minutes.
const FORGET_US: u64 = 600_000_000;

/// States by key.
pub(super) struct Kept<K, V> {
    all: BTreeMap<K, Held<V>>,
    weight: usize,
    swept_us: u64,
    /// How long one is remembered that is not heard of: so long, and a quarter longer where others are heard of meanwhile.
    pub(super) forget_us: u64,
}

struct Held<V> {
    heard_us: u64,
    weight: usize,
    state: V,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), weight: 0, swept_us: 0, forget_us: FORGET_US }
    }
}

impl<K: Copy + Ord, V: Default> Kept<K, V> {
    /// Forgets what has not been heard of for long, at least for `least_us`: what that was.
    pub(super) fn sweep(&mut self, now_us: u64, least_us: u64) -> Vec<(K, V)> {
        let forget_us = self.forget_us.max(least_us);
        // The clock may have been set back, too.
        if now_us.abs_diff(self.swept_us) < forget_us / 4 {
            return Vec::new();
        }
        self.swept_us = now_us;
        let old = self.all.iter().filter(|(_, held)| now_us.abs_diff(held.heard_us) > forget_us);
        let old: Vec<K> = old.map(|(key, _)| *key).collect();
        old.into_iter().filter_map(|key| self.forget(key)).collect()
    }

    fn forget(&mut self, key: K) -> Option<(K, V)> {
        let held = self.all.remove(&key)?;
        self.weight -= held.weight;
        Some((key, held.state))
    }

    /// Forgets all: what that was.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (K, V)> {
        self.weight = 0;
        std::mem::take(&mut self.all).into_iter().map(|(key, held)| (key, held.state))
    }

    /// The state of that key, which is heard of; it is made if there is none. None where it would have no room: `weigh` says
    /// how many numbers it is about to remember, at least 1, and is told how many it may.
    pub(super) fn hear(
        &mut self,
        key: K,
        now_us: u64,
        weigh: impl FnOnce(&mut V, usize) -> usize,
    ) -> Option<&mut V> {
        let room = ROOM - self.weight;
        match self.all.entry(key) {
            Entry::Vacant(place) => {
                let mut state = V::default();
                let weight = weigh(&mut state, room);
                if weight > room {
                    return None;
                }
                self.weight += weight;
                Some(&mut place.insert(Held { heard_us: now_us, weight, state }).state)
            }
            Entry::Occupied(place) => {
                let held = place.into_mut();
                let room = room + held.weight;
                held.heard_us = now_us;
                let weight = weigh(&mut held.state, room);
                if weight > room {
                    return None;
                }
                self.weight = ROOM - room + weight;
                held.weight = weight;
                Some(&mut held.state)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(kept: &mut Kept<u64, u8>, key: u64, now_us: u64, weight: usize) -> bool {
        kept.hear(key, now_us, |_, _| weight).is_some()
    }

    #[test]
    fn what_is_beyond_the_room_is_refused_and_what_is_there_goes_on() {
        let mut kept = Kept::default();
        assert!(hear(&mut kept, 1, 0, ROOM - 1) && hear(&mut kept, 2, 0, 1));
        assert!(!hear(&mut kept, 3, 0, 1) && !hear(&mut kept, 2, 0, 2));
        assert!(hear(&mut kept, 2, 0, 1) && hear(&mut kept, 1, 0, ROOM - 2));
        assert!(hear(&mut kept, 3, 0, 1));
        assert_eq!(kept.all.len(), 3);
        assert_eq!((kept.take().count(), hear(&mut kept, 4, 0, ROOM)), (3, true));
    }

    #[test]
    fn who_is_not_heard_of_is_forgotten_and_makes_room() {
        let mut kept = Kept { forget_us: 100, ..Kept::default() };
        assert!(hear(&mut kept, 1, 1_000, ROOM / 2) && hear(&mut kept, 2, 1_000, ROOM / 2));
        for now_us in (1_000..=1_100).step_by(10) {
            assert_eq!(kept.sweep(now_us, 0), []);
            hear(&mut kept, 2, now_us, ROOM / 2);
        }
        assert_eq!(kept.sweep(1_125, 0), [(1, 0)]);
        assert!(hear(&mut kept, 3, 1_125, ROOM / 2));
        assert_eq!(kept.sweep(2_000, 1_000), [], "a stage may need it longer");
        assert_eq!(kept.sweep(2_030, 0).len(), 2);
    }

    #[test]
    fn a_clock_that_goes_back_keeps_nothing_for_ever() {
        let mut kept = Kept { forget_us: 100, ..Kept::default() };
        hear(&mut kept, 1, 1_000_000, 1);
        kept.sweep(1_000_000, 0);
        assert_eq!(kept.sweep(5_000, 0), [(1, 0)]);
    }
}
