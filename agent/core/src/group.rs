//! What a message says, put together by whose values they are: those of a machine, or of the units of a job.

use std::collections::BTreeMap;

use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;

use crate::ids;
use crate::named::{Amounts, Named};
use crate::summary::Summary;
use crate::values::{Message, Triple, Triples};

/// Figures by metric.
pub type Figures = BTreeMap<Metric, Summary>;

/// What a job uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFigures {
    /// By unit.
    pub figures: Figures,
    /// Those that have names only.
    pub named: Amounts,
    /// Units that the figures are of.
    pub units: u64,
    /// Posts that the figures are from.
    pub from: u64,
    /// Posts that run the job, as far as they were heard.
    pub of: u64,
    /// Age of the oldest of the figures, in microseconds.
    pub age_us: u64,
}

/// Values that are about the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    /// Who measured.
    pub(crate) post: PostId,
    pub(crate) at_us: u64,
    /// Units of this job, or the machine.
    pub(crate) job: Option<JobId>,
    pub(crate) units: u64,
    /// Nodes whose values these are, and those that run the job.
    pub(crate) from: u64,
    pub(crate) of: u64,
    pub(crate) figures: Figures,
    /// Those that have names only.
    pub(crate) named: Amounts,
}

impl Group {
    fn new(post: PostId, at_us: u64, job: Option<JobId>) -> Self {
        Self {
            post,
            at_us,
            job,
            units: 0,
            from: 1,
            of: 1,
            figures: Figures::new(),
            named: Amounts::default(),
        }
    }

    /// About nothing that anybody has measured.
    pub(crate) fn of_nobody() -> Self {
        Self::new(PostId::FRONT, 0, None)
    }

    /// Nothing of a job runs there any more. Of one whose units others tell of, who says its programs' figures has none from
    /// nobody.
    pub(crate) fn is_over(&self) -> bool {
        self.job.is_some() && self.units == 0 && (self.from > 0 || self.named.is_empty())
    }

    /// Adds what others have measured of the same.
    pub(crate) fn add(&mut self, other: &Self) {
        self.units = self.units.saturating_add(other.units);
        self.from = self.from.saturating_add(other.from);
        for (metric, summary) in &other.figures {
            let known = self.figures.entry(*metric);
            known.and_modify(|known| *known = known.and(*summary)).or_insert(*summary);
        }
        self.named.add_all(&other.named);
    }

    /// The same without any figures, of nobody.
    pub(crate) fn emptied(&self) -> Self {
        Self { units: 0, from: 0, of: 0, ..Self::new(self.post, self.at_us, self.job) }
    }

    /// Puts it into a message, as [`groups`] reads it.
    pub(crate) fn put(&self, message: &mut Message<'_>) {
        message.put_number(ids::AT, self.at_us);
        match self.job {
            Some(job) => {
                message.put_number(ids::JOB, job.0);
                message.put_number(ids::UNITS, self.units);
                message.put_number(ids::FROM, self.from);
                message.put_number(ids::OF, self.of);
            }
            None => message.put_number(ids::POST, self.post.0),
        }
        self.figures.iter().for_each(|(metric, summary)| message.put(ids::of(*metric), &summary.write()));
        self.named.put(message);
    }

    /// Bytes that [`Group::put`] puts, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.figures.len() * 36 + 5 * 12 + self.named.bytes()
    }

    /// Triples that [`Group::put`] puts, at most.
    pub(crate) fn triples(&self) -> usize {
        self.figures.len() + 5 + self.named.len()
    }
}

/// Clocks of posts differ by no more than this, in microseconds.
pub(crate) const AHEAD_US: u64 = 2_000_000;

