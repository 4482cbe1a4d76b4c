//! A seat: a node and one kind of its slots, its cores or devices that are alike. Rates, sizes, windows, refusals and what is
//! held are by seat; health, leases, rights and blame are by node.

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::NodeId;

/// A node and one kind of its slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Seat {
    pub(crate) node: NodeId,
    pub(crate) kind: SlotKind,
}

impl Seat {
    pub(crate) const fn new(node: NodeId, kind: SlotKind) -> Self {
        Self { node, kind }
    }

    /// The cores of a node.
    pub(crate) const fn cores(node: NodeId) -> Self {
        Self::new(node, SlotKind::CORES)
    }
}
