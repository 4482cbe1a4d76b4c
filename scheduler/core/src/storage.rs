//! Room that outputs take on the scheduler's disk: a job over its limit waits for a person. How many bytes there are is the
//! rim's to count. Ended jobs are not here: see `retention`.

use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::Cancel;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::JobState;

impl Farm {
    /// The outputs of a job take so many bytes. One over its limit is paused: what runs of it ends, and counts.
    pub fn on_stored(&mut self, id: JobId, bytes: u64, deeds: &mut Deeds) {
        // It may have been deleted since they were counted.
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.stored.note(bytes);
        self.pause_if_full(id, deeds);
    }

    /// A job over what it may store is paused.
    pub(crate) fn pause_if_full(&mut self, id: JobId, deeds: &mut Deeds) {
        let job = self.jobs.at(id);
        if job.active()
            && !job.is_decided()
            && let Some(why) = job.stored.full(job.terms.storage_limit, job.paused_for.as_ref())
        {
            self.set_state(id, JobState::Paused, Some(why), deeds);
            self.revoke(id, Cancel::Graceful);
        }
    }
}
