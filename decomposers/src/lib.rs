//! A job as an indexed space: how many units there are, and what unit i is.
//! One file per kind of space, and [`template`] for what a program's arguments are filled with.
//!
//! Not here: reading a job file (`admin`), the sizes of tasks (`scheduler`), fetching the chunks of a
//! list (`worker`). No I/O, no clock and no threads.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chars;
pub mod grid;
pub mod growth;
pub mod list;
pub mod program;
pub mod range;
pub mod subset;
pub mod template;

mod decomposer;
mod error;
mod forms;
mod lines;
mod recent;

use std::sync::Arc;

use starfarm_protocol::spec::Space;

pub use decomposer::{Chunks, Decomposer, NoChunks};
pub use error::ValueError;

/// The decomposer of `space`. Chunks are asked for one at a time, when a unit in them is.
///
/// # Errors
/// What makes the space empty, malformed or too large; the sentence says what to do.
pub fn open(space: &Space, chunks: Arc<dyn Chunks>) -> Result<Box<dyn Decomposer>, String> {
    Ok(match space {
        Space::Chars { positions, min } => Box::new(chars::Chars::new(positions, *min)?),
        Space::Range { from, to, step } => Box::new(range::Range::new(*from, *to, *step)?),
        Space::Frames { first, last } => Box::new(range::Frames::new(*first, *last)?),
        Space::List { chunks: pieces } => Box::new(list::List::new(pieces, chunks)?),
        Space::Grid { axes } => Box::new(grid::Grid::new(axes)?),
        Space::Program(own) => Box::new(program::Program::new(own, chunks)?),
        Space::Subset { of, .. } if of.grows() => {
            return Err("a part of a space whose units a program names: submit the whole job".into());
        }
        Space::Subset { of, .. } if matches!(**of, Space::Subset { .. }) => {
            return Err("a part of a part of a space: name its units in the whole one".into());
        }
        Space::Subset { of, units } => Box::new(subset::Subset::new(open(of, chunks)?, units)?),
    })
}

/// N, the number of units of `space`: 1..=2^128 - 1, or the most that a program can name.
///
/// # Errors
/// As [`open`].
pub fn units(space: &Space) -> Result<u128, String> {
    open(space, Arc::new(NoChunks)).map(|decomposer| decomposer.units())
}

/// The digits that a kernel's units are counted by: how many values each has, the first one first.
///
/// # Errors
/// No kernel runs over such a space, in words.
pub fn digits(space: &Space) -> Result<Vec<u128>, String> {
    match space {
        Space::Range { .. } | Space::Frames { .. } => match units(space)? {
            units if units > u128::from(u64::MAX) => {
                Err("a kernel counts up to 2^64 - 1 frames: leave one out".to_owned())
            }
            units => Ok(vec![units]),
        },
        Space::Chars { positions, min } if *min == positions.len() => {
            Ok(positions.iter().map(|position| position.0.len() as u128).collect())
        }
        Space::Chars { .. } => {
            Err("a kernel runs over strings of one length: write as many positions as `min` says".to_owned())
        }
        Space::Grid { axes } => Ok(axes.iter().map(|axis| axis.values.len() as u128).collect()),
        Space::List { .. } | Space::Program(_) | Space::Subset { .. } => {
            Err("a kernel runs over a space of kind = \"range\", \"frames\", \"chars\" or \"grid\""
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_opens_with_its_own_decomposer() {
        let range = Space::Range { from: 0, to: 10, step: 3 };
        let frames = Space::Frames { first: 1, last: 4 };
        assert_eq!(units(&range), Ok(4));
        assert_eq!(units(&frames), Ok(4));
        let opened = open(&frames, Arc::new(NoChunks)).unwrap();
        assert_eq!(opened.names(), ["clock"]);
        assert_eq!(opened.value(0).unwrap(), b"1");
    }
}
