//! How stages take settings and hooks, and the words in which they refuse them. What a setting does is said where its stage
//! is.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::ids;
use crate::values::ValueId;
use crate::words::{Hook, Side};

/// Number of the output `out`, where there is no other: it is the first that may be used.
pub(super) const OUT: usize = 0;

/// Ids of a list, at most.
const IDS_MAX: usize = 1_000;
/// Characters of a value that are shown where it is refused.
const SHOWN_MAX: usize = 64;
/// Longest time, in seconds: 31 years.
const SECONDS_MAX: f64 = 1e9;

/// The hooks that most have: any inputs, and one output, `out`.
pub(super) fn in_and_out(of: &str, hook: Hook<'_>) -> Result<(), String> {
    match hook.side {
        Side::Input => Ok(()),
        Side::Output if hook.name == "out" => Ok(()),
        Side::Output => Err(format!("`{of}` has one output, `out`, not `{}`", hook.name)),
    }
}

/// Refuses a setting that the type has not.
pub(super) fn unknown(of: &str, key: &str, known: &[&str]) -> Result<(), String> {
    let key = shown(key);
    match known {
        [] => Err(format!("`{of}` has no setting `{key}`: it has none")),
        _ => Err(format!("`{of}` has no setting `{key}`: it has {}", listed(known.iter()))),
    }
}

fn refusal(key: &str, value: &str, right: impl Display) -> String {
    format!("`{key}` is {right}, not `{}`", shown(value))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

fn listed(words: impl Iterator<Item = impl Display>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A whole number.
pub(super) fn number(key: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        refusal(key, value, format_args!("a number from {} to {}", range.start(), range.end()))
    })
}

/// A whole number, or `none`.
pub(super) fn number_or_none(key: &str, value: &str) -> Result<Option<u64>, String> {
    if value == "none" {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| refusal(key, value, "a number or `none`"))
}

/// A time: seconds, in microseconds, at least 1.
pub(super) fn seconds(key: &str, value: &str) -> Result<u64, String> {
    let seconds = value.parse().ok().filter(|seconds| (1e-6..=SECONDS_MAX).contains(seconds));
    let us = seconds.map(|seconds: f64| (seconds * 1e6).round() as u64);
    us.ok_or_else(|| refusal(key, value, format_args!("a time from 0.000001 to {SECONDS_MAX} seconds")))
}

/// One of these words.
pub(super) fn one_of<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, of)| *of);
    found.ok_or_else(|| {
        refusal(key, value, format_args!("one of {}", listed(words.iter().map(|(word, _)| word))))
    })
}

/// An id, by its name or number.
pub(super) fn id(key: &str, value: &str) -> Result<ValueId, String> {
    let value = value.trim();
    ids::named(value).or_else(|| value.parse().ok().map(ValueId)).ok_or_else(|| {
        refusal(key, value, format_args!("an id's number, or one of {}", listed(ids::names())))
    })
}

/// The id of a figure, by its name or number.
pub(super) fn figure(key: &str, value: &str) -> Result<ValueId, String> {
    let id = id(key, value)?;
    if ids::says_whose(id) {
        return Err(refusal(key, value, "a figure: what says whose values follow is none"));
    }
    Ok(id)
}

/// Ids of figures, with commas between them; none where the value is the word `free`.
pub(super) fn figures(key: &str, value: &str, free: &str) -> Result<Option<BTreeSet<ValueId>>, String> {
    if value == free {
        return Ok(None);
    }
    if value.trim().is_empty() {
        return Err(format!("`{key}` is a list of figures, as `cpu,memory`, or `{free}`"));
    }
    list(key, value, figure, IDS_MAX).map(|ids| Some(ids.into_iter().collect()))
}

/// Some of what one item is, `most` at most, with commas between them.
pub(super) fn list<T>(
    key: &str,
    value: &str,
    item: impl Fn(&str, &str) -> Result<T, String>,
    most: usize,
) -> Result<Vec<T>, String> {
    list_with(',', (key, value), item, most)
}

/// The same, with something else between them.
pub(super) fn list_with<T>(
    between: char,
    (key, value): (&str, &str),
    item: impl Fn(&str, &str) -> Result<T, String>,
    most: usize,
) -> Result<Vec<T>, String> {
    if value.split(between).count() > most {
        return Err(format!("`{key}` is a list of {most} at most"));
    }
    value.split(between).map(|one| item(key, one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_have_bounds() {
        assert_eq!(number("nth", "12", 1..=12), Ok(12));
        for bad in ["0", "13", "-1", "1.5", "", "99999999999999999999"] {
            assert_eq!(
                number("nth", bad, 1..=12),
                Err(format!("`nth` is a number from 1 to 12, not `{bad}`"))
            );
        }
        assert_eq!((seconds("every", "0.25"), seconds("every", "0.000001")), (Ok(250_000), Ok(1)));
        for bad in ["0", "-1", "NaN", "inf", "1e10", "1 s", ""] {
            let why = format!("`every` is a time from 0.000001 to 1000000000 seconds, not `{bad}`");
            assert_eq!(seconds("every", bad), Err(why));
        }
    }

    #[test]
    fn ids_have_names_and_numbers() {
        assert_eq!(id("by", "post"), Ok(ids::POST));
        assert_eq!(figure("metric", " memory "), Ok(ValueId(2)));
        assert_eq!(figure("metric", "1000001"), Ok(ValueId(1_000_001)));
        assert!(figure("metric", "job").unwrap_err().contains("`metric` is a figure"));
        assert!(id("by", "colour").unwrap_err().contains("`memory`"));
        let cpu_and_more = figures("match", "cpu, 1000001", "all").unwrap().unwrap();
        assert_eq!(Vec::from_iter(cpu_and_more), [ValueId(1), ValueId(1_000_001)]);
        assert_eq!(figures("match", "all", "all"), Ok(None));
        assert!(figures("match", " ", "all").unwrap_err().contains("or `all`"));
        assert!(figures("match", &"1,".repeat(IDS_MAX), "all").unwrap_err().contains("1000 at most"));
    }

    #[test]
    fn what_is_refused_is_not_repeated_at_length() {
        let long = one_of("op", &"x".repeat(5_000), &[("sum", ())]).unwrap_err();
        assert_eq!(long, format!("`op` is one of `sum`, not `{}`", "x".repeat(64)));
        assert!(unknown("rate", &"x".repeat(5_000), &[]).unwrap_err().len() < 150);
    }
}
