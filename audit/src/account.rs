//! One job's account: its records in order, and what they come to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::job::{Body, JobFacts, JobState};
use starfarm_protocol::journal::record::{Ended, GrownChunk, JobTotals};
use starfarm_protocol::spec::Stop;
use starfarm_protocol::state::Completion;
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::Outputs;

use crate::certificate::{Certificate, NodeShare};
use crate::growth::Growth;
use crate::owed::{Owed, Wrote};
use crate::report::{JobReport, Violations};
use crate::tiling::{Clash, Class, Tiling};
use crate::time::utc;
use crate::trust::Trust;

/// Hits gathered before doubles are thrown out, at least.
const HITS_LOOSE_MIN: usize = 64 * 1024;

/// Where a record stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Its number, gapless.
    pub sequence: u64,
    /// Number of the first record that became durable together with it.
    pub commit: u64,
}

/// The last end of a job.
#[derive(Debug)]
struct End {
    totals: JobTotals,
    /// How many epochs there were by then.
    epochs: usize,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Account {
    facts: JobFacts,
    /// Where a program names its units.
    growth: Option<Growth>,
    state: JobState,
    tiling: Tiling,
    /// Units below this may be at nodes.
    leased: u128,
    hits: Vec<(u128, u32)>,
    /// How many of the hits are known to differ.
    hits_sorted: usize,
    by_node: BTreeMap<NodeId, u128>,
    /// Units that were done, and computed again for their outputs.
    again: u128,
    /// Units that were done by nodes that were not trusted any more after its end.
    doubtful: u128,
    /// What is known of its outputs.
    wrote: Wrote,
    conflicts: u64,
    /// What came of its trust checks; none where it asks for none.
    trust: Option<Trust>,
    end: Option<End>,
    /// Which of the farm's epochs it was submitted in.
    first_epoch: usize,
    /// Where a unit was decided last.
    decided: Place,
    /// What is wrong.
    pub(crate) violations: Violations,
}

impl Account {
    /// A job that was submitted while the farm had seen `epochs` epochs, with the trust checks that it asks for.
    pub(crate) fn open(facts: JobFacts, trust: Option<Trust>, epochs: usize, place: Place) -> Self {
        Self {
            growth: Growth::of(facts.units),
            facts,
            state: JobState::Queued,
            tiling: Tiling::default(),
            leased: 0,
            hits: Vec::new(),
            hits_sorted: 0,
            by_node: BTreeMap::new(),
            again: 0,
            doubtful: 0,
            wrote: Wrote::default(),
            conflicts: 0,
            trust,
            end: None,
            first_epoch: epochs.saturating_sub(1),
            decided: place,
            violations: Violations::default(),
        }
    }

    /// Its program named more units.
    pub(crate) fn grow(&mut self, chunks: &[GrownChunk], end: bool) {
        let more = self.growth.as_mut().and_then(|growth| growth.grow(chunks, end));
        match more.and_then(|more| self.facts.units.checked_add(more)) {
            Some(units) => self.facts.units = units,
            None => self
                .wrong(None, "it gets units that it cannot have: its units were all known, or are too many"),
        }
    }

    /// More units may follow.
    fn grows(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.is_open)
    }

    fn wrong(&mut self, units: Option<(u128, u128)>, what: impl Into<String>) {
        self.violations.add(Some(self.facts.job), units, what.into());
    }

    /// Where the part of [lo, hi) ends that lies in the space; what lies outside is wrong.
    fn inside(&mut self, word: impl Display, lo: u128, hi: u128) -> u128 {
        let units = self.facts.units;
        if hi > units {
            let what = format!("{word} outside of the space, which ends at {units}");
            self.wrong(Some((lo.max(units), hi)), what);
        }
        hi.min(units)
    }

    /// Units below `mark` may be at nodes from now on.
    pub(crate) fn lease(&mut self, mark: u128) {
        self.inside("leased", 0, mark);
        self.leased = self.leased.max(mark);
    }

    /// Units are decided; `node` computed them where they are done.
    pub(crate) fn count(&mut self, lo: u128, hi: u128, class: Class, node: Option<NodeId>, place: Place) {
        let inside = self.inside(class, lo, hi);
        if lo >= inside {
            return;
        }
        if inside > self.leased {
            let what = format!("{}, and may be at nodes only up to {}", class, self.leased);
            self.wrong(Some((lo.max(self.leased), inside)), what);
        }
        if let Some(node) = node {
            *self.by_node.entry(node).or_default() += inside - lo;
        }
        self.decided = place;
        self.tiling.add(lo, inside, class);
        self.tell_clashes();
    }

