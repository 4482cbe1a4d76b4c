//! The decomposers thread: sees to it that the programs which name the units of jobs are asked when their jobs want more. Each
//! job has a thread of its own while its program runs, so that a slow one holds up no other. A batch counts once it is on
//! record, and the program's own state with it: whatever is killed in between, the next question goes on from there.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use starfarm_decomposers::growth::Batch;
use starfarm_net::{private_folder, say};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::record::GrownChunk;
use starfarm_protocol::spec::{JobSpec, OwnSpace, Space};
use starfarm_scheduler_core::{Deeds, Farm, Wish};

use super::{House, Input, spawn};
use crate::decomposer::{Decomposer, NoBatch};
use crate::host_program::with_scheduler;

/// How often it is looked whether jobs want units.
const LOOK: Duration = Duration::from_millis(50);
/// The same for a job whose program runs.
const LOOK_RUNNING: Duration = Duration::from_millis(20);
/// The same while the program is asked.
const LOOK_ASKED: Duration = Duration::from_millis(200);
/// Programs that run at one time.
const PROGRAMS_MAX: usize = 8;
/// A program that nobody asks anything for so long is ended, and started again when it is needed.
const IDLE: Duration = Duration::from_secs(60);
/// After a batch without units the program is asked again after this: it may wait for something.
const EMPTY_PAUSE: Duration = Duration::from_secs(1);
/// A program that died so often without a batch is not started again by itself ...
const DEATHS_MAX: u32 = 5;
/// ... and after the first death it is started after this; doubled each time.
const DEATH_PAUSE: Duration = Duration::from_millis(100);

/// Runs until the scheduler stops.
pub(crate) fn run(house: &Arc<House>, dispatcher: &Sender<Input>) {
    let mut running: Vec<(JobId, JoinHandle<()>)> = Vec::new();
    while !house.shared.stopping() {
        std::thread::sleep(LOOK);
        running.retain(|(_, thread)| !thread.is_finished());
        let no_room = house.shared.no_room.load(Ordering::Relaxed);
        if no_room || !house.shared.units_wanted.swap(false, Ordering::Relaxed) {
            continue;
        }
        let found = super::ask(dispatcher, |farm, _, _| (farm.wishing(), farm.has_growing()));
        let Some((wishing, has_growing)) = found else { break };
        if has_growing {
            house.shared.want_units();
        }
        let waiting = wishing.into_iter().filter(|job| running.iter().all(|(other, _)| other != job));
        let waiting: Vec<JobId> = waiting.collect();
        let places = PROGRAMS_MAX - running.len();
        house.shared.decomposers_wait.store(waiting.len() > places, Ordering::Relaxed);
        for job in waiting.into_iter().take(places) {
            let (house, dispatcher) = (Arc::clone(house), dispatcher.clone());
            let grow = move || Grower { house: &house, dispatcher: &dispatcher, job }.run();
            running.push((job, spawn("decomposer", grow)));
        }
    }
    running.into_iter().for_each(|(_, thread)| drop(thread.join()));
}

/// Asks the program of one job.
struct Grower<'a> {
    house: &'a House,
    dispatcher: &'a Sender<Input>,
    job: JobId,
}

/// What is to be done next.
enum Next {
    /// Its units do for a while.
    Rest,
    Ask(Wish),
    /// More units are not wanted of it, or there are none.
    Leave,
}

