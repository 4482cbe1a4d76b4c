//! The plan: what befalls the machines and what users command, drawn before the run and put in order.

use starfarm_scheduler_core::{JobCommand, NodeCommand};

use crate::agenda::MachineId;
use crate::random::Random;
use crate::scenario::{Deed, FaultKind, Line, Scenario};

/// One thing that befalls the farm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Blow {
    /// A machine starts.
    Start(MachineId),
    /// The worker dies; a new one starts after so many microseconds, if ever.
    Crash(MachineId, Option<u64>),
    /// The worker stops for so long.
    Pause(MachineId, u64),
    /// The ways up and down are cut, or mended.
    Cut { machine: MachineId, ways: [bool; 2], begins: bool },
    /// The worker is told to leave; a new one starts so long after it left.
    Leave(MachineId, Option<u64>),
    /// The scheduler does nothing for so long.
    Stall(u64),
    /// The job of that place in the scenario is submitted.
    Submit(usize),
    /// A command on the job of that place.
    Job(usize, JobCommand),
    /// A command on a node.
    Node(MachineId, NodeCommand),
}

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// In order of time.
    pub(crate) lines: Vec<(u64, Blow)>,
    /// From then on nothing befalls the farm any more.
    pub(crate) quiet_us: u64,
}

/// Microseconds of a scenario's seconds.
pub(crate) fn us(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

impl Plan {
    /// Draws the plan of a scenario.
    pub(crate) fn draw(scenario: &Scenario, random: &mut Random) -> Self {
        let mut plan = Plan { lines: Vec::new(), quiet_us: 0 };
        let mut machine = 0;
        for group in &scenario.nodes {
            for _ in 0..group.count {
                plan.add(us(group.start_s) + random.below(1_000_000), Blow::Start(machine));
                machine += 1;
            }
        }
        for (place, job) in scenario.jobs.iter().enumerate() {
            plan.add(us(job.at_s), Blow::Submit(place));
        }
        for fault in &scenario.faults {
            let [first, last] = fault.nodes.unwrap_or([0, machine - 1]);
            let mut at_us = us(fault.from_s) + random.wait_us(fault.every_s * 1e6);
            while at_us < us(fault.to_s) {
                let machine = first + random.below(u64::from(last - first + 1)) as u32;
                let [shortest, longest] = fault.lasts_s.map(us);
                let lasts_us = shortest + random.below(longest - shortest + 1);
                plan.fault(at_us, fault.kind, machine, Some(lasts_us));
                at_us += random.wait_us(fault.every_s * 1e6);
            }
        }
        scenario.script.iter().for_each(|line| plan.line(line));
        // A stable sort: lines of one time stay in the order of the scenario.
        plan.lines.sort_by_key(|(at_us, _)| *at_us);
        plan
    }

    fn add(&mut self, at_us: u64, blow: Blow) {
        self.quiet_us = self.quiet_us.max(at_us);
        self.lines.push((at_us, blow));
    }

    fn fault(&mut self, at_us: u64, kind: FaultKind, machine: MachineId, lasts_us: Option<u64>) {
        let end_us = at_us.saturating_add(lasts_us.unwrap_or(0));
        self.quiet_us = self.quiet_us.max(end_us);
        match kind {
            FaultKind::Crash => self.add(at_us, Blow::Crash(machine, lasts_us)),
            FaultKind::Leave => self.add(at_us, Blow::Leave(machine, lasts_us)),
            FaultKind::Pause => self.add(at_us, Blow::Pause(machine, lasts_us.unwrap_or(u64::MAX))),
            FaultKind::Stall => self.add(at_us, Blow::Stall(lasts_us.unwrap_or(0))),
            FaultKind::Partition => self.cut(at_us, machine, [true, true], lasts_us),
            FaultKind::Mute => self.cut(at_us, machine, [true, false], lasts_us),
            FaultKind::Deaf => self.cut(at_us, machine, [false, true], lasts_us),
        }
    }

    fn cut(&mut self, at_us: u64, machine: MachineId, ways: [bool; 2], lasts_us: Option<u64>) {
        self.add(at_us, Blow::Cut { machine, ways, begins: true });
        if let Some(lasts_us) = lasts_us {
            self.add(at_us + lasts_us, Blow::Cut { machine, ways, begins: false });
        }
    }

    fn line(&mut self, line: &Line) {
        let at_us = us(line.at_s);
        let job = |command| Blow::Job(line.job.unwrap_or(1) as usize - 1, command);
        let kind = match line.deed {
            Deed::CancelJob => return self.add(at_us, job(JobCommand::Cancel)),
            Deed::PauseJob => return self.add(at_us, job(JobCommand::Pause)),
            Deed::ResumeJob => return self.add(at_us, job(JobCommand::Resume)),
            Deed::FrontJob => return self.add(at_us, job(JobCommand::Front)),
            Deed::SwitchJob => return self.add(at_us, job(JobCommand::Switch)),
            Deed::DeleteJob => return self.add(at_us, job(JobCommand::Delete)),
            Deed::DrainNode | Deed::ResumeNode => None,
            Deed::Crash => Some(FaultKind::Crash),
            Deed::Pause => Some(FaultKind::Pause),
            Deed::Partition => Some(FaultKind::Partition),
            Deed::Mute => Some(FaultKind::Mute),
            Deed::Deaf => Some(FaultKind::Deaf),
            Deed::Leave => Some(FaultKind::Leave),
            Deed::Stall => Some(FaultKind::Stall),
        };
        let [first, last] = line.nodes.unwrap_or([0, 0]);
        for machine in first..=last {
            let at_us = at_us + us(line.stagger_s * f64::from(machine - first));
            match kind {
                Some(kind) => self.fault(at_us, kind, machine, line.lasts_s.map(us)),
                None if line.deed == Deed::DrainNode => {
                    self.add(at_us, Blow::Node(machine, NodeCommand::Drain));
                }
                None => self.add(at_us, Blow::Node(machine, NodeCommand::Resume)),
            }
        }
    }
}
