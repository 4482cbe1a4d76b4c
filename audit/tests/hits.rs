//! Hits on record, true and false. The digests are those of RFC 1321 and of its test suite.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod disk;

use disk::{JOB, State};
use starfarm_protocol::ids::{HexBytes, from_hex};
use starfarm_protocol::spec::{Algorithm, JobSpec, SearchWork, Space, Stop, Work};

/// Looks for `a` and `abc` among the words `a`, `b`, `c`, `x`, `y`, `z`.
fn search() -> Vec<u8> {
    let digest = |digits: &str| HexBytes(from_hex(digits).unwrap());
    let targets =
        vec![digest("0cc175b9c0f1b6a831c399e269772661"), digest("900150983cd24fb0d6963f7d28e17f72")];
    let work =
        Work::Search(SearchWork { algorithm: Algorithm::Md5, targets, stop: Stop::Never, needs: None });
    let space = Space::Chars { positions: vec![HexBytes(b"abcxyz".to_vec())], min: 1 };
    JobSpec { space, work }.to_bytes()
}

#[test]
fn a_true_hit_holds() {
    let spec = search();
    let report = State::search(&spec, vec![(0, 0)], &[&spec]).without_outputs();
    assert!(report.holds && report.notes.is_empty(), "{:?} {:?}", report.violations, report.notes);
    assert_eq!(report.jobs[0].hits, 1);
}

#[test]
fn a_false_hit_is_told_with_its_unit_and_the_job_is_not_certified() {
    let spec = search();
    let report = State::search(&spec, vec![(0, 0), (0, 1), (3, 0)], &[&spec]).without_outputs();
    let told: Vec<_> =
        report.violations.iter().map(|of| (of.job, of.lo.unwrap().0, of.what.as_str())).collect();
    let what = |target| format!("it is no hit of target {target}, and is on record as one");
    assert_eq!(told, [(Some(JOB), 0, what(1).as_str()), (Some(JOB), 3, what(0).as_str())]);
    assert!(!report.holds && report.jobs[0].certificate.is_none());
}

#[test]
fn hits_of_a_search_whose_specification_is_gone_are_not_checked_and_that_is_said() {
    let spec = search();
    let report = State::search(&spec, vec![(3, 0)], &[b"something else"]).without_outputs();
    assert!(report.holds, "{:?}", report.violations);
    assert_eq!(
        report.notes,
        ["the hits of job 1 are not checked: its specification is not among the contents"]
    );
}
