//! A start after another scheduler: nodes known before it that have not sent a full heartbeat, and what may be at them.

use std::collections::BTreeSet;

use starfarm_protocol::ids::NodeId;
use starfarm_protocol::settings::Settings;

/// Settings that the next start must know, as the last record of them says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Periods {
    /// How long workers from before may be silent.
    pub(crate) lost_us: u64,
    /// The period of the ratings that a checkpoint keeps.
    pub(crate) period_us: u64,
}

impl Periods {
    /// Before the first record.
    pub(crate) const DEFAULT: Self =
        Self { lost_us: Settings::DEFAULT.lost_us, period_us: Settings::DEFAULT.period_us };
}

/// How far nodes known before the start have come back.
#[derive(Debug)]
pub(crate) struct Reconnect {
    /// It was made from records, and had no turn yet.
    is_new: bool,
    /// Nodes known before this start that have not said what they hold.
    silent: BTreeSet<NodeId>,
    /// When what nobody said to hold goes to gq; none once it has.
    release_us: Option<u64>,
    /// A node known before this start that was not heard since is lost after this: it may still beat as slowly as the
    /// scheduler before wanted it.
    lost_us: u64,
    /// What the journal says of the settings.
    pub(crate) noted: Periods,
}

impl Reconnect {
    /// Nothing was before.
    pub(crate) fn none(lost_us: u64) -> Self {
        Self { is_new: false, silent: BTreeSet::new(), release_us: None, lost_us, noted: Periods::DEFAULT }
    }

    /// A farm was put together from records, with these nodes that may hold something.
    pub(crate) fn begin(&mut self, silent: BTreeSet<NodeId>, now_us: u64) {
        assert!(!self.is_new && !self.goes_on() && self.silent.is_empty(), "a farm starts once");
        self.is_new = true;
        self.lost_us = self.lost_us.max(self.noted.lost_us);
        // With all of them lost or gone before, their tasks had come back: nobody can hold anything.
        self.release_us = Some(if silent.is_empty() { now_us } else { now_us + self.lost_us });
        self.silent = silent;
    }

    /// This is the first turn after the start.
    pub(crate) fn take_first_turn(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// See the field.
    pub(crate) fn lost_us(&self) -> u64 {
        self.lost_us
    }

    /// Something may be at a node that has not said so.
    pub(crate) fn goes_on(&self) -> bool {
        self.release_us.is_some()
    }

    /// Node `id` was known before, and has not said what it holds.
    pub(crate) fn waits_for(&self, id: NodeId) -> bool {
        self.silent.contains(&id)
    }

    /// Node `id` has said all that it holds, or will say nothing any more.
    pub(crate) fn settle(&mut self, id: NodeId) {
        if self.silent.remove(&id) && self.silent.is_empty() {
            assert!(self.goes_on(), "nobody is waited for when all was released");
            self.release_us = Some(0);
        }
    }

    /// When what nobody said to hold goes to gq; none once it has.
    pub(crate) fn release_us(&self) -> Option<u64> {
        self.release_us
    }

    /// Those that have still not said what they hold, when the time for that is over; once.
    pub(crate) fn take_release(&mut self, now_us: u64) -> Option<BTreeSet<NodeId>> {
        self.release_us.take_if(|at_us| now_us >= *at_us)?;
        Some(std::mem::take(&mut self.silent))
    }

    /// Nobody could be heard for so long.
    pub(crate) fn stall(&mut self, stalled_us: u64) {
        self.release_us = self.release_us.map(|at_us| at_us.saturating_add(stalled_us));
    }
}
