//! Why a node has nothing to do, or is kept out.

use std::collections::BTreeMap;

use starfarm_events::IdleReason;
use starfarm_protocol::admin::Explanation;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;

use super::{Findings, NAMED, NO_DISK, SIZES, counted, due, time};
use crate::farm::Farm;
use crate::health::{Drain, Presence};
use crate::job::{Job, JobState};
use crate::limits::{PREFETCH_SCARCE_US, PREFETCH_US};
use crate::node::{Ahead, Node};
use crate::queues::Class;

impl Farm {
    /// Why the node of that name idles, works or is kept out; none where there is none of that name.
    pub fn explain_node(&self, name: &str, now_us: u64) -> Option<Explanation> {
        let (id, node) = self.nodes.iter().find(|(_, node)| *node.name == *name)?;
        let mut found = Findings::default();
        self.silence((id, node), now_us, &mut found);
        kept_out(node, now_us, &mut found);
        self.work(id, node, now_us, &mut found);
        for (job, unit, text) in self.hung_on(id, now_us).iter().take(NAMED) {
            found.adds("hangs", format!("Unit {unit} of job {} {text} {}", job.0, self.cure(*job)));
        }
        for (job, at) in self.conflicts_of(id).take(NAMED) {
            let text = format!("Of units {at} of job {} it said what others did not.", job.0);
            found.adds("conflict", text);
        }
        let jobs: Vec<&Job> = self.jobs.queued().collect();
        let gives =
            |job: &&&Job| self.jobs.gives_out(job) && job.pending() > 0 && !job.refused_by.contains_key(&id);
        if node.health().live() {
            if let Some(job) = jobs.iter().find(gives) {
                self.window_of(id, node, job, now_us, &mut found);
            }
            if let Some(reason) = self.idle_reason(id) {
                match reason {
                    IdleReason::Waiting if !jobs.iter().any(|job| gives(&job)) => {
                        found.decides("no_disk", "idles: the scheduler's disk has no room", NO_DISK.into());
                    }
                    reason => idle(reason, &mut found),
                }
                jobs.iter().take(SIZES).for_each(|job| nothing_of(id, job, now_us, &mut found));
            }
        }
        node_facts(node, self.queues.held(id), now_us, &mut found);
        let sizes = match node.health().live() {
            true => jobs.iter().filter(gives).take(SIZES).map(|job| self.size(job, id)).collect(),
            false => Vec::new(),
        };
        Some(found.explanation(format!("node {name}"), sizes))
    }

    /// It was not heard.
    fn silence(&self, (id, node): (NodeId, &Node), now_us: u64, found: &mut Findings) {
        let silent = time(now_us.saturating_sub(node.heard_us));
        let (suspect, lost) = (time(self.config.settings.suspect_us), time(self.lost_us(id)));
        let name = &node.name;
        let unheard = unheard(node, now_us);
        if matches!(node.health().presence, Presence::Left { revoked: true, .. }) {
            let text = format!(
                "What it had went back to gq, and it cannot come back with that key. To have its machine back move the \
                 worker's state directory away and start it with a valid join file; `starfarm node forget {name}` \
                 drops this one from the list."
            );
            found.decides("revoked", "is out: its key was revoked", text);
        } else if node.health().is_lost() && node.health().boot().is_none() {
            let said = match &unheard {
                Some(unheard) => format!("Its worker said goodbye. It was not heard {unheard}."),
                None => format!("Its worker said goodbye {silent} ago."),
            };
            let text = format!(
                "{said} Start it again, or drop it from the list with `starfarm node forget {name}`."
            );
            found.decides("left", "has left", text);
        } else if let Some(unheard) = unheard.as_ref().filter(|_| node.health().is_lost()) {
            let text = format!(
                "It was not heard {unheard}. See whether its machine, its network and its worker are up; \
                 `starfarm node forget {name}` drops it from the list."
            );
            found.decides("lost", "is lost", text);
        } else if node.health().is_lost() {
            let text = format!(
                "Nothing was heard of it for {silent}; after {lost} a node is lost. {} went back to gq. See whether \
                 its machine, its network and its worker are up; `starfarm node forget {name}` drops it from the list.",
                counted(node.units_taken, "unit")
            );
            found.decides("lost", "is lost", text);
        } else if node.health().boot().is_none() {
            let text = "It has opened a session and not said hello yet, or its worker speaks another version: \
                        install the same version here and there.";
            found.decides("no_hello", "has not joined yet", text.into());
        } else if let Some(unheard) =
            unheard.filter(|_| matches!(node.health().presence, Presence::Suspect(_)))
        {
            let text = format!("It was not heard {unheard}. After {lost} it is lost.");
            found.decides("suspect", "is suspect", text);
        } else if matches!(node.health().presence, Presence::Suspect(_)) {
            let text = format!(
                "Nothing was heard of it for {silent}; after {suspect} a node gets no new tasks, after {lost} it is \
                 lost and what it has, {}, goes back to gq.",
                counted(self.queues.held(id) as u64, "task")
            );
            found.decides("suspect", "is suspect", text);
        } else if !node.health().greeted {
            let text = "It has opened a new session; it gets tasks once its worker has said hello in it, in this \
                        version of the protocol.";
            found.decides("no_hello", "comes back", text.into());
        }
    }

