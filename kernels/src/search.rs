//! The public face of the CPU search: checks what it is given and cuts a scan into pieces for the inner
//! loop. It knows no time; how long a chunk takes is an estimate written down in `chunk_units`.

use std::ops::Range;
use std::sync::OnceLock;

use starfarm_protocol::spec::Algorithm;

use crate::SearchError;
use crate::block::{Block, Words, digest_words};
use crate::digest::{ALL_WORDS, Digest};
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::path::Path;
use crate::run::{Found, Piece, Runner};
use crate::sha1::Sha1;
use crate::sha256::Sha256;
use crate::space::{Space, Step};
use crate::targets::{FEW_MAX, Own, Targets};

/// A candidate whose digest is one of the targets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hit {
    /// The candidate's unit.
    pub unit: u128,
    /// Which target, an index into the targets given to [`Search::new`].
    pub target: u32,
}

/// The targets that are equal to a digest.
type Find = fn(&Targets, &Words) -> Vec<u32>;
/// The targets of their own for a length of the space, if it is worth them.
type OwnOf = fn(&Targets, &Space, usize) -> Option<Own>;

/// A length that has more candidates for each target gets keys of its own, which are ready some steps earlier.
const OWN_FROM: u128 = 4096;
/// Most chunks of a sweep: a second or two of work at most.
const SWEEP_CHUNKS: u128 = 256;

/// A character space, the digests looked for in it, and the code that does it. It does not change while
/// it is used, so the slots of a worker share one.
pub struct Search {
    algorithm: Algorithm,
    pub(crate) space: Space,
    pub(crate) targets: Targets,
    /// Many targets for each length, where it is long enough; made when first needed.
    own: Vec<OnceLock<Option<Own>>>,
    own_of: OwnOf,
    find: Find,
    path: Path,
    runner: Runner,
    chunk: u128,
}

impl Search {
    /// Sets up a search on the fastest path of this processor.
    ///
    /// `positions` and `min` are those of [`starfarm_protocol::spec::Space::Chars`]: candidates have `min`
    /// to `positions.len()` bytes, shorter ones first, the last position turning fastest; an alphabet has
    /// 1 to 256 distinct bytes. The longest candidate has at most 55 bytes, with NTLM 27. `targets` are
    /// digests, without repeats (a repeated one is reported under each of its indices).
    ///
    /// # Errors
    /// Each [`SearchError`] but `NoPath`.
    pub fn new(
        algorithm: Algorithm,
        positions: &[Vec<u8>],
        min: usize,
        targets: &[Vec<u8>],
    ) -> Result<Search, SearchError> {
        let prepare = match algorithm {
            Algorithm::Md5 => prepare::<Md5>,
            Algorithm::Sha1 => prepare::<Sha1>,
            Algorithm::Sha256 => prepare::<Sha256>,
            Algorithm::Ntlm => prepare::<Ntlm>,
        };
        let (space, targets, find, own_of) = prepare(algorithm, positions, min, targets)?;
        let path = Path::best();
        let runner = path.runner(algorithm).ok_or(SearchError::NoPath(path))?;
        let own = (0..space.lengths()).map(|_| OnceLock::new()).collect();
        let chunk = chunk_units(algorithm, path);
        Ok(Search { algorithm, space, targets, own, own_of, find, path, runner, chunk })
    }

    /// The same search on a path of the caller's choice, for tests and measurements.
    ///
    /// # Errors
    /// [`SearchError::NoPath`] where this processor cannot run it.
    pub fn with_path(self, path: Path) -> Result<Search, SearchError> {
        let runner = path.runner(self.algorithm).ok_or(SearchError::NoPath(path))?;
        let chunk = chunk_units(self.algorithm, path);
        Ok(Search { path, runner, chunk, ..self })
    }

    /// Number of candidates, 1..=2^128 - 1.
    pub fn units(&self) -> u128 {
        self.space.units()
    }

    /// What a candidate's digest is computed by.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The targets that are equal to `digest`, ascending.
    pub(crate) fn find(&self, digest: &Words) -> Vec<u32> {
        (self.find)(&self.targets, digest)
    }

