//! What leaves its node: tasks whose node is lost, gone or another one now go back to gq, those of a job that has ended
//! leave dq. A loss is taken back at once, node by node; all else a turn takes back so many tasks of, and leaves the
//! rest to the next turns. Until then a task that goes back belongs to nobody and its units are out, and one of an
//! ended job stays where it is, its units abandoned.

use std::collections::{BTreeMap, VecDeque};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::{Message, Revoke, messages};

use crate::deed::Deeds;
use crate::farm::{Config, Farm};
use crate::global_queue::Alone;
use crate::node::Node;
use crate::task::{NOBODY, NodeId, State, Task, TaskId};

/// What waits to be taken back.
#[derive(Debug, Default)]
pub(crate) struct Unwinding {
    /// Tasks that nobody has any more.
    back: VecDeque<TaskId>,
    /// Jobs that have ended and may have tasks in dq, and what their nodes are told.
    ended: VecDeque<Revoke>,
    /// Datagrams with the hello of another incarnation, which a turn had no time for.
    hellos: BTreeMap<NodeId, Vec<u8>>,
    /// Tasks taken back since the last turn, and what else costs as much.
    pub(crate) taken: u64,
    /// Nodes that may have by now what they lacked; of some of them another incarnation.
    renewed: BTreeMap<NodeId, bool>,
}

impl Unwinding {
    /// There is more to take back.
    pub(crate) fn goes_on(&self) -> bool {
        !(self.back.is_empty() && self.ended.is_empty() && self.hellos.is_empty())
    }

    /// A turn takes no more back. What comes back is given out in the same turn, which costs as much again.
    pub(crate) fn is_full(&self, config: &Config) -> bool {
        self.taken >= config.tasks_a_turn.div_ceil(2)
    }

    /// Tasks of the job are still to leave dq.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.ended.iter().any(|withdraw| withdraw.job == job)
    }

    /// Tasks that nobody has any more.
    pub(crate) fn back(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.back.iter().copied()
    }

    /// A task that nobody has is to go back.
    pub(crate) fn push_back(&mut self, task: TaskId) {
        self.back.push_back(task);
    }

    /// The tasks of an ended job are to leave dq.
    pub(crate) fn end(&mut self, withdraw: Revoke) {
        self.ended.push_back(withdraw);
    }

    /// Node `id` can do now what it refused, as it says, or since it is `another` incarnation.
    pub(crate) fn renew(&mut self, id: NodeId, another: bool) {
        *self.renewed.entry(id).or_default() |= another;
    }
}

impl Farm {
    /// Takes back a turn's worth of what waits for that.
    pub(crate) fn unwind(&mut self, now_us: u64, deeds: &mut Deeds) {
        while !self.unwinding.is_full(&self.config) {
            if let Some((id, datagram)) = self.unwinding.hellos.pop_first() {
                self.on_datagram(id, &datagram, now_us, deeds);
            } else if let Some(task_id) = self.unwinding.back.pop_front() {
                self.unwinding.taken += 1;
                // Its units may all be counted by now, or its job over.
                if let Some(&Task { lo, hi, state: State::Back, .. }) = self.dq.peek(task_id) {
                    self.back_to_gq(task_id, lo, hi);
                }
            } else if let Some(&withdraw) = self.unwinding.ended.front() {
                self.unwinding.taken += 1;
                if !self.let_one_go(withdraw) {
                    self.unwinding.ended.pop_front();
                }
            } else {
                break;
            }
        }
        self.unwinding.taken = 0;
        self.forgive_renewed();
    }

    /// The datagram has the hello of another incarnation of a node that has tasks, and this turn has taken enough back:
    /// it is heard in a later one. Until then nothing else of that node makes sense.
    pub(crate) fn hears_later(&mut self, id: NodeId, datagram: &[u8]) -> bool {
        let waits = self.unwinding.hellos.contains_key(&id);
        if !waits && !self.unwinding.is_full(&self.config) {
            return false;
        }
        let boot = messages(datagram).find_map(|message| match message {
            Ok(Message::Hello(hello)) => Some(hello.boot),
            _ => None,
        });
        let node = self.nodes.get(&id).expect("its datagram is at hand");
        let restarted = boot.is_some() && node.boot.is_some() && node.boot != boot && !node.tasks.is_empty();
        if restarted {
            self.unwinding.hellos.insert(id, datagram.to_vec());
        }
        waits || restarted
    }

