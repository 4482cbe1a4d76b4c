//! A job's specification: its space and what is done with a unit. It is content-addressed: its bytes
//! are the JSON that [`JobSpec::to_bytes`] writes, its identity is their BLAKE3 hash. Parsing a job
//! file (TOML) lives in `admin`, indexing a space in `decomposers`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{ContentHash, from_hex, to_hex};

/// What a job is: which units there are, and what is done with each.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The units.
    pub space: Space,
    /// What is done with a unit.
    pub work: Work,
}

impl JobSpec {
    /// The bytes that are hashed, stored and sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a specification has string keys only")
    }

    /// Reads the bytes back. The error is a sentence for a person.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("the job specification cannot be read: {e}"))
    }
}

/// An indexed space: units 0..N.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Space {
    /// Character strings. Lengths run from `min` to `positions.len()`, shorter first; a string of length
    /// L uses the first L alphabets, the last position turning fastest.
    Chars {
        /// The alphabet of each position, in its own order.
        positions: Vec<HexBytes>,
        /// Shortest length, 1 or more.
        min: usize,
    },
    /// Integers `from`, `from + step`, ... before `to` (exclusive). `step` is not 0, may be negative.
    Range {
        /// First integer.
        from: i64,
        /// End, exclusive.
        to: i64,
        /// Distance of neighbours.
        step: i64,
    },
    /// Frames of an animation, `first..=last`.
    Frames {
        /// First frame.
        first: i64,
        /// Last frame, inclusive.
        last: i64,
    },
    /// Lines of a file, or names of files.
    List {
        /// The list in pieces; each is fetched by its hash when it is needed.
        chunks: Vec<Chunk>,
    },
    /// The cross product of named lists; the last one turns fastest.
    Grid {
        /// Name and values, in the user's order.
        axes: Vec<Axis>,
    },
}

/// One named list of a grid.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The name, used in `{name}`.
    pub name: String,
    /// The values, one or more.
    pub values: Vec<String>,
}

/// A piece of a list: lines joined by `\n`, one unit each, the last line with its `\n` too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// BLAKE3 of the piece.
    pub hash: ContentHash,
    /// Lines in it, 1 or more.
    pub units: u64,
}

/// What is done with a unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Work {
    /// A program is run.
    Command(CommandWork),
    /// The candidate is hashed and compared.
    Search(SearchWork),
    /// Nothing is done: what `starfarm bench dispatch` measures with.
    Nothing,
}

/// A program and how to run it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandWork {
    /// The program, then its arguments; never a shell. `{}`, `{index}` and the space's names are filled in.
    pub program: Vec<String>,
    /// Added to the worker's environment; values are filled in likewise.
    pub env: BTreeMap<String, String>,
    /// A unit that runs longer is ended, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// A unit that runs for so many milliseconds, and for 30 times as long as units of the job have taken on its node,
    /// hangs and is ended likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang_ms: Option<u64>,
    /// A unit that fails is run again up to this many times.
    pub retries: u32,
    /// How much of what a unit writes is kept.
    #[serde(skip_serializing_if = "OutputLimit::is_usual", default)]
    pub output_limit: OutputLimit,
    /// The folder that programs start in, an absolute path; without it the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A node without that folder starts them in its own, instead of refusing the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cwd_optional: bool,
}

/// How much is kept of each of a unit's two output streams. Of what writes more the head and the tail are kept, half
/// of the limit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputLimit {
    /// Bytes, 1 to [`OUTPUT_LIMIT_MAX`].
    pub bytes: u64,
    /// A unit that writes more has failed.
    pub strict: bool,
}

/// Longest output that can be kept, in bytes: a worker has it in memory.
pub const OUTPUT_LIMIT_MAX: u64 = crate::bulk::CONTENT_BYTES_MAX;

impl Default for OutputLimit {
    fn default() -> Self {
        Self { bytes: 1 << 20, strict: false }
    }
}

impl OutputLimit {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for OutputLimit {
    type Err = String;

    /// "BYTES", "strict", or "strict:BYTES".
    fn from_str(text: &str) -> Result<Self, String> {
        let (strict, bytes) = match text.strip_prefix("strict") {
            Some("") => return Ok(Self { strict: true, ..Self::default() }),
            Some(rest) => (true, rest.strip_prefix(':')),
            None => (false, Some(text)),
        };
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        match bytes.filter(|bytes| (1..=OUTPUT_LIMIT_MAX).contains(bytes)) {
            Some(bytes) => Ok(Self { bytes, strict }),
            None => Err(format!(
                "write a number of bytes, 1 to {OUTPUT_LIMIT_MAX}, or strict, or strict:BYTES; with strict a unit that \
                 writes more has failed"
            )),
        }
    }
}

/// A search for preimages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchWork {
    /// Which digest.
    pub algorithm: Algorithm,
    /// The digests looked for, without repeats.
    pub targets: Vec<HexBytes>,
    /// When to end early.
    pub stop: Stop,
}

/// A digest that `search` knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// RFC 1321.
    Md5,
    /// FIPS 180-4.
    Sha1,
    /// FIPS 180-4.
    Sha256,
    /// MD4 (RFC 1320) over the bytes widened to 16 bits, little endian.
    Ntlm,
}

impl Algorithm {
    /// Bytes of a digest.
    pub fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Md5 | Algorithm::Ntlm => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }
}

/// When a search ends before its space does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Never: the whole space is searched.
    Never,
    /// At the first hit.
    FirstHit,
    /// When every target has been found.
    #[default]
    AllTargets,
}

/// Bytes, written as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HexBytes(pub Vec<u8>);

impl fmt::Debug for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl Serialize for HexBytes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        from_hex(&text).map(HexBytes).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))
    }
}
