//! A job as an indexed space: how many units there are, what unit i is, and where a task may be cut.
//! One file per kind of space, and [`template`] for what a program's arguments are filled with.
//!
//! Not here: reading a job file (`admin`), the sizes of tasks (`scheduler`), fetching the chunks of a
//! list (`worker`). No I/O, no clock and no threads.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chars;
pub mod grid;
pub mod list;
pub mod range;
pub mod template;

mod error;

use std::sync::Arc;

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::Space;

pub use error::{SpaceError, ValueError};

/// A space of units 0..N. Implement it to give a farm a kind of space of your own.
///
/// The same unit must always have the same value: a task may be computed twice, on two machines.
pub trait Decomposer: Send + Sync {
    /// N, the number of units: 1..=2^128 - 1.
    fn units(&self) -> u128;

    /// The unit's value, what `{}` stands for.
    ///
    /// # Errors
    /// [`ValueError::OutOfSpace`] from N on, the others where a list's chunk is not at hand.
    fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError>;

    /// Fields that a template knows by name beside `{}` and `{index}`. Every unit has the same names.
    ///
    /// # Errors
    /// As [`Decomposer::value`].
    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        in_space(unit, self.units()).map(|()| Vec::new())
    }

    /// The names of the fields, read from unit 0.
    fn names(&self) -> Vec<String> {
        self.fields(0).map(|fields| fields.into_iter().map(|(name, _)| name).collect()).unwrap_or_default()
    }

    /// Where a task that starts at `lo`, which is below N, may end if it should hold about `units`:
    /// above `lo`, at most N.
    fn cut(&self, lo: u128, units: u128) -> u128 {
        lo.saturating_add(units.max(1)).min(self.units())
    }
}

/// Where a list's chunks are found.
pub trait Chunks: Send + Sync {
    /// The content with this hash, which the implementor has verified; `None` if it is not at hand.
    fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>>;
}

/// A store without chunks, for spaces that are not lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoChunks;

impl Chunks for NoChunks {
    fn chunk(&self, _: &ContentHash) -> Option<Arc<[u8]>> {
        None
    }
}

/// The decomposer of `space`. Chunks are asked for one at a time, when a unit in them is.
///
/// # Errors
/// What makes the space empty, malformed or too large; see [`SpaceError`].
pub fn open(space: &Space, chunks: Arc<dyn Chunks>) -> Result<Box<dyn Decomposer>, SpaceError> {
    Ok(match space {
        Space::Chars { positions, min } => Box::new(chars::Chars::new(positions, *min)?),
        Space::Range { from, to, step } => Box::new(range::Range::new(*from, *to, *step)?),
        Space::Frames { first, last } => Box::new(range::Frames::new(*first, *last)?),
        Space::List { chunks: pieces } => Box::new(list::List::new(pieces, chunks)?),
        Space::Grid { axes } => Box::new(grid::Grid::new(axes)?),
    })
}

/// N, the number of units of `space`: 1..=2^128 - 1.
///
/// # Errors
/// As [`open`].
pub fn units(space: &Space) -> Result<u128, SpaceError> {
    open(space, Arc::new(NoChunks)).map(|decomposer| decomposer.units())
}

/// The check that opens every `value`.
fn in_space(unit: u128, units: u128) -> Result<(), ValueError> {
    if unit < units { Ok(()) } else { Err(ValueError::OutOfSpace) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Squares;

    impl Decomposer for Squares {
        fn units(&self) -> u128 {
            10
        }

        fn value(&self, unit: u128) -> Result<Vec<u8>, ValueError> {
            in_space(unit, 10).map(|()| (unit * unit).to_string().into_bytes())
        }
    }

    #[test]
    fn a_users_decomposer_needs_two_methods() {
        let squares: Box<dyn Decomposer> = Box::new(Squares);
        assert_eq!(squares.value(9).unwrap(), b"81");
        assert_eq!(squares.fields(9), Ok(vec![]));
        assert_eq!(squares.fields(10), Err(ValueError::OutOfSpace));
        assert!(squares.names().is_empty());
    }

    #[test]
    fn a_cut_stays_in_the_space_and_moves_on() {
        for (lo, units, end) in
            [(0, 4, 4), (8, 4, 10), (9, 1, 10), (3, 0, 4), (0, u128::MAX, 10), (9, u128::MAX, 10)]
        {
            assert_eq!(Squares.cut(lo, units), end, "from {lo}, about {units}");
        }
    }

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
