//! What must hold of the queues at all times: each task is in one place, and its state says which.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::Queues;
use super::coverage::Class;
use super::task::{NOBODY, State, TaskId};
use super::units::JobUnits;

impl Queues {
    /// gq holds what is pending, and dq what is out.
    pub(crate) fn check_sums(&self, units: &JobUnits) -> Result<(), String> {
        let (job, coverage) = (units.job, units.coverage());
        let (pending, waiting) = (coverage.count(Class::Pending), self.gq.units(job));
        if pending != waiting {
            return Err(format!("job {}: {pending} units pending, {waiting} in gq", job.0));
        }
        let (out, left) = (coverage.count(Class::Out), self.dq.units_out(job));
        if out != left {
            return Err(format!("job {}: {out} units out, {left} in dq", job.0));
        }
        Ok(())
    }

    /// Tasks in dq are as many as these nodes, which are all, have and nobody has.
    pub(crate) fn check_places(&self, nodes: impl Iterator<Item = NodeId>) -> Result<(), String> {
        let at_nodes: usize = nodes.map(|id| self.nodes.of(id).tasks.len()).sum();
        let (all, of_nobody) = (self.dq.len(), self.dq.count_of_nobody());
        if all != at_nodes + of_nobody {
            return Err(format!("{all} tasks in dq, {at_nodes} at nodes, {of_nobody} at nobody"));
        }
        if !(self.taken.is_empty() && self.touched.is_empty()) {
            return Err("tasks are between two places".into());
        }
        Ok(())
    }

    /// Jobs that have tasks in dq.
    pub(crate) fn jobs_out(&self) -> impl Iterator<Item = JobId> + '_ {
        self.dq.jobs()
    }

    /// gq holds the very units that are pending.
    pub(crate) fn check_waiting(&self, units: &JobUnits) -> Result<(), String> {
        let waiting = join(self.gq.intervals(units.job).into_iter());
        match waiting == join(units.coverage().intervals(Class::Pending)) {
            true => Ok(()),
            false => Err(format!("job {}: gq holds {waiting:?}", units.job.0)),
        }
    }

    /// Each task of dq is where its state says.
    pub(crate) fn check_tasks(&self) -> Result<(), String> {
        let (mut left, mut at_node) = (BTreeMap::<JobId, u128>::new(), BTreeMap::<NodeId, usize>::new());
        let back: BTreeSet<TaskId> = self.back.iter().copied().collect();
        let queued = self.nodes.iter().flat_map(|(id, list)| list.unsent.iter().map(move |of| (id, of.1)));
        let queued: BTreeSet<_> = queued.collect();
        for (id, task) in self.dq.with_ids() {
            if task.state == State::Back && !(task.node == NOBODY && back.contains(&id)) {
                return Err(format!("{task:?} goes back, and waits for no turn"));
            }
            if !task.copy {
                *left.entry(task.job).or_default() += task.left;
            }
            if task.node == NOBODY {
                continue;
            }
            *at_node.entry(task.node).or_default() += 1;
            let is_queued = queued.contains(&(task.node, task.attempt));
            if (task.state == State::Assigned) != is_queued {
                return Err(format!("{task:?} is in the queue of its node: {is_queued}"));
            }
        }
        if let Some(job) =
            self.dq.jobs().find(|job| left.get(job).map_or(0, |left| *left) != self.dq.units_out(*job))
        {
            return Err(format!("job {}: {:?} units in dq, not as counted", job.0, left.get(&job)));
        }
        for (job, nodes) in self.dq.holders.jobs() {
            let mut found = BTreeMap::<NodeId, u32>::new();
            let its = self.dq.with_ids().filter(|(_, task)| task.job == job);
            its.for_each(|(_, task)| *found.entry(task.node).or_default() += 1);
            if *nodes != found {
                return Err(format!("job {}: tasks by node are {found:?}, not {nodes:?}", job.0));
            }
        }
        for (id, list) in self.nodes.iter() {
            if list.tasks.len() != at_node.get(&id).copied().unwrap_or(0) {
                return Err(format!("node {} lists {} tasks", id.0, list.tasks.len()));
            }
            let tasks = || list.tasks.iter().map(|&task| self.dq.at(task));
            for kind in tasks().map(|task| task.kind).collect::<BTreeSet<_>>() {
                let its = tasks().filter(|task| task.kind == kind);
                let sums = its.fold((0, 0), |sums, task| (sums.0 + 1, sums.1 + u64::from(task.weight)));
                let tally = list.tallies.of(kind);
                if (tally.tasks, tally.weight) != sums {
                    return Err(format!(
                        "tasks of node {} and kind {} are {sums:?}, not {tally:?}",
                        id.0, kind.0
                    ));
                }
            }
        }
        Ok(())
    }
}