/// Reads a message of that post, measured at that time unless it says otherwise, and not later than now. Ids that are not known
/// are passed over.
pub(crate) fn groups(post: PostId, at_us: u64, triples: Triples<'_>, now_us: u64) -> Vec<Group> {
    let latest_us = now_us.saturating_add(AHEAD_US);
    let mut groups: Vec<Group> = Vec::new();
    let (mut about, mut is_new) = ((post, at_us, None), true);
    for triple in triples {
        match (triple.id, triple.number()) {
            (ids::POST, Some(number)) => about = (PostId(number), about.1, None),
            (ids::AT, Some(number)) => about.1 = number,
            (ids::JOB, Some(number)) => about.2 = Some(JobId(number)),
            (id, number) => {
                if std::mem::take(&mut is_new) {
                    groups.push(Group::new(about.0, about.1.min(latest_us), about.2));
                }
                let group = groups.last_mut().expect("one was begun before its first value");
                match (id, number) {
                    (ids::UNITS, Some(units)) => group.units = units,
                    (ids::FROM, Some(from)) => group.from = from,
                    (ids::OF, Some(of)) => group.of = of,
                    _ if let Some(Named { name, amount }) = Named::read(&triple) => {
                        let _ = group.named.add(name, amount);
                    }
                    _ => {
                        let summary = ids::metric(id).zip(Summary::read(triple.value));
                        group.figures.extend(summary);
                    }
                }
                continue;
            }
        }
        is_new = true;
    }
    groups
}

/// What a message says of posts that its sender may speak of; none where that is all of it.
pub fn without_others(triples: Triples<'_>, may_speak: impl Fn(PostId) -> bool) -> Option<Vec<u8>> {
    let about = |triple: &Triple<'_>| triple.number().filter(|_| triple.id == ids::POST).map(PostId);
    if triples.into_iter().filter_map(|triple| about(&triple)).all(&may_speak) {
        return None;
    }
    let mut is_others = false;
    Some(Triples::written(triples.into_iter().filter(|triple| {
        if let Some(post) = about(triple) {
            is_others = !may_speak(post);
        }
        // A time is that of the next post, too.
        !is_others || triple.id == ids::AT
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Amount;

    #[test]
    fn groups_are_read_as_they_were_put() {
        let figures = Figures::from([(Metric::Cpu, Summary { count: 2, sum: 9, min: 4, max: 5 })]);
        let machine = Group { figures: figures.clone(), ..Group::new(PostId(3), 7, None) };
        let seven = Group { units: 2, from: 31, of: 32, figures, ..Group::new(PostId(9), 8, Some(JobId(7))) };
        let mut eight = Group { figures: Figures::new(), job: Some(JobId(8)), ..seven.clone() };
        for number in [3.5, -1.0] {
            assert!(eight.named.add("program.temperature", Amount::of(number)));
        }
        for all in [vec![seven, eight], vec![machine.clone(), Group { post: PostId(4), ..machine }]] {
            let (mut out, mut left_out) = (Vec::new(), 0);
            let mut message = Message::new(&mut out, &mut left_out);
            all.iter().for_each(|group| group.put(&mut message));
            assert!(all.iter().all(|group| group.triples() >= group.figures.len() + 2));
            let triples = Triples::read(&out).unwrap();
            assert_eq!(groups(PostId(9), 1, triples, 7), all);
        }
        assert_eq!(groups(PostId(9), 1, Triples::default(), 1), []);
    }

    #[test]
    fn what_a_message_says_of_others_is_left_out() {
        let machine = |post| Group {
            figures: Figures::from([(Metric::Cpu, Summary { count: 1, sum: post, min: post, max: post })]),
            ..Group::new(PostId(post), 7, None)
        };
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut message = Message::new(&mut out, &mut left_out);
        (3..7).for_each(|post| machine(post).put(&mut message));
        let triples = Triples::read(&out).unwrap();
        assert_eq!(without_others(triples, |_| true), None);
        let own = without_others(triples, |post| [PostId(4), PostId(6)].contains(&post)).unwrap();
        assert_eq!(groups(PostId(9), 1, Triples::read(&own).unwrap(), 7), [machine(4), machine(6)]);
        let none = without_others(triples, |_| false).unwrap();
        assert_eq!(groups(PostId(9), 1, Triples::read(&none).unwrap(), 7), []);
    }
}
