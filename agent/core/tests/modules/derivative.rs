//! Counters become rates.

use crate::bench::*;

#[test]
fn counters_become_rates_and_what_is_none_passes() {
    let mut bench = Bench::new("derivative");
    assert_eq!(bench.say(1, "1003=1 1=100 1000001='text"), ["1003=1 1000001='text"]);
    assert_eq!(bench.say(2, "1003=2 1=150 1000001='text"), ["1003=2 1=50 1000001='text"]);
    assert_eq!(bench.say(4, "1=151"), ["1=0"], "rounded down");
    assert_eq!(bench.say_at(4_250_000, "1=161"), ["1=40"]);
    assert_eq!(bench.say(5, "1003=5 3=1"), NOTHING, "a message that would say nothing is none");
}

#[test]
fn a_counter_that_goes_down_was_reset_unless_it_wraps() {
    let mut bench = Bench::new("derivative");
    assert_eq!(bench.say(1, "4=4294967290"), NOTHING);
    assert_eq!(bench.say(2, "4=10"), NOTHING);
    assert_eq!(bench.say(3, "4=30"), ["4=20"]);
    bench.say(4, "4=4294967290");
    bench.set("wrap", "32").unwrap();
    assert_eq!(bench.say(5, "4=4"), ["4=10"]);
    bench.say(6, "4=5000000000");
    assert_eq!(bench.say(7, "4=1"), NOTHING, "it was wider than 32 bits");
    bench.set("wrap", "64").unwrap();
    bench.say(8, "4=18446744073709551615");
    assert_eq!(bench.say(9, "4=4"), ["4=5"]);
    bench.set("wrap", "none").unwrap();
    assert_eq!(bench.say(10, "4=3"), NOTHING);
}

#[test]
fn the_counters_of_cores_make_a_rate_each_or_none_at_all() {
    let mut bench = Bench::new("derivative");
    bench.say(1, "1010=10,20,30,40");
    assert_eq!(bench.say(2, "1010=11,22,33,44"), ["1010=1,2,3,4"]);
    assert_eq!(bench.say(3, "1010=12,0,33,44"), NOTHING, "one was reset");
    assert_eq!(bench.say(4, "1010=13,1,33,45"), ["1010=1,1,0,1"]);
    assert_eq!(bench.say(5, "1010=13,1"), NOTHING, "other cores");
    assert_eq!(bench.say(6, "1010=14,1"), ["1010=1,0"]);
}

#[test]
fn each_job_and_post_has_counters_of_its_own() {
    let mut bench = Bench::new("derivative");
    bench.say(1, "1002=3 1000=7 1=100 1000=8 1=500");
    assert_eq!(bench.say(2, "1002=4 1000=7 1=900"), NOTHING, "another post's");
    assert_eq!(bench.say(3, "1=7"), NOTHING, "nobody's");
    let both = bench.say(3, "1002=3 1000=8 1=520 1000=7 1=160");
    assert_eq!(both, ["1002=3 1000=8 1=10 1000=7 1=30"]);
    // One who is not said in so many words is nobody.
    assert_eq!(bench.say(5, "1000='seven 1=17"), ["1000='seven 1=5"]);
}

#[test]
fn a_clock_that_stands_still_or_goes_back_makes_no_rate() {
    let mut bench = Bench::new("derivative");
    bench.say(5, "1=10");
    assert_eq!(bench.say(5, "1=20"), NOTHING);
    assert_eq!(bench.say(4, "1=30"), NOTHING);
    assert_eq!(bench.say(6, "1=50"), ["1=10"]);
}

#[test]
fn a_job_that_is_not_heard_of_is_forgotten_while_others_go_on() {
    let mut bench = Bench::with("derivative", &[("forget", "100")]);
    bench.say(1_000, "1000=7 1=10");
    assert_eq!(bench.say(1_100, "1000=7 1=1010"), ["1000=7 1=10"]);
    for second in (1_100..1_250).step_by(10) {
        bench.say(second, "1000=8 1=5");
    }
    assert_eq!(bench.say(1_250, "1000=7 1=2010 1000=8 1=15"), ["1000=8 1=1"]);
    assert_eq!(bench.say(1_251, "1000=7 1=2020"), ["1000=7 1=10"]);
}

#[test]
fn which_values_are_counters_and_what_rates_are_called_may_change_while_it_runs() {
    let mut bench = Bench::with("derivative", &[("match", "cpu-times, 5")]);
    bench.say(1, "2=77 1010=1,2 5=10");
    assert_eq!(bench.say(2, "2=78 1010=3,3 5=20"), ["2=78 1010=2,1 5=10"]);
    bench.set("match", "cpu-times").unwrap();
    bench.set("as", "cpu").unwrap();
    assert_eq!(bench.say(3, "2=79 1010=4,4 5=30"), ["2=79 1=1,1 5=30"]);
    bench.set("as", "same").unwrap();
    bench.set("match", "all").unwrap();
    assert_eq!(bench.say(4, "2=80 1010=9,4 5=40"), ["1010=5,0 5=10"], "since it was a counter last");
}
