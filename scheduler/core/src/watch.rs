//! What pictures are made of: changes of nodes' states, why a node is idle, samples, and how the whole farm
//! stands. Told only where somebody watches, and never asked for by what decides.

use std::collections::BTreeMap;
use std::fmt::Write;

use starfarm_events::{Event, Held, IdleReason, Name, NodeState, Outcome, Sample, Snapshot, Word};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::limits::SEAL_BYTES;
use starfarm_protocol::wire::ResultEntry;

use crate::coverage::{Class, Coverage};
use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::job::{Job, JobState};
use crate::limits::PERIOD_US;
use crate::node::Node;
use crate::result::Verdict;
use crate::task::{NOBODY, NodeId, State};

/// Periods between two reports of a node's load, at least ...
const LOAD_PERIODS_MIN: usize = 6;
/// ... and at most. Between these a period tells of as many nodes: 300 nodes would else fill half of the log.
const LOAD_PERIODS_MAX: usize = 60;
/// See [`LOAD_PERIODS_MAX`].
const LOADS_PER_PERIOD: usize = 10;
/// Results that follow each other within this time are told as one, where their units do.
const TOGETHER_US: u64 = 1_000_000;

/// What was told of a node last.
#[derive(Debug, Default)]
pub(crate) struct Told {
    state: Option<NodeState>,
    why: String,
    doing: Doing,
    load: Option<(u64, u64, u64, Vec<u16>)>,
}

/// What a node does, as far as pictures show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Doing {
    /// It is not there, or nobody was told of it yet.
    #[default]
    Away,
    Busy,
    Idle(IdleReason),
}

/// Counters that only watching needs.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Speed-ups and slow-downs since the start.
    pub(crate) feedback: (u64, u64),
    /// Tasks given out since the start.
    pub(crate) dispatched: u64,
    /// When the task of the result at hand was given out.
    pub(crate) given_us: Option<u64>,
    /// Datagrams dropped and refused since the start, as the rim says.
    pub(crate) datagrams: (u64, u64),
    /// Datagrams of workers and to them since the start, in and out.
    pub(crate) traffic: [Traffic; 2],
    /// A period is over: the farm's figures are to be told at the end of the turn.
    pub(crate) is_due: bool,
    /// Periods since the start.
    periods: u64,
    /// Units in each class, as told last.
    jobs: BTreeMap<JobId, [u128; 5]>,
}

/// What went over the network in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes in these, seal included, IP and UDP headers not.
    pub bytes: u64,
}

impl Traffic {
    /// A datagram of so many bytes, before it is sealed.
    pub(crate) fn add(&mut self, plain_bytes: usize) {
        self.datagrams += 1;
        self.bytes += (plain_bytes + SEAL_BYTES) as u64;
    }
}

impl Farm {
    /// Datagrams that the receive buffer had no room for, and those that did not open, since the start.
    pub fn on_datagram_counts(&mut self, dropped: u64, refused: u64) {
        self.watched.datagrams = (dropped, refused);
    }

    /// Tells what changed at the nodes that this turn looked at.
    pub(crate) fn watch(&mut self, ids: &[NodeId], deeds: &mut Deeds) {
        for &id in ids {
            // One that has left is told of once more: it is lost.
            let known = |node: &&Node| node.boot.is_some() || node.told.state.is_some();
            let Some(node) = self.nodes.get(&id).filter(known) else { continue };
            let state = node.state();
            let doing = self.doing(id);
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            let name = || node.name.clone();
            if node.told.state.replace(state) != Some(state) || node.told.why != node.why {
                node.told.why.clone_from(&node.why);
                deeds.event(Event::NodeState { node: name(), state, why: said(&node.why) });
            }
            if node.told.doing != doing {
                node.told.doing = doing;
                match doing {
                    Doing::Idle(reason) => deeds.event(Event::NodeIdle { node: name(), reason }),
                    Doing::Busy => deeds.event(Event::NodeBusy { node: name() }),
                    // Its state says so.
                    Doing::Away => {}
                }
            }
        }
    }

    fn doing(&self, id: NodeId) -> Doing {
        match (self.idle_reason(id), self.nodes.get(&id)) {
            (Some(reason), _) => Doing::Idle(reason),
            (None, Some(node)) if node.boot.is_some() && !node.lost => Doing::Busy,
            (None, _) => Doing::Away,
        }
    }

    /// Samples, once a period.
    pub(crate) fn watch_period(&mut self, now_us: u64, deeds: &mut Deeds) {
        self.watched.periods += 1;
        self.tell_figures(now_us, deeds);
        let every = (self.nodes.len() / LOADS_PER_PERIOD).clamp(LOAD_PERIODS_MIN, LOAD_PERIODS_MAX);
        let first = self.watched.periods as usize % every;
        self.nodes.values_mut().skip(first).step_by(every).for_each(|node| tell_load(node, now_us, deeds));
    }

