//! A job's specification: its space and, in `work`, what is done with a unit. It is content-addressed: its
//! bytes are the JSON that [`JobSpec::to_bytes`] writes, its identity is their BLAKE3 hash. Parsing a job
//! file (TOML) lives in `admin`, indexing a space in `decomposers`.

mod kernel;
mod merge;
mod work;

use serde::{Deserialize, Serialize};

use crate::ids::ContentHash;
pub use crate::ids::HexBytes;
use crate::units::Units;
pub use kernel::*;
pub use merge::*;
pub use work::*;

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

    /// The contents that units are made from, by their hashes; the specification itself is another one.
    pub fn contents(&self) -> impl Iterator<Item = ContentHash> {
        let whole = match &self.space {
            Space::Subset { of, .. } => of,
            space => space,
        };
        let chunks = match whole {
            Space::List { chunks } => chunks.as_slice(),
            _ => &[],
        };
        let inputs = match &self.work {
            Work::Command(command) => command.inputs.as_slice(),
            _ => &[],
        };
        let parts = inputs.iter().flat_map(|input| input.parts.iter().copied());
        chunks.iter().map(|chunk| chunk.hash).chain(parts)
    }

    /// A program of its user's runs on the scheduler's host: it names the units, or merges the results.
    pub fn runs_on_scheduler(&self) -> bool {
        matches!(self.work.merge(), Some(Merge::Program(_))) || self.space.grows()
    }

    /// Reads the bytes back. The error is a sentence for a person.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("the job specification cannot be read: {e}"))
    }
}

/// An indexed space: units 0..N.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[expect(missing_docs, reason = "a space's own lines say what its fields are")]
pub enum Space {
    /// Character strings over the alphabet of each position, in its own order. Lengths run from `min`, 1 or more, to
    /// `positions.len()`, shorter first; a string of length L uses the first L alphabets, the last position turning
    /// fastest.
    Chars { positions: Vec<HexBytes>, min: usize },
    /// Integers `from`, `from + step`, ... before `to` (exclusive). `step` is not 0, may be negative.
    Range { from: i64, to: i64, step: i64 },
    /// Frames of an animation, `first..=last`.
    Frames { first: i64, last: i64 },
    /// Lines of a file, or names of files, in pieces; each piece is fetched by its hash when it is needed.
    List { chunks: Vec<Chunk> },
    /// The cross product of named lists, in the user's order; the last one turns fastest.
    Grid { axes: Vec<Axis> },
    /// Units that a program on the scheduler's host names while the job runs: how many there are is known at its end.
    Program(Box<OwnSpace>),
    /// Units of another space, which is none of these, by their numbers there, in order: what is left of a job.
    Subset { of: Box<Space>, units: Vec<Interval> },
}

impl Space {
    /// Its units are named while the job runs.
    pub fn grows(&self) -> bool {
        matches!(self, Space::Program(_))
    }
}

/// A user's own decomposer: a program that names the units of a job, batch by batch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnSpace {
    /// The program, then its arguments; never a shell.
    pub program: Vec<String>,
    /// The names of a unit's values, used in `{name}`; none where a unit is one value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The directory that it starts in, where the scheduler's host has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// It is ended if a batch takes longer, in milliseconds.
    pub timeout_ms: u64,
}

/// Units `lo` to `hi`, exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// First unit.
    pub lo: Units,
    /// End, exclusive.
    pub hi: Units,
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