    /// Hits of a search.
    pub(crate) fn add_hits(&mut self, hits: &[(u128, u32)]) {
        for &(unit, target) in hits {
            if unit >= self.facts.units {
                let what = format!("a hit outside of the space, which ends at {}", self.facts.units);
                self.wrong(Some((unit, unit.saturating_add(1))), what);
                continue;
            }
            match self.facts.work.body {
                Body::Hits { .. } if self.is_planted(target) => {
                    let what = format!("a hit of target {target}, which is a planted answer");
                    self.wrong(Some((unit, unit + 1)), what);
                }
                Body::Hits { targets, .. } if target < targets => self.hits.push((unit, target)),
                Body::Hits { targets, .. } => {
                    let what = format!("a hit of target {target}, but there are {targets}");
                    self.wrong(Some((unit, unit + 1)), what);
                }
                _ => self.wrong(Some((unit, unit + 1)), "a hit of a job that searches nothing"),
            }
        }
        if self.hits.len() >= (2 * self.hits_sorted).max(HITS_LOOSE_MIN) {
            self.sort_hits();
        }
    }

    fn is_planted(&self, target: u32) -> bool {
        self.trust.as_ref().is_some_and(|trust| trust.planted.contains_key(&target))
    }

    fn sort_hits(&mut self) {
        self.hits.sort_unstable();
        self.hits.dedup();
        self.hits_sorted = self.hits.len();
    }

    /// A state that is no end.
    pub(crate) fn set_state(&mut self, state: JobState) {
        if self.end.is_some() {
            self.wrong(None, format!("its state becomes {} after its end", state.word()));
        } else if state.ended() {
            self.wrong(None, format!("it is {} without an end on record", state.word()));
        }
        self.state = state;
    }

    /// Two nodes said different things.
    pub(crate) fn add_conflict(&mut self) {
        self.conflicts += 1;
    }

    /// A second node computed units with the same result.
    pub(crate) fn checked(&mut self, units: u128) {
        match &mut self.trust {
            Some(trust) => trust.checked = trust.checked.saturating_add(units),
            None => self.wrong(None, "units of it are checked, and it does not ask for that"),
        }
    }

    /// A result was untrue.
    pub(crate) fn add_untrue(&mut self) {
        if let Some(trust) = &mut self.trust {
            trust.untrue += 1;
        }
    }

    /// So many units were done by a node that is not trusted since.
    pub(crate) fn add_doubtful(&mut self, units: u128) {
        self.doubtful = self.doubtful.saturating_add(units);
    }

    /// Failed units are wanted again.
    pub(crate) fn retry(&mut self, units: &[(u128, u128)]) {
        self.tiling.retry(units);
        self.reopen(units);
    }

    /// Decided units are wanted again: their outputs are lost, or their node is not trusted.
    pub(crate) fn rerun(&mut self, units: &[(u128, u128)]) {
        self.again += self.tiling.rerun(units);
        self.reopen(units);
    }

    fn reopen(&mut self, units: &[(u128, u128)]) {
        self.tell_clashes();
        self.wrote.forget(units);
        if self.end.take().is_some() {
            self.doubtful = 0;
            self.state = JobState::Queued;
        }
    }

    /// Units ran to their end by the record at `place`, and what they wrote is in that record.
    pub(crate) fn wrote(&mut self, units: (u128, u128), outputs: &Outputs, place: Place) {
        self.wrote.in_journal(units, outputs, place.sequence);
    }

    /// Nobody knows what a unit wrote that kills its workers.
    pub(crate) fn wrote_nothing(&mut self, unit: u128) {
        self.wrote.nothing(unit);
    }

    /// Its number and its specification, where it has hits.
    pub(crate) fn with_hits(&self) -> Option<(JobId, ContentHash)> {
        (!self.hits.is_empty()).then_some((self.facts.job, self.facts.spec))
    }

    /// Each of its hits must be one.
    pub(crate) fn check_hits(&mut self, is_hit: impl Fn(u128, u32) -> bool) {
        self.sort_hits();
        let none: Vec<_> =
            self.hits.iter().copied().filter(|&(unit, target)| !is_hit(unit, target)).collect();
        for (unit, target) in none {
            let what = format!("it is no hit of target {target}, and is on record as one");
            self.wrong(Some((unit, unit.saturating_add(1))), what);
        }
    }

