//! A node as the scheduler knows it: what it holds, how fast it is, when it was heard, what it must still
//! be told. The decisions about it are made elsewhere; here is what is true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use starfarm_events::Name;
pub use starfarm_events::NodeState;
use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::rto::Rto;
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::{Facts, Feedback, Revoke};

use crate::limits::{
    PREFETCH_SCARCE_US, PREFETCH_TASKS_MIN, PREFETCH_US, PROBE_MAX_US, PROBE_MIN_US, RTO_INITIAL_US,
};
use crate::rating::Rating;
use crate::task::TaskId;

/// How much work a node may hold beside what it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ahead {
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

/// A node at power zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// When it may get its next task.
    pub(crate) at_us: u64,
    /// The pause before that.
    pub(crate) pause_us: u64,
}

impl Probe {
    /// The first one, after the shortest pause.
    pub(crate) fn first(now_us: u64) -> Self {
        Self { at_us: now_us + PROBE_MIN_US, pause_us: PROBE_MIN_US }
    }

    /// It got a task: the next one goes out after a longer pause.
    pub(crate) fn given(self, now_us: u64) -> Self {
        let pause_us = self.next_pause_us();
        Self { at_us: now_us + pause_us, pause_us }
    }

    /// The pause after the next task.
    pub(crate) fn next_pause_us(&self) -> u64 {
        (2 * self.pause_us).min(PROBE_MAX_US)
    }
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: Name,
    pub(crate) boot: Option<Boot>,
    pub(crate) slots: u16,
    /// Slots that are among those which the farm counts on.
    pub(crate) counted: u16,
    pub(crate) queue_tasks_max: u32,
    pub(crate) receive_datagrams_max: u16,
    pub(crate) joined_us: u64,
    pub(crate) heard_us: u64,
    /// The node said hello in its newest session. Before that it is told nothing: whether its worker is
    /// still the incarnation that we know is not known.
    pub(crate) greeted: bool,
    pub(crate) suspect: bool,
    pub(crate) lost: bool,
    /// Its worker wants to leave.
    pub(crate) draining: bool,
    /// A person drains it.
    pub(crate) drained: bool,
    pub(crate) probe: Option<Probe>,
    /// It sank because it fails what others pass, in this job; not because it is slow.
    pub(crate) sick: Option<JobId>,
    /// Its results are not trusted until a person says so, and why.
    pub(crate) distrusted: Option<&'static str>,
    /// Why it is quarantined, for a person.
    pub(crate) why: String,
    /// It is known from before the scheduler's start and was not heard since. When it was heard before that is in
    /// no record.
    pub(crate) restored: bool,
    /// The incarnation that said goodbye, or whose key was revoked.
    pub(crate) left: Option<Boot>,
    /// Its key was revoked.
    pub(crate) revoked: bool,

    /// Tasks of dq that it has, in no order; each knows its place here.
    pub(crate) tasks: Vec<TaskId>,
    /// Tasks that it has beyond `tasks`. Heartbeats join neighbours: what a node was found to hold after our start
    /// is one task here and may be many there.
    pub(crate) joined_tasks: usize,
    /// NodeQueue: given to it, not yet sent.
    pub(crate) queue: VecDeque<(TaskId, Attempt)>,
    /// Offers that it has not acknowledged, by attempt.
    pub(crate) offered: VecDeque<Offered>,
    /// When the latest of the offers left that it has acknowledged.
    pub(crate) landed_sent_us: u64,
    pub(crate) rtt: RoundTrip,

