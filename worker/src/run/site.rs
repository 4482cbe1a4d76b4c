//! A task on its slot, and what it has there: a directory, and results on their way. Where the disk has no room for the files
//! of all slots, units take turns.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use starfarm_worker_core::Task;

use super::delivery::Delivery;
use super::executor::Context;
use super::room::Place;
use crate::bulk::FetchError;
use crate::report::Report;
use starfarm_exec::CancelFlag;

/// Who waits for room so long says so.
const TOLD_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Site<'a> {
    pub(super) task: &'a Task,
    pub(super) cancel: &'a CancelFlag,
    pub(super) context: &'a Context,
    pub(super) scratch: Scratch,
    pub(super) delivery: Delivery<'a>,
    pub(super) report: &'a mut Report,
}

/// Why a unit did not run to its end.
#[derive(Debug)]
pub(super) enum NotRun {
    /// This node cannot run it, nor others like it, or it is not wanted.
    Here(FetchError),
    /// Its own files have no room on this disk even with none of others there; in words. Other units may have.
    TooLarge(String),
}

impl From<FetchError> for NotRun {
    fn from(error: FetchError) -> Self {
        Self::Here(error)
    }
}

impl<'a> Site<'a> {
    pub(super) fn new(
        task: &'a Task,
        cancel: &'a CancelFlag,
        context: &'a Context,
        report: &'a mut Report,
    ) -> Self {
        let scratch = Scratch::new(&context.scratch, task);
        let delivery = Delivery::new(task, context.contents.bulk(), cancel);
        Self { task, cancel, context, scratch, delivery, report }
    }

    /// The slot begins with a unit.
    pub(super) fn begin(&self, unit: u128) {
        self.context.board.begin(self.context.slot, self.task.job, unit);
    }

    /// Reports what is stored by now, while a program runs, and says when to do so again.
    pub(super) fn go_on(&mut self) -> Option<Duration> {
        // What cannot be stored is told of where the program has ended.
        self.delivery.go_on(self.report).unwrap_or(None)
    }

    /// Runs one program, of a unit or of several from `unit` on, by `attempt`: again where the disk had no room for its files
    /// and others have given some back. `has_files`: it has some.
    pub(super) fn in_turn<T>(
        &mut self,
        unit: u128,
        has_files: bool,
        mut attempt: impl FnMut(&mut Self, &mut Place<'_>) -> Result<T, FetchError>,
    ) -> Result<T, NotRun> {
        let context = self.context;
        let mut place = context.room.place();
        if !has_files {
            self.begin(unit);
            match attempt(self, &mut place) {
                Err(FetchError::NoRoom(_)) => drop(place.again()),
                came => return Ok(came?),
            }
        }
        loop {
            let mut waits = Waits::default();
            let stake = place.enter(self.cancel, || waits.go_on(context, &mut self.delivery, self.report))?;
            self.begin(unit);
            let came = attempt(self, &mut place);
            if matches!(came, Err(FetchError::NoRoom(_))) || context.store.is_full() {
                context.room.note_full();
            }
            // What cannot be removed is told of where the next unit finds it.
            let _ = self.scratch.remove();
            drop(stake);
            let may_be_more = || context.failed.as_ref().is_some_and(|failed| failed.give_way());
            match came {
                Err(FetchError::NoRoom(_)) if place.again() || may_be_more() => {}
                Err(FetchError::NoRoom(why) | FetchError::TooLarge(why))
                    if place.lacks_own() && context.store.leave_room().is_ok() =>
                {
                    return Err(NotRun::TooLarge(why));
                }
                came => return Ok(came?),
            }
        }
    }
}

/// A unit that waits for room. It does not run meanwhile, nor hang.
#[derive(Default)]
pub(super) struct Waits(Option<Instant>);

impl Waits {
    /// Called again and again while it waits: what was done before it goes on its way.
    ///
    /// # Errors
    /// That cannot be stored.
    pub(super) fn go_on(
        &mut self,
        context: &Context,
        delivery: &mut Delivery<'_>,
        report: &mut Report,
    ) -> Result<(), FetchError> {
        if self.0.is_none() {
            context.board.end(context.slot);
        }
        let since = *self.0.get_or_insert_with(Instant::now);
        if since.elapsed() >= TOLD_AFTER
            && let Some((units, waiting)) = context.room.is_to_be_told()
        {
            starfarm_net::say(&format!(
                "starfarm-worker: the disk of {} has no room for the files of all slots: {waiting} wait until one of \
                 {units} units has ended; with more room, or with fewer slots, none would",
                context.scratch.display()
            ));
        }
        delivery.go_on(report).map(drop)
    }
}

/// A directory of an attempt's own, gone with it. It is made where it is emptied first.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path, task: &Task) -> Self {
        Self(folder.join(format!("{}-{}-{}", task.job.0, task.attempt.0, task.lo)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What the unit before left in it goes; mostly that is nothing.
    pub(super) fn empty(&self) -> io::Result<()> {
        if std::fs::read_dir(&self.0).is_ok_and(|mut entries| entries.next().is_none()) {
            return Ok(());
        }
        self.remove()?;
        std::fs::create_dir_all(&self.0)
    }

    /// Whatever a unit made of it goes.
    fn remove(&self) -> io::Result<()> {
        starfarm_net::remove_all(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}
