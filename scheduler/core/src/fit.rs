//! Who can run what, as far as that is arithmetic: what a node has against what a run of a job takes, and how much of that
//! is given away. A wide job is one whose runs take other than one slot: most farms have none, and pay nothing for this.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::resources::{Resource, Resources};

use crate::farm::Farm;
use crate::job::Job;
use crate::nodes::Nodes;

/// What a node was given, in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    /// Of tasks whose runs take one.
    narrow: usize,
    /// Of tasks of wide jobs.
    wide: usize,
    /// So many of these at most are taken at one time: the others wait for them.
    wide_at_once: usize,
}

impl Given {
    /// Slots that have something to run.
    pub(crate) fn taken(self) -> usize {
        self.narrow + self.wide.min(self.wide_at_once)
    }

    /// Slots that all of it takes, one after another.
    pub(crate) fn all(self) -> usize {
        self.narrow + self.wide
    }
}

impl Job {
    /// A run of it fits into what node `id` has.
    pub(crate) fn fits(&self, id: NodeId, nodes: &Nodes) -> bool {
        nodes.get(id).is_some_and(|node| node.has().fits(self.needs()))
    }

    /// A run of it fits, and the node has not said that it cannot run it.
    pub(crate) fn could_run(&self, id: NodeId, nodes: &Nodes) -> bool {
        !self.refused_by.contains_key(&id) && self.fits(id, nodes)
    }

    /// Live nodes that could run it.
    pub(crate) fn able_nodes(&self, nodes: &Nodes) -> usize {
        if self.is_wide() {
            return nodes.iter().filter(|(id, _)| nodes.is_live(*id) && self.could_run(*id, nodes)).count();
        }
        let refused = self.refused_by.keys().filter(|id| nodes.is_live(**id)).count();
        let live = nodes.live_nodes() as usize;
        live.checked_sub(refused).expect("those that refused it and live are among those that live")
    }
}

impl Farm {
    /// Runs of `job` that node `id` makes at one time, within that much of what it has.
    pub(crate) fn places(&self, job: &Job, within: Resources) -> usize {
        usize::try_from(within.times(job.needs())).unwrap_or(usize::MAX)
    }

    /// There are nodes that take tasks, and a run of `job` fits into none of them.
    pub(crate) fn fits_nowhere(&self, job: &Job) -> bool {
        job.is_wide()
            && self.nodes.taking().next().is_some()
            && self.nodes.taking().all(|(node, _)| !job.fits(node, &self.nodes))
    }

    /// Runs of `job` that live nodes make at one time, and 1 at least: as if each had slots for whole ones, or, where runs
    /// take more than slots, as many as fit.
    pub(crate) fn live_places(&self, job: &Job) -> u64 {
        if job.needs().with(Resource::Slots, 0) == Resources::NONE {
            return (self.slots_for(job) / job.width() as u64).max(1);
        }
        let able = self.nodes.iter().filter(|(id, _)| self.nodes.is_live(*id));
        let places: Vec<u64> =
            able.map(|(_, node)| node.has().times(job.needs())).filter(|places| *places > 0).collect();
        let (all, nodes) = (places.iter().sum::<u64>(), places.len() as u64);
        let most = job.terms.max_nodes.map_or(nodes, |most| nodes.min(most.into()));
        (all * most).checked_div(nodes).unwrap_or(0).max(1)
    }

    /// What node `id` was given. Pieces of tasks count as what they are.
    pub(crate) fn given(&self, id: NodeId) -> Given {
        self.given_of(id, self.queues.held_whole(id))
    }

    /// Of `held` tasks at node `id`, how many slots they take.
    fn given_of(&self, id: NodeId, held: usize) -> Given {
        if !self.jobs.has_wide() {
            return Given { narrow: held, wide: 0, wide_at_once: 0 };
        }
        let has = self.nodes.at(id).has();
        let (mut tasks, mut wide, mut wide_at_once) = (0, 0, 0);
        let jobs = self.queues.tasks_at(id).filter_map(|task| self.jobs.get(task.job));
        for job in jobs.filter(|job| job.is_wide()) {
            (tasks, wide) = (tasks + 1, wide + job.width());
            wide_at_once = wide_at_once.max(self.places(job, has) * job.width());
        }
        Given { narrow: held.saturating_sub(tasks), wide, wide_at_once }
    }

    /// Slots of node `id` that have nothing to run.
    pub(crate) fn idle_slots(&self, id: NodeId) -> usize {
        let taken = self.given_of(id, self.queues.held(id)).taken();
        usize::from(self.nodes.at(id).slots()).saturating_sub(taken)
    }

    /// A run of `job` would start at once on node `id`, as far as its slots are concerned.
    pub(crate) fn has_slots(&self, job: &Job, id: NodeId) -> bool {
        self.idle_slots(id) >= job.width()
    }

    /// Tasks that stand in the way of more of `job` on node `id`, of which it may use `within`. Those of a wide job are its
    /// own, since what others are given behind it must not keep it out for ever; it waits at the node for slots, and nothing
    /// delays it there.
    pub(crate) fn in_the_way(&self, job: &Job, id: NodeId, within: Resources) -> usize {
        if job.is_wide() {
            return self.queues.tasks_at(id).filter(|task| task.job == job.facts.job).count();
        }
        let given = self.given(id);
        if within == self.nodes.at(id).has() { given.taken() } else { given.narrow }
    }

    /// What is left of `within` beside all the runs of `job` that fit there: others fill it. None where that is no slot.
    pub(crate) fn gap(&self, job: &Job, within: Resources) -> Option<Resources> {
        let runs = job.needs().scaled(within.times(job.needs()));
        let left = within.minus(runs).expect("so many runs fit");
        (left.of(Resource::Slots) > 0).then_some(left)
    }
}
