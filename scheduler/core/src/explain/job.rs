//! Why a job waits, and where what is left of it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use starfarm_events::NodeState;
use starfarm_protocol::admin::{Explanation, SizeInfo};
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::NODE_TASKS_MAX;

use super::{Findings, NAMED, NO_DISK, SIZES, counted, due, time};
use crate::farm::Farm;
use crate::job::{Job, JobState, Sizing};
use crate::limits::POISON_DEATHS;
use crate::node::Node;
use crate::queues::{Class, NOBODY, State, Task};

impl Farm {
    /// Why job `id` waits or runs as it does; none where there is no such job.
    pub fn explain_job(&self, id: JobId, now_us: u64) -> Option<Explanation> {
        let job = self.jobs.get(id)?;
        let mut found = Findings::default();
        let (copies, tasks): (Vec<&Task>, Vec<&Task>) = self
            .queues
            .tasks()
            .filter(|task| task.job == id && task.state != State::Back)
            .partition(|task| task.copy);
        if job.state.ended() {
            ended(job, now_us, &mut found);
        } else {
            self.why_it_waits(job, &tasks, now_us, &mut found);
            self.where_it_is(tasks.clone(), &copies, now_us, &mut found);
            self.what_befell_it(job, now_us, &mut found);
        }
        self.job_facts(job, unclaimed(tasks.iter().copied()), &mut found);
        found.fact("tasks_in_dq", tasks.len() + copies.len());
        Some(found.explanation(format!("job {}", id.0), self.job_sizes(job)))
    }

    fn why_it_waits(&self, job: &Job, tasks: &[&Task], now_us: u64, found: &mut Findings) {
        let id = job.facts.job.0;
        if job.state == JobState::Paused {
            let text = match job.note.as_str() {
                "" => format!("A person paused it. `starfarm job resume {id}` lets it go on."),
                note => format!(
                    "The farm paused it: {note}. `starfarm results {id}` shows what failed, `starfarm job resume {id}` \
                     lets it go on, `starfarm job cancel {id}` ends it."
                ),
            };
            found.decides("paused", "is paused", text);
        }
        let (pending, unclaimed) = (job.pending(), unclaimed(tasks.iter().copied()));
        if unclaimed > 0 {
            let text = format!(
                "The scheduler started again: {} may be at nodes that have not said so yet. What none of them \
                 has goes back to gq in {}, or once all nodes of before have spoken.",
                counted(unclaimed, "unit"),
                time(self.reconnect.release_us().unwrap_or(now_us).saturating_sub(now_us))
            );
            match pending {
                0 => found.decides("restart", "waits for the nodes of before the scheduler's start", text),
                _ => found.adds("restart", text),
            }
        }
        if pending > 0 && job.active() && self.jobs.lacks_room(job) {
            found.decides("no_disk", "waits for room on the scheduler's disk", NO_DISK.into());
        }
        if pending > 0 && job.active() {
            self.who_takes_it(job, now_us, found);
        }
        if job.waits_for_lease() {
            let text = format!(
                "It may be given out up to unit {}; the record that allows more, up to unit {}, is on its way to the disk.",
                job.lease.durable(),
                job.lease.mark()
            );
            match tasks {
                [] => found.decides("lease", "waits for the scheduler's disk", text),
                // Nodes have work meanwhile: that is what leases are ahead for.
                _ => found.adds("lease", text),
            }
        }
        let out = job.units.coverage().count(Class::Out);
        if pending == 0 && out > 0 && unclaimed == 0 {
            let copies = match job.facts.speculative {
                _ if !job.active() => "",
                true => " Nodes that idle get copies of what is late.",
                false => {
                    " Nodes that idle get no copies of it: it was submitted without `--speculative true`."
                }
            };
            let text = format!("All that is left, {}, is given out.{copies}", counted(out, "unit"));
            found.decides("all_out", "waits for what is at nodes", text);
        }
        let at: BTreeSet<NodeId> =
            tasks.iter().map(|task| task.node).filter(|node| *node != NOBODY).collect();
        let verdict = if at.is_empty() { "gets nodes in a moment" } else { "runs" };
        if found.verdict.is_none() {
            let text = format!(
                "Nodes that have tasks of it: {}. Nodes that can be given tasks: {}.",
                at.len(),
                self.taking().count()
            );
            found.decides("runs", verdict, text);
        }
    }

