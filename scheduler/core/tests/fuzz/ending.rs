//! The end of each story: faults stop, what a person had forbidden is allowed again, and a healthy node comes. All jobs
//! must end now, whatever happened to them before.

use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::Per;
use starfarm_scheduler_core::{Body, JobFacts, JobState, NodeState, Record};

use crate::chance::Chance;
use crate::common::print;
use crate::play::Play;
use crate::workers::{Task, joined, letter, listed};

/// Rounds in which all must have ended; from [`ROUNDS_SHORT`] on one takes longer: hours in all.
const ROUNDS: usize = 400;
const ROUNDS_SHORT: usize = 20;
/// Outcomes of programs in one result: they must fit into a datagram.
pub const OUTCOMES_MAX: u128 = 40;

/// Lets the farm finish; panics where it does not.
pub fn end(play: &mut Play, seed: u64) {
    let mut chance = Chance::new(seed);
    // Some are never heard again.
    let silent: Vec<u32> = (0..32).filter(|_| chance.one_in(4)).collect();
    ["durable", "room"].iter().for_each(|line| play.line(line));
    for node in play.bench.farm.nodes(play.bench.now_us) {
        // What never said hello nobody can command.
        play.line(&format!("undrain {}", node.name));
    }
    let fresh = play.workers.0.keys().max().map_or(0, |last| last + 1);
    play.line(&format!("join {} slots 2", letter(fresh)));
    let well: Vec<u32> =
        play.workers.0.iter().filter(|(_, worker)| !worker.gone).map(|(&id, _)| id).collect();
    let well: Vec<u32> = well.into_iter().filter(|id| *id == fresh || !silent.contains(id)).collect();
    well.iter().filter(|id| **id != fresh).for_each(|&id| play.line(&format!("hello {}", letter(id))));
    for round in 0..ROUNDS {
        resume(play);
        if play.bench.farm.jobs(0).iter().all(|job| job.state.ended()) {
            return;
        }
        well.iter().for_each(|&id| work(play, id));
        // Where there was no room for it, it tries again.
        let known: Vec<u32> = play.bench.farm.nodes(play.bench.now_us).iter().map(|node| node.id.0).collect();
        let unknown = well.iter().filter(|id| !known.contains(id));
        unknown.for_each(|&id| play.line(&format!("hello {}", letter(id))));
        let beats: Vec<_> = well
            .iter()
            .map(|&id| format!("{} {}", letter(id), listed(&play.workers.0[&id].intervals())))
            .collect();
        let ms = if round < ROUNDS_SHORT { 1_000 } else { 20_000 };
        play.line(&format!("live +{ms} {}", beats.join(" ")));
    }
    let left: Vec<JobId> =
        play.bench.farm.jobs(0).iter().filter(|job| !job.state.ended()).map(|job| job.id).collect();
    let left: Vec<String> = left.iter().map(|&id| print::job(&play.bench.farm, id)).collect();
    let nodes = print::nodes(&mut play.bench.farm, play.bench.now_us);
    panic!("a job does not end\n{}\n{nodes}", left.join("\n"));
}

/// Jobs that a person or too many failures paused go on.
fn resume(play: &mut Play) {
    for job in play.bench.farm.jobs(0) {
        if job.state == JobState::Paused {
            play.line(&format!("resume {}", job.id.0));
        }
    }
    for node in play.bench.farm.nodes(play.bench.now_us) {
        if node.state == NodeState::Quarantined && node.why.contains("differ") {
            play.line(&format!("undrain {}", node.name));
        }
    }
}

/// A task that its node gives back.
pub fn returned(play: &Play, id: u32, task: &Task) -> String {
    let Task { job, lo, hi, attempt, .. } = *task;
    format!("return {} {lo}+{} job {job}{} attempt {attempt}", letter(id), hi - lo, spec(play, job))
}

/// A node that is well acknowledges what it was offered, and computes all that it holds.
fn work(play: &mut Play, id: u32) {
    play.line(&format!("ack {}", letter(id)));
    // Its results may be lost: they are said once more.
    for (_, units) in
        std::mem::take(&mut play.workers.0.get_mut(&id).expect("it is one of them").unacknowledged)
    {
        computed(play, id, units);
    }
    let worker = &play.workers.0[&id];
    let (let_go, wanted): (Vec<Task>, Vec<Task>) = worker.held.iter().partition(|task| task.let_go);
    for task in let_go {
        play.line(&returned(play, id, &task));
    }
    for (job, lo, hi) in joined(wanted.iter().map(|task| (task.job, task.lo, task.hi)).collect()) {
        computed(play, id, (job, lo, hi));
    }
}

fn computed(play: &mut Play, id: u32, (job, lo, hi): (u64, u128, u128)) {
    let (letter, spec, work) = (letter(id), spec(play, job), facts(play, job).map(|facts| facts.work.body));
    match work {
        Some(Body::Outcomes { .. }) if is_together(play, job) => {
            play.line(&format!("ran {letter} {lo}+{0} ok*{0} job {job}{spec}", hi - lo));
        }
        Some(Body::Outcomes { .. }) => {
            let mut at = lo;
            while at < hi {
                let units = OUTCOMES_MAX.min(hi - at);
                let ok = vec!["ok"; units as usize].join(",");
                play.line(&format!("ran {letter} {at}+{units} {ok} job {job}{spec}"));
                at += units;
            }
        }
        Some(Body::Hits { .. }) => {
            let hits = hits(lo, hi, true_hit);
            play.line(&format!("done {letter} {lo}+{}{hits} job {job}{spec}", hi - lo));
        }
        _ => play.line(&format!("done {letter} {lo}+{} job {job}{spec}", hi - lo)),
    }
}

/// What a job is, as its last submission says.
pub fn facts(play: &Play, job: u64) -> Option<&JobFacts> {
    play.bench.records.iter().rev().find_map(|record| match record {
        Record::Submitted(facts) if facts.job.0 == job => Some(facts),
        _ => None,
    })
}

/// One run computes all units of a task of this job.
pub fn is_together(play: &Play, job: u64) -> bool {
    facts(play, job).is_some_and(|facts| facts.work.per == Per::Task)
}

/// After a restart a job may have the number that another one had, and a specification of its own.
pub fn spec(play: &Play, job: u64) -> String {
    let spec = facts(play, job).map_or(job, |facts| u64::from(facts.spec.0[0]));
    if spec == job { String::new() } else { format!(" spec {spec}") }
}

/// What a search finds where nobody is mistaken.
pub fn true_hit(unit: u128) -> bool {
    unit % 37 == 5
}

pub fn hits(lo: u128, hi: u128, mut hit: impl FnMut(u128) -> bool) -> String {
    let hits: Vec<String> = (lo..hi).filter(|&unit| hit(unit)).map(|unit| format!("{unit}:0")).collect();
    if hits.is_empty() { String::new() } else { format!(" hits {}", hits.join(",")) }
}
