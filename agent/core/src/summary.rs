//! Many numbers in four: how many, their sum, the least and the greatest. Summaries of parts make that of the whole,
//! in any order, exactly: so each post of a tree can hand on one for all below it.

use crate::named::Named;
use crate::values::{Triple, numbers};

/// Count, sum, least and greatest of at least one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// How many numbers.
    pub count: u64,
    /// Their sum, at most `u64::MAX`.
    pub sum: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
}

/// Bytes of a summary in a value.
const BYTES: usize = 32;
/// What a value of summaries begins with. Its bytes are one more than a multiple of eight, so nobody takes the numbers of
/// four cores for a summary.
const MARK: u8 = 1;

impl Summary {
    /// Of one number.
    pub fn of(number: u64) -> Self {
        Self { count: 1, sum: number, min: number, max: number }
    }

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            sum: self.sum.saturating_add(other.sum),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Reads a value: a summary, or a plain number. None of anything else, such as a summary of nothing.
    pub fn read(value: &[u8]) -> Option<Self> {
        match Self::read_each(value)?[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Reads what a stage computes with: see [`Summary::read_each`]. None of a figure that has a name only.
    pub(crate) fn of_each(triple: &Triple<'_>) -> Option<Vec<Self>> {
        Self::read_each(triple.value).filter(|_| Named::read(triple).is_none())
    }

    /// Reads a value: summaries, or plain numbers, at least one. None of anything else.
    pub fn read_each(value: &[u8]) -> Option<Vec<Self>> {
        if let [MARK, rest @ ..] = value
            && let (summaries, []) = rest.as_chunks()
            && !summaries.is_empty()
        {
            return summaries.iter().map(Self::of_bytes).collect();
        }
        numbers(value).map(|numbers| numbers.map(Self::of).collect())
    }

    fn of_bytes(bytes: &[u8; BYTES]) -> Option<Self> {
        let [count, sum, min, max] =
            std::array::from_fn(|n| u64::from_le_bytes(std::array::from_fn(|byte| bytes[n * 8 + byte])));
        (count > 0 && min <= max).then_some(Self { count, sum, min, max })
    }

    /// As a value.
    pub fn write(self) -> Vec<u8> {
        Self::write_each(&[self])
    }

    /// These as a value.
    pub fn write_each(all: &[Self]) -> Vec<u8> {
        let numbers = all.iter().flat_map(|of| [of.count, of.sum, of.min, of.max]);
        std::iter::once(MARK).chain(numbers.flat_map(u64::to_le_bytes)).collect()
    }

    /// The mean, rounded down.
    pub fn mean(self) -> u64 {
        self.sum / self.count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_parts_make_that_of_the_whole_in_any_order() {
        let all = [7, 0, u64::MAX / 4, 9].map(Summary::of);
        let whole = all.into_iter().reduce(Summary::and).unwrap();
        assert_eq!(whole, Summary { count: 4, sum: u64::MAX / 4 + 16, min: 0, max: u64::MAX / 4 });
        assert_eq!(all[3].and(all[1]).and(all[2].and(all[0])), whole);
        assert_eq!(Summary::of(u64::MAX).and(whole).sum, u64::MAX);
        assert_eq!(all[0].and(all[3]).mean(), 8);
    }

    #[test]
    fn a_summary_is_read_as_it_was_written_and_a_number_is_one_of_itself() {
        let summary = Summary { count: 3, sum: 60, min: 10, max: 30 };
        assert_eq!(Summary::read(&summary.write()), Some(summary));
        assert_eq!(Summary::read(&7_u64.to_le_bytes()), Some(Summary::of(7)));
        assert_eq!(Summary::read(&Summary { count: 0, ..summary }.write()), None, "of nothing");
        assert_eq!(Summary::read(&Summary { min: 31, ..summary }.write()), None);
        assert_eq!(Summary::read(&[1; 32]), None, "four numbers");
        assert_eq!((Summary::read(&[]), Summary::read(&[MARK])), (None, None));
    }

    #[test]
    fn the_numbers_of_four_cores_are_no_summary() {
        let numbers = [3, 60, 10, 30_u64];
        let cores = numbers.map(u64::to_le_bytes).concat();
        assert_eq!(Summary::read_each(&cores), Some(numbers.map(Summary::of).to_vec()));
        let two = [Summary::of(3), Summary { count: 3, sum: 60, min: 10, max: 30 }];
        assert_eq!(Summary::read_each(&Summary::write_each(&two)), Some(two.to_vec()));
        assert_eq!(Summary::read(&Summary::write_each(&two)), None);
    }
}
