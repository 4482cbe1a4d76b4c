//! The beats of the farm: a turn after each batch of inputs, a tick when a timer is due, and what becomes durable.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::journal::Record;
use starfarm_protocol::settings::Settings;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::nodes::Reach;
use crate::reconnect::Periods;

impl Farm {
    /// Takes back what nobody has any more, refills gq, assigns tasks to nodes with room, and packs what is to be sent.
    pub fn turn(&mut self, now_us: u64, deeds: &mut Deeds) {
        if self.reconnect.take_first_turn() {
            self.trace_distrusted(deeds);
            self.trace_conflicts(deeds);
            self.end_what_is_over(now_us, deeds);
        }
        self.note_settings(deeds);
        self.hear_waiting(now_us, deeds);
        self.unwind(now_us);
        self.start_followers(now_us, deeds);
        self.make_room(now_us, deeds);
        self.jobs.renew_open();
        let mut dirty = self.nodes.take_dirty();
        self.agenda.goes_on = !self.give_out(&dirty, now_us, deeds);
        dirty.append(&mut self.nodes.take_dirty());
        for &id in &dirty {
            self.speculate(id, now_us, deeds);
        }
        for &id in &dirty {
            self.nodes.unmark(id);
            self.flush(id, now_us, deeds);
            self.set_timer(id, now_us);
        }
        assert!(!self.commits.is_gathering(), "between turns all that was decided is in a record");
        self.nodes.end_turn();
        if self.agenda.goes_on {
            self.agenda.work_came = true;
            dirty.iter().for_each(|&id| self.nodes.mark(id));
        }
        if self.config.watch {
            self.watch(&dirty, now_us, deeds);
        }
        // Behind the states that it counts: who reads them in order counts none twice.
        if std::mem::take(&mut self.telemetry.is_due) {
            self.watch_period(now_us, deeds);
        }
    }

    /// Gives nodes what they have room for: those that this turn looks at, then the hungry ones. False where there was
    /// more than a turn's worth to give.
    fn give_out(&mut self, dirty: &[NodeId], now_us: u64, deeds: &mut Deeds) -> bool {
        let most = self.queues.dispatched() + self.config.tasks_a_turn;
        let work_came =
            std::mem::take(&mut self.agenda.work_came) | self.nodes.take_fewer() | self.queues.take_freed();
        // Every idle slot gets a task before any node gets work ahead.
        for reach in [Reach::Slots, Reach::Window] {
            for &id in dirty {
                self.dispatch(id, reach, now_us, deeds);
                if self.queues.dispatched() > most {
                    return false;
                }
            }
            let mut from = NodeId(0);
            while let Some(id) = self.nodes.hungry_from(from, reach).filter(|_| work_came) {
                if !self.jobs.has_work() {
                    break;
                }
                from = NodeId(id.0.saturating_add(1));
                if self.dispatch(id, reach, now_us, deeds) {
                    self.nodes.mark(id);
                }
                if self.queues.dispatched() > most {
                    return false;
                }
            }
        }
        true
    }

    /// When [`Farm::on_tick`] must be called at the latest, if nothing comes before.
    pub fn next_deadline_us(&self) -> u64 {
        if self.agenda.goes_on || self.takes_more_back() {
            return 0;
        }
        let others = [self.reconnect.release_us(), self.agenda.wake_us, self.nodes.next_timer_us()];
        others.into_iter().flatten().fold(self.agenda.period_us, u64::min)
    }

    /// Timers that are due: silent nodes, offers to repeat, acknowledgements that found no ride.
    pub fn on_tick(&mut self, now_us: u64, deeds: &mut Deeds) {
        while !self.agenda.is_full(self.config.tasks_a_turn)
            && let Some(id) = self.nodes.next_due(now_us)
        {
            self.on_node_timer(id, now_us, deeds);
        }
        if let Some(silent) = self.reconnect.take_release(now_us) {
            self.release_leases(now_us);
            // They were given nothing until now.
            silent.into_iter().for_each(|id| self.nodes.mark(id));
        }
        if self.agenda.wake_us.take_if(|at_us| now_us >= *at_us).is_some() {
            self.work_came();
        }
        if now_us >= self.agenda.period_us {
            self.agenda.period_us = now_us + self.config.settings.period_us;
            let feedback = &mut self.telemetry.totals.feedback;
            *feedback = [(0, 0), feedback[0]];
            self.nodes.grow_credit();
            self.record_totals(deeds);
            self.look_at_all();
            self.telemetry.is_due = self.config.watch;
        }
    }

    /// Records up to `sequence` are durable: what waited for that is acknowledged.
    pub fn on_durable(&mut self, sequence: u64, now_us: u64) {
        self.commits.on_durable(sequence);
        self.lease_durable();
        self.acknowledge_durable(now_us);
    }

    /// We did nothing for `stalled_us`: paused, or waiting for the disk. What nodes said meanwhile was not
    /// heard, so their silence does not count.
    pub fn on_stall(&mut self, stalled_us: u64, now_us: u64) {
        for (_, node) in self.nodes.iter_mut().filter(|(_, node)| !node.health().is_lost()) {
            let later = |at_us: u64| at_us.saturating_add(stalled_us).min(now_us);
            (node.heard_us, node.whole_us) = (later(node.heard_us), node.whole_us.map(later));
        }
        self.reconnect.stall(stalled_us);
    }

    /// Whether the scheduler's disk is below its low-water mark: then no program is started, since what it writes could
    /// not be kept.
    pub fn on_room(&mut self, no_room: bool) {
        if self.jobs.set_room(no_room) {
            self.look_at_all();
        }
    }

    /// Notes the settings that the next start must know, where they are others than before. While workers from before
    /// the start may still go by the old ones, the longer silence is noted.
    fn note_settings(&mut self, deeds: &mut Deeds) {
        let Settings { lost_us, period_us, .. } = self.config.settings;
        let before_us = if self.reconnect.goes_on() { self.reconnect.lost_us() } else { 0 };
        let lost_us = lost_us.max(before_us);
        if self.reconnect.noted != (Periods { lost_us, period_us }) {
            self.commit(Record::Periods { lost_us, period_us }, deeds);
        }
    }
}
