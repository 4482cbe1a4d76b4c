//! The sessions of a machine with a scheduler, as the result thread and its `SessionTable` keep them: one is made by a
//! handshake, and is the one to send with once its first datagram opens; the one before opens for a while longer.

use starfarm_protocol::seal::table::{GRACE_US, PENDING_US, PER_KEY_MAX};

use crate::agenda::Session;

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// It opens.
    Known,
    /// It opens, the first of a session that is the one to send with from now on.
    Fresh,
    /// It opens in a session that has been replaced.
    Late,
    /// It opens in a session of an incarnation that has gone, and is dropped.
    Gone,
    /// No such session: the worker gets a hint.
    Unknown,
}

#[derive(Clone, Debug)]
struct Entry {
    session: Session,
    /// It opens until then; the present one, for good.
    until_us: u64,
    pending: bool,
}

/// The sessions, in the order of their handshakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    entries: Vec<Entry>,
    current: Session,
}

impl Sessions {
    /// A handshake is answered.
    pub(crate) fn admit(&mut self, session: Session, now_us: u64) {
        if self.entries.len() == PER_KEY_MAX {
            let oldest = self.entries.iter().position(|entry| entry.session != self.current);
            oldest.map(|oldest| self.entries.remove(oldest));
        }
        self.entries.push(Entry { session, until_us: now_us + PENDING_US, pending: true });
    }

    /// A handshake is answered and confirmed in one step, where the rim is left out.
    pub(crate) fn replace(&mut self, session: Session, now_us: u64) {
        self.entries.retain(|entry| entry.session.life == session.life);
        self.admit(session, now_us);
        self.open(session, now_us);
    }

    /// A datagram of that session comes.
    pub(crate) fn open(&mut self, session: Session, now_us: u64) -> Opened {
        self.entries.retain(|entry| now_us < entry.until_us);
        let place = |session| self.entries.iter().position(|entry| entry.session == session);
        let (Some(at), current) = (place(session), place(self.current)) else { return Opened::Unknown };
        if std::mem::take(&mut self.entries[at].pending) {
            let (newer, until_us) = (current < Some(at), now_us + GRACE_US);
            if !newer {
                self.entries[at].until_us = until_us;
            } else {
                current.into_iter().for_each(|current| self.entries[current].until_us = until_us);
                self.entries[at].until_us = u64::MAX;
                self.current = session;
                return Opened::Fresh;
            }
        }
        match session {
            session if session == self.current => Opened::Known,
            session if session.life == self.current.life => Opened::Late,
            _ => Opened::Gone,
        }
    }
}
