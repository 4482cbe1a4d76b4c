//! Who computed what. The farm does not know: it stands in the records alone, which are read for it when that is asked.

use std::collections::BTreeMap;

use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::Decided;

use crate::runs::Runs;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// Which node had computed the unit of this hit, and had not named it, when node `second` said other things of `at`?
    /// Another may have computed it again since.
    #[expect(missing_docs, reason = "a hit of a job")]
    Missed { job: JobId, hit: (u128, u32), at: Interval, second: NodeId },
    /// Which units did this node compute?
    Node(NodeId),
}

/// What the records say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Traced {
    /// This node had, and `second` named the hit.
    #[expect(missing_docs, reason = "a unit of a job")]
    Missed { job: JobId, unit: u128, node: NodeId, second: NodeId },
    /// The node computed these units, as far as their job is not deleted and they were not wanted again since.
    Node(NodeId, Vec<(JobId, Vec<Interval>)>),
}

/// Reads records, from the first to the last.
#[derive(Debug)]
pub struct Tracing(Vec<(Trace, Trail)>);

/// What was read so far.
#[derive(Debug, Default)]
struct Trail {
    /// Who computed the unit last, and whether its hit was named.
    by: Option<NodeId>,
    is_named: bool,
    /// The conflict was read: what comes behind it does not matter.
    is_over: bool,
    jobs: BTreeMap<JobId, Runs<()>>,
}

impl Tracing {
    /// To answer these.
    pub fn new(asked: &[Trace]) -> Self {
        Self(asked.iter().map(|trace| (*trace, Trail::default())).collect())
    }

    /// The next record. Its number does not matter: those of the ledger count anew in each segment.
    pub fn read(&mut self, record: &Record) {
        let (of, decided) = (record.job(), record.decided());
        for (trace, trail) in &mut self.0 {
            match *trace {
                Trace::Missed { job, hit, at, second } if of == Some(job) && !trail.is_over => {
                    let Interval { lo, hi } = at;
                    trail.is_over = *record == Record::Conflict { job, lo, hi, node: second };
                    if let Some(Decided { by, units }) = &decided
                        && units.iter().any(|&(lo, hi)| (lo..hi).contains(&hit.0))
                    {
                        trail.by = *by;
                    }
                    trail.is_named |= matches!(record, Record::Done { hits, .. } if hits.contains(&hit));
                }
                Trace::Missed { .. } => {}
                Trace::Node(node) => match (of, &decided) {
                    (Some(job), Some(Decided { by, units })) => trail.decided(job, units, *by == Some(node)),
                    _ => trail.wanted(record),
                },
            }
        }
    }

    /// The answers, in the order of what was asked; none for a hit whose unit no record names, or whose conflict is not on
    /// record: nobody is blamed for what was computed later, nor for what was named.
    pub fn end(self) -> impl Iterator<Item = Option<Traced>> {
        self.0.into_iter().map(|(trace, trail)| match trace {
            Trace::Missed { job, hit: (unit, _), second, .. } => {
                let by = trail.by.filter(|_| trail.is_over && !trail.is_named);
                by.map(|node| Traced::Missed { job, unit, node, second })
            }
            Trace::Node(node) => {
                let units = trail.jobs.into_iter().map(|(job, units)| (job, units.intervals()));
                Some(Traced::Node(node, units.filter(|(_, units)| !units.is_empty()).collect()))
            }
        })
    }
}

impl Trail {
    fn decided(&mut self, job: JobId, units: &[(u128, u128)], by_it: bool) {
        if by_it {
            let its = self.jobs.entry(job).or_default();
            units.iter().for_each(|&(lo, hi)| its.insert(Interval::new(lo, hi), ()));
        } else if let Some(its) = self.jobs.get_mut(&job) {
            units.iter().for_each(|&(lo, hi)| its.remove(Interval::new(lo, hi)));
        }
    }

    fn wanted(&mut self, record: &Record) {
        match record {
            Record::Retried { job, units } | Record::Rerun { job, units } => self.decided(*job, units, false),
            Record::Deleted { job } => drop(self.jobs.remove(job)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::job::FailedUnit;
    use starfarm_protocol::wire::FailReason;

    use super::*;

    const JOB: JobId = JobId(1);

    fn done(node: u32, pieces: &[(u128, u128)]) -> Record {
        Record::Done { job: JOB, node: NodeId(node), pieces: pieces.to_vec(), hits: Vec::new() }
    }

    #[test]
    fn the_last_record_of_a_unit_says_who_computed_it() {
        let asked = [Trace::Node(NodeId(1)), Trace::Node(NodeId(3)), Trace::Node(NodeId(4))];
        let mut tracing = Tracing::new(&asked);
        let again = Record::Rerun { job: JOB, units: vec![(5, 15)] };
        let failed = |unit, node| {
            let failed = FailedUnit { reason: FailReason::Exit, code: Some(1), node };
            Record::Failed { job: JOB, unit, failed }
        };
        let gone = [Record::Done { job: JobId(2), node: NodeId(3), pieces: vec![(0, 9)], hits: vec![] }];
        let records = [done(1, &[(0, 10), (20, 30)]), done(2, &[(10, 20)]), again, done(1, &[(8, 12)])];
        let more = [done(2, &[(12, 15)]), Record::Deleted { job: JobId(2) }, failed(40, Some(NodeId(4)))];
        let poison = [failed(41, None)];
        gone.iter().chain(&records).chain(&more).chain(&poison).for_each(|record| tracing.read(record));
        let its = vec![Interval::new(0, 5), Interval::new(8, 12), Interval::new(20, 30)];
        let expected = [
            Some(Traced::Node(NodeId(1), vec![(JOB, its)])),
            Some(Traced::Node(NodeId(3), vec![])),
            Some(Traced::Node(NodeId(4), vec![(JOB, vec![Interval::one(40)])])),
        ];
        assert_eq!(tracing.end().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn who_computes_a_unit_after_a_conflict_is_not_the_one_that_is_meant() {
        let second = NodeId(9);
        let of = |unit, lo, hi| Trace::Missed { job: JOB, hit: (unit, 7), at: Interval::new(lo, hi), second };
        let asked = [of(12, 10, 20), of(12, 12, 13), of(25, 20, 30), of(12, 0, 9)];
        let mut tracing = Tracing::new(&asked);
        let conflict = |lo, hi| Record::Conflict { job: JOB, lo, hi, node: second };
        let again = || Record::Rerun { job: JOB, units: vec![(10, 15)] };
        let records =
            [done(1, &[(10, 20)]), conflict(10, 20), again(), done(2, &[(10, 15)]), conflict(12, 13)];
        let more = [again(), done(3, &[(10, 15)]), conflict(20, 30)];
        records.iter().chain(&more).for_each(|record| tracing.read(record));
        let by = |node| Some(Traced::Missed { job: JOB, unit: 12, node: NodeId(node), second });
        // Nobody computed unit 25, and nobody said other things of [0, 9).
        assert_eq!(tracing.end().collect::<Vec<_>>(), [by(1), by(2), None, None]);
    }
}
