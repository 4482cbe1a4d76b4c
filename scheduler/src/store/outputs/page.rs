//! Outputs as a reader gets them, and what may be done with the files that they lie in.

use starfarm_protocol::ids::Attempt;
use starfarm_protocol::wire::CommandUnit;
use starfarm_scheduler_core::NodeId;

/// One unit's outcome, as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    pub(crate) unit: u128,
    pub(crate) attempt: Attempt,
    pub(crate) node: NodeId,
    pub(crate) outcome: CommandUnit,
    /// The unit failed in this run, and was wanted again after it: another one counts.
    pub(crate) superseded: bool,
    /// Which run of the unit it was, from 1 on, of those that came to an end: one that died with its worker or was
    /// given back is none.
    pub(crate) run: u64,
}

/// What a store may do with its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It keeps them.
    Kept,
    /// It looks at what lies there and changes nothing; what the journal has beyond the files stays in memory.
    AtRest,
}

/// Some outputs of a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Page {
    pub(crate) outputs: Vec<Output>,
    /// So many more lie between them and cannot be read. Where not even their number can, they count as one.
    pub(crate) damaged: u64,
    pub(crate) more: bool,
}
