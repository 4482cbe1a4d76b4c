//! A rule that was broken, and the one way to say so.

use std::fmt;

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule, in a few words.
    pub rule: &'static str,
    /// When, on the virtual clock, in microseconds.
    pub at_us: u64,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken at {:.6} s: {}: {}", self.at_us as f64 / 1e6, self.rule, self.found)
    }
}

impl std::error::Error for Violation {}

/// A rule and what was found, before the time is known.
pub(crate) type Broken = (&'static str, String);

/// `Err` where the rule does not hold. What was found is put into words only then.
pub(crate) fn rule(holds: bool, rule: &'static str, found: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((rule, found())) }
}