    /// Units wait: who could take them, and what is in the way.
    fn who_takes_it(&self, job: &Job, now_us: u64, found: &mut Findings) {
        let id = job.facts.job;
        let able: Vec<NodeId> =
            self.taking().map(|(node, _)| node).filter(|node| !job.refused_by.contains_key(node)).collect();
        if self.taking().next().is_none() {
            found.decides("no_node", "waits for a node", self.nobody());
        } else if able.is_empty() {
            let text = "Each node that is up has said that it cannot run it; their words are below.";
            found.decides("refused_by_all", "waits for a node that can run it", text.into());
        }
        for (&node, refusal) in job.refused_by.iter().take(NAMED) {
            let text = format!(
                "Node {} cannot run it: {}. It is asked again {}, by `starfarm job resume {}` at once.",
                self.name(node),
                refusal.why,
                due(refusal.probe.at_us, now_us),
                id.0
            );
            found.adds("refused", text);
        }
        if job.refused_by.len() > NAMED {
            let more = job.refused_by.len() - NAMED;
            found.adds(
                "refused",
                format!("{more} more cannot run it: `starfarm job show {}` lists them.", id.0),
            );
        }
        let place = self.jobs.place_of(id).expect("a job that has not ended is in jq");
        let first: Vec<Option<JobId>> = able.iter().map(|&node| self.goes_first(node, place)).collect();
        if let Some(Some(before)) = first.first().copied()
            && first.iter().all(Option::is_some)
        {
            let text = format!(
                "It is number {} of {} in jq, and {} first. `starfarm job front {}` makes it the next, \
                 `starfarm job switch {}` runs it at once.",
                place + 1,
                self.jobs.queue_len(),
                self.ahead_of_it(before, place, &able),
                id.0,
                id.0
            );
            found.decides("behind", &format!("waits behind job {}", before.0), text);
        }
        let free = able.iter().zip(&first).filter(|(_, before)| before.is_none()).map(|(&node, _)| node);
        self.no_room(job, free, now_us, found);
    }

    /// The nodes whose turn it is for this job have all that they may have, of others too.
    fn no_room(&self, job: &Job, free: impl Iterator<Item = NodeId>, now_us: u64, found: &mut Findings) {
        let free: Vec<(NodeId, &Node)> = free.filter_map(|id| Some((id, self.nodes.get(id)?))).collect();
        let room = |&(id, _): &(NodeId, &Node)| {
            self.room(job, id, &self.ideal(job, id), NODE_TASKS_MAX as usize, now_us)
        };
        let tasks = free.iter().flat_map(|(id, _)| self.queues.tasks_at(*id));
        let others = tasks.filter(|task| task.job != job.facts.job).count();
        if others > 0
            && job.units.coverage().count(Class::Out) == 0
            && free.iter().all(|node| room(node) == 0)
        {
            let text = format!(
                "Nodes that could be given some of it hold all that they may, with {} of other jobs. It is its turn \
                 as these end; `starfarm job switch {}` runs it at once.",
                counted(others as u64, "task"),
                job.facts.job.0
            );
            found.decides("no_room", "waits for room at nodes", text);
        }
    }

    /// That the units of job `before` go, and those of the others ahead of place `place` in jq that nodes of `able`
    /// can take.
    fn ahead_of_it(&self, before: JobId, place: usize, able: &[NodeId]) -> String {
        let units = self.jobs.get(before).map_or(0, Job::pending);
        let first = format!("{} of job {}", counted(units, "unit"), before.0);
        let waits = |job: &&Job| job.active() && job.pending() > 0 && job.facts.job != before;
        let taken = |job: &&Job| able.iter().any(|node| !job.refused_by.contains_key(node));
        let jobs = self.jobs.queued().take(place);
        let others: Vec<u128> = jobs.filter(waits).filter(taken).map(Job::pending).collect();
        match others.len() {
            0 => format!("{first} {}", if units == 1 { "goes" } else { "go" }),
            jobs => format!(
                "{first} and {} of {} go",
                counted(others.iter().sum::<u128>(), "unit"),
                counted(jobs as u64, "other job")
            ),
        }
    }

