//! The whole farm at one moment: what a segment of the log opens with.

use starfarm_events::{Held, Snapshot};

use starfarm_protocol::ids::NodeId;

use crate::farm::Farm;
use crate::queues::{NOBODY, State};
use crate::told::rounded;

impl Farm {
    /// The whole farm, as a segment of the log opens with it. Of each node's state only what changes from here on is
    /// told again.
    pub fn picture(&mut self, now_us: u64) -> Snapshot {
        let (sample, jobs, mut nodes) = (self.sample(now_us), self.jobs(now_us), self.nodes(now_us));
        // A session alone is no node yet.
        nodes.retain(|node| self.nodes.at(node.id).health().last_boot().is_some());
        for info in &mut nodes {
            info.power = rounded(info.power);
            let doing = self.doing(info.id, now_us);
            info.idle = doing.idle();
            let node = self.nodes.at_mut(info.id);
            (node.told.state, node.told.doing, node.told.why) = (Some(info.state), doing, node.why());
        }
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
