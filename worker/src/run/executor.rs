//! What an executor is to a slot, and what every executor has at hand.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use starfarm_worker_core::Task;

use super::failed::Failed;
use super::memory::Memory;
use super::room::Room;
use crate::board::Board;
use crate::cards::Card;
use crate::contents::Contents;
use crate::devices::DeviceSlot;
use crate::held_cards::HeldCards;
use crate::metrics::Metrics;
use crate::report::Report;
use crate::store::Store;
use starfarm_exec::CancelFlag;

/// A job's specification, prepared to be run. The slots of a worker share it.
pub(crate) trait Executor: Send + Sync {
    /// Units of the job's space: a task ends there at the latest.
    fn units(&self) -> u128;

    /// Runs a task, which lies within the space, to its end, or until `cancel` is raised. What became of its units goes
    /// to `report`, in their order; those not reported go back. The board is told of each unit as it begins.
    fn run(&self, task: &Task, cancel: &CancelFlag, context: &Context, report: &mut Report);
}

pub(crate) struct Context {
    pub(crate) slot: u16,
    pub(crate) board: Arc<Board>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) store: Arc<Store>,
    /// Memory for archives of files that units made.
    pub(crate) memory: Memory,
    /// Room on the disk for files of units.
    pub(crate) room: Room,
    /// Folder for the scratch directories of attempts.
    pub(crate) scratch: PathBuf,
    /// The device of the slot; none where it is one of the processor's.
    pub(crate) device: Option<Mutex<DeviceSlot>>,
    /// The cards of this worker, and the numbers of those that the slot's tasks have now.
    pub(crate) all_cards: Arc<Vec<Card>>,
    pub(crate) cards: Vec<u16>,
    /// Where the monitor learns who has them.
    pub(crate) held_cards: Arc<HeldCards>,
    /// Where programs tell figures of their own; none where nobody wants any.
    pub(crate) metrics: Option<Arc<Metrics>>,
    /// Keeps those of units that fail, where a person wants that.
    pub(crate) failed: Option<Arc<Failed>>,
}

impl Context {
    /// The device of the slot, if it is one.
    pub(crate) fn device(&self) -> Option<MutexGuard<'_, DeviceSlot>> {
        self.device.as_ref().map(|device| device.lock().expect("a panic ends the process"))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use starfarm_protocol::ids::{Attempt, ContentHash, FarmId, JobId};
    use starfarm_worker_core::Part;

    use super::*;
    use crate::bulk::Bulk;
    use crate::event::{Event, News};
    use crate::store::Disk;
    use crate::testing::TempDir;

    /// What the executor reports of a task of `units` units from `lo` on, at a worker that nothing can be fetched for.
    pub(in crate::run) fn parts(executor: &dyn Executor, lo: u128, units: u64) -> Vec<Part> {
        parts_on(crate::store::disk, executor, lo, units)
    }

    /// The same at one whose disk is of that kind.
    pub(in crate::run) fn parts_on(disk: Disk, executor: &dyn Executor, lo: u128, units: u64) -> Vec<Part> {
        let dir = TempDir::new();
        let board = Arc::new(Board::open(&dir.0.join("running"), FarmId([1; 16]), 1, None).unwrap().0);
        let contents = Arc::new(Contents::new(Bulk::without_thread()));
        let store = Arc::new(Store::open(&dir.0.join("inputs"), u64::MAX).unwrap().on(disk));
        let (scratch, memory, room) = (dir.0.join("scratch"), Memory::default(), Room::default());
        let (device, failed) = (None, None);
        let (all_cards, cards) = (Arc::default(), Vec::new());
        let context = Context {
            slot: 0,
            board,
            contents,
            store,
            memory,
            room,
            scratch,
            device,
            failed,
            metrics: None,
            held_cards: Arc::new(HeldCards::new(dir.0.join("cards.json"), &[])),
            all_cards,
            cards,
        };
        let (to_inbox, inbox) = crossbeam_channel::unbounded();
        let mut report = Report::new(0, to_inbox);
        let task = Task { job: JobId(1), spec: ContentHash([1; 32]), attempt: Attempt(1), lo, units };
        assert!(task.hi() <= executor.units(), "no slot is given a task beyond the end");
        executor.run(&task, &CancelFlag::new().unwrap(), &context, &mut report);
        report.flush();
        assert_eq!(context.board.running().count(), 0, "the board is told of the last unit's end");
        let news = inbox.try_iter().flat_map(|event| match event {
            Event::Slot { news, .. } => news,
            _ => Vec::new(),
        });
        news.filter_map(|item| if let News::Part(part) = item { Some(part) } else { None }).collect()
    }
}
