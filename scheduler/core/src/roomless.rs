//! Units whose files some nodes have no room for: that is nobody's fault. Others get them, however busy these are.

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::interval::Interval;
use starfarm_protocol::wire::ResultEntry;

use crate::deed::Deeds;
use crate::farm::Farm;
use crate::found::Found;
use crate::job::Job;
use crate::limits::{RETURN_PAUSE_MIN_US, ROOM_PAUSE_MAX_US, ROOMLESS_UNITS_MAX};
use crate::queues::Class;
use crate::seat::Seat;

impl Farm {
    /// A node has no room for the files of these units of a result, in order: they go to others, and to those that have said so
    /// ever later. A node that says so of too many that still wait has no room for the job; these go back like what a node that
    /// refuses a job had of it, and nothing is remembered of each. How many there are in all.
    pub(crate) fn take_roomless_back(
        &mut self,
        id: NodeId,
        (entry, found): (&ResultEntry<'_>, &Found),
        units: Vec<u128>,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> u128 {
        let count = units.len() as u128;
        let mut beyond: Vec<Interval> = Vec::new();
        for unit in units {
            // The same answer may come again.
            self.may_report_later(id, entry.job, Interval::one(unit));
            let job = self.jobs.at_mut(entry.job);
            let roomless = &job.units.roomless;
            let is_known = roomless.of(unit).any(|said| said.1 == id);
            if !is_known && roomless.said_by(id) >= ROOMLESS_UNITS_MAX {
                match beyond.last_mut().filter(|last| last.hi == unit) {
                    Some(last) => last.hi += 1,
                    None => beyond.push(Interval::one(unit)),
                }
                continue;
            }
            let pause_us = job.room_pause_us(unit);
            // It waits alone.
            job.units.lacks_room(unit, entry.attempt, id);
            self.take_part_back(id, entry, Interval::one(unit), now_us);
            self.jobs.at_mut(entry.job).pause(id, Interval::one(unit), now_us, pause_us);
        }
        if !beyond.is_empty() {
            for &part in &beyond {
                self.take_part_back(id, entry, part, now_us);
            }
            let why = match found.why_no_room() {
                why if why.is_empty() => "its files have no room there".to_owned(),
                why => why,
            };
            let why = format!("of {ROOMLESS_UNITS_MAX} units and more: {why}");
            self.on_refused(Seat::cores(id), (entry.job, why), now_us, deeds);
        }
        count
    }
}

impl Job {
    /// How long a unit that a node has no room for does not go to one that has said so: ever longer.
    pub(crate) fn room_pause_us(&self, unit: u128) -> u64 {
        let again = self.returned_at(unit).filter(|_| self.units.roomless.has(unit));
        again.map_or(RETURN_PAUSE_MIN_US, |back| 2 * back.pause_us).min(ROOM_PAUSE_MAX_US)
    }

    /// All that is left of the job are units that some nodes have no room for: the first of these.
    pub(crate) fn waits_for_room(&self) -> Option<u128> {
        let roomless = || self.units.roomless.units(Interval::new(0, u128::MAX));
        let first = roomless().next().filter(|_| self.active())?;
        let is_rest =
            self.units.coverage().count(Class::Out) == 0 && self.pending() <= roomless().count() as u128;
        is_rest.then_some(first)
    }
}
