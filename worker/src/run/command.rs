//! The `command` executor: runs a task's units one by one and packs what came of them into parts. How a
//! single program is run is in `exec`.
//!
//! Output too long for a result is stored at the scheduler before its unit counts as done ([`Delivery`]), so a slot whose
//! units write much waits while the scheduler is away; others go on.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use starfarm_decomposers::template::{Rules, Template, UnitText};
use starfarm_decomposers::{Chunks, Decomposer, ValueError};
use starfarm_protocol::job::Per;
use starfarm_protocol::spec::{CommandWork, OutputLimit, Space};
use starfarm_protocol::wire::CommandUnit;
use starfarm_worker_core::Task;

use super::delivery::Named;
use super::executor::{Context, Executor};
use super::files::UnitFiles;
use super::record::{record, roomless};
use super::room::Place;
use super::site::{NotRun, Site, Waits};
use super::together::{self, Beside};
use crate::bulk::FetchError;
use crate::cards;
use crate::report::Report;
use crate::store::Store;
use starfarm_exec::{self as exec, CancelFlag, Captured, CommandLine, End, Lack, Patience, UnitRun};

#[cfg(test)]
mod tests;

/// A unit hangs that takes so many times what the others took: lambda x 10, as for a task that the scheduler tells of.
const HANG_TIMES: u64 = 30;
/// Of so many units in a row this disk does not hold the files. The next one shows that it is too small for the job: others
/// need not be tried, and remembered, one by one.
const TOO_LARGE_MAX: usize = 255;
/// So many programs in a row failed beside others on a tight disk, and then alone: the next ones are not taken to have failed
/// of the disk, since waiting for it to be empty keeps all slots from working.
const FAILED_ALONE_MAX: u32 = 3;

pub(super) struct Command {
    per: Per,
    /// Slots that a run takes.
    slots: u16,
    /// It names the file of a task's units.
    lists_units: bool,
    space: Box<dyn Decomposer>,
    program: Template,
    args: Vec<Template>,
    env: Vec<(OsString, Template)>,
    timeout: Option<Duration>,
    stdin: Option<Template>,
    cwd: Option<PathBuf>,
    /// Where `cwd` is not there, programs start in the worker's own folder.
    cwd_optional: bool,
    /// What is started is the same for every unit: where it cannot be started for one, it can for none.
    one_program: bool,
    limit: OutputLimit,
    files: Option<UnitFiles>,
    hang: Option<Duration>,
    /// Units that passed on this worker, and what they took in all, in microseconds.
    passed: (AtomicU64, AtomicU64),
    /// Programs in a row that failed beside others on a tight disk, and alone as well: it is not the disk.
    failed_alone: AtomicU32,
    /// Units whose own files this worker's disk does not hold, since one ran.
    too_large: Mutex<BTreeSet<u128>>,
    /// A person was told of one.
    told_too_large: AtomicBool,
}

impl Command {
    pub(super) fn new(work: &CommandWork, space: &Space, chunks: Arc<dyn Chunks>) -> Result<Self, String> {
        let space = starfarm_decomposers::open(space, chunks)?;
        let rules = Rules::of(work, &space.names());
        let mut words = work.program.iter().map(|word| rules.word(word));
        let program: Template = words.next().ok_or("the job names no program: submit it anew")?;
        let args = words.collect();
        let env = work.env.iter().map(|(name, value)| (name.into(), rules.text(value)));
        let env: Vec<(OsString, Template)> = env.collect();
        let path_varies = env.iter().any(|(name, value)| name == "PATH" && !value.is_fixed());
        let one_program = program.is_fixed() && !path_varies;
        let mut words = work.program.iter().chain(work.env.values()).chain(&work.stdin);
        let lists_units = words.any(|word| word.contains("{file}"));
        let [timeout, hang] = [work.timeout_ms, work.hang_ms].map(|ms| ms.map(Duration::from_millis));
        let (limit, passed) = (work.output_limit, Default::default());
        let stdin = work.stdin.as_ref().map(|name| rules.text(name));
        let (cwd, cwd_optional) = (work.cwd.as_ref().map(PathBuf::from), work.cwd_optional);
        let files = UnitFiles::new(work, &*space)?;
        Ok(Self {
            per: work.per,
            slots: work.slots,
            lists_units,
            space,
            program,
            args,
            env,
            timeout,
            stdin,
            cwd,
            cwd_optional,
            one_program,
            limit,
            files,
            hang,
            passed,
            failed_alone: AtomicU32::new(0),
            too_large: Mutex::default(),
            told_too_large: AtomicBool::new(false),
        })
    }