    /// The scheduler stops: how far all has come is told once more, or what came since the last period would be in
    /// the journal alone.
    pub fn on_stop(&mut self, now_us: u64, deeds: &mut Deeds) {
        if self.config.watch {
            self.tell_figures(now_us, deeds);
            self.nodes.values_mut().for_each(|node| tell_load(node, now_us, deeds));
        }
    }

    /// The farm's figures, and those of the jobs that went on.
    fn tell_figures(&mut self, now_us: u64, deeds: &mut Deeds) {
        deeds.event(Event::Sampled(self.sample(now_us)));
        for (&id, job) in &self.jobs {
            let classes = classes(job);
            if self.watched.jobs.insert(id, classes) != Some(classes) {
                let [done, failed, out, pending, abandoned] = classes;
                let units_per_s = self.speed(job);
                deeds.event(Event::JobProgress {
                    job: id,
                    done,
                    failed,
                    out,
                    pending,
                    abandoned,
                    units_per_s,
                });
            }
        }
        let jobs = &self.jobs;
        self.watched.jobs.retain(|id, _| jobs.contains_key(id));
    }

    /// Why node `id` has no task; none where it has, or is not there to compute.
    pub(crate) fn idle_reason(&self, id: NodeId) -> Option<IdleReason> {
        let node = self.nodes.get(&id).filter(|node| node.boot.is_some() && !node.lost)?;
        if !node.tasks.is_empty() {
            return None;
        }
        if !node.live() {
            return Some(IdleReason::State);
        }
        let mut reason = if self.jq.is_empty() { IdleReason::NoJob } else { IdleReason::NothingLeft };
        for job in self.open_jobs() {
            let found = match job {
                job if job.pending() == 0 => IdleReason::NothingLeft,
                job if job.refused_by.contains_key(&id) => IdleReason::Refused,
                job if job.state == JobState::Paused => IdleReason::Paused,
                _ => return Some(IdleReason::Waiting),
            };
            // What is nearest to work tells most: what a person's word would give it, then what it could do once
            // it is repaired.
            let rank = |reason| match reason {
                IdleReason::Paused => 3,
                IdleReason::Refused => 2,
                IdleReason::NothingLeft => 1,
                _ => 0,
            };
            if rank(found) > rank(reason) {
                reason = found;
            }
        }
        Some(reason)
    }

    /// A result came: `given_us` is when its task was given out, where that is known.
    pub(crate) fn watch_result(
        &self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        (verdict, given_us): (Verdict, Option<u64>),
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let outcome = match verdict {
            Verdict::Counted => Outcome::Counted,
            Verdict::CountedPartly => Outcome::Partly,
            Verdict::Duplicate => Outcome::Duplicate,
            Verdict::Returned => Outcome::Returned,
            Verdict::Refused | Verdict::Malformed => Outcome::Refused,
            // Nothing that the farm knows.
            Verdict::UnknownJob | Verdict::OtherSpecification | Verdict::NeverGiven => return,
        };
        let Some(node) = self.nodes.get(&id) else { return };
        let (lo, hi) = (entry.lo, entry.lo + u128::from(entry.units));
        // Nothing is over before it was given out, or its job submitted, whatever a worker says.
        let submitted_us = || self.jobs.get(&entry.job).map_or(now_us, |job| job.totals.submitted_us);
        let first_us = given_us.unwrap_or_else(submitted_us);
        let over_us = now_us.saturating_sub(self.age_us(entry.sequence)).max(first_us).min(now_us);
        let began_us = over_us.saturating_sub(entry.duration_us);
        if let Some(Deed::Event(Event::Tasks {
            node: of,
            job,
            hi: end,
            results,
            outcome: same,
            begun_us,
            ended_us,
            busy_us,
            ..
        })) = deeds.0.last_mut()
            && (*job, *end, *same) == (entry.job, lo, outcome)
            && **of == *node.name
            && over_us.saturating_sub(*begun_us) <= TOGETHER_US
        {
            *end = hi;
            *results += 1;
            *busy_us = busy_us.saturating_add(entry.duration_us);
            *ended_us = (*ended_us).max(over_us);
            // They came together but ran one after another: the slots were no busier than they can be.
            let at_least_us = *busy_us / u64::from(node.slots.max(1));
            *begun_us = (*begun_us).min(began_us).min(ended_us.saturating_sub(at_least_us));
            return;
        }
        deeds.event(Event::Tasks {
            node: node.name.clone(),
            job: entry.job,
            lo,
            hi,
            results: 1,
            outcome,
            given_us,
            begun_us: began_us,
            ended_us: over_us,
            busy_us: entry.duration_us,
        });
    }

