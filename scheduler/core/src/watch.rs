//! What pictures are made of: changes of nodes' states, why a node is idle, samples, and how the whole farm
//! stands. Told only where somebody watches, and never asked for by what decides.

mod certificate;
mod picture;

use starfarm_events::{Event, Outcome};
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::ResultEntry;

use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::node::Node;
use crate::queues::Queues;
use crate::told::{Doing, Verdict, rounded};

/// Periods between two reports of a node's load, at least ...
const LOAD_PERIODS_MIN: usize = 6;
/// ... and at most. Between these a period tells of as many nodes: 300 nodes would else fill half of the log.
const LOAD_PERIODS_MAX: usize = 60;
/// See [`LOAD_PERIODS_MAX`].
const LOADS_PER_PERIOD: usize = 10;
/// Results that follow each other within this time are told as one, where their units do.
const TOGETHER_US: u64 = 1_000_000;

impl Farm {
    /// Datagrams that the receive buffer had no room for, and those that did not open, since the start.
    pub fn on_datagram_counts(&mut self, dropped: u64, refused: u64) {
        self.telemetry.datagrams = (dropped, refused);
    }

    /// Tells what changed at the nodes that this turn looked at.
    pub(crate) fn watch(&mut self, ids: &[NodeId], now_us: u64, deeds: &mut Deeds) {
        for &id in ids {
            // One that has left is told of once more: it is lost.
            let known = |node: &&Node| node.health().boot().is_some() || node.told.state.is_some();
            let Some(node) = self.nodes.get(id).filter(known) else { continue };
            let (state, why) = (node.health().state(), node.why());
            let doing = self.doing(id, now_us);
            let node = self.nodes.at_mut(id);
            let name = || node.name.clone();
            if node.told.state.replace(state) != Some(state) || node.told.why != why {
                deeds.event(Event::NodeState { node: name(), state, why: why.map(|why| why.to_string()) });
                node.told.why = why;
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

    /// Samples, once a period.
    pub(crate) fn watch_period(&mut self, now_us: u64, deeds: &mut Deeds) {
        self.telemetry.periods += 1;
        self.tell_figures(now_us, deeds);
        let every = (self.nodes.len() / LOADS_PER_PERIOD).clamp(LOAD_PERIODS_MIN, LOAD_PERIODS_MAX);
        let first = self.telemetry.periods as usize % every;
        let queues = &self.queues;
        let nodes = self.nodes.iter_mut().skip(first).step_by(every);
        nodes.for_each(|(id, node)| tell_load(id, node, queues, now_us, deeds));
    }

    /// The scheduler stops: how far all has come is told once more, or what came since the last period would be in
    /// the journal alone.
    pub fn on_stop(&mut self, now_us: u64, deeds: &mut Deeds) {
        if self.config.watch {
            self.tell_figures(now_us, deeds);
            let queues = &self.queues;
            self.nodes.iter_mut().for_each(|(id, node)| tell_load(id, node, queues, now_us, deeds));
        }
    }

    /// The farm's figures, and those of the jobs that went on.
    fn tell_figures(&mut self, now_us: u64, deeds: &mut Deeds) {
        deeds.event(Event::Sampled(self.sample(now_us)));
        for job in self.jobs.iter() {
            let (id, classes) = (job.facts.job, job.classes());
            if self.telemetry.jobs.insert(id, classes) != Some(classes) {
                let [done, failed, out, pending, abandoned] = classes;
                let units_per_s = self.speed(job, now_us);
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
        self.telemetry.jobs.retain(|id, _| jobs.get(*id).is_some());
    }

    /// A result came: `given_us` is when its task was given out, where that is known, and `said_us` when it was over, as
    /// its worker says.
    #[expect(clippy::too_many_arguments, reason = "a result is told with all that is known of it")]
    pub(crate) fn watch_result(
        &mut self,
        id: NodeId,
        entry: &ResultEntry<'_>,
        verdict: Verdict,
        given_us: Option<u64>,
        said_us: u64,
        now_us: u64,
        deeds: &mut Deeds,
    ) {
        let outcome = match verdict {
            Verdict::Counted => Outcome::Counted,
            Verdict::CountedPartly => Outcome::Partly,
            Verdict::Duplicate => Outcome::Duplicate,
            Verdict::Returned => Outcome::Returned,
            Verdict::Refused | Verdict::Malformed | Verdict::False => Outcome::Refused,
            // Nothing that the farm knows, or wants to know.
            Verdict::UnknownJob | Verdict::OtherSpecification | Verdict::NeverGiven | Verdict::Distrusted => {
                return;
            }
        };
        let node = self.nodes.at_mut(id);
        let (lo, hi) = (entry.at().lo, entry.at().hi);
        // Nothing is over before it was given out, or its job submitted, whatever a worker says.
        let submitted_us = || self.jobs.get(entry.job).map_or(now_us, |job| job.totals.submitted_us);
        let first_us = given_us.unwrap_or_else(submitted_us);
        let over_us = said_us.max(first_us).min(now_us);
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
            let at_least_us = *busy_us / u64::from(node.all_slots().max(1));
            *begun_us = (*begun_us).min(began_us).min(ended_us.saturating_sub(at_least_us));
            return;
        }
        let counts = matches!(outcome, Outcome::Counted | Outcome::Partly);
        if !counts && node.allowances.idle_lines.take(1, now_us) == 0 {
            // A node can send any number of these.
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
}

/// How a node does, where anything changed but its power.
fn tell_load(id: NodeId, node: &mut Node, queues: &Queues, now_us: u64, deeds: &mut Deeds) {
    if !node.health().is_there() {
        return;
    }
    let (tasks, queued) = (queues.held_by(id) as u64, node.queued());
    let load = Some((tasks, queued, node.totals.tasks_done, [node.loads(), node.device_loads()]));
    if node.told.load == load {
        return;
    }
    node.told.load = load;
    deeds.event(Event::NodeLoad {
        node: node.name.clone(),
        tasks,
        queued,
        power: rounded(node.rating.power(now_us)),
        load: node.loads(),
        devices: node.device_loads(),
        idle_us: node.idle_us,
        tasks_done: node.totals.tasks_done,
        units_done: node.totals.units_done,
        speed_ups: node.totals.speed_ups,
        slow_downs: node.totals.slow_downs,
    });
}

/// Unless a person chose another.
const PERIOD_US: u64 = Settings::DEFAULT.period_us;
const _: () =
    assert!(PERIOD_US * LOAD_PERIODS_MIN as u64 == 60_000_000, "a small farm's loads are told once a minute");
const _: () = assert!(PERIOD_US * LOAD_PERIODS_MAX as u64 == 600_000_000, "any farm's once in ten minutes");
