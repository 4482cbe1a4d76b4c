//! What jobs have used from the first moment that anybody told of them: over the minute at hand, over their whole lives, and
//! second by second of late. Kept only as long as somebody may ask, and bounded; nothing of it is written anywhere here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;

use crate::group::{Figures, Group, JobFigures};

/// Jobs that have not ended, and those that have, at most: the first ones, and the latest.
const JOBS_MAX: usize = 10_000;
/// And of these of which the farm has not said that it has them, told by one post.
const UNKNOWN_MAX: usize = 2_000;
const ENDED_MAX: usize = 10_000;
/// Machines and jobs that have a line, at most: a line takes a kilobyte.
const LINES_MAX: usize = 10_000;
/// Points of a line: two minutes.
const LINE_POINTS: usize = 120;
/// Microseconds between two points of a line.
pub const LINE_STEP_US: u64 = 1_000_000;
/// So long the figures of a minute are over, in microseconds.
const MINUTE_US: u64 = 60_000_000;
/// So long after its end figures of a job may still come, in microseconds: agents look once more, and posts hand on.
const LATE_US: u64 = 3_000_000;

/// A figure over a time: of a unit, and of all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Total {
    /// The least and the greatest of a unit.
    pub min: u64,
    /// See `min`.
    pub max: u64,
    /// The figure of each unit times the microseconds that it held, all added up: of processor time, in microseconds a second,
    /// this is millionths of what was used.
    pub sum: u128,
    /// Microseconds that it was known, added up over all units.
    pub weight: u128,
    /// The most of all units together.
    pub most: u64,
}

/// What a job used over a time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Microseconds in which somebody told of the job.
    pub for_us: u64,
    /// Until when that was looked at.
    until_us: u64,
    /// By metric.
    pub totals: BTreeMap<Metric, Total>,
    /// Units that were seen at once, at most.
    pub units: u64,
    /// Nodes that told, and nodes that ran it, at most at once.
    pub from: u64,
    /// See `from`.
    pub of: u64,
}

impl Span {
    /// These figures held for so long before `at_us`.
    fn take(&mut self, group: &Group, at_us: u64, for_us: u64) {
        let begun_us = at_us.saturating_sub(for_us);
        self.for_us += at_us.saturating_sub(begun_us.max(self.until_us));
        self.until_us = self.until_us.max(at_us);
        for (metric, summary) in &group.figures {
            let none = Total { min: u64::MAX, max: 0, sum: 0, weight: 0, most: 0 };
            let total = self.totals.entry(*metric).or_insert(none);
            (total.min, total.max) = (total.min.min(summary.min), total.max.max(summary.max));
            total.sum = total.sum.saturating_add(u128::from(summary.sum) * u128::from(for_us));
            total.weight = total.weight.saturating_add(u128::from(summary.count) * u128::from(for_us));
            total.most = total.most.max(summary.sum);
        }
        self.at_once(group.units, group.from, group.of);
    }

    /// So many were seen at once.
    fn at_once(&mut self, units: u64, from: u64, of: u64) {
        (self.units, self.from, self.of) = (self.units.max(units), self.from.max(from), self.of.max(of));
    }

    fn see(&mut self, figures: &JobFigures) {
        self.at_once(figures.units, figures.from, figures.of);
        for (metric, summary) in &figures.figures {
            self.totals.entry(*metric).and_modify(|total| total.most = total.most.max(summary.sum));
        }
    }
}

/// A line's newest values, the oldest first: processor time in microseconds a second, and memory in bytes.
pub type Points = VecDeque<(Option<u64>, Option<u64>)>;

/// A line: its points take half as much.
#[derive(Default, Debug)]
struct Line(VecDeque<[f32; 2]>);

impl Line {
    /// Not a number stands for what is not known.
    fn push(&mut self, figures: Option<&Figures>) {
        if self.0.len() == LINE_POINTS {
            self.0.pop_front();
        }
        let of =
            |metric| figures.and_then(|figures| figures.get(&metric)).map_or(f32::NAN, |of| of.sum as f32);
        self.0.push_back([of(Metric::Cpu), of(Metric::Memory)]);
    }

    fn points(&self) -> Points {
        let known = |value: f32| (!value.is_nan()).then_some(value as u64);
        self.0.iter().map(|[cpu, memory]| (known(*cpu), known(*memory))).collect()
    }

    fn is_blank(&self) -> bool {
        self.0.iter().flatten().all(|value| value.is_nan())
    }
}