    /// The farm's figures.
    pub fn sample(&mut self, now_us: u64) -> Sample {
        let live = self.nodes.values_mut().filter(|node| node.live());
        let (power, up) =
            live.fold((0.0, 0_u64), |(sum, up), node| (sum + node.rating.power(now_us), up + 1));
        Sample {
            gq: self.gq.len() as u64,
            dq: self.dq.len() as u64,
            jq: self.jq.len() as u64,
            dq_oldest_us: self.dq.iter().map(|t| now_us.saturating_sub(t.since_us)).max().unwrap_or(0),
            nodes_up: up,
            nodes: self.nodes.values().filter(|node| node.boot.is_some() && !node.lost).count() as u64,
            slots: self.live_slots,
            power_mean: power / up.max(1) as f64,
            speed_ups: self.watched.feedback.0,
            slow_downs: self.watched.feedback.1,
            resent: self.totals.resent,
            offers_repeated: self.totals.offers_repeated,
            decomposed: self.totals.decomposed,
            decomposed_units: self.totals.decomposed_units,
            dispatched: self.watched.dispatched,
            results_counted: self.verdicts.count(Verdict::Counted)
                + self.verdicts.count(Verdict::CountedPartly),
            results_duplicate: self.verdicts.count(Verdict::Duplicate),
            datagrams_dropped: self.watched.datagrams.0,
            datagrams_refused: self.watched.datagrams.1,
            datagrams_in: Some(self.watched.traffic[0].datagrams),
            bytes_in: Some(self.watched.traffic[0].bytes),
            datagrams_out: Some(self.watched.traffic[1].datagrams),
            bytes_out: Some(self.watched.traffic[1].bytes),
        }
    }

    /// The whole farm, as a segment of the log opens with it. Of each node's state only what changes from here on is
    /// told again.
    pub fn picture(&mut self, now_us: u64) -> Snapshot {
        let sample = self.sample(now_us);
        let jobs = self.jobs().into_iter().map(|view| starfarm_events::Job {
            job: view.id,
            name: view.name,
            user: view.user,
            spec: Some(view.spec),
            state: view.state.word().into(),
            why: said(&view.note),
            units: view.units,
            done: view.done,
            failed: view.failed,
            out: view.out,
            pending: view.pending,
            abandoned: view.abandoned,
            hits: view.hits as u64,
            units_per_s: view.rate_per_s,
            submitted_us: view.totals.submitted_us,
            started_us: view.totals.started_us,
            ended_us: view.totals.ended_us,
            dispatched: view.totals.dispatched,
            resent: view.totals.resent,
        });
        let jobs = jobs.collect();
        let doing: Vec<Doing> = self.nodes.keys().map(|&id| self.doing(id)).collect();
        let nodes = self.nodes.values_mut().zip(doing);
        let nodes = nodes.filter(|(node, _)| node.boot.is_some() || node.left.is_some());
        let nodes = nodes.map(|(node, doing)| node_picture(node, doing, now_us)).collect();
        Snapshot { sample, jobs, nodes, held: self.held() }
    }

    /// All of dq; neighbours of one node are told as one.
    fn held(&self) -> Vec<Held> {
        let name = |id: NodeId| self.nodes.get(&id).map(|node| node.name.clone());
        let mut tasks: Vec<_> = self.dq.iter().collect();
        tasks.sort_unstable_by_key(|task| (task.node, task.job, task.lo));
        let (mut held, mut of): (Vec<Held>, _) = (Vec::new(), NOBODY);
        for task in tasks {
            let offered = u64::from(!matches!(task.state, State::Held { .. }));
            match held.last_mut() {
                Some(last) if of == task.node && last.job == task.job && last.hi == task.lo => {
                    last.hi = task.hi;
                    last.tasks += 1;
                    last.offered += offered;
                    last.since_us = last.since_us.min(task.since_us);
                }
                _ => held.push(Held {
                    node: name(task.node),
                    job: task.job,
                    lo: task.lo,
                    hi: task.hi,
                    tasks: 1,
                    since_us: task.since_us,
                    offered,
                }),
            }
            of = task.node;
        }
        held
    }

    /// The certificate of a job that has just ended (R8). Its hashes are those that an audit derives.
    pub(crate) fn certify(&self, id: JobId, computed_by: u64, deeds: &mut Deeds) {
        let Some(job) = self.jobs.get(&id) else { return };
        let [done, failed, _, _, abandoned] = classes(job);
        let verdict = match (abandoned, failed) {
            (0, 0) => "complete",
            (0, _) => "complete_with_failures",
            _ => "ended_early",
        };
        let mut hits = String::new();
        for (unit, target) in &job.hits {
            let _ = writeln!(hits, "{unit} {target}");
        }
        deeds.event(Event::Certificate {
            job: id,
            verdict: Word::Borrowed(verdict),
            state: Word::Borrowed(job.state.word()),
            spec: job.facts.spec,
            units: job.facts.units,
            done,
            failed,
            abandoned,
            intervals_hash: ContentHash::of(intervals(&job.coverage).as_bytes()),
            hits: job.hits.len() as u64,
            hits_hash: ContentHash::of(hits.as_bytes()),
            duplicate: job.totals.duplicate_units,
            dispatched: job.totals.dispatched,
            resent: job.totals.resent,
            copied: job.totals.copies,
            conflicts: job.totals.conflicts,
            epoch: self.config.epoch.0,
            nodes: computed_by,
        });
    }
}

