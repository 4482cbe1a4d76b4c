//! Character spaces: every string over an alphabet per position, shorter strings first, the last
//! position turning fastest. Masks such as `?l?d` are a job file's notation and are expanded there.

use starfarm_protocol::spec::HexBytes;

use crate::decomposer::{Decomposer, in_space, too_large};
use crate::error::ValueError;

/// The longest string, in bytes. With two characters or more a space is full at 127 positions, so this
/// only bounds literals and alphabets of one character.
pub const POSITIONS_MAX: usize = 4096;

/// A character space; see [`starfarm_protocol::spec::Space::Chars`].
#[derive(Clone, Debug)]
pub struct Chars {
    positions: Vec<Vec<u8>>,
    /// Shortest length, 1 or more.
    min: usize,
    /// `starts[i]` is the first unit of length `min + i`; the last entry is N.
    starts: Vec<u128>,
}

impl Chars {
    /// Strings of `min` to `positions.len()` bytes; byte i comes from alphabet i.
    ///
    /// # Errors
    /// No or too many positions, `min` out of range, an alphabet that is empty or repeats a byte, or
    /// more than 2^128 - 1 strings.
    pub fn new(positions: &[HexBytes], min: usize) -> Result<Self, String> {
        match positions.len() {
            0 => return Err("the space has no positions: give at least one character".into()),
            found if found > POSITIONS_MAX => {
                return Err(format!(
                    "the space has {found} positions; a candidate is at most {POSITIONS_MAX} bytes long: make it shorter"
                ));
            }
            max if min == 0 || min > max => {
                return Err(format!(
                    "the shortest length is {min} and the longest {max}: the shortest must be 1 or more and not above the \
                     longest"
                ));
            }
            _ => {}
        }
        for (i, alphabet) in positions.iter().enumerate() {
            check_alphabet(i + 1, &alphabet.0)?;
        }
        let starts = starts(positions, min).ok_or_else(|| too_large(&size_in_words(positions)))?;
        Ok(Self { positions: positions.iter().map(|p| p.0.clone()).collect(), min, starts })
    }
}

impl Decomposer for Chars {
    fn units(&self) -> u128 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
        in_space(unit, self.units())?;
        let length = self.starts.partition_point(|start| *start <= unit) - 1;
        let mut rest = unit - self.starts[length];
        let mut text = vec![0; self.min + length];
        for (byte, alphabet) in text.iter_mut().zip(&self.positions).rev() {
            let letters = alphabet.len() as u128;
            *byte = alphabet[(rest % letters) as usize];
            rest /= letters;
        }
        Ok(text)
    }
}

fn check_alphabet(position: usize, alphabet: &[u8]) -> Result<(), String> {
    if alphabet.is_empty() {
        return Err(format!("the alphabet of position {position} is empty: give at least one character"));
    }
    let mut seen = [false; 256];
    for &byte in alphabet {
        if std::mem::replace(&mut seen[usize::from(byte)], true) {
            return Err(format!(
                "the alphabet of position {position} holds {:?} twice, so candidates would repeat: remove one",
                char::from(byte)
            ));
        }
    }
    Ok(())
}

/// The first unit of each length, then N; `None` if N does not fit.
fn starts(positions: &[HexBytes], min: usize) -> Option<Vec<u128>> {
    let mut starts = vec![0];
    let (mut strings, mut total) = (1_u128, 0_u128);
    for (i, alphabet) in positions.iter().enumerate() {
        strings = strings.checked_mul(alphabet.0.len() as u128)?;
        if i + 1 >= min {
            total = total.checked_add(strings)?;
            starts.push(total);
        }
    }
    Some(starts)
}

