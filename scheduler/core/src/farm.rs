//! The farm: everything that is true on the scheduling node, and the beats of a turn. One owner calls it;
//! time comes in as `now_us`, microseconds of a monotonic clock; what is to be done comes out as deeds.
//!
//! A turn: any number of `on_*` calls, then one [`Farm::turn`], which refills gq, assigns, and packs what
//! is to be sent. The methods lie in the files of their life stage: `command` (submit ...), `refill`,
//! `dispatch`, `send`, `result`, `recover`, `unwind`; `view` answers questions and `check` doubts everything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use starfarm_protocol::ids::{Attempt, Boot, Epoch, FarmId, JobId};
use starfarm_protocol::seal::EpochProofs;
use starfarm_protocol::settings::Settings;

use crate::copies::Copying;
use crate::coverage::Piece;
use crate::deed::Deeds;
use crate::dispatch::{OpenJobs, Reach};
use crate::global_queue::GlobalQueue;
use crate::job::{Job, WorkFacts};
use crate::limits::{NODES_MAX, TASKS_A_TURN};
use crate::node::Node;
use crate::record::{Gathered, Record};
use crate::result::Verdicts;
use crate::task::{Dispatched, NodeId};
use crate::unwind::Unwinding;
use crate::watch::Watched;

/// What a farm is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The farm.
    pub farm: FarmId,
    /// This incarnation of the scheduler.
    pub epoch: Epoch,
    /// What a person chose.
    pub settings: Settings,
    /// Proofs of epochs, for workers to keep, and to tell a later epoch that a worker knows of from a lie;
    /// none where nothing is sealed.
    pub proofs: Option<EpochProofs>,
    /// Datagrams that our receive buffer holds.
    pub receive_datagrams: u32,
    /// Tasks that one turn gives out, about; it takes half as many back. 1 or more.
    pub tasks_a_turn: u64,
    /// Nodes that it may know, 2 or more: those that have gone make room for those that come.
    pub nodes_max: usize,
    /// Somebody watches: tell what pictures are made of, too.
    pub watch: bool,
}

impl Config {
    /// The defaults for `farm` in `epoch`.
    pub fn new(farm: FarmId, epoch: Epoch) -> Self {
        Self {
            farm,
            epoch,
            settings: Settings::DEFAULT,
            proofs: None,
            receive_datagrams: 3_640,
            tasks_a_turn: TASKS_A_TURN,
            nodes_max: NODES_MAX,
            watch: false,
        }
    }
}

/// Settings that the next start must know, as the last record of them says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    /// How long workers from before may be silent.
    pub(crate) lost_us: u64,
    /// The period of the ratings that a checkpoint keeps.
    pub(crate) period_us: u64,
}

impl Noted {
    /// Before the first record.
    pub(crate) const DEFAULT: Self =
        Self { lost_us: Settings::DEFAULT.lost_us, period_us: Settings::DEFAULT.period_us };
}

/// A result that waits for its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacknowledged {
    /// Everything that the result brought about is in the records up to this one.
    pub(crate) record: u64,
    pub(crate) node: NodeId,
    /// The incarnation that numbered the result.
    pub(crate) boot: Boot,
    /// Its number there.
    pub(crate) result: u64,
}

/// Counters of the farm.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// Tasks, or pieces of one, that went back to gq.
    pub resent: u64,
    /// Offers repeated.
    pub offers_repeated: u64,
    /// Tasks cut from a job's space.
    pub decomposed: u64,
    /// Units in these.
    pub decomposed_units: u128,
    /// Speed-ups and slow-downs of the running period and of the one before.
    pub feedback: [(u64, u64); 2],
}

