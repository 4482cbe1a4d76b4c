//! What a result gives back: units that its node did not compute go to somebody else, and a node that cannot run a job gets
//! nothing of it for a while.

use starfarm_events::Event;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::{Outcome, ResultEntry};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::found::Found;
use crate::health::{Probe, Shirk};
use crate::job::Refusal;
use crate::seat::Seat;

impl Farm {
    /// A failure of `unit` in an attempt of an earlier scheduler was counted before, or was not: nobody can say. Where it
    /// is out at this node by what a heartbeat listed it is run once more.
    pub(crate) fn give_found_back(&mut self, id: NodeId, job: JobId, unit: u128, now_us: u64) {
        for task_id in self.queues.overlapping(job, Interval::one(unit)) {
            let task = self.queues.task(task_id);
            if task.node == id && task.is_found() {
                self.give_back(task_id, Interval::one(unit), now_us);
            }
        }
    }

    /// What of a result's units is out at this node goes back to gq, but for what was given to it after the attempt
    /// that it gives back: then this result is an old one that comes again.
    pub(crate) fn take_back(&mut self, id: NodeId, entry: &ResultEntry<'_>, now_us: u64) -> Vec<Interval> {
        self.take_part_back(id, entry, entry.at(), now_us)
    }

    /// The same of `part` of it.
    pub(crate) fn take_part_back(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        part: Interval,
        now_us: u64,
    ) -> Vec<Interval> {
        let mut back = Vec::new();
        for task_id in self.queues.of_node_in(id, entry.job, part) {
            let task = self.queues.task(task_id);
            if task.attempt <= entry.attempt {
                let (kind, at) = (task.kind, self.queues.comes_back(task_id, part));
                self.give_back(task_id, at, now_us);
                let node = self.nodes.at_mut(id);
                // A device that fails gives its tasks back, and its worker tries it ever more seldom.
                let is_unasked = entry.outcome == Outcome::Returned && entry.attempt >= node.revoked;
                if is_unasked && !kind.is_device() {
                    node.given_back.add();
                }
                let job = self.jobs.at_mut(entry.job);
                if job.revoked.is_none_or(|(before, _)| before <= entry.attempt) {
                    job.returned_by(id, at, now_us);
                }
                back.push(at);
            }
        }
        self.forget_copies(id, entry.job, part, entry.attempt);
        back
    }

    /// The node can run the job after all, if it was given this since it refused that and had room for any of it.
    pub(crate) fn forget_refusal(&mut self, id: NodeId, entry: &ResultEntry<'_>, found: &Found) {
        if found.lacks_all_room() || self.jobs.at(entry.job).refused_by.is_empty() {
            return;
        }
        let seat = self.queues.seat_with(id, entry.job, entry.lo);
        let refused_by = &mut self.jobs.at_mut(entry.job).refused_by;
        if refused_by.get(&seat).is_some_and(|refusal| entry.attempt >= refusal.after) {
            refused_by.remove(&seat);
        }
    }

    /// A seat lacks something that the job needs. The first word begins the pause until it is asked again; those
    /// that follow are of tasks that it had already, or the answer to that.
    pub(crate) fn on_refused(
        &mut self,
        seat: Seat,
        (job_id, why): (JobId, String),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        // Of a job that has ended nothing is given out: there is nothing to remember.
        let Some(job) = self.jobs.unfinished_mut(job_id) else { return };
        let after = self.queues.next_attempt();
        if let Some(refusal) = job.refused_by.get_mut(&seat) {
            (refusal.why, refusal.after) = (why, after);
            return;
        }
        job.refused_by.insert(seat, Refusal { why: why.clone(), probe: Probe::first(now_us), after });
        let node = self.nodes.at(seat.node).name.clone();
        deeds.event(Event::NodeRefused { node, job: job_id, why });
        // What was kept for it may go to others.
        self.work_came();
    }

    /// Node `id` does not compute what it gets.
    pub(crate) fn shirks(&mut self, id: NodeId, shirk: Shirk, deeds: &mut Deeds, now_us: u64) {
        let mut is_news = false;
        self.nodes.alter(id, |health| is_news = health.shirks(shirk, now_us));
        let node = self.nodes.at(id);
        if let Some(why) = node.health().standing.why().filter(|_| is_news) {
            deeds.event(Event::NodeQuarantined { node: node.name.clone(), why: why.to_string() });
        }
    }
}
