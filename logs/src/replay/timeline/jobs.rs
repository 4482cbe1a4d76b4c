//! Jobs over time: the states that each went through, and how long its tasks took.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};
use starfarm_events::{Event, JobChange, JobInfo};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::units::Units;

use super::used::{CoresUsed, Used};
use crate::json::json_object;

/// Jobs of a report at most; one of them stands for all that there is no room for.
const JOBS_MAX: usize = 1_000;
/// Jobs that are followed at most while a log is read.
const FOLLOWED_MAX: usize = 16_000;
/// Changes of a job's state that are kept at most: the first ones.
const STATES_MAX: usize = 64;
/// Longest name of a job or a user, in characters.
const NAME_CHARS_MAX: usize = 120;

/// Bins of durations for each power of two.
const FINE: usize = 4;

/// How many results took how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DurationBins {
    /// Results, and what they took in all, in microseconds, by bin: four for each power of two.
    fine: BTreeMap<usize, (u64, u128)>,
}

/// The bin that holds a duration: its power of two, and the two binary digits below.
fn fine(duration_us: u64) -> usize {
    let power = duration_us.max(1).ilog2();
    let below = ((u128::from(duration_us) << 2) >> power) as usize % FINE;
    power as usize * FINE + below
}

impl DurationBins {
    /// So many results took so long each.
    pub(crate) fn add(&mut self, duration_us: u64, results: u64) {
        let (count, sum_us) = self.fine.entry(fine(duration_us)).or_default();
        *count = count.saturating_add(results);
        *sum_us = sum_us.saturating_add(u128::from(duration_us) * u128::from(results));
    }

    /// All that others hold as well.
    fn join(&mut self, others: &Self) {
        for (bin, (count, sum_us)) in &others.fine {
            let mine = self.fine.entry(*bin).or_default();
            *mine = (mine.0.saturating_add(*count), mine.1.saturating_add(*sum_us));
        }
    }

    /// The powers of two from the first to the last that is not empty: least duration in microseconds, and results.
    pub fn bins(&self) -> Vec<(u64, u64)> {
        let power = |entry: Option<(&usize, _)>| entry.map(|(bin, _)| bin / FINE);
        let (Some(first), Some(last)) =
            (power(self.fine.first_key_value()), power(self.fine.last_key_value()))
        else {
            return Vec::new();
        };
        let mut bins: Vec<(u64, u64)> = (first..=last).map(|power| (1_u64 << power, 0)).collect();
        for (bin, (count, _)) in &self.fine {
            let sum = &mut bins[bin / FINE - first].1;
            *sum = sum.saturating_add(*count);
        }
        bins
    }

    /// The median, in microseconds: the mean of the bin that it falls into, which is less than a quarter wide. None
    /// without results.
    pub fn median_us(&self) -> Option<u64> {
        let all: u128 = self.fine.values().map(|(count, _)| u128::from(*count)).sum();
        let mut before = 0;
        for (count, sum_us) in self.fine.values().filter(|(count, _)| *count > 0) {
            before += u128::from(*count);
            if before * 2 >= all {
                return u64::try_from(sum_us / u128::from(*count)).ok();
            }
        }
        None
    }
}

impl Serialize for DurationBins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Durations {
            from_us: Vec<u64>,
            counts: Vec<u64>,
        }
        let (from_us, counts) = self.bins().into_iter().unzip();
        Durations { from_us, counts }.serialize(serializer)
    }
}

/// A job over the whole of a report.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "most fields are those of the event model")]
pub struct JobLine {
    /// Its number; 0 stands for all that there was no room for.
    pub job: u64,
    pub name: String,
    pub user: String,
    /// N.
    pub units: Units,
    pub done: Units,
    pub failed: Units,
    pub abandoned: Units,
    pub hits: u64,
    pub submitted_us: u64,
    /// When its first task was given out.
    pub started_us: Option<u64>,
    pub ended_us: Option<u64>,
    /// The states that it went through; times ascend.
    pub states: Vec<(u64, JobChange)>,
    /// Results, without those that gave units back.
    pub results: u64,
    /// How long these took.
    pub durations: DurationBins,
    /// The median of that, in microseconds.
    pub median_us: Option<u64>,
    /// Its completion certificate: the event's fields.
    pub certificate: Option<serde_json::Map<String, serde_json::Value>>,
    /// The cores that its units used over time, where the log tells of it.
    pub cores_used: Option<CoresUsed>,
    /// What its units used in all: the event's fields.
    pub used: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(skip)]
    usage: Used,
}

impl JobLine {
    fn new(id: JobId, at_us: u64) -> Self {
        Self { job: id.0, submitted_us: at_us, ..Self::default() }
    }

