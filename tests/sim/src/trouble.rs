//! What befalls the machines and the scheduler, and what users command: the lines of the plan, when their
//! time has come.

use crate::agenda::{MachineId, What};
use crate::machine::Process;
use crate::plan::{Fault, SLOW_FACTOR, us};
use crate::seat::Input;
use crate::sim::Sim;
use crate::violation::Broken;

impl Sim {
    /// Puts the next line of the plan on the agenda.
    pub(crate) fn plan_next(&mut self) {
        if let Some(&(at_us, _)) = self.plan.lines.get(self.planned) {
            self.agenda.at(at_us, What::Plan);
        }
    }

    /// The next line of the plan.
    pub(crate) fn fault(&mut self) -> Result<(), Broken> {
        let Some(&(_, fault)) = self.plan.lines.get(self.planned) else { return Ok(()) };
        self.planned += 1;
        self.plan_next();
        self.log.word(self.planned as u64);
        if self.verbose {
            eprintln!("{:>14.6} * {fault:?}", self.now_us as f64 / 1e6);
        }
        match fault {
            Fault::Start(machine) => return self.boot(machine),
            Fault::Order(order) => return self.order(order),
            Fault::Crash(machine, down_us) => self.crash(machine, down_us),
            Fault::Pause(machine, lasts_us) => self.pause(machine, lasts_us),
            Fault::Cut { machine, ways, begins } => self.network.cut(machine, ways, begins),
            Fault::Narrow { machine, begins } => self.paths.narrow(machine, begins),
            Fault::Leave(machine, returns_us) => return self.leave(machine, returns_us),
            Fault::Stall(lasts_us) => {
                let until_us = self.now_us + lasts_us;
                self.farm.stalled_until_us = self.farm.stalled_until_us.max(until_us);
            }
            Fault::Slow { machine, begins } => self.slow(machine, begins),
            Fault::Able(machine) => return self.able(machine),
            Fault::Rekey(machine) => {
                if self.machines[machine as usize].process == Process::Up {
                    self.shake_hands(machine);
                }
            }
            Fault::Doubt(machine) if self.farm.up => self.input([Input::Doubt(machine)])?,
            Fault::Doubt(_) => {}
            Fault::Hang(machine, lasts_us) => self.hang(machine, lasts_us),
            Fault::Jump(machine, by_us) => return self.jump(machine, by_us),
            Fault::SchedulerJump(by_us) => {
                self.farm.ahead_us += by_us;
                self.farm.tick_us = self.now_us;
                self.agenda.at(self.now_us, What::FarmTick(self.farm.incarnation));
            }
            Fault::SchedulerCrash(down_us) => return self.scheduler_crash(down_us),
            Fault::OldCopy(machines, lasts_us) => return self.old_copy(machines, lasts_us),
            Fault::Sleeper(lasts_us) => return self.sleeper(lasts_us),
        }
        self.tally.faults += 1;
        Ok(())
    }

    fn boot(&mut self, machine: MachineId) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        m.boot(self.now_us);
        self.wiretap.on_boot(machine);
        self.paths.boot(machine);
        self.boots_slowly(machine);
        self.settle(machine, Vec::new())
    }

    /// A machine that has just started its worker has other things to do.
    fn boots_slowly(&mut self, machine: MachineId) {
        let m = &mut self.machines[machine as usize];
        let [shortest, longest] = m.group.boot_s.map(us);
        if longest > 0 {
            let boots_us = shortest + m.random.below(longest - shortest + 1);
            let life = m.life;
            // Its last start may have come to no end.
            if !std::mem::replace(&mut m.booting, true) {
                self.slow(machine, true);
            }
            self.agenda.at(self.now_us + boots_us, What::Booted(machine, life));
        }
    }

    /// A machine has booted.
    pub(crate) fn booted(&mut self, machine: MachineId, life: u32) {
        let m = &mut self.machines[machine as usize];
        if m.life == life && std::mem::take(&mut m.booting) {
            self.slow(machine, false);
        }
    }

    /// A machine has what it lacked.
    fn able(&mut self, machine: MachineId) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        m.able = true;
        if m.process == Process::Down {
            return Ok(());
        }
        m.worker.on_bulk_opened(1);
        if m.process == Process::Up { self.settle(machine, Vec::new()) } else { Ok(()) }
    }

    /// A machine becomes slow, or as fast as it was.
    fn slow(&mut self, machine: MachineId, begins: bool) {
        let m = &mut self.machines[machine as usize];
        let factor = if begins { SLOW_FACTOR } else { 1.0 / SLOW_FACTOR };
        m.speed /= factor;
        for (slot, number) in m.slots.iter_mut().zip(0..) {
            slot.stretch(self.now_us, factor);
            if let Some(due_us) = slot.due_us() {
                self.agenda.at(due_us, What::Step(machine, number, slot.step));
            }
        }
    }

    /// What the first slot of a machine runs stands still. The slot takes part in all else.
    fn hang(&mut self, machine: MachineId, lasts_us: Option<u64>) {
        let slot = &mut self.machines[machine as usize].slots[0];
        slot.hang(self.now_us, lasts_us, &self.jobs);
        if let Some(due_us) = slot.due_us() {
            self.agenda.at(due_us, What::Step(machine, 0, slot.step));
        }
    }

    /// A machine's clock jumps ahead.
    fn jump(&mut self, machine: MachineId, by_us: u64) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        m.ahead_us += by_us;
        self.tally.faults += 1;
        if m.process == Process::Up { self.settle(machine, Vec::new()) } else { Ok(()) }
    }

    fn pause(&mut self, machine: MachineId, lasts_us: u64) {
        let m = &mut self.machines[machine as usize];
        if m.process == Process::Up {
            m.account(self.now_us);
            m.process = Process::Paused;
            self.wake_in(machine, Some(lasts_us));
        }
    }

    fn leave(&mut self, machine: MachineId, returns_us: Option<u64>) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        if m.process != Process::Up {
            return Ok(());
        }
        m.returns_us = returns_us;
        let mut deeds = Vec::new();
        m.worker.drain(m.clock_us(self.now_us), &mut deeds);
        self.tally.faults += 1;
        self.settle(machine, deeds)
    }

    /// A machine that was down boots, one that was paused goes on with what came meanwhile.
    pub(crate) fn wake(&mut self, machine: MachineId, life: u32) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        if m.life != life {
            return Ok(());
        }
        match m.process {
            Process::Down => self.boot(machine),
            Process::Up => Ok(()),
            Process::Paused => {
                m.account(self.now_us);
                m.process = Process::Up;
                m.late_datagrams = 0;
                m.tick_us = u64::MAX;
                for what in std::mem::take(&mut m.late) {
                    match what {
                        What::Deliver(machine, parcel) => self.deliver(machine, parcel)?,
                        What::Step(machine, slot, step) => self.step(machine, slot, step)?,
                        What::Session(machine, session) => self.session(machine, session)?,
                        _ => {}
                    }
                }
                self.settle(machine, Vec::new())
            }
        }
    }
}
