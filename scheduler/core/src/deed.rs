//! What the core wants done. The rim (threads or the simulator) does it; nothing in the core touches a
//! socket, a disk or a clock.

use starfarm_events::Event;
use starfarm_protocol::ids::{Epoch, NodeId};
use starfarm_protocol::journal::Record;

use crate::trace::Trace;

/// One thing to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Deed {
    /// Seal and send these datagrams, in order, to the node's current session.
    Send(NodeId, Vec<Vec<u8>>),
    /// Make this durable; then call [`crate::Farm::on_durable`] with its sequence.
    Record(u64, Record),
    /// Tell whoever watches.
    Event(Event),
    /// Find that out by a [`crate::Tracing`] of all records that were handed on before; then call
    /// [`crate::Farm::on_traced`].
    Trace(Trace),
    /// Put the number and the hash of all hits that its job had by its last end into this certificate; then tell whoever
    /// watches. Some are in the journal alone. All records handed on before are to be looked at.
    Certify(Event),
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
