//! The states of a job, and its end.

use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::Ended;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::wire::Cancel;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::{JobState, JobTotals};
use crate::queues::Class;

impl Farm {
    /// A job takes a state that is no end; `why` is none where a person wants it so.
    pub(crate) fn set_state(
        &mut self,
        job: JobId,
        state: JobState,
        why: Option<HoldReason>,
        deeds: &mut Deeds,
    ) {
        self.commit(Record::State { job, state, why }, deeds);
    }

    /// Ends a job whose last unit is decided, or whose search has found what it was to find.
    pub(crate) fn end_if_over(&mut self, id: JobId, now_us: u64, deeds: &mut Deeds) {
        let job = self.jobs.at(id);
        if job.state.ended() {
            return;
        }
        // What a node that is not trusted computed may be about to be wanted again.
        let is_decided = || job.is_decided() && !self.nodes.are_traced();
        if job.satisfied() || is_decided() {
            let failed = job.units.coverage().count(Class::Failed) > 0;
            let state = if failed { JobState::Failed } else { JobState::Finished };
            self.end(id, state, now_us, deeds);
        }
    }

    /// Ends a job: what is not decided is abandoned, its tasks leave gq, and dq and the nodes as turns have time.
    /// Results that come all the same still count.
    pub(crate) fn end(&mut self, id: JobId, state: JobState, now_us: u64, deeds: &mut Deeds) {
        debug_assert!(!self.agenda.has_ended(id), "a job ends once");
        let revoke = self.so_far(id, Cancel::Forced);
        self.agenda.ended.push_back(revoke);
        let job = self.jobs.at_mut(id);
        job.revoked = Some((revoke.before, revoke.cancel));
        let totals = JobTotals { ended_us: Some(now_us), ..job.totals };
        let computed_by = job.rates.nodes() as u64 + job.forgotten;
        let coverage = job.units.coverage();
        let (done, failed) = (coverage.count(Class::Done), coverage.count(Class::Failed));
        let abandoned = coverage.undecided().into_iter().map(|at| (at.lo, at.hi)).collect();
        self.commit(Record::Ended(Ended { job: id, state, done, failed, abandoned, totals }), deeds);
        if self.config.watch {
            self.certify(id, computed_by, deeds);
        }
        self.agenda.work_came = true;
        self.agenda.links_changed = true;
    }

    /// Units of a job are wanted again, as `record` has it.
    pub(crate) fn reopen(&mut self, job: JobId, record: Record, deeds: &mut Deeds) {
        self.unwind_job(job);
        self.commit(record, deeds);
        self.work_came();
    }

    /// Notes the counters of jobs that run, so that a certificate knows them but for a period's worth.
    pub(crate) fn record_totals(&mut self, deeds: &mut Deeds) {
        let changed = self.jobs.running().filter(|job| job.totals != job.noted);
        let noted: Vec<Record> =
            changed.map(|job| Record::Totals { job: job.facts.job, totals: job.totals }).collect();
        for record in noted {
            self.commit(record, deeds);
        }
    }
}
