//! Why a job waits, where its tasks are and what befell its units, in sentences.

use std::collections::BTreeMap;

use starfarm_events::counted;
use starfarm_protocol::admin::explain::{JobReason, OfferState, PlaceReason, UnitReason};
use starfarm_protocol::devices::{DeviceFacts, DeviceNeeds};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::JobState;
use starfarm_protocol::reason::HoldReason;
use starfarm_protocol::units::Units;

use super::words::{Head, amounts, devices, due, has, needs, time};
use crate::human;

pub(super) fn head(reason: &JobReason) -> Head<'static> {
    match reason {
        JobReason::Paused { .. } => ("paused", "is paused".into()),
        JobReason::Restart { .. } => ("restart", "waits for nodes to reconnect after the restart".into()),
        JobReason::NoNode { .. } => ("no_node", "waits for a node".into()),
        JobReason::RefusedByAll => ("refused_by_all", "waits for a node that can run it".into()),
        JobReason::FitsNowhere { .. } => ("fits_nowhere", "waits for a node that is large enough".into()),
        JobReason::WaitsForRoom { .. } => ("waits_for_room", "waits for a node whose disk has room".into()),
        JobReason::TooSmall { .. } | JobReason::TooSmallMore { .. } => ("too_small", "".into()),
        JobReason::NoDeviceAnywhere { .. } => {
            ("no_device_anywhere", "waits for a node with such a device".into())
        }
        JobReason::NoDevice { .. } => ("no_device", "".into()),
        JobReason::NoTime => ("no_time", "waits for a node that has time for it".into()),
        JobReason::Refused { .. } | JobReason::RefusedByMore { .. } => ("refused", "".into()),
        JobReason::Behind { job, .. } => ("behind", format!("waits behind job {}", job.0).into()),
        JobReason::NoRoom { .. } => ("no_room", "waits for room at nodes".into()),
        JobReason::Lease { .. } => ("lease", "waits for the scheduler's disk".into()),
        JobReason::Decomposer { .. } => ("decomposer", "waits for its decomposer".into()),
        JobReason::AllOut { .. } => ("all_out", "waits for its last tasks at nodes".into()),
        JobReason::Runs { nodes: 0, .. } => ("runs", "gets nodes in a moment".into()),
        JobReason::Runs { .. } => ("runs", "runs".into()),
        JobReason::Ended { state, .. } => ("ended", format!("has ended ({})", state.word()).into()),
        JobReason::FailedUnits => ("failed_units", "".into()),
        JobReason::After { jobs } => ("after", format!("waits for {}", jobs_in_words(jobs)).into()),
        JobReason::AfterFailed { .. } => ("after_failed", "".into()),
        JobReason::MaxNodes { .. } => ("max_nodes", "".into()),
    }
}

const REFUSED_BY_ALL: &str = "Every node that takes tasks has refused it; their reasons are below.";

/// A sentence about job `id`.
pub(super) fn text(reason: &JobReason, id: &str) -> String {
    match reason {
        JobReason::Paused { why } => paused(why.as_ref(), id),
        JobReason::Restart { units, release_us } => restart(*units, *release_us),
        JobReason::NoNode { states, probed } => no_node(states, *probed),
        JobReason::RefusedByAll => REFUSED_BY_ALL.to_owned(),
        JobReason::FitsNowhere { needs } => format!(
            "A unit needs {}, and no node that takes tasks has as much: start a larger worker, or submit it with less.",
            amounts(needs)
        ),
        JobReason::WaitsForRoom { unit } => format!(
            "What is left has files that some disks have no room for, unit {} first: make room there, or start a worker with more.",
            unit.0
        ),
        JobReason::TooSmall { node, lack } => {
            format!("A unit needs {}, and node {node} has {}.", needs(lack), has(lack))
        }
        JobReason::TooSmallMore { nodes } => {
            format!("{} too small as well: `starfarm nodes` lists what they have.", are(*nodes, "more node"))
        }
        JobReason::NoDeviceAnywhere { needs } => no_device(needs, None),
        JobReason::NoDevice { node, needs, has } => no_device(needs, Some((node, has))),
        JobReason::NoTime => {
            "The nodes that could take it leave by themselves before a task of it would be over: \
             start workers with a later `--deadline`, or submit it in smaller units."
                .to_owned()
        }
        JobReason::Refused { node, why, again_us } => format!(
            "Node {node} cannot run it: {why}. It is asked again {}, or at once after `starfarm job resume {id}`.",
            due(*again_us)
        ),
        JobReason::RefusedByMore { nodes } => {
            format!("{} cannot run it: `starfarm job show {id}` lists them.", counted(*nodes, "more node"))
        }
        JobReason::Behind { place, of, job, units, other_jobs, other_units } => {
            behind((*place, *of), (*job, *units), (*other_jobs, *other_units), id)
        }
        JobReason::NoRoom { tasks } => format!(
            "The nodes that could take it have no room: they hold {} of other jobs. It is its turn as these end; \
             `starfarm job switch {id}` runs it at once.",
            counted(*tasks, "task")
        ),
        JobReason::Lease { durable, mark } => format!(
            "It may be given out up to unit {}; the record that allows units up to {} is on its way to the disk.",
            durable.0, mark.0
        ),
        JobReason::Decomposer { units } => format!(
            "The program that names its units has named {} so far, and none of them waits: it is asked for more.",
            counted(units.0, "unit")
        ),
        JobReason::AllOut { units, copies } => all_out(*units, *copies),
        JobReason::Runs { nodes, taking } => {
            format!("Nodes with tasks of it: {nodes}. Nodes that take tasks: {taking}.")
        }
        JobReason::Ended { ago_us, of, done, failed, abandoned, .. } => format!(
            "It ended{}: {} of {} done, {} failed, {} abandoned.",
            ago_us.map_or_else(String::new, |us| format!(" {} ago", time(us))),
            done.0,
            counted(of.0, "unit"),
            failed.0,
            abandoned.0
        ),
        JobReason::After { jobs } => after(jobs),
        JobReason::AfterFailed { job, state } => after_failed(*job, *state),
        JobReason::MaxNodes { nodes } => max_nodes(*nodes),
        JobReason::FailedUnits => format!(
            "`starfarm results {id}` shows the failed units, `starfarm job retry --failed {id}` tries them again."
        ),
    }
}

