//! The contract of `scan`: any cut finds the same hits, `keep_going` is asked and obeyed.

use crate::judge::{ALGORITHMS, Chance, candidate, digest, paths, scan};
use starfarm_kernels::{Hit, Path, Search};
use starfarm_protocol::spec::Algorithm;

/// Lengths 1 to 5 over uneven alphabets, with `count` targets, most of them hit.
fn search(algorithm: Algorithm, path: Path, count: usize) -> Search {
    let mut chance = Chance::new(count as u64);
    let positions = [7, 26, 3, 62, 11].map(|size| chance.alphabet(size)).to_vec();
    let units = 7 + 7 * 26 + 7 * 26 * 3 + 7 * 26 * 3 * 62 + 7 * 26 * 3 * 62 * 11;
    let step = units / count as u128;
    let targets: Vec<Vec<u8>> = (0..count as u128)
        .map(|i| digest(algorithm, &candidate(&positions, 1, (i * step + chance.below(step)).min(units - 1))))
        .collect();
    let search = Search::new(algorithm, &positions, 1, &targets).unwrap().with_path(path).unwrap();
    assert_eq!(search.units(), units);
    search
}

#[test]
fn any_partition_finds_the_same_hits() {
    let mut chance = Chance::new(7);
    for path in paths() {
        for algorithm in ALGORITHMS {
            for count in [3, 300] {
                let search = search(algorithm, path, count);
                let whole = scan(&search, 0, search.units());
                assert_eq!(whole.len(), count);
                for most in [50_000, 3_000] {
                    let mut parts = Vec::new();
                    let mut lo = 0;
                    while lo < search.units() {
                        let hi = search.units().min(lo + chance.below(most));
                        search.scan(lo, hi, &mut parts, &mut |_| true);
                        lo = hi;
                    }
                    assert_eq!(parts, whole, "{algorithm:?} {path:?}");
                }
            }
        }
    }
}

#[test]
fn an_empty_interval_finds_nothing_and_asks_nothing() {
    let search = search(Algorithm::Md5, Path::best(), 3);
    let mut hits = Vec::new();
    for at in [0, 5, search.units()] {
        assert_eq!(search.scan(at, at, &mut hits, &mut |_| panic!("asked")), at);
    }
    assert_eq!(hits, []);
}

#[test]
fn hits_are_appended_in_the_order_of_units() {
    let search = search(Algorithm::Ntlm, Path::best(), 300);
    let before = Hit { unit: u128::MAX, target: 9 };
    let mut hits = vec![before];
    search.scan(0, search.units(), &mut hits, &mut |_| true);
    assert_eq!(hits.remove(0), before);
    assert!(hits.is_sorted_by_key(|hit| hit.unit));
}

#[test]
fn keep_going_stops_at_the_unit_it_is_told() {
    let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); 5];
    for path in paths() {
        let targets = [digest(Algorithm::Md5, b"aaaaa"), digest(Algorithm::Md5, b"zzzzz")];
        let search = Search::new(Algorithm::Md5, &positions, 5, &targets).unwrap().with_path(path).unwrap();
        let mut asked = Vec::new();
        let mut hits = Vec::new();
        let next = search.scan(0, search.units(), &mut hits, &mut |next| {
            asked.extend(next);
            asked.len() < 3
        });
        assert_eq!(asked.len(), 3);
        assert_eq!(next, asked[2]);
        assert!(asked.is_sorted() && asked[0] > 0 && asked[2] < search.units());
        assert_eq!(hits, [Hit { unit: 0, target: 0 }]);
        // The rest, from where it stopped.
        assert_eq!(search.scan(next, search.units(), &mut hits, &mut |_| true), search.units());
        assert_eq!(hits[1..], [Hit { unit: search.units() - 1, target: 1 }]);
    }
}

#[test]
fn no_unit_is_lost_where_keep_going_is_asked() {
    let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); 5];
    let search = |path, targets: &[Vec<u8>]| {
        Search::new(Algorithm::Md5, &positions, 5, targets).unwrap().with_path(path).unwrap()
    };
    for path in paths() {
        let mut asked = Vec::new();
        search(path, &[vec![0; 16]]).scan(1_000, 26u128.pow(5), &mut Vec::new(), &mut |next| {
            asked.extend(next);
            asked.len() < 3
        });
        let seams: Vec<u128> = asked.iter().flat_map(|unit| [unit - 1, *unit]).collect();
        let targets: Vec<Vec<u8>> =
            seams.iter().map(|unit| digest(Algorithm::Md5, &candidate(&positions, 5, *unit))).collect();
        let hits = scan(&search(path, &targets), 1_000, asked[2] + 1);
        assert_eq!(hits.iter().map(|hit| hit.unit).collect::<Vec<_>>(), seams, "{path:?}");
    }
}

#[test]
fn what_is_given_up_half_done_leaves_no_hit_behind() {
    let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); 6];
    for path in paths() {
        let targets = [digest(Algorithm::Md5, b"aaaaaa")];
        let search = Search::new(Algorithm::Md5, &positions, 6, &targets).unwrap().with_path(path).unwrap();
        let (mut asked, mut hits) = (Vec::new(), Vec::new());
        let next = search.scan(0, search.units(), &mut hits, &mut |next| {
            asked.push(next);
            next.is_some()
        });
        assert_eq!((next, asked, hits), (0, vec![None], vec![]), "{path:?}");
    }
}

#[test]
fn an_interval_past_the_end_of_the_space_is_passed_over() {
    let search = search(Algorithm::Sha1, Path::best(), 3);
    let mut hits = Vec::new();
    let hi = search.units() + 1_000;
    assert_eq!(search.scan(0, hi, &mut hits, &mut |_| true), hi);
    assert_eq!(hits.len(), 3);
    assert_eq!(search.scan(hi, hi + 5, &mut hits, &mut |_| true), hi + 5);
    assert_eq!(hits.len(), 3);
}

#[test]
fn threads_share_a_search() {
    let search = search(Algorithm::Md5, Path::best(), 300);
    let middle = search.units() / 2;
    let (mut low, high) = std::thread::scope(|scope| {
        let low = scope.spawn(|| scan(&search, 0, middle));
        let high = scope.spawn(|| scan(&search, middle, search.units()));
        (low.join().unwrap(), high.join().unwrap())
    });
    low.extend(high);
    assert_eq!(low, scan(&search, 0, search.units()));
}
