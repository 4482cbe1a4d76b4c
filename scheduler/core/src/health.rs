//! Whether the farm can count on a node: whether it is there, whether it is to get work, and what is held against it.

use starfarm_events::NodeState;
use starfarm_protocol::ids::{Boot, JobId};
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::reason::{Distrust, Fault, QuarantineReason, Worthless};

use crate::limits::{PROBE_MAX_US, PROBE_MIN_US};

/// Whether a node is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// It has a session, and never said hello.
    Unknown,
    /// Its incarnation is heard.
    Here(Boot),
    /// Its incarnation is silent: it gets no new tasks.
    Suspect(Boot),
    /// Its incarnation was silent for too long: what it had went back.
    Lost(Boot),
    /// It said goodbye, or its key was revoked. Its next hello is a new incarnation, even of the same boot.
    Left {
        /// The incarnation; none where it never said hello.
        boot: Option<Boot>,
        /// Its key was revoked.
        revoked: bool,
    },
}

/// Who wants that a node gets no more work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drain {
    /// Its worker, which wants to leave.
    pub(crate) by_worker: bool,
    pub(crate) by_person: bool,
}

impl Drain {
    pub(crate) const NO: Self = Self { by_worker: false, by_person: false };
}

/// What is held against a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Standing {
    /// Nothing.
    #[default]
    Good,
    /// Tasks vanished there that it had acknowledged: it gets one now and then, as a probe.
    Slow(Probe),
    /// It fails what others pass, or its results cannot count: likewise.
    Sick(Probe, Ailment),
    /// It does not compute what it gets: likewise.
    Shirks(Probe, Shirk),
    /// Its results are not trusted: it gets nothing until a person says so.
    Distrusted(Distrust),
}

/// How a node does not compute what it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shirk {
    /// It gave back so many tasks that nobody took from it.
    GivesBack(u32),
    /// It kept so many tasks that it was asked to give back.
    Keeps(u32),
}

/// What a sick node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ailment {
    /// It fails what others pass.
    Fails(Fault),
    /// Its results cannot count.
    Worthless(Worthless),
}

impl Ailment {
    /// The job that it shows in.
    fn job(self) -> JobId {
        match self {
            Self::Fails(Fault { job, .. }) | Self::Worthless(Worthless { job, .. }) => job,
        }
    }
}

impl From<Ailment> for QuarantineReason {
    fn from(ailment: Ailment) -> Self {
        match ailment {
            Ailment::Fails(fault) => Self::Fails(fault),
            Ailment::Worthless(worthless) => Self::Worthless(worthless),
        }
    }
}

impl Standing {
    /// Why it is quarantined; none where it only let tasks vanish.
    pub(crate) fn why(self) -> Option<QuarantineReason> {
        match self {
            Standing::Sick(_, ailment) => Some(ailment.into()),
            Standing::Distrusted(why) => Some(QuarantineReason::Distrusted(why)),
            Standing::Shirks(_, Shirk::GivesBack(tasks)) => Some(QuarantineReason::GivesBack { tasks }),
            Standing::Shirks(_, Shirk::Keeps(tasks)) => Some(QuarantineReason::Keeps { tasks }),
            Standing::Good | Standing::Slow(_) => None,
        }
    }

    /// The job that it is sick of.
    pub(crate) fn sick_of(self) -> Option<JobId> {
        match self {
            Standing::Sick(_, ailment) => Some(ailment.job()),
            _ => None,
        }
    }

    /// When a node at power zero is probed.
    pub(crate) fn probe(self) -> Option<Probe> {
        match self {
            Standing::Slow(probe) | Standing::Sick(probe, _) | Standing::Shirks(probe, _) => Some(probe),
            Standing::Good | Standing::Distrusted(_) => None,
        }
    }
}

/// When a node at power zero gets its next task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// When it may get it.
    pub(crate) at_us: u64,
    /// The pause before that.
    pub(crate) pause_us: u64,
}

impl Probe {
    /// The first one, after the shortest pause.
    pub(crate) fn first(now_us: u64) -> Self {
        Self::after(PROBE_MIN_US, now_us)
    }

    fn after(pause_us: u64, now_us: u64) -> Self {
        assert!((PROBE_MIN_US..=PROBE_MAX_US).contains(&pause_us), "a pause of {pause_us}");
        Self { at_us: now_us + pause_us, pause_us }
    }

    /// It got a task: the next one goes out after a longer pause.
    pub(crate) fn given(self, now_us: u64) -> Self {
        assert!(self.at_us <= now_us, "a probe goes out when its pause is over");
        Self::after(self.next_pause_us(), now_us)
    }

