//! A kernel of the user's own, in OpenCL C, over an index range. What it is given and what becomes of what it leaves is in
//! `docs/kernels.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::merge::Merge;
use crate::devices::DeviceNeeds;
use crate::word::words;

/// Most bytes of a kernel's text.
pub const KERNEL_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a unit's block.
pub const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// Most hits of a launch.
pub const HITS_MAX: u32 = 1 << 16;
/// Most counters of a job.
pub const COUNTERS_MAX: usize = 16;
/// So long a launch may take where the job does not say, in milliseconds.
pub const LAUNCH_MS: u64 = 5_000;
/// Shortest and longest such time, in milliseconds.
pub const LAUNCH_MS_RANGE: std::ops::RangeInclusive<u64> = 100..=600_000;

/// A kernel and how to run it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelWork {
    /// The program's text, OpenCL C 1.2 or what the devices of `needs` know.
    pub source: String,
    /// The name of its file: so the compiler calls it.
    pub file: String,
    /// The kernel's name in it.
    pub kernel: String,
    /// Macros, as they stand in the text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, String>,
    /// Bytes of the block that each unit leaves, up to [`BLOCK_BYTES_MAX`]; 0: it leaves none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub block_bytes: u64,
    /// Hits that a launch may report, up to [`HITS_MAX`]; 0: there are none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub hits: u32,
    /// Numbers of which each unit leaves one, and what becomes of them, up to [`COUNTERS_MAX`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Counter>,
    /// What a device must be.
    #[serde(default, skip_serializing_if = "is_any")]
    pub needs: DeviceNeeds,
    /// So long a launch may take, in milliseconds.
    #[serde(default = "launch_ms", skip_serializing_if = "is_usual_launch")]
    pub launch_ms: u64,
    /// Units that fail are run again up to this many times.
    pub retries: u32,
    /// What becomes of all that the runs wrote, at the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
}

/// A number that each unit leaves, and what becomes of those of many units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// What becomes of them.
    pub reduce: Reduction,
    /// What they are.
    pub of: NumberType,
}

words! {
    /// What becomes of many numbers.
    Reduction {
        /// Their sum.
        Sum => "sum",
        /// The least of them, and the first unit that left it.
        Min => "min",
        /// The greatest, likewise.
        Max => "max",
    }
}

words! {
    /// A number, as OpenCL C calls it.
    NumberType {
        /// 64 bits, with a sign.
        Long => "long",
        /// 64 bits, without one.
        Ulong => "ulong",
        /// IEEE 754, 32 bits.
        Float => "float",
        /// IEEE 754, 64 bits; some devices have none.
        Double => "double",
    }
}

impl NumberType {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        if self == Self::Float { 4 } else { 8 }
    }
}

impl Counter {
    /// `min double`, `sum ulong`.
    ///
    /// # Errors
    /// It is no such thing; the sentence says what is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let known = || {
            let (reduce, of) = text.split_once(' ')?;
            Some(Self { reduce: Reduction::from_word(reduce)?, of: NumberType::from_word(of.trim())? })
        };
        known().ok_or_else(|| {
            "write sum, min or max and long, ulong, float or double, such as \"min double\"".to_owned()
        })
    }
}

/// The farm itself gives this name a meaning in a kernel's text.
pub fn is_taken(name: &str) -> bool {
    let ours = ["BLOCK", "HITS", "DIGITS", "SIZES", "hit", "unit_digits"];
    ours.contains(&name) || name.starts_with("STARFARM") || name.starts_with("starfarm_")
}

/// A text names something in OpenCL C.
pub fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.bytes().next().is_some_and(is_letter)
        && text.len() <= 64
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

impl KernelWork {
    /// Runs tell of hits and counters, in JSON.
    pub fn reports(&self) -> bool {
        self.hits > 0 || !self.counters.is_empty()
    }

    /// Bytes of the longest content that a run may upload: a second's worth of blocks or hits, and what the last launch adds.
    pub fn upload_max(&self) -> u64 {
        let hits = u64::from(self.hits) * 64;
        (8 << 20) + 2 * self.block_bytes.max(hits)
    }

    /// Why it cannot be, in words: what a person wrote is read elsewhere, and so has better ones.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> Result<(), String> {
        let names = || self.constants.keys().chain(self.counters.keys()).chain([&self.kernel]);
        if let Some(name) = names().find(|name| !is_identifier(name)) {
            return Err(format!("`{name}` is no name in OpenCL C: use letters, digits and _"));
        }
        if let Some(name) = self.constants.keys().find(|name| is_taken(name)) {
            return Err(format!("`{name}` is what the farm itself defines: name it otherwise"));
        }
        if self.source.len() > KERNEL_BYTES_MAX || self.source.contains('\0') {
            return Err(format!("the kernel's text has at most {KERNEL_BYTES_MAX} bytes, and none is zero"));
        }
        if self.constants.values().any(|value| value.contains(['\n', '\r', '\\', '\0'])) {
            return Err("a constant is one line without a backslash".to_owned());
        }
        if self.file.contains(['"', '\n', '\r', '\\', '\0']) {
            return Err("the name of the kernel's file has no quotes, backslashes or line breaks".to_owned());
        }
        match (self.block_bytes, self.reports()) {
            (0, false) => {
                Err("the kernel leaves nothing: give it a `block`, `hits` or `counters`".to_owned())
            }
            (1.., true) => Err("`block` does not go with `hits` or `counters`: make two jobs".to_owned()),
            (bytes, _) if bytes > BLOCK_BYTES_MAX => {
                Err(format!("`block` has at most {BLOCK_BYTES_MAX} bytes"))
            }
            _ if self.hits > HITS_MAX => Err(format!("`hits` is at most {HITS_MAX}")),
            _ if self.counters.len() > COUNTERS_MAX => {
                Err(format!("there are at most {COUNTERS_MAX} counters"))
            }
            _ if !LAUNCH_MS_RANGE.contains(&self.launch_ms) => {
                Err("`launch_seconds` is 0.1 to 600".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

fn is_none(hits: &u32) -> bool {
    *hits == 0
}

fn is_any(needs: &DeviceNeeds) -> bool {
    *needs == DeviceNeeds::ANY
}

fn launch_ms() -> u64 {
    LAUNCH_MS
}

fn is_usual_launch(ms: &u64) -> bool {
    *ms == LAUNCH_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_two_words() {
        let min = Counter { reduce: Reduction::Min, of: NumberType::Double };
        assert_eq!(Counter::parse("min double"), Ok(min));
        assert_eq!(Counter::parse("sum  ulong").unwrap().of, NumberType::Ulong);
        for nonsense in ["", "min", "double", "double min", "mean long", "min int"] {
            assert!(Counter::parse(nonsense).is_err_and(|why| why.contains("min double")), "{nonsense}");
        }
    }

    #[test]
    fn names_are_those_of_the_language() {
        assert!(["a", "_x9", "WIDTH"].iter().all(|name| is_identifier(name)));
        assert!(["BLOCK", "hit", "STARFARM", "starfarm_x"].iter().all(|name| is_taken(name)));
        assert!(["block", "hits", "at", "FARM"].iter().all(|name| !is_taken(name)));
        assert!(["", "9a", "a-b", "ä", "a b", "a;"].iter().all(|name| !is_identifier(name)));
    }
}
