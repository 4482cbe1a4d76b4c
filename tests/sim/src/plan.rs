//! The plan: what befalls the machines and what users command, drawn before the run and put in order.

use starfarm_scheduler_core::{JobCommand, NodeCommand};

use crate::agenda::MachineId;
use crate::fault::{Command, Deed, FaultKind, Line};
use crate::random::Random;
use crate::scenario::Scenario;

/// A slow machine takes so many times longer.
pub(crate) const SLOW_FACTOR: f64 = 50.0;

/// One thing that befalls the farm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Fault {
    /// A machine starts.
    Start(MachineId),
    /// The worker dies; a new one starts after so many microseconds, if ever.
    Crash(MachineId, Option<u64>),
    /// The worker stops for so long.
    Pause(MachineId, u64),
    /// The ways up and down are cut, or mended.
    Cut { machine: MachineId, ways: [bool; 2], begins: bool },
    /// A machine's path swallows large datagrams, or no more.
    Narrow { machine: MachineId, begins: bool },
    /// The worker is told to leave; a new one starts so long after it left.
    Leave(MachineId, Option<u64>),
    /// A machine becomes slow, or as fast as it was.
    Slow { machine: MachineId, begins: bool },
    /// A machine has what it lacked.
    Able(MachineId),
    /// Others have not heard it for a while, or say so.
    Doubt(MachineId),
    /// The worker wants new keys.
    Rekey(MachineId),
    /// What the first slot runs stands still for so long, if it ever goes on.
    Hang(MachineId, Option<u64>),
    /// A machine's clock jumps ahead.
    Jump(MachineId, u64),
    /// The scheduler does nothing for so long.
    Stall(u64),
    /// The scheduler's clock jumps ahead.
    SchedulerJump(u64),
    /// The scheduler dies; a new one starts after so long.
    SchedulerCrash(u64),
    /// A scheduler of an old copy has the address of these machines for so long.
    OldCopy([MachineId; 2], u64),
    /// The scheduler sleeps so long and has a successor meanwhile.
    Sleeper(u64),
    /// A user wants something.
    Order(Order),
}

/// What a user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The job of that place in the scenario is submitted.
    Submit(usize),
    /// A command on the job of that place.
    Job(usize, JobCommand),
    /// The units of the job of that place whose outputs are lost run again.
    Rerun(usize),
    /// A command on a node.
    Node(MachineId, NodeCommand),
}

/// The orders of a run.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// Those that were carried out, and the records that they are in.
    pub(crate) done: Vec<(u64, Order)>,
    /// Those that came while no scheduler ran, or were lost with one.
    pub(crate) again: Vec<Order>,
}

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// In order of time.
    pub(crate) lines: Vec<(u64, Fault)>,
    /// From then on nothing befalls the farm any more.
    pub(crate) quiet_us: u64,
    /// Schedulers start from what is on the disk, so there must be one.
    pub(crate) needs_disk: bool,
    /// Some path swallows large datagrams.
    pub(crate) has_narrow: bool,
}

