//! The dispatcher: owns the farm. Waits for inputs or the next deadline, applies what is there to the
//! core in one turn, hands the deeds on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use starfarm_events::Event;
use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::Epoch;
use starfarm_scheduler_core::{Deed, Deeds, Farm, NodeId, Record};
use tokio::sync::{oneshot, watch};

use super::checkpoint::Snapshot;
use super::journal::ToJournal;
use super::{Input, Shared, stop_with};
use crate::error::SchedulerError;
use crate::state::StateDir;

/// Inputs of one turn: enough to batch, few enough that a turn stays short.
const INPUTS_PER_TURN: usize = 32;
/// How often the books are checked: the counters in any build, every unit's place in a debug build.
const CHECK_PERIOD_US: u64 = 1_000_000;

/// A turn that comes so much later than planned was held up: by the disk, or because the process was stopped.
const STALLED_US: u64 = 1_000_000;

/// Batches for the sender.
pub(crate) enum Outgoing {
    /// Datagrams to seal for a node.
    Datagrams(NodeId, Vec<Vec<u8>>),
    /// With what and where to send to a node from now on.
    Peer(NodeId, starfarm_protocol::seal::Sealer, std::net::SocketAddr),
}

/// Whom the dispatcher talks to.
pub(crate) struct Links {
    pub(crate) inputs: Receiver<Input>,
    pub(crate) sender: Sender<Vec<Outgoing>>,
    pub(crate) journal: Sender<ToJournal>,
    pub(crate) state: Arc<StateDir>,
    pub(crate) events: Sender<Event>,
    /// Counts changes of jobs' states, for those who wait for an end.
    pub(crate) changes: watch::Sender<u64>,
}

/// Runs until it is told to stop.
pub(crate) fn run(mut farm: Farm, links: &Links, shared: &Arc<Shared>) {
    let mut deeds = Deeds::default();
    let mut waiting = Waiting { durable: farm.last_sequence(), ..Waiting::default() };
    let (mut checked_us, mut turned_us) = (0, shared.now_us());
    loop {
        let wait_us = farm.next_deadline_us().saturating_sub(shared.now_us());
        let first = match links.inputs.recv_timeout(Duration::from_micros(wait_us)) {
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let now_us = shared.now_us();
        let stalled_us = now_us.saturating_sub(turned_us).saturating_sub(wait_us);
        turned_us = now_us;
        if stalled_us > STALLED_US {
            farm.on_stall(stalled_us, now_us);
            deeds.0.push(Deed::Event(Event::Stalled { for_us: stalled_us }));
        }
        let durable = shared.durable();
        if durable > waiting.durable {
            waiting.durable = durable;
            farm.on_durable(durable, now_us);
        }
        let rest = std::iter::from_fn(|| links.inputs.try_recv().ok()).take(INPUTS_PER_TURN);
        let mut stop = false;
        for input in first.into_iter().chain(rest) {
            stop |= matches!(input, Input::Stop);
            step(&mut farm, input, now_us, &mut deeds, &mut waiting);
        }
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        perform(&mut deeds, links);
        if std::mem::take(&mut waiting.snapshot) {
            let (sequence, records) = farm.snapshot(&mut deeds);
            let _ = links.journal.send(ToJournal::Snapshot(Snapshot { sequence, records }));
        }
        waiting.answer();
        if now_us >= checked_us + CHECK_PERIOD_US {
            checked_us = now_us;
            // A farm that has lost count must not go on counting.
            let checked = if cfg!(debug_assertions) { farm.check_all() } else { farm.check_counters() };
            checked.unwrap_or_else(|e| panic!("the accounting is broken, stopping: {e}"));
        }
        if stop {
            break;
        }
    }
}

/// What waits for the disk.
#[derive(Default)]
struct Waiting {
    durable: u64,
    /// Answers to users, with the record that each waits for.
    answers: VecDeque<(u64, Response, oneshot::Sender<Response>)>,
    /// A checkpoint is wanted.
    snapshot: bool,
}

fn step(farm: &mut Farm, input: Input, now_us: u64, deeds: &mut Deeds, waiting: &mut Waiting) {
    match input {
        Input::Session(node, name) => farm.on_session(node, &name, now_us),
        Input::Datagrams(batch) => {
            for (node, datagram) in batch {
                farm.on_datagram(node, &datagram, now_us, deeds);
            }
        }
        Input::Revoked(node) => farm.on_revoked(node, deeds),
        Input::Overflow => farm.on_receive_overflow(now_us),
        // It only wakes us: what is durable was looked at.
        Input::Durable => {}
        Input::Ask(question) => {
            let response = (question.act)(farm, now_us, deeds);
            waiting.answers.push_back((farm.last_sequence(), response, question.reply));
        }
        Input::Snapshot => waiting.snapshot = true,
        Input::Stop => {}
    }
}

fn perform(deeds: &mut Deeds, links: &Links) {
    let (mut outgoing, mut records, mut changed) = (Vec::new(), Vec::new(), false);
    for deed in deeds.0.drain(..) {
        match deed {
            Deed::Send(node, datagrams) => outgoing.push(Outgoing::Datagrams(node, datagrams)),
            Deed::Record(sequence, record) => {
                changed |= matches!(record, Record::State { .. } | Record::Ended(_) | Record::Retried { .. });
                records.push((sequence, record));
            }
            Deed::Superseded(later) => superseded(&links.state, later),
            // Watching never holds up dispatching.
            Deed::Event(event) => match links.events.try_send(event) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            },
        }
    }
    // The other ends live as long as the process, but for its last moments.
    if !outgoing.is_empty() {
        let _ = links.sender.send(outgoing);
    }
    if !records.is_empty() {
        let _ = links.journal.send(ToJournal::Records(records));
    }
    if changed {
        links.changes.send_modify(|count| *count += 1);
    }
}

/// A later scheduler has this farm: nothing that this one does would count.
fn superseded(state: &StateDir, later: Epoch) -> ! {
    let noted = state.supersede(later).map_or_else(|e| format!(" ({e})"), |()| String::new());
    stop_with(&format!("{}{noted}", SchedulerError::superseded(later, state.epoch, state.path())))
}

impl Waiting {
    /// Users hear of what they did once it is durable.
    fn answer(&mut self) {
        while self.answers.front().is_some_and(|(sequence, ..)| *sequence <= self.durable) {
            if let Some((_, response, reply)) = self.answers.pop_front() {
                // Who asked may have gone away.
                let _ = reply.send(response);
            }
        }
    }
}
