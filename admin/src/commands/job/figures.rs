//! A job's figures by name, and what befell it.

use starfarm_events::counted;
use starfarm_protocol::admin::{ConflictInfo, DoubtfulInfo, JobInfo, MergeInfo, MergeState};
use starfarm_protocol::job::JobState;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::units::Units;

use crate::commands::{explain, usage, wait};
use crate::human;
use crate::output::table::Cell;

/// What befell a job: who refuses it, why it is paused, what failed and where, of what nodes say different things.
pub(in crate::commands) fn troubles(job: &JobInfo) -> String {
    let mut text = String::new();
    for refusal in &job.refused_by {
        let (node, why) = (human::printable(&refusal.node), human::printable(&refusal.why));
        text.push_str(&format!("node {node} cannot run it: {why}\n"));
    }
    if !job.note.is_empty() {
        let advice = if job.state == JobState::Paused { wait::paused_advice(job) } else { String::new() };
        let (state, note) = (job.state, human::printable(&job.note));
        text.push_str(&format!("{state}: {note}{advice}\n"));
    }
    text.extend(wait::cut(job.outputs_cut).map(|words| words + "\n"));
    for failed in &job.failures {
        let code = failed.exit_code.or(failed.signal).map_or_else(String::new, |code| format!(" {code}"));
        let place =
            failed.node.as_ref().map_or_else(String::new, |node| format!(" on {}", human::printable(node)));
        text.push_str(&format!("unit {} failed: {}{code}{place}\n", failed.unit, failed.reason));
    }
    let untold = job.units_failed.0.saturating_sub(job.failures.len() as u128);
    if untold > 0 && !job.failures.is_empty() {
        let id = job.id.0;
        text.push_str(&format!("{untold} more have failed: `starfarm results {id}` has them all\n"));
    }
    for ConflictInfo { lo, hi, node } in &job.conflicts {
        let node = node_of(node.as_ref());
        text.push_str(&format!(
            "conflict: {node}'s result for units [{lo}, {hi}) differs from the one that was counted first\n"
        ));
    }
    for untrue in job.trust.iter().flat_map(|trust| &trust.untrue) {
        let (node, why) = (node_of(untrue.node.as_ref()), untrue.why.words());
        let believed = match &untrue.believed {
            other if other.is_some() || untrue.believed_forgotten => {
                format!("the result of {}, whose hits are true", node_of(other.as_ref()))
            }
            _ if untrue.why == Distrust::Differs => "what was counted before".to_owned(),
            _ => "the digest".to_owned(),
        };
        text.push_str(&format!("untrue: {node}, unit {}: {why}; believed is {believed}\n", untrue.unit));
    }
    for DoubtfulInfo { node, units } in job.trust.iter().flat_map(|trust| &trust.doubtful) {
        let (node, units) = (node_of(node.as_ref()), counted(units.0, "unit"));
        text.push_str(&format!(
            "doubtful: {units} done by {node}, which was distrusted after the job had ended: submit the job again\n"
        ));
    }
    text
}

/// "node n3"; a node that is forgotten has no name.
fn node_of(name: Option<&String>) -> String {
    name.map_or_else(|| human::node(None).to_owned(), |name| format!("node {}", human::printable(name)))
}

/// A job's figures, by name.
pub(in crate::commands) fn figures(job: &JobInfo) -> Vec<(&'static str, Cell)> {
    let share_of = |part| Cell::new(format!("{}  ({})", human::units(part), human::share_of(part, job)));
    let mut figures = vec![
        ("id", Cell::new(job.id.0.to_string())),
        ("name", Cell::new(&job.name)),
        ("state", Cell::state(job.state.word())),
        ("user", Cell::new(&job.user)),
        ("specification", Cell::new(job.spec.to_string())),
        ("units", Cell::new(human::total(job))),
        ("  done", share_of(job.units_done)),
        ("  failed", share_of(job.units_failed)),
        ("  out, at nodes", share_of(job.units_out)),
        ("  pending", share_of(job.units_pending)),
        ("  abandoned", share_of(job.units_abandoned)),
        ("duplicate", Cell::new(human::units(Units(job.totals.duplicate_units)))),
        ("hits", Cell::new(human::count(job.hits as f64))),
        ("units per second", Cell::new(human::count(job.units_per_s))),
        ("left", Cell::new(human::seconds_if_known(job.eta_seconds))),
        ("age", Cell::new(human::seconds(job.age_seconds))),
        ("run time", Cell::new(human::seconds_if_known(job.run_seconds))),
        ("tasks cut", Cell::new(human::count(job.totals.decomposed as f64))),
        ("  mean units", Cell::new(human::count(job.task_units_mean))),
        ("  given out", Cell::new(human::count(job.totals.dispatched as f64))),
        ("  resent", Cell::new(human::count(job.totals.resent as f64))),
        ("certificate", Cell::new(certificate(job))),
    ];
    figures.extend(job.usage.iter().flat_map(usage::of_job));
    figures.extend(job.usage_total.iter().flat_map(usage::of_life));
    if let Some(needs) = job.needs {
        figures.push(("slots of a unit", Cell::new(needs.slots.to_string())));
        figures.push(("memory of a unit", Cell::new(human::memory(needs.memory_bytes))));
        if needs.gpus > 0.0 {
            figures.push(("GPUs of a unit", Cell::new(needs.gpus.to_string())));
        }
    }
    if job.stored_bytes > 0 {
        figures.push(("stored", Cell::new(human::memory(job.stored_bytes))));
    }
    let terms = &job.terms;
    for (name, jobs) in [("starts after", &terms.after), ("  after any end of", &terms.after_any)] {
        if !jobs.is_empty() {
            figures.push((name, Cell::new(explain::jobs_in_words(jobs))));
        }
    }
    if let Some(nodes) = terms.max_nodes {
        figures.push(("nodes at once", Cell::new(format!("{nodes} at most"))));
    }
    if let Some(bytes) = terms.storage_limit {
        figures.push(("stored at most", Cell::new(human::memory(bytes))));
    }
    for (key, value) in &terms.labels {
        figures.push(("label", Cell::new(format!("{key}={value}"))));
    }
    if let Some(merge) = &job.merge {
        figures.push(("merge", Cell::new(merged(merge))));
    }
    if let Some(trust) = &job.trust {
        let (checked, total) = (trust.units_checked, job.units_total);
        let share = human::share(checked, total);
        let (asked, found) = (f64::from(trust.check.millionths()) / 1e4, trust.planted_found);
        figures.push((
            "computed twice",
            Cell::new(format!("{}  ({share} of {asked} %)", human::units(checked))),
        ));
        figures.push(("planted answers", Cell::new(format!("{found} of {} found", trust.planted))));
    }
    figures
}

/// How the merge of its results stands, in words.
fn merged(merge: &MergeInfo) -> String {
    let bytes: u64 = merge.output.iter().chain(&merge.files).map(|file| file.bytes).sum();
    match merge.state {
        MergeState::Failed => format!("failed: {}", human::printable(&merge.why)),
        MergeState::Done => format!("done, {} bytes", human::count(bytes as f64)),
        state => state.word().to_owned(),
    }
}

/// What the job's certificate says, in words.
fn certificate(job: &JobInfo) -> String {
    let (done, failed, total) = (job.units_done.0, job.units_failed.0, job.units_total.0);
    let verdict = match job.state {
        state if !state.ended() => return "when it has ended".to_owned(),
        _ if done == total => "complete",
        _ if done + failed == total => "complete, with failures",
        _ => "ended early",
    };
    format!("{verdict}; `starfarm audit DIR --job {}` proves it from the files", job.id.0)
}
