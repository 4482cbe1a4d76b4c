//! Connections of one kind that each key has at one time. A key gets no more than so many: one, and some that its worker does
//! not know to be broken.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use starfarm_protocol::ids::PublicKey;

/// How many connections each key has.
#[derive(Default)]
pub(crate) struct PerKey(Mutex<HashMap<PublicKey, u32>>);

/// A connection, counted as long as the value lives.
pub(super) struct Place<'a>(&'a PerKey, PublicKey);

impl PerKey {
    fn counts(&self) -> MutexGuard<'_, HashMap<PublicKey, u32>> {
        self.0.lock().expect("a panic under the lock ends the process")
    }

    /// A place for one more; none where the key has so many.
    pub(super) fn take(&self, key: PublicKey, most: u32) -> Option<Place<'_>> {
        let mut counts = self.counts();
        let count = counts.entry(key).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place(self, key))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        let left = counts.get(&self.1).map_or(0, |count| count - 1);
        match left {
            0 => counts.remove(&self.1),
            left => counts.insert(self.1, left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_so_many_connections_and_takes_none_of_another() {
        let (per_key, [a, b]) = (PerKey::default(), [1, 2].map(|byte| PublicKey([byte; 32])));
        let first = per_key.take(a, 2);
        let second = per_key.take(a, 2);
        assert!(first.is_some() && second.is_some() && per_key.take(a, 2).is_none());
        assert!(per_key.take(b, 2).is_some());
        drop(first);
        assert!(per_key.take(a, 2).is_some());
        drop(second);
        assert!(per_key.counts().is_empty());
    }
}
