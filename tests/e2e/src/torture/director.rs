//! The course of a run: faults when their cue comes, what mends them some time later, a look at the job in
//! between, and the verdict at the end.

use std::time::{Duration, Instant};

use serde_json::Value;
use starfarm_chaos::{Direction, Faults, Random, Tcp};

use super::number;
use super::plan::{Cue, Fault, Plan};
use super::promise::Promises;
use super::report::Report;
use super::stage::Stage;
use super::work::Work;
use crate::Signal;
use crate::patience::until;

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(10);
/// Between two looks at the job; each is a process.
const LOOK: Duration = Duration::from_millis(250);
/// The same while the first task after a start is waited for.
const LOOK_SHARP: Duration = Duration::from_millis(40);
/// What was killed comes back within this time.
const BACK_MAX_MS: u64 = 3_000;
/// A cut takes at least this long, and up to twice as long.
const CUT_MS: u64 = 4_000;
/// Faults that come together still come one after another.
const TOGETHER_MAX_MS: u64 = 400;
/// Others leave the farm some time in between, however fast it is.
const GAP_MAX_MS: u64 = 2_000;

/// What mends a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Later {
    StartWorker(usize),
    ContinueWorker(usize),
    StartScheduler,
    ContinueScheduler,
    Mend,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scheduler {
    Up,
    Starting,
    Away,
}

struct Director<'a> {
    plan: &'a Plan,
    stage: Stage,
    work: Work,
    random: Random,
    cues: std::iter::Peekable<std::vec::IntoIter<Cue>>,
    agenda: Vec<(Instant, Later)>,
    scheduler: Scheduler,
    promises: Promises,
    next_fault: Instant,
    looked: Instant,
    /// Units done by the last look, and when they last grew.
    done: u64,
    grew: Instant,
    /// The first and the last look at the job in this life of the scheduler.
    life: Option<(Value, Value)>,
    /// Tasks given out by the first look after a start; until there are more.
    waits_for_task: bool,
    report: Report,
}

/// Runs a plan.
///
/// # Panics
/// Something is not as it must be.
pub fn run(plan: &Plan) -> Report {
    let mut random = Random::new(plan.seed);
    let mut stage =
        Stage::set(plan.workers, plan.seed, &["--checkpoint-seconds", &plan.checkpoint_seconds.to_string()]);
    stage.start_workers();
    // Commands about a node need one that the farm knows. Nothing here may wait once faults have begun, since
    // whoever waits mends none.
    let spared = Stage::name(plan.spared());
    until(&format!("node {spared} is known"), || !stage.node_state(&spared).is_empty());
    stage.proxy.set_all_faults(plan.faults);
    let work = Work::submit(&stage, plan);
    let now = Instant::now();
    let mut director = Director {
        plan,
        stage,
        work,
        cues: plan.cues(&mut random).into_iter().peekable(),
        random,
        agenda: Vec::new(),
        scheduler: Scheduler::Up,
        promises: Promises::default(),
        next_fault: now,
        looked: now,
        done: 0,
        grew: now,
        life: None,
        waits_for_task: false,
        report: Report {
            units: plan.units,
            tasks: plan.units.div_ceil(plan.units_per_task),
            ..Report::default()
        },
    };
    while !director.round() {
        std::thread::sleep(ROUND);
    }
    director.report.wall = now.elapsed();
    director.verdict()
}

