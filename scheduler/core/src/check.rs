//! Doubt: what must hold at all times (R6 and state <=> place). The quick check is cheap enough for every
//! second; the full one walks everything. A violation is a bug of ours, so the caller stops the farm loudly.

use starfarm_events::{Event, Name};
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::limits::{PROBE_MAX_US, STANDSTILL_PERIODS, STANDSTILL_US};
use crate::node::Node;
use crate::queues::Class;
use crate::seat::Seat;

impl Farm {
    /// done + failed + out + pending + abandoned = N for every unfinished job; gq holds what is pending, dq what is
    /// out, and each task in dq is at a node that is there. O(jobs in jq + nodes).
    pub fn check_counters(&self) -> Result<(), String> {
        for job in self.jobs.queued() {
            job.units.coverage().check_sum().map_err(|e| format!("job {}: {e}", job.facts.job.0))?;
            self.queues.check_sums(&job.units)?;
        }
        let over = |id| self.jobs.unfinished(id).is_none();
        if let Some(job) = self.queues.jobs_out().find(|id| over(*id) && !self.agenda.has_ended(*id)) {
            return Err(format!("job {} has ended but has tasks in dq", job.0));
        }
        for (id, node) in self.nodes.iter() {
            if node.pieces.len() > self.config.pieces_max as usize {
                return Err(format!("node {}: {} pieces of its work lie apart", id.0, node.pieces.len()));
            }
            let tasks = self.queues.ids_at(id).len();
            if node.health().is_lost() && tasks > 0 {
                return Err(format!("node {} is lost but has {tasks} tasks", node.name));
            }
        }
        self.queues.check_places(self.nodes.iter().map(|(id, _)| id))
    }

    /// Nothing stands still: units that wait, and a node that could run them and has an idle slot, for a minute.
    /// That proves no wrong count, so it is told and the farm goes on. To be asked once a second; O(nodes + jobs).
    pub fn check_standstill(&mut self, now_us: u64, deeds: &mut Deeds) {
        let still_us = STANDSTILL_US.max(STANDSTILL_PERIODS * self.config.settings.period_us);
        let idles = |(id, node): &(NodeId, &Node)| {
            !self.reconnect.waits_for(*id)
                && self.nodes.seats(*id).any(|seat| self.idle_slots(seat) > 0)
                && now_us >= self.queues.given_us(*id).max(node.joined_us) + still_us
        };
        let idle: Vec<(NodeId, Name)> =
            self.nodes.taking().filter(idles).map(|(id, node)| (id, node.name.clone())).collect();
        let mut still = std::mem::take(&mut self.telemetry.still);
        still.retain(|id, _| self.jobs.get(*id).is_some());
        for job in self.jobs.queued() {
            let id = job.facts.job;
            let able = idle.iter().find(|(node, _)| {
                let could = |seat: Seat| {
                    job.could_run_at(seat, &self.nodes)
                        && self.has_slots(job, seat)
                        && self.next_task(job, seat, now_us).is_some()
                };
                self.may_hold(job, *node) && self.nodes.seats(*node).any(could)
            });
            let waits = job.active() && job.pending() > 0 && !job.waits_for_lease();
            let Some((_, node)) = able.filter(|_| waits) else {
                still.remove(&id);
                continue;
            };
            let (since_us, told) = still.entry(id).or_insert((now_us, false));
            // What workers died of waits for another node far longer, and so does what this one has no room for.
            let all = Interval::new(0, u128::MAX);
            let suspects = job.units.deaths.units(all).count() + job.units.roomless.units(all).count();
            let checks_us = if job.checks.are_out() { 2 * job.check_patience_us() } else { 0 };
            let most_us =
                if job.pending() <= suspects as u128 { 2 * PROBE_MAX_US } else { still_us.max(checks_us) };
            let for_us = now_us - *since_us;
            if for_us >= most_us && !std::mem::replace(told, true) {
                deeds.event(Event::Standstill { job: id, node: node.clone(), for_us });
            }
        }
        self.telemetry.still = still;
    }

    /// How much [`Farm::check_all`] walks: tasks, intervals, jobs and nodes.
    pub fn entries(&self) -> usize {
        let intervals: usize = self.jobs.iter().map(|job| 1 + job.units.coverage().segments()).sum();
        intervals + self.queues.waiting() + self.queues.out() + self.nodes.len()
    }

    /// No job has tasks at more nodes than it may. It may for a while where a node that was thought lost, and one that got
    /// its place, both say after a restart what they hold.
    pub fn check_max_nodes(&self) -> Result<(), String> {
        let crowded = self.jobs.iter().find_map(|job| {
            let (id, nodes) = (job.facts.job, self.queues.nodes_of(job.facts.job).count());
            let most = job.terms.max_nodes.filter(|most| nodes > *most as usize)?;
            Some(format!("job {} has tasks at {nodes} nodes and may have them at {most}", id.0))
        });
        crowded.map_or(Ok(()), Err)
    }

