//! The `command` executor: runs a task's units one by one and packs what came of them into parts. How a
//! single program is run is in `exec`.
//!
//! Output too long for a result is stored at the scheduler before its unit counts as done, so a slot whose
//! units write much waits while the scheduler is away; others go on.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use starfarm_decomposers::template::{Template, UnitText};
use starfarm_decomposers::{Chunks, Decomposer, ValueError};
use starfarm_protocol::limits::{INLINE_OUTPUT_BYTES_MAX, RESULT_BODY_BYTES_MAX};
use starfarm_protocol::spec::{CommandWork, OutputLimit, Space};
use starfarm_protocol::wire::{CommandUnit, FailReason, Files, Outputs, Stream};
use starfarm_worker_core::Task;

use super::executor::{Context, Executor};
use super::files::{Made, UnitFiles};
use crate::bulk::FetchError;
use crate::contents::Contents;
use crate::exec::{self, CancelFlag, Captured, CommandLine, End, Lack, Patience, UnitRun};
use crate::report::{FLUSH, Report};

/// A unit hangs that takes so many times what the others took: lambda x 10, as for a task that the scheduler tells of.
const HANG_TIMES: u64 = 30;
/// Exit code in the record of a unit that ran out of time: what timeout(1) says.
const TIMEOUT_CODE: i32 = 124;
/// Exit code in the record of a unit whose program could not be started.
const NOT_STARTED_CODE: i32 = -1;

pub(super) struct Command {
    space: Box<dyn Decomposer>,
    program: Template,
    args: Vec<Template>,
    env: Vec<(OsString, Template)>,
    timeout: Option<Duration>,
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
        let names = space.names();
        let mut words = work.program.iter().map(|word| Template::parse(word, &names));
        let program: Template = words.next().ok_or("the job names no program: submit it anew")?;
        let args = words.collect();
        let env = work.env.iter().map(|(name, value)| (name.into(), Template::parse(value, &names)));
        let env: Vec<(OsString, Template)> = env.collect();
        let path_varies = env.iter().any(|(name, value)| name == "PATH" && !value.is_fixed());
        let one_program = program.is_fixed() && !path_varies;
        let [timeout, hang] = [work.timeout_ms, work.hang_ms].map(|ms| ms.map(Duration::from_millis));
        let (limit, passed) = (work.output_limit, Default::default());
        let (cwd, cwd_optional) = (work.cwd.as_ref().map(PathBuf::from), work.cwd_optional);
        let files = UnitFiles::new(work, &names, space.units())?;
        Ok(Self {
            space,
            program,
            args,
            env,
            timeout,
            cwd,
            cwd_optional,
            one_program,
            limit,
            files,
            hang,
            passed,
        })
    }

    /// Runs a unit, with what it needs fetched before and what it wrote stored after. It is refused where this node
    /// cannot run it, whatever unit it is. `lasts` is called once if it takes long.
    fn run_unit(
        &self,
        task: &Task,
        unit: u128,
        scratch: &Scratch,
        cancel: &CancelFlag,
        context: &Context,
        lasts: &mut dyn FnMut(),
    ) -> Result<CommandUnit, FetchError> {
        scratch.empty().map_err(|error| FetchError::Refused(no_scratch(context, &error)))?;
        let text = self.text(unit, &context.contents, cancel)?;
        if let Some(files) = &self.files {
            files.bring(&scratch.0, cancel, context)?;
        }
        let line = self.line(task, unit, &scratch.0, &text);
        let run = exec::run_noting(&line, cancel, Patience::default(), lasts);
        self.learn(&run);
        if let Some(why) = self.refusal(&run.end) {
            return Err(FetchError::Refused(why.to_owned()));
        }
        let passed = run.end == End::Exit(0);
        let made = match self.files.as_ref().filter(|_| passed) {
            Some(files) => files.collect(&scratch.0, &text)?,
            None => Ok(None),
        };
        if matches!(made, Ok(Some(_))) {
            lasts();
        }
        let put = |bytes| {
            // The scheduler keeps few contents of a node that no result names: those before this one must not wait for it.
            lasts();
            context.contents.put(bytes, cancel)
        };
        let put_files = |made: Made| context.contents.put_as(made.hash, Box::new(made), cancel);
        record(run, self.limit.strict, (made, put_files), put).map_err(|error| {
            match error {
                // A unit is not done without its output.
                FetchError::Refused(why) => {
                    FetchError::Refused(format!("the scheduler does not keep its output: {why}"))
                }
                FetchError::Cancelled => FetchError::Cancelled,
            }
        })
    }

    /// Why this node cannot run the job, where the end of a unit's run shows that it is not the unit's fault.
    fn refusal<'a>(&self, end: &'a End) -> Option<&'a str> {
        match end {
            End::NotStarted(why, Lack::Room) => Some(why),
            End::NotStarted(why, Lack::Program) if self.one_program => Some(why),
            _ => None,
        }
    }

    /// A unit that passed says what units take.
    fn learn(&self, run: &UnitRun) {
        if run.end == End::Exit(0) {
            let duration_us = u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX);
            self.passed.0.fetch_add(1, Ordering::Relaxed);
            self.passed.1.fetch_add(duration_us, Ordering::Relaxed);
        }
    }

    /// How long the next unit may run: to its time limit, or until it must be taken to hang.
    fn time_limit(&self) -> Option<Duration> {
        let units = self.passed.0.load(Ordering::Relaxed);
        let mean_us = self.passed.1.load(Ordering::Relaxed).checked_div(units).unwrap_or(0);
        let far = Duration::from_micros(mean_us.saturating_mul(HANG_TIMES));
        let hang = self.hang.map(|hang| hang.max(far));
        self.timeout.into_iter().chain(hang).min()
    }

    /// A unit's value, with the pieces of a list that it needs.
    fn text(&self, unit: u128, contents: &Contents, cancel: &CancelFlag) -> Result<UnitText, FetchError> {
        loop {
            match UnitText::of(&*self.space, unit) {
                Ok(text) => return Ok(text),
                Err(ValueError::ChunkMissing(hash)) => drop(contents.get(hash, cancel)?),
                Err(error) => return Err(FetchError::Refused(error.to_string())),
            }
        }
    }

    /// The command line of a unit.
    fn line(&self, task: &Task, unit: u128, scratch: &Path, text: &UnitText) -> CommandLine {
        let mut env: Vec<(OsString, OsString)> =
            self.env.iter().map(|(name, value)| (name.clone(), value.fill_os(text))).collect();
        env.extend([
            ("STARFARM_JOB".into(), task.job.0.to_string().into()),
            ("STARFARM_ATTEMPT".into(), task.attempt.0.to_string().into()),
            ("STARFARM_UNIT_INDEX".into(), unit.to_string().into()),
            ("STARFARM_SCRATCH".into(), scratch.into()),
        ]);
        let dir = match &self.files {
            Some(_) => Some(scratch.to_owned()),
            None => self.cwd.clone().filter(|dir| !self.cwd_optional || dir.is_dir()),
        };
        CommandLine {
            program: self.program.fill_os(text),
            args: self.args.iter().map(|arg| arg.fill_os(text)).collect(),
            env,
            dir,
            timeout: self.time_limit(),
            output_limit: self.limit.bytes,
        }
    }
}

