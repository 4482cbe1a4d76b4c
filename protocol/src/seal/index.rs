//! What the key store is asked for by others than keys: who holds a name, and how many came with each join key. It is made
//! from the keys, and is in no file.

use std::collections::BTreeMap;

use crate::ids::{JoinKeyId, PublicKey};
use crate::limits::{JOIN_BURST, JOINS_PER_SECOND, KEYS_PER_JOIN_KEY};

/// The index. Two are always equal: they say nothing that the keys do not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    names: BTreeMap<String, PublicKey>,
    joined: BTreeMap<JoinKeyId, Joined>,
}

/// Who came with one join key.
#[derive(Clone, Copy, Debug, Default)]
struct Joined {
    /// Keys that are not revoked.
    keys: u32,
    /// How much of the burst is used up, at `at_s`.
    burst: u32,
    at_s: u64,
}

impl PartialEq for Index {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Index {
    /// Of these keys with their names and join keys, who all came long ago.
    pub(super) fn of<'a>(keys: impl Iterator<Item = (PublicKey, &'a str, JoinKeyId)>) -> Self {
        let mut index = Self::default();
        for (key, name, join_key) in keys {
            index.names.insert(name.to_owned(), key);
            index.joined.entry(join_key).or_default().keys += 1;
        }
        index
    }

    /// The key that has the name.
    pub(super) fn holder(&self, name: &str) -> Option<PublicKey> {
        self.names.get(name).copied()
    }

    /// Whether one more may come with the join key, at `now_s` seconds of any clock.
    pub(super) fn has_room(&self, join_key: &JoinKeyId, now_s: u64) -> bool {
        let joined = self.joined.get(join_key).copied().unwrap_or_default();
        joined.keys < KEYS_PER_JOIN_KEY && joined.burst_at(now_s) < JOIN_BURST
    }

    /// One more has come at `now_s`.
    pub(super) fn add(&mut self, key: PublicKey, name: &str, join_key: JoinKeyId, now_s: u64) {
        self.names.insert(name.to_owned(), key);
        let joined = self.joined.entry(join_key).or_default();
        let (keys, burst) = (joined.keys.saturating_add(1), joined.burst_at(now_s).saturating_add(1));
        *joined = Joined { keys, burst, at_s: now_s };
    }

    /// One is revoked that was not before.
    pub(super) fn remove(&mut self, name: &str, join_key: &JoinKeyId) {
        self.names.remove(name);
        if let Some(joined) = self.joined.get_mut(join_key) {
            joined.keys = joined.keys.saturating_sub(1);
        }
    }
}

impl Joined {
    fn burst_at(&self, now_s: u64) -> u32 {
        let regained = now_s.saturating_sub(self.at_s).saturating_mul(JOINS_PER_SECOND);
        u32::try_from(u64::from(self.burst).saturating_sub(regained)).unwrap_or(u32::MAX)
    }
}
