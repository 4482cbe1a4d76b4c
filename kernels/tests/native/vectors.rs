//! Published digests, found by every algorithm on every path, and what `new` refuses.

use crate::judge::{ALGORITHMS, Chance, digest, length_max, paths, scan};
use starfarm_kernels::{Path, Search, SearchError};
use starfarm_protocol::ids::from_hex;
use starfarm_protocol::spec::Algorithm;

/// RFC 1321 A.5; FIPS 180-4 examples; NTLM of "password" and of "a" as commonly published.
const PUBLISHED: [(Algorithm, &str, &str); 12] = [
    (Algorithm::Md5, "a", "0cc175b9c0f1b6a831c399e269772661"),
    (Algorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
    (Algorithm::Md5, "message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
    (Algorithm::Md5, "abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
    (Algorithm::Sha1, "a", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
    (Algorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (Algorithm::Sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (Algorithm::Sha256, "a", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    (Algorithm::Ntlm, "password", "8846f7eaee8fb117ad06bdd830b7586c"),
    (Algorithm::Ntlm, "a", "186cb09181e2c2ecaac768c47c729904"),
    (Algorithm::Ntlm, "abc", "e0fba38268d0ec66ef1cb452d5885e53"),
    (Algorithm::Md5, "12345678901234567890", "fd85e62d9beb45428771ec688418b271"),
];

#[test]
fn published_digests_are_found() {
    for path in paths() {
        for (algorithm, text, hex) in PUBLISHED {
            // The last two characters are unknown, the others given.
            let known = text.len().saturating_sub(2);
            let any: Vec<u8> = (b' '..=b'~').collect();
            let positions: Vec<Vec<u8>> = text
                .bytes()
                .enumerate()
                .map(|(i, byte)| if i < known { vec![byte] } else { any.clone() })
                .collect();
            let unit = text.bytes().skip(known).fold(0, |unit, byte| unit * 95 + u128::from(byte - b' '));
            let target = from_hex(hex).unwrap();
            let search =
                Search::new(algorithm, &positions, text.len(), &[target]).unwrap().with_path(path).unwrap();
            assert_eq!(search.path(), path.name());
            let hits = scan(&search, 0, search.units());
            assert_eq!(hits.len(), 1, "{algorithm:?} {text} {path:?}");
            assert_eq!((hits[0].unit, hits[0].target), (unit, 0), "{algorithm:?} {text} {path:?}");
        }
    }
}

#[test]
fn every_length_is_right() {
    let mut chance = Chance::new(11);
    for path in paths() {
        for algorithm in ALGORITHMS {
            for length in 1..=length_max(algorithm) {
                let positions: Vec<Vec<u8>> = (0..length).map(|_| chance.alphabet(3)).collect();
                let units: u128 = 3u128.pow(length as u32);
                let unit = chance.below(units);
                let target = digest(algorithm, &crate::judge::candidate(&positions, length, unit));
                let search =
                    Search::new(algorithm, &positions, length, &[target]).unwrap().with_path(path).unwrap();
                assert_eq!(search.units(), units);
                let (lo, hi) = (unit.saturating_sub(70), units.min(unit + 70));
                let hits = scan(&search, lo, hi);
                assert_eq!(
                    hits.iter().map(|h| h.unit).collect::<Vec<_>>(),
                    [unit],
                    "{algorithm:?} {length} {path:?}"
                );
            }
        }
    }
}

fn refused(algorithm: Algorithm, positions: &[Vec<u8>], min: usize, targets: &[Vec<u8>]) -> SearchError {
    Search::new(algorithm, positions, min, targets).err().unwrap()
}

#[test]
fn bad_spaces_are_refused() {
    let target = [vec![0; 16]];
    let ab = b"ab".to_vec();
    let of = |n: usize| vec![ab.clone(); n];
    let md5 = Algorithm::Md5;
    assert_eq!(refused(md5, &[], 1, &target), SearchError::Lengths { min: 1, max: 0 });
    assert_eq!(refused(md5, &of(2), 0, &target), SearchError::Lengths { min: 0, max: 2 });
    assert_eq!(refused(md5, &of(2), 3, &target), SearchError::Lengths { min: 3, max: 2 });
    assert_eq!(refused(md5, &of(56), 1, &target), SearchError::TooLong { length: 56, limit: 55 });
    assert_eq!(refused(Algorithm::Ntlm, &of(28), 1, &target), SearchError::TooLong { length: 28, limit: 27 });
    let empty = [ab.clone(), vec![]];
    assert_eq!(refused(md5, &empty, 1, &target), SearchError::Alphabet { position: 1, repeated: None });
    let twice = [ab.clone(), b"xyx".to_vec()];
    let expected = SearchError::Alphabet { position: 1, repeated: Some(b'x') };
    assert_eq!(refused(md5, &twice, 1, &target), expected);
    let wide: Vec<u8> = (0..=255).collect();
    assert_eq!(refused(md5, &vec![wide; 16], 16, &target), SearchError::TooManyUnits);
}

#[test]
fn bad_targets_are_refused() {
    let positions = [b"ab".to_vec()];
    assert_eq!(refused(Algorithm::Md5, &positions, 1, &[]), SearchError::NoTargets);
    let mixed = [vec![0; 20], vec![0; 16]];
    let expected = SearchError::TargetLength { target: 1, length: 16, expected: 20 };
    assert_eq!(refused(Algorithm::Sha1, &positions, 1, &mixed), expected);
    assert_eq!(
        expected.to_string(),
        "target 2 has 16 bytes, a digest of this algorithm has 20 (40 hexadecimal digits): check the digest and the algorithm"
    );
}

#[test]
fn a_path_that_is_missing_is_refused_and_the_best_one_is_taken() {
    let search = || Search::new(Algorithm::Md5, &[b"ab".to_vec()], 1, &[vec![0; 16]]).unwrap();
    assert_eq!(search().path(), Path::best().name());
    for path in Path::ALL {
        match search().with_path(path) {
            Ok(search) => assert!(path.is_available() && search.path() == path.name()),
            Err(error) => assert!(!path.is_available() && error == SearchError::NoPath(path)),
        }
    }
}
