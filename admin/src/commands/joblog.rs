//! The file of `--joblog`: a row for each unit that ran, and what an earlier one leaves to be done.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use starfarm_decomposers::template::UnitText;
use starfarm_logs::joblog::{HEAD, Row, outcomes};
use starfarm_protocol::admin::OutputInfo;
use starfarm_protocol::spec::{Interval, Space};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::units::Units;

use crate::cli::Parallel;
use crate::failure::{Exit, Failure};
use crate::jobfile::JobFile;
use crate::output::say;

/// Exit value of a unit that left none.
const NO_EXIT: i32 = -1;

/// Which units of a job log run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resume {
    /// Those that it lacks.
    Missing,
    /// These, and those that failed.
    Failed,
}

pub(crate) struct JobLog {
    path: PathBuf,
    file: File,
}

/// The file without a row that was not written to its end.
fn without_torn_row(mut file: File) -> io::Result<File> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(end as u64)?;
    Ok(file)
}

impl JobLog {
    /// A new file, or the end of an old one.
    pub(crate) fn open(path: &Path, goes_on: bool) -> Result<Self, Failure> {
        let open = || {
            let file = match goes_on {
                true => without_torn_row(File::options().create(true).read(true).append(true).open(path)?)?,
                false => File::create(path)?,
            };
            let mut log = Self { path: path.to_owned(), file };
            if log.file.metadata()?.len() == 0 {
                log.file.write_all(HEAD.as_bytes())?;
            }
            Ok(log)
        };
        open().map_err(|e| cannot(path, "write", &e))
    }

    /// A unit ended, which is known at `now_us`.
    pub(crate) fn ended(
        &mut self,
        output: &OutputInfo,
        unit: &UnitText,
        command: &str,
        now_us: u64,
    ) -> Result<(), Failure> {
        let took_us = (output.seconds * 1e6) as u64;
        // A unit that failed without a code of its own has not passed.
        let none = if output.failed.is_some() { NO_EXIT } else { 0 };
        let exit = match (output.exit_code, output.signal) {
            (Some(0) | None, None) => none,
            (code, _) => code.unwrap_or(0),
        };
        self.write(&Row {
            seq: unit.index.saturating_add(1),
            host: output.node.as_deref().unwrap_or(":"),
            start_us: now_us.saturating_sub(took_us),
            took_us,
            received: output.stdout.total,
            exit,
            signal: output.signal.unwrap_or(0),
            command,
        })
    }

    /// A unit failed that brought down who ran it, so that nothing is known of its run.
    pub(crate) fn lost(
        &mut self,
        node: Option<&str>,
        unit: &UnitText,
        command: &str,
        now_us: u64,
    ) -> Result<(), Failure> {
        self.write(&Row {
            seq: unit.index.saturating_add(1),
            host: node.unwrap_or(":"),
            start_us: now_us,
            took_us: 0,
            received: 0,
            exit: NO_EXIT,
            signal: 0,
            command,
        })
    }

    fn write(&mut self, row: &Row<'_>) -> Result<(), Failure> {
        let mut line = Vec::new();
        // At once and whole: who is killed leaves no part of a row.
        row.write(&mut line)
            .and_then(|()| self.file.write_all(&line))
            .map_err(|e| cannot(&self.path, "write", &e))
    }
}

/// Units that are not to run again, as the flags and the job log say: with `missing`, all that it has.
pub(crate) fn over(flags: &Parallel, missing: bool) -> Result<UnitSet, Failure> {
    let resume = match (flags.resume_failed, missing) {
        (true, _) => Resume::Failed,
        (_, true) => Resume::Missing,
        _ => return Ok(UnitSet::default()),
    };
    flags.joblog.as_ref().map_or(Ok(UnitSet::default()), |path| over_by(path, resume))
}

fn over_by(path: &Path, resume: Resume) -> Result<UnitSet, Failure> {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(UnitSet::default()),
        Err(e) => return Err(cannot(path, "read", &e)),
    };
    let outcomes =
        outcomes(&text).map_err(|why| Failure::usage(format!("the job log {}: {why}", path.display())))?;
    let is_over = |passed: bool| passed || resume == Resume::Missing;
    Ok(outcomes.into_iter().filter(|(_, passed)| is_over(*passed)).map(|(seq, _)| (seq - 1, seq)).collect())
}

