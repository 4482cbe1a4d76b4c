//! Dispatch: which node gets which task. A node with room takes from the first job in jq that has something for it; its
//! tasks go from gq into its node queue and into dq in one step.

use std::collections::BTreeSet;

use starfarm_protocol::devices::DeviceState;
use starfarm_protocol::ids::{JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::limits::NODE_TASKS_MAX;
use starfarm_protocol::resources::{GPU_PARTS, Resource, Resources};

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::filling::DevicesAt;
use crate::job::{Job, JobState, Returned};
use crate::limits::{LOOKS, PATIENCE_US, ROOM_PAUSE_MAX_US, WHOLE};
use crate::nodes::{Nodes, Reach};
use crate::queues::{Size, Task};
use crate::refill::{Ideal, whole_units};
use crate::seat::Seat;

/// How little a unit should go to a node: the worst first. There is always a node that no other beats, so this
/// is a preference and never keeps a unit from all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Aversion {
    /// The node has no room for its files.
    lacks_room: bool,
    /// The node died of it.
    died: bool,
    /// It failed there.
    failed: bool,
}

/// Who else could take what comes back to a node that it should not go to.
struct Choice {
    /// The node.
    id: NodeId,
    /// Live nodes that could run the job.
    able: usize,
    /// The node has a unit that was running when a worker died. It gets one at a time, or the innocent would die
    /// with the guilty again.
    has_suspect: bool,
    /// The node is doubted: it gets units from elsewhere than where it fails.
    elsewhere: bool,
}

/// What a node has room for.
#[derive(Clone, Copy)]
struct Room {
    /// Tasks ...
    tasks: usize,
    /// ... of so many units each.
    units: u64,
    /// A task of far fewer units than so many is a part of one.
    whole: u64,
    /// How large one of those that wait may be.
    size: Size,
}

impl Farm {
    /// Gives node `id` what it has room for; true where it got something.
    pub(crate) fn dispatch(&mut self, id: NodeId, reach: Reach, now_us: u64, deeds: &mut Deeds) -> bool {
        let before = self.queues.dispatched();
        self.telemetry.looks += 1;
        let had_room = self.fill(id, reach, now_us, deeds);
        self.nodes.note_room(id, reach, had_room);
        self.queues.dispatched() > before
    }

    /// Gives each kind of slots of node `id` tasks until it has no room or there is nothing for it; true where there is room
    /// left.
    fn fill(&mut self, id: NodeId, reach: Reach, now_us: u64, deeds: &mut Deeds) -> bool {
        if self.reconnect.waits_for(id) {
            // It says with its hello what it holds of before: until then its room is not known.
            return false;
        }
        if !self.agenda.hung.is_empty() {
            self.copy_hung(id, now_us, deeds);
        }
        let mut has_room = self.fill_seat(Seat::cores(id), reach, now_us, deeds);
        for at in 0..self.nodes.at(id).all_devices().len() {
            let kind = self.nodes.at(id).all_devices()[at].kind();
            has_room |= self.fill_seat(Seat::new(id, kind), reach, now_us, deeds);
        }
        has_room
    }