impl Grower<'_> {
    /// Until the job has all of its units, or is paused or ended, or the scheduler stops.
    fn run(&self) {
        let space = match self.space() {
            Some(Ok(space)) => space,
            Some(Err(why)) => return self.stop(why),
            None => return,
        };
        let (mut program, mut deaths, mut busy) = (None, 0, Instant::now());
        loop {
            let wish = match self.next() {
                Next::Rest if busy.elapsed() < self.patience() => {
                    std::thread::sleep(LOOK_RUNNING);
                    continue;
                }
                Next::Rest | Next::Leave => return program.into_iter().for_each(Decomposer::finish),
                Next::Ask(wish) => wish,
            };
            let asked = self.ask(&space, &mut program, &wish).and_then(|batch| {
                let (units, end) = (batch.units(), batch.end);
                self.keep(&wish, batch).map(|counts| (units, end, counts))
            });
            busy = Instant::now();
            match asked {
                Ok((.., false)) | Err(NoBatch::Stopped) => return,
                Ok((_, true, true)) => return program.into_iter().for_each(Decomposer::finish),
                Ok((0, false, true)) => (deaths, _) = (0, self.rest(EMPTY_PAUSE)),
                Ok(_) => deaths = 0,
                Err(NoBatch::Died(_)) if deaths + 1 < DEATHS_MAX => {
                    program = None;
                    self.rest(DEATH_PAUSE * 2_u32.pow(deaths));
                    deaths += 1;
                }
                Err(NoBatch::Died(why)) => {
                    return self.stop(format!("{why} (the last of {DEATHS_MAX} starts)"));
                }
                Err(NoBatch::Wrong(why)) => return self.stop(why),
            }
        }
    }

    /// How long it waits for a question.
    fn patience(&self) -> Duration {
        match self.house.shared.decomposers_wait.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => IDLE,
        }
    }

    /// The job's space, as it was submitted; none where the scheduler stops.
    fn space(&self) -> Option<Result<OwnSpace, String>> {
        let Next::Ask(Wish { spec, .. }) = self.next() else { return None };
        let mut blobs = self.house.blobs.lock().expect("a panic under the lock ends the process");
        let read = blobs.read(&spec, 0, usize::MAX);
        drop(blobs);
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Some(Err("the job's specification is gone or damaged".into())),
            Err(e) => return Some(Err(format!("the job's specification cannot be read: {e}"))),
        };
        Some(match JobSpec::from_bytes(&bytes) {
            Ok(JobSpec { space: Space::Program(space), .. }) => Ok(*space),
            Ok(_) => Err("the job's specification names no program that names its units".into()),
            Err(why) => Err(why),
        })
    }

    fn next(&self) -> Next {
        let job = self.job;
        // What it names could not be kept.
        let has_room = !self.house.shared.no_room.load(Ordering::Relaxed);
        match super::ask(self.dispatcher, move |farm, _, _| (farm.is_growing(job), farm.wish(job))) {
            Some((true, Some(wish))) if has_room => Next::Ask(wish),
            Some((true, _)) => Next::Rest,
            Some((false, _)) | None => Next::Leave,
        }
    }

    /// The job is paused or has ended, or the scheduler stops: nobody waits for an answer.
    fn is_over(&self) -> bool {
        let job = self.job;
        super::ask(self.dispatcher, move |farm, _, _| farm.is_growing(job)) != Some(true)
    }

    fn ask<'s>(
        &self,
        space: &'s OwnSpace,
        program: &mut Option<Decomposer<'s>>,
        wish: &Wish,
    ) -> Result<Batch, NoBatch> {
        let running = match program {
            Some(running) => running,
            None => {
                let dir = self.house.state.file("decomposers");
                let made = private_folder(&dir).map_err(|e| format!("{} cannot be used: {e}", dir.display()));
                let mark = dir.join(self.job.0.to_string());
                let started = made.and_then(|()| Decomposer::start(space, &mark, Some(self.job)));
                program.insert(started.map_err(NoBatch::Wrong)?)
            }
        };
        let looked = Mutex::new(Instant::now());
        let is_over = || {
            let mut looked = looked.lock().expect("nothing panics under it");
            if looked.elapsed() < LOOK_ASKED {
                return false;
            }
            *looked = Instant::now();
            self.is_over()
        };
        let job_is_over = || is_over().then(|| "was ended with its job".to_owned());
        let stopped = || with_scheduler(self.house.shared.stopping()).or_else(job_is_over);
        running.ask((wish.next, &wish.state, wish.units), &stopped)
    }

    /// Puts the values of a batch on the disk, then the batch on record; whether it counts.
    fn keep(&self, wish: &Wish, batch: Batch) -> Result<bool, NoBatch> {
        let (job, from) = (self.job, wish.units);
        let chunks = batch.chunks.into_iter().map(|values| {
            let hash = self.house.keep(&values.content)?;
            Ok(GrownChunk { hash, units: values.units, cost: ((values.cost * 1e6) as u64).max(1) })
        });
        let chunks: Vec<GrownChunk> = chunks.collect::<std::io::Result<_>>().map_err(|e| {
            NoBatch::Wrong(format!("the scheduler cannot keep the units that the job's program named: {e}"))
        })?;
        let grown = (chunks, batch.state, batch.end);
        let counts = super::ask(self.dispatcher, move |farm: &mut Farm, now_us, deeds: &mut Deeds| {
            farm.grow(job, from, grown, now_us, deeds)
        });
        counts.ok_or(NoBatch::Stopped)
    }

    /// The job waits for a person.
    fn stop(&self, why: String) {
        let job = self.job;
        let why = why.replace(char::is_control, " ");
        let cure = format!("mend that, then let it go on with `starfarm job resume {}`", job.0);
        say(&format!("job {} is paused: its decomposer {why}; {cure}", job.0));
        super::ask(self.dispatcher, move |farm, _, deeds| farm.stop_growing(job, why, deeds));
    }

    fn rest(&self, long: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < long && !self.house.shared.stopping() {
            std::thread::sleep(LOOK.min(long));
        }
    }
}
