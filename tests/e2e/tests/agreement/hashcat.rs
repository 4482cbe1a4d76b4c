//! hashcat against the native kernels and a device: all three are given the same masks and targets. hashcat goes through a mask
//! in another order, so that it searches the whole of each space, and what it found in an interval is known by the units.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::case::Case;
use crate::devices::{length, scan_on};
use crate::judge::{ALGORITHMS, Chance, paths, scan};
use starfarm_e2e::{TempDir, a_device, has, skip};
use starfarm_kernels::Hit;
use starfarm_opencl::DeviceSearch;
use starfarm_protocol::ids::{from_hex, to_hex};
use starfarm_protocol::spec::Algorithm;

/// Digests with their candidates.
type Found = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// Candidates of each space, at most, of two lengths: few for hashcat.
const UNITS_MAX: usize = 1 << 20;

/// hashcat, to which the test has a name of its own: two of one name do not run at a time.
fn program(test: &str) -> Command {
    let mut hashcat = Command::new("hashcat");
    hashcat.arg("--session").arg(format!("starfarm-{test}-{}", std::process::id()));
    hashcat.args(["--force", "--logfile-disable"]);
    hashcat
}

/// hashcat, which has found a device.
fn is_there(test: &str) -> bool {
    if !has("hashcat", test) {
        return false;
    }
    let probe = program(test).arg("-I").output().unwrap();
    let found = String::from_utf8_lossy(&probe.stdout).contains("Backend Device ID");
    if !found {
        skip("hashcat", test, "it finds no OpenCL device");
    }
    found
}

/// A space that hashcat has a mask for: up to four alphabets, each at any of the positions, and single bytes.
fn case(chance: &mut Chance, algorithm: Algorithm, length: usize) -> Case {
    let alphabets: Vec<Vec<u8>> = (0..4)
        .map(|_| {
            let size = 2 + chance.index(60);
            chance.alphabet(size)
        })
        .collect();
    let mut positions: Vec<_> = (0..length).map(|_| chance.bytes(1)).collect();
    let mut room = UNITS_MAX;
    for _ in 0..2 * length {
        let (at, alphabet) = (chance.index(length), &alphabets[chance.index(4)]);
        if positions[at].len() == 1 && room >= alphabet.len() {
            room /= alphabet.len();
            positions[at].clone_from(alphabet);
        }
    }
    Case { algorithm, positions, min: (length - 1).max(1) }
}

/// A file of masks with the candidates of a case, all in hexadecimal: a line for each length.
fn masks(case: &Case) -> String {
    let wide = case.positions.iter().filter(|alphabet| alphabet.len() > 1);
    let alphabets: Vec<_> = wide.collect::<BTreeSet<_>>().into_iter().collect();
    let word = |position: &Vec<u8>| match alphabets.iter().position(|alphabet| *alphabet == position) {
        Some(number) => format!("?{}", number + 1),
        None => to_hex(position),
    };
    let charsets: String = alphabets.iter().map(|alphabet| to_hex(alphabet) + ",").collect();
    let line = |length| {
        let mask: String = case.positions[..length].iter().map(word).collect();
        format!("{charsets}{mask}\n")
    };
    (case.min..=case.positions.len()).map(line).collect()
}

