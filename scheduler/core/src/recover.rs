//! Recovery: what a hello, a heartbeat or silence says about the attempts that a node has. Three timers,
//! never mixed: offers repeat at their RTO until they are acknowledged; an attempt that a heartbeat lists
//! never expires by age; one that a live node no longer lists expires T_retry after it was last seen.
//! A lost node gives all of its own back at once.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use starfarm_events::Event;
use starfarm_protocol::ids::Attempt;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::limits::{NODE_TASKS_MAX, PROTOCOL_VERSION, RIDE_US, SLOTS_MAX};
use starfarm_protocol::wire::{
    Cancel, Facts, Feedback, Heartbeat, Held, Hello, Malformed, Message, Revoke, messages,
};

use crate::coverage::{Class, Classes};
use crate::deed::{Deed, Deeds};
use crate::farm::Farm;
use crate::limits::AGES_MAX;
use crate::node::{Node, RoundTrip};
use crate::rating::Rating;
use crate::record::Record;
use crate::task::{NodeId, State, Task, TaskId};

impl Farm {
    /// A node has a session: the rim knows its key and its name.
    pub fn on_session(&mut self, id: NodeId, name: &str, now_us: u64) {
        if self.nodes.len() < self.config.nodes_max || self.nodes.contains_key(&id) {
            let node = self.nodes.entry(id).or_insert_with(|| Node::new(name.into(), now_us));
            node.greeted = false;
        }
    }

    /// An opened datagram of a node.
    pub fn on_datagram(&mut self, id: NodeId, datagram: &[u8], now_us: u64, deeds: &mut Deeds) {
        if !self.nodes.contains_key(&id) || self.hears_later(id, datagram) {
            return;
        }
        self.watched.traffic[0].add(datagram.len());
        self.ages.clear();
        for message in messages(datagram) {
            match message {
                Ok(Message::Hello(hello)) => self.on_hello(id, &hello, now_us, deeds),
                // Before its hello a node has no incarnation, so nothing else makes sense.
                Ok(_) if self.nodes.get(&id).is_none_or(|node| node.boot.is_none()) => {}
                Ok(Message::TaskAck(ranges)) => self.on_task_ack(id, ranges, now_us),
                Ok(Message::Results(results)) => self.on_results(id, results, now_us, deeds),
                Ok(Message::Feedback(feedback)) => self.on_feedback(id, feedback),
                Ok(Message::Heartbeat(beat)) => self.on_heartbeat(id, beat, now_us, deeds),
                Ok(Message::Bye) => self.leave(id, NodeMark::Left, deeds),
                Ok(Message::Facts(facts)) => self.on_facts(id, facts, deeds),
                Ok(Message::Load(load)) => {
                    if let Some(node) = self.nodes.get_mut(&id) {
                        (node.load, node.idle_us) = (load.slots, load.idle_us);
                    }
                }
                Ok(Message::Able(times)) => self.on_able(id, times),
                Ok(Message::Ages(ages)) => {
                    self.ages.clear();
                    self.ages.extend(ages.take(AGES_MAX));
                }
                Ok(_) | Err(Malformed) => {
                    if let Some(node) = self.nodes.get_mut(&id) {
                        node.totals.malformed += 1;
                    }
                }
            }
        }
        self.heard(id, now_us, deeds);
    }