    /// Why no node can be given anything, but for a probe.
    fn nobody(&self) -> String {
        // One that is up and cannot be given anything has a session in which it has not said hello.
        let word = |node: &Node| match node.health().state() {
            NodeState::Up => "without a hello",
            NodeState::Lost if node.health().boot().is_none() => "left",
            state => state.word(),
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.nodes.iter().for_each(|(_, node)| *counts.entry(word(node)).or_default() += 1);
        let probed = self.nodes.iter().any(|(_, node)| node.health().is_probation());
        let probed =
            if probed { " One that is quarantined gets a task now and then, as a probe." } else { "" };
        let states: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        match states.is_empty() {
            true => "No worker has joined: start one with `starfarm worker --join FILE`.".into(),
            false => format!(
                "No node takes tasks: {}.{probed} `starfarm node explain NAME` says why; `starfarm worker --join \
                 FILE` starts another.",
                states.join(", ")
            ),
        }
    }

    /// The oldest of what is at nodes.
    fn where_it_is(&self, mut tasks: Vec<&Task>, copies: &[&Task], now_us: u64, found: &mut Findings) {
        tasks.sort_unstable_by_key(|task| (task.since_us, task.at.lo));
        for task in tasks.iter().take(NAMED) {
            let age = time(now_us.saturating_sub(task.since_us));
            let units = format!("units {}", task.at);
            let text = match task.node {
                NOBODY => format!(
                    "No node has said yet that it has {units}, given out before the scheduler's start."
                ),
                node => {
                    let confirmed = self.confirmed(task, copies, now_us);
                    format!("Node {} has had {units} for {age}, {confirmed}.", self.name(node))
                }
            };
            found.adds("at_node", text);
        }
        let rest = tasks.get(NAMED..).unwrap_or_default();
        let (unclaimed, more): (Vec<&Task>, Vec<&Task>) = rest.iter().partition(|task| task.node == NOBODY);
        if !unclaimed.is_empty() {
            let units = unclaimed.iter().map(|task| task.left).sum::<u128>();
            let text = format!(
                "Nor has one said so of {}, {}.",
                counted(unclaimed.len() as u64, "more range"),
                counted(units, "unit")
            );
            found.adds("at_node", text);
        }
        if !more.is_empty() {
            let more = counted(more.len() as u64, "more task");
            found.adds("at_node", format!("Nodes have {more}, none of them older."));
        }
    }

    /// What is known of a task at a node.
    fn confirmed(&self, task: &Task, copies: &[&Task], now_us: u64) -> String {
        let mut text = match task.state {
            State::Assigned => "not sent yet".to_owned(),
            State::Offered => "sent and not acknowledged yet".to_owned(),
            State::Back => "about to go back".to_owned(),
            State::Held { seen_us } => {
                format!("last confirmed {} ago", time(now_us.saturating_sub(seen_us)))
            }
        };
        let same = |copy: &&&Task| copy.at.overlaps(task.at);
        if let Some(copy) = copies.iter().find(same) {
            let age = time(now_us.saturating_sub(copy.since_us));
            text += &format!("; node {} got a copy {age} ago", self.name(copy.node));
        }
        text
    }

    /// Units that failed or killed workers, and are not given up.
    fn what_befell_it(&self, job: &Job, now_us: u64, found: &mut Findings) {
        let hung = self.nodes.iter().flat_map(|(id, _)| self.hung_on(id, now_us));
        let hung: Vec<_> = hung.filter(|(of, ..)| *of == job.facts.job).collect();
        for (of, unit, text) in hung.iter().take(NAMED) {
            found.adds("hangs", format!("Unit {unit} {text} {}", self.cure(*of)));
        }
        if hung.len() > NAMED {
            let more = counted((hung.len() - NAMED) as u64, "other unit");
            found.adds("hangs", format!("So it is with {more}."));
        }
        for unit in job.units.deaths.units(Interval::new(0, u128::MAX)).take(NAMED) {
            let text = format!(
                "Unit {unit} was running, or may have been, when workers died: {} (on {}). It is tried alone, on other nodes first; \
                 after {POISON_DEATHS} deaths it is given up as poison.",
                counted(job.units.deaths.of(unit).count() as u64, "time"),
                self.names(job.units.deaths.of(unit).map(|death| death.0))
            );
            found.adds("suspect_unit", text);
        }
        for unit in job.units.failures.units(Interval::new(0, u128::MAX)).take(NAMED) {
            let text = format!(
                "Unit {unit} failed {} (on {}) and is tried again.",
                counted(job.units.failures.of(unit).count() as u64, "time"),
                self.names(job.units.failures.of(unit).map(|run| run.1))
            );
            found.adds("tried_again", text);
        }
        let suspects = job.units.deaths.units(Interval::new(0, u128::MAX)).count();
        let tried_again = job.units.failures.units(Interval::new(0, u128::MAX)).count();
        for (code, units) in [("suspect_unit", suspects), ("tried_again", tried_again)] {
            if units > NAMED {
                found.adds(code, format!("So it is with {}.", counted((units - NAMED) as u64, "other unit")));
            }
        }
    }

    fn job_facts(&self, job: &Job, unclaimed: u128, found: &mut Findings) {
        let id = job.facts.job;
        found.fact("state", job.state.word());
        if let Some(place) = self.jobs.place_of(id) {
            found.fact("place_in_jq", format!("{} of {}", place + 1, self.jobs.queue_len()));
        }
        match job.facts.sizing {
            Sizing::TargetUs(target_us) => found.fact("target", time(target_us)),
            Sizing::Units(units) => found.fact("units_per_task", units),
        }
        found.fact("units_waiting", job.pending());
        found.fact("units_at_nodes", job.units.coverage().count(Class::Out).saturating_sub(unclaimed));
        if unclaimed > 0 {
            found.fact("units_unclaimed", unclaimed);
        }
        found.fact("tasks_in_gq", self.queues.waiting_of(id));
    }

    /// Sizes on the largest of the nodes that could be given some of it.
    fn job_sizes(&self, job: &Job) -> Vec<SizeInfo> {
        if job.pending() == 0 {
            return Vec::new();
        }
        let mut nodes: Vec<_> = self.taking().filter(|(id, _)| !job.refused_by.contains_key(id)).collect();
        nodes.sort_by_key(|(id, node)| (Reverse(node.slots()), *id));
        nodes.iter().take(SIZES).map(|&(id, _)| self.size(job, id)).collect()
    }
}

/// Units that were leased before the scheduler's start, and that no node has said to hold.
fn unclaimed<'a>(tasks: impl Iterator<Item = &'a Task>) -> u128 {
    tasks.filter(|task| task.node == NOBODY).map(|task| task.left).sum()
}

fn ended(job: &Job, now_us: u64, found: &mut Findings) {
    let id = job.facts.job.0;
    let ago = job
        .totals
        .ended_us
        .map_or_else(String::new, |ended_us| format!(" {} ago", time(now_us.saturating_sub(ended_us))));
    let count = |class| job.units.coverage().count(class);
    let text = format!(
        "It ended{ago}: {} of {} done, {} failed, {} abandoned.",
        count(Class::Done),
        counted(job.facts.units, "unit"),
        count(Class::Failed),
        job.abandoned()
    );
    found.decides("ended", &format!("has ended ({})", job.state.word()), text);
    if job.state == JobState::Failed && !job.units.failed.is_empty() {
        let text = format!(
            "`starfarm results {id}` shows what failed, `starfarm job retry --failed {id}` tries it again."
        );
        found.adds("failed_units", text);
    }
}