fn join(intervals: impl Iterator<Item = Interval>) -> Vec<Interval> {
    let mut joined: Vec<Interval> = Vec::new();
    for at in intervals {
        match joined.last_mut() {
            Some(last) if last.hi == at.lo => last.hi = at.hi,
            _ => joined.push(at),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::Attempt;

    use super::*;
    use crate::queues::Size;
    use crate::queues::coverage::Classes;
    use crate::seat::Seat;

    const NODE: NodeId = NodeId(0);

    /// A node has two tasks of ten units; the job has 20 more.
    fn queues() -> (Queues, JobUnits) {
        let (mut queues, mut job) = (Queues::new(Attempt(1)), JobUnits::new(JobId(1), 40));
        assert_eq!(queues.cut(&mut job, [10, 20].into_iter()), 2);
        for _ in 0..2 {
            queues.take(JobId(1), Size { units: 10, whole: 10 }, true, |unit| unit).unwrap();
        }
        assert_eq!(queues.give(&mut job, Seat::cores(NODE), 10, 5), 2);
        (queues, job)
    }

    fn found(queues: &Queues, job: &JobUnits) -> String {
        let sums = queues.check_sums(job).and_then(|()| queues.check_places([NODE].into_iter()));
        sums.and_then(|()| queues.check_tasks()).expect_err("the check sees it")
    }

    #[test]
    fn a_task_that_vanishes_from_its_node_does_not_pass_the_check() {
        let (mut queues, job) = queues();
        assert_eq!(queues.check_tasks(), Ok(()));
        queues.nodes.of_mut(NODE).tasks.pop();
        assert_eq!(found(&queues, &job), "2 tasks in dq, 1 at nodes, 0 at nobody");
    }

    #[test]
    fn a_task_that_vanishes_from_dq_does_not_pass_the_check() {
        let (mut queues, job) = queues();
        let id = queues.ids_at(NODE)[0];
        queues.drop(id);
        assert_eq!(found(&queues, &job), "job 1: 20 units out, 10 in dq");
    }

    #[test]
    fn units_that_are_counted_out_but_lie_in_no_task_do_not_pass_the_check() {
        let (queues, mut job) = queues();
        let out = Classes::of(&[Class::Out]);
        job.coverage.change(Interval::new(0, 5), out, Class::Done, &mut Vec::new());
        assert_eq!(found(&queues, &job), "job 1: 15 units out, 20 in dq");
    }

    #[test]
    fn units_that_leave_gq_alone_do_not_pass_the_check() {
        let (mut queues, mut job) = queues();
        queues.cut(&mut job, [30].into_iter());
        queues.gq.remove(JobId(1), Interval::new(22, 24));
        assert_eq!(found(&queues, &job), "job 1: 10 units pending, 8 in gq");
    }

    #[test]
    fn a_task_whose_state_is_another_than_its_place_does_not_pass_the_check() {
        let (mut queues, job) = queues();
        queues.nodes.of_mut(NODE).unsent.pop_back();
        assert!(found(&queues, &job).ends_with("is in the queue of its node: false"));
    }
}
