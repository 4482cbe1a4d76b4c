//! What the front knows of the farm's figures: the newest of each post, and what they come to by job. Nothing of it is
//! kept for longer than it is of use.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;

use crate::ids;
use crate::summary::Summary;
use crate::values::Triples;

/// Figures that are older say nothing of what is now, in microseconds.
const FRESH_US: u64 = 3_000_000;
/// So long a post that is silent is still counted among those that run a job.
const KNOWN_US: u64 = 30_000_000;
/// Jobs of a post, at most: what it says of more is not looked at.
const JOBS_MAX: usize = 10_000;

/// Figures by metric.
pub type Figures = BTreeMap<Metric, Summary>;

/// The newest figures of each post.
#[derive(Default, Debug)]
pub struct Picture {
    posts: BTreeMap<PostId, OfPost>,
}

#[derive(Default, Debug)]
struct OfPost {
    machine: Option<(u64, Figures)>,
    jobs: BTreeMap<JobId, OfJob>,
}

#[derive(Debug)]
struct OfJob {
    at_us: u64,
    units: u64,
    figures: Figures,
}

/// What a job uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFigures {
    /// By unit.
    pub figures: Figures,
    /// Units that the figures are of.
    pub units: u64,
    /// Posts that the figures are from.
    pub from: u64,
    /// Posts that run the job, as far as they were heard.
    pub of: u64,
    /// Age of the oldest of the figures, in microseconds.
    pub age_us: u64,
}

impl Picture {
    /// A post has said something.
    pub fn take(&mut self, post: PostId, triples: Triples<'_>, now_us: u64) {
        let known = self.posts.entry(post).or_default();
        let number = |id| triples.find(id).and_then(|triple| triple.number());
        let figures: Figures = triples
            .into_iter()
            .filter_map(|triple| Some((ids::metric(triple.id)?, Summary::read(triple.value)?)))
            .collect();
        let Some(job) = number(ids::JOB).map(JobId) else {
            known.machine = Some((now_us, figures));
            return;
        };
        let units = number(ids::UNITS).unwrap_or_default();
        if units == 0 {
            known.jobs.remove(&job);
        } else if known.jobs.len() < JOBS_MAX || known.jobs.contains_key(&job) {
            known.jobs.insert(job, OfJob { at_us: now_us, units, figures });
        }
    }

    /// A post has gone for good.
    pub fn forget(&mut self, post: PostId) {
        self.posts.remove(&post);
    }

    /// Drops what is too old to be of use.
    pub fn tidy(&mut self, now_us: u64) {
        for known in self.posts.values_mut() {
            known.jobs.retain(|_, of| of.at_us + KNOWN_US > now_us);
            known.machine.take_if(|(at_us, _)| *at_us + KNOWN_US <= now_us);
        }
        self.posts.retain(|_, known| known.machine.is_some() || !known.jobs.is_empty());
    }

    /// What the machine of a post uses, and since when that is known, in microseconds; nothing where that is too long ago.
    pub fn machine(&self, post: PostId, now_us: u64) -> Option<(&Figures, u64)> {
        let (at_us, figures) = self.posts.get(&post)?.machine.as_ref()?;
        let age_us = now_us.saturating_sub(*at_us);
        (age_us <= FRESH_US).then_some((figures, age_us))
    }

    /// What each job uses that runs anywhere.
    pub fn jobs(&self, now_us: u64) -> BTreeMap<JobId, JobFigures> {
        let mut all = BTreeMap::new();
        for (job, of) in self.posts.values().flat_map(|known| &known.jobs) {
            let none = JobFigures { figures: Figures::new(), units: 0, from: 0, of: 0, age_us: 0 };
            let job = all.entry(*job).or_insert(none);
            job.of += 1;
            let age_us = now_us.saturating_sub(of.at_us);
            if age_us > FRESH_US {
                continue;
            }
            job.from += 1;
            job.units += of.units;
            job.age_us = job.age_us.max(age_us);
            for (metric, summary) in &of.figures {
                let known = job.figures.entry(*metric);
                known.and_modify(|known| *known = known.and(*summary)).or_insert(*summary);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Message, ValueId};

    const SECOND_US: u64 = 1_000_000;

    fn message(values: &[(ValueId, u64)]) -> Vec<u8> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut message = Message::new(&mut out, &mut left_out);
        values.iter().for_each(|(id, number)| message.put_number(*id, *number));
        out
    }

    fn said(picture: &mut Picture, post: u64, values: &[(ValueId, u64)], now_us: u64) {
        let bytes = message(values);
        picture.take(PostId(post), Triples::read(&bytes).unwrap(), now_us);
    }

    fn of_job(job: u64, units: u64, cpu: u64) -> [(ValueId, u64); 3] {
        [(ids::JOB, job), (ids::UNITS, units), (ids::of(Metric::Cpu), cpu)]
    }

    #[test]
    fn figures_of_a_job_are_those_of_all_its_posts() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), SECOND_US);
        said(&mut picture, 2, &of_job(7, 1, 300), 2 * SECOND_US);
        said(&mut picture, 2, &of_job(8, 1, 5), 2 * SECOND_US);
        let all = picture.jobs(2 * SECOND_US);
        let seven = &all[&JobId(7)];
        assert_eq!((seven.units, seven.from, seven.of, seven.age_us), (3, 2, 2, SECOND_US));
        assert_eq!(seven.figures[&Metric::Cpu], Summary { count: 2, sum: 1_200, min: 300, max: 900 });
        assert_eq!(all[&JobId(8)].of, 1);
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
        assert!(picture.posts.is_empty());
    }

    #[test]
    fn a_post_says_that_it_runs_a_job_no_more() {
        let mut picture = Picture::default();
        said(&mut picture, 1, &of_job(7, 2, 900), 0);
        said(&mut picture, 1, &of_job(7, 0, 0), 1);
        assert!(picture.jobs(1).is_empty());
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
