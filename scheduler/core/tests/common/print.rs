//! The farm in the words of the stories: what it says to a node, and how jobs and nodes stand.

use starfarm_protocol::admin::{ConflictInfo, DoubtfulInfo, Refusal, UntrueInfo};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::resources::Resource;
use starfarm_protocol::wire::{Cancel, Message, Needs, Offer};
use starfarm_scheduler_core::{Farm, NodeId, Record};

pub fn name(id: NodeId) -> char {
    char::from(b'a' + id.0 as u8)
}

/// What a scheduler may say to a worker; offers as `ATTEMPT=LO+UNITS`.
pub fn message(message: Message<'_>) -> String {
    match message {
        Message::Welcome(welcome) => format!("welcome epoch {}", welcome.epoch.0),
        Message::Offers(offers) => {
            let offers: Vec<Offer> = offers.map(Result::unwrap).collect();
            let task = |o: &Offer| format!("{}={}+{}", o.attempt.0, o.lo, o.units);
            format!(
                "offer job {}: {}",
                offers[0].job.0,
                offers.iter().map(task).collect::<Vec<_>>().join(" ")
            )
        }
        Message::ResultAck(_, ranges) => format!("ack results {:?}", ranges.collect::<Vec<_>>()),
        Message::HeartbeatAnswer(answer) => format!("answer {}", answer.number),
        Message::Needs(Needs { job, run }) => format!(
            "job {} takes {} slots, {} of memory",
            job.0,
            run.of(Resource::Slots),
            run.of(Resource::Memory)
        ),
        Message::Revoke(w) => {
            let letting = if w.cancel == Cancel::Forced { "kill" } else { "trim" };
            format!("withdraw job {} {letting} before {}", w.job.0, w.before.0)
        }
        Message::Pace(p) => {
            format!("pace idle {} reconnect {} period {}", p.idle_ms, p.reconnect_ms, p.period_ms)
        }
        other => panic!("a scheduler does not say {other:?}"),
    }
}

/// A job in one line. What is zero or empty is left out, but for the three counts that always matter.
pub fn job(farm: &Farm, id: JobId) -> String {
    let Some(job) = farm.job(id, 0) else { return format!("job {} is unknown", id.0) };
    let mut line = format!(
        "job {} is {}: done {}, out {}, waiting {}",
        id.0,
        job.state.word(),
        job.units_done,
        job.units_out,
        job.units_pending
    );
    let counts = [
        ("abandoned", job.units_abandoned.0),
        ("duplicate", job.totals.duplicate_units),
        ("resent tasks", u128::from(job.totals.resent)),
        ("copies", u128::from(job.totals.copies)),
    ];
    for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        line += &format!(", {what} {count}");
    }
    let hits = Vec::from_iter(farm.hits(id));
    if !hits.is_empty() {
        line += &format!(", hits {hits:?}");
    }
    for (unit, failed) in farm.failed_units(id) {
        let code = failed.code.map_or(String::new(), |code| format!(" {code}"));
        line += &format!(", unit {unit} failed by {}{code}", failed.reason.word());
    }
    for Refusal { node, why } in job.refused_by {
        line += &format!(", refused by {node}: {why}");
    }
    for ConflictInfo { lo, hi, node } in job.conflicts {
        line += &format!(", conflict with {} in [{lo}, {hi})", or_forgotten(node));
    }
    if let Some(trust) = job.trust {
        line += &format!(", checked {}", trust.units_checked);
        if trust.planted > 0 {
            line += &format!(", planted {} of {}", trust.planted_found, trust.planted);
        }
        for UntrueInfo { unit, node, why, believed, believed_forgotten } in trust.untrue {
            let is_by_node = believed.is_some() || believed_forgotten;
            let by = if is_by_node { format!(", by {}", or_forgotten(believed)) } else { String::new() };
            line += &format!(", untrue at {unit}: {} {}{by}", or_forgotten(node), why.word());
        }
        for DoubtfulInfo { node, units } in trust.doubtful {
            line += &format!(", {units} doubtful by {}", or_forgotten(node));
        }
    }
    if !job.note.is_empty() {
        line += &format!(", since {}", job.note);
    }
    line
}

fn or_forgotten(name: Option<String>) -> String {
    name.unwrap_or_else(|| "a forgotten node".to_owned())
}

pub fn nodes(farm: &mut Farm, now_us: u64) -> String {
    let nodes = farm.nodes(now_us);
    let why = |why: &str| if why.is_empty() { String::new() } else { format!(" ({why})") };
    let words: Vec<_> =
        nodes.iter().map(|node| format!("{} {}{}", node.name, node.state.word(), why(&node.why))).collect();
    if words.is_empty() { "no nodes".to_owned() } else { words.join(", ") }
}

/// How many tasks in dq a node has.
pub fn tasks(farm: &mut Farm, id: NodeId, now_us: u64) -> String {
    let tasks = farm.nodes(now_us).iter().find(|node| node.id == id).map_or(0, |node| node.tasks);
    format!("{} has {tasks} tasks", name(id))
}

/// How far a job is leased.
pub fn lease(farm: &Farm, id: JobId) -> String {
    let leased = |record: &Record| match record {
        Record::Leased { job, mark } if *job == id => Some(*mark),
        _ => None,
    };
    let mark = farm.durable_state().iter().find_map(leased).unwrap_or(0);
    format!("job {} is leased up to {mark}", id.0)
}
