//! A node as the scheduler knows it: how fast it is, when it was heard, what it said of itself, what it must still be
//! told. Which tasks it has is known to the queues, whether it can be counted on is its health.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_events::Name;
use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::reason::QuarantineReason;
use starfarm_protocol::resources::{Resource, Resources};
use starfarm_protocol::rto::Rto;
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::{Cancel, Card, CardFigures, Facts, Revoke};

use crate::allowance::Allowances;
use crate::commits::add_range;
use crate::filling::{DevicesAt, Filling};
use crate::health::{Health, Standing};
use crate::limits::{
    GIVEN_BACK_AGAIN, GIVEN_BACK_MAX, GIVEN_BACK_WEIGHT, PREFETCH_SCARCE_US, PREFETCH_TASKS_MIN, PREFETCH_US,
    RTO_INITIAL_US,
};
use crate::pieces::Pieces;
use crate::rating::Rating;
use crate::told::Told;

/// How much work a node may hold beside what it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
    /// No more than a task a slot: a run may take so long to start that waiting for the network is nothing.
    Nothing,
    /// No more than keeps its slots from waiting: the size of its tasks is still being learnt.
    Least,
    /// Little: so little is left to do that what it holds others will miss.
    Scarce,
    /// A minute's work, so that a scheduler which is away stops nobody.
    Full,
}

/// How many tasks a node may hold, and what that comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Window {
    /// Tasks that it may hold.
    pub(crate) tasks: usize,
    /// Tasks a slot.
    pub(crate) a_slot: u64,
    /// What speed-ups and slow-downs add; below 0 they take away.
    pub(crate) steps: i64,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: Name,
    /// Changed by [`crate::nodes::Nodes::alter`] alone, which counts what follows from it.
    pub(super) health: Health,
    /// Likewise.
    pub(super) slots: u16,
    /// What runs may take there beside slots, as it told; nothing before.
    pub(crate) beside_slots: Resources,
    /// Slots that are among those which the farm counts on.
    pub(super) counted: u16,
    /// Likewise of its devices.
    pub(super) counted_devices: u16,
    /// It waits in the dirty set.
    pub(super) is_dirty: bool,
    /// When the farm looks at it next, if nothing comes before.
    pub(super) timer_us: u64,

    pub(crate) queue_tasks_max: u32,
    pub(crate) receive_datagrams_max: u16,
    pub(crate) joined_us: u64,
    pub(crate) heard_us: u64,
    /// It is known from before the scheduler's start and was not heard since. When it was heard before that is in
    /// no record.
    pub(crate) restored: bool,
    pub(crate) rtt: RoundTrip,

    /// Its incarnation has not said in a whole heartbeat what it holds of that: what it lists until then it may report.
    pub(crate) may_claim: bool,
    /// Units of each job that its incarnation claimed as given by an earlier scheduler.
    pub(crate) claimed: BTreeMap<JobId, u128>,
    /// Units of each job that it listed while it could claim, likewise.
    pub(crate) listed: BTreeMap<JobId, u128>,
    /// Results that cannot count, those that did since taken off.
    pub(crate) worthless: u32,
    /// What it has done in the midst of what it had.
    pub(crate) pieces: Pieces,
    /// What went back to gq when it was lost: if it still holds that when it is heard again, it keeps it.
    pub(crate) taken: Vec<(JobId, Interval)>,
    /// How many units that were.
    pub(crate) units_taken: u128,
    /// Units that its last heartbeat named as running.
    pub(crate) running: Vec<(JobId, u128)>,
    /// The same, each with since when it is named.
    pub(crate) runs: BTreeMap<(JobId, u128), Run>,
    /// How many parts its heartbeats have, and those of them that came since all had come.
    pub(crate) beat: (u16, BTreeSet<u16>),
    /// When they last had all come, or were taken to have; before the first time when it was greeted or came back.
    pub(crate) whole_us: Option<u64>,
    /// Units that incarnations of it were running when they died, as far as that still counts: what is taken back
    /// if they did not.
    pub(crate) charged: Vec<(JobId, u128, Boot)>,
    pub(crate) queued_tasks: u32,
    /// What its machine is, once it has told.
    pub(crate) facts: Option<Facts>,
    /// How often this incarnation became able to run what it had refused, as it told last.
    pub(crate) able: u32,
    /// Before this what it tells of that is not heeded.
    pub(crate) able_us: u64,
    /// Load of each slot in thousandths, or the mean of many slots, as it told last; empty before that.
    pub(crate) load: Vec<u16>,
    /// How its cards do, as it told last.
    pub(crate) cards: Vec<CardFigures>,
    /// How long no slot of it had run anything then.
    pub(crate) idle_us: u64,
    /// Until when its incarnation stays, where that has an end.
    pub(crate) stay: Option<Stay>,
    /// How full its cores are kept.
    pub(crate) cores: Filling,
    /// Its devices, by kind. Changed by [`crate::nodes::Nodes::set_devices`] alone.
    pub(super) devices: Vec<DevicesAt>,
    /// Attempts before this one were revoked from it, of whatever job: it gives them back when it is asked.
    pub(crate) revoked: Attempt,
    pub(crate) given_back: GivenBack,
    pub(crate) rating: Rating,
    /// What it may have the farm do. Another incarnation has no more.
    pub(crate) allowances: Allowances,

    pub(crate) to_tell: ToTell,
    pub(crate) totals: NodeTotals,
    /// The number of its newest orders, which it hears elsewhere; 0: there are none.
    pub(crate) orders: u64,
    /// What watchers were told of it.
    pub(crate) told: Told,
}

