//! The `command` executor: runs a task's units one by one and packs what came of them into parts. How a
//! single program is run is in `exec`.
//!
//! Output too long for a result is stored at the scheduler before its unit counts as done ([`Delivery`]), so a slot whose
//! units write much waits while the scheduler is away; others go on.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use starfarm_decomposers::template::{Rules, Template, UnitText};
use starfarm_decomposers::{Chunks, Decomposer, ValueError};
use starfarm_protocol::job::Per;
use starfarm_protocol::spec::{CommandWork, OutputLimit, Space};
use starfarm_protocol::wire::CommandUnit;
use starfarm_worker_core::Task;

use super::delivery::{Delivery, Named};
use super::executor::{Context, Executor};
use super::files::UnitFiles;
use super::record::record;
use super::room::Place;
use super::together::{self, Beside};
use crate::bulk::FetchError;
use crate::contents::Contents;
use crate::exec::{self, CancelFlag, Captured, CommandLine, End, Lack, Patience, UnitRun};
use crate::report::Report;

/// A unit hangs that takes so many times what the others took: lambda x 10, as for a task that the scheduler tells of.
const HANG_TIMES: u64 = 30;

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
        })
    }

    /// Runs a unit, with what it needs fetched before; says what its record names as well. It is refused where this node
    /// cannot run it, whatever unit it is. `lasts` is called if it takes long.
    fn run_unit(
        &self,
        task: &Task,
        unit: u128,
        (scratch, place): (&Scratch, &mut Place<'_>),
        cancel: &CancelFlag,
        context: &Context,
        lasts: &mut dyn FnMut() -> Option<Duration>,
    ) -> Result<(CommandUnit, Vec<Named>), FetchError> {
        let text = self.text(task, unit, &context.contents, cancel)?;
        self.prepare((scratch, place), [Ok(&text)], cancel, context)?;
        let run = self.run_line(&self.line(task, &scratch.0, &text), 1, cancel, lasts, context)?;
        self.had_room(&run, place, context)?;
        self.record(run, scratch, &text, cancel, context)
    }

    /// A program that fails on a full disk which it shares with others may do better alone.
    fn had_room(&self, run: &UnitRun, place: &Place<'_>, context: &Context) -> Result<(), FetchError> {
        let has_failed = !matches!(run.end, End::Exit(0) | End::Cancelled | End::NotStarted(..));
        match has_failed && self.files.is_some() && place.note_failure(context.store.is_full()) {
            true => Err(FetchError::NoRoom("the disk is full on this node: make room".to_owned())),
            false => Ok(()),
        }
    }

    /// Runs one program by `attempt`, again where the disk had no room for its files and others have given some back.
    fn in_room<T>(
        &self,
        scratch: &Scratch,
        cancel: &CancelFlag,
        context: &Context,
        (delivery, report): (&mut Delivery<'_>, &mut Report),
        mut attempt: impl FnMut(&mut Place<'_>, &mut Delivery<'_>, &mut Report) -> Result<T, FetchError>,
    ) -> Result<T, FetchError> {
        let may_be_more = || context.failed.as_ref().is_some_and(|failed| failed.give_way());
        let mut place = context.room.place();
        if self.files.is_none() {
            return attempt(&mut place, delivery, report);
        }
        loop {
            let stake = place.enter(cancel, || _ = delivery.go_on(report))?;
            let came = attempt(&mut place, delivery, report);
            // What cannot be removed is told of where the next unit finds it.
            let _ = scratch.remove();
            drop(stake);
            match came {
                Err(FetchError::NoRoom(_)) if place.again() || may_be_more() => {}
                came => return came,
            }
        }
    }

    /// Runs a program for so many units. It is refused where this node cannot run it.
    fn run_line(
        &self,
        line: &CommandLine,
        units: u64,
        cancel: &CancelFlag,
        lasts: &mut dyn FnMut() -> Option<Duration>,
        context: &Context,
    ) -> Result<UnitRun, FetchError> {
        let computing = context.board.computes(context.slot);
        let run = exec::run_noting(line, cancel, Patience::default(), lasts);
        drop(computing);
        self.learn(&run, units);
        match self.refusal(&run.end) {
            Some(why) => Err(FetchError::Refused(why.to_owned())),
            None => Ok(run),
        }
    }

    /// The scratch directory has the inputs of a run over these units and nothing else.
    fn prepare<T: Borrow<UnitText>>(
        &self,
        (scratch, place): (&Scratch, &mut Place<'_>),
        units: impl IntoIterator<Item = Result<T, FetchError>>,
        cancel: &CancelFlag,
        context: &Context,
    ) -> Result<(), FetchError> {
        scratch.empty().map_err(|error| no_scratch(context, &error))?;
        let (Some(files), mut own) = (&self.files, BTreeMap::new()) else { return Ok(()) };
        if files.differ() {
            units.into_iter().try_for_each(|text| files.own(text?.borrow(), &mut own))?;
        }
        files.bring(&scratch.0, &own, cancel, context)?;
        context.store.leave_room()?;
        place.has_inputs();
        Ok(())
    }

    /// What came of a run, with the files that it made where it passed.
    fn record(
        &self,
        run: UnitRun,
        scratch: &Scratch,
        text: &UnitText,
        cancel: &CancelFlag,
        context: &Context,
    ) -> Result<(CommandUnit, Vec<Named>), FetchError> {
        let passed = run.end == End::Exit(0);
        let made = match self.files.as_ref().filter(|_| passed) {
            Some(files) => {
                let (memory, room) = (&context.memory, &context.room);
                room.more(cancel, || files.collect(&scratch.0, text, (memory, room)))?
            }
            None => Ok(None),
        };
        record(run, self.limit.strict, made).ok_or(FetchError::Cancelled)
    }

    /// Runs all units of a task together, and reports what came of them.
    fn run_together(
        &self,
        task: &Task,
        (scratch, place): (&Scratch, &mut Place<'_>),
        cancel: &CancelFlag,
        context: &Context,
        (delivery, report): (&mut Delivery<'_>, &mut Report),
    ) -> Result<(), FetchError> {
        let beside = Beside::new(&scratch.0);
        if self.lists_units {
            let value = |unit| Ok(self.text(task, unit, &context.contents, cancel)?.value);
            beside.list(task, value)?;
        }
        let units = (task.lo..task.hi()).map(|unit| self.text(task, unit, &context.contents, cancel));
        self.prepare((scratch, place), units, cancel, context)?;
        let text = together::text(&*self.space, task, beside.units());
        let mut line = self.line(task, &scratch.0, &text);
        line.env.push(("STARFARM_UNIT_COUNT".into(), task.units.to_string().into()));
        // What a program that is stopped leaves in its files, nobody knows.
        if self.files.as_ref().is_none_or(UnitFiles::are_inputs) {
            let progress = beside.progress().map_err(|e| no_scratch(context, &e))?;
            line.env.push(("STARFARM_DONE".into(), progress.0.clone().into()));
            line.progress = Some(progress);
        }
        let run = self.run_line(&line, task.units, cancel, &mut || delivery.go_on(report), context)?;
        self.had_room(&run, place, context)?;
        let told = line.progress.filter(|_| run.end != End::Exit(0)).and_then(|progress| progress.told());
        let mut deliver = |run: UnitRun, units: u64| {
            let (outcome, named) = self.record(run, scratch, &text, cancel, context)?;
            delivery.add(&CommandUnit { units, ..outcome }, named, report)?;
            delivery.finish(report)
        };
        let Some((units, part)) = together::finished(&run, told, task.units) else {
            return deliver(run, task.units);
        };
        if units > 0 {
            deliver(UnitRun { end: End::Exit(0), ..part }, units)?;
        }
        match task.units - units {
            0 => Ok(()),
            rest => {
                let (stdout, duration) = (Captured::default(), Duration::ZERO);
                deliver(UnitRun { stdout, duration, ..run }, rest)
            }
        }
    }

    /// Runs the units of a task together, as far as they lie side by side in the whole space; where the disk does not hold
    /// their files, fewer of them.
    fn run_pieces(
        &self,
        task: &Task,
        scratch: &Scratch,
        cancel: &CancelFlag,
        context: &Context,
        (delivery, report): (&mut Delivery<'_>, &mut Report),
    ) -> Result<(), FetchError> {
        let (mut lo, mut most) = (task.lo, u64::MAX);
        while lo < task.hi() && !cancel.is_raised() {
            let mut units = most.min((self.space.side_by_side(lo, task.hi()) - lo) as u64);
            context.board.begin(context.slot, task.job, lo);
            loop {
                let piece = Task { lo, units, ..*task };
                let slot = (&mut *delivery, &mut *report);
                let ran = self.in_room(scratch, cancel, context, slot, |place, delivery, report| {
                    self.run_together(&piece, (scratch, place), cancel, context, (delivery, report))
                });
                match ran {
                    Err(FetchError::NoRoom(_)) if units > 1 => units = units.div_ceil(2),
                    ran => break ran?,
                }
                // The next ones are no smaller.
                most = units;
            }
            lo += u128::from(units);
        }
        Ok(())
    }

    /// Runs the units of a task one after another, until it is cancelled.
    fn run_each(
        &self,
        task: &Task,
        scratch: &Scratch,
        cancel: &CancelFlag,
        context: &Context,
        (delivery, report): (&mut Delivery<'_>, &mut Report),
    ) -> Result<(), FetchError> {
        for unit in task.lo..task.hi() {
            if cancel.is_raised() {
                break;
            }
            context.board.begin(context.slot, task.job, unit);
            let slot = (&mut *delivery, &mut *report);
            let (outcome, named) =
                self.in_room(scratch, cancel, context, slot, |place, delivery, report| {
                    // What is done before must not wait for the end of a unit that may take hours.
                    let lasts = &mut || delivery.go_on(report);
                    let came = self.run_unit(task, unit, (scratch, place), cancel, context, lasts)?;
                    if let Some(failed) = context.failed.as_ref().filter(|_| came.0.failed.is_some()) {
                        failed.keep(&scratch.0, task, unit);
                    }
                    Ok(came)
                })?;
            delivery.add(&outcome, named, report)?;
        }
        Ok(())
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
    fn text(
        &self,
        task: &Task,
        unit: u128,
        contents: &Contents,
        cancel: &CancelFlag,
    ) -> Result<UnitText, FetchError> {
        loop {
            match UnitText::of(&*self.space, unit) {
                Ok(text) => return Ok(text),
                Err(ValueError::ChunkMissing(hash)) => drop(contents.get(hash, cancel)?),
                Err(ValueError::NotLocated(unit)) => {
                    self.space.learn(contents.locate(task.job, unit, cancel)?)
                }
                Err(error) => return Err(FetchError::Refused(error.to_string())),
            }
        }
    }

    /// The command line of a unit.
    fn line(&self, task: &Task, scratch: &Path, text: &UnitText) -> CommandLine {
        let mut env: Vec<(OsString, OsString)> =
            self.env.iter().map(|(name, value)| (name.clone(), value.fill_os(text))).collect();
        env.extend([
            ("STARFARM_JOB".into(), task.job.0.to_string().into()),
            ("STARFARM_ATTEMPT".into(), task.attempt.0.to_string().into()),
            ("STARFARM_UNIT_INDEX".into(), text.index.to_string().into()),
            ("STARFARM_SCRATCH".into(), scratch.into()),
            ("STARFARM_SLOTS".into(), self.slots.to_string().into()),
        ]);
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
            timeout: self.time_limit(if self.per == Per::Task { task.units } else { 1 }),
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
        let scratch = Scratch::new(&context.scratch, task);
        let mut delivery = Delivery::new(task, context.contents.bulk(), cancel);
        let ran = match self.per {
            Per::Task if cancel.is_raised() => return,
            Per::Task => self.run_pieces(task, &scratch, cancel, context, (&mut delivery, report)),
            Per::Unit => self.run_each(task, &scratch, cancel, context, (&mut delivery, report)),
        };
        // What was done before is delivered first, whatever became of the next one. A slot that stores is no less busy: until
        // then the board names the last unit.
        let delivered = delivery.finish(report);
        context.board.end(context.slot);
        if let Err(FetchError::Refused(why) | FetchError::NoRoom(why)) = delivered.and(ran) {
            report.refuse(task, delivery.lo(), &why);
        }
    }
}

fn no_scratch(context: &Context, error: &io::Error) -> FetchError {
    let folder = context.scratch.display();
    FetchError::of_disk(error, format!("no scratch directory can be made in {folder} on this node: {error}"))
}

/// A directory of an attempt's own, gone with it. It is made where it is emptied first.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path, task: &Task) -> Self {
        Self(folder.join(format!("{}-{}-{}", task.job.0, task.attempt.0, task.lo)))
    }

    /// What the unit before left in it goes; mostly that is nothing.
    fn empty(&self) -> io::Result<()> {
        if std::fs::read_dir(&self.0).is_ok_and(|mut entries| entries.next().is_none()) {
            return Ok(());
        }
        self.remove()?;
        std::fs::create_dir_all(&self.0)
    }

    /// Whatever a unit made of it goes.
    fn remove(&self) -> io::Result<()> {
        let removed = match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => std::fs::remove_file(&self.0),
            removed => removed,
        };
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use starfarm_decomposers::NoChunks;

    fn run(end: End) -> UnitRun {
        let nothing = Captured::default();
        UnitRun { end, duration: Duration::from_millis(3), stdout: nothing.clone(), stderr: nothing }
    }

    #[test]
    fn a_unit_hangs_after_its_time_and_thirty_times_what_others_took() {
        let work = |timeout_ms, hang_ms| CommandWork {
            program: vec!["true".into()],
            timeout_ms,
            hang_ms,
            ..CommandWork::default()
        };
        let space = Space::Frames { first: 1, last: 9 };
        let command = |timeout_ms, hang_ms| {
            Command::new(&work(timeout_ms, hang_ms), &space, Arc::new(NoChunks)).unwrap()
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(command(None, None).time_limit(1), None);
        assert_eq!(command(Some(50), Some(20)).time_limit(1), ms(20), "nothing was learnt: the key alone");
        let learnt = command(Some(50), Some(20));
        learnt.learn(&run(End::Exit(0)), 1);
        learnt.learn(&run(End::Exit(1)), 1);
        assert_eq!(learnt.time_limit(1), ms(50), "30 x 3 ms is beyond the time limit");
        let learnt = command(None, Some(20));
        learnt.learn(&run(End::Exit(0)), 1);
        assert_eq!(learnt.time_limit(1), ms(90), "units take 3 ms here");
    }
}
