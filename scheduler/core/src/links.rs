//! Jobs that start after others: which jobs one waits for, when it may start, and what becomes of it where one of them
//! does not end well. A job that is deleted had ended, and whoever waited for it was told.

use starfarm_events::{Event, JobChange};
use starfarm_protocol::admin::{MergeState, Place};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::record::Ended;
use starfarm_protocol::terms::Terms;

use crate::conflict::Conflict;
use crate::farm::Farm;
use crate::job::{Job, JobState};

/// What the jobs come to that one is to start after.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Links {
    /// These have not ended yet, or their results are still to be merged.
    Open(Vec<JobId>),
    /// All have ended as they should.
    Met,
    /// This one has not ended well, and it should.
    Broken(JobId),
}

impl Farm {
    /// What the jobs of `terms` come to by now.
    pub(crate) fn links(&self, terms: &Terms) -> Links {
        let ended_well = |id: &JobId| self.jobs.get(*id).is_none_or(Job::ended_well);
        if let Some(&broken) = terms.after.iter().find(|id| self.has_ended_wholly(**id) && !ended_well(id)) {
            return Links::Broken(broken);
        }
        let mut open: Vec<JobId> = terms.jobs().filter(|id| !self.has_ended_wholly(*id)).collect();
        open.sort_unstable();
        open.dedup();
        if open.is_empty() { Links::Met } else { Links::Open(open) }
    }

    /// The job has ended, and its results are merged where they are to be.
    fn has_ended_wholly(&self, id: JobId) -> bool {
        self.jobs.get(id).is_none_or(|job| job.state.ended() && !job.is_to_be_merged())
    }

    /// The jobs that `job` waits for; none where it waits for none, or no longer.
    pub(crate) fn waits_for(&self, job: &Job) -> Vec<JobId> {
        match job.is_follower().then(|| self.links(&job.terms)) {
            Some(Links::Open(open)) => open,
            _ => Vec::new(),
        }
    }

    /// The job that `job` was to start after, and that did not end well.
    pub(crate) fn broken_by(&self, job: &Job) -> Option<&Job> {
        let has_ended = job.state.ended();
        let could_start = job.totals.started_us.is_none() && (job.is_follower() || has_ended);
        let Some(Links::Broken(id)) = could_start.then(|| self.links(&job.terms)) else { return None };
        // Where this one was cancelled before, that one is not to blame.
        self.jobs.get(id).filter(|broken| !has_ended || broken.totals.ended_us <= job.totals.ended_us)
    }

    /// Whether a job to submit at `place` may have these terms.
    pub(crate) fn may_have(&self, terms: &Terms, place: Place) -> Result<(), Conflict> {
        if let Some(unknown) = terms.jobs().find(|id| self.jobs.get(*id).is_none()) {
            return Err(Conflict::NoSuchJob(unknown));
        }
        match self.links(terms) {
            Links::Broken(id) => Err(Conflict::AfterFailed(id, self.jobs.at(id).state)),
            Links::Open(open) if place == Place::Now => Err(Conflict::Waits(open[0])),
            Links::Open(_) | Links::Met => Ok(()),
        }
    }

    /// What is told where the job that is about to be submitted has to wait.
    pub(crate) fn waits(&self, job: JobId) -> Option<Event> {
        let (_, terms) = self.jobs.linked.as_ref().filter(|(id, _)| *id == job)?;
        let Links::Open(open) = self.links(terms) else { return None };
        Some(Event::JobState { job, state: JobChange::To(JobState::Waiting), why: Some(waits_for(&open)) })
    }

    /// What is told of the end of a job, which is about to come.
    pub(crate) fn ends(&self, ended: &Ended) -> Event {
        let why = self.broken_by(self.jobs.at(ended.job)).map(after_failed);
        Event::JobState { job: ended.job, state: JobChange::To(ended.state), why }
    }

    /// Whoever waits for the results of a job that are still to be merged; none where nobody does.
    pub(crate) fn awaits_merge_of(&self, id: JobId) -> Option<JobId> {
        let waits = |follower: &JobId| self.waits_for(self.jobs.at(*follower)).contains(&id);
        self.jobs.followers().find(waits)
    }

    /// How the merge of a job's results stands. The rim merges: the core must know it of all jobs with a merge from before
    /// the first turn on.
    pub fn note_merge(&mut self, id: JobId, state: MergeState) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.merge = Some(state);
            self.agenda.links_changed = true;
        }
    }
}

impl Job {
    /// It has finished, and its results are still to be merged: those of others are merged only if a person wants that.
    fn is_to_be_merged(&self) -> bool {
        self.state == JobState::Finished
            && matches!(self.merge, Some(MergeState::Waiting | MergeState::Running))
    }

    /// All of its units are done, and merged if that is wanted.
    fn ended_well(&self) -> bool {
        self.state == JobState::Finished && matches!(self.merge, None | Some(MergeState::Done))
    }
}

/// In words, what a job waits for.
pub(crate) fn waits_for(jobs: &[JobId]) -> String {
    let ids: Vec<String> = jobs.iter().map(|job| job.0.to_string()).collect();
    format!("waits for job{} {}", if ids.len() == 1 { "" } else { "s" }, ids.join(", "))
}

/// In words, why a job that was to start after `broken` never does.
pub(crate) fn after_failed(broken: &Job) -> String {
    let id = broken.facts.job.0;
    match broken.state {
        JobState::Finished => format!("the results of job {id} could not be merged"),
        state => format!("job {id} has ended ({state})"),
    }
}
