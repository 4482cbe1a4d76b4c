//! What a message says as one line for people, and no more of these a second than somebody reads.

use std::time::Instant;

use starfarm_agent_core::Triples;

use super::values::shown;
use crate::pace::Pace;
use crate::settings::number;

/// Lines a second, if nothing else is said, and the most that may be said.
const RATE: u32 = 10;
const RATE_MAX: u32 = 1_000;
/// Bytes of a line, about, and characters of what stands before it.
const LINE_MAX: usize = 1_000;
const LABEL_MAX: usize = 64;

/// Lines `LABEL: name value name value`.
///
/// | setting | means |
/// | --- | --- |
/// | `label` | what stands before it; the type's name, at first |
/// | `rate` | lines a second, 1 to 1000; 10, at first |
pub(super) struct Lines {
    label: String,
    pace: Pace,
}

impl Lines {
    /// Its settings.
    pub(super) const SETTINGS: [&str; 2] = ["label", "rate"];

    pub(super) fn new(label: &str) -> Self {
        Self { label: label.to_owned(), pace: Pace::new(RATE, Instant::now()) }
    }

    /// The line of a message; none where it is beyond so many a second: the next one says how many were left out.
    pub(super) fn next(&mut self, values: Triples<'_>) -> Option<String> {
        let left_out = self.pace.next(Instant::now())?;
        let mut line = format!("{}:", self.label);
        if left_out > 0 {
            line += &format!(" ({left_out} lines before this were left out)");
        }
        for value in shown(values) {
            if line.len() + value.len() > LINE_MAX {
                line += " ...";
                break;
            }
            line += " ";
            line += &value;
        }
        Some(line)
    }

    /// Takes a setting; whether it is one of these.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "label" if value.chars().count() <= LABEL_MAX => value.clone_into(&mut self.label),
            "label" => return Err(format!("`label` has {LABEL_MAX} characters at most")),
            "rate" => {
                let rate = number(key, value, 1..=RATE_MAX, "lines a second, from 1 to 1000")?;
                self.pace = Pace::new(rate, Instant::now());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