    /// The tasks of an ended job leave dq at once: it is to go on.
    pub(crate) fn unwind_job(&mut self, job: JobId) {
        let Some(at) = self.unwinding.ended.iter().position(|withdraw| withdraw.job == job) else { return };
        let withdraw = self.unwinding.ended.remove(at).expect("its place was found just now");
        while self.let_one_go(withdraw) {}
    }

    /// A task of an ended job leaves dq; false where it has none.
    fn let_one_go(&mut self, withdraw: Revoke) -> bool {
        let Some(task_id) = self.dq.any_of_job(withdraw.job) else { return false };
        let id = self.dq.at(task_id).node;
        self.take_from_node(task_id);
        if let Some(node) = self.nodes.get_mut(&id)
            && !node.to_tell.withdraws.contains(&withdraw)
        {
            node.to_tell.withdraws.push(withdraw);
            self.mark(id);
        }
        true
    }

    /// What nodes lacked, or gave back, is held against them no longer. Once a turn for all of them: it goes through
    /// all jobs.
    fn forgive_renewed(&mut self) {
        let renewed = std::mem::take(&mut self.unwinding.renewed);
        if renewed.is_empty() {
            return;
        }
        for job in self.jobs.values_mut() {
            job.refused_by.retain(|id, _| !renewed.contains_key(id));
            job.returned.retain(|_, back| renewed.get(&back.node) != Some(&true));
        }
    }

    /// A silent node is lost: everything that it has goes back to gq, and is remembered in case it comes back.
    pub(crate) fn take_all_back(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("its timer has fired");
        node.has_nothing();
        self.unwinding.taken += node.tasks.len() as u64;
        for task_id in node.tasks.clone() {
            let Task { job, lo, hi, left, copy, .. } = *self.dq.at(task_id);
            self.back_to_gq(task_id, lo, hi);
            if let (false, Some(node)) = (copy, self.nodes.get_mut(&id)) {
                node.taken.push((job, lo, hi));
                node.units_taken += left;
            }
        }
    }

    /// An incarnation of a node is gone for good: nobody has its tasks any more.
    pub(crate) fn orphan_all(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).expect("the caller has found the node");
        node.has_nothing();
        // That is a small part of what it costs to take them back.
        self.unwinding.taken += 1 + node.tasks.len() as u64 / 8;
        for task_id in std::mem::take(&mut node.tasks) {
            if self.dq.at(task_id).copy {
                // The first dispatch goes on alone.
                self.dq.remove(task_id);
            } else {
                self.dq.orphan(task_id);
                self.unwinding.push_back(task_id);
            }
        }
    }

    /// [lo, hi) waits in gq; units that workers died of, or that failed, lie there alone.
    pub(crate) fn put_back(&mut self, job_id: JobId, lo: u128, hi: u128) {
        let job = self.jobs.get(&job_id).expect("what goes back has its job");
        let failed = job.failures.units(lo, hi).map(|unit| (unit, Alone::Failed));
        let deadly = job.deaths.units(lo, hi).map(|unit| (unit, Alone::Deadly));
        let suspects: BTreeMap<u128, Alone> = failed.chain(deadly).collect();
        let mut at = lo;
        for (unit, why) in suspects {
            if at < unit {
                self.gq.put_back(job_id, at, unit);
            }
            self.gq.put_alone(job_id, unit, why);
            at = unit + 1;
        }
        if at < hi {
            self.gq.put_back(job_id, at, hi);
        }
    }

    /// A task leaves dq and its node's list.
    pub(crate) fn take_from_node(&mut self, task_id: TaskId) {
        let task = self.dq.remove(task_id);
        if task.node == NOBODY {
            return;
        }
        let node = self.nodes.get_mut(&task.node).expect("a node with tasks is known");
        self.dq.leave(task_id, &mut node.tasks);
        let found = |task: &TaskId| self.dq.peek(*task).is_some_and(Task::is_found);
        if node.joined_tasks > 0 && task.is_found() && !node.tasks.iter().any(found) {
            // The next heartbeat would say so: until then it gets work at once.
            node.joined_tasks = 0;
        }
    }
}

impl Node {
    /// What it said of itself is over, and nothing is on its way to it.
    fn has_nothing(&mut self) {
        self.queue.clear();
        self.offered.clear();
        (self.queued_tasks, self.load, self.idle_us) = (0, Vec::new(), 0);
        (self.joined_tasks, self.units_taken) = (0, 0);
        self.runs.clear();
    }
}