    /// Runs a unit, with what it needs fetched before; says what its record names as well. It is refused where this node
    /// cannot run it, whatever unit it is.
    fn run_unit(
        &self,
        site: &mut Site<'_>,
        unit: u128,
        place: &mut Place<'_>,
    ) -> Result<(CommandUnit, Vec<Named>), FetchError> {
        let text = self.text(site, unit)?;
        self.prepare(site, place, [Ok(&text)])?;
        self.make_folders(site, &text)?;
        let run = self.run_line(site, &self.line(site, site.task.units, &text), 1)?;
        self.had_room(&run, place, &site.context.store)?;
        self.record(site, run, &text)
    }

    /// A program that fails on a full disk may do better alone, without what is kept there for later units, or on another
    /// node's.
    fn had_room(&self, run: &UnitRun, place: &mut Place<'_>, store: &Store) -> Result<(), FetchError> {
        let has_failed =
            !matches!(run.end, End::Exit(0) | End::Cancelled | End::Timeout | End::NotStarted(..));
        if self.files.is_none() || !has_failed {
            if place.is_again_alone() {
                self.failed_alone.store(0, Ordering::Relaxed);
            }
            return Ok(());
        }
        let is_full = store.is_full();
        if is_full {
            place.clear(|| store.give_way());
        }
        let is_doubted = self.failed_alone.load(Ordering::Relaxed) < FAILED_ALONE_MAX;
        // Alone, it has filled the disk itself: a larger one may do.
        if is_full || place.shared_a_full_disk(is_doubted && store.is_tight()) {
            return Err(FetchError::NoRoom("the program failed on a full disk: make room".to_owned()));
        }
        if place.is_again_alone() {
            self.failed_alone.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs a program for so many units. It is refused where this node cannot run it.
    fn run_line(&self, site: &mut Site<'_>, line: &CommandLine, units: u64) -> Result<UnitRun, FetchError> {
        let computing = site.context.board.computes(site.context.slot);
        // What is done before must not wait for the end of a unit that may take hours.
        let mut started = |process| computing.in_process(process);
        let run =
            exec::run_noting(line, site.cancel, Patience::default(), &mut started, &mut || site.go_on());
        computing.ended(run.cpu);
        self.learn(&run, units);
        match self.refusal(&run.end) {
            Some(why) => Err(FetchError::Refused(why.to_owned())),
            None => Ok(run),
        }
    }

    /// The scratch directory has the inputs of a run over these units and nothing else.
    fn prepare<T: Borrow<UnitText>>(
        &self,
        site: &Site<'_>,
        place: &mut Place<'_>,
        units: impl IntoIterator<Item = Result<T, FetchError>>,
    ) -> Result<(), FetchError> {
        let (scratch, context) = (&site.scratch, site.context);
        scratch.empty().map_err(|error| no_scratch(context, &error))?;
        let Some(files) = &self.files else { return Ok(()) };
        files.bring(scratch.path(), files.of_all(), site.cancel, context)?;
        if files.differ() {
            let mut own = BTreeMap::new();
            units.into_iter().try_for_each(|text| files.own(text?.borrow(), &mut own))?;
            place.wants_its_own();
            files.bring(scratch.path(), own.into_values(), site.cancel, context)?;
        }
        context.store.leave_room()?;
        place.has_inputs();
        Ok(())
    }

    /// The folders are there in which the run is to make its outputs.
    fn make_folders(&self, site: &Site<'_>, text: &UnitText) -> Result<(), FetchError> {
        self.files.as_ref().map_or(Ok(()), |files| files.make_folders(site.scratch.path(), text))
    }

    /// What came of a run, with the files that it made where it passed.
    fn record(
        &self,
        site: &mut Site<'_>,
        run: UnitRun,
        text: &UnitText,
    ) -> Result<(CommandUnit, Vec<Named>), FetchError> {
        let passed = run.end == End::Exit(0);
        let made = match self.files.as_ref().filter(|_| passed) {
            Some(files) => {
                let (context, mut waits) = (site.context, Waits::default());
                let meanwhile = || waits.go_on(context, &mut site.delivery, site.report);
                let (scratch, pack) = (site.scratch.path(), (&context.memory, &context.room));
                let attempt = || match files.collect(scratch, text, pack) {
                    Err(FetchError::NoRoom(_)) if context.store.give_way() => {
                        files.collect(scratch, text, pack)
                    }
                    came => came,
                };
                context.room.more(site.cancel, meanwhile, attempt)?
            }
            None => Ok(None),
        };
        record(run, self.limit.strict, made).ok_or(FetchError::Cancelled)
    }

    /// Runs `piece`, all units of a task or some of them, together, and reports what came of them. Says how many these are:
    /// of a program that told how far it was when it found the disk full, no more than these.
    fn run_together(
        &self,
        site: &mut Site<'_>,
        piece: &Task,
        place: &mut Place<'_>,
    ) -> Result<u64, FetchError> {
        let beside = Beside::new(site.scratch.path());
        if self.lists_units {
            beside.list(piece, |unit| Ok(self.text(site, unit)?.value))?;
        }
        self.prepare(site, place, (piece.lo..piece.hi()).map(|unit| self.text(site, unit)))?;
        let text = together::text(&*self.space, piece, beside.units());
        self.make_folders(site, &text)?;
        let mut line = self.line(site, piece.units, &text);
        line.env.push(("STARFARM_UNIT_COUNT".into(), piece.units.to_string().into()));
        // What a program that is stopped leaves in its files, nobody knows.
        if self.files.as_ref().is_none_or(UnitFiles::are_inputs) {
            let progress = beside.progress().map_err(|e| no_scratch(site.context, &e))?;
            line.env.push(("STARFARM_DONE".into(), progress.0.clone().into()));
            line.progress = Some(progress);
        }
        let run = self.run_line(site, &line, piece.units)?;
        let had_room = self.had_room(&run, place, &site.context.store);
        let progress = line.progress.filter(|_| run.end != End::Exit(0));
        let told = progress.and_then(|progress| progress.told(run.stdout.total));
        let finished = together::finished(&run, told, piece.units);
        let mut deliver = |run: UnitRun, units: u64| {
            let (outcome, named) = self.record(site, run, &text)?;
            site.delivery.add(&CommandUnit { units, ..outcome }, named, site.report)?;
            site.delivery.finish(site.report)
        };
        let Some((units, part)) = finished else {
            had_room?;
            return deliver(run, piece.units).map(|()| piece.units);
        };
        if units > 0 {
            deliver(UnitRun { end: End::Exit(0), ..part }, units)?;
        }
        match (had_room, piece.units - units) {
            (Err(no_room), _) if units == 0 => Err(no_room),
            (Err(_), _) | (Ok(()), 0) => Ok(units),
            (Ok(()), rest) => {
                let (stdout, duration) = (Captured::default(), Duration::ZERO);
                deliver(UnitRun { stdout, duration, ..run }, rest).map(|()| piece.units)
            }
        }
    }

    /// Runs the units of a task together, as far as they lie side by side in the whole space; where the disk does not hold
    /// their files, fewer of them.
    fn run_pieces(&self, site: &mut Site<'_>) -> Result<(), FetchError> {
        let task = site.task;
        let (mut lo, mut most) = (task.lo, u64::MAX);
        while lo < task.hi() && !site.cancel.is_raised() {
            let units = most.min((self.space.side_by_side(lo, task.hi()) - lo) as u64);
            let piece = Task { lo, units, ..*task };
            match self.in_turn(site, lo, |site, place| self.run_together(site, &piece, place)) {
                // The next ones are no smaller.
                Err(NotRun::TooLarge(_) | NotRun::Here(FetchError::NoRoom(_))) if units > 1 => {
                    most = units.div_ceil(2);
                }
                Err(NotRun::TooLarge(why)) => {
                    site.delivery.add(&self.is_too_large(task, lo, why)?, Vec::new(), site.report)?;
                    site.delivery.finish(site.report)?;
                    lo += 1;
                }
                Err(NotRun::Here(error)) => return Err(error),
                Ok(units) => lo += u128::from(units),
            }
        }
        Ok(())
    }

    /// Runs the units of a task one after another, until it is cancelled.
    fn run_each(&self, site: &mut Site<'_>) -> Result<(), FetchError> {
        let task = site.task;
        for unit in task.lo..task.hi() {
            if site.cancel.is_raised() {
                break;
            }
            let ran = self.in_turn(site, unit, |site, place| {
                let came = self.run_unit(site, unit, place)?;
                if let Some(failed) = site.context.failed.as_ref().filter(|_| came.0.failed.is_some()) {
                    failed.keep(site.scratch.path(), task, unit);
                }
                Ok(came)
            });
            let (outcome, named) = match ran {
                Ok(came) => came,
                Err(NotRun::TooLarge(why)) => (self.is_too_large(task, unit, why)?, Vec::new()),
                Err(NotRun::Here(error)) => return Err(error),
            };
            site.delivery.add(&outcome, named, site.report)?;
        }
        Ok(())
    }

    fn in_turn<'a, T>(
        &self,
        site: &mut Site<'a>,
        unit: u128,
        attempt: impl FnMut(&mut Site<'a>, &mut Place<'_>) -> Result<T, FetchError>,
    ) -> Result<T, NotRun> {
        let ran = site.in_turn(unit, self.files.is_some(), attempt);
        if ran.is_ok() && self.files.is_some() {
            self.too_large().clear();
        }
        ran
    }

    /// What becomes of a unit whose own files this disk does not hold: others that are smaller run here, and this one on
    /// another node. Where that befalls many in a row the job is refused: then it is the disk that is too small.
    fn is_too_large(&self, task: &Task, unit: u128, why: String) -> Result<CommandUnit, FetchError> {
        let mut units = self.too_large();
        units.insert(unit);
        if !self.told_too_large.swap(true, Ordering::Relaxed) {
            starfarm_net::say(&format!(
                "starfarm-worker: unit {unit} of job {} goes to another node, as others like it will: {why}",
                task.job.0
            ));
        }
        if units.len() <= TOO_LARGE_MAX {
            return Ok(roomless(&why));
        }
        units.clear();
        Err(FetchError::Refused(why))
    }

    fn too_large(&self) -> MutexGuard<'_, BTreeSet<u128>> {
        self.too_large.lock().expect("a panic ends the process")
    }

