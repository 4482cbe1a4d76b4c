//! The inner loop: pieces of runs, batch by batch, generic over algorithm and vector. Where the pieces
//! come from is `space`'s business; which processor features are on is decided by the caller.

use std::marker::PhantomData;

use crate::block::Block;
use crate::digest::{ALL_WORDS, Beside, Digest};
use crate::lanes::{LANES_MAX, Lanes};
use crate::tail::Tail;
use crate::targets::{Bitmap, FEW_MAX, Filter, Keys, Own, Sieve, Targets};

/// Candidates of some runs of one length.
pub(crate) struct Piece<'a> {
    /// The block of each run, zeros where the tail changes.
    pub(crate) blocks: &'a [Block],
    /// The tail's table.
    pub(crate) tail: &'a Tail,
    /// First combination of the tail, of each run.
    pub(crate) from: usize,
    /// End, exclusive, at most the tail's size.
    pub(crate) to: usize,
    /// What is looked for.
    pub(crate) targets: &'a Targets,
    /// By keys of these candidates' length, if they have their own.
    pub(crate) own: Option<&'a Own>,
}

/// A candidate that has a target's digest.
pub(crate) struct Found {
    /// Which run.
    pub(crate) run: usize,
    /// Which combination of the tail.
    pub(crate) at: usize,
    /// Which target.
    pub(crate) target: u32,
}

/// Scans a piece and appends what it finds, in no order.
pub(crate) type Runner = fn(&Piece<'_>, &mut Vec<Found>);

/// Scans a piece. Inlined into each code path's entry, which has the processor's features switched on.
#[inline(always)]
pub(crate) fn scan<D: Digest, V: Lanes>(piece: &Piece<'_>, found: &mut Vec<Found>) {
    match (piece.own, piece.targets.filter()) {
        (Some(own), _) => scan_many::<D, V>(piece, &own.filter, &own.keys, &own.words, found),
        (None, Some(filter)) => scan_many::<D, V>(piece, filter, piece.targets.plain(), &ALL_WORDS, found),
        (None, None) => scan_few::<D, V>(piece, found),
    }
}

/// Few targets: one comparison each, with the last steps taken back as far as this run allows.
#[inline(always)]
fn scan_few<D: Digest, V: Lanes>(piece: &Piece<'_>, found: &mut Vec<Found>) {
    let words = &piece.tail.words;
    let digests = &piece.targets.digests;
    let mut aims = vec![[0; FEW_MAX]; piece.blocks.len()];
    for (aims, block) in aims.iter_mut().zip(piece.blocks) {
        for (aim, digest) in aims.iter_mut().zip(digests) {
            *aim = D::aim(block, words, digest);
        }
    }
    let targets = digests.len().min(FEW_MAX);
    for_each_batch::<D, V>(piece, words, &mut Few { piece, aims, targets, found });
}

/// Many targets: the keys of a batch go through the sieve one by one, while those of the next are computed.
#[inline(always)]
fn scan_many<D: Digest, V: Lanes>(
    piece: &Piece<'_>,
    filter: &Filter,
    wanted: &Keys,
    key_words: &[usize],
    found: &mut Vec<Found>,
) {
    let lookups = LookUps::new(&filter.sieve);
    let passed = [Passed { key: 0, run: 0, at: 0 }; TOGETHER];
    let mut many =
        Many { piece, bitmap: &filter.bitmap, wanted, lookups, before: None, passed, count: 0, found };
    for_each_batch::<D, V>(piece, key_words, &mut many);
    many.collect();
    sift::<D>(&mut many.passed[..many.count], many.bitmap, many.wanted, piece, many.found);
}

/// What becomes of the batches. No closure, which would not melt into the function that has the processor's features.
trait Batches<D: Digest, V: Lanes> {
    /// The next batch, of the run `run`, from the tail's combination `at` on.
    fn each(&mut self, batch: &D::Batch<V>, fixed: &D::Fixed, run: usize, at: usize);
}

/// Gives `batches` every batch of every run.
#[inline(always)]
fn for_each_batch<D: Digest, V: Lanes>(
    piece: &Piece<'_>,
    key_words: &[usize],
    batches: &mut impl Batches<D, V>,
) {
    let words = &piece.tail.words;
    let mut batch = D::start::<V>(words, key_words);
    let (mut runs, mut changed) = (Vec::with_capacity(D::RUNS), ALL_WORDS.to_vec());
    let mut before = None;
    for (first, blocks) in piece.blocks.chunks(D::RUNS).enumerate() {
        runs.clear();
        runs.extend(blocks.iter().map(|block| D::fixed(block, words)));
        // What is not set for each batch must be that of the first run.
        differing(before, &blocks[..1], words, &mut changed);
        D::set(&mut batch, &runs[0], &changed);
        differing(blocks.first(), blocks, words, &mut changed);
        before = blocks.last();
        for at in (piece.from..piece.to).step_by(V::LANES) {
            for (word, table) in words.iter().zip(&piece.tail.tables) {
                D::turn(&mut batch, *word, V::load(&table[at..]));
            }
            D::turned(&mut batch);
            for (run, fixed) in runs.iter().enumerate() {
                D::set(&mut batch, fixed, words);
                D::set(&mut batch, fixed, &changed);
                batches.each(&batch, fixed, first * D::RUNS + run, at);
            }
        }
    }
}

/// The words, beside the tail's, in which some of the blocks differ from `before`; all if there is none.
#[inline(never)]
fn differing(before: Option<&Block>, blocks: &[Block], tail: &[usize], differing: &mut Vec<usize>) {
    differing.clear();
    differing.extend(ALL_WORDS.into_iter().filter(|word| {
        let is_other = |before: &Block| blocks.iter().any(|block| block[*word] != before[*word]);
        !tail.contains(word) && before.is_none_or(is_other)
    }));
}

struct Few<'a> {
    piece: &'a Piece<'a>,
    /// For each run the keys that are looked for.
    aims: Vec<[u32; FEW_MAX]>,
    targets: usize,
    found: &'a mut Vec<Found>,
}

