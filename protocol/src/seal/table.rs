//! The scheduler's sessions, by receiver index: which one a data packet belongs to, when a peer is
//! enrolled, when a session ends. Answering initiations is in `handshake.rs`; who is admitted in
//! `store.rs`.
//!
//! A session is *pending* until its first message opens, then *current*: the newest of its key, the one
//! to send with. An older one is *retired*: it still opens for [`GRACE_US`], for what is on its way. A
//! session is older by the time of its handshake, not of its first message, so that a late packet of an
//! old session never turns the sending side back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::error::SealError;
use super::handshake::{Peer, Pending};
use super::packet::read_data;
use super::session::{Sealer, Session};
use super::store::KeyStore;
use crate::ids::PublicKey;

/// How long a retired session still opens.
pub const GRACE_US: u64 = 60_000_000;
/// How long a pending session waits for its first message; a worker sends one at once.
pub const PENDING_US: u64 = 30_000_000;
/// A session that nothing has come in on for this long is dropped: its peer has long shaken hands anew,
/// for it beats every second and gives up after three beats without an answer.
pub const SILENT_US: u64 = 3_600_000_000;
/// Sessions of one key; beyond them its oldest is dropped. One current, two in grace, one in the making.
pub const PER_KEY_MAX: usize = 4;
/// Pending sessions of all keys together; beyond them the oldest is dropped. 2.7 kB each.
pub const PENDING_MAX: usize = 1024;

enum State {
    Pending { until_us: u64 },
    Current,
    Retired { until_us: u64 },
}

struct Entry {
    /// Place in the order of handshakes.
    number: u64,
    session: Session,
    peer: Arc<Peer>,
    state: State,
    heard_us: u64,
}

impl Entry {
    fn is_over(&self, now_us: u64) -> bool {
        match self.state {
            State::Pending { until_us } | State::Retired { until_us } => now_us >= until_us,
            State::Current => now_us.saturating_sub(self.heard_us) >= SILENT_US,
        }
    }
}

/// The sessions of a scheduler. One thread owns it; others seal with clones of the [`Sealer`]s.
pub struct SessionTable {
    entries: HashMap<u32, Entry>,
    /// Indexes of each key's sessions, pending ones too, in the order of handshakes.
    by_key: HashMap<PublicKey, Vec<u32>>,
    /// Index of each pending session, by its number.
    pending: BTreeMap<u64, u32>,
    next_number: u64,
    pending_max: usize,
}

/// A data packet that opened.
pub struct Opened {
    /// Bytes of the message at the front of the buffer.
    pub bytes: usize,
    /// Who sent it.
    pub peer: Arc<Peer>,
    /// Set for the first message of a session.
    pub confirmed: Option<Confirmed>,
}

/// A session has become real.
pub struct Confirmed {
    /// To send with; it replaces the peer's earlier one. `None` where a newer session of the same peer was
    /// confirmed before.
    pub sealer: Option<Sealer>,
    /// The key store has changed and must be written.
    pub store_changed: bool,
}

impl Default for SessionTable {
    fn default() -> Self {
        Self::new(PENDING_MAX)
    }
}