    /// Why this node cannot run the job, where the end of a unit's run shows that it is not the unit's fault.
    fn refusal<'a>(&self, end: &'a End) -> Option<&'a str> {
        match end {
            End::NotStarted(why, Lack::Room) => Some(why),
            End::NotStarted(why, Lack::Program) if self.one_program => Some(why),
            _ => None,
        }
    }

    /// A run of so many units that passed says what units take.
    fn learn(&self, run: &UnitRun, units: u64) {
        if run.end == End::Exit(0) {
            let duration_us = u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX);
            self.passed.0.fetch_add(units, Ordering::Relaxed);
            self.passed.1.fetch_add(duration_us, Ordering::Relaxed);
        }
    }

    /// How long the next run, of so many units, may last: to its time limit, or until it must be taken to hang.
    fn time_limit(&self, next: u64) -> Option<Duration> {
        let units = self.passed.0.load(Ordering::Relaxed);
        let mean_us = self.passed.1.load(Ordering::Relaxed).checked_div(units).unwrap_or(0);
        let far = Duration::from_micros(mean_us.saturating_mul(HANG_TIMES).saturating_mul(next));
        let hang = self.hang.map(|hang| hang.max(far));
        self.timeout.into_iter().chain(hang).min()
    }

    /// A unit's value, with the contents that it needs.
    fn text(&self, site: &Site<'_>, unit: u128) -> Result<UnitText, FetchError> {
        let (contents, cancel) = (&site.context.contents, site.cancel);
        loop {
            match UnitText::of(&*self.space, unit) {
                Ok(text) => return Ok(text),
                Err(ValueError::ChunkMissing(hash)) => drop(contents.get(hash, cancel)?),
                Err(ValueError::NotLocated(unit)) => {
                    self.space.learn(contents.locate(site.task.job, unit, cancel)?)
                }
                Err(error) => return Err(FetchError::Refused(error.to_string())),
            }
        }
    }

    /// The command line of a unit, or of the so many `units` that one run computes.
    fn line(&self, site: &Site<'_>, units: u64, text: &UnitText) -> CommandLine {
        let (task, scratch) = (site.task, site.scratch.path());
        let mut env: Vec<(OsString, OsString)> =
            self.env.iter().map(|(name, value)| (name.clone(), value.fill_os(text))).collect();
        env.extend([
            ("STARFARM_JOB".into(), task.job.0.to_string().into()),
            ("STARFARM_ATTEMPT".into(), task.attempt.0.to_string().into()),
            ("STARFARM_UNIT_INDEX".into(), text.index.to_string().into()),
            ("STARFARM_SCRATCH".into(), scratch.into()),
            ("STARFARM_SLOTS".into(), self.slots.to_string().into()),
        ]);
        if let Some(metrics) = &site.context.metrics {
            env.push(("STARFARM_METRICS".into(), metrics.of(task.job).into()));
        }
        env.extend(cards::variables(&site.context.all_cards, &site.context.cards));
        let dir = match &self.files {
            Some(_) => Some(scratch.to_owned()),
            None => self.cwd.clone().filter(|dir| !self.cwd_optional || dir.is_dir()),
        };
        CommandLine {
            program: self.program.fill_os(text),
            args: self.args.iter().map(|arg| arg.fill_os(text)).collect(),
            env,
            stdin: self.stdin.as_ref().map(|name| name.fill_os(text).into()),
            dir,
            timeout: self.time_limit(if self.per == Per::Task { units } else { 1 }),
            progress: None,
            output_limit: self.limit.bytes,
        }
    }
}

impl Executor for Command {
    fn units(&self) -> u128 {
        self.space.units()
    }

    fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report) {
        let mut site = Site::new(task, cancel, context, report);
        let ran = match self.per {
            Per::Task if cancel.is_raised() => return,
            Per::Task => self.run_pieces(&mut site),
            Per::Unit => self.run_each(&mut site),
        };
        // What was done before is delivered first, whatever became of the next one. A slot that stores is no less busy: until
        // then the board names the last unit.
        let delivered = site.delivery.finish(site.report);
        context.board.end(context.slot);
        if let Some(why) = delivered.and(ran).err().and_then(FetchError::refusal) {
            site.report.refuse(task, site.delivery.lo(), &why);
        }
    }
}

fn no_scratch(context: &Context, error: &io::Error) -> FetchError {
    let folder = context.scratch.display();
    FetchError::of_disk(error, format!("no scratch directory can be made in {folder} on this node: {error}"))
}
