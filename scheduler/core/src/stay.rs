//! Nodes that leave by themselves, because a batch system ends them: they get what is over before that, by the speed that
//! was measured, and nothing else. Where no speed is known each slot gets a task that tells.

use starfarm_events::Event;
use starfarm_protocol::ids::NodeId;
use starfarm_protocol::wire::TimeLeft;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Job;
use crate::node::Stay;
use crate::seat::Seat;

impl Farm {
    /// A node says how long it stays. It says so with each heartbeat; the first one is told.
    pub(crate) fn on_time_left(&mut self, id: NodeId, left: TimeLeft, now_us: u64, deeds: &mut Deeds) {
        let TimeLeft { left_us, work_us } = left;
        let node = self.nodes.at_mut(id);
        let stay = Stay {
            works_us: now_us.saturating_add(work_us.min(left_us)),
            ends_us: now_us.saturating_add(left_us),
        };
        if node.stay.replace(stay).is_none() {
            deeds.event(Event::NodeTimeLeft { node: node.name.clone(), time_left_us: left_us });
            self.nodes.mark(id);
        }
    }

    /// Tasks that `seat` may have if each of the next ones takes `next_us`, so that all are over before its node leaves.
    pub(crate) fn tasks_in_time(&self, seat: Seat, next_us: f64, now_us: u64) -> usize {
        let Some(free_us) = self.free_us(seat, next_us, now_us) else { return usize::MAX };
        let slots = usize::from(self.nodes.at(seat.node).slots_of(seat.kind)).max(1);
        let before = self.given(seat).all() / slots;
        // One for each slot tells how long they take.
        let rounds = if next_us == 0.0 {
            usize::from(before == 0)
        } else {
            (free_us as f64 / next_us + 1e-6) as usize
        };
        before.saturating_add(rounds).saturating_mul(slots)
    }

    /// `seat` would be done with so many units of a job before its node leaves, if it began at once.
    pub(crate) fn has_time(&self, job: &Job, seat: Seat, units: u128, now_us: u64) -> bool {
        let Some(stay) = self.nodes.at(seat.node).stay else { return true };
        let rate = job.rate_on(seat);
        let takes_us = if rate > 0.0 { units as f64 * 1e6 / rate } else { 0.0 };
        now_us < stay.works_us && takes_us <= (stay.works_us - now_us) as f64
    }

    /// What is left of the time of `seat` once its slots are free, the next task taking `next_us`, 0 where nobody knows; none
    /// where its node stays.
    pub(crate) fn free_us(&self, seat: Seat, next_us: f64, now_us: u64) -> Option<u64> {
        let node = self.nodes.at(seat.node);
        let left_us = node.stay?.works_us.saturating_sub(now_us);
        let known_us = node.filling(seat.kind).task_us;
        let task_us = if known_us > 0.0 { known_us } else { next_us };
        let before = self.given(seat).all() / usize::from(node.slots_of(seat.kind)).max(1);
        Some(left_us.saturating_sub((before as f64 * task_us) as u64))
    }
}
