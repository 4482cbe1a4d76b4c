//! Which incarnation of the scheduler is believed: the newest one of the join file's farm that ever welcomed
//! this worker, in this life or an earlier one. An older one was started from an old copy of its state, or is
//! a sleeper that wakes up beside its successor. It does not know what was acknowledged since, so that to
//! obey it could lose results.

use starfarm_protocol::ids::{Epoch, FarmId};
use starfarm_protocol::wire::Welcome;

use crate::types::Known;

/// What is known of the scheduler's incarnations.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    farm: FarmId,
    known: Known,
    /// The incarnation whose welcome was accepted in this life; 0 before the first.
    epoch: Epoch,
    /// The last one that a person was told of.
    told: Option<(FarmId, Epoch)>,
}

impl Scheduler {
    pub(crate) fn new(farm: FarmId, known: Known) -> Self {
        Self { farm, known, epoch: Epoch(0), told: None }
    }

    /// The incarnation that is obeyed; 0 before the first welcome of this life.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn known(&self) -> Known {
        self.known
    }

    /// Whether a later incarnation than this one is known.
    pub(crate) fn is_older(&self, epoch: Epoch) -> bool {
        epoch < self.known.epoch
    }

    /// Whether a welcome may be believed. What speaks against it, another farm or an older incarnation of ours, is for
    /// a person; `None` where he has heard it.
    pub(crate) fn judge(&mut self, welcome: &Welcome) -> Result<(), Option<String>> {
        let (farm, epoch) = (welcome.farm, welcome.epoch);
        let words = if farm != self.farm {
            format!(
                "the scheduler says it is of farm {farm}, the join file is of farm {}: nothing is taken from it; \
                 what is held is kept for the right one (copy the join file again if the farm was made anew)",
                self.farm
            )
        } else if epoch == self.known.epoch && welcome.proof != self.known.proof {
            format!(
                "the scheduler that answers is another one than that which was here with the same number, {}: its \
                 state is a copy; nothing is taken from it, what is held is kept for the one that was here",
                epoch.0
            )
        } else if self.is_older(epoch) {
            format!(
                "the scheduler that answers is incarnation {}, but incarnation {} of this farm has been here: \
                 its state is an old copy, or it slept; nothing is taken from it, what is held is kept for \
                 the newer one",
                epoch.0, self.known.epoch.0
            )
        } else {
            return Ok(());
        };
        let news = self.told.replace((farm, epoch)) != Some((farm, epoch));
        Err(news.then_some(words))
    }

    /// Obeys the welcome's incarnation from now on. What must outlive this process comes back, where it is
    /// new.
    pub(crate) fn believe(&mut self, welcome: &Welcome) -> Option<Known> {
        assert_eq!(welcome.farm, self.farm, "no other farm is worked for");
        assert!(!self.is_older(welcome.epoch), "an older incarnation was objected to");
        self.epoch = welcome.epoch;
        self.told = None;
        let known = Known { epoch: welcome.epoch, proof: welcome.proof };
        let new = known.epoch > self.known.epoch;
        if new {
            self.known = known;
        }
        new.then_some(known)
    }
}
