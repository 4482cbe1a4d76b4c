//! An explanation as it is printed, reasons and facts in words. The words of each reason stand in `job` and `node`.

use serde::Serialize;
use starfarm_protocol::admin::explain::Silence;
use starfarm_protocol::admin::{Explanation, Fact, FactValue, Reason, SizeInfo, Subject};

use super::words::{Head, time};
use super::{job, node};

/// An explanation in words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Said {
    /// `job 3` or `node lab-7`.
    pub(crate) subject: String,
    /// The answer, in one sentence.
    pub(crate) verdict: String,
    pub(crate) reasons: Vec<SaidReason>,
    pub(crate) sizes: Vec<SizeInfo>,
    pub(crate) facts: Vec<SaidFact>,
}

/// A reason in words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SaidReason {
    /// A word for it, always the same.
    pub(crate) code: String,
    /// A sentence with its numbers, and the command that helps, where one does.
    pub(crate) text: String,
    /// What the sentence was made of.
    pub(crate) data: Reason,
}

/// A fact in words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SaidFact {
    pub(crate) name: String,
    /// With its unit.
    pub(crate) value: String,
}

impl From<Explanation> for Said {
    fn from(why: Explanation) -> Self {
        let (kind, it) = match why.subject {
            Subject::Job(id) => ("job", id.0.to_string()),
            Subject::Node(name) => ("node", name),
        };
        let subject = format!("{kind} {it}");
        let words = why.reasons.get(why.verdict).map_or_else(|| "".into(), |reason| head(reason, kind).1);
        let mut verdict = format!("{subject} {words}.");
        verdict[..1].make_ascii_uppercase();
        let reason = |data| SaidReason { code: head(&data, kind).0.to_owned(), text: text(&data, &it), data };
        let fact = |Fact { name, value }| SaidFact { name, value: value_text(value) };
        let reasons = why.reasons.into_iter().map(reason).collect();
        let facts = why.facts.into_iter().map(fact).collect();
        Self { subject, verdict, reasons, sizes: why.sizes, facts }
    }
}

fn head<'a>(reason: &'a Reason, kind: &str) -> Head<'a> {
    match reason {
        Reason::Job(reason) => job::head(reason),
        Reason::Place(_) => ("at_node", "".into()),
        Reason::Unit(reason) => (job::unit_code(reason), "".into()),
        Reason::KeptOut(reason) => node::head(reason),
        Reason::Work(reason) => node::work_head(reason),
        Reason::Offer(_, reason) => (node::offer_code(reason), "".into()),
        Reason::NoDisk if kind == "job" => ("no_disk", "waits for room on the scheduler's disk".into()),
        Reason::NoDisk => ("no_disk", "idles: the scheduler's disk has no room".into()),
    }
}

/// The sentence of a reason for `it`, the job of that number or the node of that name.
fn text(reason: &Reason, it: &str) -> String {
    match reason {
        Reason::Job(reason) => job::text(reason, it),
        Reason::Place(reason) => job::place(reason),
        Reason::Unit(reason) => job::unit(reason),
        Reason::KeptOut(reason) => node::text(reason, it),
        Reason::Work(reason) => node::work(reason),
        Reason::Offer(job, reason) => node::offer(job.0, reason),
        Reason::NoDisk => "The scheduler's disk is below its low-water mark, so no program is started: what it writes \
                           could not be kept. Searches go on. Make room, and programs start again by themselves."
            .to_owned(),
    }
}

fn value_text(value: FactValue) -> String {
    match value {
        FactValue::Word(word) => word,
        FactValue::Count(count) => count.0.to_string(),
        FactValue::Place(place, of) => format!("{place} of {of}"),
        FactValue::Lasts(us) => time(us),
        FactValue::Ago(us) | FactValue::Silence(Silence::For(us)) => format!("{} ago", time(us)),
        FactValue::Silence(Silence::SinceBefore(us)) => {
            format!("not since before this scheduler started, {} ago", time(us))
        }
    }
}