    /// Gives `seat` tasks until it has no room or there is nothing for it; true where it has room left.
    fn fill_seat(&mut self, seat: Seat, reach: Reach, now_us: u64, deeds: &mut Deeds) -> bool {
        let (mut at, mut within) = (0, self.nodes.at(seat.node).has_of(seat.kind));
        // Cards that no job before uses as devices, or none before takes for its programs.
        let mut cards = within.of(Resource::Gpus);
        while let Some(job_id) = self.jobs.open_at(at) {
            let job = self.jobs.at(job_id);
            if !job.active() || job.pending() == 0 {
                if at == 0 {
                    self.jobs.close_first();
                } else {
                    at += 1;
                }
                continue;
            }
            at += 1;
            if !self.jobs.gives_out(job) {
                continue;
            }
            if !job.fits_at(seat, &self.nodes) || !within.fits(job.needs_on(seat.kind)) {
                match self.takes_cards(job, seat) {
                    Some(_) if seat.kind.is_device() => break,
                    taken => cards = cards.saturating_sub(taken.unwrap_or(0)),
                }
                continue;
            }
            if job.needs_on(seat.kind).of(Resource::Gpus) > cards {
                continue;
            }
            let Some((ideal, doubted)) = self.wanted_at(job_id, seat, now_us) else { continue };
            let job = self.jobs.at(job_id);
            let slots = usize::from(self.nodes.at(seat.node).slots_of(seat.kind));
            let most = if reach == Reach::Slots || doubted { slots } else { NODE_TASKS_MAX as usize };
            let room = self.room_now(job, seat, &ideal, (within, reach, most), now_us);
            let gap = self.gap(job, seat.kind, within);
            cards = cards.saturating_sub(self.takes_cards(job, seat).unwrap_or(0));
            if room == 0 {
                let Some(gap) = gap else { return false };
                within = gap;
                continue;
            }
            // One that is asked again whether it can run the job shows that with a task a slot.
            let asked = job.refused_by.contains_key(&seat);
            // Pieces are a part of a task. While slots idle each is one, and near the end none is little.
            let whole = match reach {
                Reach::Slots => 0,
                Reach::Window => ideal.units.min(self.tail_units(job, 1)),
            };
            let tasks = if asked { room.min(slots) } else { room };
            let size = Size { units: ideal.units.into(), whole: whole_units(job, &ideal).into() };
            let room = Room { tasks, units: ideal.units, whole, size };
            let is_full = self.assign(job_id, seat, room, now_us, deeds);
            let job = self.jobs.at(job_id);
            if job.waits_for_lease() {
                // It will be there in milliseconds; the next job's turn has not come.
                return true;
            }
            if is_full && job.pending() > 0 && !asked && !doubted {
                // What it holds ahead of the next job would keep what is left of this one waiting, but for slots in which
                // nothing of this one fits.
                let Some(gap) = gap else { return false };
                within = gap;
            }
        }
        self.nodes.at(seat.node).health().is_there()
    }

    /// What `seat` should get of a job that fits there, and whether its node is doubted; none where that is nothing now.
    fn wanted_at(&mut self, job_id: JobId, seat: Seat, now_us: u64) -> Option<(Ideal, bool)> {
        let job = self.jobs.at(job_id);
        if let Some(again_us) = job.asked_again_us(seat).filter(|at_us| now_us < *at_us) {
            self.agenda.wake_at(again_us);
            return None;
        }
        if !self.may_hold(job, seat.node) {
            return None;
        }
        let doubted = self.doubts(job, seat.node);
        // What would not be over before the node leaves is for others.
        let mut ideal = self.next_task(job, seat, now_us)?;
        if doubted {
            ideal.units = 1;
        }
        Some((ideal, doubted))
    }

    /// Parts of cards of the node of `seat` that `job`, which goes before others, keeps from these there: as devices from
    /// programs on the cores, or for its own programs from those that use devices; none where it takes no card.
    fn takes_cards(&self, job: &Job, seat: Seat) -> Option<u64> {
        let node = self.nodes.at(seat.node);
        if seat.kind.is_device() {
            let is_card = node.devices(seat.kind).is_some_and(|at| at.told.takes_card);
            let taken = job.needs().of(Resource::Gpus);
            return (is_card && taken > 0 && job.could_run_at(Seat::cores(seat.node), &self.nodes))
                .then_some(taken);
        }
        let used = node.all_devices().iter().filter(|at| {
            at.told.takes_card && job.could_run_at(Seat::new(seat.node, at.kind()), &self.nodes)
        });
        // One that a program has is theirs once that has ended.
        let there =
            |at: &DevicesAt| at.told.slots.iter().filter(|of| of.0 != DeviceState::Sick).count() as u64;
        let cards: u64 = used.map(|at| there(at) * GPU_PARTS).sum();
        (cards > 0).then_some(cards)
    }

    /// Tasks of `job`, `most` of them, that `seat` has room for within that much of what is there.
    fn room_now(
        &self,
        job: &Job,
        seat: Seat,
        ideal: &Ideal,
        (within, reach, most): (Resources, Reach, usize),
        now_us: u64,
    ) -> usize {
        let mut room = self.room_within(job, seat, ideal, within, most, now_us);
        if reach == Reach::Slots && job.is_wide() && !seat.kind.is_device() {
            room = room.min(self.idle_slots(seat) / job.width());
        }
        assert!(
            ideal.units > 0 && room <= most,
            "a task has units, and a node no more of them than it may hold"
        );
        room
    }

