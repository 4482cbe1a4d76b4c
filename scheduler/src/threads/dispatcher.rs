//! The dispatcher: owns the farm. Waits for inputs or the next deadline, applies what is there to the
//! core in one turn, hands the deeds on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use starfarm_events::Snapshot as Picture;
use starfarm_protocol::admin::Response;
use starfarm_protocol::ids::Epoch;
use starfarm_scheduler_core::{Beat, Deed, Deeds, Farm, INPUTS_PER_TURN};
use tokio::sync::oneshot;

use super::checkpoint::{LookUp, Snapshot};
use super::command::bells::{self, Bells};
use super::journal::ToJournal;
use super::log::ToLog;
use super::{Input, Outgoing, Shared, Told, stop_with};
use crate::error::SchedulerError;
use crate::store::state::StateDir;

#[cfg(test)]
mod tests;

/// How often the sums of the books are checked, and in a debug build every unit's place.
const CHECK_PERIOD_US: u64 = 1_000_000;
/// How often every unit's place is checked in any build ...
const CHECK_ALL_PERIOD_US: u64 = 60_000_000;
/// ... of a farm of no more tasks, intervals, jobs and nodes than this: some 10 ms.
const CHECK_ALL_MAX: usize = 20_000;

/// Whom the dispatcher talks to.
pub(crate) struct Links {
    pub(crate) inputs: Receiver<Input>,
    pub(crate) sender: Sender<Vec<Outgoing>>,
    pub(crate) journal: Sender<ToJournal>,
    pub(crate) state: Arc<StateDir>,
    pub(crate) events: Sender<Arc<Told>>,
    /// The log, where there is one.
    pub(crate) log: Option<Sender<ToLog>>,
    /// Rung for those who wait for a job's end.
    pub(crate) bells: Arc<Bells>,
}

impl Links {
    /// Drops what still comes in until nobody is left to send. A channel whose receiver has gone keeps what is in
    /// it while it has a sender: a question behind the last turn would be held for ever by the thread that asked
    /// it. The other links go first, since those at their far ends send here too.
    fn refuse_the_rest(self) {
        let inputs = self.inputs.clone();
        drop(self);
        inputs.iter().for_each(drop);
    }
}

/// Runs until it is told to stop, and then until all who can ask it something have gone.
pub(crate) fn run(farm: Farm, links: Links, shared: &Arc<Shared>) {
    serve(farm, &links, shared);
    links.refuse_the_rest();
}

