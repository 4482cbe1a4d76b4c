//! What the core wants done. The rim (threads or the simulator) does it; nothing in the core touches a
//! socket, a disk or a clock.

use starfarm_events::Event;
use starfarm_protocol::ids::{Epoch, JobId, NodeId};
use starfarm_protocol::journal::Record;

/// One thing to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Deed {
    /// Seal and send these datagrams, in order, to the node's current session.
    Send(NodeId, Vec<Vec<u8>>),
    /// Make this durable; then call [`crate::Farm::on_durable`] with its sequence.
    Record(u64, Record),
    /// Tell whoever watches.
    Event(Event),
    /// Find out which node's record decided this unit as done; then call [`crate::Farm::on_traced`]. All records handed
    /// on before are to be looked at.
    #[expect(missing_docs, reason = "a unit of a job")]
    Trace { job: JobId, unit: u128 },
    /// A later incarnation of this farm was started: this one must do nothing more.
    Superseded(Epoch),
}

/// The deeds of a turn.
#[derive(Debug, Default)]
pub struct Deeds(pub Vec<Deed>);

impl Deeds {
    pub(crate) fn event(&mut self, event: Event) {
        self.0.push(Deed::Event(event));
    }
}
