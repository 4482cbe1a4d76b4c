//! Mutants of good inputs: what a broken or wicked writer may make of them.

use starfarm_protocol::random::SplitMix64;

/// Longest mutant.
const BYTES_MAX: usize = 64 << 10;
/// Changes to one mutant at most.
const CHANGES_MAX: u64 = 6;
/// What lengths, counts and indexes are wrong at.
const EDGES: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];
/// What texts are wrong at.
const WORDS: [&[u8]; 12] = [
    b"\x1b[2J",
    b"\0",
    b"\xff\xfe",
    "\u{202e}".as_bytes(),
    b"\"",
    b"\\",
    b"<![CDATA[",
    b"&#0;",
    b"null",
    b"18446744073709551616",
    b"-1",
    b"1e999",
];

/// Makes a mutant.
#[derive(Debug)]
pub struct Mutator(SplitMix64);

impl Mutator {
    /// The same seed makes the same mutant.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// A mutant of one of these, with parts of the others.
    pub fn mutant(&mut self, good: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.one_of(good).clone();
        for _ in 0..=self.0.below(CHANGES_MAX) {
            self.change(&mut bytes, good);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.0.below(all.len() as u64) as usize]
    }

    /// A place in `bytes`, its end included.
    fn place(&mut self, bytes: &[u8]) -> usize {
        self.0.below(bytes.len() as u64 + 1) as usize
    }

    /// A piece of `bytes`, mostly a short one.
    fn piece(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let at = self.place(bytes);
        let most = if self.0.below(4) == 0 { bytes.len() } else { 16 };
        let length = self.0.below(most as u64 + 1) as usize;
        at..(at + length).min(bytes.len())
    }

    fn change(&mut self, bytes: &mut Vec<u8>, good: &[Vec<u8>]) {
        let piece = self.piece(bytes);
        match self.0.below(9) {
            0 if !bytes.is_empty() => {
                let at = self.0.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.0.below(8);
            }
            1 => {
                let noise: Vec<u8> = piece.clone().map(|_| self.0.draw() as u8).collect();
                bytes.splice(piece, noise);
            }
            2 => drop(bytes.drain(piece)),
            3 => bytes.truncate(piece.start),
            4 => {
                // The same again, sometimes very often.
                let most = if self.0.below(8) == 0 { 4_096 } else { 3 };
                let times = 1 + self.0.below(most);
                let again = bytes[piece.clone()].repeat(times as usize);
                let room = BYTES_MAX.saturating_sub(bytes.len()).min(again.len());
                bytes.splice(piece.end..piece.end, again[..room].iter().copied());
            }
            5 => {
                let other = self.one_of(good);
                let from = self.piece(other);
                bytes.splice(piece, other[from].iter().copied());
            }
            6 => {
                let number = self.one_of(&EDGES).to_le_bytes();
                let width = *self.one_of(&[1, 2, 4, 8]);
                let end = (piece.start + width).min(bytes.len());
                bytes.splice(piece.start..end, number[..width].iter().copied());
            }
            7 => {
                let word = *self.one_of(&WORDS);
                bytes.splice(piece, word.iter().copied());
            }
            _ => {
                // A digit becomes another.
                let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    bytes[*self.one_of(&digits)] = b'0' + self.0.below(10) as u8;
                }
            }
        }
    }
}
