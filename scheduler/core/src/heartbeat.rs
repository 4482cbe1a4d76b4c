//! Heartbeats: what a node lists it holds. What it lists does not age, and what belonged to nobody is its own; what a live
//! node no longer lists, T_retry after it was seen last, goes back to gq.

use starfarm_events::Event;
use starfarm_protocol::ids::{Attempt, NodeId};
use starfarm_protocol::wire::{Cancel, Heartbeat, Held, Revoke};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::health::{Drain, Shirk};
use crate::limits::BEAT_PARTS_MAX;
use crate::node::GivenBack;
use crate::queues::{State, TaskId};
use crate::runs::Runs;
use crate::seat::Seat;

/// A node that was silent, or late, says within so many heartbeats what it holds.
const BEATS_OF_LIST: u64 = 3;

impl Farm {
    /// A heartbeat, or a part of one: what it lists slots of one kind hold.
    pub(crate) fn on_heartbeat(&mut self, seat: Seat, beat: Heartbeat, now_us: u64, deeds: &mut Deeds) {
        let id = seat.node;
        let node = self.nodes.at_mut(id);
        node.to_tell.answer = Some(beat.number);
        if beat.parts > BEAT_PARTS_MAX || node.allowances.looks.take(1, now_us) == 0 {
            node.totals.malformed += 1;
            return self.nodes.mark(id);
        }
        node.queued_tasks = beat.queued_tasks;
        // Where parts are lost no beat may come whole for long. What a part lists changes little from one to the next,
        // so one of each is as good.
        if node.beat.0 != beat.parts {
            node.beat = (beat.parts, Default::default());
        }
        node.beat.1.insert(beat.part);
        let is_whole = node.beat.1.len() == usize::from(beat.parts);
        if is_whole {
            node.beat.1.clear();
        }
        let drain = node.health().drain;
        if beat.draining && !drain.by_worker {
            // Whoever drained it was told that then.
            if !drain.by_person {
                deeds.event(Event::NodeDraining { node: node.name.clone() });
            }
            self.nodes.alter(id, |health| health.drain.by_worker = true);
        }
        if beat.part == 0 {
            self.note_runs(id, &beat.running, now_us);
        }
        if !beat.held.iter().all(|held| self.refresh(seat, held, now_us)) {
            self.nodes.at_mut(id).totals.malformed += 1;
        }
        if is_whole {
            self.judge_list(id, beat.running.len(), now_us, deeds);
        }
        self.nodes.mark(id);
    }

    /// Node `id` has said all that it holds, or has had the time to.
    fn judge_list(&mut self, id: NodeId, running: usize, now_us: u64, deeds: &mut Deeds) {
        if !self.looks_at(id, self.queues.ids_at(id).len() as u64, now_us) {
            return;
        }
        let node = self.nodes.at_mut(id);
        node.whole_us = Some(now_us);
        node.taken.clear();
        node.may_claim = false;
        let (most, queued) = (node.queue_tasks_max, node.queued_tasks);
        let at_devices: Vec<_> = node.all_devices().iter().map(|at| (at.kind(), at.told.clone())).collect();
        let mut on_cores = running;
        for (kind, told) in at_devices {
            let running = told.slots.iter().filter(|(_, load)| *load > 0).count();
            on_cores = on_cores.saturating_sub(running);
            self.queues.count_hidden(Seat::new(id, kind), told.queued_tasks.min(most) as usize + running);
        }
        self.queues.count_hidden(Seat::cores(id), queued.min(most) as usize + on_cores);
        self.reconnect.settle(id);
        self.expire(id, now_us, deeds);
        self.judge_given_back(id, now_us, deeds);
        self.trim(id, now_us, deeds);
        self.tell_hangs(id, now_us, deeds);
    }

    /// A node that is heard, and whose list has not come whole for as long as a silent one is waited for, keeps nothing by
    /// that: what came of the list is all.
    pub(crate) fn judge_late_list(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        if self.list_due_us(id).is_some_and(|due_us| now_us >= due_us) {
            let running = self.nodes.at(id).running.len();
            self.judge_list(id, running, now_us, deeds);
            // One that is late is not waited for as long again.
            self.nodes.at_mut(id).whole_us = None;
            self.lists_anew(id, now_us);
        }
    }

    /// Node `id` has at least the time of some heartbeats from now on to say what it holds.
    pub(crate) fn lists_anew(&mut self, id: NodeId, now_us: u64) {
        let settings = &self.config.settings;
        let due_us = now_us + BEATS_OF_LIST * settings.heartbeat_us;
        let whole_us = due_us.saturating_sub(settings.lost_us);
        let node = self.nodes.at_mut(id);
        node.whole_us = node.whole_us.max(Some(whole_us));
    }

    /// When the list of a node that has tasks must have come.
    pub(crate) fn list_due_us(&self, id: NodeId) -> Option<u64> {
        let whole_us = self.nodes.at(id).whole_us.filter(|_| !self.queues.ids_at(id).is_empty())?;
        Some(whole_us.saturating_add(self.config.settings.lost_us))
    }

