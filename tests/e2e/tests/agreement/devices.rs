//! A device against the native kernels and the judge.

use std::collections::BTreeSet;

use crate::case::Case;
use crate::judge::{ALGORITHMS, Chance, paths, scan};
use starfarm_e2e::a_device;
use starfarm_kernels::{Hit, Search};
use starfarm_opencl::{Device, DeviceSearch};
use starfarm_protocol::devices::{DeviceFacts, DeviceKind};

/// Longest candidates: those of NTLM.
pub(crate) const LONGEST: usize = 27;

pub(crate) fn scan_on(device: &mut DeviceSearch, lo: u128, hi: u128) -> Vec<Hit> {
    let mut hits = Vec::new();
    assert_eq!(device.scan(lo, hi, &mut hits, &mut |_| true), Ok(hi));
    hits
}

/// Lengths of candidates, by turns of each third: what their last words are makes other programs of a search.
pub(crate) fn length(chance: &mut Chance, turn: usize) -> usize {
    LONGEST - LONGEST / 3 * (turn % 3) - chance.index(LONGEST / 3)
}

/// Scans intervals of a case for `count` targets, which are the ends of the intervals and what lies in and beside them.
fn compare(device: &Device, seed: u64, case: &Case, count: usize, intervals: &[(u128, u128)]) {
    let targets = case.targets(&mut Chance::new(seed), intervals, count);
    let units: BTreeSet<u128> = intervals.iter().flat_map(|(lo, hi)| *lo..*hi).collect();
    let expected = case.judge(units, &targets);
    let natives: Vec<Search> =
        paths().into_iter().map(|path| case.search(&targets).with_path(path).unwrap()).collect();
    let mut device = DeviceSearch::new(device, case.search(&targets)).unwrap();
    for (number, &(lo, hi)) in intervals.iter().enumerate() {
        let what = format!("seed {seed}, {case} [{lo}, {hi}), {count} targets");
        let here = within(&expected, lo, hi);
        assert!(number > 0 || !here.is_empty(), "{what}");
        for native in &natives {
            assert_eq!(scan(native, lo, hi), here, "{what}, {}", native.path());
        }
        assert_eq!(scan_on(&mut device, lo, hi), here, "{what}");
    }
}

fn within(hits: &[Hit], lo: u128, hi: u128) -> Vec<Hit> {
    hits.iter().filter(|hit| (lo..hi).contains(&hit.unit)).copied().collect()
}

fn compare_random(turn: usize, count: usize, test: &str) {
    if let Some(device) = a_device(test) {
        compare_random_on(&device, turn, count);
    }
}

fn compare_random_on(device: &Device, turn: usize, count: usize) {
    for (number, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let seed = (4 * turn + number) as u64;
        let chance = &mut Chance::new(seed);
        let length = length(chance, turn + number);
        let mut case = Case::of_length(chance, algorithm, length);
        // To compile the program of a length takes PoCL a second.
        case.min = case.min.max(length - 1);
        let intervals: Vec<_> = (0..6).map(|_| case.interval(chance, 3_000)).collect();
        compare(device, seed, &case, count, &intervals);
    }
}

#[test]
fn one_target_is_found_on_a_device_as_on_the_processor() {
    (0..2).for_each(|turn| compare_random(turn, 1, "one_target_is_found_on_a_device_as_on_the_processor"));
}

#[test]
fn some_targets_are_found_on_a_device_as_on_the_processor() {
    let test = "some_targets_are_found_on_a_device_as_on_the_processor";
    compare_random(2, 8, test);
    compare_random(3, 500, test);
}

#[test]
fn a_million_targets_are_found_on_a_device_as_on_the_processor() {
    compare_random(4, 1_000_000, "a_million_targets_are_found_on_a_device_as_on_the_processor");
}

#[test]
fn a_device_of_any_kind_and_width_finds_the_same() {
    let Some(device) = a_device("a_device_of_any_kind_and_width_finds_the_same") else { return };
    // Cards prefer no vectors.
    for (turn, kind, width) in [(5, DeviceKind::Gpu, 1), (6, DeviceKind::Cpu, 4)] {
        let other = device.clone().as_if(DeviceFacts { kind, width, ..device.facts().clone() });
        compare_random_on(&other, turn, 1);
        compare_random_on(&other, turn, 500);
    }
}

/// Millions of units, near 2^122, of two lengths: many launches, which begin and end within runs.
#[test]
fn however_units_are_cut_a_device_finds_what_the_processor_finds() {
    let test = "however_units_are_cut_a_device_finds_what_the_processor_finds";
    let Some(device) = a_device(test) else { return };
    for algorithm in ALGORITHMS {
        let chance = &mut Chance::new(300);
        let positions = (0..LONGEST).map(|_| chance.alphabet(26)).collect();
        let case = Case { algorithm, positions, min: LONGEST - 1 };
        let seam = case.first(LONGEST);
        let (lo, hi) = (seam - chance.below(2_000_000), seam + chance.below(2_000_000));
        let mut cuts: Vec<_> = (0..10).map(|_| lo + chance.below(hi - lo)).chain([lo, seam, hi]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| (cut[0], cut[1])).filter(|(lo, hi)| lo < hi).collect();
        for count in [1, 500] {
            let targets = case.targets(chance, &pieces, count);
            let native = scan(&case.search(&targets), lo, hi);
            assert!(count == 1 || native.len() > 100, "{} hits", native.len());
            let mut device = DeviceSearch::new(&device, case.search(&targets)).unwrap();
            for &(lo, hi) in &pieces {
                let what = format!("{case} [{lo}, {hi}), {count} targets");
                assert_eq!(scan_on(&mut device, lo, hi), within(&native, lo, hi), "{what}");
            }
            assert_eq!(scan_on(&mut device, lo, hi), native, "{case}, {count} targets");
        }
    }
}

/// What it has not scanned where it was stopped is scanned from there on.
#[test]
fn a_device_that_is_stopped_loses_no_unit() {
    let Some(device) = a_device("a_device_that_is_stopped_loses_no_unit") else { return };
    let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); 5];
    for algorithm in ALGORITHMS {
        let case = Case { algorithm, positions: positions.clone(), min: 5 };
        let chance = &mut Chance::new(400);
        let targets = case.targets(chance, &[(0, case.units())], 500);
        let native = scan(&case.search(&targets), 0, case.units());
        let mut device = DeviceSearch::new(&device, case.search(&targets)).unwrap();
        let (mut hits, mut next, mut stops) = (Vec::new(), 0, 0);
        while next < case.units() {
            let mut asked = Vec::new();
            let stop = device.scan(next, case.units(), &mut hits, &mut |at| {
                asked.extend(at);
                // A launch has at most twice the units of the one before: by turns at the first question and at the second, a
                // device as fast as any is stopped three times.
                asked.len() <= stops % 2
            });
            next = stop.unwrap();
            assert!(next == case.units() || asked.last() == Some(&next), "it stops where it was told");
            assert!(asked.is_sorted() && hits.iter().all(|hit| hit.unit < next), "{algorithm:?}");
            stops += 1;
        }
        assert!(stops > 2 && hits == native, "{algorithm:?}: {stops} stops, {} hits", hits.len());
    }
}