    /// Everything: coverage, gq, dq and nodes say the same of every unit.
    pub fn check_all(&self) -> Result<(), String> {
        self.check_counters()?;
        for job in self.jobs.iter() {
            let (id, coverage) = (job.facts.job.0, job.units.coverage());
            coverage.check().map_err(|e| format!("job {id}: {e}"))?;
            self.queues.check_waiting(&job.units)?;
            let undecided = coverage.count(Class::Pending) + coverage.count(Class::Out);
            if job.state.ended() && undecided > 0 {
                return Err(format!("job {id} has ended but waits"));
            }
            if !job.units.roomless.is_counted() {
                return Err(format!("job {id}: who lacks room for its units is miscounted"));
            }
            job.hits.check(|unit| coverage.is_done(unit)).map_err(|e| format!("job {id}: {e}"))?;
            if coverage.count(Class::Failed) != job.units.failed.units() {
                return Err(format!("job {id}: {} failed units are named", job.units.failed.units()));
            }
        }
        if self.commits.is_gathering() {
            return Err("done intervals wait for a record between turns".into());
        }
        if let Some(task) = self
            .queues
            .tasks()
            .find(|task| task.node != crate::queues::NOBODY && self.nodes.get(task.node).is_none())
        {
            return Err(format!("{task:?} is at no node"));
        }
        self.queues.check_tasks()
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId};

    use super::*;
    use crate::farm::Config;
    use crate::health::{Presence, Probe};
    use starfarm_protocol::admin::Place;

    use crate::job::{MaxFailures, NewJob, Refusal, Sizing, WorkFacts};
    use crate::{Terms, Trust};

    /// No turn is made, so that nobody gives out what waits.
    #[test]
    fn units_that_wait_while_a_node_idles_for_a_minute_are_told_once() {
        let (mut farm, mut deeds) = (Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 0), Deeds::default());
        let new = NewJob {
            name: String::new(),
            user: String::new(),
            spec: ContentHash([1; 32]),
            units: 10,
            work: WorkFacts::NOTHING,
            sizing: Sizing::Units(1),
            max_failures: MaxFailures::Usual,
            speculative: false,
            trust: Trust::default(),
            terms: Terms::default(),
            place: Place::Tail,
        };
        farm.submit(new, 0, &mut deeds).unwrap();
        let id = NodeId(0);
        farm.nodes.meet(id, "a", 0);
        farm.nodes.set_slots(id, 1);
        farm.nodes.alter(id, |health| {
            health.presence = Presence::Here(Boot(1));
            health.greeted = true;
        });
        let mut told = |farm: &mut Farm, second: u64| {
            deeds.0.clear();
            farm.check_standstill(second * 1_000_000, &mut deeds);
            deeds.0.len()
        };
        assert_eq!((0..150).map(|second| told(&mut farm, second)).sum::<usize>(), 1);
        // Another job may go on there while this one cannot.
        let job = farm.jobs.iter_mut().next().unwrap();
        let (probe, after) = (Probe::first(0), Attempt(1));
        job.refused_by.insert(Seat::cores(id), Refusal { why: "no python".into(), probe, after });
        assert_eq!((150..300).map(|second| told(&mut farm, second)).sum::<usize>(), 0);
    }
}

#[cfg(test)]
mod sums {
    use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId};
    use starfarm_protocol::limits::PROTOCOL_VERSION;
    use starfarm_protocol::wire::{Hello, Packer};

    use super::*;
    use crate::{Config, Deeds, MaxFailures, NewJob, NodeId, Place, Sizing, Terms, Trust, WorkFacts};

    /// A farm whose only node has two tasks of ten units; job 1 has more.
    fn farm() -> Farm {
        let (mut farm, mut deeds) = (Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 1), Deeds::default());
        let new = NewJob {
            name: String::new(),
            user: String::new(),
            spec: ContentHash([1; 32]),
            units: 40,
            work: WorkFacts::NOTHING,
            sizing: Sizing::Units(10),
            max_failures: MaxFailures::Usual,
            speculative: false,
            trust: Trust::default(),
            terms: Terms::default(),
            place: Place::Tail,
        };
        farm.submit(new, 1, &mut deeds).unwrap();
        let mut packer = Packer::new();
        packer.hello(&Hello {
            version: PROTOCOL_VERSION,
            boot: Boot(1),
            slots: 1,
            queue_tasks_max: 8,
            receive_datagrams_max: 8,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        });
        farm.on_session(NodeId(0), "a", 1);
        farm.on_datagram(NodeId(0), &packer.finish()[0], 1, &mut deeds);
        for _ in 0..2 {
            farm.on_durable(farm.last_sequence(), 1);
            farm.turn(1, &mut deeds);
        }
        assert_eq!((farm.queues.out(), farm.check_counters()), (2, Ok(())));
        farm
    }

    fn found(farm: &Farm) -> String {
        farm.check_counters().expect_err("the quick check sees it")
    }

    #[test]
    fn tasks_that_vanish_with_their_node_do_not_pass_the_quick_check() {
        let mut farm = farm();
        farm.nodes.alter(NodeId(0), |health| health.vanishes());
        assert_eq!(found(&farm), "node a is lost but has 2 tasks");
        farm.nodes.forget(NodeId(0));
        assert_eq!(found(&farm), "2 tasks in dq, 0 at nodes, 0 at nobody");
    }
}
