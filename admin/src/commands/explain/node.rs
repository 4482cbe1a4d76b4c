//! Why a node idles, works or is kept out, in sentences.

use starfarm_events::counted;
use starfarm_protocol::admin::explain::{AheadInfo, NodeReason, OfferReason, Silence, WorkReason};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::reason::QuarantineReason;

use super::job::jobs_in_words;
use super::words::{Head, devices, due, has, needs, time};

pub(super) fn head(reason: &NodeReason) -> Head<'static> {
    let (code, verdict) = match reason {
        NodeReason::Revoked => ("revoked", "is out: its key was revoked"),
        NodeReason::Left { .. } => ("left", "has left"),
        NodeReason::Lost { .. } => ("lost", "is lost"),
        NodeReason::NoHello { again: false } => ("no_hello", "has not joined yet"),
        NodeReason::NoHello { again: true } => ("no_hello", "is coming back"),
        NodeReason::Suspect { .. } => ("suspect", "is suspect"),
        NodeReason::Drained { .. } => ("drained", "is draining"),
        NodeReason::Stopping => ("stopping", "is draining"),
        NodeReason::Distrusted { .. } => ("distrusted", "is quarantined"),
        NodeReason::Quarantined { .. } => ("quarantined", "is quarantined"),
        NodeReason::Conflict { .. } => ("conflict", ""),
    };
    (code, verdict.into())
}

/// A sentence about the node of that name.
pub(super) fn text(reason: &NodeReason, name: &str) -> String {
    match reason {
        NodeReason::Revoked => format!(
            "Its tasks went back to gq, and it cannot come back with that key. To have its machine back, move the \
             worker's state directory away and start it with a valid join file; `starfarm node forget {name}` drops \
             this node from the list."
        ),
        NodeReason::Left { silence } => format!(
            "Its worker said goodbye {}. Start it again, or drop it from the list with `starfarm node forget {name}`.",
            match silence {
                Silence::For(us) => format!("{} ago", time(*us)),
                Silence::SinceBefore(us) => format!("before this scheduler started {} ago", time(*us)),
            }
        ),
        NodeReason::Lost { silence, lost_us, units } => {
            let lost = match silence {
                Silence::For(_) => format!(
                    " A node is lost after {}. {} went back to gq.",
                    time(*lost_us),
                    counted(units.0, "unit")
                ),
                Silence::SinceBefore(_) => String::new(),
            };
            format!(
                "{}{lost} See whether its machine, its network and its worker are up; `starfarm node forget {name}` drops \
                 it from the list.",
                silent(*silence)
            )
        }
        NodeReason::NoHello { again: false } => {
            "It has opened a session and not said hello yet, or its worker speaks \
                                                 another version: install the same version here and there."
                .to_owned()
        }
        NodeReason::NoHello { again: true } => {
            "It has opened a new session; it gets tasks once its worker has said \
                                                hello in it, in this version of the protocol."
                .to_owned()
        }
        NodeReason::Suspect { silence, suspect_us, lost_us, tasks } => format!(
            "{} After {} a node gets no new tasks; after {} it is lost, and its tasks go back to gq ({tasks} now).",
            silent(*silence),
            time(*suspect_us),
            time(*lost_us)
        ),
        NodeReason::Drained { lost: true } => format!(
            "A person also drained it: when it is back it gets nothing until `starfarm node resume {name}`."
        ),
        NodeReason::Drained { lost: false } => format!(
            "A person drained it: it finishes its tasks and gets no new ones. `starfarm node resume {name}` undoes that."
        ),
        NodeReason::Stopping => {
            "Its worker is stopping: it finishes its running tasks and says goodbye. Start the worker again \
                                 to have it back."
                .to_owned()
        }
        NodeReason::Distrusted { why } => {
            format!("It gets nothing: {}. Test its machine, then `starfarm node resume {name}`.", why.words())
        }
        NodeReason::Quarantined { why, probe } => quarantined(*why, *probe, name),
        NodeReason::Conflict { job, lo, hi } => {
            format!(
                "Its results for units {} of job {} differ from those of others.",
                Interval::new(lo.0, hi.0),
                job.0
            )
        }
    }
}

fn silent(silence: Silence) -> String {
    match silence {
        Silence::For(us) => format!("It has been silent for {}.", time(us)),
        Silence::SinceBefore(us) => {
            format!("It has not been heard since before this scheduler started {} ago.", time(us))
        }
    }
}

fn quarantined(why: Option<QuarantineReason>, probe: Option<(u64, u64)>, name: &str) -> String {
    let why = match why {
        Some(why) => why.to_string(),
        None => "lost tasks that it had acknowledged".to_owned(),
    };
    match probe {
        None => format!("It is also quarantined: it {why}."),
        Some((in_us, pause_us)) => format!(
            "It {why}. It gets one task at a time as a probe, the next one {}, the one after that no sooner than {} \
             later; a probe that passes brings it back, or `starfarm node resume {name}`.",
            due(in_us),
            time(pause_us)
        ),
    }
}

pub(super) fn work_head(reason: &WorkReason) -> Head<'static> {
    let (code, verdict) = match reason {
        WorkReason::Busy { .. } => ("busy", "works"),
        WorkReason::Running { .. } => ("running", ""),
        WorkReason::Window { .. } => ("window", ""),
        WorkReason::NoJob => ("no_job", "idles: there is no job"),
        WorkReason::Paused => ("paused", "idles: jobs are paused"),
        WorkReason::Refused => ("refused", "idles: it refused the jobs"),
        WorkReason::NothingLeft => ("nothing_left", "idles: nothing is left to give"),
        WorkReason::TooSmall => ("too_small", "idles: it is too small for the jobs"),
        WorkReason::NoTime { .. } => ("no_time", "idles: it leaves soon"),
        WorkReason::After => ("after", "idles: jobs wait for other jobs"),
        WorkReason::MaxNodes => ("max_nodes", "idles: jobs have as many nodes as they may have"),
        WorkReason::Waiting => ("waiting", "gets a task in a moment"),
    };
    (code, verdict.into())
}

