//! A slot's thread: takes a bundle of tasks, runs them one after another, reports. And the main thread's
//! handle on it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use starfarm_protocol::wire::Cancel;
use starfarm_worker_core::Task;

use crate::Options;
use crate::board::Board;
use crate::bulk::Bulk;
use crate::cards::Card;
use crate::contents::Contents;
use crate::devices::{Alike, DeviceSlot};
use crate::event::Event;
use crate::gauges;
use crate::held_cards::HeldCards;
use crate::metrics::Metrics;
use crate::report::Report;
use crate::run::{Context, Failed, Memory, Programs, Room};
use crate::state::State;
use crate::store::{Store, disk};
use starfarm_exec::CancelFlag;

struct Bundle {
    tasks: Vec<Task>,
    /// The numbers of the cards that they have.
    cards: Vec<u16>,
    cancel: CancelFlag,
}

pub(crate) struct Slot {
    bundles: Sender<Bundle>,
    cancel: CancelFlag,
}

impl Slot {
    /// Gives the slot, which is idle, a bundle.
    pub(crate) fn run(&mut self, tasks: Vec<Task>, cards: Vec<u16>) -> io::Result<()> {
        if self.cancel.is_raised() {
            self.cancel = CancelFlag::new()?;
        }
        // The slot is idle, so that there is room; it lives as long as this handle.
        let _ = self.bundles.send(Bundle { tasks, cards, cancel: self.cancel.clone() });
        Ok(())
    }

    pub(crate) fn cancel(&self, how: Cancel) {
        self.cancel.raise(how);
    }
}

/// Starts the threads of all slots, each of which ends when its handle is gone, and the one that tells how cards do.
pub(crate) fn start_slots(
    options: &Options,
    (kinds, cards): (Vec<Alike>, Vec<Card>),
    board: &Arc<Board>,
    bulk: &Bulk,
    state: &State,
    inbox: &Sender<Event>,
) -> io::Result<Vec<Slot>> {
    let scratch = state.path("scratch");
    // What a killed worker has left behind; the lock says that nobody uses it.
    if let Err(error) = starfarm_net::remove_all(&scratch) {
        starfarm_net::say(&format!(
            "starfarm-worker: what programs left in {} cannot be removed, and takes room: {error}",
            scratch.display()
        ));
    }
    starfarm_net::private_folder(&scratch)?;
    let contents = Arc::new(Contents::new(bulk.clone()));
    let inputs = state.path("inputs");
    starfarm_net::private_folder(&inputs)?;
    let store = Arc::new(Store::open(&inputs, options.store.map_or_else(|| half_of_free(&inputs), Ok)?)?);
    let keep = |most| Failed::open(&state.path("failed"), most).map(Arc::new);
    let failed = options.keep_failed.map(usize::from).map(keep).transpose()?;
    let held_cards = Arc::new(HeldCards::new(state.farm_path(starfarm_protocol::gauges::FILE), &cards));
    gauges::start(inbox, Arc::clone(&held_cards))?;
    let (programs, all_cards) = (Arc::new(Programs::default()), Arc::new(cards));
    let (memory, room) = (Memory::default(), Room::default());
    let metrics = if options.no_monitor { None } else { Metrics::open_or_say(&state.path("")) };
    let start = |(slot, device): (u16, Option<DeviceSlot>)| {
        let (board, contents, store) = (Arc::clone(board), Arc::clone(&contents), Arc::clone(&store));
        let (scratch, failed) = (scratch.clone(), failed.clone());
        let (memory, room) = (memory.clone(), room.clone());
        let inbox_of_device = inbox.clone();
        let tell = move |state| {
            // Nobody listens any more only when the worker has ended.
            let _ = inbox_of_device.send(Event::Device { slot, state });
        };
        let device = device.map(|device| Mutex::new(device.telling(tell)));
        let (all_cards, cards) = (Arc::clone(&all_cards), Vec::new());
        let (metrics, held_cards) = (metrics.clone(), Arc::clone(&held_cards));
        let context = Context {
            slot,
            board,
            contents,
            store,
            memory,
            room,
            scratch,
            device,
            failed,
            metrics,
            all_cards,
            cards,
            held_cards,
        };
        let (programs, report) = (Arc::clone(&programs), Report::new(slot, inbox.clone()));
        let (bundles, to_do) = bounded(1);
        let thread = std::thread::Builder::new().name(format!("slot {slot}"));
        thread.spawn(move || work(&programs, context, report, &to_do))?;
        Ok(Slot { bundles, cancel: CancelFlag::new()? })
    };
    let devices = kinds.into_iter().flat_map(|alike| alike.devices);
    let all = (0..options.slots()).map(|_| None).chain(devices.map(Some));
    (0..).zip(all).map(start).collect()
}

/// What the slot does next; none where the worker ends. A sick device is tried again when it is time.
fn next_bundle(context: &Context, bundles: &Receiver<Bundle>) -> Option<Bundle> {
    let device = || context.device();
    while let Some(again_at) = device().and_then(|device| device.again_at()) {
        match bundles.recv_deadline(again_at) {
            Ok(bundle) => return Some(bundle),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => device().into_iter().for_each(|mut device| device.try_again()),
        }
    }
    bundles.recv().ok()
}

/// Bytes of inputs that are kept where nobody says how many: half of what is free at the start.
fn half_of_free(dir: &Path) -> io::Result<u64> {
    Ok(disk(dir)?.0 / 2)
}

fn work(programs: &Programs, mut context: Context, mut report: Report, bundles: &Receiver<Bundle>) {
    while let Some(Bundle { tasks, cards, cancel }) = next_bundle(&context, bundles) {
        context.cards = cards;
        let held_cards = Arc::clone(&context.held_cards);
        let _held = match context.device() {
            Some(device) => held_cards.hold(context.slot, device.card().as_slice()),
            None => held_cards.hold(context.slot, &context.cards),
        };
        for task in &tasks {
            if !cancel.is_raised() {
                programs.run(task, &cancel, &context, &mut report);
            }
            report.end(task);
            report.flush_if_due();
        }
        report.flush();
    }
}
