//! What the front knows of the farm's figures: the newest of each post, and what they come to by job. Nothing of it is
//! kept for longer than it is of use.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::orders::PostId;

use crate::group::{AHEAD_US, Figures, Group, JobFigures, groups};
use crate::lives::Lives;
use crate::named::Amounts;
use crate::values::Triples;

/// Figures that are older say nothing of what is now, in microseconds.
const FRESH_US: u64 = 3_000_000;
/// So long a post that is silent is still counted among those that run a job.
pub(crate) const KNOWN_US: u64 = 30_000_000;
/// How often something is told where nobody has said it, in microseconds.
const USUAL_US: u64 = 1_000_000;
/// Jobs of a post, at most: what it says of more is not looked at.
const JOBS_MAX: usize = 10_000;
/// Bytes of figures that have names only, of all jobs of a post: beyond that its jobs have none.
const NAMED_BYTES_MAX: usize = 4 << 20;
/// Machines, at most.
const MACHINES_MAX: usize = 100_000;

/// What a child told last of each job.
#[derive(Default, Debug)]
struct Jobs {
    by_job: BTreeMap<JobId, Group>,
    named_bytes: usize,
}

impl Jobs {
    fn put(&mut self, job: JobId, mut group: Group) {
        self.remove(job);
        if self.named_bytes + group.named.bytes() > NAMED_BYTES_MAX {
            group.named = Amounts::default();
        }
        self.named_bytes += group.named.bytes();
        self.by_job.insert(job, group);
    }

    fn remove(&mut self, job: JobId) {
        self.named_bytes -= self.by_job.remove(&job).map_or(0, |group| group.named.bytes());
    }

    fn retain(&mut self, is_kept: impl Fn(JobId, &Group) -> bool) {
        self.by_job.retain(|job, group| is_kept(*job, group));
        self.named_bytes = self.by_job.values().map(|group| group.named.bytes()).sum();
    }
}

/// The newest figures of each post.
#[derive(Default, Debug)]
pub struct Picture {
    machines: BTreeMap<PostId, Group>,
    /// By the child that told.
    jobs: BTreeMap<PostId, Jobs>,
    /// How often something is told, if it is known: of all, and of jobs that have a period of their own.
    period_us: u64,
    periods: BTreeMap<JobId, u64>,
    of_posts: BTreeMap<PostId, u64>,
    /// What jobs have used until now.
    pub lives: Lives,
}

impl Picture {
    /// A child has said something, measured at that time; whether any of it is newer than what is known. What is known to be
    /// of a time that has yet to come is of a clock that went back.
    pub fn take(&mut self, child: PostId, at_us: u64, triples: Triples<'_>, now_us: u64) -> bool {
        let mut is_news = false;
        for group in groups(child, at_us, triples, now_us) {
            let is_newer = |known: Option<&Group>| {
                known.is_none_or(|known| {
                    known.at_us <= group.at_us || known.at_us > now_us.saturating_add(AHEAD_US)
                })
            };
            let Some(job) = group.job else {
                let known = self.machines.get(&group.post);
                if is_newer(known) && (known.is_some() || self.machines.len() < MACHINES_MAX) {
                    is_news = true;
                    self.machines.insert(group.post, group);
                }
                continue;
            };
            if self.periods.get(&job) == Some(&0) {
                continue;
            }
            let period_us = Some(self.period_of(child, Some(job))).filter(|us| *us > 0).unwrap_or(USUAL_US);
            let jobs = self.jobs.entry(child).or_default();
            let known = jobs.by_job.get(&job);
            if !is_newer(known) || known.is_none() && jobs.by_job.len() == JOBS_MAX {
                continue;
            }
            is_news = true;
            // A figure holds from the one before on; where some were lost, it says nothing of all that time.
            let since_us = known.map_or(period_us, |known| group.at_us.saturating_sub(known.at_us));
            self.lives.take(job, &group, since_us.min(period_us.saturating_mul(3)), period_us);
            if group.is_over() { jobs.remove(job) } else { jobs.put(job, group) }
        }
        is_news
    }

    /// Takes down how all stands: to be called once in [`crate::LINE_STEP_US`].
    pub fn step(&mut self, now_us: u64) {
        let mut lives = std::mem::take(&mut self.lives);
        let machines =
            self.machines.keys().map(|post| (*post, self.machine(*post, now_us).map(|(of, _)| of)));
        lives.step(&self.jobs(now_us), machines);
        self.lives = lives;
    }

    /// So often something is told from now on, in microseconds, 0 for never: of all, and of jobs and posts that have a period of their own.
    pub fn set_periods(&mut self, period_us: u64, jobs: BTreeMap<JobId, u64>, posts: BTreeMap<PostId, u64>) {
        (self.period_us, self.periods, self.of_posts) = (period_us, jobs, posts);
        let periods = &self.periods;
        self.jobs.values_mut().for_each(|jobs| jobs.retain(|job, _| periods.get(&job) != Some(&0)));
    }

