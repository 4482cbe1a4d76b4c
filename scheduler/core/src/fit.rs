//! Who can run what, as far as that is arithmetic: what a node has against what a run of a job takes, and how much of that
//! is given away. A wide job is one whose runs take other than one slot: most farms have none, and pay nothing for this.

use starfarm_protocol::devices::{DeviceNeeds, SlotKind};
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::resources::{Resource, Resources};

use crate::farm::Farm;
use crate::filling::DevicesAt;
use crate::job::Job;
use crate::nodes::Nodes;
use crate::seat::Seat;

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
    /// A run of it fits into what `seat` has, as far as that is known.
    pub(crate) fn fits_at(&self, seat: Seat, nodes: &Nodes) -> bool {
        let Some(node) = nodes.get(seat.node) else { return false };
        let (on, kind) = (self.facts.work.on, seat.kind);
        match kind.is_device() {
            true => on.devices.zip(node.devices(kind)).is_some_and(|(needs, at)| needs.suits(&at.told.facts)),
            false => on.cores && node.has().fits(self.needs()),
        }
    }

    /// A run of it fits, and the node has not said that it cannot run it there.
    pub(crate) fn could_run_at(&self, seat: Seat, nodes: &Nodes) -> bool {
        !self.refused_by.contains_key(&seat) && self.fits_at(seat, nodes)
    }

    /// A run of it fits into what node `id` has.
    pub(crate) fn fits(&self, id: NodeId, nodes: &Nodes) -> bool {
        nodes.seats(id).any(|seat| self.fits_at(seat, nodes))
    }

    /// A run of it fits, and the node has not said that it cannot run it.
    pub(crate) fn could_run(&self, id: NodeId, nodes: &Nodes) -> bool {
        nodes.seats(id).any(|seat| self.could_run_at(seat, nodes))
    }

    /// A core of any node runs it, as long as the node does not say that it cannot.
    fn runs_anywhere(&self) -> bool {
        self.facts.work.on.cores && !self.is_wide()
    }

    /// Live nodes that could run it.
    pub(crate) fn able_nodes(&self, nodes: &Nodes) -> usize {
        if !self.runs_anywhere() {
            return nodes.iter().filter(|(id, _)| nodes.is_live(*id) && self.could_run(*id, nodes)).count();
        }
        let refused = self.refused_by.keys().filter(|seat| !seat.kind.is_device());
        let unable =
            refused.filter(|seat| nodes.is_live(seat.node) && !self.could_run(seat.node, nodes)).count();
        let live = nodes.live_nodes() as usize;
        live.checked_sub(unable).expect("those that refused it and live are among those that live")
    }
}

/// Runs of a job that live nodes make at one time.
#[derive(Clone, Copy, Default)]
struct Places {
    cores: u64,
    devices: u64,
}

impl Farm {
    /// Runs of `job` that slots of a kind make at one time, within that much of what their node has.
    pub(crate) fn places(&self, job: &Job, kind: SlotKind, within: Resources) -> usize {
        usize::try_from(within.times(job.needs_on(kind))).unwrap_or(usize::MAX)
    }

    /// There are nodes that take tasks, and a run of `job` fits into none of them.
    pub(crate) fn fits_nowhere(&self, job: &Job) -> bool {
        !job.runs_anywhere()
            && self.nodes.taking().next().is_some()
            && self.nodes.taking().all(|(node, _)| !job.fits(node, &self.nodes))
    }

    /// Runs of `job` that live nodes make at one time, and 1 at least.
    pub(crate) fn live_places(&self, job: &Job) -> u64 {
        let Places { cores, devices } = self.all_places(job);
        (cores + devices).max(1)
    }

    /// Units per second of all of them, as results say.
    pub(crate) fn told_speed(&self, job: &Job) -> f64 {
        let Places { cores, devices } = self.all_places(job);
        let speed = |kind, places| job.rates.mean(kind) * places as f64;
        // Nothing is there at the moment: as if one were.
        let cores = if cores + devices == 0 { 1 } else { cores };
        speed(SlotKind::CORES, cores) + speed(SlotKind(1), devices)
    }

