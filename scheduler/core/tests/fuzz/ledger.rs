//! A model beside the farm: what the records say of each unit, one by one. It shares no code with the core's own
//! accounting.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::{CommandUnit, Message, messages};
use starfarm_scheduler_core::{Farm, NodeId, Record, Verdict, Verdicts};

use crate::common::line::{Line, parse};

const COUNTED: [Verdict; 3] = [Verdict::Counted, Verdict::CountedPartly, Verdict::Duplicate];
const OTHER: [Verdict; 8] = [
    Verdict::Returned,
    Verdict::Refused,
    Verdict::UnknownJob,
    Verdict::OtherSpecification,
    Verdict::NeverGiven,
    Verdict::Malformed,
    Verdict::False,
    Verdict::Distrusted,
];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Unit {
    Open,
    Done,
    Failed,
}

#[derive(Debug)]
struct Job {
    spec: u8,
    units: Vec<Unit>,
    /// Units that some durable record names: decided once, or tried in vain.
    named: Vec<bool>,
    hits: BTreeSet<(u128, u32)>,
    durable_hits: BTreeSet<(u128, u32)>,
    /// Which node computed the units that are done, by the last record.
    by: BTreeMap<u128, NodeId>,
    /// Units that were done and are wanted again, and who had computed them since.
    again: BTreeMap<u128, BTreeSet<NodeId>>,
}

/// A result that the farm took, to be acknowledged when it is durable.
#[derive(Clone, Debug)]
struct Said {
    job: u64,
    spec: u8,
    units: std::ops::Range<u128>,
    hits: Vec<(u128, u32)>,
}

#[derive(Default, Debug)]
pub struct Ledger {
    /// The farm has few hits of a job in memory.
    pages_hits: bool,
    jobs: BTreeMap<u64, Job>,
    /// Records that were read, and those of them that were durable then.
    read: usize,
    durable: usize,
    /// By node, incarnation and number; and whether its units count, as far as there was a verdict.
    said: BTreeMap<(u32, u64, u64), (Said, Option<bool>)>,
    /// Those on which there is no verdict yet; none where it is told again and counted before: it is acknowledged for that.
    unsure: Vec<Option<(u32, u64, u64)>>,
}

impl Ledger {
    /// `pages_hits`: the farm has few hits of a job in memory.
    pub fn new(pages_hits: bool) -> Self {
        Self { pages_hits, ..Self::default() }
    }

    /// The scheduler died: only what was durable is left.
    pub fn restart(&mut self) {
        (self.jobs, self.read, self.durable) = (BTreeMap::new(), 0, 0);
        // What was not acknowledged is told again, and has a verdict of its own.
        self.said.values_mut().for_each(|(_, counts)| *counts = None);
    }

    /// Reads the records that are new.
    pub fn read(&mut self, records: &[Record], durable: usize) -> Result<(), String> {
        for record in &records[self.read..] {
            self.decide(record).map_err(|why| format!("{why}: {record:?}"))?;
        }
        for record in &records[self.durable..durable] {
            self.name(record);
        }
        (self.read, self.durable) = (records.len(), durable);
        Ok(())
    }