    /// What it has.
    fn work(&self, id: NodeId, node: &Node, now_us: u64, found: &mut Findings) {
        let mut jobs: BTreeMap<JobId, (u64, u128, u64)> = BTreeMap::new();
        for task in self.queues.tasks_at(id) {
            let of = jobs.entry(task.job).or_insert((0, 0, u64::MAX));
            *of = (of.0 + 1, of.1 + task.left, of.2.min(task.since_us));
        }
        for (job, (tasks, units, since_us)) in jobs.iter().take(NAMED) {
            // What its heartbeats join is known by its units only.
            let what = if self.queues.hides_tasks(id) { "range" } else { "task" };
            let text = format!(
                "It has {} of job {}, {}; the oldest for {}.",
                counted(*tasks, what),
                job.0,
                counted(*units, "unit"),
                time(now_us.saturating_sub(*since_us))
            );
            found.decides("busy", "works", text);
        }
        // What came back since its last heartbeat runs no more.
        let has = |&&(job, unit): &&(JobId, u128)| self.queues.tasks_at(id).any(|task| task.has(job, unit));
        let running: Vec<_> = node.running.iter().filter(has).collect();
        if !running.is_empty() && !node.health().is_lost() {
            let unit = |(job, unit): &&(JobId, u128)| format!("unit {unit} of job {}", job.0);
            let units: Vec<String> = running.iter().take(NAMED).map(unit).collect();
            let more = running.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            found
                .adds("running", format!("Its last heartbeat said that it runs {}{more}.", units.join(", ")));
        }
    }

    /// Units of which it said something else than was counted.
    fn conflicts_of(&self, id: NodeId) -> impl Iterator<Item = (JobId, Interval)> {
        let of_job = move |job: &Job| {
            let its = job.conflicts.iter().filter(move |(.., node)| *node == id);
            its.map(|(at, _)| (job.facts.job, *at)).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job)
    }

    /// How many tasks it may hold, by what decides that.
    fn window_of(&self, id: NodeId, node: &Node, job: &Job, now_us: u64, found: &mut Findings) {
        let ideal = self.ideal(job, id);
        let ahead = self.ahead(job, &ideal);
        let window = node.window(now_us, ideal.us, ahead);
        let why = match ahead {
            _ if ideal.us == 0.0 => "what its tasks take is not known yet".to_owned(),
            Ahead::Least => "what its tasks take is still being learnt".to_owned(),
            Ahead::Scarce => {
                format!(
                    "little is left of job {}, so {} of work ahead",
                    job.facts.job.0,
                    time(PREFETCH_SCARCE_US)
                )
            }
            Ahead::Full => format!("{} of work ahead", time(PREFETCH_US)),
        };
        let steps = match window.steps {
            0 => "speed-ups and slow-downs move that by nothing".to_owned(),
            steps @ 1.. => format!("speed-ups add {steps}"),
            steps => format!("slow-downs take {} away", -steps),
        };
        let text = format!(
            "It has {} and may hold {}: {} a slot for {} ({why}), {steps}; its own queue takes {}.",
            counted(self.queues.held(id) as u64, "task"),
            window.tasks,
            window.a_slot,
            counted(node.slots(), "slot"),
            node.queue_tasks_max
        );
        found.adds("window", text);
    }
}

/// Since when a node was not heard that this scheduler knows only from its records. These do not say when it was
/// heard last, so that its silence is counted from the start.
fn unheard(node: &Node, now_us: u64) -> Option<String> {
    let started = time(now_us.saturating_sub(node.heard_us));
    node.restored.then(|| format!("since before this scheduler started, {started} ago"))
}

