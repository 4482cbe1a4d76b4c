//! The core's views as the values that admin commands get.

use starfarm_protocol::admin::{
    ConflictInfo, Error, ErrorCode, FailedInfo, JobInfo, NetworkInfo, NodeInfo, Refusal, Response,
    StatusInfo, StreamInfo, Subject,
};
use starfarm_protocol::foreign;
use starfarm_protocol::ids::{JobId, to_hex};
use starfarm_protocol::limits::DATAGRAM_BYTES_MAX;
use starfarm_protocol::settings::SETTINGS;
use starfarm_protocol::wire::{FailReason, Stream};
use starfarm_scheduler_core::limits::JOBS_MAX;
use starfarm_scheduler_core::{CommandError, Conflict, FailedUnit, Farm, JobView, NodeView, Verdict};

/// Failed units that come with a job. All of them are in its results.
const FAILURES_SHOWN: usize = 20;

/// A job.
pub(crate) fn job(job: &JobView, now_us: u64) -> JobInfo {
    let totals = &job.totals;
    let waiting = (job.pending + job.out) as f64;
    let seconds = |from_us: u64, to_us: u64| to_us.saturating_sub(from_us) as f64 / 1e6;
    let end_us = totals.ended_us.unwrap_or(now_us);
    JobInfo {
        id: job.id,
        name: job.name.clone(),
        user: job.user.clone(),
        state: job.state.word().into(),
        spec: job.spec,
        units_total: job.units.to_string(),
        units_done: job.done.to_string(),
        units_failed: job.failed.to_string(),
        units_out: job.out.to_string(),
        units_pending: job.pending.to_string(),
        units_abandoned: job.abandoned.to_string(),
        units_duplicate: totals.duplicate_units.to_string(),
        hits: job.hits as u64,
        units_per_s: job.rate_per_s,
        eta_seconds: (job.rate_per_s > 0.0).then(|| waiting / job.rate_per_s),
        age_seconds: seconds(totals.submitted_us, now_us),
        run_seconds: totals.started_us.map(|started_us| seconds(started_us, end_us)),
        tasks_decomposed: totals.decomposed,
        task_units_mean: mean(totals.decomposed_units, totals.decomposed),
        tasks_dispatched: totals.dispatched,
        tasks_resent: totals.resent,
        refused_by: job
            .refused_by
            .iter()
            .map(|(node, why)| Refusal { node: node.clone(), why: why.clone() })
            .collect(),
        note: job.note.as_ref().map_or_else(String::new, |note| note.to_string()),
        outputs_cut: 0,
        failures: Vec::new(),
        conflicts: Vec::new(),
    }
}

/// A job with what befell it: for who asks for this one.
pub(crate) fn whole_job(farm: &Farm, job: &JobView, now_us: u64) -> JobInfo {
    let failed = farm.found_page(job.id, 0, FAILURES_SHOWN).failed;
    let conflict = |(lo, hi, node): &(u128, u128, String)| ConflictInfo {
        lo: lo.to_string(),
        hi: hi.to_string(),
        node: node.clone(),
    };
    JobInfo {
        failures: failed.iter().map(|(unit, why)| failed_unit(*unit, why, farm)).collect(),
        conflicts: job.conflicts.iter().map(conflict).collect(),
        ..self::job(job, now_us)
    }
}

/// A node. How large a datagram it is sent is for the caller to fill in.
pub(crate) fn node(node: &NodeView) -> NodeInfo {
    let facts = node.facts.as_ref();
    NodeInfo {
        name: node.name.clone(),
        state: node.state.word().into(),
        why: node.why.clone(),
        drained: node.drained,
        slots: node.slots,
        power: node.power,
        tasks: node.tasks as u64,
        tasks_queued: node.queued_tasks.into(),
        tasks_done: node.totals.tasks_done,
        units_done: node.totals.units_done.to_string(),
        speed_ups: node.totals.speed_ups,
        slow_downs: node.totals.slow_downs,
        offers_repeated: node.totals.offers_repeated,
        silent_seconds: node.silent_us.map(|silent_us| silent_us as f64 / 1e6),
        joined_seconds: node.joined_us as f64 / 1e6,
        load: node.load.clone(),
        idle_seconds: node.idle_us as f64 / 1e6,
        datagram_bytes: Some(DATAGRAM_BYTES_MAX as u32),
        system: facts.map(|facts| facts.system.clone()),
        cpu: facts.map(|facts| facts.cpu.clone()),
        cores: facts.map(|facts| facts.cores),
        memory_bytes: facts.map(|facts| facts.memory_bytes),
        accelerators: facts.map(|facts| facts.accelerators.clone()),
    }
}

