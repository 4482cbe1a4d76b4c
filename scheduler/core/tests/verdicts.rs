//! One test for each verdict on a result. Whatever the verdict is, its counter says so, the result is
//! acknowledged, so that the worker stops repeating it, and the books hold.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_protocol::admin::Refusal;
use starfarm_scheduler_core::Verdict;

const ALL: [Verdict; 9] = [
    Verdict::Counted,
    Verdict::CountedPartly,
    Verdict::Duplicate,
    Verdict::Returned,
    Verdict::Refused,
    Verdict::UnknownJob,
    Verdict::OtherSpecification,
    Verdict::NeverGiven,
    Verdict::Malformed,
];

/// A search whose first two tasks, [0, 10) and [10, 20), node a has; b waits for the rest.
fn bench() -> Bench {
    let mut bench = Bench::new(config());
    bench.run("submit 1000 search 3 targets units 10\n join a slots 1\n ack a\n join b slots 1\n ack b");
    bench
}

/// The last line of `script` is a result of node a: it must get `expected` alone, and be acknowledged.
fn check(script: &str, expected: Verdict) -> Bench {
    let mut bench = bench();
    let (before, result) = script.rsplit_once('\n').unwrap_or(("", script));
    bench.run(before);
    bench.run(&format!("at {}", bench.now_us / 1_000 + 100));
    let counts = |bench: &Bench| ALL.map(|v| bench.farm.verdicts().count(v));
    let earlier = counts(&bench);
    let sequence = 1 + before.lines().filter(|line| is_result_of_a(line.trim())).count();
    let story = bench.run(&format!("{result}\n at {}", bench.now_us / 1_000 + 50));
    let later = counts(&bench);
    let given: Vec<Verdict> = ALL.into_iter().filter(|&v| later[v as usize] > earlier[v as usize]).collect();
    assert_eq!(given, [expected], "{story}");
    assert_eq!(later[expected as usize], earlier[expected as usize] + 1);
    let acknowledged = format!("ack results [({sequence}, {sequence})]");
    assert!(story.contains(&acknowledged), "not acknowledged as {sequence}:\n{story}");
    bench.farm.check_all().unwrap();
    bench
}

fn is_result_of_a(line: &str) -> bool {
    ["done a", "return a", "refuse a"].iter().any(|verb| line.starts_with(verb))
}

/// done, out, duplicate units of job 1.
fn books(bench: &Bench) -> (u128, u128, u128) {
    let job = bench.farm.jobs(0).remove(0);
    (job.units_done.0, job.units_out.0, job.totals.duplicate_units)
}

#[test]
fn a_result_whose_units_are_all_new_is_counted() {
    let bench = check("done a 0+10", Verdict::Counted);
    assert_eq!(Vec::from_iter(bench.farm.done_intervals(bench.farm.jobs(0)[0].id)), [(0, 10)]);
}

#[test]
fn of_a_result_that_overlaps_an_earlier_one_only_the_new_units_are_counted() {
    let bench = check("done a 0+6\n done a 3+9", Verdict::CountedPartly);
    assert_eq!((books(&bench).0, books(&bench).2), (12, 3));
}

#[test]
fn a_result_whose_units_were_all_counted_is_a_duplicate() {
    let bench = check("done a 0+10\n done a 2+5", Verdict::Duplicate);
    assert_eq!((books(&bench).0, books(&bench).2), (10, 5));
}

#[test]
fn units_given_back_wait_again_or_are_out_anew() {
    let bench = check("return a 5+5", Verdict::Returned);
    assert_eq!(books(&bench).0, 0);
    assert_eq!(bench.farm.jobs(0)[0].totals.resent, 1);
}

#[test]
fn a_node_that_refuses_a_job_gets_nothing_of_it_again() {
    let mut bench = check("refuse a 0+20 no-such-program", Verdict::Refused);
    assert_eq!(
        bench.farm.jobs(0)[0].refused_by,
        [Refusal { node: "a".into(), why: "no-such-program".into() }]
    );
    assert_eq!(bench.run("at 1000\n tasks a"), "1000: a has 0 tasks\n");
}

#[test]
fn a_result_of_a_job_that_nobody_knows_changes_nothing() {
    let bench = check("done a 0+10 job 7 spec 1", Verdict::UnknownJob);
    assert_eq!(books(&bench), books(&self::bench()));
}

#[test]
fn a_result_of_a_deleted_job_changes_nothing() {
    check("cancel 1\n delete 1\n done a 0+10", Verdict::UnknownJob);
}

#[test]
fn a_result_for_another_specification_changes_nothing() {
    let bench = check("done a 0+10 spec 9", Verdict::OtherSpecification);
    assert_eq!(books(&bench), books(&self::bench()));
}

#[test]
fn a_result_beyond_what_was_ever_cut_changes_nothing() {
    let bench = check("done a 35+10", Verdict::NeverGiven);
    assert_eq!(books(&bench), books(&self::bench()));
}

#[test]
fn a_hit_on_a_target_that_the_job_does_not_have_is_malformed_and_its_units_go_back() {
    let bench = check("done a 0+10 hits 3:8", Verdict::Malformed);
    assert_eq!((books(&bench).0, bench.farm.jobs(0)[0].hits), (0, 0));
    assert_eq!(bench.farm.jobs(0)[0].totals.resent, 1);
}

#[test]
fn a_hit_outside_its_interval_is_malformed() {
    assert_eq!(check("done a 0+10 hits 10:1", Verdict::Malformed).farm.jobs(0)[0].hits, 0);
}

#[test]
fn a_body_cut_short_is_malformed() {
    assert_eq!(books(&check("done a 0+10 body 0000", Verdict::Malformed)).0, 0);
}
