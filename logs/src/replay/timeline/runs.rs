//! Runs of results as the report's page reads them: four varints a run, in grains of time. A log with too many of
//! them is drawn in coarser grains, where neighbours shorter than a grain are one.

use starfarm_protocol::bytes::{Reader, put, put_near};

/// A run of results of a node, one job and one outcome. Times are in grains since the report's begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// When the first result of it was begun; before the report's begin where negative.
    pub(crate) begun: i64,
    /// When the last was over.
    pub(crate) ended: i64,
    pub(crate) results: u64,
    /// Index of the job in the report * 8 + code of the outcome.
    pub(crate) tag: u64,
}

/// Runs that wait to be joined, at most: jobs that a node works for at a time, by outcome.
const OPEN_MAX: usize = 64;

/// Runs of one node, packed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    bytes: Vec<u8>,
    /// The last runs, not packed yet: the next may join one of them. All end in one grain.
    open: Vec<Run>,
    /// Where the last packed one ended.
    ended: i64,
}

impl Runs {
    pub(crate) fn push(&mut self, run: Run) {
        if let Some(open) = self.open.iter_mut().find(|open| joins(open, &run)) {
            open.results = open.results.saturating_add(run.results);
            return;
        }
        if self.open.len() == OPEN_MAX || self.open.first().is_some_and(|open| open.ended != run.ended) {
            self.pack_open();
        }
        self.open.push(run);
    }

    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.pack_open();
        &self.bytes
    }

    /// Bytes in use.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts jobs at other places: to each index its new one.
    pub(crate) fn replace_jobs(&mut self, places: &[usize]) {
        let old = std::mem::take(self);
        for run in unpack(&old.bytes).chain(old.open) {
            let place = places.get((run.tag / 8) as usize).copied().unwrap_or(0);
            self.push(Run { tag: place as u64 * 8 + run.tag % 8, ..run });
        }
    }

    /// Makes grains `factor` times as long.
    pub(crate) fn coarsen(&mut self, factor: i64) {
        let old = std::mem::take(self);
        for run in unpack(&old.bytes).chain(old.open) {
            let (begun, ended) = (run.begun.div_euclid(factor), run.ended.div_euclid(factor));
            self.push(Run { begun, ended, ..run });
        }
        self.bytes.shrink_to_fit();
    }

    fn pack_open(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.drain(..).for_each(|run| self.pack(&run));
        self.open = open;
    }

    fn pack(&mut self, run: &Run) {
        put_near(&mut self.bytes, i128::from(run.ended.wrapping_sub(self.ended)) as u128, 0);
        for number in [run.ended.saturating_sub(run.begun).max(0) as u64, run.results, run.tag] {
            put(&mut self.bytes, number.into());
        }
        self.ended = run.ended;
    }
}

/// Whether two runs are one in a picture: alike, and both within one grain.
fn joins(one: &Run, other: &Run) -> bool {
    let is_short = |run: &Run| run.ended == run.begun;
    one.tag == other.tag && is_short(one) && is_short(other) && one.ended == other.ended
}

/// The runs in packed bytes of ours.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let (mut rest, mut ended) = (Reader(bytes), 0_i64);
    std::iter::from_fn(move || {
        ended = ended.wrapping_add(rest.near(0).ok()? as i64);
        let took = rest.small::<u64>().ok()? as i64;
        let (results, tag) = (rest.small().ok()?, rest.small().ok()?);
        Some(Run { begun: ended.saturating_sub(took), ended, results, tag })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(begun: i64, ended: i64, tag: u64) -> Run {
        Run { begun, ended, results: 1, tag }
    }

    #[test]
    fn runs_come_back() {
        let list = [run(-5, 3, 0), run(0, i64::MAX / 2, 9), run(7, 8, 8 * 300 + 4), run(7, 9, 0)];
        let mut runs = Runs::default();
        list.iter().for_each(|run| runs.push(*run));
        assert_eq!(unpack(runs.bytes()).collect::<Vec<_>>(), list);
        // 3 grains on, 8 long, one result, tag 0, as the contract has it.
        assert_eq!(runs.bytes()[..4], [6, 8, 1, 0]);
    }

    #[test]
    fn coarser_grains_join_the_short_and_keep_the_count() {
        let mut runs = Runs::default();
        (0..1_000).for_each(|at| runs.push(run(at, at + 1, 8)));
        runs.push(run(1_000, 1_500, 8));
        runs.push(run(1_000, 1_001, 9));
        let fine = runs.len();
        runs.coarsen(4);
        runs.coarsen(4);
        let coarse: Vec<Run> = unpack(runs.bytes()).collect();
        assert_eq!(coarse.iter().map(|run| run.results).sum::<u64>(), 1_002);
        assert!(coarse.len() <= 127 && runs.len() < fine / 7, "{}", coarse.len());
        assert_eq!(coarse[coarse.len() - 2], run(62, 93, 8));
    }

    #[test]
    fn jobs_that_take_turns_are_joined_each_with_its_own() {
        let mut runs = Runs::default();
        (0..3_000).for_each(|at| runs.push(run(at, at, 8 * (1 + at as u64 % 3))));
        runs.coarsen(1_000);
        let coarse: Vec<Run> = unpack(runs.bytes()).collect();
        assert_eq!(coarse.len(), 9);
        for (at, run) in coarse.iter().enumerate() {
            assert_eq!((run.ended, run.results / 3), (at as i64 / 3, 111), "{run:?}");
        }
    }

    #[test]
    fn jobs_can_move() {
        let mut runs = Runs::default();
        [run(0, 5, 8 + 3), run(2, 9, 16)].iter().for_each(|run| runs.push(*run));
        runs.replace_jobs(&[7, 0, 2]);
        assert_eq!(unpack(runs.bytes()).collect::<Vec<_>>(), [run(0, 5, 3), run(2, 9, 16)]);
    }

    #[test]
    fn cut_bytes_end_the_list() {
        let mut runs = Runs::default();
        runs.push(run(0, 300, 0));
        runs.push(run(0, 900, 0));
        let bytes = runs.bytes().to_vec();
        assert!((0..bytes.len()).all(|cut| unpack(&bytes[..cut]).count() < 2));
        assert_eq!(unpack(&[0xff; 40]).count(), 0);
    }
}
