//! What befalls the machines and the scheduler, and what users command: the lines of the plan, when their
//! time has come.

use starfarm_scheduler_core::{CommandError, JobCommand};

use crate::agenda::{MachineId, What};
use crate::machine::Process;
use crate::plan::Blow;
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
    pub(crate) fn blow(&mut self) -> Result<(), Broken> {
        let Some(&(_, blow)) = self.plan.lines.get(self.planned) else { return Ok(()) };
        self.planned += 1;
        self.plan_next();
        self.log.word(self.planned as u64);
        if self.verbose {
            eprintln!("{:>14.6} * {blow:?}", self.now_us as f64 / 1e6);
        }
        match blow {
            Blow::Start(machine) => return self.boot(machine),
            Blow::Submit(place) => return self.submit(place),
            Blow::Job(place, command) => return self.command_job(place, command),
            Blow::Node(machine, command) => {
                let side = &mut self.farm;
                // A node that the farm never saw cannot be commanded.
                let _unknown = side.farm.command_node(&format!("n{machine}"), command, &mut side.deeds);
                return self.turn();
            }
            Blow::Crash(machine, down_us) => self.crash(machine, down_us),
            Blow::Pause(machine, lasts_us) => self.pause(machine, lasts_us),
            Blow::Cut { machine, ways, begins } => self.network.cut(machine, ways, begins),
            Blow::Leave(machine, returns_us) => return self.leave(machine, returns_us),
            Blow::Stall(lasts_us) => {
                let until_us = self.now_us + lasts_us;
                self.farm.stalled_until_us = self.farm.stalled_until_us.max(until_us);
            }
        }
        self.tally.blows += 1;
        Ok(())
    }

    fn boot(&mut self, machine: MachineId) -> Result<(), Broken> {
        let m = &mut self.machines[machine as usize];
        m.boot(self.now_us);
        self.wiretap.on_boot(machine);
        self.settle(machine, Vec::new())
    }

    fn submit(&mut self, place: usize) -> Result<(), Broken> {
        let new = self.jobs[place].to_submit(place);
        let side = &mut self.farm;
        let submitted = side.farm.submit(new, self.now_us, &mut side.deeds);
        let id = submitted.map_err(|error| ("a job is accepted", format!("{error:?}")))?;
        if id.0 as usize != place + 1 {
            return Err(("jobs are numbered in the order of submission", format!("{id:?}")));
        }
        self.jobs[place].id = Some(id);
        self.turn()
    }

    fn command_job(&mut self, place: usize, command: JobCommand) -> Result<(), Broken> {
        let Some(id) = self.jobs[place].id else { return Ok(()) };
        let side = &mut self.farm;
        match side.farm.command_job(id, command, self.now_us, &mut side.deeds) {
            // A job may end before the command comes, by chance.
            Err(CommandError::Conflict(_)) => {}
            Err(CommandError::NotFound) => return Err(("a job is known", format!("{id:?}"))),
            Ok(()) if command == JobCommand::Delete => {
                (self.jobs[place].id, self.jobs[place].deleted) = (None, true);
            }
            Ok(()) => {}
        }
        self.turn()
    }

    /// The worker's process dies without a word.
    pub(crate) fn crash(&mut self, machine: MachineId, down_us: Option<u64>) {
        if self.machines[machine as usize].process != Process::Down {
            self.end_process(machine);
            self.wake_in(machine, down_us);
        }
    }

    fn end_process(&mut self, machine: MachineId) {
        let m = &mut self.machines[machine as usize];
        m.die(self.now_us);
        for what in std::mem::take(&mut m.late) {
            if let What::Deliver(_, parcel) = what {
                self.agenda.take(parcel);
            }
        }
    }

    fn wake_in(&mut self, machine: MachineId, after_us: Option<u64>) {
        if let Some(after_us) = after_us {
            let life = self.machines[machine as usize].life;
            self.agenda.at(self.now_us.saturating_add(after_us), What::Wake(machine, life));
        }
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
        m.worker.drain(self.now_us, &mut deeds);
        self.tally.blows += 1;
        self.settle(machine, deeds)
    }

    /// The worker has drained: it keeps what nobody acknowledged, and ends.
    pub(crate) fn left(&mut self, machine: MachineId) {
        let m = &mut self.machines[machine as usize];
        m.spool = m.worker.unacknowledged();
        let returns_us = m.returns_us;
        self.end_process(machine);
        self.machines[machine as usize].died_running.clear();
        self.wake_in(machine, returns_us);
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
                        What::Session(machine, life) => self.session(machine, life)?,
                        _ => {}
                    }
                }
                self.settle(machine, Vec::new())
            }
        }
    }
}