fn paused(why: Option<&HoldReason>, id: &str) -> String {
    match why {
        None => format!("A person paused it. `starfarm job resume {id}` lets it go on."),
        Some(why @ HoldReason::Decomposer(_)) => format!(
            "The farm paused it: {why}. `starfarm job resume {id}` asks it again, from where its last whole batch ended; \
             `starfarm job cancel {id}` ends it."
        ),
        Some(why @ HoldReason::Storage { .. }) => format!(
            "The farm paused it: {why}. What ran then counts. `starfarm job set {id} --storage-limit BYTES` gives it \
             another limit for all that it stores, `starfarm job resume {id}` lets it store as much again, `starfarm job \
             cancel {id}` ends it."
        ),
        Some(why) => format!(
            "The farm paused it: {why}. `starfarm results {id}` shows the failed units, `starfarm job resume {id}` lets \
             it go on, `starfarm job cancel {id}` ends it."
        ),
    }
}

fn restart(units: Units, release_us: u64) -> String {
    format!(
        "The scheduler was restarted: {} may be at nodes that have not reported yet. Units that no node reports go \
         back to gq {}, or as soon as all nodes known before the restart have sent a full heartbeat.",
        counted(units.0, "unit"),
        due(release_us)
    )
}

fn all_out(units: Units, copies: Option<bool>) -> String {
    let copies = match copies {
        None => "",
        Some(true) => " Idle nodes get copies of late tasks.",
        Some(false) => " Idle nodes get no copies: it was submitted without `--speculative true`.",
    };
    format!("All remaining units ({}) are at nodes.{copies}", units.0)
}

fn after(jobs: &[JobId]) -> String {
    format!(
        "It starts when {} {} ended; merging results is a part of that.",
        jobs_in_words(jobs),
        if jobs.len() == 1 { "has" } else { "have" }
    )
}

fn after_failed(job: JobId, state: JobState) -> String {
    let how = match state {
        JobState::Finished => "whose results could not be merged".to_owned(),
        state => format!("which is {state}"),
    };
    format!("It was to start after job {}, {how}: mend that one, then submit this one again.", job.0)
}

fn max_nodes(nodes: u32) -> String {
    let have = if nodes == 1 { "1 node has tasks".to_owned() } else { format!("{nodes} nodes have tasks") };
    format!("{have} of it, as many as `max_nodes` allows at once: other nodes get nothing of it.")
}

fn are(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "is" } else { "are" })
}

/// "job 3", "jobs 3 and 4".
pub(crate) fn jobs_in_words(jobs: &[JobId]) -> String {
    match jobs.iter().map(|job| job.0.to_string()).collect::<Vec<_>>().as_slice() {
        [one] => format!("job {one}"),
        [first @ .., last] => format!("jobs {} and {last}", first.join(", ")),
        [] => "no job".to_owned(),
    }
}

/// What goes before job `id`.
fn behind(place: (u64, u64), first: (JobId, Units), others: (u64, Units), id: &str) -> String {
    let ((place, of), (job, units), (jobs, other_units)) = (place, first, others);
    let others = match jobs {
        0 => String::new(),
        _ => format!(" and {} of {}", counted(other_units.0, "unit"), counted(jobs, "other job")),
    };
    let go = if units.0 == 1 && jobs == 0 { "goes" } else { "go" };
    format!(
        "It is number {place} of {of} in jq: {} of job {}{others} {go} first. `starfarm job front {id}` makes it the next, \
         `starfarm job switch {id}` runs it at once.",
        counted(units.0, "unit"),
        job.0
    )
}

