//! The last values as one.

use crate::bench::*;

#[test]
fn the_last_values_of_each_figure_and_job_become_their_mean() {
    let mut bench = Bench::with("window", &[("size", "3")]);
    assert_eq!(bench.say(1, "1=10 2=5 5='text"), ["1=10 2=5 5='text"]);
    assert_eq!(bench.say(2, "1=20 1000=7 1=500"), ["1=15 1000=7 1=500"]);
    assert_eq!(bench.say(3, "1=31"), ["1=20"], "rounded down");
    assert_eq!(bench.say(4, "1=100 2=6"), ["1=50 2=5"]);
}

#[test]
fn a_window_may_be_a_time() {
    let mut bench = Bench::with("window", &[("seconds", "10"), ("op", "sum")]);
    let sums: Vec<String> = (1..=14).flat_map(|second| bench.say(second, "1=1")).collect();
    assert_eq!(sums[8..], ["1=9", "1=10", "1=10", "1=10", "1=10", "1=10"]);
    assert_eq!(bench.say(23, "1=1"), ["1=2"]);
    assert_eq!(bench.say(100, "1=1"), ["1=1"]);
}

#[test]
fn size_time_and_outcome_may_change_while_it_runs() {
    let mut bench = Bench::with("window", &[("size", "4"), ("op", "max")]);
    for (second, value) in [(1, 9), (2, 1), (3, 2), (4, 3)] {
        assert_eq!(bench.say(second, &format!("1={value}")), ["1=9"]);
    }
    bench.set("op", "min").unwrap();
    assert_eq!(bench.say(5, "1=4"), ["1=1"]);
    bench.set("size", "2").unwrap();
    assert_eq!(bench.say(6, "1=5"), ["1=4"]);
    bench.set("size", "5").unwrap();
    bench.set("op", "sum").unwrap();
    assert_eq!(bench.say(7, "1=6"), ["1=15"], "what it has forgotten does not come back");
    bench.set("seconds", "2").unwrap();
    assert_eq!(bench.say(8, "1=7"), ["1=13"]);
}

#[test]
fn each_core_and_each_summary_has_a_window_of_its_own() {
    let mut bench = Bench::with("window", &[("op", "mean")]);
    bench.say(1, "1010=1,10,100,1000");
    assert_eq!(bench.say(2, "1010=3,30,300,3000"), ["1010=2,20,200,2000"]);
    assert_eq!(bench.say(3, "1010=8,8"), ["1010=8,8"], "other cores");
    bench.say(4, "1=3/60/10/30");
    assert_eq!(bench.say(5, "1=1/100/100/100"), ["1=40"]);
    bench.set("op", "max").unwrap();
    assert_eq!(bench.say(6, "1=7"), ["1=100"]);
}

#[test]
fn values_of_a_job_that_was_silent_for_long_are_forgotten() {
    let mut bench = Bench::with("window", &[("op", "sum"), ("forget", "60")]);
    bench.say(1_000, "1000=7 1=1");
    assert_eq!(bench.say(1_060, "1000=7 1=2"), ["1000=7 1=3"]);
    assert_eq!(bench.say(1_121, "1000=7 1=4"), ["1000=7 1=4"]);
    bench.set("seconds", "500").unwrap();
    assert_eq!(bench.say(1_300, "1000=7 1=8"), ["1000=7 1=12"], "a window's time is remembered whole");
}

#[test]
fn a_window_has_as_many_values_each_time_though_they_come_a_little_late() {
    let mut bench = Bench::with("window", &[("seconds", "1"), ("op", "sum")]);
    let moments = (4..16).map(|n| n * 500_000 + [0, 700, 12_000, 30, 40_000][n as usize % 5]);
    let sums: Vec<String> = moments.flat_map(|at_us| bench.say_at(at_us, "1=1")).collect();
    assert!(sums[1..].iter().all(|sum| sum == "1=2"), "{sums:?}");
}
