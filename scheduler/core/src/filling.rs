//! How full the slots of one kind of a node are kept: what their worker asked for, and how long their tasks take.

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::wire::{Devices, Feedback};

/// How full slots of one kind are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    /// Totals of speed-ups and slow-downs as heard last; none where they count from before our start.
    pub(crate) feedback: Option<Feedback>,
    /// What speed-ups and slow-downs moved the window by, in tasks.
    pub(crate) steps: i64,
    /// Mean computing time of their tasks.
    pub(crate) task_us: f64,
}

impl Filling {
    /// Of an incarnation that begins.
    pub(crate) fn new() -> Self {
        Self { feedback: Some(Feedback::default()), steps: 0, task_us: 0.0 }
    }

    /// Of slots of which nothing is known, since their worker began before our start, or they are not there.
    pub(crate) const fn unknown() -> Self {
        Self { feedback: None, steps: 0, task_us: 0.0 }
    }

    /// So many speed-ups and slow-downs since the totals that were heard last; none where the first are heard, or these are
    /// older.
    pub(crate) fn hear(&mut self, feedback: Feedback) -> Option<(u32, u32)> {
        let before = self.feedback.replace(feedback)?;
        let ups = feedback.speed_ups.wrapping_sub(before.speed_ups);
        let downs = feedback.slow_downs.wrapping_sub(before.slow_downs);
        // Totals only grow; a smaller one is an old datagram.
        if ups >= 1 << 31 || downs >= 1 << 31 {
            self.feedback = Some(before);
            return None;
        }
        Some((ups, downs))
    }

    /// Moves the window by so many tasks, in all by `most` around its base.
    pub(crate) fn step(&mut self, by: i64, most: u32) {
        let most = i64::from(most);
        self.steps = (self.steps + by).clamp(-most, most);
    }

    /// They did a task in `spent_us`.
    pub(crate) fn did_task(&mut self, spent_us: u64) {
        let weight = if self.task_us == 0.0 { 1.0 } else { 0.125 };
        self.task_us += (spent_us.max(1) as f64 - self.task_us) * weight;
    }
}

/// Devices of one kind of a node.
#[derive(Clone, Debug)]
pub(crate) struct DevicesAt {
    /// As it told last.
    pub(crate) told: Devices,
    /// How many there were, and how many of them sick, as the log has it.
    pub(crate) logged: Option<(usize, usize)>,
    pub(crate) filling: Filling,
}

impl DevicesAt {
    /// Which kind they are.
    pub(crate) fn kind(&self) -> SlotKind {
        self.told.kind
    }
}
