//! An explanation as it is printed, reasons and facts in words. The words of each reason stand in `job` and `node`.

use serde::Serialize;
use starfarm_events::counted;
use starfarm_protocol::admin::explain::Silence;
use starfarm_protocol::admin::{AlarmInfo, Explanation, Fact, FactValue, JobInfo, Reason, SizeInfo, Subject};

use super::words::{Head, amounts, time};
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

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SaidReason {
    /// A word for it, always the same.
    pub(crate) code: String,
    /// A sentence with its numbers, and the command that helps, where one does.
    pub(crate) text: String,
    /// What the sentence was made of.
    pub(crate) data: Reason,
}

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
        let mut verdict = format!("{subject} ");
        verdict[..1].make_ascii_uppercase();
        let mut reasons = Vec::new();
        for (at, data) in why.reasons.into_iter().enumerate() {
            let ((code, decides), text) = in_words(&data, kind, &it);
            if at == why.verdict {
                verdict.push_str(&decides);
            }
            reasons.push(SaidReason { code: code.to_owned(), text, data });
        }
        verdict.push('.');
        let fact = |Fact { name, value }| SaidFact { name, value: value_text(value) };
        Self { subject, verdict, reasons, sizes: why.sizes, facts: why.facts.into_iter().map(fact).collect() }
    }
}

/// Of a job whose units use less than this share of their slots' cores, it is said that they wait for something else.
const BUSY: f64 = 0.5;
/// Alarms that are told of a job, the worst.
const ALARMS_SHOWN: usize = 8;

impl Said {
    /// The same of a node whose machine has alarms: it may get nothing for one of them.
    pub(crate) fn and_alarms(mut self, node: &str, alarms: &[AlarmInfo]) -> Self {
        let of_node = alarms.iter().filter(|alarm| alarm.node == node);
        let value = |alarm: &AlarmInfo| format!("{}, {}: {}", alarm.sensor, alarm.level, alarm.text);
        self.facts.extend(of_node.map(|alarm| SaidFact { name: "alarm".into(), value: value(alarm) }));
        self
    }

    /// The same of a job: it may be slow for an alarm of whatever node.
    pub(crate) fn and_alarms_of_all(mut self, alarms: &[AlarmInfo]) -> Self {
        let value =
            |alarm: &AlarmInfo| format!("{}, {}, {}: {}", alarm.node, alarm.sensor, alarm.level, alarm.text);
        let more = alarms.len().saturating_sub(ALARMS_SHOWN);
        let more = (more > 0).then(|| format!("and {more} more: `starfarm monitor alarms` lists them"));
        let values = alarms.iter().take(ALARMS_SHOWN).map(value).chain(more);
        self.facts.extend(values.map(|value| SaidFact { name: "alarm".into(), value }));
        self
    }

    /// The same of a job of which is known what its units use: a job that is slow may have units that do not compute.
    pub(crate) fn and_uses(mut self, job: &JobInfo) -> Self {
        let usage = job.usage.as_ref();
        let Some((usage, cores)) = usage.and_then(|usage| Some((usage, usage.cpu_cores?))) else {
            return self;
        };
        // A unit in a slot may use a core.
        let slots = usage.units * job.needs.map_or(1, |needs| needs.slots.max(1));
        if slots == 0 {
            return self;
        }
        let uses = format!("{:.1} of {}", cores.sum, counted(slots, "core"));
        if cores.sum < slots as f64 * BUSY {
            let stop = self.verdict.trim_end_matches('.').len();
            self.verdict.truncate(stop);
            self.verdict.push_str(&format!("; its units use {uses}."));
        }
        self.facts.push(SaidFact { name: "cores_in_use".into(), value: uses });
        self
    }
}

/// The head of a reason and its sentence, for `it`: the job of that number or the node of that name.
fn in_words<'a>(reason: &'a Reason, kind: &str, it: &str) -> (Head<'a>, String) {
    match reason {
        Reason::Job(reason) => (job::head(reason), job::text(reason, it)),
        Reason::Place(reason) => (("at_node", "".into()), job::place(reason)),
        Reason::Unit(reason) => ((job::unit_code(reason), "".into()), job::unit(reason)),
        Reason::KeptOut(reason) => (node::head(reason), node::text(reason, it)),
        Reason::Work(reason) => (node::work_head(reason), node::work(reason)),
        Reason::Offer(job, reason) => ((node::offer_code(reason), "".into()), node::offer(job.0, reason)),
        Reason::NoDisk => {
            let verdict = match kind {
                "job" => "waits for room on the scheduler's disk",
                _ => "idles: the scheduler's disk has no room",
            };
            let text = "The scheduler's disk has too little room above its low-water mark, or jobs store as much as the \
                        farm may: `starfarm status` says which. No program is started, and what programs wrote waits \
                        at its node. Searches go on. Make room, as with `starfarm job delete`, and programs start \
                        again by themselves.";
            (("no_disk", verdict.into()), text.to_owned())
        }
    }
}

fn value_text(value: FactValue) -> String {
    match value {
        FactValue::Word(word) => word,
        FactValue::Count(count) => count.0.to_string(),
        FactValue::Amounts(all) => amounts(&all),
        FactValue::Place(place, of) => format!("{place} of {of}"),
        FactValue::Lasts(us) => time(us),
        FactValue::Ago(us) | FactValue::Silence(Silence::For(us)) => format!("{} ago", time(us)),
        FactValue::Silence(Silence::SinceBefore(us)) => {
            format!("not since before this scheduler started, {} ago", time(us))
        }
    }
}
