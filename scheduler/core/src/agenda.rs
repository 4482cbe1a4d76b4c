//! What later turns are to do: a turn does only so much of what costs much, and leaves the rest here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_protocol::ids::{Attempt, Boot, JobId, NodeId};
use starfarm_protocol::wire::Revoke;

use crate::limits::{MASS_DEATH_US, MASS_DEATHS, MASS_DEATHS_KEPT};
use crate::queues::TaskId;

/// A task that has no copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) task: TaskId,
    pub(crate) attempt: Attempt,
    pub(crate) since_us: u64,
    /// Units per second above which a slot would be done with it well before the node that has it.
    pub(crate) faster_than: f64,
}

/// What idle nodes may get copies of, as it was found last. To find it takes a walk through all that is out, so it is
/// found for all of them together.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    pub(crate) found_us: u64,
    /// What dq had counted then.
    pub(crate) changes: u64,
    /// It holds until then at least, whatever changes.
    pub(crate) rest_us: u64,
    pub(crate) jobs: Vec<(JobId, Option<Vec<Candidate>>)>,
}

/// A unit that hangs on a node and may be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hung {
    pub(crate) job: JobId,
    pub(crate) unit: u128,
    pub(crate) node: NodeId,
}

/// Which incarnations died lately, by the second in which they were heard last, and whether they were so many that no unit
/// is to blame.
#[derive(Debug, Default)]
pub(crate) struct Deaths(BTreeMap<u64, (bool, BTreeSet<(NodeId, Boot)>)>);

/// What the death of an incarnation says.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Dying {
    /// A unit may be to blame.
    Alone,
    /// Many died at the same time, these among them, whom nobody pardoned yet: a power cut, a switch, a full disk.
    Together(BTreeSet<(NodeId, Boot)>),
}

impl Deaths {
    /// An incarnation died that was heard last at `heard_us`, and `live` nodes are left.
    pub(crate) fn add(&mut self, of: (NodeId, Boot), heard_us: u64, live: usize) -> Dying {
        let second = heard_us / MASS_DEATH_US;
        if !self.0.contains_key(&second) {
            self.0.retain(|&at, _| at + MASS_DEATHS_KEPT >= second);
        }
        self.0.entry(second).or_default().1.insert(of);
        let near = second.saturating_sub(1)..=second + 1;
        // One node that starts and dies over and over is one.
        let dead = self.0.range(near.clone()).flat_map(|(_, (_, dead))| dead);
        let together = dead.map(|(id, _)| id).collect::<BTreeSet<_>>().len();
        let known = self.0.range(near.clone()).any(|(_, (mass, _))| *mass);
        if !known && (together < MASS_DEATHS || together <= live) {
            return Dying::Alone;
        }
        let mut pardoned = BTreeSet::from([of]);
        for (_, (mass, dead)) in self.0.range_mut(near) {
            // Where it was known before, those that died before are pardoned.
            if !std::mem::replace(mass, true) {
                pardoned.extend(&*dead);
            }
        }
        Dying::Together(pardoned)
    }
}

/// What waits for a turn.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// Jobs that have ended and may have tasks in dq, and what their nodes are told.
    pub(crate) ended: VecDeque<Revoke>,
    /// Datagrams with the hello of another incarnation, which a turn had no time for.
    pub(crate) hellos: BTreeMap<NodeId, Vec<u8>>,
    /// Tasks taken back since the last turn, and what else costs as much.
    pub(crate) taken: u64,
    /// Nodes that may have by now what they lacked; of some of them another incarnation.
    pub(crate) renewed: BTreeMap<NodeId, bool>,
    /// What hangs and has no copy yet.
    pub(crate) hung: VecDeque<Hung>,
    pub(crate) copying: Copying,
    /// Walks through all that is out of a job, since the start.
    pub(crate) walks: u64,
    pub(crate) deaths: Deaths,
    /// Something came to be given out.
    pub(crate) work_came: bool,
    /// A job has ended, or its results are merged: others may wait for that.
    pub(crate) links_changed: bool,
    /// The last turn had more to give out than it could.
    pub(crate) goes_on: bool,
    /// When the period is over.
    pub(crate) period_us: u64,
    /// When something that waits for another node may go to any; none where nothing does.
    pub(crate) wake_us: Option<u64>,
    /// There is no room for more nodes, and none that could make it: when to look again.
    pub(crate) crowded_us: u64,
}

impl Agenda {
    /// A turn takes no more back. What comes back is given out in the same turn, which costs as much again.
    pub(crate) fn is_full(&self, tasks_a_turn: u64) -> bool {
        self.taken >= tasks_a_turn.div_ceil(2)
    }

    /// Tasks of the job are still to leave dq.
    pub(crate) fn has_ended(&self, job: JobId) -> bool {
        self.ended.iter().any(|revoke| revoke.job == job)
    }

    /// Node `id` can do now what it refused, as it says, or since it is `another` incarnation.
    pub(crate) fn renew(&mut self, id: NodeId, another: bool) {
        *self.renewed.entry(id).or_default() |= another;
    }

    /// Something that waits may go to any node at `at_us`.
    pub(crate) fn wake_at(&mut self, at_us: u64) {
        self.wake_us = Some(self.wake_us.map_or(at_us, |before| before.min(at_us)));
    }
}
