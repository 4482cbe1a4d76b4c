//! The whole farm at one moment: its figures, and what a segment of the log opens with.

use starfarm_events::{Held, Sample, Snapshot};

use starfarm_protocol::ids::NodeId;

use crate::farm::Farm;
use crate::node::Node;
use crate::queues::{NOBODY, State};
use crate::told::{Doing, Verdict, rounded};

impl Farm {
    /// The farm's figures.
    pub fn sample(&mut self, now_us: u64) -> Sample {
        let live = self.nodes.iter_mut().filter(|(_, node)| node.health().live());
        let (power, up) =
            live.fold((0.0, 0_u64), |(sum, up), (_, node)| (sum + node.rating.power(now_us), up + 1));
        Sample {
            gq: self.queues.waiting() as u64,
            dq: self.queues.out() as u64,
            jq: self.jobs.queue_len() as u64,
            dq_oldest_us: self.oldest_us(now_us),
            nodes_up: up,
            nodes: self.nodes.iter().filter(|(_, node)| node.health().is_there()).count() as u64,
            slots: self.nodes.live_slots(),
            power_mean: power / up.max(1) as f64,
            speed_ups: self.telemetry.feedback.0,
            slow_downs: self.telemetry.feedback.1,
            resent: self.telemetry.totals.resent,
            offers_repeated: self.telemetry.totals.offers_repeated,
            decomposed: self.telemetry.totals.decomposed,
            decomposed_units: self.telemetry.totals.decomposed_units,
            dispatched: self.queues.dispatched(),
            results_counted: self.telemetry.verdicts.count(Verdict::Counted)
                + self.telemetry.verdicts.count(Verdict::CountedPartly),
            results_duplicate: self.telemetry.verdicts.count(Verdict::Duplicate),
            datagrams_dropped: self.telemetry.datagrams.0,
            datagrams_refused: self.telemetry.datagrams.1,
            datagrams_in: Some(self.telemetry.traffic[0].datagrams),
            bytes_in: Some(self.telemetry.traffic[0].bytes),
            datagrams_out: Some(self.telemetry.traffic[1].datagrams),
            bytes_out: Some(self.telemetry.traffic[1].bytes),
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
            why: view.note.map(|note| note.to_string()),
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
        let doing: Vec<Doing> = self.nodes.iter().map(|(id, _)| self.doing(id)).collect();
        let nodes = self.nodes.iter_mut().zip(doing);
        let nodes = nodes.filter(|((_, node), _)| node.health().last_boot().is_some());
        let queues = &self.queues;
        let picture = |((id, node), doing)| node_picture(node, queues.held(id), doing, now_us);
        let nodes = nodes.map(picture).collect();
        Snapshot { sample, jobs, nodes, held: self.held() }
    }

    /// All of dq; neighbours of one node are told as one.
    fn held(&self) -> Vec<Held> {
        let name = |id: NodeId| self.nodes.name(id);
        let mut tasks: Vec<_> = self.queues.tasks().collect();
        tasks.sort_unstable_by_key(|task| (task.node, task.job, task.at.lo));
        let (mut held, mut of): (Vec<Held>, _) = (Vec::new(), NOBODY);
        for task in tasks {
            let offered = u64::from(!matches!(task.state, State::Held { .. }));
            match held.last_mut() {
                Some(last) if of == task.node && last.job == task.job && last.hi == task.at.lo => {
                    last.hi = task.at.hi;
                    last.tasks += 1;
                    last.offered += offered;
                    last.since_us = last.since_us.min(task.since_us);
                }
                _ => held.push(Held {
                    node: name(task.node),
                    job: task.job,
                    lo: task.at.lo,
                    hi: task.at.hi,
                    tasks: 1,
                    since_us: task.since_us,
                    offered,
                }),
            }
            of = task.node;
        }
        held
    }
}

fn node_picture(node: &mut Node, held: usize, doing: Doing, now_us: u64) -> starfarm_events::Node {
    let idle = match doing {
        Doing::Idle(reason) => Some(reason),
        Doing::Busy | Doing::Away => None,
    };
    (node.told.state, node.told.doing) = (Some(node.health().state()), doing);
    node.told.why = node.why();
    starfarm_events::Node {
        node: node.name.clone(),
        state: node.health().state(),
        why: node.why().map(|why| why.to_string()),
        idle,
        boot: node.health().boot(),
        joined_us: node.joined_us,
        heard_us: (!node.restored).then_some(node.heard_us),
        slots: node.slots(),
        tasks: held as u64,
        queued: u64::from(node.queued_tasks),
        power: rounded(node.rating.power(now_us)),
        load: node.loads(),
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
