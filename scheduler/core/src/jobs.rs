//! The jobs that the farm knows, and jq.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::terms::Terms;

use crate::checks::Checks;
use crate::job::{Job, JobState};

/// All jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: BTreeMap<JobId, Job>,
    /// jq, with the current job at its front: jobs that have not ended.
    queue: VecDeque<JobId>,
    /// Those of them that run.
    running: BTreeSet<JobId>,
    /// Those that may have to wait for others before they start.
    followers: BTreeSet<JobId>,
    last: u64,
    /// How many of those in jq are wide.
    wide: usize,
    /// The trust checks of the job that is to be submitted next.
    pub(crate) asked: Option<(JobId, Checks)>,
    /// The terms of the job that is to be submitted next.
    pub(crate) linked: Option<(JobId, Terms)>,
    open: OpenJobs,
    /// The scheduler's disk is below its low-water mark.
    no_room: bool,
}

/// Jobs in jq that have units to give out, in its order, so that nobody goes through all of jq for one.
#[derive(Debug, Default)]
struct OpenJobs {
    /// These may be given out now.
    active: VecDeque<JobId>,
    /// These are paused, or wait for other jobs.
    held: Vec<JobId>,
    /// Nothing has changed in jq since, nor a state, and nothing came back.
    is_fresh: bool,
}

impl Jobs {
    /// The job of a number that somebody else named.
    pub(crate) fn get(&self, id: JobId) -> Option<&Job> {
        self.all.get(&id)
    }

