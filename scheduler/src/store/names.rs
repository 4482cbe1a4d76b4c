//! Who names a content: the jobs whose outputs do, each once, and the nodes that brought it and whose result has not come
//! yet. A content goes with the last job that named it, and never before a result that is on its way.
//!
//! On the disk, so that memory does not grow with the contents; made anew by each start. What earlier starts wrote is read once, beside everything else ([`Names::complete`]); what comes
//! later is told as it comes in. To tell the same twice is harmless, so the two need not wait for each other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};

use super::table::{Home, Table};
use super::unnamed::UNNAMED_KEPT;

/// A result follows its contents within seconds, or once the worker hears its scheduler again.
const RESULT_WAIT: Duration = UNNAMED_KEPT;

/// A content's hash and a job's number.
const PAIR: usize = 40;

#[derive(Debug)]
pub(crate) struct Names {
    /// Each content with each job that names it.
    pairs: Table<PAIR, 0>,
    /// How many jobs name a content.
    counts: Table<32, 4>,
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
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            pairs: Table::new(home),
            counts: Table::new(home),
            bytes: HashMap::new(),
            brought: BTreeMap::new(),
            is_complete: false,
            gone: HashSet::new(),
        }
    }

    /// An output of a job names a content of so many bytes.
    pub(crate) fn name(&mut self, job: JobId, hash: ContentHash, bytes: u64) -> io::Result<()> {
        let pair = pair(hash, job);
        if self.pairs.get(&pair)?.is_none() {
            // First: one that is counted too often stays, one that is counted too seldom would be lost.
            let others = self.count(&hash)?;
            self.counts.insert(&hash.0, &(others + 1).to_le_bytes())?;
            self.pairs.insert(&pair, &[])?;
            *self.bytes.entry(job).or_default() += bytes;
        }
        Ok(())
    }

    /// How many jobs name a content.
    fn count(&self, hash: &ContentHash) -> io::Result<u32> {
        Ok(self.counts.get(&hash.0)?.map_or(0, u32::from_le_bytes))
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
    pub(crate) fn is_named(&self, hash: &ContentHash) -> io::Result<bool> {
        Ok(self.count(hash)? > 0)
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
    pub(crate) fn forget(&mut self, job: JobId) -> io::Result<Vec<ContentHash>> {
        if !self.is_complete {
            self.gone.insert(job);
            return Ok(Vec::new());
        }
        let gone = [job].into();
        self.forget_all(&gone)
    }

    /// All that earlier starts wrote was told. The contents that only jobs named which were deleted meanwhile.
    pub(crate) fn complete(&mut self) -> io::Result<Vec<ContentHash>> {
        self.is_complete = true;
        let gone = std::mem::take(&mut self.gone);
        self.forget_all(&gone)
    }

    fn forget_all(&mut self, jobs: &HashSet<JobId>) -> io::Result<Vec<ContentHash>> {
        // Most jobs name none: for them nothing is looked through.
        let before = self.bytes.len();
        self.bytes.retain(|job, _| !jobs.contains(job));
        if self.bytes.len() == before {
            return Ok(Vec::new());
        }
        let mut gone = Vec::new();
        self.pairs.each(|pair, []| {
            let (hash, job) = parts(pair);
            if jobs.contains(&job) {
                gone.push((hash, job));
            }
            Ok(())
        })?;
        let mut hashes = Vec::new();
        for (hash, job) in gone {
            self.pairs.remove(&pair(hash, job))?;
            match self.count(&hash)?.saturating_sub(1) {
                0 => {
                    self.counts.remove(&hash.0)?;
                    hashes.push(hash);
                }
                left => drop(self.counts.insert(&hash.0, &left.to_le_bytes())?),
            }
        }
        Ok(hashes)
    }
}

fn pair(hash: ContentHash, job: JobId) -> [u8; PAIR] {
    let mut pair = [0; PAIR];
    pair[..32].copy_from_slice(&hash.0);
    pair[32..].copy_from_slice(&job.0.to_le_bytes());
    pair
}

fn parts(pair: &[u8; PAIR]) -> (ContentHash, JobId) {
    let (hash, job) = pair.split_at(32);
    let hash = ContentHash(hash.try_into().expect("32 bytes"));
    (hash, JobId(u64::from_le_bytes(job.try_into().expect("8 bytes"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ContentHash = ContentHash([1; 32]);
    const TWO: ContentHash = ContentHash([0xFF; 32]);

    fn complete() -> Names {
        let mut names = Names::new(&Home::Memory);
        assert_eq!(names.complete().unwrap(), []);
        names
    }

    #[test]
    fn a_content_goes_with_the_last_job_that_names_it() {
        let mut names = complete();
        for (job, hash) in [(1, ONE), (1, ONE), (1, TWO), (2, ONE), (3, TWO)] {
            names.name(JobId(job), hash, 10).unwrap();
        }
        assert_eq!([1, 2, 3, 4].map(|job| names.bytes(JobId(job))), [20, 10, 10, 0]);
        assert_eq!(names.forget(JobId(1)).unwrap(), [], "others name both");
        assert_eq!((names.bytes(JobId(1)), names.is_named(&ONE).unwrap()), (0, true));
        assert_eq!(names.forget(JobId(3)).unwrap(), [TWO]);
        assert_eq!(names.forget(JobId(3)).unwrap(), []);
        assert_eq!(names.forget(JobId(2)).unwrap(), [ONE]);
        assert!(
            !names.is_named(&ONE).unwrap()
                && (names.pairs.len() + names.counts.len() == 0)
                && names.bytes.is_empty()
        );
    }

    #[test]
    fn what_is_read_of_a_job_that_was_deleted_meanwhile_does_not_count() {
        let mut names = Names::new(&Home::Memory);
        names.name(JobId(1), ONE, 10).unwrap();
        assert_eq!(names.forget(JobId(1)).unwrap(), [], "it is not known yet who else names it");
        for (job, hash) in [(1, ONE), (1, TWO), (2, TWO)] {
            names.name(JobId(job), hash, 10).unwrap();
        }
        assert_eq!(names.complete().unwrap(), [ONE]);
        assert_eq!(names.forget(JobId(2)).unwrap(), [TWO]);
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