/// The farm's online figures. What the core does not know is for the caller to fill in: farm id, dropped
/// and refused datagrams, notes.
pub(crate) fn status(farm: &mut Farm, now_us: u64) -> StatusInfo {
    let view = farm.status(now_us);
    let nodes: Vec<_> = farm.nodes(now_us).iter().map(node).collect();
    let up = nodes.iter().filter(|node| node.state == "up");
    let (count, power) = up.fold((0, 0.0), |(count, power), node| (count + 1, power + node.power));
    let settings = SETTINGS.iter().zip(farm.settings().values());
    let settings = settings.map(|(setting, value)| (setting.key.to_owned(), value)).collect();
    StatusInfo {
        farm: String::new(),
        epoch: view.epoch,
        up_seconds: 0.0,
        gq: view.gq as u64,
        dq: view.dq as u64,
        jq: view.jq as u64,
        resent: view.totals.resent,
        offers_repeated: view.totals.offers_repeated,
        dq_oldest_seconds: view.dq_oldest_us as f64 / 1e6,
        granularity_seconds: view.target_us.map(|target_us| target_us as f64 / 1e6),
        tasks_decomposed: view.totals.decomposed,
        task_units_mean: mean(view.totals.decomposed_units, view.totals.decomposed),
        speed_ups: view.totals.feedback[1].0,
        slow_downs: view.totals.feedback[1].1,
        power_mean: power / f64::from(count.max(1)),
        results_counted: view.verdicts.count(Verdict::Counted) + view.verdicts.count(Verdict::CountedPartly),
        results_duplicate: view.verdicts.count(Verdict::Duplicate),
        datagrams_dropped: 0,
        network: NetworkInfo {
            datagrams_in: view.traffic[0].datagrams,
            bytes_in: view.traffic[0].bytes,
            datagrams_out: view.traffic[1].datagrams,
            bytes_out: view.traffic[1].bytes,
        },
        log_events_dropped: 0,
        stderr_lines_dropped: 0,
        datagrams_refused: 0,
        settings,
        notes: Vec::new(),
        nodes,
    }
}

/// A unit that failed for good.
pub(crate) fn failed_unit(unit: u128, failed: &FailedUnit, farm: &Farm) -> FailedInfo {
    let (exit_code, signal) = code(Some(failed.reason), failed.code);
    let node = failed.node.map(|node| farm.node_name(node));
    FailedInfo { unit: unit.to_string(), reason: failed.reason.word().into(), exit_code, signal, node }
}

/// The exit code and the signal of a program that ended with `code`.
pub(crate) fn code(failed: Option<FailReason>, code: Option<i32>) -> (Option<i32>, Option<i32>) {
    match failed {
        Some(FailReason::Signal) => (None, code),
        // The code of a program that was ended by us tells nothing about the program.
        Some(FailReason::Timeout) => (None, None),
        _ => (code, None),
    }
}

/// What was written to a stream.
pub(crate) fn stream(stream: &Stream) -> StreamInfo {
    match stream {
        Stream::Inline(bytes) => {
            let (text, hex) = text_or_hex(bytes);
            let length = bytes.len() as u64;
            StreamInfo { text, hex, hash: None, kept: length, total: length, cut_at: None }
        }
        Stream::Uploaded { hash, kept, total } => {
            // The worker keeps a head and a tail of half the limit each, the odd byte in the head.
            let cut_at = (kept < total).then(|| kept - kept / 2);
            let (hash, kept, total) = (Some(*hash), *kept, *total);
            StreamInfo { text: String::new(), hex: None, hash, kept, total, cut_at }
        }
    }
}

/// Bytes as text, and as hexadecimal digits where they are not UTF-8.
pub(crate) fn text_or_hex(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(to_hex(bytes))),
    }
}

/// An error of a kind.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> Response {
    Response::Error(Error { code, message: message.into() })
}

/// No job has that number.
pub(crate) fn no_job(id: JobId) -> Response {
    command_error(CommandError::NotFound, &Subject::Job(id))
}

/// Why a command on a job or node was not carried out.
pub(crate) fn command_error(e: CommandError, subject: &Subject) -> Response {
    // The name is as somebody gave it.
    let (name, list) = match subject {
        Subject::Job(id) => (format!("job {}", id.0), "jobs"),
        Subject::Node(name) => (format!("node {}", foreign::name(name)), "nodes"),
    };
    match e {
        CommandError::NotFound => {
            error(ErrorCode::NotFound, format!("no {name}: `starfarm {list}` lists them"))
        }
        CommandError::Conflict(why) => conflict(why, &name),
    }
}

/// Why a command on what is called `name` does not fit.
pub(crate) fn conflict(why: Conflict, name: &str) -> Response {
    let message = match why {
        Conflict::NoUnit => "a job has at least one unit".to_owned(),
        Conflict::TooManyJobs => {
            format!("the farm knows {JOBS_MAX} jobs: delete ended ones with `starfarm job delete ID`")
        }
        Conflict::NotEnded => {
            format!("{name} has not ended: `starfarm job delete --cancel` cancels it first")
        }
        Conflict::Ended(state) => format!("{name} has ended ({})", state.word()),
        Conflict::EndedForGood(state) => format!("{name} has ended ({}): submit it again", state.word()),
        Conflict::NoFailedUnit => format!("{name} has no failed unit"),
        Conflict::NotPaused => format!("{name} is not paused"),
        Conflict::Paused => format!("{name} is paused: resume it first"),
        Conflict::WorkerStops => {
            format!("{name} is draining because its worker stops: start the worker again to have it back")
        }
        Conflict::NotLost(state) => format!("{name} is {}: only a lost node can be forgotten", state.word()),
    };
    error(ErrorCode::Conflict, message)
}

fn mean(units: u128, tasks: u64) -> f64 {
    if tasks == 0 { 0.0 } else { units as f64 / tasks as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_has_is_said_again_tamed_and_cut() {
        let name = format!("w\u{1b}[2J\u{202e}{}", "x".repeat(1_000_000));
        let Response::Error(e) = command_error(CommandError::NotFound, &Subject::Node(name)) else {
            panic!("no error");
        };
        let shown = format!("w\\u{{1b}}[2J\\u{{202e}}{}…", "x".repeat(74));
        assert_eq!(e.message, format!("no node {shown}: `starfarm nodes` lists them"));
    }
}
