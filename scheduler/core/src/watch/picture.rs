//! The whole farm at one moment: what a segment of the log opens with.

use starfarm_events::{Held, Snapshot};

use starfarm_protocol::ids::NodeId;

use crate::farm::Farm;
use crate::node::Node;
use crate::queues::{NOBODY, State};
use crate::told::{Doing, rounded};

impl Farm {
    /// The whole farm, as a segment of the log opens with it. Of each node's state only what changes from here on is
    /// told again.
    pub fn picture(&mut self, now_us: u64) -> Snapshot {
        let sample = self.sample(now_us);
        let jobs = self.jobs(now_us).into_iter().map(|job| starfarm_events::Job {
            job: job.id,
            name: job.name,
            user: job.user,
            spec: Some(job.spec),
            state: job.state,
            why: (!job.note.is_empty()).then_some(job.note),
            units: job.units_total.0,
            done: job.units_done.0,
            failed: job.units_failed.0,
            out: job.units_out.0,
            pending: job.units_pending.0,
            abandoned: job.units_abandoned.0,
            hits: job.hits,
            units_per_s: job.units_per_s,
            submitted_us: job.totals.submitted_us,
            started_us: job.totals.started_us,
            ended_us: job.totals.ended_us,
            dispatched: job.totals.dispatched,
            resent: job.totals.resent,
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
