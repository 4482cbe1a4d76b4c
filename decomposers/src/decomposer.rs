//! What a kind of space is, and where a list finds its chunks. The kinds have a file each.

use std::sync::Arc;

use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::ContentHash;

use crate::error::ValueError;

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

    /// What a program that computes several units together is told of one that they begin with or end before, up to N: in
    /// spaces of numbers its value, else its own number.
    fn bound(&self, unit: u128) -> String {
        unit.to_string()
    }

    /// The same of the one behind `unit`, which of a part of a space need not be the next one there.
    fn bound_behind(&self, unit: u128) -> String {
        self.bound(unit + 1)
    }

    /// Where those units end that begin with `lo`, end before `hi` and lie side by side in the whole space.
    fn side_by_side(&self, _lo: u128, hi: u128) -> u128 {
        hi
    }

    /// Fields that a template knows by name beside `{}` and `{index}`. Every unit has the same names.
    ///
    /// # Errors
    /// As [`Decomposer::value`].
    fn fields(&self, unit: u128) -> Result<Vec<(String, Vec<u8>)>, ValueError> {
        in_space(unit, self.units()).map(|()| Vec::new())
    }

    /// The number that people and programs know the unit by: its own, but of a part of a space that in the whole.
    fn number(&self, unit: u128) -> u128 {
        unit
    }

    /// How many such numbers there are: N, but of a part of a space that of the whole.
    fn numbers(&self) -> u128 {
        self.units()
    }

    /// A content has these units: see [`ValueError::NotLocated`].
    fn learn(&self, _: Located) {}

    /// The names of the fields, read from unit 0.
    fn names(&self) -> Vec<String> {
        self.fields(0).map(|fields| fields.into_iter().map(|(name, _)| name).collect()).unwrap_or_default()
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

/// The check that opens every `value`.
pub(crate) fn in_space(unit: u128, units: u128) -> Result<(), ValueError> {
    if unit < units { Ok(()) } else { Err(ValueError::OutOfSpace) }
}

/// Why a space of that size, in words, is too large.
pub(crate) fn too_large(size: &str) -> String {
    format!(
        "{size}; a job holds at most 2^128 - 1 units (about 3.4 x 10^38): make the space smaller, or split it into several \
         jobs"
    )
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
}
