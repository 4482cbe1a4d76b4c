//! Room that the outputs of ended jobs take on the scheduler's disk: jobs that are too old, or for which there is no room, are
//! to be deleted. How many bytes there are is the rim's to count.

use std::fmt;

use starfarm_events::{Event, JobChange};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::Record;

use crate::command::CommandError;
use crate::deed::Deeds;
use crate::farm::Farm;
use crate::job::Job;

/// How long ended jobs are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retention {
    /// For so long after their end, in microseconds; none: for ever.
    pub for_us: Option<u64>,
    /// As long as all that is stored has no more bytes than this, the oldest go first; none: any number.
    pub below: Option<u64>,
}

/// Why an ended job is to be deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum Expiry {
    /// It ended so long ago.
    Age { ago_us: u64 },
    /// So much is stored.
    Size { stored: u64 },
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age { ago_us } => {
                write!(f, "it ended {} s ago, longer than --keep-jobs-for says", ago_us / 1_000_000)
            }
            Self::Size { stored } => {
                write!(
                    f,
                    "{stored} bytes were stored, more than --keep-jobs-below says, and it was the oldest"
                )
            }
        }
    }
}

impl Retention {
    /// Which of the ended jobs go, in order, where so many bytes are stored. Each says when it ended, its number, and how
    /// many bytes it has; the last counts what it shares with others as well, so that fewer go than must, never more.
    fn expired(
        self,
        mut ended: Vec<(u64, JobId, u64)>,
        mut stored: u64,
        now_us: u64,
    ) -> Vec<(JobId, Expiry)> {
        ended.sort_unstable();
        let mut expired = Vec::new();
        for (ended_us, job, bytes) in ended {
            let ago_us = now_us.saturating_sub(ended_us);
            let why = if self.for_us.is_some_and(|for_us| ago_us >= for_us) {
                Expiry::Age { ago_us }
            } else if self.below.is_some_and(|below| stored > below) && bytes > 0 {
                Expiry::Size { stored }
            } else {
                continue;
            };
            stored = stored.saturating_sub(bytes);
            expired.push((job, why));
        }
        expired
    }
}

impl Farm {
    /// Ended jobs that are to be deleted, where so many bytes are stored. One that another job waits for stays.
    pub fn expired(&self, keep: Retention, stored: u64, now_us: u64) -> Vec<(JobId, Expiry)> {
        let of = |job: &Job| {
            let ended_us = job.totals.ended_us.filter(|_| job.state.ended())?;
            let is_free = self.awaits_merge_of(job.facts.job).is_none();
            is_free.then_some((ended_us, job.facts.job, job.stored.bytes()))
        };
        keep.expired(self.jobs.iter().filter_map(of).collect(), stored, now_us)
    }

    /// Deletes an ended job, as a person would; who watches is told why.
    ///
    /// # Errors
    /// As of a person's command.
    pub fn delete_expired(
        &mut self,
        id: JobId,
        why: Expiry,
        now_us: u64,
        deeds: &mut Deeds,
    ) -> Result<(), CommandError> {
        self.may_delete(id, now_us, deeds)?;
        deeds.event(Event::JobState { job: id, state: JobChange::Deleted, why: Some(why.to_string()) });
        self.commit_untold(Record::Deleted { job: id }, deeds);
        self.look_at_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_ended_jobs_go_by_age_and_until_the_rest_has_room() {
        let ended = || vec![(30, JobId(1), 5), (10, JobId(2), 4), (20, JobId(3), 0), (20, JobId(4), 4)];
        let gone = |for_us, below| {
            let expired = Retention { for_us, below }.expired(ended(), 20, 35);
            expired.into_iter().map(|(job, why)| (job.0, why)).collect::<Vec<_>>()
        };
        let (age, size) = (|ago_us| Expiry::Age { ago_us }, |stored| Expiry::Size { stored });
        assert_eq!(gone(None, None), []);
        assert_eq!(gone(Some(26), None), []);
        assert_eq!(gone(Some(15), None), [(2, age(25)), (3, age(15)), (4, age(15))]);
        assert_eq!(gone(None, Some(20)), []);
        assert_eq!(gone(None, Some(15)), [(2, size(20)), (4, size(16))], "what has nothing gives nothing");
        assert_eq!(gone(Some(25), Some(13)), [(2, age(25)), (4, size(16))]);
        assert_eq!(gone(None, Some(0)).len(), 3, "all that have something");
    }
}