    fn on_hello(&mut self, id: NodeId, hello: &Hello, now_us: u64, deeds: &mut Deeds) {
        let superseded = self.superseded_by(hello);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if superseded {
            deeds.event(Event::Superseded { node: node.name.clone(), epoch: hello.known_epoch.0 });
            deeds.0.push(Deed::Superseded(hello.known_epoch));
            return;
        }
        node.to_tell.welcome = true;
        if hello.version != PROTOCOL_VERSION {
            let name = node.name.clone();
            deeds.event(Event::VersionSkew { node: name, version: hello.version });
            return self.mark(id);
        }
        node.greeted = true;
        let slots = hello.slots.clamp(1, SLOTS_MAX);
        let (before, running) = (node.boot, std::mem::take(&mut node.running));
        if before != Some(hello.boot) {
            if let Some(boot) = before {
                let died = if hello.died_running.is_empty() { &running } else { &hello.died_running };
                let (was_lost, heard_us) = (node.lost, node.heard_us);
                self.orphan_all(id);
                if !hello.died_running.is_empty() {
                    self.pardon_guesses((id, boot), &hello.died_running, deeds);
                }
                if !was_lost || !hello.died_running.is_empty() {
                    self.died((id, boot, heard_us), died, now_us, deeds);
                }
            }
            let Some(node) = self.nodes.get_mut(&id) else { return };
            node.boot = Some(hello.boot);
            let joined = Record::Node { node: id, name: node.name.to_string(), boot: hello.boot };
            // Numbers of the incarnation before mean other results here.
            (node.to_tell.acks, node.to_tell.acks_count) = (Vec::new(), 0);
            (node.lost, node.suspect, node.revoked) = (false, false, false);
            node.taken.clear();
            node.joined_us = now_us;
            node.feedback = Some(Feedback::default());
            node.steps = 0;
            node.task_us = 0.0;
            node.able = 0;
            node.rise();
            node.draining = false;
            node.rating = Rating::new(now_us, self.config.settings.period_us);
            node.beat = (0, BTreeSet::new());
            // Another incarnation may have what that one lacked.
            self.unwinding.renew(id, true);
            let event = Event::NodeJoined { node: node.name.clone(), boot: hello.boot, slots };
            self.next_node = self.next_node.max(id.0 + 1);
            deeds.event(event);
            self.record(joined, deeds);
            self.record(Record::Joined { node: id, slots, at_us: now_us }, deeds);
            self.forget_acquitted(id);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.slots = slots;
        node.queue_tasks_max = hello.queue_tasks_max.clamp(1, NODE_TASKS_MAX);
        node.receive_datagrams_max = hello.receive_datagrams_max.max(1);
        node.rtt = RoundTrip::default();
        self.count_live(id);
        self.mark(id);
    }

    /// A worker knows a later incarnation of this farm. It cannot make one up: the proof is our farm's own.
    fn superseded_by(&self, hello: &Hello) -> bool {
        let Some(proofs) = &self.config.proofs else { return false };
        let other = match hello.known_epoch.cmp(&self.config.epoch) {
            Ordering::Less => false,
            // Somebody else has this number: the directory was copied, and both were started.
            Ordering::Equal => hello.known_proof != proofs.of(self.config.epoch),
            Ordering::Greater => true,
        };
        other && proofs.is_genuine(hello.known_epoch, &hello.known_proof)
    }

    /// Anything authentic from a node shows that it lives.
    fn heard(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.heard_us = now_us;
        node.restored = false;
        if node.boot.is_some() && (node.suspect || node.lost) {
            deeds.event(Event::NodeBack { node: node.name.clone() });
            let (was_lost, boot) = (node.lost, node.boot);
            (node.suspect, node.lost) = (false, false);
            if was_lost && let Some(boot) = boot {
                // It did not die, so nothing that it was running killed it.
                self.record(Record::Mark { node: id, mark: NodeMark::Back }, deeds);
                self.pardon_for_good((id, boot), deeds);
            }
            self.count_live(id);
            self.mark(id);
        }
        self.set_timer(id, now_us);
    }

    /// It can run now what it refused: no specification reached it then.
    fn on_able(&mut self, id: NodeId, times: u32) {
        let node = self.nodes.get_mut(&id).expect("it was looked up for this datagram");
        if std::mem::replace(&mut node.able, times) != times {
            self.unwinding.renew(id, false);
            self.mark(id);
        }
    }

    fn on_facts(&mut self, id: NodeId, facts: Facts, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.facts.as_ref() != Some(&facts)) else {
            return;
        };
        deeds.event(Event::NodeFacts {
            node: node.name.clone(),
            system: facts.system.clone(),
            cpu: facts.cpu.clone(),
            cores: facts.cores,
            memory_bytes: facts.memory_bytes,
            accelerators: facts.accelerators.clone(),
        });
        node.facts = Some(facts);
    }