/// It is up and gets nothing, or little.
fn kept_out(node: &Node, now_us: u64, found: &mut Findings) {
    let name = &node.name;
    if node.health().is_lost() {
        if node.health().drain.by_person
            && !matches!(node.health().presence, Presence::Left { revoked: true, .. })
        {
            let text = format!(
                "A person drained it as well: once it is back it gets nothing until `starfarm node resume {name}`."
            );
            found.adds("drained", text);
        }
        return;
    }
    if node.health().drain.by_person {
        let text = format!(
            "A person drains it: it ends what it has and gets nothing new. `starfarm node resume {name}` undoes that."
        );
        found.decides("drained", "is draining", text);
    }
    if node.health().drain.by_worker {
        let text = "Its worker stops: it ends what it runs and says goodbye. Start the worker again to have it back.";
        found.decides("stopping", "is draining", text.into());
    }
    if node.is_distrusted() {
        let why = node.why();
        let text = format!("It gets nothing: {why}. Test its machine, then `starfarm node resume {name}`.");
        found.decides("distrusted", "is quarantined", text);
    }
    let Some(probe) = node.health().standing.probe() else { return };
    let why = match node.why() {
        why if why.is_empty() => "let tasks vanish that it had acknowledged".to_owned(),
        why => why,
    };
    if node.health().drain != Drain::NO {
        // Then nothing is given to it as a probe either.
        found.adds("quarantined", format!("It is quarantined too: it {why}."));
        return;
    }
    let next = due(probe.at_us, now_us);
    let text = format!(
        "It {why}. It gets one task at a time as a probe, the next one {next}, the one after that no sooner than {} \
         later; one that passes brings it back, or `starfarm node resume {name}`.",
        time(probe.next_pause_us())
    );
    found.decides("quarantined", "is quarantined", text);
}

fn idle(reason: IdleReason, found: &mut Findings) {
    let (code, verdict, text) = match reason {
        IdleReason::NoJob => {
            ("no_job", "idles: there is no job", "There is no unfinished job. `starfarm submit` adds one.")
        }
        IdleReason::Paused => ("paused", "idles: jobs are paused", "What it could work for is paused."),
        IdleReason::Refused => {
            ("refused", "idles: it refused the jobs", "It cannot run what has work to give.")
        }
        IdleReason::NothingLeft => {
            ("nothing_left", "idles: nothing is left to give", "All that is left is given out to others.")
        }
        // `silence` and `kept_out` have said it.
        IdleReason::State => return,
        IdleReason::Waiting => ("waiting", "gets a task in a moment", "There is work for it."),
    };
    found.decides(code, verdict, text.into());
}

/// What job `job` has for node `id`.
fn nothing_of(id: NodeId, job: &Job, now_us: u64, found: &mut Findings) {
    let number = job.facts.job.0;
    if job.state == JobState::Paused {
        let note = if job.note.is_empty() { String::new() } else { format!(" since {}", job.note) };
        let text = format!("Job {number} is paused{note}. `starfarm job resume {number}` lets it go on.");
        found.adds("job_paused", text);
    } else if let Some(refusal) = job.refused_by.get(&id) {
        let text = format!(
            "It cannot run job {number}: {}. It is asked again {}; after a repair `starfarm job resume {number}` does so \
             at once.",
            refusal.why,
            due(refusal.probe.at_us, now_us)
        );
        found.adds("job_refused", text);
    } else if job.pending() == 0 {
        let last = match job.units.coverage().count(Class::Out) {
            1 => "unit is at another node".to_owned(),
            out => format!("{out} units are at other nodes"),
        };
        let copies = match job.facts.speculative {
            true => "it gets a copy of one that is late",
            false => "the job allows no copies",
        };
        found.adds("job_all_out", format!("Of job {number} the last {last}; {copies}."));
    } else if job.blame.of(id).doubted {
        let text = format!(
            "The last units of job {number} that it ran failed, while others pass: it gets one unit at a time, of other \
             places, until one passes."
        );
        found.adds("job_doubted", text);
    } else if job.waits_for_lease() {
        let text = format!("Of job {number} more can be given out once the scheduler's disk has its record.");
        found.adds("job_lease", text);
    } else {
        let text = format!("Of job {number} {} wait.", counted(job.pending(), "unit"));
        found.adds("job_waits", text);
    }
}

fn node_facts(node: &Node, held: usize, now_us: u64, found: &mut Findings) {
    found.fact("state", node.health().state().word());
    found.fact("slots", node.slots());
    found.fact("tasks_in_dq", held);
    found.fact("tasks_in_its_queue", node.queued_tasks);
    match unheard(node, now_us) {
        Some(unheard) => found.fact("heard", format!("not {unheard}")),
        None => found.fact("heard", format!("{} ago", time(now_us.saturating_sub(node.heard_us)))),
    }
    if node.health().boot().is_some() {
        found.fact("joined", format!("{} ago", time(now_us.saturating_sub(node.joined_us))));
    }
}