impl Executor for Command {
    fn units(&self) -> u128 {
        self.space.units()
    }

    fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report) {
        let scratch = match Scratch::new(&context.scratch, task) {
            Ok(scratch) => scratch,
            Err(error) => return report.refuse(task, task.lo, &no_scratch(context, &error)),
        };
        let mut pack = Pack::new(task.lo);
        for unit in task.lo..task.hi() {
            if cancel.is_raised() {
                break;
            }
            // What is done before must not wait for the end of a unit that may take hours.
            let lasts = &mut || {
                pack.report(task, report);
                report.flush();
            };
            // Until its output is stored: a slot that fetches or stores is no less busy.
            context.board.begin(context.slot, task.job, unit);
            let ran = self.run_unit(task, unit, &scratch, cancel, context, lasts);
            context.board.end(context.slot);
            match ran {
                Ok(record) => pack.add(&record, task, report),
                Err(FetchError::Cancelled) => break,
                Err(FetchError::Refused(why)) => {
                    pack.report(task, report);
                    return report.refuse(task, unit, &why);
                }
            }
        }
        pack.report(task, report);
    }
}

/// The record of a unit's run; none where it was cancelled, or its output cannot be delivered: the unit then goes
/// back. `made`: its files, where it passed; or why it has failed although it did.
fn record(
    mut run: UnitRun,
    strict: bool,
    (made, put_files): (Result<Option<Made>, String>, impl FnOnce(Made) -> Result<(), FetchError>),
    put: impl FnMut(Vec<u8>) -> Result<starfarm_protocol::ids::ContentHash, FetchError>,
) -> Result<CommandUnit, FetchError> {
    let duration_us = u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX);
    let (failed, code) = match run.end {
        End::Exit(0) if strict && (run.stdout.is_cut() || run.stderr.is_cut()) => {
            (Some(FailReason::Output), 0)
        }
        End::Exit(0) if made.is_err() => (Some(FailReason::Files), 0),
        End::Exit(0) => (None, 0),
        End::Exit(code) => (Some(FailReason::Exit), code),
        End::Signal(signal) => (Some(FailReason::Signal), signal),
        End::Timeout => (Some(FailReason::Timeout), TIMEOUT_CODE),
        End::Cancelled => return Err(FetchError::Cancelled),
        End::NotStarted(why, _) => {
            let bytes = why.as_bytes()[..why.floor_char_boundary(INLINE_OUTPUT_BYTES_MAX)].to_vec();
            run.stdout = Captured::default();
            run.stderr = Captured { total: bytes.len() as u64, bytes };
            (Some(FailReason::Exit), NOT_STARTED_CODE)
        }
    };
    let files = match made {
        Ok(Some(made)) if failed.is_none() => {
            let files = Files { hash: made.hash, bytes: made.bytes, count: made.count };
            put_files(made)?;
            Some(files)
        }
        Ok(_) => None,
        Err(why) => {
            // Where its user looks first.
            let words = format!("starfarm: the unit {why}\n");
            run.stderr.total += words.len() as u64;
            run.stderr.bytes.extend_from_slice(words.as_bytes());
            None
        }
    };
    let outputs = Outputs { files, ..outputs(run.stdout, run.stderr, put)? };
    Ok(CommandUnit { failed, code, duration_us, outputs })
}

