//! How a job's units went on each node. A failure says something of the node where others do well at the same time: with
//! the same unit, or in several places of the space. Neighbours that fail are one place: such inputs may be bad.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::{Attempt, NodeId};
use starfarm_protocol::interval::Interval;

use crate::limits::{OUTCOMES_KEPT, SICK_FAILURES, SICK_PLACES};
use crate::queues::{Class, JobUnits};

/// How a job's units went on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcomes {
    /// Units that passed here; old ones weigh less.
    pub(crate) passed: u32,
    /// Units that failed here and passed elsewhere; likewise.
    pub(crate) refuted: u32,
    /// Units that failed here since one passed, none of which had failed before.
    pub(crate) streak: u32,
    /// The first of these in each place: others are done between any two.
    places: [Option<u128>; SICK_PLACES],
    /// Units passed since, elsewhere: in these places the inputs are bad.
    cleared: bool,
    /// Units of the job that had passed anywhere when the streak began.
    began: u64,
    /// It gets one unit at a time, in other places, until one passes.
    pub(crate) doubted: bool,
    /// What was given out before this attempt says nothing any more.
    from: Option<Attempt>,
}

impl Outcomes {
    /// A unit passed here, or one that had failed here passed elsewhere.
    fn add(&mut self, passed: bool) {
        if self.passed + self.refuted >= OUTCOMES_KEPT {
            (self.passed, self.refuted) = (self.passed / 2, self.refuted / 2);
        }
        (self.passed, self.refuted) = (self.passed + u32::from(passed), self.refuted + u32::from(!passed));
        assert!(self.passed + self.refuted <= OUTCOMES_KEPT, "old outcomes weigh less");
    }

    fn is_suspect(&self) -> bool {
        self.streak >= SICK_FAILURES || self.refuted >= SICK_FAILURES
    }
}

/// A unit that ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) unit: u128,
    pub(crate) node: NodeId,
    pub(crate) attempt: Attempt,
    /// All that its result tells of.
    pub(crate) result: Interval,
}

/// How a job's units went on all nodes.
#[derive(Debug)]
pub(crate) struct Blame {
    nodes: BTreeMap<NodeId, Outcomes>,
    /// Nodes of these with failures enough to be sick: mostly none, so that no result looks at all nodes.
    suspects: BTreeSet<NodeId>,
    /// Units of a command that passed in this epoch.
    passes: u64,
    /// What was given out before this attempt says nothing of nodes: a person let the job go on since.
    from: Attempt,
}

impl Default for Blame {
    fn default() -> Self {
        Self { nodes: BTreeMap::new(), suspects: BTreeSet::new(), passes: 0, from: Attempt(0) }
    }
}

impl Blame {
    /// A unit ran. Where it failed elsewhere before and passed now, that was the other node's fault; where it fails
    /// once more, nobody's.
    pub(crate) fn tally(&mut self, units: &JobUnits, ran: Ran, failed: bool) {
        let Ran { unit, node, attempt, result } = ran;
        let failed_before = units.failures.has(unit) || units.reopened.get(unit).is_some();
        let known = self.of(node);
        if attempt < known.from.unwrap_or(self.from) {
            return;
        }
        if failed && !failed_before {
            let elsewhere = self.is_elsewhere(units, node, unit, result);
            let outcomes = self.nodes.entry(node).or_default();
            if elsewhere && std::mem::take(&mut outcomes.cleared) {
                outcomes.places = Default::default();
            }
            if elsewhere && let Some(place) = outcomes.places.iter_mut().find(|place| place.is_none()) {
                *place = Some(unit);
            }
            if !outcomes.cleared {
                if outcomes.streak == 0 {
                    outcomes.began = self.passes;
                }
                outcomes.streak += 1;
            }
        } else if !failed {
            let others = units.failures.of(unit).filter(|(attempt, other)| {
                *other != node && *attempt >= self.of(*other).from.unwrap_or(self.from)
            });
            let others: BTreeSet<NodeId> = others.map(|(_, other)| other).collect();
            for other in others {
                self.nodes.entry(other).or_default().add(false);
                self.suspect(other);
            }
            self.passes += 1;
            let outcomes = self.nodes.entry(node).or_default();
            outcomes.add(true);
            (outcomes.streak, outcomes.doubted) = (0, false);
            outcomes.cleared = outcomes.places[0].is_some();
        }
        let of = self.of(node);
        assert!(of.began <= self.passes && !(of.cleared && of.streak > 0), "a pass ends a streak");
        self.suspect(node);
    }

    fn suspect(&mut self, node: NodeId) {
        match self.of(node).is_suspect() {
            true => self.suspects.insert(node),
            false => self.suspects.remove(&node),
        };
    }

    /// How units went on a node.
    pub(crate) fn of(&self, node: NodeId) -> Outcomes {
        self.nodes.get(&node).copied().unwrap_or_default()
    }

    /// How units went on the other nodes.
    pub(crate) fn others(&self, node: NodeId) -> impl Iterator<Item = (NodeId, &Outcomes)> {
        self.nodes
            .iter()
            .filter(move |(other, _)| **other != node)
            .map(|(&other, outcomes)| (other, outcomes))
    }

    /// Nodes with failures enough to be sick.
    pub(crate) fn suspects(&self) -> Vec<NodeId> {
        self.suspects.iter().copied().collect()
    }

    /// A node failed the last units that it ran, wherever they lie, while others passed.
    pub(crate) fn fails_everywhere(&self, node: NodeId) -> bool {
        let of = self.of(node);
        of.streak >= SICK_FAILURES && of.places.iter().all(Option::is_some) && self.passes > of.began
    }

    /// A node failed many units that others passed, and passed few.
    pub(crate) fn is_refuted(&self, node: NodeId) -> bool {
        let of = self.of(node);
        of.refuted >= SICK_FAILURES && of.refuted > of.passed
    }

    /// `unit` is not of a block in which node `node` failed: units between them are done, those of the result at hand
    /// aside.
    pub(crate) fn is_elsewhere(&self, units: &JobUnits, node: NodeId, unit: u128, result: Interval) -> bool {
        let done = |lo, hi| units.coverage().has_in(Interval::new(lo, hi), Class::Done);
        let apart = |place: u128| {
            let (from, to) = (place.min(unit) + 1, place.max(unit));
            done(from, to.min(result.lo)) || done(from.max(result.hi), to)
        };
        self.of(node).places.into_iter().flatten().all(apart)
    }

    /// A node gets one unit at a time, in other places, until one passes.
    pub(crate) fn doubt(&mut self, node: NodeId) {
        self.nodes.get_mut(&node).expect("who is doubted has failed").doubted = true;
    }

    /// A node is known to be sick: what it was given before `attempt` fails there as well, and that is no news.
    pub(crate) fn convict(&mut self, node: NodeId, attempt: Attempt) {
        let before = self.nodes.insert(node, Outcomes { from: Some(attempt), ..Outcomes::default() });
        let from = before.expect("who is convicted has failed").from.unwrap_or(self.from);
        assert!(from <= attempt, "attempts ascend");
        self.suspects.remove(&node);
    }

    /// What was said of nodes is forgotten; what was given out before `attempt` will say nothing.
    pub(crate) fn forget(&mut self, attempt: Attempt) {
        assert!(self.from <= attempt, "attempts ascend");
        self.clear();
        self.from = attempt;
    }

    /// What was said of one node is forgotten.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.suspects.remove(&node);
    }

    /// The job has ended.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.suspects.clear();
    }
}
