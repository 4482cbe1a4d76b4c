//! One number out of many, or a summary of them.

use crate::summary::Summary;

/// What is made of many numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Count,
    Sum,
    Min,
    Max,
    /// Rounded down.
    Mean,
    /// The whole summary.
    All,
}

impl Op {
    /// Of each of these the outcome, as a value.
    pub(super) fn write(self, each: &[Summary]) -> Vec<u8> {
        let of: fn(&Summary) -> u64 = match self {
            Self::All => return Summary::write_each(each),
            Self::Count => |summary| summary.count,
            Self::Sum => |summary| summary.sum,
            Self::Min => |summary| summary.min,
            Self::Max => |summary| summary.max,
            Self::Mean => |summary| summary.mean(),
        };
        each.iter().flat_map(|summary| of(summary).to_le_bytes()).collect()
    }
}

/// Adds numbers one by one to those at the same place; where there was none, the place is new.
pub(super) fn add_each(to: &mut Vec<Summary>, more: &[Summary]) {
    let (both, new) = more.split_at(to.len().min(more.len()));
    to.iter_mut().zip(both).for_each(|(sum, more)| *sum = sum.and(*more));
    to.extend_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_added_on_its_own() {
        let mut sums = Vec::new();
        for numbers in [&[1, 2, 3][..], &[10, 20], &[100, 200, 300, 400]] {
            add_each(&mut sums, &numbers.iter().copied().map(Summary::of).collect::<Vec<_>>());
        }
        let read = |op: Op| crate::values::numbers(&op.write(&sums)).unwrap().collect::<Vec<_>>();
        assert_eq!(read(Op::Count), [3, 3, 2, 1]);
        assert_eq!(read(Op::Sum), [111, 222, 303, 400]);
        assert_eq!((read(Op::Min), read(Op::Max)), (vec![1, 2, 3, 400], vec![100, 200, 300, 400]));
        assert_eq!(read(Op::Mean), [37, 74, 151, 400]);
        assert_eq!(Summary::read_each(&Op::All.write(&sums)), Some(sums));
    }
}