/// Microseconds of a scenario's seconds.
pub(crate) fn us(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

impl Plan {
    /// Draws the plan of a scenario.
    pub(crate) fn draw(scenario: &Scenario, random: &mut Random) -> Self {
        let mut plan = Plan { lines: Vec::new(), quiet_us: 0, needs_disk: false, has_narrow: false };
        let mut machine = 0;
        for group in &scenario.nodes {
            for _ in 0..group.count {
                plan.add(us(group.start_s) + random.below(1_000_000), Fault::Start(machine));
                if let Some(able_s) = group.able_s {
                    plan.add(us(able_s), Fault::Able(machine));
                }
                machine += 1;
            }
        }
        for (place, job) in scenario.jobs.iter().enumerate() {
            plan.add(us(job.at_s), Fault::Order(Order::Submit(place)));
        }
        for fault in &scenario.faults {
            let [first, last] = fault.nodes.unwrap_or([0, machine - 1]);
            let mut at_us = us(fault.from_s) + random.wait_us(fault.every_s * 1e6);
            while at_us < us(fault.to_s) {
                let machine = first + random.below(u64::from(last - first + 1)) as u32;
                let [shortest, longest] = fault.lasts_s.map(us);
                let lasts_us = shortest + random.below(longest - shortest + 1);
                let machines = if fault.kind.is_joint() { [first, last] } else { [machine, machine] };
                plan.fault(at_us, fault.kind, machines, Some(lasts_us), random);
                at_us += random.wait_us(fault.every_s * 1e6);
            }
        }
        scenario.script.iter().for_each(|line| plan.line(line, random));
        // A stable sort: lines of one time stay in the order of the scenario.
        plan.lines.sort_by_key(|(at_us, _)| *at_us);
        plan
    }

    fn add(&mut self, at_us: u64, fault: Fault) {
        self.quiet_us = self.quiet_us.max(at_us);
        self.lines.push((at_us, fault));
    }

    /// Kinds that are not joint befall the first of the machines.
    fn fault(
        &mut self,
        at_us: u64,
        kind: FaultKind,
        machines: [MachineId; 2],
        lasts_us: Option<u64>,
        random: &mut Random,
    ) {
        let machine = machines[0];
        let long_us = lasts_us.unwrap_or(0);
        self.quiet_us = self.quiet_us.max(at_us.saturating_add(long_us));
        self.needs_disk |= kind.starts_a_scheduler();
        match kind {
            FaultKind::Crash => self.add(at_us, Fault::Crash(machine, lasts_us)),
            FaultKind::Leave => self.add(at_us, Fault::Leave(machine, lasts_us)),
            FaultKind::Pause => self.add(at_us, Fault::Pause(machine, lasts_us.unwrap_or(u64::MAX))),
            FaultKind::Partition => self.cut(at_us, machine, [true, true], lasts_us),
            FaultKind::Mute => self.cut(at_us, machine, [true, false], lasts_us),
            FaultKind::Deaf => self.cut(at_us, machine, [false, true], lasts_us),
            FaultKind::Narrow => {
                self.has_narrow = true;
                self.add(at_us, Fault::Narrow { machine, begins: true });
                if let Some(lasts_us) = lasts_us {
                    self.add(at_us + lasts_us, Fault::Narrow { machine, begins: false });
                }
            }
            FaultKind::Doubt => self.add(at_us, Fault::Doubt(machine)),
            FaultKind::Swizzle => self.swizzle(at_us, machines, long_us, random),
            FaultKind::Slow => {
                self.add(at_us, Fault::Slow { machine, begins: true });
                if let Some(lasts_us) = lasts_us {
                    self.add(at_us + lasts_us, Fault::Slow { machine, begins: false });
                }
            }
            FaultKind::Rekey => self.add(at_us, Fault::Rekey(machine)),
            FaultKind::Hang => self.add(at_us, Fault::Hang(machine, lasts_us)),
            FaultKind::Jump => self.add(at_us, Fault::Jump(machine, long_us)),
            FaultKind::Stall => self.add(at_us, Fault::Stall(long_us)),
            FaultKind::SchedulerJump => self.add(at_us, Fault::SchedulerJump(long_us)),
            FaultKind::SchedulerCrash => self.add(at_us, Fault::SchedulerCrash(long_us)),
            FaultKind::OldCopy => self.add(at_us, Fault::OldCopy(machines, long_us)),
            FaultKind::Sleeper => self.add(at_us, Fault::Sleeper(long_us)),
        }
    }

    fn cut(&mut self, at_us: u64, machine: MachineId, ways: [bool; 2], lasts_us: Option<u64>) {
        self.add(at_us, Fault::Cut { machine, ways, begins: true });
        if let Some(lasts_us) = lasts_us {
            self.add(at_us + lasts_us, Fault::Cut { machine, ways, begins: false });
        }
    }

    /// Some of the machines are cut off in one order and mended in another, as FoundationDB's tests do: most
    /// rules about who is connected to whom break in between.
    fn swizzle(&mut self, at_us: u64, [first, last]: [MachineId; 2], lasts_us: u64, random: &mut Random) {
        let mut some: Vec<MachineId> = (first..=last).filter(|_| random.below(4) > 0).collect();
        let (step_us, half_us) = (lasts_us / 2 / (some.len() as u64).max(1), lasts_us / 2);
        for (from_us, begins) in [(at_us, true), (at_us + half_us, false)] {
            random.shuffle(&mut some);
            for (nth, &machine) in (1..).zip(&some) {
                self.add(from_us + nth * step_us, Fault::Cut { machine, ways: [true, true], begins });
            }
        }
    }

    fn line(&mut self, line: &Line, random: &mut Random) {
        let at_us = us(line.at_s);
        let [first, last] = line.nodes.unwrap_or([0, 0]);
        let kind = match line.deed {
            Deed::Fault(kind) if kind.is_joint() => {
                return self.fault(at_us, kind, [first, last], line.lasts_s.map(us), random);
            }
            Deed::Fault(kind) => Ok(kind),
            Deed::Command(command) => match order(command, line.job.unwrap_or(1) as usize - 1) {
                Ok(order) => return self.add(at_us, Fault::Order(order)),
                Err(command) => Err(command),
            },
        };
        for machine in first..=last {
            let at_us = at_us + us(line.stagger_s * f64::from(machine - first));
            match kind {
                Ok(kind) => self.fault(at_us, kind, [machine, machine], line.lasts_s.map(us), random),
                Err(command) => self.add(at_us, Fault::Order(Order::Node(machine, command))),
            }
        }
    }
}

/// What the core is told: about the job of that place, or else about a node.
fn order(command: Command, place: usize) -> Result<Order, NodeCommand> {
    let command = match command {
        Command::CancelJob => JobCommand::Cancel,
        Command::PauseJob => JobCommand::Pause,
        Command::ResumeJob => JobCommand::Resume,
        Command::FrontJob => JobCommand::Front,
        Command::SwitchJob => JobCommand::Switch,
        Command::DeleteJob => JobCommand::Delete,
        Command::RetryJob => JobCommand::Retry,
        Command::RerunJob => return Ok(Order::Rerun(place)),
        Command::DrainNode => return Err(NodeCommand::Drain),
        Command::ResumeNode => return Err(NodeCommand::Resume),
    };
    Ok(Order::Job(place, command))
}
