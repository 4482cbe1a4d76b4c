//! Thinning out.

use crate::bench::*;
use crate::common::SECOND;

#[test]
fn one_message_of_each_period_passes_also_where_some_are_early_or_late() {
    let mut bench = Bench::with("rate", &[("every", "10")]);
    let passed: Vec<u64> = (1..=35).filter(|second| !bench.say(*second, "1=1").is_empty()).collect();
    assert_eq!(passed, [1, 10, 20, 30]);
    // A timer of this very length fires a little late, and in time again.
    let mut bench = Bench::with("rate", &[("every", "1")]);
    for now_us in [SECOND + 3_000, 2 * SECOND + 1_000, 3 * SECOND + 7_000, 4 * SECOND] {
        assert_eq!(bench.say_at(now_us, "1=1").len(), 1, "{now_us}");
    }
    assert_eq!(bench.say_at(4 * SECOND + 999_999, "1=1"), NOTHING);
    // The clock is set back.
    assert_eq!(bench.say(2, "1=1"), ["1=1"]);
}

#[test]
fn the_first_of_so_many_messages_passes_of_each_job() {
    let mut bench = Bench::new("rate");
    assert_eq!(bench.say(1, "1=1;1=2"), ["1=1", "1=2"], "all, as long as nothing is set");
    bench.set("nth", "3").unwrap();
    let of_seven: Vec<String> = (1..=7).flat_map(|n| bench.say(n, &format!("1000=7 1={n} 2={n}"))).collect();
    assert_eq!(of_seven, ["1000=7 1=1 2=1", "1000=7 1=4 2=4", "1000=7 1=7 2=7"]);
    assert_eq!(bench.say(8, "1000=8 1002=1 1=1;1000=8 1002=2 1=1;1000=8 1002=1 1=2").len(), 2);
}

#[test]
fn of_a_message_about_several_jobs_the_values_of_those_pass_whose_turn_it_is() {
    let mut bench = Bench::with("rate", &[("nth", "2")]);
    bench.say(1, "1000=7 1=1");
    let both = bench.say(2, "1003=2 1000=7 1=2 1000=8 1=2 1000=7 2=2 1000=8 2=2");
    assert_eq!(both, ["1003=2 1000=8 1=2 1000=8 2=2"]);
    let both = bench.say(3, "1003=3 1000=7 1=3 1000=8 1=3");
    assert_eq!(both, ["1003=3 1000=7 1=3"]);
}

#[test]
fn the_pace_may_change_while_it_runs() {
    let mut bench = Bench::with("rate", &[("every", "100")]);
    let count = |bench: &mut Bench, from: u64, to: u64| {
        (from..to).filter(|second| !bench.say(*second, "1=1").is_empty()).count()
    };
    assert_eq!(count(&mut bench, 1_000, 1_050), 1);
    bench.set("every", "5").unwrap();
    assert_eq!(count(&mut bench, 1_050, 1_100), 10);
    bench.set("nth", "25").unwrap();
    assert_eq!(count(&mut bench, 1_100, 1_150), 2);
}

/// A period that is longer than jobs are remembered.
#[test]
fn nothing_is_forgotten_within_a_period() {
    let mut bench = Bench::with("rate", &[("every", "1000"), ("forget", "1")]);
    let passed: Vec<u64> = (1..25).map(|n| n * 100).filter(|at| !bench.say(*at, "1=1").is_empty()).collect();
    assert_eq!(passed, [100, 1_000, 2_000]);
}