    /// The first pause is over.
    fn has_waited(&self, now_us: u64) -> bool {
        self.at_us <= now_us || self.pause_us > PROBE_MIN_US
    }

    /// The pause after the next task.
    pub(crate) fn next_pause_us(&self) -> u64 {
        (2 * self.pause_us).min(PROBE_MAX_US)
    }
}

/// Whether the farm can count on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Health {
    pub(crate) presence: Presence,
    pub(crate) drain: Drain,
    pub(crate) standing: Standing,
    /// It said hello in its newest session. Before that it is told nothing: whether its worker is still the incarnation
    /// that we know is not known.
    pub(crate) greeted: bool,
}

impl Health {
    pub(crate) const NEW: Health =
        Health { presence: Presence::Unknown, drain: Drain::NO, standing: Standing::Good, greeted: false };

    /// Its state, in one word.
    pub(crate) fn state(&self) -> NodeState {
        match self.presence {
            Presence::Lost(_) | Presence::Left { .. } => NodeState::Lost,
            Presence::Unknown | Presence::Suspect(_) => NodeState::Suspect,
            Presence::Here(_) if self.drain != Drain::NO => NodeState::Draining,
            Presence::Here(_) if self.standing != Standing::Good => NodeState::Quarantined,
            Presence::Here(_) => NodeState::Up,
        }
    }

    /// Its incarnation, if it has one that has not left.
    pub(crate) fn boot(&self) -> Option<Boot> {
        match self.presence {
            Presence::Here(boot) | Presence::Suspect(boot) | Presence::Lost(boot) => Some(boot),
            Presence::Unknown | Presence::Left { .. } => None,
        }
    }

    /// The incarnation that was heard last; none where it never said hello, and so is in no record.
    pub(crate) fn last_boot(&self) -> Option<Boot> {
        match self.presence {
            Presence::Left { boot, .. } => boot,
            _ => self.boot(),
        }
    }

    /// It holds nothing that counts.
    pub(crate) fn is_lost(&self) -> bool {
        self.state() == NodeState::Lost
    }

    /// Its worker left by itself, and said so.
    pub(crate) fn has_left(&self) -> bool {
        matches!(self.presence, Presence::Left { revoked: false, .. })
    }

    /// It said hello, and did not leave since nor is it lost.
    pub(crate) fn is_there(&self) -> bool {
        self.boot().is_some() && !self.is_lost()
    }

    /// It can be told something.
    pub(crate) fn listens(&self) -> bool {
        self.greeted && !self.is_lost()
    }

    /// The farm can count on its slots.
    pub(crate) fn live(&self) -> bool {
        self.state() == NodeState::Up
    }

    /// It can be given tasks.
    pub(crate) fn takes_tasks(&self) -> bool {
        self.live() && self.greeted
    }

    /// It gets a task now and then, as a probe.
    pub(crate) fn is_probation(&self) -> bool {
        self.greeted && self.state() == NodeState::Quarantined && !self.is_distrusted()
    }

    /// Its results are not trusted.
    pub(crate) fn is_distrusted(&self) -> bool {
        matches!(self.standing, Standing::Distrusted(_))
    }

