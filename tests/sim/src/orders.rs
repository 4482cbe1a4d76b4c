//! What users command: carried out, answered once it is durable, commanded again where no answer came.

use std::collections::BTreeMap;

use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::NodeMark;
use starfarm_scheduler_core::{CommandError, JobCommand, JobState, NodeCommand, NodeId};

use crate::plan::Order;
use crate::seat::Input;
use crate::sim::Sim;
use crate::violation::{Broken, rule};

/// The outputs of so many neighbours are lost ...
const LOST: u128 = 10;
/// ... of so many units.
const LOST_OF: u128 = 4 * LOST;

impl Sim {
    /// Users whose orders the scheduler has not even heard get no answer from it.
    pub(crate) fn hang_up(&mut self) {
        for input in std::mem::take(&mut self.farm.inbox) {
            if let Input::Ask(order) = input {
                self.orders.again.push(order);
            }
        }
    }

    /// The scheduler does what a user orders.
    pub(crate) fn obey(&mut self, order: Order) -> Result<(), Broken> {
        let accepted = match order {
            Order::Submit(place) => self.submit(place)?,
            Order::Job(place, command) => self.command_job(place, command)?,
            Order::Rerun(place) => self.rerun(place)?,
            Order::Node(machine, command) => {
                let side = &mut self.farm;
                // A node that the farm never saw cannot be commanded.
                side.farm.command_node(&format!("n{machine}"), command, &mut side.deeds).is_ok()
            }
        };
        if accepted {
            self.orders.done.push((self.farm.farm.last_sequence(), order));
        }
        Ok(())
    }

    fn submit(&mut self, place: usize) -> Result<bool, Broken> {
        let (new, now_us) = (self.jobs[place].to_submit(place), self.farm_us());
        let side = &mut self.farm;
        let submitted = match self.jobs[place].model.batch {
            0 => side.farm.submit(new, now_us, &mut side.deeds),
            _ => side.farm.submit_growing(new, now_us, &mut side.deeds),
        };
        let id = submitted.map_err(|error| ("a job is accepted", format!("{error:?}")))?;
        if id.0 as usize != place + 1 {
            return Err(("jobs are numbered in the order of submission", format!("{id:?}")));
        }
        self.jobs[place].id = Some(id);
        Ok(true)
    }

    fn command_job(&mut self, place: usize, command: JobCommand) -> Result<bool, Broken> {
        let (Some(id), now_us) = (self.jobs[place].id, self.farm_us()) else { return Ok(false) };
        let side = &mut self.farm;
        match side.farm.command_job(id, command, now_us, &mut side.deeds) {
            // A job may end before the command comes, by chance.
            Err(CommandError::Conflict(_)) => Ok(false),
            Err(CommandError::NotFound) => Err(("a job is known", format!("{id:?}"))),
            Ok(()) => {
                if command == JobCommand::Delete {
                    (self.jobs[place].id, self.jobs[place].deleted) = (None, true);
                }
                Ok(true)
            }
        }
    }

    /// The outputs of some units are lost, here and there. Those of them that did not run have none to lose.
    fn rerun(&mut self, place: usize) -> Result<bool, Broken> {
        let Some(id) = self.jobs[place].id else { return Ok(false) };
        let units = u128::from(self.jobs[place].model.units);
        let lost = (0..units).step_by(LOST_OF as usize).map(|lo| (lo, units.min(lo + LOST)));
        let lost: Vec<(u128, u128)> = lost.collect();
        let decided = self.jobs[place].decided_in(&lost);
        let side = &mut self.farm;
        match side.farm.rerun(id, &lost, &mut side.deeds) {
            Err(CommandError::Conflict(_)) => Ok(false),
            Err(CommandError::NotFound) => Err(("a job is known", format!("{id:?}"))),
            Ok(again) => {
                rule(again == decided, "units run again whose outputs are lost", || {
                    format!("{again} of {decided}")
                })?;
                Ok(true)
            }
        }
    }

    /// After a restart: what was answered is in force. What was lost is not, and will be ordered again.
    pub(crate) fn orders_in_force(&mut self, records: &[Record]) -> Result<(), Broken> {
        let survived = records.len() as u64 - 1;
        let lost = self.orders.done.partition_point(|(sequence, _)| *sequence <= survived);
        let lost: Vec<(u64, Order)> = self.orders.done.drain(lost..).collect();
        for &(sequence, order) in &lost {
            rule(sequence > self.answered, "an order that was answered is kept", || format!("{order:?}"))?;
        }
        let mut again = Vec::new();
        for (_, order) in lost {
            match order {
                // Of its records the first one is left: whoever looks sees that the job is there.
                Order::Submit(place) if self.jobs[place].id.is_some() => {
                    self.orders.done.push((survived, order))
                }
                _ => again.push(order),
            }
        }
        self.orders.again.splice(0..0, again);
        let (mut jobs, mut drained) = (BTreeMap::new(), BTreeMap::new());
        for &(_, order) in &self.orders.done {
            match order {
                Order::Submit(place) => drop(jobs.insert(place, JobCommand::Resume)),
                Order::Job(_, JobCommand::Front | JobCommand::Switch | JobCommand::Retry)
                | Order::Rerun(_) => {}
                Order::Job(place, command) => drop(jobs.insert(place, command)),
                Order::Node(machine, command) => drop(drained.insert(machine, command == NodeCommand::Drain)),
            }
        }
        for (place, last) in jobs {
            let job = &self.jobs[place];
            let state = job.id.and_then(|id| self.farm.farm.job(id, self.farm_us())).map(|view| view.state);
            let holds = match (last, state) {
                (JobCommand::Delete, state) => state.is_none(),
                (JobCommand::Cancel, state) => state == Some(JobState::Cancelled),
                (JobCommand::Pause, Some(state)) => state == JobState::Paused || state.ended(),
                (_, Some(state)) => state != JobState::Paused || job.model.bears_the_usual,
                (_, None) => false,
            };
            rule(holds, "an order is in force after a restart", || {
                format!("job {}: {last:?}, but it is {state:?}", place + 1)
            })?;
        }
        let marks = self.farm.farm.durable_state();
        for (machine, drained) in drained {
            let mark = Record::Mark { node: NodeId(machine), mark: NodeMark::Drained };
            rule(marks.contains(&mark) == drained, "a node is drained after a restart as before", || {
                format!("node {machine}: {drained}")
            })?;
        }
        Ok(())
    }
}
