//! Who computed what: the records know, and nobody else. Asked for seldom, so that all of them are read for it.

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::journal::Record;

use super::{Retirer, open};
use crate::error::SchedulerError;

impl Retirer {
    /// For each of these units the node by whose record it was decided last; none where no record says so. To be called by
    /// the thread that rewrites segments: it would miss one that is just being rewritten.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(crate) fn trace(&self, units: &[(JobId, u128)]) -> Result<Vec<Option<NodeId>>, SchedulerError> {
        let mut nodes = vec![None; units.len()];
        open::replay(&self.segments, 0, &mut |frame| {
            let record = Record::decode(frame.kind, frame.body)
                .map_err(|_| format!("record {} of kind {} cannot be read", frame.sequence, frame.kind))?;
            for (node, &(job, unit)) in nodes.iter_mut().zip(units) {
                *node = record.computed(job, unit).or(*node);
            }
            Ok(())
        })?;
        Ok(nodes)
    }
}
