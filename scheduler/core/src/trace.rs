//! Who computed what. The farm does not know: it stands in the records alone, which are read for it when that is asked.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;

use crate::runs::Runs;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// Which node had computed this unit when the record of number `upto` was made? Another may have done so again since.
    #[expect(missing_docs, reason = "a unit of a job")]
    Unit { job: JobId, unit: u128, upto: u64 },
    /// Which units did this node compute?
    Node(NodeId),
}

/// What the records say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Traced {
    /// This node computed the unit.
    #[expect(missing_docs, reason = "a unit of a job")]
    Unit { job: JobId, unit: u128, node: NodeId },
    /// The node computed these units, as far as their job is not deleted and they were not wanted again since.
    Node(NodeId, Vec<(JobId, Vec<Interval>)>),
}

/// Reads records, from the first to the last.
#[derive(Debug)]
pub struct Tracing(Vec<(Trace, Trail)>);

/// What was read so far.
#[derive(Debug, Default)]
struct Trail {
    by: Option<NodeId>,
    jobs: BTreeMap<JobId, Runs<()>>,
}

impl Tracing {
    /// To answer these.
    pub fn new(asked: &[Trace]) -> Self {
        Self(asked.iter().map(|trace| (*trace, Trail::default())).collect())
    }

    /// The next record, and its number.
    pub fn read(&mut self, sequence: u64, record: &Record) {
        for (trace, trail) in &mut self.0 {
            match *trace {
                Trace::Unit { upto, .. } if sequence > upto => {}
                Trace::Unit { job, unit, .. } => trail.by = record.computed(job, unit).or(trail.by),
                Trace::Node(node) => trail.read(node, record),
            }
        }
    }

    /// The answers, in the order of what was asked; none for a unit that no record names.
    pub fn end(self) -> impl Iterator<Item = Option<Traced>> {
        self.0.into_iter().map(|(trace, trail)| match trace {
            Trace::Unit { job, unit, .. } => trail.by.map(|node| Traced::Unit { job, unit, node }),
            Trace::Node(node) => {
                let units = trail.jobs.into_iter().map(|(job, units)| (job, units.intervals()));
                Some(Traced::Node(node, units.filter(|(_, units)| !units.is_empty()).collect()))
            }
        })
    }
}

impl Trail {
    fn read(&mut self, of: NodeId, record: &Record) {
        let at = |&(lo, hi): &(u128, u128)| Interval::new(lo, hi);
        match record {
            Record::Done { job, node, pieces, .. } => {
                pieces.iter().for_each(|piece| self.decided(*job, at(piece), *node == of));
            }
            Record::Ran { job, node, units, .. } => {
                units.iter().for_each(|(unit, _)| self.decided(*job, Interval::one(*unit), *node == of));
            }
            Record::FailedAlike { job, units, failed } => {
                units.iter().for_each(|units| self.decided(*job, at(units), failed.node == Some(of)));
            }
            Record::Retried { job, units } | Record::Rerun { job, units } => {
                units.iter().for_each(|units| self.decided(*job, at(units), false));
            }
            Record::Deleted { job } => drop(self.jobs.remove(job)),
            _ => {}
        }
    }

    fn decided(&mut self, job: JobId, at: Interval, by_it: bool) {
        if by_it {
            self.jobs.entry(job).or_default().insert(at, ());
        } else if let Some(units) = self.jobs.get_mut(&job) {
            units.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(1);

    fn done(node: u32, pieces: &[(u128, u128)]) -> Record {
        Record::Done { job: JOB, node: NodeId(node), pieces: pieces.to_vec(), hits: Vec::new() }
    }

    #[test]
    fn the_last_record_of_a_unit_says_who_computed_it() {
        let asked = [
            Trace::Node(NodeId(1)),
            Trace::Unit { job: JOB, unit: 12, upto: 9 },
            Trace::Unit { job: JOB, unit: 12, upto: 4 },
            Trace::Unit { job: JOB, unit: 99, upto: 9 },
            Trace::Node(NodeId(3)),
        ];
        let mut tracing = Tracing::new(&asked);
        let again = Record::Rerun { job: JOB, units: vec![(5, 15)] };
        let gone = [Record::Done { job: JobId(2), node: NodeId(3), pieces: vec![(0, 9)], hits: vec![] }];
        let records = [done(1, &[(0, 10), (20, 30)]), done(2, &[(10, 20)]), again, done(1, &[(8, 12)])];
        let more = [done(2, &[(12, 15)]), Record::Deleted { job: JobId(2) }];
        let all = gone.iter().chain(&records).chain(&more);
        (1..).zip(all).for_each(|(sequence, record)| tracing.read(sequence, record));
        let its = vec![Interval::new(0, 5), Interval::new(8, 12), Interval::new(20, 30)];
        let expected = [
            Some(Traced::Node(NodeId(1), vec![(JOB, its)])),
            Some(Traced::Unit { job: JOB, unit: 12, node: NodeId(2) }),
            Some(Traced::Unit { job: JOB, unit: 12, node: NodeId(2) }),
            None,
            Some(Traced::Node(NodeId(3), vec![])),
        ];
        assert_eq!(tracing.end().collect::<Vec<_>>(), expected);
    }
}
