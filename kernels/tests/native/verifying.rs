//! Hits that come from elsewhere: the judge says which are true.

use crate::judge::{ALGORITHMS, Chance, candidate, digest};
use starfarm_kernels::Verifier;
use starfarm_protocol::spec::{HexBytes, SearchWork, Space, Stop};

#[test]
fn a_hit_is_true_where_the_candidate_has_that_digest() {
    let mut chance = Chance::new(7);
    for algorithm in ALGORITHMS {
        for _ in 0..50 {
            let positions: Vec<Vec<u8>> = (0..1 + chance.index(9))
                .map(|_| {
                    let size = 1 + chance.index(60);
                    chance.alphabet(size)
                })
                .collect();
            let min = 1 + chance.index(positions.len());
            let of = |length: usize| positions[..length].iter().map(|a| a.len() as u128).product::<u128>();
            let units: u128 = (min..=positions.len()).map(of).sum();
            let known: Vec<u128> =
                [0, units - 1].into_iter().chain((0..5).map(|_| chance.below(units))).collect();
            let targets =
                known.iter().map(|&unit| HexBytes(digest(algorithm, &candidate(&positions, min, unit))));
            let work = SearchWork { algorithm, targets: targets.collect(), stop: Stop::Never, needs: None };
            let space = Space::Chars { positions: positions.iter().cloned().map(HexBytes).collect(), min };
            let verifier = Verifier::new(&work, &space).unwrap();
            for (target, &unit) in (0..).zip(&known) {
                assert!(verifier.is_hit(unit, target), "{algorithm:?} {unit}");
                assert_eq!(
                    verifier.digest(unit).unwrap(),
                    work.targets[target as usize].0,
                    "{algorithm:?} {unit}"
                );
                let other = chance.below(units);
                let same =
                    work.targets[target as usize].0 == digest(algorithm, &candidate(&positions, min, other));
                assert_eq!(verifier.is_hit(other, target), same, "{algorithm:?} {other}");
            }
            assert_eq!(verifier.digest(units), None);
            assert!(!verifier.is_hit(units, 0) && !verifier.is_hit(u128::MAX, 0), "no such unit");
            assert!(!verifier.is_hit(known[0], known.len() as u32), "no such target");
        }
    }
}

#[test]
fn a_search_that_is_none_is_refused() {
    let space = Space::Chars { positions: vec![HexBytes(b"ab".to_vec())], min: 1 };
    let work = |targets: &[&[u8]]| SearchWork {
        algorithm: ALGORITHMS[0],
        targets: targets.iter().map(|target| HexBytes(target.to_vec())).collect(),
        stop: Stop::Never,
        needs: None,
    };
    let refusal = |work, space| Verifier::new(&work, space).unwrap_err();
    assert!(refusal(work(&[]), &space).contains("target"), "none at all");
    assert!(refusal(work(&[&[0; 16], &[0; 15]]), &space).contains("15"), "one too short");
    let other = Space::Range { from: 0, to: 9, step: 1 };
    assert!(refusal(work(&[&[0; 16]]), &other).contains("chars"), "no space of characters");
}
