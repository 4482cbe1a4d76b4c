//! One run for all units of a task (`per = "task"`): what the program is told of them, and what of it counts where the run is
//! stopped or fails before its end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use starfarm_decomposers::Decomposer;
use starfarm_decomposers::template::UnitText;
use starfarm_worker_core::Task;

use crate::bulk::FetchError;
use starfarm_exec::{Captured, Progress, Told, UnitRun};

/// Files of a run, beside its scratch directory. They go with this.
pub(super) struct Beside {
    units: PathBuf,
    done: PathBuf,
}

impl Beside {
    pub(super) fn new(scratch: &Path) -> Self {
        Self { units: scratch.with_extension("units"), done: scratch.with_extension("done") }
    }

    /// Writes the file that `{file}` names: `unit` gives the value of each unit, which gets a line.
    pub(super) fn list(
        &self,
        task: &Task,
        mut value: impl FnMut(u128) -> Result<Vec<u8>, FetchError>,
    ) -> Result<(), FetchError> {
        let not_written = |e: io::Error| {
            let units = self.units.display();
            let why = format!("the list of a task's units cannot be written to {units} on this node: {e}");
            FetchError::of_disk(&e, why)
        };
        let mut file = BufWriter::new(made(&self.units).map_err(not_written)?);
        for unit in task.lo..task.hi() {
            let mut line = value(unit)?;
            if line.contains(&b'\n') {
                return Err(FetchError::Refused(format!(
                    "the value of unit {unit} holds a line break, and `{{file}}` has a line for each unit: leave line breaks \
                     out of the values, or run the program once a unit"
                )));
            }
            line.push(b'\n');
            file.write_all(&line).map_err(not_written)?;
        }
        file.flush().map_err(not_written)
    }

    /// The path of `{file}`.
    pub(super) fn units(&self) -> &Path {
        &self.units
    }

    /// Where the program may tell how far it is: an empty file.
    pub(super) fn progress(&self) -> io::Result<Progress> {
        made(&self.done)?;
        Ok(Progress(self.done.clone()))
    }
}

/// An empty file.
fn made(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.units);
        let _ = fs::remove_file(&self.done);
    }
}

/// What templates are filled with for the units of a task.
pub(super) fn text(space: &dyn Decomposer, task: &Task, file: &Path) -> UnitText {
    use std::os::unix::ffi::OsStrExt;
    UnitText::of_task(space, (task.lo, task.hi()), file.as_os_str().as_bytes().to_vec())
}

/// The part of a run that counts although it did not come to its end: its first units, so many, with what it wrote of them.
/// None where it told of none.
pub(super) fn finished(run: &UnitRun, told: Option<Told>, units: u64) -> Option<(u64, UnitRun)> {
    // Who tells of more units than there are cannot be believed.
    let Told { units: done, stdout_bytes } = told.filter(|told| told.units <= units)?;
    let stdout = match stdout_bytes {
        // Of a stream that is cut nobody knows which bytes these are.
        Some(bytes) if run.stdout.is_cut() && bytes < run.stdout.total => return None,
        Some(bytes) if bytes < run.stdout.total => {
            Captured { bytes: run.stdout.bytes[..bytes as usize].to_vec(), total: bytes }
        }
        _ => run.stdout.clone(),
    };
    Some((done, UnitRun { stdout, ..run.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use starfarm_exec::End;
    use std::time::Duration;

    fn run(stdout: &str, total: u64) -> UnitRun {
        let stdout = Captured { bytes: stdout.into(), total };
        UnitRun {
            end: End::Cancelled,
            duration: Duration::ZERO,
            cpu: Duration::ZERO,
            stdout,
            stderr: Captured::default(),
        }
    }

    #[test]
    fn of_a_run_that_was_stopped_what_it_told_of_counts() {
        let told = |units, stdout_bytes| Some(Told { units, stdout_bytes });
        assert_eq!(finished(&run("abc", 3), None, 9), None);
        assert_eq!(finished(&run("abc", 3), told(4, None), 9), Some((4, run("abc", 3))));
        assert_eq!(finished(&run("abc", 3), told(4, Some(2)), 9), Some((4, run("ab", 2))));
        assert_eq!(finished(&run("abc", 3), told(9, Some(3)), 9), Some((9, run("abc", 3))));
        assert_eq!(finished(&run("abc", 3), told(10, None), 9), None);
        assert_eq!(finished(&run("abc", 30), told(4, None), 9), Some((4, run("abc", 30))));
        assert_eq!(finished(&run("abc", 30), told(4, Some(7)), 9), None);
    }
}