fn found_by_hashcat(test: &str, dir: &Path, case: &Case, targets: &[Vec<u8>]) -> Found {
    let mode = match case.algorithm {
        Algorithm::Md5 => "0",
        Algorithm::Sha1 => "100",
        Algorithm::Ntlm => "1000",
        Algorithm::Sha256 => "1400",
    };
    let (list, masks_file, out) = (dir.join("targets"), dir.join("all.hcmask"), dir.join("out"));
    fs::write(&list, targets.iter().map(|target| to_hex(target) + "\n").collect::<String>()).unwrap();
    fs::write(&masks_file, masks(case)).unwrap();
    fs::write(&out, "").unwrap();
    let mut hashcat = program(test);
    hashcat.args(["-D", "1", "-O", "--quiet", "--hwmon-disable", "--potfile-disable"]);
    hashcat.args(["--restore-disable", "--self-test-disable", "--markov-disable"]);
    // How it divides its work: it need not try out what is fast.
    hashcat.args(["-n", "32", "-u", "64", "-T", "1"]);
    hashcat.args(["-m", mode, "-a", "3", "--hex-charset", "--outfile-format", "1,3", "--outfile"]);
    let said = hashcat.args([&out, &list, &masks_file]).output().unwrap();
    // 0: all are found, 1: not all.
    assert!(matches!(said.status.code(), Some(0 | 1)), "{case}: {said:?}");
    let line = |line: &str| {
        let (digest, candidate) = line.split_once(':').unwrap();
        (from_hex(digest).unwrap(), from_hex(candidate).unwrap())
    };
    fs::read_to_string(&out).unwrap().lines().map(line).collect()
}

/// Scans the space in pieces that are cut anywhere; hits of a piece are those that are in it.
fn found_in_pieces(
    chance: &mut Chance,
    case: &Case,
    mut scan: impl FnMut(u128, u128) -> Vec<Hit>,
) -> Vec<Hit> {
    let (mut hits, mut lo) = (Vec::new(), 0);
    while lo < case.units() {
        let hi = (lo + 1 + chance.below(case.units() / 5 + 1)).min(case.units());
        let here = scan(lo, hi);
        assert!(here.iter().all(|hit| (lo..hi).contains(&hit.unit)), "{case} [{lo}, {hi})");
        hits.extend(here);
        lo = hi;
    }
    hits
}

fn compare(test: &str, algorithm: Algorithm) {
    let (true, Some(device)) = (is_there(test), a_device(test)) else { return };
    let dir = TempDir::new();
    let number = ALGORITHMS.iter().position(|one| *one == algorithm).unwrap();
    for (turn, count) in [1, 500, 1_000_000].into_iter().enumerate() {
        let seed = 3 * number as u64 + turn as u64;
        let chance = &mut Chance::new(seed);
        let length = length(chance, number + turn);
        let case = case(chance, algorithm, length);
        let what = format!("seed {seed}, {case}, {count} targets");
        let lengths: Vec<_> =
            (case.min..=length).map(|length| (case.first(length), case.first(length + 1))).rev().collect();
        let targets = case.targets(chance, &lengths, count);
        let hashcat = found_by_hashcat(test, dir.path(), &case, &targets);
        let of = |hit: &Hit| (targets[hit.target as usize].clone(), case.candidate(hit.unit));
        let mut device = DeviceSearch::new(&device, case.search(&targets)).unwrap();
        let on_device = found_in_pieces(chance, &case, |lo, hi| scan_on(&mut device, lo, hi));
        for path in paths() {
            let native = case.search(&targets).with_path(path).unwrap();
            let native = found_in_pieces(chance, &case, |lo, hi| scan(&native, lo, hi));
            assert_eq!(native, on_device, "{what}, {path:?}");
        }
        assert!(!hashcat.is_empty(), "{what}");
        assert_eq!(on_device.iter().map(of).collect::<Found>(), hashcat, "{what}");
        assert_eq!(on_device.len(), hashcat.len(), "{what}: each once");
    }
}

#[test]
fn md5_finds_what_hashcat_finds() {
    compare("md5_finds_what_hashcat_finds", Algorithm::Md5);
}

#[test]
fn ntlm_finds_what_hashcat_finds() {
    compare("ntlm_finds_what_hashcat_finds", Algorithm::Ntlm);
}

#[test]
fn sha1_finds_what_hashcat_finds() {
    compare("sha1_finds_what_hashcat_finds", Algorithm::Sha1);
}

#[test]
fn sha256_finds_what_hashcat_finds() {
    compare("sha256_finds_what_hashcat_finds", Algorithm::Sha256);
}