    /// So often a child tells of a job, or of its machine.
    fn period_of(&self, post: PostId, job: Option<JobId>) -> u64 {
        let own = job.and_then(|job| self.periods.get(&job));
        own.or_else(|| self.of_posts.get(&post)).copied().unwrap_or(self.period_us)
    }

    /// Figures of that age say what is now.
    fn is_fresh(&self, post: PostId, job: Option<JobId>, age_us: u64) -> bool {
        age_us <= FRESH_US.max(self.period_of(post, job).saturating_mul(3))
    }

    /// A post has gone for good.
    pub fn forget(&mut self, post: PostId) {
        self.machines.remove(&post);
        self.jobs.remove(&post);
    }

    /// A post is no child any more: what it told of jobs others tell.
    pub fn forget_child(&mut self, post: PostId) {
        self.jobs.remove(&post);
    }

    /// Drops what is too old to be of use.
    pub fn tidy(&mut self, now_us: u64) {
        let (mut machines, mut jobs) = (std::mem::take(&mut self.machines), std::mem::take(&mut self.jobs));
        let is_known = |child: PostId, group: &Group| {
            let known_us = KNOWN_US.max(self.period_of(child, group.job).saturating_mul(3));
            group.at_us.saturating_add(known_us) > now_us
        };
        machines.retain(|post, group| is_known(*post, group));
        jobs.iter_mut().for_each(|(child, jobs)| jobs.retain(|_, group| is_known(*child, group)));
        (self.machines, self.jobs) = (machines, jobs);
        self.jobs.retain(|_, jobs| !jobs.by_job.is_empty());
    }

    /// What the machine of a post uses, and since when that is known, in microseconds; nothing where that is too long ago.
    pub fn machine(&self, post: PostId, now_us: u64) -> Option<(&Figures, u64)> {
        let group = self.machines.get(&post)?;
        let age_us = now_us.saturating_sub(group.at_us);
        self.is_fresh(post, None, age_us).then_some((&group.figures, age_us))
    }

    /// What is known by name only of a machine that [`Picture::machine`] knows.
    pub fn named(&self, post: PostId) -> Option<&Amounts> {
        self.machines.get(&post).map(|group| &group.named)
    }

    /// What each job uses that runs anywhere.
    pub fn jobs(&self, now_us: u64) -> BTreeMap<JobId, JobFigures> {
        let mut all = BTreeMap::<JobId, (Group, u64)>::new();
        let told = self
            .jobs
            .iter()
            .flat_map(|(child, jobs)| jobs.by_job.iter().map(move |(job, told)| (*child, job, told)));
        for (child, job, told) in told {
            let (sum, oldest_us) = all.entry(*job).or_insert_with(|| (told.emptied(), 0));
            sum.of = sum.of.saturating_add(told.of);
            let age_us = now_us.saturating_sub(told.at_us);
            if self.is_fresh(child, Some(*job), age_us) {
                sum.add(told);
                *oldest_us = age_us.max(*oldest_us);
            }
        }
        let of = |(job, (sum, age_us)): (JobId, (Group, u64))| {
            let Group { figures, named, units, from, of, .. } = sum;
            (job, JobFigures { figures, named, units, from, of, age_us })
        };
        all.into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::metric::Metric;

    use super::*;
    use crate::ids;
    use crate::summary::Summary;
    use crate::values::{Message, ValueId};

    const SECOND_US: u64 = 1_000_000;

    fn message(values: &[(ValueId, u64)]) -> Vec<u8> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut message = Message::new(&mut out, &mut left_out);
        values.iter().for_each(|(id, number)| message.put_number(*id, *number));
        out
    }

    fn said(picture: &mut Picture, post: u64, values: &[(ValueId, u64)], at_us: u64) -> bool {
        let bytes = message(values);
        picture.take(PostId(post), at_us, Triples::read(&bytes).unwrap(), at_us.max(3 * SECOND_US))
    }

    fn of_job(job: u64, units: u64, cpu: u64) -> [(ValueId, u64); 3] {
        [(ids::JOB, job), (ids::UNITS, units), (ids::of(Metric::Cpu), cpu)]
    }