/// What is kept of a job.
#[derive(Default, Debug)]
struct Life {
    whole: Span,
    minute: Span,
    /// When the minute at hand began, and whether one was told.
    minute_us: u64,
    told_minutes: bool,
    /// When it was heard that the job has ended.
    ended_us: Option<u64>,
    /// So often somebody tells of it.
    period_us: u64,
    /// Who told of it first, until the farm has said that there is such a job.
    unknown: Option<PostId>,
}

/// What is to be told of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Its last minute.
    Minute(Span),
    /// It has ended: all of it.
    Life(Span),
}

/// All jobs.
#[derive(Default, Debug)]
pub struct Lives {
    open: BTreeMap<JobId, Life>,
    /// With the time at which that was told.
    ended: BTreeMap<JobId, (Span, u64)>,
    /// The same, in the order in which they ended.
    order: VecDeque<JobId>,
    jobs: BTreeMap<JobId, Line>,
    machines: BTreeMap<PostId, Line>,
}

impl Lives {
    /// Somebody told of a job what held for so long before that time; who tells does so once a period.
    pub(crate) fn take(&mut self, job: JobId, group: &Group, for_us: u64, period_us: u64) {
        if !self.open.contains_key(&job) {
            let unknown = self.open.values().filter(|life| life.unknown == Some(group.post)).count();
            if self.open.len() == JOBS_MAX || unknown >= UNKNOWN_MAX {
                return;
            }
            if let Some((whole, told_us)) = self.ended.get_mut(&job)
                && group.at_us < *told_us
            {
                // Somebody who was alone tells of it now: its life was told already.
                whole.take(group, group.at_us, for_us);
                return;
            }
            let whole = self.ended.remove(&job).map(|(whole, _)| whole).unwrap_or_default();
            let minute = Span::default();
            let life = Life {
                whole,
                minute,
                minute_us: group.at_us,
                told_minutes: false,
                ended_us: None,
                period_us,
                unknown: Some(group.post),
            };
            self.open.insert(job, life);
            self.order.retain(|ended| *ended != job);
        }
        let life = self.open.get_mut(&job).expect("it was put there");
        life.period_us = period_us;
        [&mut life.whole, &mut life.minute]
            .into_iter()
            .for_each(|span| span.take(group, group.at_us, for_us));
    }

    /// To be called once in [`LINE_STEP_US`], with what is known of all jobs and machines.
    pub(crate) fn step<'a>(
        &mut self,
        jobs: &BTreeMap<JobId, JobFigures>,
        machines: impl Iterator<Item = (PostId, Option<&'a Figures>)>,
    ) {
        for (job, figures) in jobs {
            if let Some(life) = self.open.get_mut(job) {
                life.whole.see(figures);
                life.minute.see(figures);
            }
            if self.jobs.len() < LINES_MAX || self.jobs.contains_key(job) {
                self.jobs.entry(*job).or_default();
            }
        }
        self.jobs.iter_mut().for_each(|(job, line)| line.push(jobs.get(job).map(|job| &job.figures)));
        let mut there = BTreeSet::new();
        for (post, figures) in machines {
            if self.machines.len() < LINES_MAX || self.machines.contains_key(&post) {
                self.machines.entry(post).or_default().push(figures);
                there.insert(post);
            }
        }
        let gone = |post: &PostId| !there.contains(post);
        self.machines.iter_mut().filter(|(post, _)| gone(post)).for_each(|(_, line)| line.push(None));
        // Who has told of nothing for two minutes has no line.
        self.jobs.retain(|_, line| !line.is_blank());
        self.machines.retain(|_, line| !line.is_blank());
    }

    /// Jobs that have not ended, as far as was heard.
    pub fn open(&self) -> impl Iterator<Item = JobId> {
        self.open.keys().copied()
    }

    /// Of the jobs that were asked about some have ended; the others go on, and of those that were not asked about nothing is
    /// said.
    pub fn on_ended(&mut self, asked: &BTreeSet<JobId>, is_ended: impl Fn(JobId) -> bool, now_us: u64) {
        for job in asked {
            if let Some(life) = self.open.get_mut(job) {
                life.ended_us = is_ended(*job).then(|| life.ended_us.unwrap_or(now_us));
            }
        }
    }

    /// Of the jobs that were asked about there are these, ended or not. What is told of others is of no job.
    pub fn on_known(&mut self, asked: &BTreeSet<JobId>, is_known: impl Fn(JobId) -> bool) {
        for job in asked {
            let Some(life) = self.open.get_mut(job).filter(|life| life.unknown.is_some()) else { continue };
            if is_known(*job) {
                life.unknown = None;
            } else {
                self.open.remove(job);
                self.jobs.remove(job);
            }
        }
    }