impl<D: Digest, V: Lanes> Batches<D, V> for Few<'_> {
    #[inline(always)]
    fn each(&mut self, batch: &D::Batch<V>, fixed: &D::Fixed, run: usize, at: usize) {
        let keys = D::key(batch, fixed, &mut ());
        let mut some = 0;
        for aim in &self.aims[run][..self.targets] {
            some |= keys.matches(V::splat(*aim));
        }
        if some != 0 {
            // Once in some 2^32 candidates by chance: no need to know which lanes it was.
            for at in at..at + V::LANES {
                confirm::<D>(self.piece, run, at, self.found);
            }
        }
    }
}

struct Many<'a, D, V> {
    piece: &'a Piece<'a>,
    bitmap: &'a Bitmap,
    /// The keys that are looked for.
    wanted: &'a Keys,
    lookups: LookUps<'a, D, V>,
    /// Run and first combination of the batch whose keys these are.
    before: Option<(usize, usize)>,
    passed: [Passed; TOGETHER],
    count: usize,
    found: &'a mut Vec<Found>,
}

/// A candidate that has passed the sieve.
#[derive(Clone, Copy)]
struct Passed {
    key: u32,
    run: usize,
    at: usize,
}

/// How many are looked up in the bitmap together. It is far from the processor, which waits for many of its words as long as for
/// one, if it need not know what is in one before it asks for the next.
const TOGETHER: usize = 256;

impl<D: Digest, V: Lanes> Batches<D, V> for Many<'_, D, V> {
    #[inline(always)]
    fn each(&mut self, batch: &D::Batch<V>, fixed: &D::Fixed, run: usize, at: usize) {
        let keys = D::key(batch, fixed, &mut self.lookups);
        self.collect();
        self.lookups.begin(keys);
        self.before = Some((run, at));
    }
}