    #[test]
    fn figures_of_a_job_are_those_of_all_its_posts() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), SECOND_US);
        let both = [of_job(7, 1, 300), of_job(8, 1, 5)].concat();
        said(&mut picture, 2, &both, 2 * SECOND_US);
        let all = picture.jobs(2 * SECOND_US);
        let seven = &all[&JobId(7)];
        assert_eq!((seven.units, seven.from, seven.of, seven.age_us), (3, 2, 2, SECOND_US));
        assert_eq!(seven.figures[&Metric::Cpu], Summary { count: 2, sum: 1_200, min: 300, max: 900 });
        assert_eq!(all[&JobId(8)].of, 1);
    }

    #[test]
    fn a_child_tells_of_those_below_it_and_says_of_how_many() {
        let mut picture = Picture::default();
        let below = [(ids::FROM, 31), (ids::OF, 32)];
        said(&mut picture, 1, &[&of_job(7, 40, 900)[..], &below].concat(), SECOND_US);
        let machines = [(ids::POST, 5), (ids::of(Metric::Cpu), 1), (ids::POST, 6), (ids::of(Metric::Cpu), 2)];
        said(&mut picture, 1, &machines, SECOND_US);
        let seven = picture.jobs(SECOND_US)[&JobId(7)].clone();
        assert_eq!((seven.units, seven.from, seven.of), (40, 31, 32));
        assert_eq!(picture.machine(PostId(6), SECOND_US).unwrap().0[&Metric::Cpu].sum, 2);
        // It is no child any more: others tell of its jobs, and the machines are known as they were.
        picture.forget_child(PostId(1));
        assert!(picture.jobs(SECOND_US).is_empty() && picture.machine(PostId(5), SECOND_US).is_some());
    }

    #[test]
    fn what_is_older_than_what_is_known_is_no_news() {
        let mut picture = Picture::default();
        assert!(said(&mut picture, 1, &of_job(7, 2, 900), 2 * SECOND_US));
        assert!(!said(&mut picture, 1, &of_job(7, 9, 1), SECOND_US));
        assert_eq!(picture.jobs(2 * SECOND_US)[&JobId(7)].units, 2);
    }

    #[test]
    fn a_post_that_is_silent_is_missed_and_then_forgotten() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), 0);
        said(&mut picture, 2, &of_job(7, 1, 300), 9 * SECOND_US);
        let seven = picture.jobs(9 * SECOND_US)[&JobId(7)].clone();
        assert_eq!((seven.from, seven.of, seven.units), (1, 2, 1));
        picture.tidy(31 * SECOND_US);
        assert_eq!(picture.jobs(31 * SECOND_US)[&JobId(7)].of, 1);
        picture.tidy(60 * SECOND_US);
        assert!(picture.jobs.is_empty() && picture.machines.is_empty());
    }

    #[test]
    fn names_of_a_post_have_so_much_room_and_what_it_forgets_makes_room() {
        let mut jobs = Jobs::default();
        let mut named = Amounts::default();
        (0..100).for_each(|n| assert!(named.add(&format!("program.{n}"), crate::named::Amount::of(1.0))));
        let group = || Group { named: named.clone(), ..Group::of_nobody() };
        let fit = NAMED_BYTES_MAX / named.bytes();
        (0..=fit as u64).for_each(|job| jobs.put(JobId(job), group()));
        let has_names = |jobs: &Jobs, job| jobs.by_job[&JobId(job)].named.bytes() > 0;
        assert!(has_names(&jobs, fit as u64 - 1) && !has_names(&jobs, fit as u64));
        jobs.remove(JobId(0));
        jobs.put(JobId(fit as u64), group());
        assert!(has_names(&jobs, fit as u64));
        jobs.retain(|_, _| false);
        assert_eq!(jobs.named_bytes, 0);
    }

    #[test]
    fn counts_that_no_post_can_have_do_no_harm() {
        let mut picture = Picture::default();
        for post in 1..3 {
            let below = [(ids::FROM, u64::MAX), (ids::OF, u64::MAX)];
            said(&mut picture, post, &[&of_job(7, u64::MAX, u64::MAX)[..], &below].concat(), SECOND_US);
        }
        let seven = picture.jobs(SECOND_US)[&JobId(7)].clone();
        assert_eq!((seven.units, seven.from, seven.of), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn a_post_says_that_it_runs_a_job_no_more() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), 0);
        said(&mut picture, 1, &of_job(7, 0, 0), 1);
        assert!(picture.jobs(1).is_empty());
    }

    #[test]
    fn of_a_job_that_is_not_to_be_measured_nothing_is_known() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), 0);
        picture.set_periods(SECOND_US, BTreeMap::from([(JobId(7), 0)]), BTreeMap::new());
        assert!(picture.jobs(1).is_empty() && !said(&mut picture, 1, &of_job(7, 2, 900), 1));
        picture.set_periods(SECOND_US, BTreeMap::new(), BTreeMap::from([(PostId(1), 60 * SECOND_US)]));
        said(&mut picture, 1, &of_job(7, 2, 900), 1);
        picture.tidy(150 * SECOND_US);
        assert_eq!(picture.jobs(150 * SECOND_US)[&JobId(7)].from, 1, "it tells once a minute");
    }

    #[test]
    fn a_machine_has_figures_of_its_own_while_they_are_fresh() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &[(ids::of(Metric::Memory), 4_096), (ValueId(77_777), 1)], SECOND_US);
        let (figures, age_us) = picture.machine(PostId(1), 2 * SECOND_US).unwrap();
        assert_eq!((figures[&Metric::Memory].sum, figures.len(), age_us), (4_096, 1, SECOND_US));
        assert!(picture.machine(PostId(1), 5 * SECOND_US).is_none());
        picture.forget(PostId(1));
        assert!(picture.machine(PostId(1), SECOND_US).is_none());
    }
}
