//! What the other threads tell the main thread.

use std::net::SocketAddr;

use starfarm_protocol::devices::DeviceState;
use starfarm_protocol::ids::Attempt;
use starfarm_protocol::wire::CardFigures;
use starfarm_worker_core::Part;

/// One message to the main thread.
pub(crate) enum Event {
    Datagrams(Vec<(Vec<u8>, SocketAddr)>),
    Slot {
        slot: u16,
        news: Vec<News>,
    },
    /// The device of a slot does otherwise than before.
    Device {
        slot: u16,
        state: DeviceState,
    },
    /// How cards do; none where that is not known.
    Cards(Vec<CardFigures>),
    /// Where the scheduler may be reached, and the names of which that is not known.
    Addresses {
        found: Vec<SocketAddr>,
        unknown: Vec<String>,
    },
    /// A signal wants the worker to end; a second one wants it now.
    Stop,
    ParentGone,
    /// A sign that somebody listens.
    Nothing,
}

pub(crate) enum News {
    Part(Part),
    End(Attempt),
}
