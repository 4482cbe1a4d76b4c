//! Who computed what: the records know, and nobody else. Asked for seldom, so that all of them are read for it.

use starfarm_protocol::journal::Record;
use starfarm_scheduler_core::{Trace, Traced, Tracing};

use super::{Retirer, open};
use crate::error::SchedulerError;

impl Retirer {
    /// Answers what is asked of all records. To be called by the thread that rewrites segments: it would miss one that is just
    /// being rewritten.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(crate) fn trace(&self, asked: &[Trace]) -> Result<Vec<Traced>, SchedulerError> {
        let mut tracing = Tracing::new(asked);
        open::replay(&self.segments, 0, &mut |frame| {
            let record = Record::decode(frame.kind, frame.body)
                .map_err(|_| format!("record {} of kind {} cannot be read", frame.sequence, frame.kind))?;
            tracing.read(&record);
            Ok(())
        })?;
        Ok(tracing.end().flatten().collect())
    }
}