/// How many nodes there are in each state, none of which takes tasks.
fn no_node(states: &BTreeMap<String, u64>, probed: bool) -> String {
    if states.is_empty() {
        return "No worker has joined: start one with `starfarm worker --join FILE`.".to_owned();
    }
    let probed = if probed { " A quarantined node gets a task now and then, as a probe." } else { "" };
    let word = |state| if state == "no_hello" { "without a hello" } else { state };
    let states: Vec<_> =
        states.iter().map(|(state, nodes)| format!("{nodes} {}", word(state.as_str()))).collect();
    format!(
        "No node takes tasks: {}.{probed} `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts \
         another.",
        states.join(", ")
    )
}

/// Where something of a job is.
pub(super) fn place(reason: &PlaceReason) -> String {
    match reason {
        PlaceReason::AtNode { node, lo, hi, for_us, offer, copy } => {
            let units = Interval::new(lo.0, hi.0);
            let offer = match offer {
                OfferState::Assigned => "not sent yet".to_owned(),
                OfferState::Offered => "sent and not acknowledged yet".to_owned(),
                OfferState::Held(us) => format!("last confirmed {} ago", time(*us)),
            };
            let copy = copy
                .as_ref()
                .map_or_else(String::new, |(node, us)| format!("; node {node} got a copy {} ago", time(*us)));
            format!("Node {node} has had units {units} for {}, {offer}{copy}.", time(*for_us))
        }
        PlaceReason::MoreAtNodes { tasks } => {
            format!("Nodes have {}; none is older.", counted(*tasks, "more task"))
        }
        PlaceReason::Unclaimed { lo, hi } => {
            let units = Interval::new(lo.0, hi.0);
            format!("Units {units} were given out before the restart, and no node has reported them yet.")
        }
        PlaceReason::MoreUnclaimed { ranges, units } => {
            let (ranges, units) = (counted(*ranges, "more range"), counted(units.0, "unit"));
            format!("The same holds for {ranges} with {units}.")
        }
    }
}

pub(super) fn unit_code(reason: &UnitReason) -> &str {
    match reason {
        UnitReason::Hangs { .. } => "hangs",
        UnitReason::SuspectUnit { .. } => "suspect_unit",
        UnitReason::TriedAgain { .. } => "tried_again",
        UnitReason::LacksRoom { .. } => "lacks_room",
        UnitReason::Others { code, .. } => code,
    }
}

/// What befell units.
pub(super) fn unit(reason: &UnitReason) -> String {
    match reason {
        UnitReason::Hangs { job, unit, node, for_us, usual_us, copies, program } => {
            let usual = match usual_us {
                0 => "no unit of the job has ended yet".to_owned(),
                us => format!("such a task takes about {} there", time(*us)),
            };
            let cure = match (copies, program) {
                (true, _) => "The next node with room gets a copy of it.",
                (false, true) => {
                    "A job with `hang_seconds` or `timeout_seconds` ends such a unit by itself. To end this one, \
                     kill its process on the machine: it fails and is tried again as `retries` says."
                }
                (false, false) => {
                    "The job allows no copies: restart the worker, and the unit goes to another node."
                }
            };
            let (unit, job, for_) = (unit.0, job.0, time(*for_us));
            format!(
                "Unit {unit} of job {job} has run on node {node} for {for_}, and {usual}: it seems to hang. {cure}"
            )
        }
        UnitReason::SuspectUnit { unit, times, on, more, most } => format!(
            "Unit {} was running, or may have been, when workers died: {} (on {}). It is tried alone, on other nodes \
             first; after {most} deaths it is given up as poison.",
            unit.0,
            counted(*times, "time"),
            names(on, *more)
        ),
        UnitReason::TriedAgain { unit, times, on, more } => {
            format!(
                "Unit {} failed {} (on {}) and is tried again.",
                unit.0,
                counted(*times, "time"),
                names(on, *more)
            )
        }
        UnitReason::LacksRoom { unit, on, more } => format!(
            "The files of unit {} have no room on the disk of {}: it waits for another node. These are asked again now and \
             then, and at once after `job resume`.",
            unit.0,
            names(on, *more)
        ),
        UnitReason::Others { units, .. } => format!("The same holds for {}.", counted(*units, "other unit")),
    }
}

fn names(nodes: &[Option<String>], more: u64) -> String {
    let more = (more > 0).then(|| format!("{more} more"));
    let names = nodes.iter().map(|name| human::node(name.as_deref()).to_owned()).chain(more);
    names.collect::<Vec<_>>().join(", ")
}

/// No node has such a device, or one node has these.
fn no_device(needs: &DeviceNeeds, of: Option<(&String, &Vec<DeviceFacts>)>) -> String {
    match of {
        Some((node, has)) => {
            format!("It runs on devices alone ({needs}), and node {node} has {}.", devices(has))
        }
        None => format!(
            "It runs on devices alone ({needs}), and no node that takes tasks has one: start a worker where there is one. \
             `starfarm worker --probe` lists what a machine has; a processor as a device must be named by `--devices`."
        ),
    }
}
