//! A slot's thread: takes a bundle of tasks, runs them one after another, reports. And the main thread's
//! handle on it.

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use starfarm_protocol::wire::Cancel;
use starfarm_worker_core::Task;

use crate::board::Board;
use crate::bulk::Bulk;
use crate::contents::Contents;
use crate::event::Event;
use crate::exec::CancelFlag;
use crate::report::Report;
use crate::run::{Context, Programs};
use crate::state::State;

/// Tasks for a slot, and the flag that ends them.
struct Bundle {
    tasks: Vec<Task>,
    cancel: CancelFlag,
}

/// The main thread's handle on a slot.
pub(crate) struct Slot {
    bundles: Sender<Bundle>,
    cancel: CancelFlag,
}

impl Slot {
    /// Starts a slot's thread. It ends when the handle is gone.
    ///
    /// # Errors
    /// Where the system has no thread or file descriptor left.
    pub(crate) fn start(programs: Arc<Programs>, context: Context, report: Report) -> io::Result<Self> {
        let (bundles, to_do) = bounded(1);
        let name = format!("slot {}", context.slot);
        std::thread::Builder::new().name(name).spawn(move || work(&programs, &context, report, &to_do))?;
        Ok(Self { bundles, cancel: CancelFlag::new()? })
    }

    /// Gives the slot, which is idle, a bundle.
    ///
    /// # Errors
    /// Where the system has no file descriptor left for a new flag.
    pub(crate) fn run(&mut self, tasks: Vec<Task>) -> io::Result<()> {
        if self.cancel.is_raised() {
            self.cancel = CancelFlag::new()?;
        }
        // The slot is idle, so that there is room; it lives as long as this handle.
        let _ = self.bundles.send(Bundle { tasks, cancel: self.cancel.clone() });
        Ok(())
    }

    /// What the slot runs should stop.
    pub(crate) fn cancel(&self, how: Cancel) {
        self.cancel.raise(how);
    }
}

/// Starts all slots of a worker.
///
/// # Errors
/// As [`Slot::start`].
pub(crate) fn start_slots(
    count: u16,
    board: &Arc<Board>,
    bulk: &Bulk,
    state: &State,
    inbox: &Sender<Event>,
) -> io::Result<Vec<Slot>> {
    let scratch = state.path("scratch");
    // What a killed worker has left behind; the lock says that nobody uses it.
    let _ = std::fs::remove_dir_all(&scratch);
    let contents = Arc::new(Contents::new(bulk.clone()));
    let programs = Arc::new(Programs::default());
    let start = |slot| {
        let (board, contents, scratch) = (Arc::clone(board), Arc::clone(&contents), scratch.clone());
        let context = Context { slot, board, contents, scratch };
        Slot::start(Arc::clone(&programs), context, Report::new(slot, inbox.clone()))
    };
    (0..count).map(start).collect()
}

fn work(programs: &Programs, context: &Context, mut report: Report, bundles: &Receiver<Bundle>) {
    for Bundle { tasks, cancel } in bundles {
        for task in &tasks {
            if !cancel.is_raised() {
                programs.run(task, &cancel, context, &mut report);
            }
            report.end(task);
            report.flush_if_due();
        }
        report.flush();
    }
}