/// Both streams inline if they fit together, else the longer one is uploaded, else both. One of which a part was left
/// out is always uploaded: inline nothing says how long it was.
fn outputs(
    stdout: Captured,
    stderr: Captured,
    mut put: impl FnMut(Vec<u8>) -> Result<starfarm_protocol::ids::ContentHash, FetchError>,
) -> Result<Outputs, FetchError> {
    let (out, err) = (stdout.bytes.len(), stderr.bytes.len());
    let (out_cut, err_cut) = (stdout.is_cut(), stderr.is_cut());
    let fits = |bytes: usize| bytes <= INLINE_OUTPUT_BYTES_MAX;
    let stays = |bytes: usize, cut: bool| if cut { 0 } else { bytes };
    let (out_goes, err_goes) = match (fits(stays(out, out_cut) + stays(err, err_cut)), out >= err) {
        (true, _) => (out_cut, err_cut),
        (false, true) => (true, err_cut || !fits(err)),
        (false, false) => (out_cut || !fits(out), true),
    };
    let mut stream = |captured: Captured, goes: bool| match goes {
        false => Ok(Stream::Inline(captured.bytes)),
        true => {
            let (kept, total) = (captured.bytes.len() as u64, captured.total);
            put(captured.bytes).map(|hash| Stream::Uploaded { hash, kept, total })
        }
    };
    Ok(Outputs::streams(stream(stdout, out_goes)?, stream(stderr, err_goes)?))
}

/// Units that are done and not reported.
struct Pack {
    lo: u128,
    units: u64,
    duration_us: u64,
    body: Vec<u8>,
    since: Instant,
}

impl Pack {
    fn new(lo: u128) -> Self {
        Self { lo, units: 0, duration_us: 0, body: Vec::new(), since: Instant::now() }
    }

    /// Adds the next unit, and reports what is full or has waited long enough.
    fn add(&mut self, unit: &CommandUnit, task: &Task, report: &mut Report) {
        let mut bytes = Vec::new();
        unit.write(&mut bytes);
        if self.body.len() + bytes.len() > RESULT_BODY_BYTES_MAX {
            self.report(task, report);
        }
        self.body.extend_from_slice(&bytes);
        self.units += 1;
        self.duration_us = self.duration_us.saturating_add(unit.duration_us);
        if self.since.elapsed() >= FLUSH {
            self.report(task, report);
            report.flush_if_due();
        }
    }

    fn report(&mut self, task: &Task, report: &mut Report) {
        if self.units > 0 {
            let duration = Duration::from_micros(self.duration_us);
            report.done(task, self.lo, self.units, duration, std::mem::take(&mut self.body));
            *self = Self::new(self.lo + u128::from(self.units));
        }
    }
}

fn no_scratch(context: &Context, error: &io::Error) -> String {
    format!("no scratch directory can be made in {} on this node: {error}", context.scratch.display())
}