    /// How long ago a result of the datagram at hand was over, as its worker says; 0: just now, or nobody knows.
    pub(crate) fn age_us(&self, sequence: u64) -> u64 {
        let age = self.ages.iter().rev().find(|(from, _)| *from <= sequence);
        age.map_or(0, |(_, age_us)| *age_us)
    }

    fn on_feedback(&mut self, id: NodeId, feedback: Feedback) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(before) = node.feedback else {
            node.feedback = Some(feedback);
            return;
        };
        let ups = feedback.speed_ups.wrapping_sub(before.speed_ups);
        let downs = feedback.slow_downs.wrapping_sub(before.slow_downs);
        // Totals only grow; a smaller one is an old datagram.
        if ups >= 1 << 31 || downs >= 1 << 31 {
            return;
        }
        node.feedback = Some(feedback);
        let step = i64::from(self.config.settings.speed_step) * i64::from(node.slots);
        node.step(step * (i64::from(ups.min(64)) - i64::from(downs.min(64))));
        node.totals.speed_ups += u64::from(ups);
        node.totals.slow_downs += u64::from(downs);
        self.totals.feedback[0].0 += u64::from(ups);
        self.totals.feedback[0].1 += u64::from(downs);
        self.watched.feedback.0 += u64::from(ups);
        self.watched.feedback.1 += u64::from(downs);
        self.mark(id);
    }

    fn on_heartbeat(&mut self, id: NodeId, beat: Heartbeat, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.to_tell.answer = Some(beat.number);
        node.queued_tasks = beat.queued_tasks;
        let queued = beat.queued_tasks.min(node.queue_tasks_max) as usize;
        if beat.draining && !node.draining {
            node.draining = true;
            // Whoever drained it was told that then.
            if !node.drained {
                deeds.event(Event::NodeDraining { node: node.name.clone() });
            }
            self.count_live(id);
        }
        if beat.part == 0 {
            self.note_runs(id, &beat.running, now_us);
        }
        let node = self.nodes.get_mut(&id).expect("its heartbeat is at hand");
        if beat.part == 0 {
            node.running.clone_from(&beat.running);
        }
        // Where parts are lost no beat may come whole for long. What a part lists changes little from one to the next,
        // so one of each is as good.
        if node.beat.0 != beat.parts {
            node.beat = (beat.parts, BTreeSet::new());
        }
        node.beat.1.insert(beat.part);
        let whole = node.beat.1.len() == usize::from(beat.parts);
        if whole {
            node.beat.1.clear();
        }
        self.refresh(id, &beat.held, now_us);
        if whole {
            self.count_joined(id, queued + beat.running.len());
            self.settle(id);
            self.expire(id, now_us, deeds);
            self.tell_hangs(id, now_us, deeds);
        }
        self.mark(id);
    }

    /// A node said all that it holds: `tasks` of its own count wait or run there. Where ranges that it was found to
    /// hold are among them, those hide some of these tasks.
    fn count_joined(&mut self, id: NodeId, tasks: usize) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.taken.clear();
        let found = |task: &TaskId| self.dq.peek(*task).is_some_and(Task::is_found);
        let hidden = if node.tasks.iter().any(found) { tasks.saturating_sub(node.tasks.len()) } else { 0 };
        node.joined_tasks = hidden;
    }

    /// Attempts that a heartbeat lists do not age; what it lists of ended jobs is withdrawn; what came back
    /// to gq although the node still holds it is adopted.
    fn refresh(&mut self, id: NodeId, held: &[Held], now_us: u64) {
        for held in held {
            let (lo, hi) = (held.lo, held.lo.saturating_add(u128::from(held.units)));
            let unwanted = match self.jobs.get(&held.job) {
                None => Some((Attempt(u64::MAX), Cancel::Forced)),
                Some(job) => job.withdrawn,
            };
            let mut withdrawn = !self.jobs.contains_key(&held.job);
            for task_id in self.dq.overlapping(held.job, lo, hi) {
                let task = self.dq.at(task_id);
                if task.node == id {
                    if let State::Held { seen_us } = &mut task.state {
                        *seen_us = now_us;
                    }
                    withdrawn |= unwanted.is_some_and(|(before, _)| task.attempt < before);
                }
            }
            let ended = self.jobs.get(&held.job).is_some_and(|job| job.state.ended());
            if let (true, Some((before, letting))) = (withdrawn || ended, unwanted) {
                let withdraw = Revoke { job: held.job, cancel: letting, before };
                if let Some(node) = self.nodes.get_mut(&id)
                    && !node.to_tell.withdraws.contains(&withdraw)
                {
                    node.to_tell.withdraws.push(withdraw);
                }
            } else if !ended {
                self.claim(id, held.job, lo, hi, now_us);
                self.adopt(id, held, now_us);
            }
            for copy in self.dq.copies_in(held.job, lo, hi) {
                let task = self.dq.at(copy);
                if let (true, State::Held { seen_us }) = (task.node == id, &mut task.state) {
                    *seen_us = now_us;
                }
            }
        }
    }

    /// Units in gq that this node holds all the same, since it was only thought lost, are its own again.
    fn adopt(&mut self, id: NodeId, held: &Held, now_us: u64) {
        const PENDING: Classes = Classes::of(&[Class::Pending]);
        let (lo, hi) = (held.lo, held.lo.saturating_add(u128::from(held.units)));
        let (Some(job), Some(node)) = (self.jobs.get_mut(&held.job), self.nodes.get(&id)) else { return };
        let mut pieces = Vec::new();
        for &(_, taken_lo, taken_hi) in node.taken.iter().filter(|(job, ..)| *job == held.job) {
            let (lo, hi) = (lo.max(taken_lo), hi.min(taken_hi));
            if lo < hi {
                job.coverage.change(lo, hi, PENDING, Class::Out, &mut pieces);
            }
        }
        for piece in pieces {
            self.gq.remove(held.job, piece.lo, piece.hi);
            self.put_held(id, held.job, (piece.lo, piece.hi), now_us);
        }
    }

    /// Attempts that a live node no longer lists, for longer than T_retry, go back to gq.
    fn expire(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get(&id) else { return };
        let mut expired = Vec::new();
        for &task_id in &node.tasks {
            let task = self.dq.at(task_id);
            // What an ended job leaves goes anyway.
            let Some(job) = self.jobs.get(&task.job).filter(|job| !job.state.ended()) else { continue };
            if let State::Held { seen_us } = task.state
                && now_us >= seen_us.saturating_add(self.config.settings.retry_us(job.target_us()))
            {
                expired.push(task_id);
            }
        }
        if expired.is_empty() {
            return;
        }
        for task_id in expired {
            let (job, lo, hi) = {
                let task = self.dq.at(task_id);
                (task.job, task.lo, task.hi)
            };
            self.back_to_gq(task_id, lo, hi);
            if let Some(node) = self.nodes.get(&id) {
                deeds.event(Event::TaskExpired { job, lo, hi, node: node.name.clone() });
            }
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.sink(now_us);
        }
        self.count_live(id);
    }

    /// A node is gone: `how` says whether it said goodbye.
    fn leave(&mut self, id: NodeId, how: NodeMark, deeds: &mut Deeds) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        deeds.event(Event::NodeLeft { node: node.name.clone() });
        node.running.clear();
        self.orphan_all(id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.taken.clear();
            // The next hello is a new incarnation, even of the same boot.
            node.left = node.boot.take().or(node.left);
            (node.lost, node.revoked) = (true, how == NodeMark::Revoked);
        }
        self.record(Record::Mark { node: id, mark: how }, deeds);
        self.settle(id);
        self.count_live(id);
        self.mark(id);
    }

    /// A node's key was revoked: it can be heard and told nothing any more, so what it has goes back at once.
    pub fn on_revoked(&mut self, id: NodeId, deeds: &mut Deeds) {
        self.leave(id, NodeMark::Revoked, deeds);
    }

    /// We did nothing for `stalled_us`: paused, or waiting for the disk. What nodes said meanwhile was not
    /// heard, so their silence does not count.
    pub fn on_stall(&mut self, stalled_us: u64, now_us: u64) {
        for node in self.nodes.values_mut().filter(|node| !node.lost) {
            node.heard_us = node.heard_us.saturating_add(stalled_us).min(now_us);
        }
        if self.release_us != u64::MAX {
            self.release_us = self.release_us.saturating_add(stalled_us);
        }
    }

    /// A node's timer fired.
    pub(crate) fn on_node_timer(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        let (suspect_us, lost_us) = (self.config.settings.suspect_us, self.lost_us(id));
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.timer_us = u64::MAX;
        let silent_us = now_us.saturating_sub(node.heard_us);
        if !node.lost && silent_us >= lost_us {
            // A copy does not go back: the first dispatch goes on.
            let goes_back = |task: &&TaskId| self.dq.peek(**task).is_some_and(|task| !task.copy);
            let tasks = node.tasks.iter().filter(goes_back).count();
            let (name, boot, heard_us) = (node.name.clone(), node.boot, node.heard_us);
            let running = self.may_have_run(id);
            let node = self.nodes.get_mut(&id).expect("it was found above");
            node.running.clear();
            (node.lost, node.suspect) = (true, false);
            self.take_all_back(id);
            deeds.event(Event::NodeLost { node: name, tasks: tasks as u64 });
            self.record(Record::Mark { node: id, mark: NodeMark::Gone }, deeds);
            self.count_live(id);
            if let Some(boot) = boot {
                self.died((id, boot, heard_us), &running, now_us, deeds);
            }
            self.settle(id);
        } else if !node.lost && !node.suspect && silent_us >= suspect_us {
            node.suspect = true;
            deeds.event(Event::NodeSuspect { node: node.name.clone() });
            self.count_live(id);
        }
        self.repeat_offers(id, now_us, deeds);
        self.mark(id);
    }

    /// The silence after which node `id` is lost. One from before the start keeps to the pace of before until it is
    /// welcomed anew.
    pub(crate) fn lost_us(&self, id: NodeId) -> u64 {
        let unheard = self.nodes.get(&id).is_some_and(|node| node.restored);
        if unheard { self.unheard_us } else { self.config.settings.lost_us }
    }

    /// Sets the node's timer to the first thing that may be due.
    pub(crate) fn set_timer(&mut self, id: NodeId, now_us: u64) {
        let (suspect_us, lost_us) = (self.config.settings.suspect_us, self.lost_us(id));
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let silence = match node {
            Node { lost: true, .. } => u64::MAX,
            Node { suspect: true, .. } => node.heard_us + lost_us,
            _ => node.heard_us + suspect_us,
        };
        // The first of the offers stands for all: an entry behind it waits at most one RTO longer.
        let offered = node.offered.front().filter(|_| node.listens());
        let repeat = offered.map_or(u64::MAX, |first| first.sent_us + node.rtt.rto_us());
        let rides = !node.to_tell.acks.is_empty() && node.listens();
        let ride = if rides { node.to_tell.acks_since_us + RIDE_US } else { u64::MAX };
        let probe = node.probe.map_or(u64::MAX, |p| if p.at_us > now_us { p.at_us } else { u64::MAX });
        let at_us = silence.min(repeat).min(ride).min(probe).max(now_us + 1);
        // A timer that fires early looks again; only an earlier one needs a new entry.
        if at_us < node.timer_us {
            node.timer_us = at_us;
            self.timers.push(Reverse((at_us, id)));
        }
    }
}
