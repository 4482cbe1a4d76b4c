//! What a slot does with a task: one file per executor. A specification is fetched and prepared once per
//! worker and shared by its slots.

mod command;
mod delivery;
mod executor;
mod failed;
mod files;
mod memory;
mod nothing;
mod opencl;
mod pack;
mod record;
mod room;
mod search;
mod site;
mod together;

use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_worker_core::Task;

use crate::bulk::FetchError;
use crate::contents::Contents;
use crate::devices::ForDevice;
use crate::report::Report;
use command::Command;
pub(crate) use executor::Context;
use executor::Executor;
pub(crate) use failed::Failed;
pub(crate) use memory::Memory;
use nothing::Nothing;
use opencl::OpenCl;
pub(crate) use room::Room;
use search::Search;
use starfarm_exec::CancelFlag;

/// What of a job a device is to run.
///
/// # Errors
/// No device runs it, in words.
pub(crate) fn for_device(JobSpec { space, work }: JobSpec) -> Result<ForDevice, String> {
    match work {
        Work::Search(work) => search::kernel(&work, space).map(Box::new).map(ForDevice::Search),
        Work::OpenCl(work) => {
            let digits = starfarm_decomposers::digits(&space)?;
            Ok(ForDevice::Kernel(Box::new(work), digits))
        }
        Work::Command(_) | Work::Nothing => Err("a device runs searches and kernels alone".to_owned()),
    }
}

/// Prepared specifications that are kept; a worker seldom has tasks of more than two jobs.
const PREPARED_MAX: usize = 16;
/// How often a slot looks whether another one has finished preparing.
const LOOK: Duration = Duration::from_millis(10);

/// Prepares a specification, or says why this worker cannot run the job.
fn prepare(bytes: &[u8], contents: &Arc<Contents>) -> Prepared {
    let JobSpec { space, work } = JobSpec::from_bytes(bytes)?;
    let chunks = Arc::clone(contents);
    Ok(match work {
        Work::Command(work) => Arc::new(Command::new(&work, &space, chunks)?),
        Work::Search(work) => Arc::new(Search::new(&work, space)?),
        Work::OpenCl(work) => Arc::new(OpenCl::new(work, &space)?),
        Work::Nothing => Arc::new(Nothing::new(&space)?),
    })
}

type Prepared = Result<Arc<dyn Executor>, String>;

#[derive(Default)]
pub(crate) struct Programs {
    /// The newest is last. Two jobs of one specification may have units of their own.
    prepared: Mutex<Vec<((JobId, ContentHash), Prepared)>>,
    /// Held while a specification is prepared: ten million targets should be sorted once, not once a slot.
    preparing: Mutex<()>,
}

impl Programs {
    /// Runs a task to its end, or until `cancel` is raised. What became of it is in the report; the rest
    /// of a task that was not finished is simply not reported.
    pub(crate) fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report) {
        match self.get((task.job, task.spec), cancel, &context.contents) {
            Ok(program) if task.hi() > program.units() => {
                report.refuse(task, task.lo, "the task lies beyond the end of its job's space");
            }
            Ok(program) => program.run(task, cancel, context, report),
            Err(error) => {
                let _ = error.refusal().map(|why| report.refuse(task, task.lo, &why));
            }
        }
    }

    fn get(
        &self,
        key: (JobId, ContentHash),
        cancel: &CancelFlag,
        contents: &Arc<Contents>,
    ) -> Result<Arc<dyn Executor>, FetchError> {
        loop {
            if let Some(prepared) = self.look_up(&key) {
                return prepared.map_err(FetchError::Refused);
            }
            let _preparing = match self.preparing.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(_)) => unreachable!("a panic ends the process"),
                Err(TryLockError::WouldBlock) if cancel.is_raised() => return Err(FetchError::Cancelled),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            // Another slot may have been faster.
            if self.look_up(&key).is_none() {
                let bytes = contents.get(key.1, cancel)?;
                self.keep(key, prepare(&bytes, contents));
            }
        }
    }

    fn look_up(&self, key: &(JobId, ContentHash)) -> Option<Prepared> {
        let prepared = self.prepared.lock().expect("a panic ends the process");
        prepared.iter().rev().find(|(of, _)| of == key).map(|(_, program)| program.clone())
    }

    fn keep(&self, key: (JobId, ContentHash), program: Prepared) {
        let mut prepared = self.prepared.lock().expect("a panic ends the process");
        if prepared.len() == PREPARED_MAX {
            drop(prepared.remove(0));
        }
        prepared.push((key, program));
    }
}