    /// Its key was revoked: it does not come back.
    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self.presence, Presence::Left { revoked: true, .. })
    }

    /// It is quarantined because it failed what others passed, and for nothing else.
    pub(crate) fn is_outdone(&self) -> bool {
        matches!(self.standing, Standing::Sick(_, Ailment::Fails(_)))
            && self.state() == NodeState::Quarantined
    }

    /// It is there, and wanted to take no more work.
    pub(crate) fn is_draining(&self) -> bool {
        self.state() == NodeState::Draining
    }

    /// A person could undo what keeps it from work.
    pub(crate) fn can_resume(&self) -> bool {
        self.drain.by_person || self.standing != Standing::Good
    }

    /// What of this is durable.
    pub(crate) fn marks(&self) -> impl Iterator<Item = NodeMark> + use<> {
        let gone = match self.presence {
            Presence::Left { revoked: true, .. } => Some(NodeMark::Revoked),
            Presence::Left { revoked: false, .. } => Some(NodeMark::Left),
            Presence::Lost(_) => Some(NodeMark::Gone),
            Presence::Unknown | Presence::Here(_) | Presence::Suspect(_) => None,
        };
        let drained = self.drain.by_person.then_some(NodeMark::Drained);
        let distrusted = match self.standing {
            Standing::Distrusted(why) => Some(NodeMark::from(why)),
            Standing::Good | Standing::Slow(_) | Standing::Sick(..) | Standing::Shirks(..) => None,
        };
        [gone, drained, distrusted].into_iter().flatten()
    }

    /// A mark of it is put on record, or read there.
    pub(crate) fn takes(&mut self, mark: NodeMark) {
        match mark {
            NodeMark::Gone => self.vanishes(),
            NodeMark::Back => self.returns(),
            NodeMark::Left => self.leaves(false),
            NodeMark::Forgotten => self.leaves(self.is_revoked()),
            NodeMark::Revoked => self.leaves(true),
            NodeMark::Drained => self.drain.by_person = true,
            NodeMark::Resumed => self.resumes(),
            NodeMark::Distrusted | NodeMark::FalseHit | NodeMark::MissedHit => {
                self.standing = Standing::Distrusted(mark.distrust().expect("these marks say so"));
            }
        }
    }

    /// It was silent for a while.
    pub(crate) fn is_silent(&mut self) {
        self.presence = Presence::Suspect(self.boot().expect("who falls silent was heard"));
    }

    /// It was silent for too long. Where it never said hello there is nothing to come back to.
    pub(crate) fn vanishes(&mut self) {
        match self.boot() {
            Some(boot) => self.presence = Presence::Lost(boot),
            None => self.leaves(false),
        }
    }

    /// It is heard again.
    pub(crate) fn returns(&mut self) {
        if let Some(boot) = self.boot() {
            self.presence = Presence::Here(boot);
        }
    }

    /// It leaves, or its key is revoked.
    pub(crate) fn leaves(&mut self, revoked: bool) {
        self.presence = Presence::Left { boot: self.last_boot(), revoked };
    }

    /// A person trusts it and gives it tasks again.
    pub(crate) fn resumes(&mut self) {
        self.drain.by_person = false;
        self.standing = Standing::Good;
    }

    /// A result that counts shows that it is well: no task vanishes there, nor comes back. Where it failed what others passed,
    /// a unit has to pass. Where its results could not count, its first pause has to be over: it may have any number of
    /// results left of what it was given before.
    pub(crate) fn may_rise(&self, has_passed: bool, now_us: u64) -> bool {
        match self.standing {
            Standing::Slow(_) | Standing::Shirks(..) => true,
            Standing::Sick(probe, Ailment::Worthless(_)) => probe.has_waited(now_us),
            Standing::Sick(_, Ailment::Fails(_)) => has_passed,
            Standing::Good | Standing::Distrusted(_) => false,
        }
    }

    /// It did something well: it rises again, unless its results are not trusted.
    pub(crate) fn rises(&mut self) {
        if !self.is_distrusted() {
            self.standing = Standing::Good;
        }
    }

    /// It did nothing for long, or cannot: it sinks to power zero. There it waits for its next probe anew.
    pub(crate) fn sinks(&mut self, now_us: u64) {
        let wait = |pause_us| Probe::after(pause_us, now_us);
        self.standing = match self.standing {
            Standing::Good => Standing::Slow(wait(PROBE_MIN_US)),
            Standing::Slow(probe) => Standing::Slow(wait(probe.pause_us)),
            Standing::Sick(probe, ailment) => Standing::Sick(wait(probe.pause_us), ailment),
            Standing::Shirks(probe, shirk) => Standing::Shirks(wait(probe.pause_us), shirk),
            Standing::Distrusted(why) => Standing::Distrusted(why),
        };
    }

    /// It does not compute what it gets; false where it gets no more than a probe as it is.
    pub(crate) fn shirks(&mut self, shirk: Shirk, now_us: u64) -> bool {
        let is_news = self.standing == Standing::Good;
        if is_news {
            self.standing = Standing::Shirks(Probe::first(now_us), shirk);
        }
        is_news
    }

    /// It is found to be sick; false where it was quarantined for such a thing before: what it has is not told anew with
    /// each of its results.
    pub(crate) fn sickens(&mut self, of: Ailment, now_us: u64) -> bool {
        let is_news = !matches!(self.standing, Standing::Sick(..) | Standing::Distrusted(_));
        if is_news {
            self.standing = Standing::Sick(Probe::first(now_us), of);
        }
        is_news
    }

    /// It got a task. At power zero that is a probe: the next one goes out after a longer pause.
    pub(crate) fn is_probed(&mut self, now_us: u64) {
        match &mut self.standing {
            Standing::Slow(probe) | Standing::Sick(probe, _) | Standing::Shirks(probe, _) => {
                *probe = probe.given(now_us);
            }
            Standing::Good | Standing::Distrusted(_) => {}
        }
    }
}
