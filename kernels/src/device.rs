//! A search as a device runs it: the text of its program, what the program is given, and where each launch begins. Plain data:
//! who compiles and launches is elsewhere. The program's own side of this is in `cl/search.cl`.

use std::fmt::Write as _;
use std::ops::Range;

use starfarm_protocol::spec::Algorithm;

use crate::block::{Block, Layout, Words};
use crate::digest::{ALL_WORDS, Digest};
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::search::{Hit, Search};
use crate::sha1::Sha1;
use crate::sha256::Sha256;
use crate::space::Step;
use crate::targets::FEW_MAX;

/// The part of the program that all algorithms share.
const SHARED: &str = include_str!("../cl/search.cl");
/// What the algorithm's own part builds on.
const VECTORS: &str = include_str!("../cl/vectors.cl");

/// Fewest and most bits of the sieve: 4 KiB, and 1 MiB, which is half of a core's second cache.
const SIEVE_BITS_MIN: usize = 1 << 15;
const SIEVE_BITS_MAX: usize = 1 << 23;

/// What depends on the algorithm.
struct Facts {
    source: &'static str,
    layout: Layout,
    /// The step whose outcome is the key, where these words change in a run; 0 where it is always the same.
    key_step: fn(&[usize]) -> usize,
    digest: fn(&Block) -> Words,
    next_aim: fn(&Words) -> u32,
}

fn facts(algorithm: Algorithm) -> Facts {
    fn of<D: Digest>(source: &'static str) -> Facts {
        Facts { source, layout: D::LAYOUT, key_step: D::key_step, digest: D::digest, next_aim: D::next_aim }
    }
    match algorithm {
        Algorithm::Md5 => of::<Md5>(include_str!("../cl/md5.cl")),
        Algorithm::Ntlm => of::<Ntlm>(include_str!("../cl/ntlm.cl")),
        Algorithm::Sha1 => of::<Sha1>(include_str!("../cl/sha1.cl")),
        Algorithm::Sha256 => of::<Sha256>(include_str!("../cl/sha256.cl")),
    }
}

/// Units that a device searches next, all with one tail: some combinations of it in each of some runs.
pub struct Stretch<'a>(Step<'a>);

impl<'a> Stretch<'a> {
    /// The units.
    pub fn units(&self) -> Range<u128> {
        self.0.units.clone()
    }

    /// Bytes of the candidates, and the tail's positions: stretches of one kind share program and tables.
    pub fn kind(&self) -> (usize, Range<usize>) {
        (self.0.length(), self.0.cut().inside())
    }

    /// How many runs there are.
    pub fn runs(&self) -> u128 {
        self.0.numbers.end - self.0.numbers.start
    }

    /// Combinations of the tail, which a run turns through, 1 to 65 536.
    pub fn tail(&self) -> usize {
        self.0.cut().size
    }

    /// Which of them belong to the stretch.
    pub fn combinations(&self) -> Range<usize> {
        self.0.combinations.clone()
    }

    /// What each combination adds to each word that changes; the tables are as long as each other, and padded.
    pub fn tables(&self) -> &'a [Vec<u32>] {
        &self.0.tail().tables
    }

    /// For each position outside the tail: how many symbols it has, and which of them it has in the run `run`.
    pub fn digits(&self, run: u128) -> Vec<[u32; 2]> {
        self.0.odometer(self.0.numbers.start + run).digits().collect()
    }

    /// The unit of a combination of the tail in the run `run`.
    pub fn unit(&self, run: u128, combination: usize) -> u128 {
        self.0.unit(self.0.numbers.start + run, combination)
    }
}

/// The digests as the program is given them.
pub struct DeviceTargets<'a> {
    /// Of few targets eight words each, of many their keys, sorted, each with the outcome of the step behind.
    pub words: Vec<u32>,
    /// Of many: where the keys with the same leading bits begin.
    pub starts: &'a [u32],
    /// How far a key is moved right to get these.
    pub starts_shift: u32,
    /// Of many: a bit for each value of a key's leading bits.
    pub bitmap: &'a [u64],
    /// How far a key is moved right to get these.
    pub bitmap_shift: u32,
    /// Of many: a bit for each value of a key's last bits, in a table so small that it stays near the processor.
    pub sieve: Vec<u32>,
}

/// The sieve of these keys.
fn sieve(keys: &[u32]) -> Vec<u32> {
    let bits = (keys.len() * 32).next_power_of_two().clamp(SIEVE_BITS_MIN, SIEVE_BITS_MAX);
    let mut sieve = vec![0; bits / 32];
    for key in keys {
        let bit = *key as usize & (bits - 1);
        sieve[bit / 32] |= 1 << (bit % 32);
    }
    sieve
}