/// The classes of an ended job's units, a line an interval, ascending, joined where they touch.
fn intervals(coverage: &Coverage) -> String {
    let of = |class: Class, word| coverage.intervals(class).map(move |(lo, hi)| (lo, hi, word));
    let mut all: Vec<(u128, u128, &str)> = of(Class::Done, "done")
        .chain(of(Class::Failed, "failed"))
        .chain(of(Class::Abandoned, "abandoned"))
        .collect();
    if coverage.fresh() > 0 {
        all.push((coverage.cursor(), coverage.units(), "abandoned"));
    }
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let joined = next.2 == last.2 && next.0 == last.1;
        if joined {
            last.1 = next.1;
        }
        joined
    });
    all.iter().fold(String::new(), |mut text, (lo, hi, word)| {
        let _ = writeln!(text, "{word} {lo} {hi}");
        text
    })
}

fn classes(job: &Job) -> [u128; 5] {
    let count = |class| job.coverage.count(class);
    [count(Class::Done), count(Class::Failed), count(Class::Out), job.pending(), job.abandoned()]
}

fn said(why: &str) -> Option<String> {
    (!why.is_empty()).then(|| why.to_owned())
}

fn node_picture(node: &mut Node, doing: Doing, now_us: u64) -> starfarm_events::Node {
    let idle = match doing {
        Doing::Idle(reason) => Some(reason),
        Doing::Busy | Doing::Away => None,
    };
    (node.told.state, node.told.doing) = (Some(node.state()), doing);
    node.told.why.clone_from(&node.why);
    starfarm_events::Node {
        node: node.name.clone(),
        state: node.state(),
        why: said(&node.why),
        idle,
        boot: node.boot,
        joined_us: node.joined_us,
        heard_us: (!node.restored).then_some(node.heard_us),
        slots: node.slots,
        tasks: node.tasks_held() as u64,
        queued: u64::from(node.queued_tasks),
        power: rounded(node.rating.power(now_us)),
        load: loads(node),
        idle_us: node.idle_us,
        tasks_done: node.totals.tasks_done,
        units_done: node.totals.units_done,
        speed_ups: node.totals.speed_ups,
        slow_downs: node.totals.slow_downs,
        offers_repeated: node.totals.offers_repeated,
        system: node.facts.as_ref().map(|facts| facts.system.clone()),
        cpu: node.facts.as_ref().map(|facts| facts.cpu.clone()),
        cores: node.facts.as_ref().map(|facts| facts.cores),
        memory_bytes: node.facts.as_ref().map(|facts| facts.memory_bytes),
        accelerators: node.facts.as_ref().map(|facts| facts.accelerators.clone()),
    }
}

/// Load of each slot, as its worker told last.
fn loads(node: &Node) -> Vec<u64> {
    node.load.iter().map(|&load| u64::from(load)).collect()
}

/// How a node does, where anything changed but its power.
fn tell_load(node: &mut Node, now_us: u64, deeds: &mut Deeds) {
    if node.boot.is_none() || node.lost {
        return;
    }
    let (tasks, queued) = (node.tasks_held() as u64, u64::from(node.queued_tasks));
    let load = Some((tasks, queued, node.totals.tasks_done, node.load.clone()));
    if node.told.load == load {
        return;
    }
    node.told.load = load;
    deeds.event(Event::NodeLoad {
        node: Name::clone(&node.name),
        tasks,
        queued,
        power: rounded(node.rating.power(now_us)),
        load: loads(node),
        idle_us: node.idle_us,
        tasks_done: node.totals.tasks_done,
        units_done: node.totals.units_done,
        speed_ups: node.totals.speed_ups,
        slow_downs: node.totals.slow_downs,
    });
}

/// To a thousandth: more digits would only make the log longer.
fn rounded(power: f64) -> f64 {
    (power * 1e3).round() / 1e3
}

const _: () =
    assert!(PERIOD_US * LOAD_PERIODS_MIN as u64 == 60_000_000, "a small farm's loads are told once a minute");
const _: () = assert!(PERIOD_US * LOAD_PERIODS_MAX as u64 == 600_000_000, "any farm's once in ten minutes");