    fn decide(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::Submitted(facts) => {
                let units = facts.units as usize;
                let job = Job {
                    spec: facts.spec.0[0],
                    units: vec![Unit::Open; units],
                    named: vec![false; units],
                    hits: BTreeSet::new(),
                    durable_hits: BTreeSet::new(),
                    by: BTreeMap::new(),
                    again: BTreeMap::new(),
                };
                if self.jobs.insert(facts.job.0, job).is_some() {
                    return Err("a job is submitted twice".into());
                }
            }
            Record::Deleted { job } => drop(self.jobs.remove(&job.0)),
            Record::Done { job, node, pieces, hits } => {
                pieces.iter().try_for_each(|&(lo, hi)| self.change(*job, lo..hi, Unit::Open, Unit::Done))?;
                let units = pieces.iter().flat_map(|&(lo, hi)| lo..hi);
                self.job(*job)?.by.extend(units.map(|unit| (unit, *node)));
                self.found(*job, hits)?;
            }
            Record::Ran { job, units, node, .. } => {
                units.iter().try_for_each(|(unit, ran)| self.ran(*job, *node, *unit, ran))?;
            }
            Record::Failed { job, unit, .. } => {
                self.change(*job, *unit..unit + 1, Unit::Open, Unit::Failed)?
            }
            Record::FailedAlike { job, units, .. } => {
                units.iter().try_for_each(|&(lo, hi)| self.change(*job, lo..hi, Unit::Open, Unit::Failed))?;
            }
            Record::Retried { job, units } => {
                units.iter().try_for_each(|&(lo, hi)| self.change(*job, lo..hi, Unit::Failed, Unit::Open))?;
            }
            Record::Rerun { job, units } => {
                for unit in units.iter().flat_map(|&(lo, hi)| lo..hi) {
                    let was = self.job(*job)?.units.get(unit as usize).copied();
                    let was = was.filter(|was| *was != Unit::Open);
                    let was = was.ok_or_else(|| format!("unit {unit} runs again, and has not run"))?;
                    self.change(*job, unit..unit + 1, was, Unit::Open)?;
                    if was == Unit::Done {
                        let Job { by, again, .. } = self.job(*job)?;
                        again.entry(unit).or_default().extend(by.get(&unit));
                    }
                }
            }
            Record::Ended(ended) => {
                let job = self.job(ended.job)?;
                if (ended.done, ended.failed) != (job.count(Unit::Done), job.count(Unit::Failed)) {
                    return Err("an end with other sums than its units have".into());
                }
                let mut left: Vec<bool> = job.units.iter().map(|unit| *unit == Unit::Open).collect();
                for unit in ended.abandoned.iter().flat_map(|&(lo, hi)| lo..hi) {
                    if !std::mem::take(&mut left[unit as usize]) {
                        return Err(format!("unit {unit} is abandoned and decided"));
                    }
                }
                if left.contains(&true) {
                    return Err("a unit is neither decided nor abandoned".into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What one run computed counts whole: its node told of just these units.
    fn ran(&mut self, job: JobId, node: NodeId, unit: u128, ran: &CommandUnit) -> Result<(), String> {
        let to = if ran.failed.is_some() { Unit::Failed } else { Unit::Done };
        let units = unit..unit + u128::from(ran.units);
        let mut of_node = self.said.iter().filter(|(of, _)| of.0 == node.0);
        if ran.units > 1 && !of_node.any(|(_, (said, _))| said.job == job.0 && said.units == units) {
            return Err("no result is of just these units".into());
        }
        self.change(job, units, Unit::Open, to)
    }

    fn found(&mut self, job: JobId, hits: &[(u128, u32)]) -> Result<(), String> {
        // What was found in such a unit before, a farm with few hits in memory does not know any more.
        let pages_hits = self.pages_hits;
        let Job { hits: known, again, .. } = self.job(job)?;
        let may_repeat = |hit: &(u128, u32)| pages_hits && again.contains_key(&hit.0);
        match hits.iter().find(|hit| !known.insert(**hit) && !may_repeat(hit)) {
            Some(hit) => Err(format!("hit {hit:?} is recorded twice")),
            None => Ok(()),
        }
    }

    /// Units that a durable record is about.
    fn name(&mut self, record: &Record) {
        let units: Vec<(u128, u128)> = match record {
            Record::Done { pieces, .. } => pieces.clone(),
            Record::Ran { units, .. } => {
                units.iter().map(|(unit, ran)| (*unit, unit + u128::from(ran.units))).collect()
            }
            Record::Failed { unit, .. } | Record::Tried { unit, .. } => vec![(*unit, unit + 1)],
            Record::FailedAlike { units, .. } => units.clone(),
            _ => return,
        };
        let (Record::Done { job, .. }
        | Record::Ran { job, .. }
        | Record::Failed { job, .. }
        | Record::Tried { job, .. }
        | Record::FailedAlike { job, .. }) = record
        else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&job.0) else { return };
        units.into_iter().flat_map(|(lo, hi)| lo..hi).for_each(|unit| job.named[unit as usize] = true);
        if let Record::Done { hits, .. } = record {
            job.durable_hits.extend(hits);
        }
    }

    fn job(&mut self, id: JobId) -> Result<&mut Job, String> {
        self.jobs.get_mut(&id.0).ok_or_else(|| format!("job {} is not there", id.0))
    }

    fn change(
        &mut self,
        id: JobId,
        units: std::ops::Range<u128>,
        from: Unit,
        to: Unit,
    ) -> Result<(), String> {
        let job = self.job(id)?;
        for unit in units {
            let state = job.units.get_mut(unit as usize).ok_or_else(|| format!("there is no unit {unit}"))?;
            let was = std::mem::replace(state, to);
            if was != from {
                return Err(format!("unit {unit} was {was:?} and becomes {to:?}"));
            }
        }
        Ok(())
    }

    /// The farm counts as the records do.
    pub fn agrees(&self, farm: &Farm) -> Result<(), String> {
        let known: Vec<u64> = farm.jobs(0).iter().map(|job| job.id.0).collect();
        if known != Vec::from_iter(self.jobs.keys().copied()) {
            return Err(format!("the farm knows jobs {known:?}"));
        }
        for (id, job) in &self.jobs {
            let view = farm.job(JobId(*id), 0).expect("it was among all jobs");
            let sums = [Unit::Done, Unit::Failed].map(|state| job.count(state));
            if [view.units_done.0, view.units_failed.0] != sums {
                return Err(format!(
                    "job {id}: done {}, failed {}, by the records {sums:?}",
                    view.units_done, view.units_failed
                ));
            }
            let decided = view.units_done.0 + view.units_failed.0 + view.units_abandoned.0;
            if view.units_total != decided + view.units_out.0 + view.units_pending.0 {
                return Err(format!("job {id}: the sums of its units are not all units"));
            }
            let (kept, all) = (farm.hits(JobId(*id)), Vec::from_iter(job.hits.iter().copied()));
            // Of units that are computed again it may not count what was missed at first.
            let doubtful = if self.pages_hits { job.hits_again() } else { 0 };
            let count = (all.len() - doubtful) as u64..=all.len() as u64;
            if !count.contains(&view.hits) || !all.ends_with(&kept) {
                return Err(format!("job {id}: its hits are not those of the records"));
            }
            if !self.pages_hits && kept != all {
                return Err(format!("job {id}: not all of its hits are in memory"));
            }
            let failed = |(unit, state): (usize, &Unit)| (*state == Unit::Failed).then_some(unit as u128);
            let failed: Vec<u128> = job.units.iter().enumerate().filter_map(failed).collect();
            if farm.failed_units(JobId(*id)).iter().map(|(unit, _)| *unit).collect::<Vec<_>>() != failed {
                return Err(format!("job {id}: its failed units are not those of the records"));
            }
        }
        Ok(())
    }

    /// A result is told, or once more; `told` is its incarnation and number.
    pub fn told(&mut self, line: &Line<'_>, told: (u64, u64)) {
        let key = (line.node().0, told.0, told.1);
        let again = line.verb() == "again";
        let is_known = again && self.said.get(&key).is_some_and(|(_, counts)| *counts == Some(true));
        self.unsure.push((!is_known).then_some(key));
        if again {
            return;
        }
        let ((lo, units), job) = (line.interval(2), line.named("job", 1));
        let hits = line.after("hits").into_iter().flat_map(|hits| hits.split(','));
        let hits =
            hits.filter_map(|hit| hit.split_once(':')).map(|(unit, target)| (parse(unit), parse(target)));
        let (spec, units) = (line.named("spec", job) as u8, lo..lo + u128::from(units));
        self.said.insert(key, (Said { job, spec, units, hits: hits.collect() }, None));
    }

    /// What became of the results that were told, by the verdicts before and after.
    pub fn judged(&mut self, before: Verdicts, after: Verdicts) {
        let given = |verdict: &Verdict| after.count(*verdict).saturating_sub(before.count(*verdict)) as usize;
        let [counted, other] = [&COUNTED[..], &OTHER[..]].map(|of| of.iter().map(given).sum::<usize>());
        // Where some count and others do not nobody says which. What did not count is acknowledged for that, also where others
        // have done these units by the time that it is told again.
        let counts = (counted, other) == (self.unsure.len(), 0);
        for key in self.unsure.drain(..).flatten().filter(|_| counted + other > 0) {
            self.said.entry(key).and_modify(|said| _ = said.1.get_or_insert(counts));
        }
    }

    /// What is acknowledged was told, and is durable. `boot` says which incarnation a node is.
    pub fn acknowledged(
        &self,
        sent: &[(NodeId, Vec<u8>)],
        boot: impl Fn(NodeId) -> u64,
    ) -> Result<(), String> {
        for (id, datagram) in sent {
            for message in messages(datagram).map(Result::unwrap) {
                let Message::ResultAck(_, ranges) = message else { continue };
                for number in ranges.flat_map(|(first, last)| first..=last) {
                    let key = (id.0, boot(*id), number);
                    match self.said.get(&key) {
                        None => return Err(format!("{key:?} is acknowledged and was never told")),
                        Some((said, Some(true))) => self.is_durable(*id, said)?,
                        Some((_, Some(false) | None)) => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn is_durable(&self, id: NodeId, said: &Said) -> Result<(), String> {
        let Some(job) = self.jobs.get(&said.job).filter(|job| job.spec == said.spec) else { return Ok(()) };
        if let Some(unit) = said.units.clone().find(|unit| !job.named[*unit as usize]) {
            return Err(format!("acknowledged, but unit {unit} is in no durable record: {said:?}"));
        }
        // What is known of units below the floor nobody asks the records. What a node computed, and another is to compute
        // again, it may repeat, and nothing that it then says otherwise counts.
        let counts =
            |hit: &&(u128, u32)| !self.pages_hits && job.again.get(&hit.0).is_none_or(|by| !by.contains(&id));
        if let Some(hit) = said.hits.iter().filter(counts).find(|hit| !job.durable_hits.contains(hit)) {
            return Err(format!("acknowledged, but hit {hit:?} is in no durable record: {said:?}"));
        }
        Ok(())
    }
}

impl Job {
    fn hits_again(&self) -> usize {
        self.hits.iter().filter(|hit| self.again.contains_key(&hit.0)).count()
    }

    fn count(&self, state: Unit) -> u128 {
        self.units.iter().filter(|unit| **unit == state).count() as u128
    }
}