    /// Its last state; none where the log does not say.
    pub fn state(&self) -> Option<JobChange> {
        self.states.last().map(|(_, state)| *state)
    }

    /// How much there is to say of it: a job that runs or went wrong says most.
    pub fn telling(&self) -> u8 {
        match self.state() {
            Some(JobChange::To(JobState::Finished) | JobChange::Deleted) | None => 0,
            Some(JobChange::To(JobState::Cancelled)) => 1,
            Some(JobChange::To(JobState::Failed)) => 2,
            Some(JobChange::To(
                JobState::Queued | JobState::Running | JobState::Paused | JobState::Waiting,
            )) => 3,
        }
    }

    fn enter(&mut self, at_us: u64, change: JobChange) {
        if self.state() == Some(change) {
            return;
        }
        if let JobChange::To(state) = change {
            // A job may go on after its end.
            self.ended_us = state.ended().then_some(at_us);
            if state == JobState::Running {
                self.started_us.get_or_insert(at_us);
            }
        }
        // The last state is always kept.
        self.states.truncate(STATES_MAX - 1);
        let at_us = self.states.last().map_or(at_us, |(before_us, _)| at_us.max(*before_us));
        self.states.push((at_us, change));
    }

    fn picture(&mut self, at_us: u64, job: &JobInfo) {
        (self.name, self.user) = (short(&job.name), short(&job.user));
        (self.units, self.done) = (job.units_total, job.units_done);
        (self.failed, self.abandoned) = (job.units_failed, job.units_abandoned);
        (self.hits, self.submitted_us) = (job.hits, job.totals.submitted_us);
        self.enter(job.totals.ended_us.unwrap_or(at_us), JobChange::To(job.state));
        self.started_us = job.totals.started_us.or(self.started_us);
        self.ended_us = job.totals.ended_us;
    }
}

fn short(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

/// All jobs, in the order in which the log tells of them.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    by_id: HashMap<JobId, usize>,
    all: Vec<JobLine>,
    /// Jobs without a line of their own.
    pub(crate) left_out: u64,
}

/// Stands for all jobs that there is no room for.
const REST: JobId = JobId(0);

impl Jobs {
    /// A job by its number, with its index.
    pub(crate) fn get(&mut self, id: JobId, at_us: u64) -> (usize, &mut JobLine) {
        let has_room = self.all.len() < FOLLOWED_MAX - 1 || self.by_id.contains_key(&id);
        let key = if has_room { id } else { REST };
        let at = *self.by_id.entry(key).or_insert(self.all.len());
        if at == self.all.len() {
            self.all.push(JobLine::new(key, at_us));
            if key == REST {
                self.all[at].name = "jobs that there is no room for".to_owned();
            }
        }
        (at, &mut self.all[at])
    }

    /// It is time to [`Self::thin`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.all.len() > FOLLOWED_MAX / 2
    }

    /// Keeps no more jobs than a report has room for: those that did not end well, or not yet, and the latest. Gives
    /// the new index for each old one; none where all of them are kept.
    pub(crate) fn thin(&mut self) -> Option<Vec<usize>> {
        if self.all.len() <= JOBS_MAX {
            return None;
        }
        let mut order: Vec<usize> = (0..self.all.len()).filter(|at| self.all[*at].job != REST.0).collect();
        order.sort_by_key(|at| Reverse((self.all[*at].telling(), *at)));
        let mut keep = vec![false; self.all.len()];
        order.iter().take(JOBS_MAX - 1).for_each(|at| keep[*at] = true);
        let all = std::mem::take(&mut self.all);
        self.by_id.clear();
        let mut rest = Vec::new();
        let mut places = vec![JOBS_MAX - 1; all.len()];
        for (at, line) in all.into_iter().enumerate() {
            if !keep[at] {
                rest.push(line);
                continue;
            }
            places[at] = self.all.len();
            self.by_id.insert(JobId(line.job), self.all.len());
            self.all.push(line);
        }
        for line in rest {
            self.left_out += u64::from(line.job != REST.0);
            let others = self.get(REST, line.submitted_us).1;
            others.results = others.results.saturating_add(line.results);
            others.durations.join(&line.durations);
        }
        Some(places)
    }

    /// How the jobs stand at a moment.
    pub(crate) fn snapshot(&mut self, at_us: u64, jobs: &[JobInfo]) {
        for job in jobs {
            let line = self.get(job.id, at_us).1;
            if line.job == job.id.0 {
                line.picture(at_us, job);
            }
        }
    }

    /// Something happened to a job.
    pub(crate) fn event(&mut self, at_us: u64, event: &Event) {
        let Some(id) = job_of(event) else { return };
        let line = self.get(id, at_us).1;
        if line.job != id.0 {
            return;
        }
        match event {
            Event::JobSubmitted { name, user, units, .. } => {
                (line.name, line.user) = (short(name), short(user));
                line.units = Units(*units);
                line.submitted_us = at_us;
                line.enter(at_us, JobChange::To(JobState::Queued));
            }
            Event::JobGrown { units, .. } => line.units = Units(*units),
            Event::JobState { state, .. } => line.enter(at_us, *state),
            Event::JobProgress { done, failed, abandoned, .. } => {
                (line.done, line.failed) = (Units(*done), Units(*failed));
                line.abandoned = Units(*abandoned);
            }
            Event::JobUsage(usage) => line.usage.add(at_us, usage),
            Event::Hit { .. } => line.hits = line.hits.saturating_add(1),
            Event::Certificate { units, done, failed, abandoned, hits, .. } => {
                (line.units, line.done) = (Units(*units), Units(*done));
                (line.failed, line.abandoned) = (Units(*failed), Units(*abandoned));
                line.hits = *hits;
                line.certificate = Some(json_object(event));
            }
            _ => {}
        }
    }

    pub(crate) fn finish(mut self) -> Vec<JobLine> {
        for line in &mut self.all {
            line.median_us = line.durations.median_us();
            line.cores_used = line.usage.finish();
            line.used = line.usage.life.take();
        }
        self.all
    }
}

