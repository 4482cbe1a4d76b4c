//! Why a search cannot be set up. A search that was set up cannot fail.

use std::fmt;

use crate::Path;

/// What is wrong with the arguments of [`crate::Search::new`] or [`crate::Search::with_path`]. Positions
/// and targets are counted from 0 in the fields, from 1 in the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum SearchError {
    /// There is no position, or the shortest length is 0 or above the number of positions, `max`.
    Lengths { min: usize, max: usize },
    /// The longest candidate does not fit into one block of the algorithm; lengths in bytes.
    TooLong { length: usize, limit: usize },
    /// A position's alphabet is empty or names a byte twice.
    Alphabet { position: usize, repeated: Option<u8> },
    /// The space has more than 2^128 - 1 candidates.
    TooManyUnits,
    /// There is nothing to look for.
    NoTargets,
    /// More targets than 2^32 - 1.
    TooManyTargets,
    /// A target is not as long as the algorithm's digest; lengths in bytes.
    TargetLength { target: usize, length: usize, expected: usize },
    /// This processor lacks what the code path needs.
    NoPath(Path),
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SearchError::Lengths { min, max } => write!(
                f,
                "candidates cannot have {min} to {max} positions: give at least one position and a shortest length between 1 and the number of positions"
            ),
            SearchError::TooLong { length, limit } => write!(
                f,
                "candidates of {length} bytes are too long: this algorithm takes at most {limit}; shorten the mask or lower `max`"
            ),
            SearchError::Alphabet { position, repeated: None } => {
                write!(f, "the alphabet of position {} is empty: give it at least one byte", position + 1)
            }
            SearchError::Alphabet { position, repeated: Some(byte) } => write!(
                f,
                "the alphabet of position {} has the byte 0x{byte:02x} twice: name each byte once",
                position + 1
            ),
            SearchError::TooManyUnits => f.write_str(
                "the space has more than 2^128 - 1 candidates: shorten the mask or cut it into jobs",
            ),
            SearchError::NoTargets => write!(f, "there is no target: give at least one digest to look for"),
            SearchError::TooManyTargets => {
                write!(f, "there are more than 2^32 - 1 targets: cut them into several jobs")
            }
            SearchError::TargetLength { target, length, expected } => write!(
                f,
                "target {} has {length} bytes, a digest of this algorithm has {expected} ({} hexadecimal digits): check the digest and the algorithm",
                target + 1,
                2 * expected
            ),
            SearchError::NoPath(path) => write!(
                f,
                "this processor cannot run the {} path: leave the choice open or force another one",
                path.name()
            ),
        }
    }
}

impl std::error::Error for SearchError {}