    /// See [`Jobs::get`].
    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.all.get_mut(&id)
    }

    /// The job of a number that is known to be one.
    pub(crate) fn at(&self, id: JobId) -> &Job {
        self.all.get(&id).expect("the caller's number is a job's")
    }

    /// See [`Jobs::at`].
    pub(crate) fn at_mut(&mut self, id: JobId) -> &mut Job {
        self.all.get_mut(&id).expect("the caller's number is a job's")
    }

    /// The job, if it has not ended.
    pub(crate) fn unfinished(&self, id: JobId) -> Option<&Job> {
        self.get(id).filter(|job| !job.state.ended())
    }

    /// See [`Jobs::unfinished`].
    pub(crate) fn unfinished_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.get_mut(id).filter(|job| !job.state.ended())
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All jobs, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.all.values()
    }

    /// See [`Jobs::iter`].
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.all.values_mut()
    }

    /// A job in jq is wide.
    pub(crate) fn has_wide(&self) -> bool {
        self.wide > 0
    }

    /// The jobs from number `from` on.
    pub(crate) fn from(&self, from: JobId) -> impl Iterator<Item = &Job> {
        self.all.range(from..).map(|(_, job)| job)
    }

    /// The jobs in jq, in its order.
    pub(crate) fn queued(&self) -> impl DoubleEndedIterator<Item = &Job> + Clone {
        self.queue.iter().map(|id| self.at(*id))
    }

    /// How many jobs are in jq.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The place of a job in jq; 0 is its head.
    pub(crate) fn place_of(&self, id: JobId) -> Option<usize> {
        self.queue.iter().position(|other| *other == id)
    }

    /// The number of the job that was submitted last, or forgotten since.
    pub(crate) fn last(&self) -> JobId {
        JobId(self.last)
    }

    /// Numbers up to `id` were given.
    pub(crate) fn given(&mut self, id: JobId) {
        self.last = self.last.max(id.0);
    }

    /// A new job, at the tail of jq.
    pub(crate) fn insert(&mut self, job: Job) {
        let id = job.facts.job;
        self.given(id);
        if job.is_follower() {
            self.followers.insert(id);
        }
        let known = self.all.insert(id, job);
        assert!(known.is_none(), "job {} is new", id.0);
        self.queue_up(id);
    }

    pub(crate) fn remove(&mut self, id: JobId) {
        let job = self.all.remove(&id).expect("whoever forgets a job has looked it up");
        assert!(job.state.ended(), "a job that is forgotten has ended");
        debug_assert!(!self.queue.contains(&id), "and has left jq");
        assert!(!self.running.contains(&id), "and runs no more");
        assert!(!self.followers.contains(&id), "and waits for nobody");
    }

    /// A job that goes on, or begins, stands at the tail of jq.
    pub(crate) fn queue_up(&mut self, id: JobId) {
        debug_assert!(!self.queue.contains(&id), "a job stands in jq once");
        let job = self.at(id);
        let (is_active, is_wide) = (job.active(), job.is_wide());
        assert!(is_active || job.is_follower(), "what enters jq can be given out, or waits for others");
        self.wide += usize::from(is_wide);
        self.queue.push_back(id);
        if is_active {
            self.open.active.push_back(id);
        } else {
            self.open.held.push(id);
        }
    }

    /// A job takes this place in jq, or the tail where there are fewer.
    pub(crate) fn move_to(&mut self, id: JobId, place: usize) {
        assert!(!self.at(id).state.ended(), "what stands in jq has not ended");
        self.leave_queue(id);
        self.wide += usize::from(self.at(id).is_wide());
        self.queue.insert(place.min(self.queue.len()), id);
        self.renew();
    }

    /// A job leaves jq.
    pub(crate) fn leave_queue(&mut self, id: JobId) {
        let before = self.queue.len();
        for queue in [&mut self.queue, &mut self.open.active] {
            // As a rule it is the current job.
            if queue.front() == Some(&id) {
                queue.pop_front();
            } else {
                queue.retain(|other| *other != id);
            }
        }
        self.open.held.retain(|other| *other != id);
        let has_left = self.queue.len() < before;
        self.wide -= usize::from(has_left && self.at(id).is_wide());
        debug_assert!(!self.queue.contains(&id) && !self.open.active.contains(&id), "it stood there once");
    }

    /// The jobs that may have to wait for others before they start, by number.
    pub(crate) fn followers(&self) -> impl Iterator<Item = JobId> + '_ {
        self.followers.iter().copied()
    }

    /// The jobs that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Job> {
        self.running.iter().map(|id| self.at(*id))
    }

    /// A job takes another state.
    pub(crate) fn change_state(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        let job = self.all.get_mut(&id).expect("the caller's number is a job's");
        let was_active = job.active();
        change(job);
        // One that has ended leaves jq.
        self.open.is_fresh &= job.active() == was_active || job.state.ended();
        match job.state {
            JobState::Running => self.running.insert(id),
            _ => self.running.remove(&id),
        };
        match job.is_follower() {
            true => self.followers.insert(id),
            false => self.followers.remove(&id),
        };
    }

    /// Something came to be given out, or a state changed.
    pub(crate) fn renew(&mut self) {
        self.open.is_fresh = false;
    }

    /// Makes the list of open jobs anew, where it is stale. Once a turn: it goes through all of jq.
    pub(crate) fn renew_open(&mut self) {
        if std::mem::replace(&mut self.open.is_fresh, true) {
            return;
        }
        let (mut active, mut held) = (std::mem::take(&mut self.open.active), Vec::new());
        active.clear();
        for job in self.queued().filter(|job| job.pending() > 0) {
            match job.active() {
                true => active.push_back(job.facts.job),
                false => held.push(job.facts.job),
            }
        }
        (self.open.active, self.open.held) = (active, held);
    }

    /// The `at`th of the jobs that may be given out.
    pub(crate) fn open_at(&self, at: usize) -> Option<JobId> {
        self.open.active.get(at).copied()
    }

    /// The jobs that may be given out.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Job> {
        self.open.active.iter().map(|id| self.at(*id))
    }

    /// The first of the jobs that may be given out has nothing to give any more. What comes back makes the list anew.
    pub(crate) fn close_first(&mut self) {
        let first = self.open.active.pop_front().expect("the caller has looked at it");
        debug_assert!(!self.at(first).active() || self.at(first).pending() == 0, "it has nothing to give");
    }

    /// Jobs in jq that have units to give out or are held; all of jq where that is not known.
    pub(crate) fn with_work(&self) -> Box<dyn Iterator<Item = &Job> + '_> {
        let OpenJobs { active, held, is_fresh } = &self.open;
        match is_fresh {
            false => Box::new(self.queued()),
            true => Box::new(active.iter().chain(held).map(|id| self.at(*id))),
        }
    }

    /// A job has something to give out, and not only beyond a lease that is on its way to the disk.
    pub(crate) fn has_work(&mut self) -> bool {
        let Some(first) = self.open_at(0) else { return false };
        let job = self.at_mut(first);
        !job.lease.note_wait(job.units.coverage())
    }

    /// Whether the scheduler's disk is below its low-water mark; true where it has room again.
    pub(crate) fn set_room(&mut self, no_room: bool) -> bool {
        std::mem::replace(&mut self.no_room, no_room) && !no_room
    }

    /// Units of `job` are given out, if there are any.
    pub(crate) fn gives_out(&self, job: &Job) -> bool {
        job.active() && !self.lacks_room(job)
    }

    /// Units of `job` wait for room on the scheduler's disk.
    pub(crate) fn lacks_room(&self, job: &Job) -> bool {
        self.no_room && job.facts.work.programs
    }

    /// A job that runs stands at the head of jq, and it is another one than `id`.
    pub(crate) fn another_runs(&self, id: JobId) -> bool {
        self.queued().next().is_some_and(|first| first.facts.job != id && first.state == JobState::Running)
    }
}