    /// What went back to gq when it was lost: if it still holds that when it is heard again, it keeps it.
    pub(crate) taken: Vec<(JobId, u128, u128)>,
    /// How many units that were.
    pub(crate) units_taken: u128,
    /// Units that its last heartbeat named as running.
    pub(crate) running: Vec<(JobId, u128)>,
    /// The same, each with since when it is named.
    pub(crate) runs: BTreeMap<(JobId, u128), Run>,
    /// How many parts its heartbeats have, and those of them that came since all had come.
    pub(crate) beat: (u16, BTreeSet<u16>),
    /// Units that incarnations of it were running when they died, as far as that still counts: what is taken back
    /// if they did not.
    pub(crate) charged: Vec<(JobId, u128, Boot)>,
    pub(crate) queued_tasks: u32,
    /// When it was given a task last.
    pub(crate) given_us: u64,
    /// What its machine is, once it has told.
    pub(crate) facts: Option<Facts>,
    /// How often this incarnation became able to run what it had refused, as it told last.
    pub(crate) able: u32,
    /// Load of each slot in thousandths, or the mean of many slots, as it told last; empty before that.
    pub(crate) load: Vec<u16>,
    /// How long no slot of it had run anything then.
    pub(crate) idle_us: u64,
    /// Totals of speed-ups and slow-downs as heard last; none where they count from before our start.
    pub(crate) feedback: Option<Feedback>,
    /// What speed-ups and slow-downs moved the window by, in tasks.
    pub(crate) steps: i64,
    /// Mean computing time of its tasks.
    pub(crate) task_us: f64,
    pub(crate) rating: Rating,

    pub(crate) to_tell: ToTell,
    /// It waits in the list of nodes to look at in this turn.
    pub(crate) marked: bool,
    /// When the farm looks at it next, if nothing comes before.
    pub(crate) timer_us: u64,
    pub(crate) totals: NodeTotals,
    /// What watchers were told of it.
    pub(crate) told: crate::watch::Told,
}

/// Counters of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeTotals {
    /// Tasks whose last unit it computed.
    pub tasks_done: u64,
    /// Units that were counted from it.
    pub units_done: u128,
    /// Offers repeated.
    pub offers_repeated: u64,
    /// Datagrams that broke the rules.
    pub malformed: u64,
    /// Speed-ups heard.
    pub speed_ups: u64,
    /// Slow-downs heard.
    pub slow_downs: u64,
}

/// A unit that a slot runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// When a heartbeat named it first.
    pub(crate) since_us: u64,
    /// It was told that it hangs.
    pub(crate) told: bool,
}

/// An offer under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) attempt: Attempt,
    pub(crate) task: TaskId,
    pub(crate) sent_us: u64,
    pub(crate) repeated: bool,
}

/// What rides on the next datagram.
#[derive(Debug, Default)]
pub(crate) struct ToTell {
    pub(crate) welcome: bool,
    pub(crate) answer: Option<u32>,
    pub(crate) acks: Vec<(u64, u64)>,
    pub(crate) acks_count: usize,
    /// The oldest acknowledgement waits since then.
    pub(crate) acks_since_us: u64,
    pub(crate) withdraws: Vec<Revoke>,
}

impl ToTell {
    /// A result is acknowledged.
    pub(crate) fn ack(&mut self, sequence: u64, now_us: u64) {
        if self.acks.is_empty() {
            self.acks_since_us = now_us;
        }
        self.acks_count += 1;
        match self.acks.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(sequence) => *last = sequence,
            _ => self.acks.push((sequence, sequence)),
        }
    }
}

impl Node {
    pub(crate) fn new(name: Name, now_us: u64) -> Self {
        Self {
            name,
            boot: None,
            slots: 0,
            counted: 0,
            queue_tasks_max: 0,
            receive_datagrams_max: 0,
            joined_us: now_us,
            heard_us: now_us,
            greeted: false,
            suspect: false,
            lost: false,
            draining: false,
            drained: false,
            probe: None,
            sick: None,
            distrusted: None,
            why: String::new(),
            restored: false,
            left: None,
            revoked: false,
            tasks: Vec::new(),
            joined_tasks: 0,
            queue: VecDeque::new(),
            offered: VecDeque::new(),
            landed_sent_us: 0,
            rtt: RoundTrip::default(),
            taken: Vec::new(),
            units_taken: 0,
            running: Vec::new(),
            runs: BTreeMap::new(),
            beat: (0, BTreeSet::new()),
            charged: Vec::new(),
            queued_tasks: 0,
            given_us: now_us,
            facts: None,
            able: 0,
            load: Vec::new(),
            idle_us: 0,
            feedback: Some(Feedback::default()),
            steps: 0,
            task_us: 0.0,
            // Its first hello begins another.
            rating: Rating::new(now_us, Settings::DEFAULT.period_us),
            to_tell: ToTell::default(),
            marked: false,
            timer_us: u64::MAX,
            totals: NodeTotals::default(),
            told: crate::watch::Told::default(),
        }
    }