impl Director<'_> {
    /// One round; true at the job's end.
    fn round(&mut self) -> bool {
        self.mend();
        self.stage.check_alive();
        if self.scheduler == Scheduler::Starting && self.stage.is_ready() {
            self.report.ready.push(self.stage.since_start());
            self.scheduler = Scheduler::Up;
            self.waits_for_task = true;
            self.promises.check(&self.stage);
        }
        let period = if self.waits_for_task { LOOK_SHARP } else { LOOK };
        if self.scheduler == Scheduler::Up && self.looked.elapsed() >= period && self.look() {
            return true;
        }
        assert!(
            self.grew.elapsed() < self.plan.patience,
            "no progress for {} s: {} of {} units, {:?}, {:?}",
            self.plan.patience.as_secs(),
            self.done,
            self.plan.units,
            self.life,
            self.agenda
        );
        self.hurt();
        false
    }

    /// Looks at the job; true at its end.
    fn look(&mut self) -> bool {
        let job = self.stage.job(&self.work.id);
        self.looked = Instant::now();
        let done = number(&job, "units_done");
        if done > self.done {
            self.grew = self.looked;
            self.work.check_meanwhile(done);
        }
        self.done = done;
        let ended = job["state"] != "running" && job["state"] != "queued";
        match &mut self.life {
            Some((first, last)) => {
                if self.waits_for_task && job["tasks_dispatched"] != first["tasks_dispatched"] {
                    self.report.first_task.push(self.stage.since_start());
                    self.waits_for_task = false;
                }
                *last = job;
            }
            None => self.life = Some((job.clone(), job)),
        }
        self.promises.check_node(&self.stage);
        ended
    }

    /// Takes what this life of the scheduler has counted; the next one may have forgotten it.
    fn end_life(&mut self) {
        if let Some((first, last)) = self.life.take() {
            let grown = |count: &dyn Fn(&Value) -> u64| count(&last).saturating_sub(count(&first));
            self.report.units_duplicate += grown(&|job| number(job, "units_duplicate"));
            self.report.resent += grown(&|job| job["tasks_resent"].as_u64().unwrap_or(0));
        }
        self.waits_for_task = false;
    }

    fn later(&mut self, wait: Duration, what: Later) {
        self.agenda.push((Instant::now() + wait, what));
    }

    fn some_ms(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.random.below(bound))
    }

    /// The next fault, if its cue has come.
    fn hurt(&mut self) {
        let Some(&Cue { units_done, fault }) = self.cues.peek() else { return };
        let needs_scheduler = matches!(fault, Fault::KillScheduler | Fault::PauseScheduler);
        let waits = needs_scheduler && self.scheduler != Scheduler::Up;
        if units_done > self.done || Instant::now() < self.next_fault || waits {
            return;
        }
        self.cues.next();
        let together = self.cues.peek().is_some_and(|next| next.units_done == units_done);
        eprintln!("{:>8} units done: {fault:?}", self.done);
        self.perform(fault);
        let gap = self.some_ms(if together { TOGETHER_MAX_MS } else { GAP_MAX_MS });
        self.next_fault = Instant::now() + gap;
    }

    /// This worker, and those that are hurt instead where it is away already.
    fn neighbours(&self, worker: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.plan.spared();
        (0..count).map(move |step| (worker + step) % count)
    }

    fn perform(&mut self, fault: Fault) {
        let pause = self.plan.pause;
        match fault {
            Fault::KillWorker(worker) => {
                let killed = self.neighbours(worker).find(|&worker| self.stage.kill_worker(worker));
                if let Some(worker) = killed {
                    self.agenda.retain(|(_, later)| *later != Later::ContinueWorker(worker));
                    self.report.worker_kills += 1;
                    let wait = self.some_ms(BACK_MAX_MS);
                    self.later(wait, Later::StartWorker(worker));
                }
            }
            Fault::KillScheduler => {
                self.promises.give(&self.stage, self.plan);
                self.end_life();
                self.stage.kill_scheduler();
                self.report.scheduler_kills += 1;
                self.scheduler = Scheduler::Away;
                let at_once = self.random.chance(0.5);
                let wait = if at_once { Duration::ZERO } else { self.some_ms(BACK_MAX_MS) };
                self.later(wait, Later::StartScheduler);
            }
            Fault::PauseWorker(worker) => {
                let there = self.neighbours(worker).find(|&worker| self.stage.worker(worker).is_some());
                if let Some((worker, daemon)) =
                    there.and_then(|worker| Some((worker, self.stage.worker(worker)?)))
                {
                    daemon.signal(Signal::STOP);
                    self.report.pauses += 1;
                    self.later(pause, Later::ContinueWorker(worker));
                }
            }
            Fault::PauseScheduler => {
                self.stage.scheduler().signal(Signal::STOP);
                self.report.pauses += 1;
                self.scheduler = Scheduler::Away;
                self.later(pause, Later::ContinueScheduler);
            }
            Fault::Partition => {
                self.stage.proxy.set_cut(Direction::Up, true);
                // Every other one lets the scheduler be heard, but not answered.
                self.stage.proxy.set_cut(Direction::Down, self.random.chance(0.5));
                self.stage.proxy.set_tcp(Tcp::Stall);
                self.report.partitions += 1;
                let wait = Duration::from_millis(CUT_MS) + self.some_ms(CUT_MS);
                self.later(wait, Later::Mend);
            }
            Fault::CutStreams => self.stage.proxy.cut_streams(),
        }
    }

    /// What is due to be mended.
    fn mend(&mut self) {
        let now = Instant::now();
        let (due, rest) = std::mem::take(&mut self.agenda).into_iter().partition(|&(when, _)| when <= now);
        self.agenda = rest;
        let due: Vec<(Instant, Later)> = due;
        for (_, what) in due {
            match what {
                Later::StartWorker(worker) => self.stage.start_worker(worker),
                Later::ContinueWorker(worker) => {
                    if let Some(daemon) = self.stage.worker(worker) {
                        daemon.signal(Signal::CONT);
                    }
                }
                Later::StartScheduler => {
                    self.stage.start_scheduler();
                    self.scheduler = Scheduler::Starting;
                }
                Later::ContinueScheduler => {
                    self.stage.scheduler().signal(Signal::CONT);
                    self.scheduler = Scheduler::Up;
                }
                Later::Mend => {
                    self.stage.proxy.set_cut(Direction::Up, false);
                    self.stage.proxy.set_cut(Direction::Down, false);
                    self.stage.proxy.set_tcp(Tcp::Pass);
                }
            }
        }
    }

    /// The job has ended: everything must be exact.
    fn verdict(mut self) -> Report {
        let left: Vec<Cue> = self.cues.by_ref().collect();
        assert!(left.is_empty(), "the job was too short, these faults are left: {left:?}");
        self.end_life();
        self.stage.proxy.set_all_faults(Faults::NONE);
        while !self.agenda.is_empty() {
            self.mend();
            std::thread::sleep(ROUND);
        }
        let job = self.stage.job(&self.work.id);
        self.work.check(&self.stage, &job);
        self.promises.release(&self.stage);
        self.stage.end_workers();
        self.stage.scheduler().signal(Signal::TERM);
        self.stage.scheduler().wait();
        self.report.audit = self.stage.audit();
        let (up, down) =
            (self.stage.proxy.counters(Direction::Up), self.stage.proxy.counters(Direction::Down));
        self.report.network = [up, down];
        self.report.streams_cut = self.stage.proxy.tcp_counters().0;
        self.report.runs = self.work.runs();
        self.report.promises_kept = self.promises.kept;
        self.report
    }
}
