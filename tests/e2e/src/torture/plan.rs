//! How much is to go wrong in a run, and the faults, in their order, that follow from its seed.

use std::time::Duration;

use starfarm_chaos::{Faults, Random};

/// What the farm has to do meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A search with planted targets: every unit is computed natively.
    Search,
    /// Programs that append to a file: what has run can be read there.
    Command,
    /// The same, and each takes a second.
    Sleep,
    /// Programs that make a file each from one that came along: most of the time something is on its way.
    Files,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The same seed chooses the same faults; the processes add chance of their own.
    pub seed: u64,
    /// What runs.
    pub kind: Kind,
    /// The job's units: a power of ten for a search.
    pub units: u64,
    /// Units of a task.
    pub units_per_task: u64,
    /// Workers, of one slot each.
    pub workers: usize,
    /// `kill -9` of a worker, which is started again after up to 3 s.
    pub worker_kills: usize,
    /// `kill -9` of the scheduler, which is started again at once or after up to 3 s.
    pub scheduler_kills: usize,
    /// Pauses of a process by SIGSTOP; the first is one of the scheduler if that is killed too.
    pub pauses: usize,
    /// How long a pause takes.
    pub pause: Duration,
    /// Cuts of the whole network.
    pub partitions: usize,
    /// Moments at which all TCP streams are cut.
    pub stream_cuts: usize,
    /// What the network does to each datagram.
    pub faults: Faults,
    /// The scheduler's `--checkpoint-seconds`.
    pub checkpoint_seconds: u64,
    /// A farm that makes no progress for so long hangs.
    pub patience: Duration,
}

/// A twentieth of the datagrams is late by up to half a second; with the loss, this is the network of the
/// figures in `docs/benchmarks.md`.
const NETWORK: Faults = Faults {
    loss: 0.2,
    duplication: 0.05,
    delay_us: 200,
    jitter_us: 500,
    late: 0.05,
    late_us: 500_000,
    ..Faults::NONE
};

impl Plan {
    /// Minutes to an hour: 10^6 tasks.
    pub fn full(kind: Kind) -> Self {
        Self {
            seed: 1,
            kind,
            units: match kind {
                Kind::Search => 10_000_000_000,
                Kind::Command | Kind::Sleep => 200_000,
                Kind::Files => 3_000,
            },
            units_per_task: if kind == Kind::Search { 10_000 } else { 1 },
            workers: 20,
            worker_kills: 50,
            scheduler_kills: 20,
            pauses: 5,
            pause: Duration::from_secs(10),
            partitions: 2,
            stream_cuts: 5,
            faults: NETWORK,
            checkpoint_seconds: 5,
            patience: Duration::from_secs(180),
        }
    }

    /// Nothing but a bad network, and tasks of a second: what is computed twice is wasted.
    pub fn waste(units: u64, workers: usize) -> Self {
        Self {
            units,
            workers,
            worker_kills: 0,
            scheduler_kills: 0,
            pauses: 0,
            partitions: 0,
            stream_cuts: 0,
            ..Self::full(Kind::Sleep)
        }
    }

    /// About a minute, for every day.
    pub fn quick(kind: Kind) -> Self {
        Self {
            units: match kind {
                Kind::Search => 1_000_000_000,
                Kind::Command | Kind::Sleep => 6_000,
                Kind::Files => 600,
            },
            units_per_task: if kind == Kind::Search { 10_000 } else { 2 },
            workers: 6,
            worker_kills: 5,
            scheduler_kills: 3,
            pauses: 1,
            pause: Duration::from_secs(6),
            partitions: 1,
            stream_cuts: 1,
            checkpoint_seconds: 1,
            ..Self::full(kind)
        }
    }
}

/// Something goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    KillWorker(usize),
    KillScheduler,
    PauseWorker(usize),
    PauseScheduler,
    Partition,
    CutStreams,
}

/// A fault, once so many units are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cue {
    pub(crate) units_done: u64,
    pub(crate) fault: Fault,
}

/// Faults come between these shares of the job, in thousandths: all of it must happen while there is work.
const FIRST: u64 = 10;
const LAST: u64 = 700;
/// This share of the faults comes together with the one before.
const TOGETHER: f64 = 0.25;

impl Plan {
    /// The last worker is never killed or paused: what is promised about it is not undone by its own end.
    pub(crate) fn spared(&self) -> usize {
        self.workers - 1
    }

    pub(crate) fn cues(&self, random: &mut Random) -> Vec<Cue> {
        let mut faults = Vec::new();
        let worker = |random: &mut Random| random.below(self.spared() as u64) as usize;
        faults.extend((0..self.worker_kills).map(|_| Fault::KillWorker(worker(random))));
        faults.extend((0..self.scheduler_kills).map(|_| Fault::KillScheduler));
        faults.extend((0..self.pauses).map(|number| match number {
            0 if self.scheduler_kills > 0 => Fault::PauseScheduler,
            _ => Fault::PauseWorker(worker(random)),
        }));
        faults.extend((0..self.partitions).map(|_| Fault::Partition));
        faults.extend((0..self.stream_cuts).map(|_| Fault::CutStreams));
        shuffle(&mut faults, random);
        let mut moments: Vec<u64> = faults.iter().map(|_| FIRST + random.below(LAST - FIRST)).collect();
        moments.sort_unstable();
        for index in 1..moments.len() {
            if random.chance(TOGETHER) {
                moments[index] = moments[index - 1];
            }
        }
        let cue = |(fault, moment): (Fault, u64)| Cue { units_done: self.units * moment / 1_000, fault };
        faults.into_iter().zip(moments).map(cue).collect()
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for index in (1..items.len()).rev() {
        items.swap(index, random.below(index as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faults_are_those_of_the_plan_in_an_order_that_follows_from_the_seed() {
        let plan = Plan::full(Kind::Search);
        let cues = |seed| plan.cues(&mut Random::new(seed));
        let count = |wanted: fn(&Fault) -> bool| cues(3).iter().filter(|cue| wanted(&cue.fault)).count();
        assert_eq!(count(|fault| matches!(fault, Fault::KillWorker(worker) if *worker < 19)), 50);
        assert_eq!(count(|fault| *fault == Fault::KillScheduler), 20);
        assert_eq!(count(|fault| *fault == Fault::PauseScheduler), 1);
        assert_eq!(count(|fault| matches!(fault, Fault::PauseWorker(_))), 4);
        assert_eq!(count(|fault| *fault == Fault::Partition), 2);
        assert_eq!(cues(3), cues(3));
        assert_ne!(cues(3), cues(4));
        assert!(cues(3).is_sorted_by_key(|cue| cue.units_done));
        assert!(cues(3).iter().all(|cue| cue.units_done < plan.units / 10 * 9));
    }
}
