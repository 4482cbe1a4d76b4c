//! From a unit to its candidate and back, in spaces of up to 2^128 - 1 units: at random units, and where many positions
//! turn at once. The way back is the judge's own: it multiplies where the kernels divide.

use crate::case::Case;
use crate::judge::{ALGORITHMS, Chance, length_max, paths, scan};
use starfarm_kernels::{Hit, Verifier};
use starfarm_protocol::spec::{Algorithm, HexBytes, SearchWork, Space, Stop};

/// The unit of a candidate.
fn unit_of(case: &Case, candidate: &[u8]) -> u128 {
    let digits =
        case.positions.iter().zip(candidate).map(|(alphabet, byte)| {
            (alphabet.len(), alphabet.iter().position(|symbol| symbol == byte).unwrap())
        });
    case.first(candidate.len()) + number(digits)
}

/// The number that these digits are, of so many values each.
fn number(digits: impl Iterator<Item = (usize, usize)>) -> u128 {
    digits.fold(0, |number, (size, digit)| {
        assert!(digit < size, "{digit} is no digit below {size}");
        number * size as u128 + digit as u128
    })
}

/// 2^128 - 1 candidates: of each length 255/256 of what is left below 256^16.
fn largest(algorithm: Algorithm) -> Case {
    let mut positions: Vec<Vec<u8>> = vec![(0..=255).rev().collect(); 16];
    positions[0].pop();
    let case = Case { algorithm, positions, min: 1 };
    assert_eq!(case.units(), u128::MAX);
    case
}

/// Spaces of mixed radices.
fn cases(chance: &mut Chance, count: usize) -> Vec<Case> {
    let mut cases = Vec::from(ALGORITHMS.map(largest));
    for algorithm in ALGORITHMS {
        cases.extend((0..count).map(|_| Case::random(chance, algorithm, length_max(algorithm))));
    }
    cases
}

/// Units at which positions turn: for each length and position a unit with zeros behind it. And others.
fn seams(chance: &mut Chance, case: &Case) -> Vec<u128> {
    let (units, mut seams) = (case.units(), Vec::new());
    for length in case.min..=case.positions.len() {
        let (first, end) = (case.first(length), case.first(length + 1));
        let mut weight = 1;
        for alphabet in case.positions[..length].iter().rev() {
            seams.push(first + chance.below((end - first) / weight) * weight);
            weight *= alphabet.len() as u128;
        }
        seams.push(first);
    }
    seams.extend((0..10).map(|_| chance.below(units)));
    seams.push(units - 1);
    seams
}

#[test]
fn a_stretch_begins_at_the_digits_of_its_unit() {
    for seed in 0..4 {
        let chance = &mut Chance::new(seed);
        for case in cases(chance, 5) {
            let search = case.search(&[vec![0; case.algorithm.digest_bytes()]]);
            for seam in seams(chance, &case) {
                for unit in [seam.saturating_sub(1), seam] {
                    let what = format!("seed {seed}, {case}, unit {unit}");
                    let candidate = case.candidate(unit);
                    assert_eq!(unit_of(&case, &candidate), unit, "the judge: {what}");
                    let stretch = search.stretch(unit, unit + 1, 1, 0);
                    let (length, tail) = stretch.kind();
                    assert_eq!(
                        (length, tail.end, stretch.runs()),
                        (candidate.len(), candidate.len(), 1),
                        "{what}"
                    );
                    assert_eq!(stretch.units(), unit..unit + 1, "{what}");
                    let sizes: Vec<_> = case.positions[..length].iter().map(Vec::len).collect();
                    let (outside, inside) = sizes.split_at(tail.start);
                    assert_eq!(inside.iter().product::<usize>(), stretch.tail(), "{what}");
                    let digits = stretch.digits(0);
                    assert!(digits.iter().map(|d| d[0] as usize).eq(outside.iter().copied()), "{what}");
                    let digits = digits.iter().map(|d| (d[0] as usize, d[1] as usize));
                    let number = number(digits.chain([(stretch.tail(), stretch.combinations().start)]));
                    assert_eq!(case.first(length) + number, unit, "{what}");
                }
            }
        }
    }
}

#[test]
fn the_units_beside_a_carry_are_found_and_have_their_candidates_digests() {
    for seed in 0..2 {
        let chance = &mut Chance::new(seed);
        for case in cases(chance, 3) {
            let mut units: Vec<u128> =
                seams(chance, &case).into_iter().flat_map(|seam| [seam.saturating_sub(1), seam]).collect();
            units.sort_unstable();
            units.dedup();
            let targets: Vec<_> = units.iter().map(|unit| case.digest(*unit)).collect();
            let verifier = verifier(&case, &targets);
            for path in paths() {
                let search = case.search(&targets).with_path(path).unwrap();
                for (target, &unit) in (0..).zip(&units) {
                    let what = format!("seed {seed}, {case} {path:?}, unit {unit}");
                    assert_eq!(verifier.digest(unit).as_ref(), targets.get(target as usize), "{what}");
                    let (lo, hi) = (unit.saturating_sub(1), (unit + 1).min(case.units() - 1) + 1);
                    let here = (0..).zip(&units).filter(|(_, unit)| (lo..hi).contains(*unit));
                    let here: Vec<_> = here.map(|(target, &unit)| Hit { unit, target }).collect();
                    assert_eq!(scan(&search, lo, hi), here, "{what}");
                }
            }
        }
    }
}

fn verifier(case: &Case, targets: &[Vec<u8>]) -> Verifier {
    let targets = targets.iter().cloned().map(HexBytes).collect();
    let work = SearchWork { algorithm: case.algorithm, targets, stop: Stop::Never, needs: None };
    let positions = case.positions.iter().cloned().map(HexBytes).collect();
    Verifier::new(&work, &Space::Chars { positions, min: case.min }).unwrap()
}
