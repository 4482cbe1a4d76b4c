//! What happens next in a simulated tree, in the order of a virtual clock in microseconds; at one time, in the order in which
//! it was put in.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use starfarm_overlay_core::pipe::LinkId;
use starfarm_overlay_core::posts::{News, ProcessId};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::orders::{Orders, PostOrder, Report};

use super::wires::Who;

/// Something that will happen.
#[derive(Debug)]
pub(super) enum What {
    /// An agent has something to do by itself, if nothing has set another time since.
    Turn(Who),
    /// An agent or a scheduler looks after its links.
    Look(Who),
    /// A call reaches whoever listens there.
    Connect(LinkId),
    /// Its answer reaches the caller.
    Answered(LinkId),
    /// The next record of that end of a link reaches the other.
    Deliver(LinkId, usize),
    /// That the other end has gone shows at this one.
    HangUp(LinkId, usize),
    /// A process that a worker has started runs, for a post of that level.
    Runs(Place, ProcessId, (u8, Option<JobId>)),
    /// An agent tells its worker something.
    Tell(Place, ProcessId, News),
    /// A worker has something to do.
    Worker(Place),
    /// A worker's report reaches the scheduler of that number.
    Report(Place, Box<Report>, u32),
    /// A worker's call is over: with orders, or in vain.
    Called(Place, Option<Box<Orders>>),
    /// A worker's heartbeat.
    Heartbeat(Place),
    /// A doorbell reaches a worker.
    Bell(Place, u64),
    /// The scheduler's tree thread looks at what there is to do.
    Root(u32),
    /// It looks at once.
    Wake(u32),
    /// A worker tells an agent its place, and where the scheduler is.
    Place(Who, Box<PostOrder>, SocketAddr),
    /// A worker wants an agent no more.
    Close(Who),
    /// The next fault.
    Fault,
    /// A fault is over.
    Mend(Mend),
    /// Jobs start and end, and wishes change.
    Change,
}

/// A node, in that life of its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) life: u32,
}

/// What is mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mend {
    /// A worker is started.
    Worker(usize),
    /// A machine is switched on.
    Power(usize),
    /// Machines reach each other.
    Partition,
    /// A scheduler is started.
    Scheduler,
}

/// Events to come.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BTreeMap<(u64, u64), What>,
    order: u64,
}

impl Agenda {
    pub(super) fn at(&mut self, at_us: u64, what: What) {
        self.order += 1;
        self.events.insert((at_us, self.order), what);
    }

    pub(super) fn next(&mut self) -> Option<(u64, What)> {
        self.events.pop_first().map(|((at_us, _), what)| (at_us, what))
    }
}
