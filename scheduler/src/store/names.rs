//! Who names a content: the jobs whose outputs do, each once, and the nodes that brought it and whose result has not come
//! yet. A content goes with the last job that named it, and never before a result that is on its way.
//!
//! In memory alone. What earlier starts wrote is read once, beside everything else ([`Names::complete`]); what comes
//! later is told as it comes in. To tell the same twice is harmless, so the two need not wait for each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};

use super::unnamed::UNNAMED_KEPT;

/// A result follows its contents within seconds, or once the worker hears its scheduler again.
const RESULT_WAIT: Duration = UNNAMED_KEPT;

#[derive(Debug, Default)]
pub(crate) struct Names {
    by_content: BTreeSet<(ContentHash, JobId)>,
    by_job: BTreeSet<(JobId, ContentHash)>,
    /// Bytes of the contents that a job names. One that two jobs name is counted for both.
    bytes: HashMap<JobId, u64>,
    brought: BTreeMap<(ContentHash, NodeId), Brought>,
    /// What earlier starts wrote is known.
    is_complete: bool,
    /// Jobs that were deleted before that: what is read of them does not count.
    gone: HashSet<JobId>,
}

/// A node brought a content, so many times that no result has followed, the last time then.
#[derive(Debug)]
struct Brought {
    times: u32,
    last: Instant,
}

impl Names {
    /// An output of a job names a content of so many bytes.
    pub(crate) fn name(&mut self, job: JobId, hash: ContentHash, bytes: u64) {
        if self.by_content.insert((hash, job)) {
            self.by_job.insert((job, hash));
            *self.bytes.entry(job).or_default() += bytes;
        }
    }

    /// A node brought a content, or offered one that is here: its result is to follow.
    pub(crate) fn bring(&mut self, hash: ContentHash, from: NodeId, now: Instant) {
        let brought = self.brought.entry((hash, from)).or_insert(Brought { times: 0, last: now });
        (brought.times, brought.last) = (brought.times.saturating_add(1), now);
    }

    /// The result of a node that names a content has come.
    pub(crate) fn follow(&mut self, hash: ContentHash, from: NodeId) {
        if let Some(brought) = self.brought.get_mut(&(hash, from)) {
            brought.times -= 1;
            if brought.times == 0 {
                self.brought.remove(&(hash, from));
            }
        }
    }

    /// Results that have not come for so long come no more.
    pub(crate) fn drop_old(&mut self, now: Instant) {
        self.brought.retain(|_, brought| now.saturating_duration_since(brought.last) < RESULT_WAIT);
    }

    /// Some job's output names it.
    pub(crate) fn is_named(&self, hash: &ContentHash) -> bool {
        self.by_content.range((*hash, JobId(0))..).next().is_some_and(|(named, _)| named == hash)
    }

    /// It was brought, and the result that names it may be on its way.
    pub(crate) fn is_awaited(&self, hash: &ContentHash) -> bool {
        self.brought.range((*hash, NodeId(0))..).next().is_some_and(|((brought, _), _)| brought == hash)
    }

    /// Bytes of the contents that a job names.
    pub(crate) fn bytes(&self, job: JobId) -> u64 {
        self.bytes.get(&job).copied().unwrap_or(0)
    }

    /// A job is deleted. The contents that it named, and no other job does.
    pub(crate) fn forget(&mut self, job: JobId) -> Vec<ContentHash> {
        if !self.is_complete {
            self.gone.insert(job);
            return Vec::new();
        }
        self.bytes.remove(&job);
        let of_it = self.by_job.range((job, ContentHash([0; 32]))..=(job, ContentHash([0xFF; 32])));
        let mut hashes: Vec<_> = of_it.map(|(_, hash)| *hash).collect();
        for hash in &hashes {
            self.by_job.remove(&(job, *hash));
            self.by_content.remove(&(*hash, job));
        }
        hashes.retain(|hash| !self.is_named(hash));
        hashes
    }

    /// All that earlier starts wrote was told. The contents that only jobs named which were deleted meanwhile.
    pub(crate) fn complete(&mut self) -> Vec<ContentHash> {
        self.is_complete = true;
        let gone = std::mem::take(&mut self.gone);
        let mut hashes: Vec<_> = gone.into_iter().flat_map(|job| self.forget(job)).collect();
        hashes.retain(|hash| !self.is_named(hash));
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ContentHash = ContentHash([1; 32]);
    const TWO: ContentHash = ContentHash([0xFF; 32]);

    fn complete() -> Names {
        let mut names = Names::default();
        assert_eq!(names.complete(), []);
        names
    }

    #[test]
    fn a_content_goes_with_the_last_job_that_names_it() {
        let mut names = complete();
        for (job, hash) in [(1, ONE), (1, ONE), (1, TWO), (2, ONE), (3, TWO)] {
            names.name(JobId(job), hash, 10);
        }
        assert_eq!([1, 2, 3, 4].map(|job| names.bytes(JobId(job))), [20, 10, 10, 0]);
        assert_eq!(names.forget(JobId(1)), [], "others name both");
        assert_eq!((names.bytes(JobId(1)), names.is_named(&ONE)), (0, true));
        assert_eq!(names.forget(JobId(3)), [TWO]);
        assert_eq!(names.forget(JobId(3)), []);
        assert_eq!(names.forget(JobId(2)), [ONE]);
        assert!(!names.is_named(&ONE) && names.by_job.is_empty() && names.bytes.is_empty());
    }

    #[test]
    fn what_is_read_of_a_job_that_was_deleted_meanwhile_does_not_count() {
        let mut names = Names::default();
        names.name(JobId(1), ONE, 10);
        assert_eq!(names.forget(JobId(1)), [], "it is not known yet who else names it");
        for (job, hash) in [(1, ONE), (1, TWO), (2, TWO)] {
            names.name(JobId(job), hash, 10);
        }
        assert_eq!(names.complete(), [ONE]);
        assert_eq!(names.forget(JobId(2)), [TWO]);
    }

    #[test]
    fn what_a_node_brought_is_awaited_until_each_of_its_results_has_come_or_for_an_hour() {
        let (mut names, start) = (complete(), Instant::now());
        let (first, second) = (NodeId(0), NodeId(7));
        [first, first, second].iter().for_each(|node| names.bring(ONE, *node, start));
        names.follow(ONE, first);
        names.follow(ONE, second);
        names.follow(ONE, second);
        assert!(names.is_awaited(&ONE) && !names.is_awaited(&TWO));
        names.bring(TWO, first, start + RESULT_WAIT / 2);
        names.follow(ONE, first);
        assert!(!names.is_awaited(&ONE), "all have come");
        names.drop_old(start + RESULT_WAIT);
        assert!(names.is_awaited(&TWO));
        names.drop_old(start + RESULT_WAIT * 2);
        assert!(!names.is_awaited(&TWO) && names.brought.is_empty());
    }
}