fn serve(mut farm: Farm, links: &Links, shared: &Arc<Shared>) {
    let mut deeds = Deeds::default();
    let (mut waiting, mut doubt) = (Waiting::default(), Doubt::default());
    let mut beat = Beat::new(&farm, shared.now_us());
    // Before anything happens: a log that missed the first events would show a farm that never was.
    picture(&mut farm, shared.now_us(), links);
    loop {
        let wait_us = beat.wait_us(&farm, shared.now_us());
        let first = match links.inputs.recv_timeout(Duration::from_micros(wait_us)) {
            Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let now_us = shared.now_us();
        beat.turn_begins(&mut farm, shared.durable(), now_us, &mut deeds);
        let rest = std::iter::from_fn(|| links.inputs.try_recv().ok()).take(INPUTS_PER_TURN);
        let mut stop = false;
        let tells = shared.tasks.are_wanted(now_us);
        for input in first.into_iter().chain(rest) {
            stop |= matches!(input, Input::Stop);
            if let (true, Input::Datagrams(batch)) = (tells, &input) {
                shared.tasks.came(&farm, batch, now_us);
            }
            step(&mut farm, input, now_us, &mut deeds, &mut waiting);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        farm.on_datagram_counts(count(&shared.dropped), count(&shared.refused));
        farm.on_room(shared.no_room.load(Ordering::Relaxed));
        let stored =
            std::mem::take(&mut *shared.stored.lock().expect("a panic under the lock ends the process"));
        stored.into_iter().for_each(|(job, bytes)| farm.on_stored(job, bytes, &mut deeds));
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        if tells {
            shared.tasks.went(&farm, &deeds, now_us);
        }
        perform(&mut deeds, &mut waiting.outgoing, now_us, links, shared);
        if std::mem::take(&mut waiting.picture) {
            picture(&mut farm, now_us, links);
        }
        if std::mem::take(&mut waiting.snapshot) {
            let (sequence, records) = farm.snapshot(&mut deeds);
            let _ = links.journal.send(ToJournal::Snapshot(Snapshot { sequence, records }));
        }
        waiting.answer(beat.durable);
        doubt.check(&mut farm, now_us, &mut deeds);
        if stop {
            break;
        }
    }
    let now_us = shared.now_us();
    farm.on_stop(now_us, &mut deeds);
    perform(&mut deeds, &mut waiting.outgoing, now_us, links, shared);
}

/// When the books were checked last.
#[derive(Default)]
struct Doubt {
    sums_us: u64,
    all_us: u64,
}

impl Doubt {
    /// A farm that has lost count must not go on counting.
    fn check(&mut self, farm: &mut Farm, now_us: u64, deeds: &mut Deeds) {
        if now_us < self.sums_us + CHECK_PERIOD_US {
            return;
        }
        self.sums_us = now_us;
        farm.check_standstill(now_us, deeds);
        let all_due = now_us >= self.all_us + CHECK_ALL_PERIOD_US;
        let all = cfg!(debug_assertions) || all_due && farm.entries() <= CHECK_ALL_MAX;
        if all_due {
            self.all_us = now_us;
        }
        let checked = if all { farm.check_all() } else { farm.check_counters() };
        checked.unwrap_or_else(|e| panic!("the accounting is broken, stopping: {e}"));
    }
}

/// What waits for the disk, or for the end of the turn.
#[derive(Default)]
struct Waiting {
    /// News for the sender. They stand before what this turn packs, which is for the sessions that they tell of:
    /// the farm says nothing to a node between its session and its hello.
    outgoing: Vec<Outgoing>,
    /// Answers to users, with the record that each waits for.
    answers: VecDeque<(u64, Response, oneshot::Sender<Response>)>,
    /// A checkpoint is wanted.
    snapshot: bool,
    /// The log opens a segment.
    picture: bool,
}

fn step(farm: &mut Farm, input: Input, now_us: u64, deeds: &mut Deeds, waiting: &mut Waiting) {
    match input {
        Input::Session(node, name) => farm.on_session(node, &name, now_us),
        Input::Outgoing(news) => waiting.outgoing.extend(news),
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
        Input::Traced(traced) => farm.on_traced(traced, now_us, deeds),
        Input::Event(event) => deeds.0.push(Deed::Event(*event)),
        Input::Events(events) => deeds.0.extend(events.into_iter().map(Deed::Event)),
        Input::Snapshot => waiting.snapshot = true,
        Input::Picture => waiting.picture = true,
        Input::Stop => {}
    }
}

fn perform(deeds: &mut Deeds, outgoing: &mut Vec<Outgoing>, now_us: u64, links: &Links, shared: &Shared) {
    let (mut records, mut rung) = (Vec::new(), Vec::new());
    let (mut events, mut lookups) = (Vec::new(), Vec::new());
    for deed in deeds.0.drain(..) {
        match deed {
            Deed::Send(node, datagrams) => outgoing.push(Outgoing::Datagrams(node, datagrams)),
            Deed::Record(sequence, record) => {
                rung.extend(bells::rings(&record));
                records.push((sequence, record));
            }
            Deed::Trace(trace) => lookups.push(ToJournal::LookUp(LookUp::Trace(trace))),
            Deed::Certify(event) => lookups.push(ToJournal::LookUp(LookUp::Certify(Box::new(event)))),
            Deed::Superseded(later) => superseded(&links.state, later),
            Deed::Event(event) => events.push(event),
        }
    }
    // The other ends live as long as the process, but for its last moments.
    if !outgoing.is_empty() {
        let _ = links.sender.send(std::mem::take(outgoing));
    }
    if !records.is_empty() {
        let _ = links.journal.send(ToJournal::Records(records));
    }
    // Behind the records that they are to look at.
    for lookup in lookups {
        let _ = links.journal.send(lookup);
    }
    if !events.is_empty() {
        tell(Told { at_us: now_us, events }, links, shared);
    }
    if !rung.is_empty() {
        links.bells.ring(rung);
    }
}

/// Watching never holds up dispatching: what there is no room for is dropped, and the log counts that.
fn tell(told: Told, links: &Links, shared: &Shared) {
    let told = Arc::new(told);
    if told.events.iter().any(|event| !event.dense()) {
        let _ = links.events.try_send(Arc::clone(&told));
    }
    if let Some(log) = &links.log
        && let Err(TrySendError::Full(ToLog::Events(told))) = log.try_send(ToLog::Events(told))
    {
        shared.unheard.fetch_add(told.events.len() as u64, Ordering::Relaxed);
    }
}

/// How the farm stands, for a segment of the log. Without room the log asks again.
fn picture(farm: &mut Farm, now_us: u64, links: &Links) {
    if let Some(log) = &links.log {
        let picture: Box<Picture> = Box::new(farm.picture(now_us));
        let _ = log.try_send(ToLog::Picture(now_us, picture));
    }
}

/// A later scheduler has this farm: nothing that this one does would count.
fn superseded(state: &StateDir, later: Epoch) -> ! {
    let noted = state.supersede(later).map_or_else(|e| format!(" ({e})"), |()| String::new());
    stop_with(&format!("{}{noted}", SchedulerError::superseded(later, state.farm.epoch, state.path())))
}

impl Waiting {
    /// Users hear of what they did once it is durable.
    fn answer(&mut self, durable: u64) {
        while self.answers.front().is_some_and(|(sequence, ..)| *sequence <= durable) {
            if let Some((_, response, reply)) = self.answers.pop_front() {
                // Who asked may have gone away.
                let _ = reply.send(response);
            }
        }
    }
}
