//! Jobs that wait for others start, or end, as these do.

use starfarm_protocol::journal::Record;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::JobState;
use crate::links::Links;

impl Farm {
    /// Jobs that waited for others start where these have ended, and are cancelled where one has not ended well.
    pub(crate) fn start_followers(&mut self, now_us: u64, deeds: &mut Deeds) {
        if !self.agenda.links_changed {
            return;
        }
        // A job waits for jobs of lower numbers only, so those that one of these ends come behind it.
        for id in self.jobs.followers().collect::<Vec<_>>() {
            let job = self.jobs.at(id);
            match self.links(&job.terms) {
                Links::Broken(_) => self.end(id, JobState::Cancelled, now_us, deeds),
                Links::Met if job.state == JobState::Waiting => {
                    self.commit(Record::State { job: id, state: JobState::Queued, why: None }, deeds);
                    self.work_came();
                }
                Links::Met | Links::Open(_) => {}
            }
        }
        self.agenda.links_changed = false;
    }
}