    /// The outputs that must be on the disk.
    pub(crate) fn owed(&mut self) -> Owed {
        self.tiling.sweep();
        let runs = self.tiling.runs().iter().filter(|run| run.class != Class::Abandoned);
        let ran = match self.facts.work.body {
            Body::Outcomes { .. } => runs.map(|run| (run.lo, run.hi)).collect(),
            _ => UnitSet::default(),
        };
        let contents = self.growth.as_ref().map_or_else(Vec::new, |growth| growth.contents.clone());
        self.wrote.owed((self.facts.job, self.facts.spec), contents, &ran)
    }

    /// The end, with what the scheduler says of it.
    pub(crate) fn end(&mut self, ended: &Ended, epochs: usize) {
        if self.end.is_some() {
            return self.wrong(None, "it ends a second time");
        }
        let units = self.facts.units;
        let mut abandoned = Vec::with_capacity(ended.abandoned.len());
        for &(lo, hi) in &ended.abandoned {
            let inside = self.inside(Class::Abandoned, lo, hi);
            if lo < inside {
                abandoned.push((lo, inside));
            }
        }
        for (lo, hi) in self.tiling.end(&abandoned, units) {
            let what = "a gap: neither done nor failed nor abandoned when the job ended";
            self.wrong(Some((lo, hi)), what);
        }
        self.tell_clashes();
        for (class, claimed) in [(Class::Done, ended.done), (Class::Failed, ended.failed)] {
            let found = self.tiling.count(class);
            if found != claimed {
                let what =
                    format!("the scheduler said that {claimed} units were {class}, the records say {found}");
                self.wrong(Some((0, units)), what);
            }
        }
        if ended.totals.conflicts != self.conflicts {
            let (claimed, found) = (ended.totals.conflicts, self.conflicts);
            self.wrong(None, format!("the scheduler said {claimed} conflicts, the records say {found}"));
        }
        if self.grows() && ended.state != JobState::Cancelled {
            self.wrong(None, "it ended before its program had named its last unit");
        }
        self.growth.iter_mut().for_each(|growth| growth.is_open = false);
        self.check_state(ended.state);
        self.state = ended.state;
        self.end = Some(End { totals: ended.totals, epochs });
    }

    /// Whether the state that it ended in fits its units.
    fn check_state(&mut self, state: JobState) {
        let (failed, abandoned) = (self.tiling.count(Class::Failed), self.tiling.count(Class::Abandoned));
        self.sort_hits();
        let found: BTreeSet<u32> = self.hits.iter().map(|hit| hit.1).collect();
        let may_end_early = match self.facts.work.body {
            Body::Hits { stop: Stop::FirstHit, .. } => !found.is_empty(),
            Body::Hits { stop: Stop::AllTargets, targets } => {
                let planted = self.trust.as_ref().map_or(0, |trust| trust.planted.len());
                (found.len() + planted) as u64 == u64::from(targets)
            }
            _ => false,
        };
        match state {
            JobState::Finished if failed > 0 => {
                self.wrong(None, format!("it ended as finished, and {failed} units have failed"));
            }
            JobState::Failed if failed == 0 => self.wrong(None, "it ended as failed, and no unit has failed"),
            JobState::Finished | JobState::Failed if abandoned > 0 && !may_end_early => {
                let what = format!("{abandoned} units are abandoned, and nothing was found to end it early");
                self.wrong(None, what);
            }
            JobState::Finished | JobState::Failed | JobState::Cancelled => {}
            other => self.wrong(None, format!("it ended as {}, which is no end", other.word())),
        }
    }

    fn tell_clashes(&mut self) {
        for Clash { lo, hi, what } in std::mem::take(&mut self.tiling.clashes) {
            self.wrong(Some((lo, hi)), what.to_string());
        }
    }

