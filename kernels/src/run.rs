//! The inner loop: a piece of a run, batch by batch, generic over algorithm and vector. Where the piece
//! comes from is `space`'s business; which processor features are on is decided by the caller.

use crate::block::Block;
use crate::digest::{ALL_WORDS, Digest};
use crate::lanes::{LANES_MAX, Lanes};
use crate::tail::Tail;
use crate::targets::{Bitmap, FEW_MAX, Targets};

/// Candidates that differ in their tail only.
pub(crate) struct Piece<'a> {
    /// The block, zeros where the tail changes.
    pub(crate) block: Block,
    /// The tail's table.
    pub(crate) tail: &'a Tail,
    /// First combination of the tail.
    pub(crate) from: usize,
    /// End, exclusive, at most the tail's size.
    pub(crate) to: usize,
    /// What is looked for.
    pub(crate) targets: &'a Targets,
}

/// A combination of the tail whose candidate has a target's digest.
pub(crate) struct Found {
    /// Which combination.
    pub(crate) at: usize,
    /// Which target.
    pub(crate) target: u32,
}

/// Scans a piece and appends what it finds, in order.
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
    let mut run = D::start::<V>(&piece.block, words);
    let mut aims = [V::splat(0); FEW_MAX];
    let digests = &piece.targets.digests;
    for (aim, digest) in aims.iter_mut().zip(digests) {
        *aim = V::splat(D::aim(&piece.block, words, digest));
    }
    let aims = &aims[..digests.len()];
    for at in (piece.from..piece.to).step_by(V::LANES) {
        load::<D, V>(&mut run, piece, at);
        let keys = D::key(&run);
        let mut some = 0;
        for aim in aims {
            some |= keys.matches(*aim);
        }
        if some != 0 {
            // Once in some 2^32 candidates by chance: no need to know which lanes it was.
            for at in at..at + V::LANES {
                confirm::<D>(piece, at, found);
            }
        }
    }
}

/// Many targets: the keys of a batch go through the bitmap one by one.
#[inline(always)]
fn scan_many<D: Digest, V: Lanes>(piece: &Piece<'_>, bitmap: &Bitmap, found: &mut Vec<Found>) {
    let mut run = D::start::<V>(&piece.block, &ALL_WORDS);
    let mut keys = [0; LANES_MAX];
    for first in (piece.from..piece.to).step_by(V::LANES) {
        load::<D, V>(&mut run, piece, first);
        D::key(&run).store(&mut keys);
        for (part, keys) in keys[..V::LANES].chunks(64).enumerate() {
            let mut lanes = 0u64;
            for (lane, key) in keys.iter().enumerate() {
                lanes |= bitmap.bit(*key) << lane;
            }
            if lanes != 0 {
                sift::<D>(piece, first + 64 * part, lanes, keys, found);
            }
        }
    }
}

/// Loads the words of the batch that begins at combination `at`.
#[inline(always)]
fn load<D: Digest, V: Lanes>(run: &mut D::Run<V>, piece: &Piece<'_>, at: usize) {
    for (word, table) in piece.tail.words.iter().zip(&piece.tail.tables) {
        let word = *word & 15;
        D::set(run, word, V::load(&table[at..]).or(V::splat(piece.block[word])));
    }
}

/// Confirms the lanes whose whole key is a target's; the bitmap has seen its leading bits only.
#[inline(never)]
fn sift<D: Digest>(piece: &Piece<'_>, first: usize, mut lanes: u64, keys: &[u32], found: &mut Vec<Found>) {
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        if piece.targets.has_key(keys[lane]) {
            confirm::<D>(piece, first + lane, found);
        }
    }
}

/// Computes the whole digest of a candidate and looks it up.
#[cold]
#[inline(never)]
fn confirm<D: Digest>(piece: &Piece<'_>, at: usize, found: &mut Vec<Found>) {
    if at >= piece.to {
        // A lane past the piece's end: it belongs to the next piece, or to the table's padding.
        return;
    }
    let mut block = piece.block;
    for (word, table) in piece.tail.words.iter().zip(&piece.tail.tables) {
        block[*word] |= table[at];
    }
    found.extend(piece.targets.find::<D>(&D::digest(&block)).map(|target| Found { at, target }));
}
