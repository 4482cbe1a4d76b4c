//! The inner loop: pieces of runs, batch by batch, generic over algorithm and vector. Where the pieces
//! come from is `space`'s business; which processor features are on is decided by the caller.

use std::marker::PhantomData;

use crate::block::Block;
use crate::digest::{ALL_WORDS, Beside, Digest};
use crate::lanes::{LANES_MAX, Lanes};
use crate::tail::Tail;
use crate::targets::{Bitmap, FEW_MAX, Targets};

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
}

/// A candidate that has a target's digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    match piece.targets.bitmap() {
        Some(bitmap) => scan_many::<D, V>(piece, bitmap, found),
        None => scan_few::<D, V>(piece, found),
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

/// Many targets: the keys of a batch go through the bitmap one by one, while those of the next are computed.
#[inline(always)]
fn scan_many<D: Digest, V: Lanes>(piece: &Piece<'_>, bitmap: &Bitmap, found: &mut Vec<Found>) {
    let mut many = Many { piece, sieve: Sieve::new(bitmap), before: None, found };
    for_each_batch::<D, V>(piece, &ALL_WORDS, &mut many);
    many.sift_before();
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
    for (first, blocks) in piece.blocks.chunks(D::RUNS).enumerate() {
        let (fixed, changing) = fixed::<D>(blocks, words);
        D::set(&mut batch, &fixed[0], &ALL_WORDS);
        for at in (piece.from..piece.to).step_by(V::LANES) {
            for (word, table) in words.iter().zip(&piece.tail.tables) {
                D::turn(&mut batch, *word, V::load(&table[at..]));
            }
            D::turned(&mut batch);
            for (run, fixed) in fixed.iter().enumerate() {
                D::set(&mut batch, fixed, &changing);
                batches.each(&batch, fixed, first * D::RUNS + run, at);
            }
        }
    }
}

/// The runs' own parts, and the words that are not the same in all candidates of all of them.
#[inline(never)]
fn fixed<D: Digest>(blocks: &[Block], tail_words: &[usize]) -> (Vec<D::Fixed>, Vec<usize>) {
    let changes = |word: &usize| {
        tail_words.contains(word) || blocks.iter().any(|block| block[*word] != blocks[0][*word])
    };
    (
        blocks.iter().map(|block| D::fixed(block, tail_words)).collect(),
        ALL_WORDS.into_iter().filter(changes).collect(),
    )
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
    sieve: Sieve<'a, D, V>,
    /// Run and first combination of the batch whose keys are in the sieve.
    before: Option<(usize, usize)>,
    found: &'a mut Vec<Found>,
}

impl<D: Digest, V: Lanes> Batches<D, V> for Many<'_, D, V> {
    #[inline(always)]
    fn each(&mut self, batch: &D::Batch<V>, fixed: &D::Fixed, run: usize, at: usize) {
        let keys = D::key(batch, fixed, &mut self.sieve);
        self.sift_before();
        self.sieve.begin(keys);
        self.before = Some((run, at));
    }
}

impl<D: Digest, V: Lanes> Many<'_, D, V> {
    #[inline(always)]
    fn sift_before(&mut self) {
        if let Some(before) = self.before {
            sift::<D>(self.piece, before, self.sieve.finish(), self.found);
        }
    }
}

/// The look-ups of a batch's keys.
struct Sieve<'a, D, V> {
    bitmap: &'a Bitmap,
    keys: [u32; LANES_MAX],
    /// Lanes that were looked up.
    at: usize,
    /// Those of them that have passed.
    passed: [u8; LANES_MAX],
    count: usize,
    of: PhantomData<(D, V)>,
}

impl<D: Digest, V: Lanes> Beside for Sieve<'_, D, V> {
    #[inline(always)]
    fn part(&mut self) {
        for _ in 0..V::LANES.div_ceil(D::PARTS) {
            self.one();
        }
    }
}

impl<'a, D: Digest, V: Lanes> Sieve<'a, D, V> {
    #[inline(always)]
    fn new(bitmap: &'a Bitmap) -> Self {
        Self { bitmap, keys: [0; LANES_MAX], at: 0, passed: [0; LANES_MAX], count: 0, of: PhantomData }
    }
    /// The next batch.
    #[inline(always)]
    fn begin(&mut self, keys: V) {
        keys.store(&mut self.keys);
        (self.at, self.count) = (0, 0);
    }
    /// The look-up of a lane, or of what lies behind the last one.
    #[inline(always)]
    fn one(&mut self) {
        // A branch would be guessed wrong too often.
        self.passed[self.count % LANES_MAX] = self.at as u8;
        self.count += self.bitmap.bit(self.keys[self.at % LANES_MAX]) as usize;
        self.at += 1;
    }
    /// The lanes that have passed, and perhaps some behind the last one; then the keys.
    #[inline(always)]
    fn finish(&mut self) -> (&[u8], &[u32]) {
        while self.at < V::LANES {
            self.one();
        }
        (&self.passed[..self.count.min(LANES_MAX)], &self.keys[..V::LANES])
    }
}

/// Confirms the lanes whose whole key is a target's; the bitmap has seen its leading bits only.
#[inline(never)]
fn sift<D: Digest>(
    piece: &Piece<'_>,
    (run, first): (usize, usize),
    (passed, keys): (&[u8], &[u32]),
    found: &mut Vec<Found>,
) {
    for lane in passed.iter().map(|lane| usize::from(*lane)) {
        if keys.get(lane).is_some_and(|key| piece.targets.has_key(*key)) {
            confirm::<D>(piece, run, first + lane, found);
        }
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
