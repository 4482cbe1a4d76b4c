//! The main thread: three beats for ever, wait for events, tell the core, do its deeds. It owns the core,
//! the sessions and the sockets; nothing here is shared.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use starfarm_protocol::ids::{Boot, Epoch};
use starfarm_protocol::limits::NODE_TASKS_MAX;
use starfarm_protocol::seal::Sealer;
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::Cancel;
use starfarm_worker_core::{Config, Deed, Known, Worker};

use crate::addresses::{Addresses, read_join_file};
use crate::board::Board;
use crate::bulk::Bulk;
use crate::event::{Event, News};
use crate::options::{Agents, cores};
use crate::orders::{Orders, Ways};
use crate::say::{no, say, starts};
use crate::sessions::{Heard, Identity, Sessions};
use crate::slot::{Slot, start_slots};
use crate::sockets::Sockets;
use crate::state::State;
use crate::{Options, WorkerError, devices, facts, stop, verbose};
use starfarm_exec::Warden;

/// Messages that may wait for the main thread.
const INBOX: usize = 4_096;
const BEAT: usize = 256;
/// How often sessions are looked after and a missing scheduler is mentioned.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// A scheduler that has not answered for this long is mentioned, and again after twice, four times ...
const SILENCE: Duration = Duration::from_secs(3);
/// After a second signal programs get TERM, and KILL 5 s later; what is then left is left.
const STOP: Duration = Duration::from_secs(6);
/// When the parent has gone, programs that still run get this long: nobody waits for them.
const ORPHAN: Duration = Duration::from_secs(5);
/// Addresses that one handshake tries.
const ADDRESSES_MAX: usize = 4;

pub(crate) struct Node {
    core: Worker,
    who: Arc<Identity>,
    sessions: Sessions,
    sockets: Sockets,
    slots: Vec<Slot>,
    board: Arc<Board>,
    bulk: Bulk,
    /// None where nobody is to see what this node does.
    orders: Option<Orders>,
    state: State,
    inbox: Receiver<Event>,
    to_inbox: Sender<Event>,
    start: Instant,
    house_at: Instant,
    /// The scheduler's incarnation in the newest session.
    epoch: Option<Epoch>,
    /// The scheduler has a session with us and has not welcomed us in it.
    joining: Option<SocketAddr>,
    addresses: Addresses,
    /// The handshake under way only renews keys: the core need not know.
    renewing: bool,
    /// How often a person wants new keys, and since when there are these.
    rekey: Option<(Duration, Instant)>,
    /// When the worker tells of itself, where a person wants that.
    tell_at: Option<Instant>,
    mention_at: Option<Instant>,
    /// Why the scheduler wants us later, as it was said.
    put_off: String,
    mention_wait: Duration,
    /// A person or the parent wants the end: the next such word wants it now.
    told_to_stop: bool,
    /// Set when the parent has gone.
    kill_at: Option<Instant>,
    /// Set by the second signal.
    stop_by: Option<Instant>,
    drained: bool,
    _warden: Option<Warden>,
    deeds: Vec<Deed>,
    opened: Vec<u8>,
}

impl Node {
    /// Reads what is on disk, opens a socket, starts the threads.
    pub(crate) fn start(options: &Options) -> Result<Self, WorkerError> {
        let (limits, name, agents) = (options.limits()?, options.node_name()?, options.agents()?);
        let join = read_join_file(options.join()?)?;
        let addresses = Addresses::new(options.join()?, &join);
        starts();
        let state = State::open(&options.state_dir(&name)?, join.farm)?;
        let random = || getrandom::u64().map_err(|e| WorkerError::System(format!("no random numbers: {e}")));
        let (farm, known, boot, plain) = (join.farm, known(&state), Boot(random()?), options.no_seal);
        let who = Arc::new(Identity { key: state.key()?, join, name, boot, plain });
        let (cards, choice) = (options.cards()?, options.devices());
        let kinds = devices::chosen(choice, |devices| options.cards_of(devices), options.kernel_cache())?;
        let slots = kinds.iter().fold(options.slots(), |all, alike| all + alike.devices.len() as u16);
        let (board, died) = Board::open(&state.farm_path("running"), farm, slots, facts::machine_start())?;
        let (to_inbox, inbox) = bounded(INBOX);
        let (board, sockets) = (Arc::new(board), Sockets::new(to_inbox.clone(), plain));
        let facts = facts::read(Path::new("/"), cores());
        let config = Config {
            boot,
            slots: options.slots(),
            devices: kinds.iter().map(devices::Alike::config).collect(),
            memory_bytes: options.memory_bytes(facts.memory_bytes),
            gpus: cards.len() as u16,
            queue_tasks_max: NODE_TASKS_MAX,
            receive_datagrams_max: sockets.receive_datagrams_max().map_err(|e| no("UDP socket", &e))?,
            heartbeat_us: Settings::DEFAULT.heartbeat_us,
            seed: random()?,
            died_running: died,
            farm,
            known,
            facts: Some(facts),
            limits,
        };
        let (bulk, orders) = channels((options, agents), &who, &state)?;
        let slots = start_slots(options, (kinds, cards), &board, &bulk, &state, &to_inbox)
            .map_err(|e| no("thread", &e))?;
        listen(options, &to_inbox)?;
        let start = Instant::now();
        Ok(Self {
            core: restored(config, &state),
            who,
            sessions: Sessions::default(),
            sockets,
            slots,
            board,
            bulk,
            orders,
            state,
            inbox,
            to_inbox,
            start,
            house_at: start + HOUSEKEEPING,
            epoch: None,
            joining: None,
            addresses,
            renewing: false,
            rekey: options.rekey_seconds.map(|every| (Duration::from_secs(every), Instant::now())),
            tell_at: options.verbose.then_some(start),
            mention_at: Some(start + SILENCE),
            put_off: String::new(),
            mention_wait: SILENCE,
            told_to_stop: false,
            kill_at: None,
            stop_by: None,
            drained: false,
            _warden: post_warden(),
            deeds: Vec::new(),
            opened: vec![0; starfarm_net::BUFFER_BYTES],
        })
    }