/// Everything that is true on the scheduling node.
#[derive(Debug)]
pub struct Farm {
    pub(crate) config: Config,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// jq, with the current job at its front.
    pub(crate) jq: VecDeque<JobId>,
    pub(crate) gq: GlobalQueue,
    pub(crate) dq: Dispatched,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// Slots of all live nodes.
    pub(crate) live_slots: u64,
    pub(crate) live_nodes: u32,
    /// Nodes that are quarantined for what they failed.
    pub(crate) sick: BTreeSet<NodeId>,
    /// There is no room for more nodes, and none that could make it: when to look again.
    pub(crate) crowded_us: u64,
    pub(crate) next_job: u64,
    pub(crate) next_node: u32,
    pub(crate) next_attempt: u64,
    pub(crate) next_sequence: u64,
    /// Done intervals that are not in a record yet; none between turns.
    pub(crate) gathered: Option<Gathered>,
    /// Leases whose records are not durable: sequence, job, mark.
    pub(crate) leasing: VecDeque<(u64, JobId, u128)>,
    /// It was made from records, and had no turn yet.
    pub(crate) restored: bool,
    /// Nodes of before the start that have not said what they hold.
    pub(crate) unsettled: BTreeSet<NodeId>,
    /// When what nobody said to hold goes to gq; `u64::MAX` once it has.
    pub(crate) release_us: u64,
    pub(crate) noted: Noted,
    /// A node from before the start that was not heard since is lost after this: it may still beat as slowly as the
    /// scheduler before wanted it.
    pub(crate) unheard_us: u64,
    /// Results to acknowledge once their record is durable.
    pub(crate) unacknowledged: VecDeque<Unacknowledged>,
    /// Records up to this one are durable.
    pub(crate) durable: u64,
    /// Nodes to look at in this turn.
    pub(crate) marked: Vec<NodeId>,
    /// All nodes are among them: each command would else walk through all nodes again.
    pub(crate) all_marked: bool,
    /// Jobs that have something to give out, so that nobody goes through all of jq for one.
    pub(crate) open: OpenJobs,
    /// Nodes that had an idle slot when they were looked at last, and those that had room in their windows: they are
    /// looked at when something comes to be given out.
    pub(crate) hungry: [BTreeSet<NodeId>; 2],
    /// Something came to be given out.
    pub(crate) work_came: bool,
    pub(crate) copying: Copying,
    pub(crate) unwinding: Unwinding,
    /// Nodes that turns looked at since the start.
    pub(crate) looks: u64,
    /// The last turn had more to give out than it could.
    pub(crate) goes_on: bool,
    pub(crate) timers: BinaryHeap<Reverse<(u64, NodeId)>>,
    pub(crate) period_us: u64,
    /// When something that waits for another node may go to any; `u64::MAX` where nothing does.
    pub(crate) wake_us: u64,
    /// Jobs whose units wait while a node idles: since when, and whether that was told.
    pub(crate) still: BTreeMap<JobId, (u64, bool)>,
    /// Which incarnations died lately, by the second in which they were heard last, and whether they were so many that
    /// no unit is to blame.
    pub(crate) died_at: BTreeMap<u64, (bool, BTreeSet<(NodeId, Boot)>)>,
    pub(crate) credit_shift: u32,
    pub(crate) credit_moved_us: u64,
    /// The scheduler's disk is below its low-water mark.
    pub(crate) no_room: bool,
    pub(crate) totals: Totals,
    pub(crate) verdicts: Verdicts,
    pub(crate) watched: Watched,
    /// Ages of the results in the datagram at hand: from which sequence on, and microseconds.
    pub(crate) ages: Vec<(u64, u64)>,
    /// Scratch of `result` and `recover`.
    pub(crate) pieces: Vec<Piece>,
}