/// Counters of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NodeTotals {
    /// Tasks whose last unit it computed.
    pub(crate) tasks_done: u64,
    /// Units that were counted from it.
    pub(crate) units_done: u128,
    /// Offers repeated.
    pub(crate) offers_repeated: u64,
    /// Datagrams that broke the rules.
    pub(crate) malformed: u64,
    /// Results that cannot count.
    pub(crate) worthless: u64,
    /// Speed-ups heard.
    pub(crate) speed_ups: u64,
    /// Slow-downs heard.
    pub(crate) slow_downs: u64,
}

/// What a node gave back although nobody had asked for it. A worker that stops does so as well, and says a moment later
/// that it stops: so what it gave back is held against it when it goes on living after that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenBack {
    /// [`GIVEN_BACK_WEIGHT`] each, less one for each result that it computed.
    weight: u32,
    /// How many that were, since it got work again.
    pub(crate) tasks: u32,
    /// It was found to give too much back, and has computed nothing since.
    is_told: bool,
    /// Of the weight, what was there at the last heartbeat but one, and at the last.
    at_beats: [u32; 2],
}

impl GivenBack {
    const MOST: u32 = GIVEN_BACK_MAX * GIVEN_BACK_WEIGHT;

    /// It gave something back.
    pub(crate) fn add(&mut self) {
        self.weight = (self.weight + GIVEN_BACK_WEIGHT).min(2 * Self::MOST);
        self.tasks = self.tasks.saturating_add(1);
    }

    /// It computed something. Where it was found out, that gives it work again, and less is enough the next time.
    pub(crate) fn did(&mut self) {
        self.weight = self.weight.saturating_sub(1);
        if std::mem::take(&mut self.is_told) {
            self.weight = self.weight.min(Self::MOST - GIVEN_BACK_AGAIN * GIVEN_BACK_WEIGHT);
            self.tasks = 0;
        }
    }

    /// Whether it gives too much back, as far as its heartbeats have left time to say that it stops.
    pub(crate) fn is_too_much(&mut self) -> bool {
        let [before, last] = self.at_beats;
        self.at_beats = [last, self.weight];
        self.is_told |= before.min(self.weight) >= Self::MOST;
        self.is_told
    }
}

/// Until when a node stays that leaves by itself, by the farm's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stay {
    /// Until then it takes tasks, which should be over by then.
    pub(crate) works_us: u64,
    /// Then it has gone.
    pub(crate) ends_us: u64,
}

/// A unit that a slot runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// When a heartbeat named it first.
    pub(crate) since_us: u64,
    /// It was told that it hangs.
    pub(crate) told: bool,
}

/// What rides on the next datagram.
#[derive(Debug, Default)]
pub(crate) struct ToTell {
    pub(crate) welcome: bool,
    /// There are new orders.
    pub(crate) ring: bool,
    pub(crate) answer: Option<u32>,
    pub(crate) acks: Vec<(u64, u64)>,
    pub(crate) acks_count: usize,
    /// The oldest acknowledgement waits since then.
    pub(crate) acks_since_us: u64,
    /// The first attempt that is not revoked, by job and how.
    pub(crate) revokes: BTreeMap<(JobId, bool), Attempt>,
}

impl ToTell {
    /// Results are acknowledged.
    pub(crate) fn ack(&mut self, (first, last): (u64, u64), now_us: u64) {
        assert!(first <= last && self.acks.is_empty() == (self.acks_count == 0), "each range is counted");
        if self.acks.is_empty() {
            self.acks_since_us = now_us;
        }
        self.acks_count += (last - first) as usize + 1;
        add_range(&mut self.acks, (first, last));
    }

