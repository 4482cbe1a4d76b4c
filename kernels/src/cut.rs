//! Where a candidate is cut: which of its positions turn in the inner loop, and which stay for a whole run.

use std::ops::Range;
use std::sync::OnceLock;

use crate::block::Layout;
use crate::digest::first_varying;
use crate::tail::{TAIL_MAX, Tail};

/// Candidates that an inner loop tests together, to judge how many of its last batch are none: those of MD5 on AVX-512.
const BATCH: usize = 80;
/// What a run costs before its first batch, and what a word that changes costs in each batch, in steps of a batch.
const RUN_STEPS: usize = 15;
const WORD_STEPS: usize = 2;
/// Small sweeps are better, since more of a task is whole sweeps: a cut counts as dearer by one part in so many for each time that
/// its sweep is twice as large.
const SWEEP_PART: usize = 200;
/// Most candidates of a sweep.
const SWEEP_MAX: u128 = 1 << 27;

/// The positions of a candidate in three: the head, the tail, which the inner loop turns, and the rest behind it.
pub(crate) struct Cut {
    /// The tail's positions.
    at: Range<usize>,
    /// Combinations of the tail, 1..=65 536.
    pub(crate) size: usize,
    /// Combinations of the rest. A combination of the tail is so many units behind the one before it.
    pub(crate) stride: u128,
    /// Made when it is first needed: a job of many lengths may never come to all of them.
    tail: OnceLock<Tail>,
}

impl Cut {
    /// No rest, and as long a tail as fits. It serves any interval of units: its runs are intervals themselves.
    pub(crate) fn last(positions: &[Vec<u8>]) -> Self {
        let mut size = 1;
        let fits = positions.iter().rev().take_while(|alphabet| {
            size *= alphabet.len();
            size <= TAIL_MAX
        });
        let start = positions.len() - fits.count();
        Self::new(positions, start..positions.len())
    }

    /// A tail whose words cost less, where there is one. It serves whole sweeps only. `key_step` tells up to which step a
    /// candidate's digest is computed if these words change.
    pub(crate) fn wide(
        layout: Layout,
        positions: &[Vec<u8>],
        last: &Cut,
        key_step: fn(&[usize]) -> usize,
    ) -> Option<Self> {
        let starts = (0..positions.len()).rev();
        let all = starts.flat_map(|start| (start + 1..positions.len()).map(move |end| start..end));
        let fits = all.filter(|at| {
            let tail = product(&positions[at.clone()]).is_some_and(|size| size <= TAIL_MAX as u128);
            tail && product(&positions[at.start..]).is_some_and(|sweep| sweep <= SWEEP_MAX)
        });
        let cost = |cut: &Cut| {
            let words = layout.words_of(cut.at.start, &positions[cut.inside()]);
            let steps = key_step(&words) + 1 - first_varying(&words) + WORD_STEPS * words.len();
            let run = steps * cut.size.div_ceil(BATCH) + RUN_STEPS;
            run * (SWEEP_PART + cut.sweep().ilog2() as usize) * TAIL_MAX / cut.size
        };
        let cheapest = fits.map(|at| Self::new(positions, at)).min_by_key(cost)?;
        (cost(&cheapest) < cost(last)).then_some(cheapest)
    }

    fn new(positions: &[Vec<u8>], at: Range<usize>) -> Self {
        let size = positions[at.clone()].iter().map(Vec::len).product();
        // No more than 2^128 - 1, which are all candidates.
        let stride = positions[at.end..].iter().map(|alphabet| alphabet.len() as u128).product();
        Self { at, size, stride, tail: OnceLock::new() }
    }

    /// Candidates with the same head: whole runs, which are no intervals of units unless there is no rest.
    pub(crate) fn sweep(&self) -> u128 {
        self.size as u128 * self.stride
    }

    /// The positions of candidates of `length` that are not the tail's.
    pub(crate) fn outside(&self, length: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        (0..self.at.start).chain(self.at.end..length)
    }

    /// The tail's positions.
    pub(crate) fn inside(&self) -> Range<usize> {
        self.at.clone()
    }

    /// The tail.
    pub(crate) fn tail(&self, layout: Layout, positions: &[Vec<u8>]) -> &Tail {
        self.tail.get_or_init(|| Tail::new(layout, self.at.start, &positions[self.inside()]))
    }
}

/// How many candidates there are over these positions; none from 2^128 on.
pub(crate) fn product(positions: &[Vec<u8>]) -> Option<u128> {
    positions.iter().try_fold(1u128, |n, alphabet| n.checked_mul(alphabet.len() as u128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::md5::Md5;
    use crate::ntlm::Ntlm;

    fn positions(sizes: &[usize]) -> Vec<Vec<u8>> {
        sizes.iter().map(|size| (0..*size).map(|byte| byte as u8).collect()).collect()
    }

    /// The wide cut of so many positions of that many symbols.
    fn wide<D: Digest>(symbols: usize, length: usize) -> Option<Range<usize>> {
        let positions = positions(&vec![symbols; length]);
        let last = Cut::last(&positions);
        Cut::wide(D::LAYOUT, &positions, &last, D::key_step).map(|cut| cut.inside())
    }

    #[test]
    fn the_last_tail_takes_what_fits() {
        let last = |sizes: &[usize]| Cut::last(&positions(sizes)).inside();
        assert_eq!(last(&[26, 26, 26, 26]), 1..4);
        assert_eq!(last(&[2, 256, 256]), 1..3);
        assert_eq!(last(&[256]), 0..1);
    }

    #[test]
    fn a_wide_tail_is_of_words_that_cost_few_steps() {
        // The third word of NTLM instead of the fourth.
        assert_eq!(wide::<Ntlm>(26, 8), Some(4..6));
        assert_eq!(wide::<Ntlm>(95, 8), Some(4..6));
        // The first word of MD5, and the second instead of the third.
        assert_eq!(wide::<Md5>(26, 6), Some(1..4));
        assert_eq!(wide::<Md5>(26, 9), Some(5..8));
        // A sweep of the second to fourth position would be too long.
        assert_eq!(wide::<Md5>(26, 7), None);
    }
}