impl Farm {
    /// A farm without jobs and nodes.
    pub fn new(config: Config, now_us: u64) -> Self {
        Self {
            next_job: 1,
            next_node: 0,
            next_attempt: Attempt::before_epoch(config.epoch).0 + 1,
            gathered: None,
            leasing: VecDeque::new(),
            restored: false,
            unsettled: BTreeSet::new(),
            release_us: u64::MAX,
            noted: Noted::DEFAULT,
            unheard_us: config.settings.lost_us,
            period_us: now_us + config.settings.period_us,
            config,
            jobs: BTreeMap::new(),
            jq: VecDeque::new(),
            gq: GlobalQueue::default(),
            dq: Dispatched::default(),
            nodes: BTreeMap::new(),
            live_slots: 0,
            live_nodes: 0,
            sick: BTreeSet::new(),
            crowded_us: 0,
            next_sequence: 1,
            unacknowledged: VecDeque::new(),
            durable: 0,
            marked: Vec::new(),
            all_marked: false,
            open: OpenJobs { is_stale: true, ..OpenJobs::default() },
            hungry: Default::default(),
            work_came: false,
            copying: Copying::default(),
            unwinding: Unwinding::default(),
            looks: 0,
            goes_on: false,
            timers: BinaryHeap::new(),
            wake_us: u64::MAX,
            still: BTreeMap::new(),
            died_at: BTreeMap::new(),
            credit_shift: 0,
            credit_moved_us: now_us,
            no_room: false,
            totals: Totals::default(),
            verdicts: Verdicts::default(),
            watched: Watched::default(),
            ages: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Takes back what nobody has any more, refills gq, assigns tasks to nodes with room, and packs what is to be sent.
    pub fn turn(&mut self, now_us: u64, deeds: &mut Deeds) {
        if std::mem::take(&mut self.restored) {
            self.end_what_is_over(now_us, deeds);
        }
        self.note_settings(deeds);
        self.unwind(now_us, deeds);
        self.make_room(now_us, deeds);
        self.renew_open();
        let mut marked = std::mem::take(&mut self.marked);
        self.goes_on = !self.give_out(&marked, now_us, deeds);
        marked.append(&mut self.marked);
        for &id in &marked {
            self.speculate(id, now_us, deeds);
        }
        for &id in &marked {
            self.flush(id, now_us, deeds);
        }
        self.all_marked = false;
        if self.goes_on {
            self.work_came = true;
            marked.iter().for_each(|&id| self.mark(id));
        }
        if self.config.watch {
            self.watch(&marked, deeds);
        }
        // Behind the states that it counts: who reads them in order counts none twice.
        if std::mem::take(&mut self.watched.is_due) {
            self.watch_period(now_us, deeds);
        }
    }

    /// Gives nodes what they have room for: those that this turn looks at, then the hungry ones. False where there was
    /// more than a turn's worth to give.
    fn give_out(&mut self, marked: &[NodeId], now_us: u64, deeds: &mut Deeds) -> bool {
        let (first, work_came) = (self.next_attempt, std::mem::take(&mut self.work_came));
        // Every idle slot gets a task before any node gets work ahead.
        for reach in [Reach::Slots, Reach::Window] {
            for &id in marked {
                self.dispatch(id, reach, now_us, deeds);
                if self.next_attempt > first + self.config.tasks_a_turn {
                    return false;
                }
            }
            let mut from = NodeId(0);
            while let Some(&id) = self.hungry[reach as usize].range(from..).next().filter(|_| work_came) {
                if !self.has_work() {
                    break;
                }
                from = NodeId(id.0.saturating_add(1));
                if self.dispatch(id, reach, now_us, deeds) {
                    self.mark(id);
                }
                if self.next_attempt > first + self.config.tasks_a_turn {
                    return false;
                }
            }
        }
        true
    }

    /// When [`Farm::on_tick`] must be called at the latest, if nothing comes before.
    pub fn next_deadline_us(&self) -> u64 {
        if self.goes_on || self.unwinding.goes_on() {
            return 0;
        }
        let first = self.period_us.min(self.release_us).min(self.wake_us);
        self.timers.peek().map_or(first, |Reverse((at_us, _))| first.min(*at_us))
    }

    /// Timers that are due: silent nodes, offers to repeat, acknowledgements that found no ride.
    pub fn on_tick(&mut self, now_us: u64, deeds: &mut Deeds) {
        while let Some(&Reverse((at_us, id))) = self.timers.peek() {
            if at_us > now_us || self.unwinding.is_full(&self.config) {
                break;
            }
            self.timers.pop();
            if self.nodes.get(&id).is_some_and(|node| node.timer_us == at_us) {
                self.on_node_timer(id, now_us, deeds);
            }
        }
        self.release_leases(now_us);
        if now_us >= self.wake_us {
            self.wake_us = u64::MAX;
            self.mark_hungry();
        }
        if now_us >= self.period_us {
            self.period_us = now_us + self.config.settings.period_us;
            self.totals.feedback = [(0, 0), self.totals.feedback[0]];
            self.credit_shift = self.credit_shift.saturating_sub(1);
            self.record_totals(deeds);
            self.mark_all();
            self.watched.is_due = self.config.watch;
        }
    }

    /// Records up to `sequence` are durable: what waited for that is acknowledged.
    pub fn on_durable(&mut self, sequence: u64, now_us: u64) {
        self.durable = self.durable.max(sequence);
        self.lease_durable();
        self.acknowledge_durable(now_us);
    }

    /// Acknowledges results whose records are durable. A result that made no record of its own (a
    /// duplicate, say) may be among them at once: no later record may ever come.
    pub(crate) fn acknowledge_durable(&mut self, now_us: u64) {
        while let Some(&waiting) = self.unacknowledged.front() {
            if waiting.record > self.durable {
                break;
            }
            self.unacknowledged.pop_front();
            // Another incarnation counts its results anew: the number would name the wrong one.
            if let Some(node) = self.nodes.get_mut(&waiting.node)
                && node.boot == Some(waiting.boot)
            {
                node.to_tell.ack(waiting.result, now_us);
                self.mark(waiting.node);
            }
        }
    }

    /// Notes the settings that the next start must know, where they are others than before. While workers from before
    /// the start may still go by the old ones, the longer silence is noted.
    fn note_settings(&mut self, deeds: &mut Deeds) {
        let Settings { lost_us, period_us, .. } = self.config.settings;
        let unheard = if self.release_us == u64::MAX { 0 } else { self.unheard_us };
        let noted = Noted { lost_us: lost_us.max(unheard), period_us };
        if noted != self.noted {
            self.noted = noted;
            self.record(Record::Periods { lost_us: noted.lost_us, period_us }, deeds);
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// Whether the scheduler's disk is below its low-water mark: then no program is started, since what it writes could
    /// not be kept.
    pub fn on_room(&mut self, no_room: bool) {
        if std::mem::replace(&mut self.no_room, no_room) && !no_room {
            self.mark_all();
        }
    }

    /// Units of `job` are given out, if there are any.
    pub(crate) fn gives_out(&self, job: &Job) -> bool {
        job.active() && !self.lacks_room(job)
    }

    /// Units of `job` wait for room on the scheduler's disk.
    pub(crate) fn lacks_room(&self, job: &Job) -> bool {
        self.no_room && matches!(job.facts.work, WorkFacts::Command { .. })
    }

    /// Sequence of the last record; everything is durable once this is.
    pub fn last_sequence(&self) -> u64 {
        self.next_sequence - 1
    }

    pub(crate) fn new_job_id(&mut self) -> JobId {
        let id = JobId(self.next_job);
        self.next_job += 1;
        id
    }

    pub(crate) fn new_attempt(&mut self) -> Attempt {
        let attempt = Attempt(self.next_attempt);
        self.next_attempt += 1;
        attempt
    }

    /// Looks at a node in this turn.
    pub(crate) fn mark(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id)
            && !node.marked
        {
            node.marked = true;
            self.marked.push(id);
        }
    }

    /// There is something to give out that was not there before: looks at the nodes that have room for it.
    pub(crate) fn mark_hungry(&mut self) {
        self.work_came = true;
        self.open.is_stale = true;
    }

    /// There is a new order, or a period is over: looks at every node.
    pub(crate) fn mark_all(&mut self) {
        self.mark_hungry();
        if std::mem::replace(&mut self.all_marked, true) {
            return;
        }
        for (&id, node) in &mut self.nodes {
            if !node.marked && node.boot.is_some() {
                node.marked = true;
                self.marked.push(id);
            }
        }
    }

    /// The state of node `id` may have changed: counts what the farm can count on there, anew. A sum over all nodes
    /// would make a loss of half of them quadratic. Where most are quarantined since others have gone, some get work
    /// again: the farm must not stand still for them.
    pub(crate) fn count_live(&mut self, id: NodeId) {
        self.count_node(id);
        while self.sick.len() > self.live_nodes as usize {
            let pause_us = |id: &NodeId| self.nodes[id].probe.map_or(0, |probe| probe.pause_us);
            let sick = self.sick.iter().copied().filter(|id| self.nodes[id].greeted);
            let Some(id) = sick.min_by_key(|id| (pause_us(id), *id)) else { return };
            self.nodes.get_mut(&id).expect("a sick node is known").rise();
            self.count_node(id);
            self.mark(id);
        }
    }

    fn count_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let counted = if node.live() { node.slots } else { 0 };
        let before = std::mem::replace(&mut node.counted, counted);
        self.live_nodes = self.live_nodes + u32::from(counted > 0) - u32::from(before > 0);
        self.live_slots = self.live_slots + u64::from(counted) - u64::from(before);
        match node.is_sick() {
            true => self.sick.insert(id),
            false => self.sick.remove(&id),
        };
    }
}