    /// The code path in use: `avx512`, `sha`, `avx2`, `neon` or `portable`.
    pub fn path(&self) -> &'static str {
        self.path.name()
    }

    /// Scans the units `[lo, hi)` and appends the hits in the order of their units. Every few
    /// milliseconds of work `keep_going` is given the first unit not yet scanned; when it answers false
    /// the scan ends there. It is not asked at `hi`.
    ///
    /// Units may be scanned in another order, up to some seconds' worth of them. Meanwhile `keep_going` is given none;
    /// when it answers false then, the scan ends before the first of them.
    ///
    /// Returns the first unit not scanned: `hi`, or where it was stopped. What lies behind the last unit
    /// of the space is passed over as if it held no hit.
    pub fn scan(
        &self,
        lo: u128,
        hi: u128,
        hits: &mut Vec<Hit>,
        keep_going: &mut dyn FnMut(Option<u128>) -> bool,
    ) -> u128 {
        let end = hi.min(self.units());
        let (mut next, mut blocks, mut found) = (lo, Vec::new(), Vec::new());
        while next < end {
            let step = self.space.step(next, end, self.chunk, self.chunk * SWEEP_CHUNKS);
            let before = hits.len();
            let runs = (self.chunk / step.combinations.len() as u128).max(1);
            let mut number = step.numbers.start;
            while number < step.numbers.end {
                let end = step.numbers.end.min(number + runs);
                self.search(&step, number..end, &mut blocks, &mut found);
                hits.extend(
                    found.drain(..).map(|f: Found| Hit {
                        unit: step.unit(number + f.run as u128, f.at),
                        target: f.target,
                    }),
                );
                number = end;
                if number < step.numbers.end && !keep_going(None) {
                    hits.truncate(before);
                    return next;
                }
            }
            hits[before..].sort_unstable();
            next = step.units.end;
            if next < end && !keep_going(Some(next)) {
                return next;
            }
        }
        hi.max(lo)
    }

    /// Searches some runs of a step.
    fn search(&self, step: &Step<'_>, numbers: Range<u128>, blocks: &mut Vec<Block>, found: &mut Vec<Found>) {
        let mut odometer = step.odometer(numbers.start);
        blocks.clear();
        for _ in numbers {
            blocks.push(odometer.block);
            odometer.advance();
        }
        let own = || (self.own_of)(&self.targets, &self.space, step.index);
        let own = self.own[step.index].get_or_init(own).as_ref();
        let (Range { start: from, end: to }, targets) = (step.combinations.clone(), &self.targets);
        let piece = Piece { blocks: blocks.as_slice(), tail: step.tail(), from, to, targets, own };
        (self.runner)(&piece, found);
    }
}

fn prepare<D: Digest>(
    algorithm: Algorithm,
    positions: &[Vec<u8>],
    min: usize,
    targets: &[Vec<u8>],
) -> Result<(Space, Targets, Find, OwnOf), SearchError> {
    // The keys of many targets are the same in any run, whatever its tail.
    let is_worth = targets.len() <= FEW_MAX && D::key_step(&ALL_WORDS) > 0;
    let key_step = is_worth.then_some(D::key_step as fn(&[usize]) -> usize);
    let space = Space::new(D::LAYOUT, positions, min, key_step)?;
    check_targets(algorithm, targets.iter().map(Vec::len))?;
    let digests: Vec<_> = targets.iter().map(|digest| digest_words(D::LAYOUT, digest)).collect();
    let find: Find = |targets, digest| targets.find::<D>(digest).collect();
    Ok((space, Targets::new::<D>(&digests), find, own::<D>))
}

fn own<D: Digest>(targets: &Targets, space: &Space, index: usize) -> Option<Own> {
    let (units, block, words) = space.varying(index);
    let is_earlier = D::key_step(&words) < D::key_step(&ALL_WORDS);
    let is_worth = units / OWN_FROM > targets.digests.len() as u128 && is_earlier;
    (targets.filter().is_some() && is_worth).then(|| Own::new::<D>(targets, &block, words))
}

/// Refuses digests, of so many bytes each, that cannot be looked for.
pub(crate) fn check_targets(
    algorithm: Algorithm,
    mut lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<(), SearchError> {
    let (targets, expected) = (lengths.len(), algorithm.digest_bytes());
    if let Some((target, length)) = (0..).zip(&mut lengths).find(|(_, length)| *length != expected) {
        return Err(SearchError::TargetLength { target, length, expected });
    }
    match targets {
        0 => Err(SearchError::NoTargets),
        targets if u32::try_from(targets).is_err() => Err(SearchError::TooManyTargets),
        _ => Ok(()),
    }
}

/// Candidates between two questions to `keep_going`: 2^20 where a core does some 300 million in a second,
/// fewer for slower algorithms and paths, so that it stays a few milliseconds.
fn chunk_units(algorithm: Algorithm, path: Path) -> u128 {
    let slower_algorithm = match algorithm {
        Algorithm::Md5 | Algorithm::Ntlm => 0,
        Algorithm::Sha1 => 1,
        Algorithm::Sha256 => 2,
    };
    let slower_path = match path {
        Path::Avx512 => 0,
        Path::Sha | Path::Avx2 => 1,
        Path::Neon | Path::Portable => 3,
    };
    1 << (20 - slower_algorithm - slower_path)
}
