//! Random spaces, intervals and targets: each path against the judge, which computes every candidate with
//! other people's code.

use crate::case::Case;
use crate::judge::{ALGORITHMS, Chance, length_max, paths, scan};
use starfarm_kernels::Hit;

fn check(chance: &mut Chance, case: &Case, count: usize, most: u128) {
    let (lo, hi) = case.interval(chance, most);
    let targets = case.targets(chance, &[(lo, hi)], count);
    let expected = case.judge(lo..hi, &targets);
    assert!(!expected.is_empty());
    for path in paths() {
        let search = case.search(&targets).with_path(path).unwrap();
        assert_eq!(scan(&search, lo, hi), expected, "{case} {path:?} [{lo}, {hi}), {count} targets");
    }
}

#[test]
fn random_spaces_with_few_and_many_targets() {
    let mut chance = Chance::new(1);
    for algorithm in ALGORITHMS {
        for count in [1, 2, 8, 9, 500] {
            for _ in 0..8 {
                let case = Case::random(&mut chance, algorithm, 12);
                check(&mut chance, &case, count, 3_000);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_targets() {
    let mut chance = Chance::new(2);
    for algorithm in ALGORITHMS {
        let case = Case::random(&mut chance, algorithm, 12);
        check(&mut chance, &case, 100_000, 20_000);
    }
}

#[test]
fn intervals_over_many_runs() {
    let mut chance = Chance::new(3);
    for algorithm in ALGORITHMS {
        // 256 is as long as a run is when the alphabets do not divide it better.
        let positions = [256, 256, 257 - 1, 2].map(|size| chance.alphabet(size)).to_vec();
        let case = Case { algorithm, positions, min: 2 };
        check(&mut chance, &case, 1, 150_000);
        check(&mut chance, &case, 20, 150_000);
    }
}

#[test]
fn the_longest_candidates() {
    let mut chance = Chance::new(4);
    for algorithm in ALGORITHMS {
        let positions = (0..length_max(algorithm)).map(|_| chance.alphabet(2)).collect();
        let case = Case { algorithm, positions, min: length_max(algorithm) - 2 };
        for count in [1, 30] {
            check(&mut chance, &case, count, 2_000);
        }
    }
}

#[test]
fn alphabets_of_one_byte_and_of_all() {
    let mut chance = Chance::new(5);
    for algorithm in ALGORITHMS {
        let lone = Case { algorithm, positions: vec![vec![b'x']; 6], min: 6 };
        assert_eq!(lone.units(), 1);
        check(&mut chance, &lone, 1, 1);
        let all = Case { algorithm, positions: vec![(0..=255).collect(); 3], min: 1 };
        check(&mut chance, &all, 3, 70_000);
        let mixed =
            Case { algorithm, positions: vec![vec![0], (0..=255).collect(), vec![255], vec![7]], min: 1 };
        check(&mut chance, &mixed, 3, 600);
    }
}

#[test]
fn the_last_units_of_a_space_near_the_limit() {
    // 256^15 * 255 candidates: just below 2^128.
    let mut chance = Chance::new(6);
    for algorithm in ALGORITHMS {
        let mut positions: Vec<Vec<u8>> = vec![(0..=255).collect(); 16];
        positions[0].pop();
        let case = Case { algorithm, positions, min: 16 };
        let units = case.units();
        let targets = [case.digest(units - 1), case.digest(units - 1_000)];
        let hit = |unit, target| Hit { unit, target };
        for path in paths() {
            let search = case.search(&targets).with_path(path).unwrap();
            let hits = scan(&search, units - 1_000, units);
            assert_eq!(hits, [hit(units - 1_000, 1), hit(units - 1, 0)]);
        }
        check(&mut chance, &case, 2, 500);
    }
}

#[test]
fn targets_that_share_their_first_words_are_told_apart() {
    // The key is a word of the digest; a target that differs in its last or first byte alone is another.
    for algorithm in ALGORITHMS {
        let case = Case { algorithm, positions: vec![b"abcdefgh".to_vec(); 4], min: 4 };
        let right = case.digest(1_234);
        let near = |at: usize| {
            let mut digest = right.clone();
            digest[at] ^= 1;
            digest
        };
        let wrong: Vec<Vec<u8>> = (0..right.len()).map(near).collect();
        for path in paths() {
            assert_eq!(scan(&case.search(&wrong).with_path(path).unwrap(), 0, case.units()), []);
            let mut all = wrong.clone();
            all.push(right.clone());
            let hits = scan(&case.search(&all).with_path(path).unwrap(), 0, case.units());
            assert_eq!(hits, [Hit { unit: 1_234, target: wrong.len() as u32 }]);
        }
    }
}