    /// What is to be told by now.
    pub fn due(&mut self, now_us: u64) -> Vec<(JobId, Told)> {
        let mut told = Vec::new();
        for (job, life) in &mut self.open {
            let late_us = LATE_US.max(life.period_us.saturating_mul(2)).min(MINUTE_US);
            if life.ended_us.is_some_and(|ended_us| ended_us.saturating_add(late_us) <= now_us) {
                // A job of less than a minute has no minutes: its life says all.
                if life.told_minutes && life.minute.for_us > 0 {
                    told.push((*job, Told::Minute(std::mem::take(&mut life.minute))));
                }
                told.push((*job, Told::Life(life.whole.clone())));
            } else if life.minute_us.saturating_add(MINUTE_US) <= now_us {
                life.minute_us = now_us;
                let minute = std::mem::take(&mut life.minute);
                if minute.for_us > 0 {
                    life.told_minutes = true;
                    told.push((*job, Told::Minute(minute)));
                }
            }
        }
        for (job, what) in &told {
            if let Told::Life(whole) = what {
                self.open.remove(job);
                self.jobs.remove(job);
                self.ended.insert(*job, (whole.clone(), now_us));
                self.order.push_back(*job);
            }
        }
        while self.order.len() > ENDED_MAX {
            let oldest = self.order.pop_front().expect("there are too many");
            self.ended.remove(&oldest);
        }
        told
    }

    /// All that a job has used, as far as is known by now.
    pub fn whole(&self, job: JobId) -> Option<&Span> {
        self.open.get(&job).map(|life| &life.whole).or_else(|| self.ended.get(&job).map(|(whole, _)| whole))
    }

    /// What a job used of late.
    pub fn job_line(&self, job: JobId) -> Option<Points> {
        self.jobs.get(&job).map(Line::points)
    }

