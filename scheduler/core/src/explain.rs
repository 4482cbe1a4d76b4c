//! Why: why a job waits, why its tasks have the size that they have, why a node idles or is kept out. Answers
//! are plain sentences with the numbers that decided; sizes and windows come from the functions that decide,
//! so what is told is what is done. Nothing here changes anything.

mod job;
mod node;

use std::fmt::Display;

use starfarm_protocol::admin::{Explanation, Fact, Reason, SizeInfo};
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::units::Units;

use crate::farm::Farm;
use crate::job::{Job, Sizing};
use crate::node::Node;
use crate::refill::{Ideal, Rule, whole_units};

/// How many of a kind are named; the rest are counted.
const NAMED: usize = 3;
/// Nodes whose sizes are told.
const SIZES: usize = 10;
/// Why programs wait where the disk has no room.
const NO_DISK: &str = "The scheduler's disk is below its low-water mark, so no program is started: what it writes could \
                       not be kept. Searches go on. Make room; it goes on by itself.";

/// What is found out about a job or a node.
#[derive(Default)]
struct Findings {
    /// What the subject does or waits for, as an end to `Job 3 ...`.
    verdict: Option<String>,
    reasons: Vec<Reason>,
    facts: Vec<Fact>,
}

impl Findings {
    /// A reason. The first one that decides is the verdict.
    fn decides(&mut self, code: &str, verdict: &str, text: String) {
        self.verdict.get_or_insert_with(|| verdict.to_owned());
        self.adds(code, text);
    }

    /// A reason that plays a part.
    fn adds(&mut self, code: &str, text: String) {
        self.reasons.push(Reason { code: code.to_owned(), text });
    }

    fn fact(&mut self, name: &str, value: impl Display) {
        self.facts.push(Fact { name: name.to_owned(), value: value.to_string() });
    }

    fn explanation(self, subject: String, sizes: Vec<SizeInfo>) -> Explanation {
        let mut verdict = format!("{subject} {}.", self.verdict.unwrap_or_default());
        verdict[..1].make_ascii_uppercase();
        Explanation { subject, verdict, reasons: self.reasons, sizes, facts: self.facts }
    }
}

impl Farm {
    /// The first job in jq before place `end` that has something for node `id`: its slots go there.
    fn goes_first(&self, id: NodeId, end: usize) -> Option<JobId> {
        let has_some =
            |job: &&Job| self.jobs.gives_out(job) && job.pending() > 0 && !job.refused_by.contains_key(&id);
        let jobs = self.jobs.queued().take(end);
        jobs.filter(has_some).map(|job| job.facts.job).next()
    }

    /// Nodes that can be given tasks.
    fn taking(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.taking()
    }

    fn name(&self, id: NodeId) -> String {
        self.nodes.get(id).map_or_else(|| "(forgotten)".to_owned(), |node| node.name.to_string())
    }

    fn names(&self, ids: impl IntoIterator<Item = NodeId>) -> String {
        let mut ids: Vec<NodeId> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut names: Vec<String> = ids.iter().take(NAMED).map(|&id| self.name(id)).collect();
        if ids.len() > NAMED {
            names.push(format!("{} more", ids.len() - NAMED));
        }
        names.join(", ")
    }

    /// The size of the next task of `job` on node `id`, as it would be decided now.
    fn size(&self, job: &Job, id: NodeId) -> SizeInfo {
        let Ideal { units, rule, units_per_s, measured, target, grown, tail, .. } = self.ideal(job, id);
        let rule = match rule {
            Rule::Fixed => "fixed",
            Rule::First => "first",
            Rule::Target => "target",
            Rule::Growth => "growth",
            Rule::Tail => "tail",
        };
        SizeInfo {
            job: job.facts.job,
            node: self.name(id),
            units: Units(units.into()),
            rule: rule.to_owned(),
            units_per_s,
            measured,
            target_seconds: match job.facts.sizing {
                Sizing::TargetUs(target_us) => Some(target_us as f64 / 1e6),
                Sizing::Units(_) => None,
            },
            target_units: (target > 0).then(|| Units(target.into())),
            growth_units_max: (grown > 0).then(|| Units(grown.into())),
            tail_units_max: (tail < u64::MAX).then(|| Units(tail.into())),
            units_max: Units(whole_units(job, units).into()),
        }
    }
}

/// A time that has passed or is to pass.
pub(crate) fn time(us: u64) -> String {
    match us / 1_000_000 {
        _ if us < 100_000 => format!("{} ms", us / 1_000),
        0..10 => format!("{:.1} s", us as f64 / 1e6),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// When something that is to happen at `at_us` does.
fn due(at_us: u64, now_us: u64) -> String {
    match at_us.saturating_sub(now_us) {
        0 => "at once".to_owned(),
        us => format!("in {}", time(us)),
    }
}

/// `1 unit`, `2 units`.
fn counted<N: Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    if number == N::from(1) { format!("{number} {what}") } else { format!("{number} {what}s") }
}