impl Search {
    /// About `chunk` of the units from `lo` on, below `hi`, which is at most [`Search::units`] and above `lo`. They are not
    /// searched in their order where up to `sweep_max` can be had cheaper in another.
    pub fn stretch(&self, lo: u128, hi: u128, chunk: u128, sweep_max: u128) -> Stretch<'_> {
        Stretch(self.space.step(lo, hi, chunk, sweep_max))
    }

    /// The end of the units from `lo` on whose stretches are of one kind.
    pub fn stretches_end(&self, lo: u128, hi: u128, sweep_max: u128) -> u128 {
        self.space.part_end(lo, hi, sweep_max)
    }

    /// The alphabet of each position.
    pub fn alphabets(&self) -> &[Vec<u8>] {
        self.space.positions()
    }

    /// What the program of any length looks for.
    pub fn device_targets(&self) -> DeviceTargets<'_> {
        let targets = &self.targets;
        let (starts, starts_shift) = targets.plain().starts();
        match targets.filter() {
            None => {
                let words = targets.digests.iter().flatten().copied().collect();
                DeviceTargets {
                    words,
                    starts: &[],
                    starts_shift,
                    bitmap: &[],
                    bitmap_shift: 0,
                    sieve: vec![0],
                }
            }
            Some(filter) => {
                let (bits, bitmap_shift) = filter.bitmap.parts();
                let next_aim = facts(self.algorithm()).next_aim;
                let keys = targets.plain().keys().iter().zip(&targets.digests);
                let words = keys.flat_map(|(key, digest)| [*key, next_aim(digest)]).collect();
                let sieve = sieve(targets.plain().keys());
                DeviceTargets { words, starts, starts_shift, bitmap: bits, bitmap_shift, sieve }
            }
        }
    }

    /// The program in OpenCL C for the candidates of a stretch's length, with vectors of `width` of them.
    pub fn program(&self, stretch: &Stretch<'_>, width: usize) -> String {
        let facts = facts(self.algorithm());
        let few = self.targets.digests.len() <= FEW_MAX;
        // What the steps behind the key's need not be computed for is known of few targets alone.
        let Stretch(step) = stretch;
        let (length, tail, inside) = (step.length(), step.tail(), step.cut().inside());
        let key_words: &[usize] = if few { &tail.words } else { &ALL_WORDS };
        let mut head = String::new();
        let mut define = |name: &str, value: &str| {
            // A String takes whatever is written to it.
            let _ = writeln!(head, "#define {name} {value}");
        };
        // The steps of SHA-1 and SHA-256 have enough to do beside the one that waits.
        let is_chain = matches!(self.algorithm(), Algorithm::Md5 | Algorithm::Ntlm);
        let flight = if is_chain && width > 1 { 2 } else { 1 };
        let vector = if width == 1 { "uint".to_owned() } else { format!("uint{width}") };
        define("V", &vector);
        define("WIDTH", &width.to_string());
        define("FLIGHT", &flight.to_string());
        let words = || (0..16).flat_map(|word| (0..flight).map(move |of| (word, of)));
        let list = |of: &dyn Fn((usize, usize)) -> String| words().map(of).collect::<Vec<_>>().join(", ");
        let kind = |word| if tail.words.contains(&word) { "V" } else { "uint" };
        define("PARAMS", &list(&|(word, of)| format!("{} w{word}_{of}", kind(word))));
        define("ARGS", &list(&|(word, of)| format!("w{word}_{of}")));
        let block: Vec<String> = step.shared().iter().map(|word| format!("0x{word:x}u")).collect();
        define("BLOCK", &format!("{{{}}}", block.join(", ")));
        let load = |(word, of)| match tail.words.iter().position(|changing| *changing == word) {
            Some(table) => {
                format!(
                    "V w{word}_{of} = w[{word}] | VLOAD(tables + {table} * stride + (at) + {of} * WIDTH);"
                )
            }
            None => format!("uint w{word}_{of} = w[{word}];"),
        };
        define("WORDS(at)", &words().map(load).collect::<Vec<_>>().join(" "));
        define("OUTSIDE", &step.cut().outside(length).count().to_string());
        define("HEAD", &inside.start.to_string());
        define("TAIL", &inside.len().to_string());
        define("STRIDE", &facts.layout.stride.to_string());
        define("BIG_ENDIAN", &u8::from(facts.layout.big_endian).to_string());
        define("KEY_STEP", &(facts.key_step)(key_words).to_string());
        define("TARGETS", &if few { self.targets.digests.len() } else { 0 }.to_string());
        head + VECTORS + facts.source + SHARED
    }

    /// Whether the candidate of `unit`, which a device has named, has a target's digest: the hits that it makes are appended.
    pub fn confirm(&self, unit: u128, hits: &mut Vec<Hit>) {
        let digest = (facts(self.algorithm()).digest)(&self.space.block(unit));
        hits.extend(self.find(&digest).into_iter().map(|target| Hit { unit, target }));
    }
}