    /// As if each node had slots for whole runs, or, where these take more than slots, as many as fit. The usual needs nothing
    /// but what the farm counts as nodes come and go.
    fn all_places(&self, job: &Job) -> Places {
        let (on, beside_slots) = (job.facts.work.on, job.needs().with(Resource::Slots, 0) != Resources::NONE);
        let most = |places: u64, nodes: u64| {
            let most = job.terms.max_nodes.map_or(nodes, |most| nodes.min(most.into()));
            (places * most).checked_div(nodes).unwrap_or(0)
        };
        let cores = match on.cores {
            false => 0,
            true if !beside_slots => self.slots_for(job) / job.width() as u64,
            true => {
                let live = self.nodes.iter().filter(|(id, _)| self.nodes.is_live(*id));
                let fit = live.map(|(_, node)| node.has().times(job.needs())).filter(|fit| *fit > 0);
                let (places, nodes) = fit.fold((0, 0), |(places, nodes), fit| (places + fit, nodes + 1));
                most(places, nodes)
            }
        };
        let devices = match on.devices {
            None => 0,
            Some(_) if self.nodes.live_devices() == 0 => 0,
            Some(needs) if needs == DeviceNeeds::ANY => {
                most(self.nodes.live_devices(), self.nodes.live_nodes().into())
            }
            Some(needs) => {
                let live = self.nodes.iter().filter(|(id, _)| self.nodes.is_live(*id));
                let suits = |at: &&DevicesAt| needs.suits(&at.told.facts);
                let usable = |at: &DevicesAt| u64::from(at.told.usable());
                let all = live.flat_map(|(_, node)| node.all_devices().iter().filter(suits).map(usable));
                most(all.sum(), self.nodes.live_nodes().into())
            }
        };
        Places { cores, devices }
    }

    /// What `seat` was given. Pieces of tasks count as what they are.
    pub(crate) fn given(&self, seat: Seat) -> Given {
        self.given_of(seat, self.queues.held_whole(seat))
    }

    /// Of `held` tasks at `seat`, how many slots they take.
    fn given_of(&self, seat: Seat, held: usize) -> Given {
        if seat.kind.is_device() || !self.jobs.has_wide() {
            return Given { narrow: held, wide: 0, wide_at_once: 0 };
        }
        let has = self.nodes.at(seat.node).has();
        let (mut tasks, mut wide, mut wide_at_once) = (0, 0, 0);
        let its = self.queues.tasks_at(seat.node).filter(|task| !task.kind.is_device());
        let jobs = its.filter_map(|task| self.jobs.get(task.job));
        for job in jobs.filter(|job| job.is_wide()) {
            (tasks, wide) = (tasks + 1, wide + job.width());
            wide_at_once = wide_at_once.max(self.places(job, seat.kind, has) * job.width());
        }
        Given { narrow: held.saturating_sub(tasks), wide, wide_at_once }
    }

    /// Slots of `seat` that have nothing to run.
    pub(crate) fn idle_slots(&self, seat: Seat) -> usize {
        let taken = self.given_of(seat, self.queues.held(seat)).taken();
        usize::from(self.nodes.at(seat.node).slots_of(seat.kind)).saturating_sub(taken)
    }

    /// A run of `job` would start at once at `seat`, as far as its slots are concerned.
    pub(crate) fn has_slots(&self, job: &Job, seat: Seat) -> bool {
        self.idle_slots(seat) >= job.needs_on(seat.kind).of(Resource::Slots) as usize
    }

    /// Tasks that stand in the way of more of `job` at `seat`, of which it may use `within`. Those of a wide job are its
    /// own, since what others are given behind it must not keep it out for ever; it waits at the node for slots, and nothing
    /// delays it there.
    pub(crate) fn in_the_way(&self, job: &Job, seat: Seat, within: Resources) -> usize {
        if job.is_wide() && !seat.kind.is_device() {
            return self.queues.tasks_at(seat.node).filter(|task| task.job == job.facts.job).count();
        }
        let given = self.given(seat);
        if within == self.nodes.at(seat.node).has_of(seat.kind) { given.taken() } else { given.narrow }
    }

    /// What is left of `within` beside all the runs of `job` that fit there: others fill it. None where that is no slot.
    pub(crate) fn gap(&self, job: &Job, kind: SlotKind, within: Resources) -> Option<Resources> {
        let needs = job.needs_on(kind);
        let left = within.minus(needs.scaled(within.times(needs))).expect("so many runs fit");
        (left.of(Resource::Slots) > 0).then_some(left)
    }
}
