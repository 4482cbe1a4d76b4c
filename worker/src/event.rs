//! What the other threads tell the main thread.

use std::net::SocketAddr;

use starfarm_protocol::ids::Attempt;
use starfarm_worker_core::Part;

/// One message to the main thread.
pub(crate) enum Event {
    /// Datagrams came.
    Datagrams(Batch),
    /// A slot reports.
    Slot {
        /// Which.
        slot: u16,
        /// What, in order.
        news: Vec<News>,
    },
    /// Where the scheduler may be reached; empty where no name could be resolved.
    Addresses {
        /// Those of all names.
        found: Vec<SocketAddr>,
        /// Names of which there is none.
        unknown: Vec<String>,
    },
    /// A signal wants the worker to end; a second one wants it now.
    Stop,
    /// The parent process has gone.
    ParentGone,
    /// A sign that somebody listens.
    Nothing,
}

/// What a slot has to say.
pub(crate) enum News {
    /// Some units of its task are done.
    Part(Part),
    /// A task left the slot.
    End(Attempt),
}

/// Datagrams of one system call, in one piece of memory.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<(usize, SocketAddr)>,
}

impl Batch {
    pub(crate) fn of<'a>(datagrams: impl Iterator<Item = (&'a [u8], SocketAddr)>) -> Self {
        let mut batch = Self { bytes: Vec::new(), ends: Vec::new() };
        for (datagram, from) in datagrams {
            batch.bytes.extend_from_slice(datagram);
            batch.ends.push((batch.bytes.len(), from));
        }
        batch
    }

    /// The datagrams and who sent them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, from))| (&self.bytes[start..*end], *from))
    }
}
