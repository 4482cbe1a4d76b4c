//! What the workers of a story hold: as much of them as makes its next lines mean something. It follows from the
//! lines and from what the farm sent, so a story that lost some of its lines has workers, too.

use std::collections::BTreeMap;

use starfarm_protocol::wire::{Message, messages};
use starfarm_scheduler_core::NodeId;

use crate::common::line::Line;

/// Tasks remembered after they were computed, given back, or lost with their incarnation.
const PAST_MAX: usize = 24;

/// Units that were offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Task {
    pub job: u64,
    pub lo: u128,
    pub hi: u128,
    pub attempt: u64,
    /// The farm has taken it back.
    pub let_go: bool,
}

#[derive(Clone, Default, Debug)]
pub struct Worker {
    pub boot: u64,
    pub slots: u64,
    /// It said goodbye or lost its key.
    pub gone: bool,
    /// The key is worth nothing any more.
    pub revoked: bool,
    pub held: Vec<Task>,
    pub past: Vec<Task>,
    /// It has said a result that can come again.
    pub has_result: bool,
    /// Results that it has said as this incarnation.
    said: u64,
    /// What those computed that are not acknowledged, by number.
    pub unacknowledged: BTreeMap<u64, (u64, u128, u128)>,
}

#[derive(Clone, Default, Debug)]
pub struct Workers(pub BTreeMap<u32, Worker>);

pub fn letter(id: u32) -> char {
    char::from(b'a' + id as u8)
}

impl Worker {
    fn forget(&mut self, task: Task) {
        if self.past.len() == PAST_MAX {
            self.past.remove(0);
        }
        self.past.push(task);
    }

    /// What it holds of [lo, hi) is over.
    fn over(&mut self, job: u64, lo: u128, hi: u128) {
        for task in std::mem::take(&mut self.held) {
            let (from, to) = (task.lo.max(lo), task.hi.min(hi));
            if task.job != job || from >= to {
                self.held.push(task);
                continue;
            }
            self.forget(Task { lo: from, hi: to, ..task });
            let rest = [(task.lo, from), (to, task.hi)].map(|(lo, hi)| Task { lo, hi, ..task });
            self.held.extend(rest.into_iter().filter(|rest| rest.lo < rest.hi));
        }
    }

    /// Its tasks as a heartbeat lists them, and what it did that is not acknowledged: neighbours of a job joined.
    pub fn intervals(&self) -> Vec<(u64, u128, u128)> {
        let held = self.held.iter().map(|task| (task.job, task.lo, task.hi));
        let mut all: Vec<(u64, u128, u128)> = held.collect();
        for &(job, lo, hi) in self.unacknowledged.values() {
            if !all.iter().any(|of| of.0 == job && of.1 < hi && lo < of.2) {
                all.push((job, lo, hi));
            }
        }
        joined(all)
    }
}

pub fn joined(mut intervals: Vec<(u64, u128, u128)>) -> Vec<(u64, u128, u128)> {
    intervals.sort_unstable();
    let mut joined: Vec<(u64, u128, u128)> = Vec::new();
    for (job, lo, hi) in intervals {
        match joined.last_mut() {
            Some((last, _, end)) if (*last, *end) == (job, lo) => *end = hi,
            _ => joined.push((job, lo, hi)),
        }
    }
    joined
}

/// As a line lists them.
pub fn listed(intervals: &[(u64, u128, u128)]) -> String {
    let words: Vec<_> = intervals.iter().map(|(job, lo, hi)| format!("{job}:{lo}+{}", hi - lo)).collect();
    if words.is_empty() { "none".into() } else { words.join(",") }
}

impl Workers {
    /// What a line makes of them.
    pub fn said(&mut self, line: &Line<'_>) {
        match line.verb() {
            "join" | "hello" => {
                let worker = self.0.entry(line.node().0).or_default();
                let boot = line.named("boot", worker.boot.max(1));
                worker.slots = line.named("slots", if worker.boot == 0 { 1 } else { worker.slots });
                if boot != worker.boot {
                    std::mem::take(&mut worker.held).into_iter().for_each(|task| worker.forget(task));
                    (worker.boot, worker.has_result, worker.said) = (boot, false, 0);
                    worker.unacknowledged.clear();
                }
                worker.gone = false;
            }
            "done" | "ran" | "return" | "refuse" => {
                let ((lo, units), job) = (line.interval(2), line.named("job", 1));
                let worker = self.0.entry(line.node().0).or_default();
                (worker.has_result, worker.said) = (true, worker.said + 1);
                let hi = lo + u128::from(units);
                if matches!(line.verb(), "done" | "ran") {
                    worker.unacknowledged.insert(worker.said, (job, lo, hi));
                }
                worker.over(job, lo, hi);
            }
            "bye" | "revoke" => {
                let worker = self.0.entry(line.node().0).or_default();
                worker.gone = true;
                worker.revoked |= line.verb() == "revoke";
                std::mem::take(&mut worker.held).into_iter().for_each(|task| worker.forget(task));
            }
            _ => {}
        }
    }

    /// What the farm said to them.
    pub fn heard(&mut self, sent: &[(NodeId, Vec<u8>)]) {
        for (id, datagram) in sent {
            let worker = self.0.entry(id.0).or_default();
            for message in messages(datagram).map(Result::unwrap) {
                match message {
                    Message::Offers(offers) => {
                        for offer in offers.map(Result::unwrap) {
                            let (job, lo, attempt) = (offer.job.0, offer.lo, offer.attempt.0);
                            let task =
                                Task { job, lo, hi: lo + u128::from(offer.units), attempt, let_go: false };
                            let known = |of: &Task| of.attempt == attempt;
                            if !worker.gone && !worker.held.iter().chain(&worker.past).any(known) {
                                worker.held.push(task);
                            }
                        }
                    }
                    Message::ResultAck(_, ranges) => {
                        for (first, last) in ranges {
                            worker.unacknowledged.retain(|number, _| !(first..=last).contains(number));
                        }
                    }
                    Message::Revoke(revoke) => {
                        let meant =
                            |task: &&mut Task| task.job == revoke.job.0 && task.attempt < revoke.before.0;
                        worker.held.iter_mut().filter(meant).for_each(|task| task.let_go = true);
                    }
                    _ => {}
                }
            }
        }
    }
}