    /// As many tasks of a job as `seat` has room for go from gq, refilled if need be, to it; true where it has no room
    /// left. Of pieces it gets as many as make that much work: each would else cost it a round trip.
    fn assign(&mut self, job_id: JobId, seat: Seat, room: Room, now_us: u64, deeds: &mut Deeds) -> bool {
        let id = seat.node;
        let Room { tasks: room, units: ideal, whole, size } = room;
        let most = self.tasks_max(seat);
        if most == 0 {
            return true;
        }
        let mut choice = self.choice(job_id, id);
        let waiting = match &choice {
            Some(Choice { elsewhere: true, .. }) if !self.fresh_elsewhere(job_id, id) => usize::MAX,
            _ => self.queues.waiting_of(job_id),
        };
        if waiting < room {
            self.refill(job_id, ideal, room - waiting, deeds);
        }
        let mut cut = waiting == usize::MAX;
        let (mut left, mut taken, mut is_apart) = (room as u64 * WHOLE, 0, true);
        while left > 0 && taken < most {
            let mut task = is_apart.then(|| self.take_apart(job_id, id, size, now_us)).flatten();
            is_apart = task.is_some();
            task = task.or_else(|| self.take(job_id, size, &mut choice, now_us));
            if task.is_none() && !std::mem::replace(&mut cut, true) {
                // What waits should go to others. There may be more.
                self.refill(job_id, ideal, left.div_ceil(WHOLE) as usize, deeds);
                task = self.take(job_id, size, &mut choice, now_us);
            }
            let Some(task) = task else { break };
            left = left.saturating_sub(Task::weight_of(task.units(), whole));
            taken += 1;
        }
        let is_full = left == 0 || taken == most;
        let job = self.jobs.at_mut(job_id);
        assert!(job.active(), "a job that waits or has ended gives nothing out");
        let given = self.queues.give(&mut job.units, seat, whole, now_us);
        assert!(given == taken && given <= most, "a node gets what it has room for");
        if given == 0 {
            return is_full;
        }
        job.totals.dispatched += given as u64;
        job.totals.started_us.get_or_insert(now_us);
        if let Some(refusal) = job.refused_by.get_mut(&seat) {
            refusal.probe = refusal.probe.given(now_us);
        }
        let is_first = job.state != JobState::Running;
        if self.nodes.at(id).health().standing.probe().is_some() {
            self.nodes.alter(id, |health| health.is_probed(now_us));
        }
        if is_first {
            self.set_state(job_id, JobState::Running, None, deeds);
            self.record_totals(deeds);
        }
        is_full
    }

    /// Tasks that `seat` may be given, however small they are: its queue holds no more.
    fn tasks_max(&self, seat: Seat) -> usize {
        let node = self.nodes.at(seat.node);
        let most = (node.queue_tasks_max as usize).max(usize::from(node.slots_of(seat.kind)) + 1);
        most.saturating_sub(self.queues.held(seat))
    }

    /// Takes what another node computed before, and node `id` is to compute again.
    fn take_apart(&mut self, job_id: JobId, id: NodeId, size: Size, now_us: u64) -> Option<Interval> {
        let job = self.jobs.at(job_id);
        if !job.checks.are_out() {
            return None;
        }
        let (patience_us, others_could) = (job.check_patience_us(), self.others_could(id, job));
        let from_us = |unit: u128, first: NodeId, since_us: u64| {
            let back = job.returned_at(unit).filter(|back| others_could && back.node == id);
            let own_us = if first == id { since_us.saturating_add(patience_us) } else { 0 };
            back.map_or(0, |back| back.until_us).max(own_us)
        };
        match self.queues.take_apart(job_id, id, size, from_us, now_us) {
            Ok(at) => Some(at),
            Err(again_us) => {
                again_us.into_iter().for_each(|at_us| self.agenda.wake_at(at_us));
                None
            }
        }
    }

    /// Takes the first task of a job out of gq that the node may have, of one that is too large the first units.
    /// None where there is none.
    fn take(
        &mut self,
        job_id: JobId,
        size: Size,
        choice: &mut Option<Choice>,
        now_us: u64,
    ) -> Option<Interval> {
        let job = self.jobs.at_mut(job_id);
        let Some(choice) = choice else {
            return self.queues.take(job_id, size, true, |unit| unit);
        };
        let wanted = |unit: u128| {
            let Some((until_us, from)) = job.keeps(unit, choice, &self.nodes, now_us) else { return unit };
            self.agenda.wake_at(until_us);
            from
        };
        let taken = self.queues.take(job_id, size, !choice.has_suspect, wanted)?;
        choice.has_suspect |= job.units.deaths.has(taken.lo);
        job.denied.remove(&taken.lo);
        Some(taken)
    }