    /// The same of the machine of a post.
    pub fn machine_line(&self, post: PostId) -> Option<Points> {
        self.machines.get(&post).map(Line::points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;

    const SECOND_US: u64 = 1_000_000;

    fn group(at_us: u64, cpu: &[u64]) -> Group {
        let summary = cpu.iter().copied().map(Summary::of).reduce(Summary::and);
        let figures = summary.map(|summary| (Metric::Cpu, summary)).into_iter().collect();
        Group {
            at_us,
            job: Some(JobId(7)),
            units: cpu.len() as u64,
            from: 1,
            of: 1,
            figures,
            ..Group::of_nobody()
        }
    }

    fn took(lives: &mut Lives, at_s: u64, cpu: &[u64]) {
        lives.take(JobId(7), &group(at_s * SECOND_US, cpu), SECOND_US, SECOND_US);
    }

    #[test]
    fn a_life_adds_up_and_is_told_once_when_it_is_over() {
        let mut lives = Lives::default();
        took(&mut lives, 1, &[1_000_000, 500_000]);
        took(&mut lives, 2, &[1_000_000]);
        // What ended meanwhile counts, though nothing runs.
        lives.take(JobId(7), &Group { units: 0, ..group(3 * SECOND_US, &[250_000]) }, SECOND_US, SECOND_US);
        let whole = lives.whole(JobId(7)).unwrap().clone();
        let total = whole.totals[&Metric::Cpu];
        assert_eq!((whole.for_us, whole.units, total.min, total.max), (3 * SECOND_US, 2, 250_000, 1_000_000));
        assert_eq!(total.sum, 2_750_000 * 1_000_000, "2.75 s of a core");
        assert_eq!((total.weight, total.most), (4_000_000, 1_500_000));
        lives.on_ended(&[JobId(7)].into(), |_| true, 4 * SECOND_US);
        assert_eq!(lives.due(5 * SECOND_US), [], "something may still be on its way");
        assert_eq!(lives.due(7 * SECOND_US), [(JobId(7), Told::Life(whole.clone()))]);
        assert_eq!((lives.due(99 * SECOND_US), lives.whole(JobId(7))), (vec![], Some(&whole)));
        assert_eq!(lives.open().count(), 0);
        // It goes on, as a job does that was tried again: its life is one.
        took(&mut lives, 100, &[1_000_000]);
        assert_eq!(lives.whole(JobId(7)).unwrap().for_us, 4 * SECOND_US);
    }

    #[test]
    fn time_that_several_tell_of_counts_once_and_a_gap_does_not_count() {
        let mut lives = Lives::default();
        took(&mut lives, 10, &[400_000]);
        took(&mut lives, 10, &[600_000]);
        took(&mut lives, 90, &[1_000_000]);
        let whole = lives.whole(JobId(7)).unwrap();
        assert_eq!((whole.for_us, whole.totals[&Metric::Cpu].sum), (2 * SECOND_US, 2_000_000_000_000));
    }

    #[test]
    fn each_minute_is_told_and_begins_anew() {
        let mut lives = Lives::default();
        (1..=60).for_each(|second| took(&mut lives, second, &[1_000_000]));
        assert_eq!(lives.due(60 * SECOND_US), []);
        took(&mut lives, 61, &[3_000_000]);
        let told = lives.due(61 * SECOND_US);
        assert!(
            matches!(&told[..], [(JobId(7), Told::Minute(span))] if span.for_us == 61 * SECOND_US),
            "{told:?}"
        );
        took(&mut lives, 62, &[2_000_000]);
        let told = lives.due(121 * SECOND_US);
        assert!(
            matches!(&told[..], [(_, Told::Minute(span))] if span.totals[&Metric::Cpu].max == 2_000_000),
            "{told:?}"
        );
        assert_eq!(lives.due(181 * SECOND_US), [], "a minute of which nobody told");
        assert_eq!(lives.whole(JobId(7)).unwrap().totals[&Metric::Cpu].max, 3_000_000);
        // What is left of the last minute is told with the life.
        took(&mut lives, 182, &[1]);
        lives.on_ended(&[JobId(7)].into(), |_| true, 183 * SECOND_US);
        let told = lives.due(186 * SECOND_US);
        assert!(matches!(&told[..], [(_, Told::Minute(_)), (_, Told::Life(_))]), "{told:?}");
    }

    #[test]
    fn lines_have_two_minutes_and_end() {
        let mut lives = Lives::default();
        let figures = |cpu| Figures::from([(Metric::Cpu, Summary::of(cpu))]);
        for second in 0..200 {
            let machine = figures(second);
            lives.step(&BTreeMap::new(), [(PostId(3), Some(&machine))].into_iter());
        }
        let line = lives.machine_line(PostId(3)).unwrap();
        assert_eq!((line.len(), line[0], line[119]), (120, (Some(80), None), (Some(199), None)));
        lives.step(&BTreeMap::new(), std::iter::empty());
        assert_eq!(lives.machine_line(PostId(3)).unwrap()[119], (None, None));
        (0..120).for_each(|_| lives.step(&BTreeMap::new(), std::iter::empty()));
        assert!(lives.machine_line(PostId(3)).is_none());
    }

    #[test]
    fn of_jobs_that_the_farm_does_not_have_nothing_is_told_or_kept() {
        let mut lives = Lives::default();
        for job in 0..2 * UNKNOWN_MAX as u64 {
            lives.take(JobId(job), &group(SECOND_US, &[1]), SECOND_US, SECOND_US);
        }
        assert_eq!(lives.open().count(), UNKNOWN_MAX);
        // Those that another post tells of have room.
        let other = Group { post: PostId(9), ..group(SECOND_US, &[1]) };
        lives.take(JobId(1_000_000), &other, SECOND_US, SECOND_US);
        let asked = lives.open().collect();
        lives.on_known(&asked, |job| job.0 >= 1_000_000);
        lives.on_ended(&asked, |_| true, SECOND_US);
        let told = lives.due(99 * SECOND_US);
        assert!(matches!(&told[..], [(JobId(1_000_000), Told::Life(_))]), "{told:?}");
        assert!(lives.whole(JobId(5)).is_none());
    }

    #[test]
    fn nothing_is_kept_without_a_bound() {
        let mut lives = Lives::default();
        for job in 0..2 * JOBS_MAX as u64 {
            let of = Group { post: PostId(job), ..group(SECOND_US, &[1]) };
            lives.take(JobId(job), &of, SECOND_US, SECOND_US);
        }
        let open: Vec<_> = lives.open().collect();
        assert_eq!(open.len(), JOBS_MAX);
        for first in [0, 1_000_000] {
            let jobs: BTreeSet<_> = (first..first + JOBS_MAX as u64).map(JobId).collect();
            for job in &jobs {
                let of = Group { post: PostId(job.0), ..group(SECOND_US, &[1]) };
                lives.take(*job, &of, SECOND_US, SECOND_US);
            }
            lives.on_ended(&jobs, |_| true, SECOND_US);
            assert_eq!(lives.due(9 * SECOND_US).len(), JOBS_MAX);
        }
        assert!(
            lives.whole(JobId(5)).is_none() && lives.whole(JobId(1_000_005)).is_some(),
            "the latest are kept"
        );
    }
}