/// The size of a space that is too large to count: shorter lengths add less than a power of ten.
fn size_in_words(positions: &[HexBytes]) -> String {
    let letters = || positions.iter().map(|alphabet| alphabet.0.len());
    let (fewest, most) = (letters().min().unwrap_or(0), letters().max().unwrap_or(0));
    let each = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    let exponent: f64 = letters().map(|letters| (letters as f64).log10()).sum();
    format!("{} positions of {each} characters make about 10^{exponent:.0} candidates", positions.len())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn alphabets(letters: &[&str]) -> Vec<HexBytes> {
        letters.iter().map(|l| HexBytes(l.as_bytes().to_vec())).collect()
    }

    fn all(space: &Chars) -> String {
        let value = |unit| String::from_utf8(space.value(unit).unwrap()).unwrap();
        (0..space.units()).map(value).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn refused(letters: &[&str], min: usize, expected: Expect) {
        expected.assert_eq(&Chars::new(&alphabets(letters), min).unwrap_err());
    }

    #[test]
    fn the_last_position_turns_fastest() {
        let space = Chars::new(&alphabets(&["ab", "xyz"]), 2).unwrap();
        expect!["ax ay az bx by bz"].assert_eq(&all(&space));
    }

    #[test]
    fn an_alphabet_keeps_its_own_order() {
        let space = Chars::new(&alphabets(&["zya"]), 1).unwrap();
        expect!["z y a"].assert_eq(&all(&space));
    }

    #[test]
    fn shorter_strings_come_first() {
        let space = Chars::new(&alphabets(&["ab", "ab", "ab"]), 1).unwrap();
        expect!["a b aa ab ba bb aaa aab aba abb baa bab bba bbb"].assert_eq(&all(&space));
        let space = Chars::new(&alphabets(&["a", "a", "a", "a"]), 2).unwrap();
        expect!["aa aaa aaaa"].assert_eq(&all(&space));
    }

    /// The unit whose value is `text`, worked out the other way round; `None` if no unit's is.
    fn index_of(space: &Chars, text: &[u8]) -> Option<u128> {
        let length = text.len().checked_sub(space.min).filter(|_| text.len() <= space.positions.len())?;
        let mut within = 0_u128;
        for (alphabet, byte) in space.positions.iter().zip(text) {
            let digit = alphabet.iter().position(|candidate| candidate == byte)?;
            within = within * alphabet.len() as u128 + digit as u128;
        }
        Some(space.starts[length] + within)
    }

    #[test]
    fn index_of_is_the_inverse_of_value() {
        let letters: Vec<u8> = (b' '..=b'~').collect();
        let ten = vec![HexBytes(letters); 10];
        let spaces =
            [Chars::new(&alphabets(&["ab", "xyz", "q", "01"]), 2).unwrap(), Chars::new(&ten, 1).unwrap()];
        for space in spaces {
            let n = space.units();
            let spread = (0..1000).map(|i| n / 1000 * i + i % 7);
            for unit in (0..n.min(300)).chain(spread).chain([n - 1]).filter(|unit| *unit < n) {
                assert_eq!(index_of(&space, &space.value(unit).unwrap()), Some(unit));
            }
            assert_eq!(space.value(n), Err(ValueError::OutOfSpace));
            assert_eq!(space.value(u128::MAX), Err(ValueError::OutOfSpace));
        }
    }

    #[test]
    fn a_string_outside_of_the_space_has_no_index() {
        let space = Chars::new(&alphabets(&["ab", "ab", "ab"]), 2).unwrap();
        assert_eq!(index_of(&space, b"aa"), Some(0));
        for text in [&b"a"[..], b"", b"ax", b"aaaa"] {
            assert_eq!(index_of(&space, text), None, "{text:?}");
        }
    }

    #[test]
    fn the_largest_space_that_fits() {
        // 2^127 + 2^126 + ... + 2 = 2^128 - 2; one more position, or one more length, is too much.
        let bits = alphabets(&["01"; 127]);
        let space = Chars::new(&bits, 1).unwrap();
        assert_eq!(space.units(), u128::MAX - 1);
        let last = space.value(u128::MAX - 2).unwrap();
        assert_eq!(last, [b'1'; 127]);
        assert_eq!(index_of(&space, &last), Some(u128::MAX - 2));
        assert!(Chars::new(&alphabets(&["01"; 128]), 128).is_err());
    }

    #[test]
    fn bad_spaces_say_what_to_do() {
        refused(&[], 1, expect!["the space has no positions: give at least one character"]);
        refused(&["a", ""], 2, expect!["the alphabet of position 2 is empty: give at least one character"]);
        refused(
            &["aba"],
            1,
            expect!["the alphabet of position 1 holds 'a' twice, so candidates would repeat: remove one"],
        );
        refused(
            &["ab"],
            0,
            expect![
                "the shortest length is 0 and the longest 1: the shortest must be 1 or more and not above the longest"
            ],
        );
        refused(
            &["ab"],
            2,
            expect![
                "the shortest length is 2 and the longest 1: the shortest must be 1 or more and not above the longest"
            ],
        );
        refused(
            &["a"; POSITIONS_MAX + 1],
            1,
            expect!["the space has 4097 positions; a candidate is at most 4096 bytes long: make it shorter"],
        );
        refused(
            &["01"; 128],
            128,
            expect![
                "128 positions of 2 characters make about 10^39 candidates; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several jobs"
            ],
        );
        refused(
            &["01", "0123456789"].repeat(40),
            1,
            expect![
                "80 positions of 2 to 10 characters make about 10^52 candidates; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several jobs"
            ],
        );
    }
}