    /// Its state, in one word.
    pub(crate) fn state(&self) -> NodeState {
        match self {
            Node { lost: true, .. } => NodeState::Lost,
            Node { boot: None, .. } | Node { suspect: true, .. } => NodeState::Suspect,
            Node { draining: true, .. } | Node { drained: true, .. } => NodeState::Draining,
            Node { probe: Some(_), .. } | Node { distrusted: Some(_), .. } => NodeState::Quarantined,
            _ => NodeState::Up,
        }
    }

    /// It is quarantined for what it failed, and for nothing else.
    pub(crate) fn is_sick(&self) -> bool {
        self.sick.is_some() && self.distrusted.is_none() && self.state() == NodeState::Quarantined
    }

    /// It can be told something.
    pub(crate) fn listens(&self) -> bool {
        self.greeted && !self.lost
    }

    /// The farm can count on its slots.
    pub(crate) fn live(&self) -> bool {
        matches!(self.state(), NodeState::Up)
    }

    /// How many tasks it has.
    pub(crate) fn tasks_held(&self) -> usize {
        self.tasks.len() + self.joined_tasks
    }

    /// Tasks that it may hold now, if the next ones take `next_us` there (0: nobody knows). What it did so
    /// far alone says little where sizes still grow.
    pub(crate) fn window(&self, now_us: u64, next_us: f64, ahead: Ahead) -> Window {
        match self.state() {
            NodeState::Up if self.greeted => {}
            NodeState::Quarantined if self.greeted && self.distrusted.is_none() => {
                let tasks = usize::from(self.probe.is_some_and(|p| now_us >= p.at_us));
                return Window { tasks, ..Window::default() };
            }
            _ => return Window::default(),
        }
        let ahead_us = match ahead {
            Ahead::Least => 0,
            _ if next_us <= 0.0 => 0,
            Ahead::Scarce => PREFETCH_SCARCE_US,
            Ahead::Full => PREFETCH_US,
        };
        let a_slot = PREFETCH_TASKS_MIN.max((ahead_us as f64 / self.task_us.max(next_us).max(1.0)) as u64);
        let slots = i64::from(self.slots);
        let base = slots.saturating_mul(a_slot.min(1 << 32) as i64);
        // Requests add up while a worker waits for its first large tasks. Beyond twice the base they would make
        // it hoard: by steps of 36 tasks of a minute each, hours of work.
        let steps = if ahead == Ahead::Full { self.steps.min(base) } else { self.steps.min(0) };
        let tasks = (base + steps).clamp(slots + 1, i64::from(self.queue_tasks_max).max(slots + 1));
        Window { tasks: tasks as usize, a_slot, steps }
    }

    /// The least that steps may move the window to, and the most, around its base.
    pub(crate) fn step(&mut self, by: i64) {
        let most = i64::from(self.queue_tasks_max);
        self.steps = (self.steps + by).clamp(-most, most);
    }

    /// Nothing that it says counts for a while: a person decides.
    pub(crate) fn distrust(&mut self, why: &'static str) {
        self.distrusted = Some(why);
        why.clone_into(&mut self.why);
    }

    /// It did something well, or a person trusts it: it rises again.
    pub(crate) fn rise(&mut self) {
        self.probe = None;
        self.sick = None;
        if self.distrusted.is_none() {
            self.why.clear();
        }
    }

    /// It did nothing for long, or cannot: it sinks to power zero. There it waits for its next probe anew.
    pub(crate) fn sink(&mut self, now_us: u64) {
        let pause_us = self.probe.map_or(PROBE_MIN_US, |probe| probe.pause_us);
        self.probe = Some(Probe { at_us: now_us + pause_us, pause_us });
    }

    /// It got a task. At power zero that is a probe: the next one goes out after a longer pause.
    pub(crate) fn probed(&mut self, now_us: u64) {
        self.probe = self.probe.map(|probe| probe.given(now_us));
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
