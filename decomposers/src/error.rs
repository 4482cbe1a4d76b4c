//! What can be wrong with a space or a unit, as sentences that say what to do.

use std::fmt;

use starfarm_protocol::ids::ContentHash;

/// Why a space cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields are named as in the specification")]
pub enum SpaceError {
    /// More than 2^128 - 1 units. The text says how large the space is, in words.
    TooLarge(String),
    /// A character space without positions.
    NoPositions,
    /// A character space with too many positions.
    TooManyPositions { found: usize, max: usize },
    /// The alphabet of this position (counted from 1) has no characters.
    EmptyAlphabet(usize),
    /// The alphabet of this position (counted from 1) holds this byte twice.
    RepeatedByte(usize, u8),
    /// The shortest length is 0 or above the number of positions, `max`.
    MinLength { min: usize, max: usize },
    /// A range whose step is 0.
    StepZero,
    /// A range without integers.
    EmptyRange { from: i64, to: i64, step: i64 },
    /// Frames whose last comes before the first.
    NoFrames { first: i64, last: i64 },
    /// A list without entries.
    EmptyList,
    /// The chunk of a list with this number (counted from 0) has no lines.
    EmptyChunk(usize),
    /// A grid without named lists.
    NoAxes,
    /// The list of this name has no values.
    EmptyAxis(String),
    /// Two lists of a grid have this name.
    RepeatedAxis(String),
    /// A name that a template could not tell from its own: empty, `index`, or with a brace in it.
    AxisName(String),
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SpaceError::*;
        match self {
            TooLarge(size) => write!(
                f,
                "{size}; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, \
                 or split it into several jobs"
            ),
            NoPositions => f.write_str("the space has no positions: give at least one character"),
            TooManyPositions { found, max } => write!(
                f,
                "the space has {found} positions; a candidate is at most {max} bytes long: make it shorter"
            ),
            EmptyAlphabet(position) => {
                write!(f, "the alphabet of position {position} is empty: give at least one character")
            }
            RepeatedByte(position, byte) => write!(
                f,
                "the alphabet of position {position} holds {:?} twice, so candidates would repeat: remove one",
                char::from(*byte)
            ),
            MinLength { min, max } => write!(
                f,
                "the shortest length is {min} and the longest {max}: the shortest must be 1 or more and \
                 not above the longest"
            ),
            StepZero => f.write_str("the step is 0, so the range never ends: use 1, or any other integer"),
            EmptyRange { from, to, step } => write!(
                f,
                "the range from {from} to {to} (exclusive) in steps of {step} is empty: {}",
                if *step > 0 {
                    "`to` must be above `from`"
                } else {
                    "with a negative step `to` must be below `from`"
                }
            ),
            NoFrames { first, last } => {
                write!(f, "the last frame, {last}, comes before the first, {first}: swap them")
            }
            EmptyList => f.write_str("the list is empty: give at least one entry"),
            EmptyChunk(number) => write!(f, "chunk {number} of the list has no lines: submit the job again"),
            NoAxes => f.write_str("the grid has no lists: give at least one name with its values"),
            EmptyAxis(name) => write!(f, "the grid's list `{name}` is empty: give at least one value"),
            RepeatedAxis(name) => write!(f, "the grid has two lists `{name}`: rename one"),
            AxisName(name) => write!(
                f,
                "a grid's list cannot be named `{name}`: the name must not be empty, `index`, or contain \
                 a brace"
            ),
        }
    }
}

impl std::error::Error for SpaceError {}

/// Why a unit has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// The unit is N or above.
    OutOfSpace,
    /// The list's chunk with this hash is not at hand: fetch it, then ask again.
    ChunkMissing(ContentHash),
    /// The chunk is at hand but does not hold the lines that the specification promises. Asking again
    /// does not help: the job was submitted wrong.
    ChunkMalformed(ContentHash),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::OutOfSpace => f.write_str("the unit is outside of the job's space"),
            ValueError::ChunkMissing(hash) => write!(f, "chunk {hash} of the list is not at hand: fetch it"),
            ValueError::ChunkMalformed(hash) => write!(
                f,
                "chunk {hash} of the list does not hold the lines that the job promises: submit the job again"
            ),
        }
    }
}

impl std::error::Error for ValueError {}
