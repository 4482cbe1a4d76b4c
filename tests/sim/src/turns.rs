//! The scheduler's turns, as `dispatcher::run` makes them: it waits for an input or a deadline, tells the farm what it
//! overslept and what is durable, takes a batch of what has come, ticks, and ends the turn.

use starfarm_scheduler_core::{INPUTS_PER_TURN, NodeId};

use crate::seat::Input;
use crate::sim::{SPINS_MAX, Sim};
use crate::violation::{Broken, rule};

impl Sim {
    /// The dispatcher hears these, or just that more is durable: at once where it waits.
    pub(crate) fn input<const N: usize>(&mut self, inputs: [Input; N]) -> Result<(), Broken> {
        self.farm.inbox.extend(inputs);
        if self.now_us >= self.free_us() {
            return self.turn();
        }
        self.wake_farm(self.free_us());
        Ok(())
    }

    pub(crate) fn farm_tick(&mut self) -> Result<(), Broken> {
        if self.farm.tick_us > self.now_us {
            // An earlier one was put in after this, and has been here.
            return Ok(());
        }
        self.farm.tick_us = u64::MAX;
        if self.turn_due_us() > self.now_us {
            self.wake_farm(self.turn_due_us());
            return Ok(());
        }
        let side = &mut self.farm;
        side.spins = if self.now_us <= side.ticked_us + 1 { side.spins + 1 } else { 0 };
        side.ticked_us = self.now_us;
        rule(side.spins < SPINS_MAX, "the farm does not spin", || "it ticks every microsecond".to_owned())?;
        self.turn()
    }

    /// A turn of the scheduler.
    pub(crate) fn turn(&mut self) -> Result<(), Broken> {
        let (now_us, side) = (self.farm_us(), &mut self.farm);
        side.beat.turn_begins(&mut side.farm, side.durable, now_us, &mut side.deeds);
        if side.rightful {
            self.answered = side.beat.durable;
        }
        let batch = side.inbox.len().min(1 + INPUTS_PER_TURN);
        self.tally.batch_max = self.tally.batch_max.max(batch);
        for _ in 0..batch {
            let input = self.farm.inbox.pop_front().expect("it is as long as that");
            self.take(input)?;
        }
        let side = &mut self.farm;
        side.farm.on_tick(now_us, &mut side.deeds);
        side.farm.turn(now_us, &mut side.deeds);
        side.turning_until_us = self.now_us + self.scenario.farm.turn_us;
        self.ask_programs()?;
        self.turn_ends()
    }

    /// The dispatcher takes an input.
    pub(crate) fn take(&mut self, input: Input) -> Result<(), Broken> {
        let (now_us, side) = (self.farm_us(), &mut self.farm);
        match input {
            Input::Session(machine) => {
                side.farm.on_session(NodeId(machine), &format!("n{machine}"), now_us);
            }
            Input::Peer(machine, session) => side.peers[machine as usize] = session,
            Input::Datagram(machine, bytes) => {
                if side.rightful && self.plan.needs_disk {
                    self.wiretap.on_farm_hears(machine, &bytes, &self.jobs);
                }
                side.farm.on_datagram(NodeId(machine), &bytes, now_us, &mut side.deeds);
            }
            Input::Ask(order) => self.obey(order)?,
            Input::Named(batch) => self.grow(batch)?,
            Input::Doubt(machine) => {
                let now_us = self.farm_us();
                self.farm.farm.doubt([format!("n{machine}").as_str()].into_iter(), now_us);
            }
        }
        Ok(())
    }
}