/// A directory of an attempt's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path, task: &Task) -> io::Result<Self> {
        let path = folder.join(format!("{}-{}-{}", task.job.0, task.attempt.0, task.lo));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
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
    use starfarm_protocol::ids::ContentHash;

    fn no_files(_: Made) -> Result<(), FetchError> {
        panic!("no files were made")
    }

    fn captured(bytes: usize) -> Captured {
        Captured { bytes: vec![b'x'; bytes], total: bytes as u64 }
    }

    fn run(end: End, stdout: usize, stderr: usize) -> UnitRun {
        UnitRun {
            end,
            duration: Duration::from_millis(3),
            stdout: captured(stdout),
            stderr: captured(stderr),
        }
    }

    fn where_to(stdout: usize, stderr: usize) -> (bool, bool) {
        let unit = record(run(End::Exit(0), stdout, stderr), true, (Ok(None), no_files), |bytes| {
            Ok(ContentHash::of(&bytes))
        })
        .unwrap();
        let uploaded = |stream: &Stream| matches!(stream, Stream::Uploaded { .. });
        let mut body = Vec::new();
        unit.write(&mut body);
        assert!(body.len() <= RESULT_BODY_BYTES_MAX);
        (uploaded(&unit.outputs.stdout), uploaded(&unit.outputs.stderr))
    }

    #[test]
    fn output_that_fits_together_rides_inline_and_the_longer_goes_first() {
        assert_eq!(where_to(0, 0), (false, false));
        assert_eq!(where_to(512, 0), (false, false));
        assert_eq!(where_to(256, 257), (false, true));
        assert_eq!(where_to(257, 256), (true, false));
        assert_eq!(where_to(513, 512), (true, false));
        assert_eq!(where_to(513, 513), (true, true));
    }

    #[test]
    fn ends_become_reasons_and_codes() {
        let unit =
            |end| record(run(end, 1, 1), false, (Ok(None), no_files), |_| panic!("nothing is uploaded"));
        let said = |end| unit(end).map(|u| (u.failed, u.code, u.duration_us));
        assert_eq!(said(End::Exit(0)), Ok((None, 0, 3_000)));
        assert_eq!(said(End::Exit(3)), Ok((Some(FailReason::Exit), 3, 3_000)));
        assert_eq!(said(End::Signal(9)), Ok((Some(FailReason::Signal), 9, 3_000)));
        assert_eq!(said(End::Timeout), Ok((Some(FailReason::Timeout), 124, 3_000)));
        assert_eq!(said(End::Cancelled), Err(FetchError::Cancelled));
        let lost = unit(End::NotStarted("ä".repeat(400), Lack::Program)).unwrap();
        assert_eq!((lost.failed, lost.code), (Some(FailReason::Exit), -1));
        assert_eq!(lost.outputs.stderr, Stream::Inline("ä".repeat(256).into()));
    }

    #[test]
    fn what_was_cut_says_how_long_it_was_and_fails_where_the_limit_is_strict() {
        let cut = || Captured { bytes: b"head tail".to_vec(), total: 600 };
        for (end, strict, failed) in [
            (End::Exit(0), false, None),
            (End::Exit(0), true, Some(FailReason::Output)),
            (End::Exit(3), true, Some(FailReason::Exit)),
        ] {
            let run = UnitRun { stdout: cut(), ..run(end, 0, 500) };
            let unit =
                record(run, strict, (Ok(None), no_files), |bytes| Ok(ContentHash::of(&bytes))).unwrap();
            let hash = ContentHash::of(b"head tail");
            assert_eq!(unit.outputs.stdout, Stream::Uploaded { hash, kept: 9, total: 600 });
            assert!(matches!(unit.outputs.stderr, Stream::Inline(_)), "it has room alone");
            assert_eq!(unit.failed, failed);
        }
    }

    #[test]
    fn a_unit_is_not_done_without_its_output() {
        for miss in [FetchError::Refused("the disk is broken".into()), FetchError::Cancelled] {
            assert_eq!(
                record(run(End::Exit(0), 999, 1), false, (Ok(None), no_files), |_| Err(miss.clone())),
                Err(miss)
            );
        }
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
        assert_eq!(command(None, None).time_limit(), None);
        assert_eq!(command(Some(50), Some(20)).time_limit(), ms(20), "nothing was learnt: the key alone");
        let learnt = command(Some(50), Some(20));
        learnt.learn(&run(End::Exit(0), 0, 0));
        learnt.learn(&run(End::Exit(1), 0, 0));
        assert_eq!(learnt.time_limit(), ms(50), "30 x 3 ms is beyond the time limit");
        let learnt = command(None, Some(20));
        learnt.learn(&run(End::Exit(0), 0, 0));
        assert_eq!(learnt.time_limit(), ms(90), "units take 3 ms here");
    }
}