fn job_of(event: &Event) -> Option<JobId> {
    match event {
        Event::JobSubmitted { job, .. }
        | Event::JobGrown { job, .. }
        | Event::JobState { job, .. }
        | Event::JobProgress { job, .. }
        | Event::Hit { job, .. }
        | Event::Certificate { job, .. } => Some(*job),
        Event::JobUsage(usage) => Some(usage.job),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_between_powers_of_two() {
        let mut bins = DurationBins::default();
        for (duration_us, results) in
            [(0, 1), (1, 1), (4, 2), (7, 3), (8, 1), (u64::MAX, u64::MAX), (u64::MAX, 1)]
        {
            bins.add(duration_us, results);
        }
        let bins = bins.bins();
        assert_eq!(bins[..4], [(1, 2), (2, 0), (4, 5), (8, 1)]);
        assert_eq!(bins.last(), Some(&(1 << 63, u64::MAX)));
    }

    #[test]
    fn a_second_is_told_as_a_second() {
        let mut bins = DurationBins::default();
        assert_eq!(bins.median_us(), None);
        [1_000_000, 1_004_000, 999_000, 7_000_000, 3].iter().for_each(|us| bins.add(*us, 1));
        let median_us = bins.median_us().unwrap();
        assert!((990_000..1_010_000).contains(&median_us), "{median_us}");
    }

    #[test]
    fn a_job_that_goes_on_after_its_end_has_not_ended() {
        let mut line = JobLine::new(JobId(1), 5);
        for (at_us, state) in [(10, JobState::Running), (20, JobState::Failed), (30, JobState::Running)] {
            line.enter(at_us, JobChange::To(state));
        }
        assert_eq!((line.started_us, line.ended_us), (Some(10), None));
        line.enter(40, JobChange::To(JobState::Finished));
        line.enter(50, JobChange::Deleted);
        assert_eq!(line.ended_us, Some(40), "it is deleted long after its end");
        line.enter(45, JobChange::To(JobState::Queued));
        assert_eq!(line.states.last(), Some(&(50, JobChange::To(JobState::Queued))), "times ascend");
    }

    #[test]
    fn a_hundred_thousand_jobs_need_no_more_room_than_a_thousand() {
        let mut jobs = Jobs::default();
        let mut places = None;
        for id in 1..=100_000 {
            let state = JobChange::To(if id == 7 { JobState::Failed } else { JobState::Finished });
            jobs.event(id, &Event::JobState { job: JobId(id), state, why: None });
            jobs.get(JobId(id), id).1.results = 1;
            assert!(jobs.all.len() < FOLLOWED_MAX);
            if jobs.is_crowded() {
                places = jobs.thin();
            }
        }
        assert!(places.is_some_and(|places| places.len() > JOBS_MAX && places[1] == JOBS_MAX - 1));
        jobs.thin();
        assert_eq!(jobs.left_out, 100_000 - 999);
        let all = jobs.finish();
        assert_eq!((all.len(), all[0].job, all[998].job), (JOBS_MAX, 7, 100_000), "failed, and the latest");
        assert_eq!((all[999].job, all[999].results), (0, 100_000 - 999));
        assert!(all[999].states.is_empty(), "what stands for many has no state");
    }
}