impl SessionTable {
    /// An empty table that keeps at most `pending_max` (1 or more) pending sessions.
    pub fn new(pending_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_key: HashMap::new(),
            pending: BTreeMap::new(),
            next_number: 0,
            pending_max: pending_max.max(1),
        }
    }

    /// The first index from `random` on that no session has.
    pub fn free_index(&self, random: u32) -> u32 {
        let mut index = random;
        while self.entries.contains_key(&index) {
            index = index.wrapping_add(1);
        }
        index
    }

    /// Takes in a pending session, dropping the oldest where there are too many: of the same key first, so
    /// that a replayed initiation drives out only the sessions of the peer it was stolen from.
    pub fn admit(&mut self, pending: Pending, now_us: u64) {
        let Pending { peer, established } = pending;
        let index = established.local;
        self.remove(index);
        let key = peer.claim.key;
        if let Some(oldest) = self.dispensable(&key) {
            self.remove(oldest);
        }
        if self.pending.len() >= self.pending_max
            && let Some((_, &oldest)) = self.pending.first_key_value()
        {
            self.remove(oldest);
        }
        let number = self.next_number;
        self.next_number += 1;
        let state = State::Pending { until_us: now_us.saturating_add(PENDING_US) };
        let session = established.into_session(now_us);
        self.entries.insert(index, Entry { number, session, peer: Arc::new(peer), state, heard_us: now_us });
        self.by_key.entry(key).or_default().push(index);
        self.pending.insert(number, index);
    }

    /// Opens a data packet into the front of `out`, which must be as long as the packet. The first one of
    /// a session enrols its peer in `keys`, with the date `now_unix` in seconds since 1970.
    ///
    /// # Errors
    /// As [`super::Opener::open`], and [`SealError::Refused`] where the rules no longer admit the
    /// peer of a first message: another key took the name meanwhile, or its key was revoked. The session
    /// is then gone, and the peer hears why at its next handshake.
    pub fn open(
        &mut self,
        keys: &mut KeyStore,
        datagram: &[u8],
        out: &mut [u8],
        now_us: u64,
        now_unix: u64,
    ) -> Result<Opened, SealError> {
        let (index, ..) = read_data(datagram)?;
        let entry = self.entries.get_mut(&index).ok_or(SealError::UnknownSession)?;
        if entry.is_over(now_us) {
            self.remove(index);
            return Err(SealError::UnknownSession);
        }
        let bytes = entry.session.opener.open(datagram, out)?;
        entry.heard_us = now_us;
        let peer = Arc::clone(&entry.peer);
        let confirmed = match entry.state {
            State::Pending { .. } => Some(self.confirm(index, &peer, keys, now_us, now_unix)?),
            State::Current | State::Retired { .. } => None,
        };
        Ok(Opened { bytes, peer, confirmed })
    }

    /// What to send to a peer with: its current session.
    pub fn sealer(&self, key: &PublicKey) -> Option<&Sealer> {
        self.current(key).and_then(|index| self.entries.get(&index)).map(|entry| &entry.session.sealer)
    }

    /// Ends all sessions of a key, pending ones too, and returns how many there were.
    pub fn revoke(&mut self, key: &PublicKey) -> usize {
        let indexes = self.by_key.get(key).cloned().unwrap_or_default();
        indexes.iter().for_each(|&index| self.remove(index));
        indexes.len()
    }

    /// Drops what has run out: pending and retired sessions at their time, silent ones after
    /// [`SILENT_US`]. To be called now and then, a few times a minute; [`SessionTable::open`] refuses
    /// them even before.
    pub fn expire(&mut self, now_us: u64) {
        let over: Vec<u32> =
            self.entries.iter().filter(|(_, entry)| entry.is_over(now_us)).map(|(&index, _)| index).collect();
        over.into_iter().for_each(|index| self.remove(index));
    }

    /// Sessions of all kinds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sessions whose peer has not proved its join secret yet.
    #[cfg(test)]
    pub(super) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The session of `key` that must make room for one more, the current one never.
    fn dispensable(&self, key: &PublicKey) -> Option<u32> {
        let indexes = self.by_key.get(key).filter(|indexes| indexes.len() >= PER_KEY_MAX)?;
        let current = self.current(key);
        indexes.iter().copied().find(|&index| Some(index) != current)
    }

    fn current(&self, key: &PublicKey) -> Option<u32> {
        let is_current =
            |index: &&u32| matches!(self.entries.get(index), Some(Entry { state: State::Current, .. }));
        self.by_key.get(key)?.iter().find(is_current).copied()
    }

    fn confirm(
        &mut self,
        index: u32,
        peer: &Peer,
        keys: &mut KeyStore,
        now_us: u64,
        now_unix: u64,
    ) -> Result<Confirmed, SealError> {
        let store_changed = match keys.enrol(&peer.claim, now_unix) {
            Ok(changed) => changed,
            Err(refusal) => {
                self.remove(index);
                return Err(SealError::Refused(refusal));
            }
        };
        let sealer = self.promote(index, &peer.claim.key, now_us);
        Ok(Confirmed { sealer, store_changed })
    }

    /// Makes a pending session current, or retires it at once where a newer one already is.
    fn promote(&mut self, index: u32, key: &PublicKey, now_us: u64) -> Option<Sealer> {
        let retired = || State::Retired { until_us: now_us.saturating_add(GRACE_US) };
        let before = self.current(key).and_then(|before| Some((before, self.entries.get(&before)?.number)));
        let entry = self.entries.get_mut(&index)?;
        self.pending.remove(&entry.number);
        if before.is_some_and(|(_, number)| number > entry.number) {
            entry.state = retired();
            return None;
        }
        entry.state = State::Current;
        let sealer = entry.session.sealer.clone();
        if let Some(before) = before.and_then(|(before, _)| self.entries.get_mut(&before)) {
            before.state = retired();
        }
        Some(sealer)
    }

    fn remove(&mut self, index: u32) {
        let Some(entry) = self.entries.remove(&index) else { return };
        self.pending.remove(&entry.number);
        let key = entry.peer.claim.key;
        if let Some(indexes) = self.by_key.get_mut(&key) {
            indexes.retain(|&other| other != index);
            if indexes.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }
}