    /// Attempts are revoked; said once.
    pub(crate) fn revoke(&mut self, Revoke { job, cancel, before }: Revoke) {
        let known = self.revokes.entry((job, cancel == Cancel::Forced)).or_insert(before);
        *known = before.max(*known);
    }

    /// What is revoked.
    pub(crate) fn revokes(&self) -> impl ExactSizeIterator<Item = Revoke> {
        self.revokes.iter().map(|(&(job, forced), &before)| {
            let cancel = if forced { Cancel::Forced } else { Cancel::Graceful };
            Revoke { job, cancel, before }
        })
    }
}

impl Node {
    /// One that is heard of, and what is held against it.
    pub(crate) fn new(name: Name, standing: Standing, now_us: u64) -> Self {
        Self {
            name,
            health: Health { standing, ..Health::NEW },
            slots: 0,
            beside_slots: Resources::NONE,
            counted: 0,
            counted_devices: 0,
            is_dirty: false,
            timer_us: u64::MAX,
            queue_tasks_max: 0,
            receive_datagrams_max: 0,
            joined_us: now_us,
            heard_us: now_us,
            restored: false,
            rtt: RoundTrip::default(),
            may_claim: false,
            claimed: BTreeMap::new(),
            listed: BTreeMap::new(),
            worthless: 0,
            pieces: Pieces::default(),
            taken: Vec::new(),
            units_taken: 0,
            running: Vec::new(),
            runs: BTreeMap::new(),
            beat: (0, BTreeSet::new()),
            whole_us: None,
            charged: Vec::new(),
            queued_tasks: 0,
            facts: None,
            able: 0,
            able_us: 0,
            load: Vec::new(),
            cards: Vec::new(),
            idle_us: 0,
            stay: None,
            cores: Filling::new(),
            devices: Vec::new(),
            revoked: Attempt(0),
            given_back: GivenBack::default(),
            // Its first hello begins another.
            rating: Rating::new(now_us, Settings::DEFAULT.period_us),
            allowances: Allowances::new(now_us),
            to_tell: ToTell::default(),
            orders: 0,
            totals: NodeTotals::default(),
            told: Told::default(),
        }
    }