/// What a node does.
pub(super) fn work(reason: &WorkReason) -> String {
    match reason {
        WorkReason::Busy { job, tasks, ranges, units, for_us } => {
            let what = counted(*tasks, if *ranges { "range" } else { "task" });
            let (units, for_) = (counted(units.0, "unit"), time(*for_us));
            format!("It has {what} of job {}, {units}; the oldest for {for_}.", job.0)
        }
        WorkReason::Running { units, more } => {
            let units = units.iter().map(|(job, unit)| format!("unit {} of job {}", unit.0, job.0));
            let units = units.collect::<Vec<_>>().join(", ");
            let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
            format!("Its last heartbeat said that it runs {units}{more}.")
        }
        WorkReason::Window { held, tasks, a_slot, slots, ahead, steps, queue } => {
            let ahead = match ahead {
                AheadInfo::Nothing(job) => format!(
                    "of job {}, whose runs compute whole tasks, none waits while their start is learnt or little is left",
                    job.0
                ),
                AheadInfo::Learning => "the duration of its tasks is still being learnt".to_owned(),
                AheadInfo::Scarce(job, us) => {
                    format!("little is left of job {}, so {} of work ahead", job.0, time(*us))
                }
                AheadInfo::Full(us) => format!("{} of work ahead", time(*us)),
            };
            let steps = match steps {
                0 => "speed-ups and slow-downs change nothing".to_owned(),
                steps @ 1.. => format!("speed-ups add {steps}"),
                steps => format!("slow-downs take {} away", -steps),
            };
            format!(
                "It has {} and may hold {tasks}: {a_slot} for each of {} ({ahead}), {steps}; its own queue takes {queue}.",
                counted(*held, "task"),
                counted(*slots, "slot")
            )
        }
        WorkReason::NoJob => "There is no unfinished job. `starfarm submit` adds one.".to_owned(),
        WorkReason::Paused => "The jobs that it could work on are paused.".to_owned(),
        WorkReason::Refused => "It cannot run the jobs that have work.".to_owned(),
        WorkReason::NothingLeft => "All remaining units are at other nodes.".to_owned(),
        WorkReason::TooSmall => "A unit of the jobs that have work needs more than it has.".to_owned(),
        WorkReason::NoTime { left_us } => {
            format!("It leaves by itself in {}, before a task of what waits would be over.", time(*left_us))
        }
        WorkReason::After => "The jobs that it could work on wait for other jobs to end.".to_owned(),
        WorkReason::MaxNodes => {
            "The jobs that it could work on have as many nodes as `max_nodes` allows.".to_owned()
        }
        WorkReason::Waiting => "There is work for it.".to_owned(),
    }
}

pub(super) fn offer_code(reason: &OfferReason) -> &'static str {
    match reason {
        OfferReason::Paused { .. } => "job_paused",
        OfferReason::Refused { .. } => "job_refused",
        OfferReason::AllOut { .. } => "job_all_out",
        OfferReason::Doubted => "job_doubted",
        OfferReason::Lease => "job_lease",
        OfferReason::TooSmall { .. } => "job_too_small",
        OfferReason::NoDevice { .. } => "job_no_device",
        OfferReason::NoTime => "job_no_time",
        OfferReason::After { .. } => "job_after",
        OfferReason::MaxNodes { .. } => "job_max_nodes",
        OfferReason::Waits { .. } => "job_waits",
    }
}

/// What job `job` has for the node.
pub(super) fn offer(job: u64, reason: &OfferReason) -> String {
    match reason {
        OfferReason::Paused { why } => {
            let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            format!("Job {job} is paused{why}. `starfarm job resume {job}` lets it go on.")
        }
        OfferReason::Refused { why, again_us } => format!(
            "It cannot run job {job}: {why}. It is asked again {}, or at once after `starfarm job resume {job}`.",
            due(*again_us)
        ),
        OfferReason::AllOut { units, copies } => {
            let last = match units.0 {
                1 => format!("The last unit of job {job} is at another node"),
                units => format!("The last {units} units of job {job} are at other nodes"),
            };
            let copies = if *copies { "it gets a copy of a late one" } else { "the job allows no copies" };
            format!("{last}; {copies}.")
        }
        OfferReason::Doubted => format!(
            "The last units of job {job} that it ran failed, while others pass: it gets one unit at a time, from \
             other parts of the job, until one passes."
        ),
        OfferReason::Lease => {
            format!("More of job {job} can be given out once its record is on the scheduler's disk.")
        }
        OfferReason::TooSmall { lack } => {
            format!("A unit of job {job} needs {}, and the node has {}.", needs(lack), has(lack))
        }
        OfferReason::NoDevice { needs, has } => {
            format!("Job {job} runs on devices alone ({needs}), and the node has {}.", devices(has))
        }
        OfferReason::NoTime => {
            format!("A task of job {job} would not be over before the node leaves by itself.")
        }
        OfferReason::After { jobs } => format!("Job {job} waits for {} to end.", jobs_in_words(jobs)),
        OfferReason::MaxNodes { nodes } => {
            format!("Job {job} has {}, as many as `max_nodes` allows.", counted(*nodes, "node"))
        }
        OfferReason::Waits { units } => {
            let wait = if units.0 == 1 { "waits" } else { "wait" };
            format!("{} of job {job} {wait}.", counted(units.0, "unit"))
        }
    }
}
