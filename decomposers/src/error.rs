//! Why a unit has no value, as sentences that say what to do.

use std::fmt;

use starfarm_protocol::ids::ContentHash;

/// Why a unit has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// The unit is N or above.
    OutOfSpace,
    /// The list's chunk with this hash is not at hand: fetch it, then ask again.
    ChunkMissing(ContentHash),
    /// Nobody has said yet which content has this unit, which a program named: ask, then ask again.
    NotLocated(u128),
    /// The chunk is at hand but does not hold the lines that the specification promises. Asking again
    /// does not help: the job was submitted wrong.
    ChunkMalformed(ContentHash),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::OutOfSpace => f.write_str("the unit is outside of the job's space"),
            ValueError::ChunkMissing(hash) => write!(f, "chunk {hash} of the list is not at hand: fetch it"),
            ValueError::NotLocated(unit) => {
                write!(f, "it is not known where unit {unit} lies: ask the scheduler")
            }
            ValueError::ChunkMalformed(hash) => write!(
                f,
                "chunk {hash} of the list does not hold the lines that the job promises: submit the job again"
            ),
        }
    }
}

impl std::error::Error for ValueError {}