    /// Beats until the worker has drained, is refused or is stopped; then spools what nobody acknowledged.
    pub(crate) fn run(mut self) -> Result<(), WorkerError> {
        let mut end = Ok(());
        while end.is_ok() && !self.drained {
            end = self.beat();
        }
        if end.is_err() {
            self.wind_down();
        } else {
            // At a deadline it goes although programs run: no unit is to blame for that, and the warden ends them.
            let left: Vec<u16> = self.board.running().map(|(slot, ..)| slot).collect();
            left.into_iter().for_each(|slot| self.board.end(slot));
        }
        let written = self.state.write_spool(&self.core.unacknowledged());
        end.and(written)
    }

    /// Ends what runs, and waits for it: a worker that is refused leaves no program behind. What is
    /// reported meanwhile still goes into the spool.
    fn wind_down(&mut self) {
        self.tell(Worker::drain);
        self.slots.iter().for_each(|slot| slot.cancel(Cancel::Forced));
        let by = self.stop_by.unwrap_or(Instant::now() + STOP);
        while self.core.idle_slots() < self.slots.len() {
            self.deeds.clear();
            match self.inbox.recv_deadline(by) {
                Ok(Event::Slot { slot, news }) => self.on_news(slot, news),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn beat(&mut self) -> Result<(), WorkerError> {
        let deadline = (self.start + Duration::from_micros(self.core.next_deadline())).min(self.house_at);
        // This thread has a sender itself: without an event it is the time that is over.
        if let Ok(event) = self.inbox.recv_deadline(deadline) {
            self.on_event(event)?;
        }
        for _ in 1..BEAT {
            let Ok(event) = self.inbox.try_recv() else { break };
            self.on_event(event)?;
        }
        if self.core.next_deadline() <= self.now_us() {
            self.core.on_none_running();
            for (slot, job, unit) in self.board.running() {
                self.core.on_running(slot, job, unit);
            }
            self.tell(Worker::on_tick);
        }
        self.perform()?;
        self.keep_house()?;
        self.sockets.flush();
        if self.stop_by.is_some_and(|by| self.core.idle_slots() == self.slots.len() || by <= Instant::now()) {
            return Err(WorkerError::Interrupted);
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), WorkerError> {
        match event {
            Event::Datagrams(batch) => self.on_datagrams(&batch)?,
            Event::Slot { slot, news } => self.on_news(slot, news),
            Event::Device { slot, state } => {
                self.tell(|core, now, deeds| core.on_device(slot, state, now, deeds));
            }
            Event::Cards(figures) => self.core.on_cards(figures),
            Event::Addresses { found, unknown } => {
                if let Some(words) = self.addresses.found(&found, &unknown) {
                    say(&words);
                }
                self.shake_hands(&found)?;
            }
            Event::Stop => self.on_stop(),
            Event::ParentGone => {
                self.told_to_stop = true;
                self.tell(Worker::drain);
                self.kill_at = Some(Instant::now() + ORPHAN);
            }
            Event::Nothing => {}
        }
        Ok(())
    }

    fn on_news(&mut self, slot: u16, news: Vec<News>) {
        self.tell(|core, now, deeds| {
            for item in news {
                match item {
                    News::Part(part) => core.on_part(slot, part, now, deeds),
                    News::End(attempt) => core.on_task_end(slot, attempt, now, deeds),
                }
            }
        });
    }

    fn on_stop(&mut self) {
        if !std::mem::replace(&mut self.told_to_stop, true) {
            say("draining: running units end, then their results are delivered (once more to stop at once)");
            self.tell(Worker::drain);
        } else {
            self.stop_now();
        }
    }

    fn stop_now(&mut self) {
        if self.stop_by.is_none() {
            self.stop_by = Some(Instant::now() + STOP);
            self.slots.iter().for_each(|slot| slot.cancel(Cancel::Forced));
        }
    }

    fn on_datagrams(&mut self, batch: &[(Vec<u8>, SocketAddr)]) -> Result<(), WorkerError> {
        let mut opened = std::mem::take(&mut self.opened);
        let mut result = Ok(());
        for &(ref datagram, from) in batch {
            let now_us = self.now_us();
            match self.sessions.hear(&self.who, datagram, from, now_us, &mut opened) {
                Heard::Message { bytes, epoch } => {
                    self.bulk.heard();
                    self.tell(|core, now, deeds| core.on_datagram(&opened[..bytes], epoch, now, deeds));
                }
                Heard::Probe(answer) => self.send(&answer),
                Heard::Up(epoch) => self.on_up(epoch, from),
                Heard::NoSession => self.core.on_no_session(now_us),
                Heard::Again(initiation) => self.send_clear(from, &initiation),
                Heard::NotYet(why) => self.not_yet(&why),
                Heard::Refused(why) => result = Err(WorkerError::Refused(why)),
                Heard::Nothing => {}
            }
        }
        self.opened = opened;
        let newest = self.core.newest_orders();
        self.orders.iter_mut().for_each(|orders| orders.on_bell(newest));
        if self.core.is_welcomed()
            && let Some(from) = self.joining.take()
        {
            self.orders.iter().for_each(|orders| orders.on_session(from));
            let (who, slots) = (&self.who, self.slots.len());
            say(&format!("node `{}` with {slots} slots joined farm {} at {from}", who.name, who.join.farm));
        }
        result
    }

    /// The scheduler answers, so nobody is told that it does not; why it wants us later is said once.
    fn not_yet(&mut self, why: &str) {
        self.mention_at = None;
        if self.put_off != why {
            say(why);
            why.clone_into(&mut self.put_off);
        }
    }

    fn on_up(&mut self, epoch: Epoch, from: SocketAddr) {
        let same = self.epoch.replace(epoch) == Some(epoch);
        let renewed = std::mem::take(&mut self.renewing) && same && self.core.is_welcomed();
        self.bulk.set_scheduler(from, !renewed);
        if !renewed {
            self.joining = Some(from);
        }
        if let Some((_, at)) = &mut self.rekey {
            *at = Instant::now();
        }
        // A hello opens every session, also one that only brings new keys.
        self.mention_at = None;
        self.mention_wait = SILENCE;
        self.tell(Worker::on_session);
    }

    /// Tells the core something; its deeds wait for the end of the beat.
    fn tell(&mut self, event: impl FnOnce(&mut Worker, u64, &mut Vec<Deed>)) {
        let now_us = self.now_us();
        event(&mut self.core, now_us, &mut self.deeds);
    }

    fn perform(&mut self) -> Result<(), WorkerError> {
        for deed in std::mem::take(&mut self.deeds) {
            match deed {
                Deed::Send(plain) => self.send(&plain),
                Deed::Start { slot, tasks, cards } => {
                    self.slots[usize::from(slot)].run(tasks, cards).map_err(|e| no("file descriptor", &e))?;
                }
                Deed::Cancel { slot, how, .. } => self.slots[usize::from(slot)].cancel(how),
                Deed::Handshake => {
                    self.renewing = false;
                    self.mention_at.get_or_insert(Instant::now() + self.mention_wait);
                    self.resolve()?;
                }
                Deed::Remember(known) => {
                    // The worker goes on without: it only knows less after its next start.
                    if let Err(error) = self.state.write_known(known) {
                        say(&error.to_string());
                    }
                }
                Deed::Say(words) => say(&words),
                Deed::Refused(why) => return Err(WorkerError::Refused(why)),
                Deed::Drained => self.drained = true,
            }
        }
        Ok(())
    }

    fn send(&mut self, plain: &[u8]) {
        let sockets = &mut self.sockets;
        self.sessions.send(plain, |sealer, to, piece| push(sockets, sealer, to, piece));
    }

    fn send_clear(&mut self, to: SocketAddr, datagram: &[u8]) {
        if let Ok(sender) = self.sockets.to(to) {
            sender.push(to, |out| {
                out.get_mut(..datagram.len())?.copy_from_slice(datagram);
                Some(datagram.len())
            });
        }
    }

    /// Finds the scheduler's addresses, anew each time.
    fn resolve(&mut self) -> Result<(), WorkerError> {
        if let Some(words) = self.addresses.read_again(&self.who.join) {
            say(&words);
        }
        let addresses = self.addresses.look_up(&self.to_inbox);
        addresses.map_or(Ok(()), |addresses| self.shake_hands(&addresses))
    }

    fn shake_hands(&mut self, addresses: &[SocketAddr]) -> Result<(), WorkerError> {
        if let Some(far) = addresses.iter().find(|to| self.who.plain && !to.ip().is_loopback()) {
            return Err(WorkerError::Usage(format!(
                "--no-seal works on loopback only, and {far} is another machine: start without it"
            )));
        }
        for &to in addresses.iter().take(ADDRESSES_MAX) {
            if let Ok(initiation) = self.sessions.initiate(&self.who, self.now_us()) {
                self.send_clear(to, &initiation);
            }
        }
        Ok(())
    }

    fn keep_house(&mut self) -> Result<(), WorkerError> {
        let now = Instant::now();
        if now < self.house_at {
            return Ok(());
        }
        self.house_at = now + HOUSEKEEPING;
        if self.kill_at.is_some_and(|at| at <= now) {
            self.stop_now();
        }
        self.look_after_the_way();
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_at = Some(now + Duration::from_micros(self.core.pace().period_us()));
            let look = self.core.look(self.now_us());
            say(&verbose::line(self.core.facts(), &look));
        }
        let asked = self.rekey.is_some_and(|(every, at)| at.elapsed() >= every);
        if (asked || self.sessions.needs_rekey(self.now_us()))
            && let Some((_, to)) = self.sessions.current()
        {
            self.renewing = true;
            self.shake_hands(&[to])?;
        }
        if self.mention_at.is_some_and(|at| at <= now) {
            self.mention_wait *= 2;
            self.mention_at = Some(now + self.mention_wait);
            let addresses = self.addresses.text();
            say(&format!(
                "the scheduler at {addresses} does not answer; still trying (does it run there, and is the join \
                 file its own?)"
            ));
        }
        Ok(())
    }

    /// How datagrams and the bulk channel get through.
    fn look_after_the_way(&mut self) {
        let news = [self.bulk.take_news(), self.sessions.news()];
        news.iter().flatten().for_each(|words| say(words));
        let probe = self.sessions.probe(self.now_us());
        if let (Some(probe), Some((sealer, to))) = (probe, self.sessions.current()) {
            push(&mut self.sockets, sealer, to, &probe);
        }
        self.core.on_bulk_opened(self.bulk.recoveries());
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// What cannot be sent is lost, as the network loses others: whatever matters is repeated.
fn push(sockets: &mut Sockets, sealer: &Sealer, to: SocketAddr, plain: &[u8]) {
    if let Ok(sender) = sockets.to(to) {
        sender.push(to, |out| sealer.seal(plain, out).ok());
    }
}

/// The ways to the scheduler beside datagrams.
fn channels(
    (options, agents): (&Options, Agents),
    who: &Arc<Identity>,
    state: &State,
) -> Result<(Bulk, Option<Orders>), WorkerError> {
    let bulk = Bulk::start(Arc::clone(who)).map_err(|e| no("thread", &e))?;
    let ways = Ways::of(options, agents, (who.join.farm, &who.name), state);
    let orders = (!options.no_monitor).then(|| Orders::start(Arc::clone(who), ways));
    Ok((bulk, orders.transpose().map_err(|e| no("thread", &e))?))
}

/// What comes from elsewhere than the scheduler: signals, the end of the parent.
fn listen(options: &Options, inbox: &Sender<Event>) -> Result<(), WorkerError> {
    stop::on_signals(inbox.clone())?;
    options.parent_pipe.then(|| stop::on_parents_end(inbox.clone())).transpose().map(drop)
}

/// Who ends this worker's programs if it is killed.
fn post_warden() -> Option<Warden> {
    if let Err(error) = starfarm_exec::become_subreaper() {
        say(&format!("programs that leave their process group will not be ended: {error}"));
    }
    let warden = Warden::post();
    warden.map_err(|error| say(&format!("programs will outlive this worker if it is killed: {error}"))).ok()
}

/// The core, with what an earlier incarnation could not deliver.
fn restored(config: Config, state: &State) -> Worker {
    let mut core = Worker::new(config, 0);
    match state.spool().map(|spool| core.restore(&spool)) {
        None | Some(Ok(0)) => {}
        Some(Ok(results)) => say(&format!("{results} results of the last run will be delivered")),
        Some(Err(why)) => say(&format!("the spool of the last run is not used: {why}")),
    }
    core
}

/// The newest incarnation of the scheduler that an earlier incarnation of this worker believed.
fn known(state: &State) -> Known {
    state.known().unwrap_or_else(|why| {
        say(&why);
        Known::NONE
    })
}