    /// Whether it has ended, as far as the records go.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// No more records follow. `last` is where the last one stands that tells of work.
    pub(crate) fn close(&mut self, nodes: &BTreeMap<NodeId, String>, last: Place) {
        self.tiling.sweep();
        self.tell_clashes();
        self.sort_hits();
        let strangers: Vec<_> = self
            .by_node
            .iter()
            .filter(|(node, _)| !nodes.contains_key(node))
            .map(|(&n, &u)| (n, u))
            .collect();
        for (node, units) in strangers {
            let what = format!("{units} units were counted from node {}, which never joined", node.0);
            self.wrong(None, what);
        }
        let (shares, done) = (self.by_node.values().sum::<u128>(), self.tiling.count(Class::Done));
        if self.violations.is_empty() && shares != done + self.again {
            let again = self.again;
            let what = format!("nodes computed {shares} units, {done} are done, and {again} ran again");
            self.wrong(None, what);
        }
        let decided = done + self.tiling.count(Class::Failed);
        let follows = last.commit > self.decided.commit;
        if self.end.is_none() && !self.grows() && decided == self.facts.units && follows {
            let what = format!(
                "all units are decided since record {}, and no end of the job is on record",
                self.decided.sequence
            );
            self.wrong(Some((0, self.facts.units)), what);
        }
    }

    /// The job as its records tell. `broken` says that something is wrong with it.
    pub(crate) fn report(
        &self,
        farm: &str,
        epochs: &[u64],
        nodes: &BTreeMap<NodeId, String>,
        broken: bool,
    ) -> JobReport {
        let count = |class| self.tiling.count(class);
        let (failed, abandoned) = (count(Class::Failed), count(Class::Abandoned));
        let verdict = match &self.end {
            _ if broken => Completion::Broken,
            None => Completion::NotEnded,
            Some(_) if abandoned > 0 => Completion::EndedEarly,
            Some(_) if failed > 0 => Completion::CompleteWithFailures,
            Some(_) => Completion::Complete,
        };
        let mut report = JobReport {
            id: self.facts.job,
            name: self.facts.name.clone(),
            state: self.state,
            verdict,
            units_total: Units(self.facts.units),
            units_done: Units(count(Class::Done)),
            units_failed: Units(failed),
            units_abandoned: Units(abandoned),
            hits: self.hits.len() as u64,
            certificate: None,
            certificate_hash: None,
        };
        if let Some(end) = self.end.as_ref().filter(|_| !broken) {
            let certificate = self.certify(end, &report, farm, epochs, nodes);
            report.certificate_hash = Some(certificate.hash());
            report.certificate = Some(certificate);
        }
        report
    }

    fn certify(
        &self,
        end: &End,
        report: &JobReport,
        farm: &str,
        epochs: &[u64],
        nodes: &BTreeMap<NodeId, String>,
    ) -> Certificate {
        let mut shares: BTreeMap<&str, u128> = BTreeMap::new();
        for (node, units) in &self.by_node {
            *shares.entry(nodes.get(node).map_or("", String::as_str)).or_default() += units;
        }
        let share = |(name, units): (&str, u128)| NodeShare { name: name.into(), units: Units(units) };
        let totals = &end.totals;
        Certificate {
            farm: farm.to_owned(),
            job: self.facts.job,
            name: self.facts.name.clone(),
            user: self.facts.user.clone(),
            spec: self.facts.spec,
            verdict: report.verdict,
            state: report.state,
            units_total: report.units_total,
            units_done: report.units_done,
            units_failed: report.units_failed,
            units_abandoned: report.units_abandoned,
            intervals_hash: self.intervals_hash(),
            hits: report.hits,
            hits_hash: self.hits_hash(),
            units_duplicate: Units(totals.duplicate_units),
            tasks_dispatched: totals.dispatched,
            tasks_resent: totals.resent,
            tasks_copied: totals.copies,
            conflicts: self.conflicts,
            units_again: Units(self.again),
            units_doubtful: Units(self.doubtful),
            trust: self.trust.as_ref().map(|trust| trust.share(self.tiling.runs())),
            epochs: epochs.get(self.first_epoch..end.epochs).unwrap_or_default().to_vec(),
            nodes: shares.into_iter().map(share).collect(),
            submitted: utc(self.facts.at_us),
            started: totals.started_us.map(utc),
            ended: totals.ended_us.map(utc),
        }
    }

    fn intervals_hash(&self) -> ContentHash {
        let mut text = String::new();
        for run in self.tiling.runs() {
            let _ = writeln!(text, "{} {} {}", run.class, run.lo, run.hi);
        }
        ContentHash::of(text.as_bytes())
    }

    fn hits_hash(&self) -> ContentHash {
        let mut text = String::new();
        for (unit, target) in &self.hits {
            let _ = writeln!(text, "{unit} {target}");
        }
        ContentHash::of(text.as_bytes())
    }
}