    /// Attempts that a heartbeat lists do not age; what it lists of ended jobs is revoked; what came back
    /// to gq although the node still holds it is adopted. False where the node has had so much looked at that this must
    /// wait.
    fn refresh(&mut self, seat: Seat, held: &Held, now_us: u64) -> bool {
        let id = seat.node;
        let Some(job) = self.jobs.get(held.job) else {
            let (cancel, before) = (Cancel::Forced, Attempt(u64::MAX));
            self.withdraw_from(id, Revoke { job: held.job, cancel, before }, now_us);
            return self.looks_at(id, 1, now_us);
        };
        if self.nodes.at(id).health().is_distrusted() {
            self.withdraw_from(id, self.so_far(held.job, Cancel::Forced), now_us);
            return self.looks_at(id, 1, now_us);
        }
        let (revoked, has_ended) = (job.revoked, job.state.ended());
        let (before_walked, mut looks) = (self.queues.walked(), 1);
        self.claim_report(id, held);
        let before = revoked.map(|(before, _)| before);
        let is_old = self.queues.seen(id, held.job, held.at(), before, now_us);
        match revoked {
            Some((before, cancel)) if is_old || has_ended => {
                self.withdraw_from(id, Revoke { job: held.job, cancel, before }, now_us);
            }
            _ if has_ended => {}
            _ => {
                if self.reconnect.goes_on() {
                    self.claim(seat, held, now_us);
                }
                looks += self.adopt(seat, held, now_us);
            }
        }
        self.queues.copies_seen(id, held.job, held.at(), now_us);
        looks += self.queues.walked() - before_walked;
        self.looks_at(id, looks, now_us)
    }

    /// What node `id` lists is not wanted of it. A node that lists ever new jobs is told of some of them: what it goes on
    /// listing is told later.
    fn withdraw_from(&mut self, id: NodeId, revoke: Revoke, now_us: u64) {
        if self.nodes.at_mut(id).allowances.withdrawals.take(1, now_us) > 0 {
            self.revoke_from(id, revoke);
        }
    }

    /// Units in gq that this node holds all the same, since it was only thought lost, are its own again. How many intervals
    /// were looked at.
    fn adopt(&mut self, seat: Seat, held: &Held, now_us: u64) -> u64 {
        let id = seat.node;
        let (job, taken) = (self.jobs.at_mut(held.job), &self.nodes.at(id).taken);
        let mut its = Runs::default();
        let taken_of_job = taken.iter().filter(|(job, _)| *job == held.job);
        taken_of_job.for_each(|(_, taken)| its.insert(held.at().within(*taken), ()));
        let mut looks = taken.len();
        for at in its.intervals() {
            // What it has computed already another is to compute again.
            let own = job.checks.first_by(id, at);
            looks += own.len();
            own.into_iter().for_each(|own| its.remove(own));
        }
        if !its.intervals().is_empty() && !self.may_hold(self.jobs.at(held.job), id) {
            // Others have its place by now.
            self.withdraw_from(id, self.so_far(held.job, Cancel::Forced), now_us);
            return looks as u64;
        }
        let job = self.jobs.at_mut(held.job);
        for at in its.intervals() {
            self.queues.adopt(&mut job.units, seat, at, now_us);
        }
        looks as u64
    }

    /// A node that gives its tasks back unasked, again and again, is probed until it does one.
    fn judge_given_back(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let node = self.nodes.at_mut(id);
        if node.health().drain != Drain::NO {
            node.given_back = GivenBack::default();
        }
        if !node.given_back.is_too_much() {
            return;
        }
        let shirk = Shirk::GivesBack(node.given_back.tasks);
        self.shirks(id, shirk, deeds, now_us);
    }

    /// Attempts that a live node no longer lists, for longer than T_retry, go back to gq.
    fn expire(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let is_over = |task_id: &TaskId| {
            let task = self.queues.task(*task_id);
            // What an ended job leaves goes anyway.
            let Some(job) = self.jobs.unfinished(task.job) else { return false };
            let retry_us = self.config.settings.retry_us(job.target_us());
            matches!(task.state, State::Held { seen_us } if now_us >= seen_us.saturating_add(retry_us))
        };
        let expired: Vec<TaskId> = self.queues.ids_at(id).iter().copied().filter(is_over).collect();
        if expired.is_empty() {
            return;
        }
        for task_id in expired {
            let (job, at) = (self.queues.task(task_id).job, self.queues.task(task_id).at);
            self.may_report_later(id, job, at);
            self.give_back(task_id, at, now_us);
            let node = self.nodes.at(id).name.clone();
            deeds.event(Event::TaskExpired { job, lo: at.lo, hi: at.hi, node });
        }
        self.nodes.alter(id, |health| health.sinks(now_us));
    }
}