/// Leaves of the job what is not over; whether that is anything.
pub(crate) fn leave_rest(job: &mut JobFile, flags: &Parallel) -> Result<bool, Failure> {
    if job.over.is_empty() {
        return Ok(true);
    }
    let units = job.opened().map_err(Failure::usage)?.units();
    let rest = UnitSet::from_iter([(0, units)]).without(&job.over);
    let rest: Vec<_> = rest.iter().map(|(lo, hi)| Interval { lo: Units(lo), hi: Units(hi) }).collect();
    match &rest[..] {
        [] => {
            let log = flags.joblog.as_deref().unwrap_or(Path::new("")).display();
            say(&format!("nothing is left to be done: the job log {log} has all units"));
            return Ok(false);
        }
        [all] if all.lo.0 == 0 && all.hi.0 == units => {}
        _ if job.spec.work.merge().is_some() => {
            return Err(Failure::usage(
                "the results of what is left alone would be merged: leave --resume and --resume-failed out. The same `run` \
                 goes on by itself where it was ended, and `starfarm job retry --failed ID` runs failed units of a job again",
            ));
        }
        _ => {
            let whole = std::mem::replace(&mut job.spec.space, Space::Grid { axes: Vec::new() });
            job.spec.space = Space::Subset { of: Box::new(whole), units: rest };
        }
    }
    Ok(true)
}

fn cannot(path: &Path, what: &str, e: &io::Error) -> Failure {
    Failure::new(Exit::Conflict, format!("cannot {what} the job log {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobfile;

    fn job() -> JobFile {
        let text = "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";
        jobfile::parse(text, "demo.toml", Path::new("")).unwrap()
    }

    /// A full disk or a power cut ends a log in the midst of a row.
    #[test]
    fn a_log_whose_last_row_is_torn_goes_on_with_a_row_of_its_own() {
        let path = std::env::temp_dir().join(format!("starfarm-joblog-{}-torn", std::process::id()));
        let whole = format!("{HEAD}1\tn\t1.5\t0.1\t0\t0\t0\t0\tx\n");
        for torn in ["", "2\tn\t1.5", "2\tn\t1.5\t0.1\t0\t0\t0\t0\tx"] {
            fs::write(&path, format!("{whole}{torn}")).unwrap();
            drop(JobLog::open(&path, true).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{torn}");
        }
        fs::write(&path, &HEAD[..9]).unwrap();
        drop(JobLog::open(&path, true).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), HEAD);
        fs::remove_file(path).unwrap();
    }

    /// The units that run, after so many rows of passed and failed units.
    fn rest(rows: &[(u32, u32)], resume: Resume) -> Option<Vec<u128>> {
        let path = std::env::temp_dir().join(format!("starfarm-joblog-{}-{resume:?}", std::process::id()));
        let rows: String =
            rows.iter().map(|(seq, exit)| format!("{seq}\tn\t1.5\t0.1\t0\t0\t{exit}\t0\tx\n")).collect();
        fs::write(&path, format!("{HEAD}{rows}")).unwrap();
        let mut job = job();
        job.over = over_by(&path, resume).unwrap();
        let is_any = leave_rest(&mut job, &Parallel::default()).unwrap();
        fs::remove_file(path).unwrap();
        let space = job.opened().unwrap();
        is_any.then(|| (0..space.units()).map(|unit| space.number(unit)).collect())
    }

    #[test]
    fn what_is_left_is_what_the_log_lacks_or_says_failed() {
        for resume in [Resume::Missing, Resume::Failed] {
            assert_eq!(rest(&[], resume), Some((0..9).collect()));
            let all: Vec<_> = (1..=9).map(|seq| (seq, 0)).collect();
            assert_eq!(rest(&all, resume), None);
        }
        let some = [(2, 0), (1, 3), (9, 0), (5, 1), (5, 0), (77, 1)];
        assert_eq!(rest(&some, Resume::Missing), Some(vec![2, 3, 5, 6, 7]));
        assert_eq!(rest(&some, Resume::Failed), Some(vec![0, 2, 3, 5, 6, 7]));
    }

    #[test]
    fn a_log_that_is_not_there_lacks_all() {
        for path in ["/nonexistent/log", "/proc/self/cmdline"] {
            assert_eq!(over_by(Path::new(path), Resume::Failed), Ok(UnitSet::default()), "{path}");
        }
        let mut job = job();
        assert_eq!(leave_rest(&mut job, &Parallel::default()), Ok(true));
        assert!(matches!(job.spec.space, Space::Range { .. }));
    }
}