impl<D: Digest, V: Lanes> Many<'_, D, V> {
    /// Takes those of the batch before that have passed.
    #[inline(always)]
    fn collect(&mut self) {
        let Some((run, first)) = self.before else { return };
        let mut lanes = self.lookups.finish();
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize % LANES_MAX;
            lanes &= lanes - 1;
            self.passed[self.count % TOGETHER] =
                Passed { key: self.lookups.keys[lane], run, at: first + lane };
            self.count += 1;
        }
        if self.count > TOGETHER - LANES_MAX {
            let count = std::mem::take(&mut self.count);
            sift::<D>(&mut self.passed[..count], self.bitmap, self.wanted, self.piece, self.found);
        }
    }
}

/// Confirms those whose whole key is looked for.
#[inline(never)]
fn sift<D: Digest>(
    passed: &mut [Passed],
    bitmap: &Bitmap,
    wanted: &Keys,
    piece: &Piece<'_>,
    found: &mut Vec<Found>,
) {
    // No branch waits for the bitmap.
    let mut count = 0;
    for at in 0..passed.len() {
        passed[count] = passed[at];
        count += bitmap.bit(passed[count].key) as usize;
    }
    for Passed { key, run, at } in &passed[..count] {
        if wanted.has(*key) {
            confirm::<D>(piece, *run, *at, found);
        }
    }
}

/// The look-ups of a batch's keys in the sieve. Nothing but the fetching of its words is left to be done for each key alone.
struct LookUps<'a, D, V> {
    sieve: &'a Sieve,
    keys: [u32; LANES_MAX],
    /// The bits that each key must have.
    bits: V,
    /// Which word of the sieve each key has, with room for a whole part behind the last one.
    wanted: [u32; 2 * LANES_MAX],
    /// The words that were fetched.
    fetched: [u32; 2 * LANES_MAX],
    /// How many.
    count: usize,
    of: PhantomData<D>,
}

impl<D: Digest, V: Lanes> Beside for LookUps<'_, D, V> {
    #[inline(always)]
    fn part(&mut self) {
        let at = self.count % LANES_MAX;
        let words = self.sieve.words();
        for place in at..at + Self::KEYS {
            self.fetched[place] = words[self.wanted[place] as usize];
        }
        self.count = at + Self::KEYS;
    }
}

impl<'a, D: Digest, V: Lanes> LookUps<'a, D, V> {
    /// Keys that are looked up in a part.
    const KEYS: usize = V::LANES.div_ceil(D::PARTS);

    #[inline(always)]
    fn new(sieve: &'a Sieve) -> Self {
        let (wanted, fetched) = ([0; 2 * LANES_MAX], [0; 2 * LANES_MAX]);
        Self { sieve, keys: [0; LANES_MAX], bits: V::splat(0), wanted, fetched, count: 0, of: PhantomData }
    }
    /// The next batch.
    #[inline(always)]
    fn begin(&mut self, keys: V) {
        keys.store(&mut self.keys);
        self.sieve.word_of(keys).store(&mut self.wanted);
        self.bits = Sieve::bits_of(keys);
        self.count = 0;
    }
    /// Fetches what was not yet. A bit for each lane that has passed.
    #[inline(always)]
    fn finish(&mut self) -> u128 {
        while self.count < V::LANES {
            self.part();
        }
        V::load(&self.fetched).and(self.bits).equal(self.bits)
    }
}

/// Computes the whole digest of a candidate and looks it up.
#[cold]
#[inline(never)]
fn confirm<D: Digest>(piece: &Piece<'_>, run: usize, at: usize, found: &mut Vec<Found>) {
    if at >= piece.to {
        // A lane past the piece's end: it belongs to the next piece, or to the table's padding.
        return;
    }
    let mut block = piece.blocks[run];
    for (word, table) in piece.tail.words.iter().zip(&piece.tail.tables) {
        block[*word] |= table[at];
    }
    found.extend(piece.targets.find::<D>(&D::digest(&block)).map(|target| Found { run, at, target }));
}
