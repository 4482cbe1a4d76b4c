//! Alarms.

use crate::bench::*;

/// Seconds and messages of a run of values, one a second.
fn told(bench: &mut Bench, from: u64, values: &[u64]) -> Vec<String> {
    let all = (from..).zip(values);
    all.flat_map(|(second, value)| {
        let told = bench.say(second, &format!("2={value}"));
        told.into_iter().map(move |message| format!("{second}: {message}"))
    })
    .collect()
}

#[test]
fn an_alarm_is_told_once_and_cleared_once_the_figure_has_come_well_back() {
    let mut bench = Bench::with("threshold", &[("metric", "memory"), ("above", "90"), ("clear", "80")]);
    let values = [90, 91, 99, 85, 91, 81, 80, 79, 85, 90, 91, 80];
    assert_eq!(
        told(&mut bench, 0, &values),
        ["1: 1011=2 2=91", "6: 1012=2 2=80", "10: 1011=2 2=91", "11: 1012=2 2=80"]
    );
    let mut bench = Bench::with("threshold", &[("metric", "2"), ("below", "10"), ("clear", "20")]);
    let values = [10, 9, 15, 19, 20, 15, 10, 9];
    assert_eq!(told(&mut bench, 0, &values), ["1: 1011=2 2=9", "4: 1012=2 2=20", "7: 1011=2 2=9"]);
}

#[test]
fn without_a_place_to_clear_it_is_cleared_at_the_level() {
    let mut bench = Bench::with("threshold", &[("metric", "memory"), ("above", "90")]);
    assert_eq!(told(&mut bench, 0, &[91, 90]), ["0: 1011=2 2=91", "1: 1012=2 2=90"]);
}

#[test]
fn each_job_and_post_has_an_alarm_of_its_own() {
    let mut bench = Bench::with("threshold", &[("metric", "memory"), ("above", "90")]);
    assert_eq!(bench.say(1, "1003=1 1002=3 1000=7 2=95 1=99 1000=8 2=5"), ["1000=7 1002=3 1011=2 2=95"]);
    assert_eq!(bench.say(2, "1002=3 1000=7 2=96 1000=8 2=97"), ["1000=8 1002=3 1011=2 2=97"]);
    assert_eq!(bench.say(3, "1002=4 1000=7 2=96"), ["1000=7 1002=4 1011=2 2=96"]);
    assert_eq!(bench.say(4, "1002=3 1000=7 2=0"), ["1000=7 1002=3 1012=2 2=0"]);
}

#[test]
fn the_furthest_of_several_numbers_counts() {
    let mut bench = Bench::with("threshold", &[("metric", "1010"), ("above", "90")]);
    assert_eq!(bench.say(1, "1010=1,2,95,3"), ["1011=1010 1010=95"]);
    assert_eq!(bench.say(2, "1010=2/100/50/50"), ["1012=1010 1010=50"]);
    bench.set("below", "10").unwrap();
    assert_eq!(bench.say(3, "1010=2/100/9/91"), ["1011=1010 1010=9"]);
    assert_eq!((bench.say(4, "1010='text").len(), bench.not_taken()), (0, 1));
}

#[test]
fn levels_may_change_while_an_alarm_stands() {
    let mut bench = Bench::with("threshold", &[("metric", "memory")]);
    assert_eq!(told(&mut bench, 0, &[99]), NOTHING, "there is no level");
    bench.set("above", "90").unwrap();
    assert_eq!(told(&mut bench, 1, &[95]), ["1: 1011=2 2=95"]);
    bench.set("above", "97").unwrap();
    assert_eq!(told(&mut bench, 2, &[95, 96, 97]), ["2: 1012=2 2=95"]);
    bench.set("clear", "50").unwrap();
    let why = "`clear` is at most `above`, but 50 is more than 40";
    assert_eq!(bench.set("above", "40"), Err(why.into()));
    bench.set("clear", "40").unwrap();
    bench.set("above", "40").unwrap();
    assert_eq!(told(&mut bench, 5, &[41]), ["5: 1011=2 2=41"]);
    // The good side is the bad one now, and where it was cleared is forgotten.
    bench.set("below", "60").unwrap();
    assert_eq!(told(&mut bench, 6, &[41, 60]), ["7: 1012=2 2=60"]);
    let why = "`clear` is at least `below`, but 59 is less than 60";
    assert_eq!(bench.set("clear", "59"), Err(why.into()));
}

#[test]
fn who_looks_at_another_figure_clears_the_alarms_of_the_one_before() {
    let mut bench = Bench::with("threshold", &[("metric", "memory"), ("above", "90")]);
    bench.say(1, "1000=7 2=95 1000=8 2=5");
    bench.set("metric", "memory").unwrap();
    assert_eq!(messages_of(&bench.seen), NOTHING, "it is the same");
    bench.set("metric", "cpu").unwrap();
    assert_eq!(messages_of(&bench.seen), ["1000=7 1012=2"]);
    assert_eq!(bench.say(2, "1000=7 1=95"), ["1000=7 1011=1 1=95"]);
}

#[test]
fn the_alarm_of_a_job_that_is_gone_does_not_stand_for_ever() {
    let mut bench = Bench::with("threshold", &[("metric", "memory"), ("above", "90"), ("forget", "100")]);
    assert_eq!(bench.say(1_000, "1000=7 2=95 1000=8 2=95").len(), 2);
    assert_eq!(bench.say(1_100, "1000=8 2=95"), NOTHING);
    assert_eq!(bench.say(1_130, "1000=8 2=95"), ["1000=7 1012=2"]);
    assert_eq!(bench.say(1_131, "1000=7 2=95"), ["1000=7 1011=2 2=95"]);
}

/// As services and programs give them.
#[test]
fn a_figure_that_has_a_name_only_has_a_level_too() {
    let mut bench =
        Bench::with("threshold", &[("metric", "switch.pressure"), ("above", "100"), ("clear", "50")]);
    let id = starfarm_agent_core::named::id("switch.pressure").0;
    // Length and name, and a float whose bytes can be written here: 2.3 million, 157 thousand million, and next to nothing.
    let mut say = |second, float: &str| {
        let told = bench.say(second, &format!("{id}='\u{f}switch.pressure{float}"));
        told.into_iter().map(|of| of.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(say(1, "AAAAAAAA"), [format!("1011={id}")]);
    assert_eq!(say(2, "BBBBBBBB"), NOTHING, "it is beyond it as before");
    assert_eq!(say(3, "11111111"), [format!("1012={id}")]);
    assert_eq!(bench.not_taken(), 0);
}
