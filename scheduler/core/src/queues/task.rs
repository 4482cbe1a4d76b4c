//! A task that was given to a node, and where it is.

use starfarm_protocol::devices::SlotKind;
use starfarm_protocol::ids::{Attempt, JobId, NodeId};
use starfarm_protocol::interval::Interval;
pub(crate) use starfarm_protocol::journal::record::NOBODY;

use crate::limits::{PIECE_SHARE, WHOLE};
use crate::seat::Seat;

/// Where an interval lies among the tasks of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Position {
    /// It is a task of a node, and nothing of that is decided.
    Whole,
    /// In one task of a node, and it begins or ends with that.
    AtAnEnd,
    /// In the midst of one.
    Amidst,
    /// In several, or in none.
    Elsewhere,
}

/// Where a task in dq is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// In its node's queue, not yet sent.
    Assigned,
    /// Offered; the worker has not acknowledged the offer.
    Offered,
    /// The worker has it. At `seen_us` it was acknowledged or last listed in a heartbeat: an attempt that a
    /// live node no longer lists expires T_retry after that.
    Held {
        /// Microseconds of the scheduler's clock.
        seen_us: u64,
    },
    /// Nobody has it any more: it goes back to gq as soon as a turn has time.
    Back,
}

/// A task in dq.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) job: JobId,
    pub(crate) at: Interval,
    /// Units that no result has come for.
    pub(crate) left: u128,
    /// The node that it was given to, and which slots of that.
    pub(crate) node: NodeId,
    pub(crate) kind: SlotKind,
    /// Number of this dispatch.
    pub(crate) attempt: Attempt,
    pub(crate) state: State,
    /// When it was put into dq: the paper's T_dq.
    pub(crate) since_us: u64,
    /// Computing time that its partial results told of.
    pub(crate) spent_us: u64,
    /// A second dispatch of what another node still computes. Its units are out by the first one's account.
    pub(crate) copy: bool,
    /// How much of a task of the size that it should have had when it was given, in parts of [`WHOLE`].
    pub(crate) weight: u16,
    /// How often it was cut in two.
    pub(crate) splits: u8,
    /// How often it was trimmed.
    pub(crate) trims: u8,
}

impl Task {
    /// Attempt of a task that was not offered but found at its node by a heartbeat.
    pub(crate) const ADOPTED: Attempt = Attempt(0);

    /// A task that `seat` was found to hold, wholly out.
    pub(super) fn found(seat: Seat, job: JobId, at: Interval, now_us: u64) -> Self {
        Self {
            job,
            at,
            left: at.units(),
            node: seat.node,
            kind: seat.kind,
            attempt: Self::ADOPTED,
            state: State::Held { seen_us: now_us },
            since_us: now_us,
            spent_us: 0,
            copy: false,
            weight: WHOLE as u16,
            splits: 0,
            trims: 0,
        }
    }

    /// A task that is to be sent to `seat`.
    pub(super) fn assigned(seat: Seat, job: JobId, at: Interval, attempt: Attempt, now_us: u64) -> Self {
        assert!(attempt != Self::ADOPTED && seat.node != NOBODY, "what is given has a number and a node");
        Self { attempt, state: State::Assigned, ..Self::found(seat, job, at, now_us) }
    }

    pub(crate) fn seat(&self) -> Seat {
        Seat::new(self.node, self.kind)
    }

    /// How much a task of so many units is of one that has `whole`.
    pub(crate) fn weight_of(units: u128, whole: u64) -> u64 {
        match u64::try_from(units) {
            Ok(units) if units.saturating_mul(PIECE_SHARE) <= whole => {
                let parts = u128::from(units) * u128::from(WHOLE) / u128::from(whole);
                u64::try_from(parts).unwrap_or(WHOLE).max(1)
            }
            _ => WHOLE,
        }
    }

    /// It was found at its node by a heartbeat, and may be many tasks there.
    pub(crate) fn is_found(&self) -> bool {
        self.attempt == Self::ADOPTED
    }

    /// Units of `at` of `job` are in it.
    pub(super) fn overlaps(&self, job: JobId, at: Interval) -> bool {
        self.job == job && self.at.overlaps(at)
    }

    /// `unit` of `job` is in it.
    pub(crate) fn has(&self, job: JobId, unit: u128) -> bool {
        self.job == job && self.at.contains(unit)
    }
}

const _: () = assert!(WHOLE <= u16::MAX as u64, "a weight is one number of two bytes");
const _: () = assert!(size_of::<Task>() <= 144, "a task in dq stays small: there may be a million");

/// Index of a task in dq.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TaskId(pub(super) u32);

/// How large a task may be that is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Units of one that is cut.
    pub(crate) units: u128,
    /// One of up to so many units is taken whole.
    pub(crate) whole: u128,
}
