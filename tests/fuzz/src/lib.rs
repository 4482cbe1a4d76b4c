//! Every reader of bytes that others wrote is shown mutants of good ones: it must not panic, nor take memory out of
//! proportion to what it reads, and what it reads it must be able to write again. Which readers there are is in the tests.
//!
//! All is drawn from a seed: the same seed makes the same mutants. `FUZZ_ROUNDS` is how often as many mutants are made as
//! usual, `FUZZ_SEED` where to begin. An input that failed once is kept in `tests/seeds/bytes`, as hexadecimal digits in a
//! file `READER-STORY.hex`, and shown each time.

mod allocator;
mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::{from_hex, to_hex};

pub use mutate::Mutator;

/// Bytes that a reader may take for itself, and for each byte that it reads.
const BASE_BYTES: usize = 256 << 10;
const BYTES_A_BYTE: usize = 64;
/// Bytes that it may take in sum, given back or not: a reader that copies all for each part shows here.
const SUM_TIMES: usize = 16;

/// Shows `read` the good inputs, those that failed once, and `count` mutants.
///
/// # Panics
/// `read` did, or took too much memory: with the seed, and the shortest input for which it does.
pub fn show(name: &str, good: &[Vec<u8>], count: u64, read: impl Fn(&[u8])) {
    assert!(good.len() > 1, "{name}: mutants need two parents");
    let from = number("FUZZ_SEED").unwrap_or(1);
    for (file, input) in kept(name) {
        check(&read, &input).unwrap_or_else(|why| panic!("{name}, {}: {why}", file.display()));
    }
    for input in good {
        check(&read, input).unwrap_or_else(|why| panic!("{name}, a good input: {why}\n{}", to_hex(input)));
    }
    for seed in from..from + count * number("FUZZ_ROUNDS").unwrap_or(1) {
        let input = Mutator::new(seed).mutant(good);
        if let Err(why) = check(&read, &input) {
            let shortest = shorten(input, |input| check(&read, input).is_err());
            panic!("{name}, FUZZ_SEED={seed}: {why}\nshortest input that fails:\n{}", to_hex(&shortest));
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The inputs that failed once.
fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/bytes");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.file_name().is_some_and(|of| of.to_string_lossy().starts_with(&format!("{name}-")))
    });
    files.sort();
    files.into_iter().map(|path| (path.clone(), hex_file(&path))).collect()
}

/// The bytes of a file of hexadecimal digits with blanks and line ends between them.
///
/// # Panics
/// It cannot be read.
pub fn hex_file(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let digits: String = text.split_whitespace().collect();
    from_hex(&digits).unwrap_or_else(|| panic!("{} does not consist of hexadecimal digits", path.display()))
}

fn check(read: impl Fn(&[u8]), input: &[u8]) -> Result<(), String> {
    let (outcome, taken) = allocator::watch(|| catch_unwind(AssertUnwindSafe(|| read(input))));
    let most = BASE_BYTES + BYTES_A_BYTE * input.len();
    match outcome {
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
            let Some(words) = words else { resume_unwind(panic) };
            Err(words.to_owned())
        }
        Ok(()) if taken.peak > most => {
            Err(format!("{} bytes of memory for {} of input", taken.peak, input.len()))
        }
        Ok(()) if taken.sum > most * SUM_TIMES => {
            Err(format!("{} bytes of memory in sum for {} of input", taken.sum, input.len()))
        }
        Ok(()) => Ok(()),
    }
}

/// A shorter input that fails as well: as long as a piece can be left out, it is.
fn shorten(mut input: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut piece = input.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < input.len() {
            let end = (at + piece).min(input.len());
            let shorter = [&input[..at], &input[end..]].concat();
            if fails(&shorter) { input = shorter } else { at = end }
        }
        piece /= 2;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, read: impl Fn(&[u8])) -> String {
        let good = [b"hello, world".to_vec(), b"0123456789".to_vec()];
        let shown = catch_unwind(AssertUnwindSafe(|| show(name, &good, 2_000, read)));
        *shown.expect_err("it fails").downcast::<String>().expect("in words")
    }

    #[test]
    fn a_reader_that_panics_is_told_with_the_shortest_input() {
        let told = says("panics", |input| assert!(!input.contains(&0xff), "0xff"));
        assert!(told.starts_with("panics, FUZZ_SEED=") && told.ends_with("\nff"), "{told}");
    }

    #[test]
    fn a_reader_that_takes_what_a_length_says_is_told() {
        let told = says("greedy", |input| {
            let length = input.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            drop(std::hint::black_box(Vec::<u8>::with_capacity(length as usize % (1 << 28))));
        });
        assert!(told.contains("bytes of memory"), "{told}");
    }

    #[test]
    fn a_reader_that_copies_all_for_each_byte_is_told() {
        let told = says("quadratic", |input| {
            (0..input.len()).for_each(|_| drop(std::hint::black_box(vec![0_u8; input.len() * 64])));
        });
        assert!(told.contains("in sum"), "{told}");
    }
}