    /// Whether it can be counted on.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) fn slots(&self) -> u16 {
        self.slots
    }

    /// What runs may take there together.
    pub(crate) fn has(&self) -> Resources {
        self.beside_slots.with(Resource::Slots, self.slots.into())
    }

    /// The devices of a kind.
    pub(crate) fn devices(&self, kind: SlotKind) -> Option<&DevicesAt> {
        self.devices.iter().find(|devices| devices.kind() == kind)
    }

    /// All its devices, by kind.
    pub(crate) fn all_devices(&self) -> &[DevicesAt] {
        &self.devices
    }

    /// The kinds of its slots.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = SlotKind> + use<'_> {
        std::iter::once(SlotKind::CORES).chain(self.devices.iter().map(DevicesAt::kind))
    }

    /// Its slots of a kind that can be used.
    pub(crate) fn slots_of(&self, kind: SlotKind) -> u16 {
        match kind.is_device() {
            true => self.devices(kind).map_or(0, |devices| devices.told.usable()),
            false => self.slots,
        }
    }

    /// Its slots of all kinds that can be used.
    pub(crate) fn all_slots(&self) -> u16 {
        self.kinds().map(|kind| self.slots_of(kind)).fold(0, u16::saturating_add)
    }

    /// What runs may take there together on slots of a kind.
    pub(crate) fn has_of(&self, kind: SlotKind) -> Resources {
        match kind.is_device() {
            true => Resources::new(self.slots_of(kind), 0),
            false => self.has(),
        }
    }

    /// How full its slots of a kind are kept.
    pub(crate) fn filling(&self, kind: SlotKind) -> Filling {
        match kind.is_device() {
            true => self.devices(kind).map_or(Filling::unknown(), |devices| devices.filling),
            false => self.cores,
        }
    }

    /// See [`Node::filling`]; none of devices that are not there any more.
    pub(crate) fn filling_mut(&mut self, kind: SlotKind) -> Option<&mut Filling> {
        match kind.is_device() {
            true => self.devices.iter_mut().find(|at| at.kind() == kind).map(|at| &mut at.filling),
            false => Some(&mut self.cores),
        }
    }

    /// Its slots are among those that the farm counts on.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted > 0
    }

    /// Another incarnation of it begins: what was measured, said and numbered was the one before.
    pub(crate) fn begin(&mut self, period_us: u64, now_us: u64) {
        // Numbers of the incarnation before mean other results here.
        (self.to_tell.acks, self.to_tell.acks_count) = (Vec::new(), 0);
        self.taken.clear();
        (self.claimed, self.listed) = Default::default();
        (self.beat, self.whole_us) = ((0, BTreeSet::new()), Some(now_us));
        (self.cores, self.able) = (Filling::new(), 0);
        (self.given_back, self.worthless, self.stay) = Default::default();
        self.cards.clear();
        self.beside_slots = Resources::NONE;
        self.rating = Rating::new(now_us, period_us);
    }

    /// It tells how one of its cards does.
    pub(crate) fn on_card(&mut self, card: Card) {
        self.cards.resize_with(usize::from(card.count), CardFigures::default);
        self.cards[usize::from(card.number)] = card.figures;
    }

    /// What it said of itself is over.
    pub(crate) fn silence(&mut self) {
        (self.queued_tasks, self.load, self.idle_us, self.units_taken) = (0, Vec::new(), 0, 0);
        self.runs.clear();
    }

    /// Tasks that its slots of a kind may hold now, if the next ones take `next_us` there (0: nobody knows). What they did
    /// so far alone says little where sizes still grow.
    pub(crate) fn window(&self, kind: SlotKind, now_us: u64, next_us: f64, ahead: Ahead) -> Window {
        if !self.health.takes_tasks() {
            let probe = self.health.standing.probe().filter(|probe| now_us >= probe.at_us);
            let is_probed = probe.is_some() && self.health.is_probation();
            return Window { tasks: usize::from(is_probed), ..Window::default() };
        }
        let ahead_us = match ahead {
            Ahead::Nothing | Ahead::Least => 0,
            _ if next_us <= 0.0 => 0,
            Ahead::Scarce => PREFETCH_SCARCE_US,
            Ahead::Full => PREFETCH_US,
        };
        let least = if ahead == Ahead::Nothing { 1 } else { PREFETCH_TASKS_MIN };
        let filling = self.filling(kind);
        let a_slot = least.max((ahead_us as f64 / filling.task_us.max(next_us).max(1.0)) as u64);
        let slots = i64::from(self.slots_of(kind));
        if slots == 0 {
            return Window::default();
        }
        let base = slots.saturating_mul(a_slot.min(1 << 32) as i64);
        // Requests add up while a worker waits for its first large tasks. Beyond twice the base they would make
        // it hoard: by steps of 36 tasks of a minute each, hours of work.
        let steps = if ahead == Ahead::Full { filling.steps.min(base) } else { filling.steps.min(0) };
        let least = if ahead == Ahead::Nothing { slots } else { slots + 1 };
        let tasks = (base + steps).clamp(least, i64::from(self.queue_tasks_max).max(slots + 1));
        Window { tasks: tasks as usize, a_slot, steps }
    }

    /// Tasks that wait there, as its worker told last.
    pub(crate) fn queued(&self) -> u64 {
        let at_devices = self.devices.iter().map(|at| u64::from(at.told.queued_tasks));
        at_devices.fold(self.queued_tasks.into(), u64::saturating_add)
    }

    /// Load of each device, likewise, kind by kind.
    pub(crate) fn device_loads(&self) -> Vec<u64> {
        self.devices.iter().flat_map(|at| &at.told.slots).map(|(_, load)| u64::from(*load)).collect()
    }

    /// Load of each slot, as its worker told last.
    pub(crate) fn loads(&self) -> Vec<u64> {
        self.load.iter().copied().map(u64::from).collect()
    }

    /// Why it is quarantined; none where it is not, or only let tasks vanish.
    pub(crate) fn why(&self) -> Option<QuarantineReason> {
        self.health.standing.why()
    }
}

/// When to repeat offers; loss drives this alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    rto: Rto,
    back_off: u32,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { rto: Rto::new(RTO_INITIAL_US), back_off: 0 }
    }
}

impl RoundTrip {
    /// An offer that was sent once was acknowledged after `sample_us` (Karn's rule is the caller's).
    pub(crate) fn sample(&mut self, sample_us: u64) {
        self.rto.sample(sample_us);
    }

    /// Nothing came back in time.
    pub(crate) fn timed_out(&mut self) {
        self.back_off += 1;
    }

    /// An acknowledgement came, if only for a repeat.
    pub(crate) fn heard(&mut self) {
        self.back_off = 0;
    }

    /// How long an offer waits for its acknowledgement.
    pub(crate) fn rto_us(&self) -> u64 {
        self.rto.wait_us(self.back_off)
    }
}
