//! Numbers and words in the text of system files. What they mean is decided where they are read.

/// The lines of a text.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// A word that is a number: decimal digits, up to 2^64 - 1.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.wrapping_sub(b'0');
        sum.checked_mul(10)?.checked_add(u64::from(digit)).filter(|_| digit < 10)
    };
    (!word.is_empty()).then(|| word.iter().try_fold(0, add))?
}

/// The number behind this key in a line `key: number`, if it is that line.
pub(super) fn value(line: &[u8], key: &str) -> Option<u64> {
    let rest = line.strip_prefix(key.as_bytes())?.strip_prefix(b":")?;
    words(rest).next().and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_digits_only_and_64_bits() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"007"), Some(7));
        for none in ["", "18446744073709551616", "-1", "+1", "1.5", "1a", "\u{ff}"] {
            assert_eq!(number(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_value_stands_behind_its_whole_key() {
        assert_eq!(value(b"MemTotal:    1024 kB", "MemTotal"), Some(1_024));
        assert_eq!(value(b"MemTotal:    1024 kB", "Mem"), None);
        assert_eq!(value(b"MemTotal:", "MemTotal"), None);
    }
}