    /// Who else could run what node `id` should not get; none where nothing of the job came back from a node.
    fn choice(&self, job_id: JobId, id: NodeId) -> Option<Choice> {
        let job = self.jobs.at(job_id);
        let elsewhere = self.doubts(job, id);
        let units = &job.units;
        let untried = units.deaths.is_empty() && units.failures.is_empty() && units.roomless.is_empty();
        if untried && job.returned.is_empty() && !elsewhere {
            return None;
        }
        let has_suspect = !units.deaths.is_empty()
            && self
                .queues
                .tasks_at(id)
                .any(|task| task.job == job_id && task.at.units() == 1 && units.deaths.has(task.at.lo));
        Some(Choice { id, able: self.able_nodes(job), has_suspect, elsewhere })
    }

    /// Live nodes that could run a job, and may have tasks of it beside those that have.
    fn able_nodes(&self, job: &Job) -> usize {
        if job.terms.max_nodes.is_none() {
            return job.able_nodes(&self.nodes);
        }
        let able = |id: NodeId| job.could_run(id, &self.nodes) && self.may_hold(job, id);
        self.nodes.taking().filter(|(id, _)| able(*id)).count()
    }

    /// What is cut next of a job lies elsewhere than what node `id` failed.
    fn fresh_elsewhere(&self, job_id: JobId, id: NodeId) -> bool {
        let Job { units, blame, .. } = self.jobs.at(job_id);
        blame.is_elsewhere(units, id, units.coverage().cursor(), Interval::new(0, 0))
    }
}

impl Job {
    fn aversion(&self, id: NodeId, unit: u128) -> Aversion {
        let died = self.units.deaths.of(unit).any(|death| death.0 == id);
        let failed = self.units.failures.of(unit).any(|run| run.1 == id);
        let lacks_room = self.units.roomless.of(unit).any(|run| run.1 == id);
        Aversion { lacks_room, died, failed }
    }

    /// A live node that has not refused the job is less averse to `unit` than the one at hand is.
    fn others_first(&self, unit: u128, choice: &Choice, nodes: &Nodes) -> bool {
        let aversion = self.aversion(choice.id, unit);
        if aversion == Aversion::default() {
            return false;
        }
        let died = self.units.deaths.of(unit).map(|death| death.0);
        let failed = self.units.failures.of(unit).chain(self.units.roomless.of(unit)).map(|run| run.1);
        let able = |id: &NodeId| nodes.is_live(*id) && self.could_run(*id, nodes);
        // Whoever is not among these is not averse at all.
        let blamed: BTreeSet<NodeId> = died.chain(failed).filter(able).collect();
        choice.able > blamed.len() || blamed.into_iter().any(|other| self.aversion(other, unit) < aversion)
    }

    /// Until when others may take the task in gq that begins with `unit`, and its first unit that the node may have before
    /// that; none where it may have all. The others may all be busy for long, so the pause has an end; after deaths it is
    /// long.
    fn keeps(&mut self, unit: u128, choice: &Choice, nodes: &Nodes, now_us: u64) -> Option<(u64, u128)> {
        let lacks_room = self.aversion(choice.id, unit).lacks_room;
        if lacks_room {
            // Its pause is a part of how long it waits.
            self.denied.entry(unit).or_insert(now_us);
        }
        // What two nodes have no room for does not go to and fro between them.
        let kept = |back: &&Returned| (back.node == choice.id || lacks_room) && back.until_us > now_us;
        if let Some(back) = self.returned_at(unit).filter(kept) {
            // Pieces that came back side by side are one, until it may have the first of them.
            let beside = |back: &&Returned| self.returned.get(&back.hi).filter(kept);
            let pieces = std::iter::successors(Some(back), beside).take(LOOKS);
            let (until_us, hi) =
                pieces.fold((u64::MAX, unit), |(us, _), back| (us.min(back.until_us), back.hi));
            return Some((until_us, hi));
        }
        let nothing = Interval::new(0, 0);
        let same_place = choice.elsewhere && !self.blame.is_elsewhere(&self.units, choice.id, unit, nothing);
        if !same_place && !self.others_first(unit, choice, nodes) {
            return None;
        }
        let deaths = self.units.deaths.of(unit).count();
        // Little but a larger disk would change that. Yet the others may be busy for weeks, and files may have gone.
        let patience_us = if lacks_room { ROOM_PAUSE_MAX_US } else { PATIENCE_US << deaths.min(6) };
        let until_us = *self.denied.entry(unit).or_insert(now_us) + patience_us;
        (until_us > now_us).then_some((until_us, if same_place { u128::MAX } else { unit + 1 }))
    }
}

#[cfg(test)]
mod tests;
