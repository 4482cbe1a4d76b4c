//! The digits that a kernel is given, in spaces of up to 2^128 - 1 units: written with them, a unit has the value that its
//! decomposer says. The number of the unit is put together here by sums and products, where the decomposers divide.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use starfarm_decomposers::{NoChunks, digits, open};
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::spec::{Axis, HexBytes, Space};

/// So many sizes, 1 to `most`, whose product is at most 2^128 - 1.
fn sizes(random: &mut SplitMix64, count: u64, most: u64) -> Vec<u128> {
    let mut room = u128::MAX;
    let size = |_| {
        let size = (1 + random.below(most)) as u128;
        let size = if size <= room { size } else { 1 };
        room /= size;
        size
    };
    (0..count).map(size).collect()
}

fn chars(sizes: &[u128]) -> Space {
    let alphabet = |size: &u128| HexBytes((0..=255).rev().take(*size as usize).collect());
    Space::Chars { positions: sizes.iter().map(alphabet).collect(), min: sizes.len() }
}

fn grid(sizes: &[u128]) -> Space {
    let values = |size: &u128| (0..*size).map(|value| format!("v{value}")).collect();
    let axis = |(number, size)| Axis { name: format!("a{number}"), values: values(size) };
    Space::Grid { axes: sizes.iter().enumerate().map(axis).collect() }
}

/// What the decomposer of such a space says of the unit with these digits.
fn value(space: &Space, digits: &[u128]) -> Vec<u8> {
    match space {
        Space::Chars { positions, .. } => {
            positions.iter().zip(digits).map(|(alphabet, digit)| alphabet.0[*digit as usize]).collect()
        }
        Space::Grid { axes } => {
            let values = axes.iter().zip(digits).map(|(axis, digit)| axis.values[*digit as usize].as_str());
            values.collect::<Vec<_>>().join(" ").into_bytes()
        }
        Space::Range { from, step, .. } => {
            (i128::from(*from) + digits[0] as i128 * i128::from(*step)).to_string().into_bytes()
        }
        _ => panic!("no kernel runs over {space:?}"),
    }
}

/// Digits of which, from some place on, all are the last or the first ones: one unit further, or one back, they all turn.
fn at_a_carry(random: &mut SplitMix64, sizes: &[u128], last: bool) -> Vec<u128> {
    let turned = random.below(sizes.len() as u64 + 1) as usize;
    let digit = |(at, size): (usize, &u128)| match (at < turned, last) {
        (true, _) => u128::from(random.draw()) % size,
        (false, true) => size - 1,
        (false, false) => 0,
    };
    sizes.iter().enumerate().map(digit).collect()
}

fn check(what: &str, random: &mut SplitMix64, space: &Space) {
    let (opened, sizes) = (open(space, Arc::new(NoChunks)).unwrap(), digits(space).unwrap());
    let product = sizes.iter().try_fold(1_u128, |product, size| product.checked_mul(*size));
    assert_eq!(product, Some(opened.units()), "{what}, {sizes:?}");
    let of = |digits: &[u128]| digits.iter().zip(&sizes).fold(0, |unit, (digit, size)| unit * size + digit);
    for _ in 0..20 {
        for last in [true, false] {
            let digits = at_a_carry(random, &sizes, last);
            let unit = of(&digits);
            assert_eq!(opened.value(unit).unwrap(), value(space, &digits), "{what}, {sizes:?}, unit {unit}");
        }
    }
}

#[test]
fn a_units_digits_are_its_value_at_random_and_beside_each_carry() {
    for seed in 0..200 {
        let random = &mut SplitMix64(seed);
        let what = format!("seed {seed}");
        let count = 1 + random.below(40);
        let spaces = [chars(&sizes(random, count, 256)), grid(&sizes(random, count, 300))];
        let (from, to) = (random.draw().cast_signed(), random.draw().cast_signed());
        let step_bits = random.below(63);
        let step = (1 + random.below(1 << step_bits)).cast_signed();
        let (from, to) = (from.min(to), from.max(to));
        let ranges = [Space::Range { from, to, step }, Space::Range { from: to, to: from, step: -step }];
        spaces.iter().chain(&ranges).for_each(|space| check(&what, random, space));
    }
}

/// A device counts each digit by 64 bits. There is one space that has one unit more.
#[test]
fn a_digit_of_more_than_64_bits_is_refused() {
    let frames = |last| digits(&Space::Frames { first: i64::MIN, last });
    assert_eq!(frames(i64::MAX - 1), Ok(vec![u128::from(u64::MAX)]));
    assert!(frames(i64::MAX).unwrap_err().contains("2^64 - 1"));
}
