//! Nothing that comes from outside makes a stage grow for ever, or panic.

use starfarm_protocol::random::SplitMix64;

use crate::bench::*;

/// Numbers that a stage remembers, or jobs where it remembers no numbers.
const ROOM: u64 = 65_536;
/// Jobs of a message, with a value each.
const JOBS: u64 = 2_048;
/// Places of a value.
const PLACES: u64 = 8_192;

fn values_of(jobs: std::ops::Range<u64>) -> String {
    jobs.map(|job| format!("1000={job} 1=5")).collect::<Vec<_>>().join(" ")
}

/// Values of many places for as many jobs as there is room for.
fn full() -> String {
    let places = vec!["1"; PLACES as usize].join(",");
    (0..ROOM / PLACES).map(|job| format!("1000={job} 1={places}")).collect::<Vec<_>>().join(";")
}

#[test]
fn numbers_beyond_the_room_are_counted_and_those_that_are_gone_make_room() {
    for (type_name, settings) in [("derivative", &[][..]), ("window", &[("size", "1")])] {
        let mut bench = Bench::with(type_name, settings);
        bench.say(1, &full());
        assert_eq!(bench.not_taken(), 0, "{type_name}");
        assert_eq!(bench.say(2, "1000=88 1=1;1000=99 1=1,2"), NOTHING, "{type_name}");
        assert_eq!(bench.not_taken(), 2, "{type_name}");
        let known = bench.say(3, &full()).len() as u64;
        assert_eq!((known, bench.not_taken()), (ROOM / PLACES, 2), "{type_name} goes on with what it knows");
        bench.say(1_000, "1000=99 1=1");
        assert_eq!(bench.say(1_001, "1000=99 1=1").len(), 1, "{type_name} has room again");
    }
}

#[test]
fn jobs_beyond_the_room_are_counted_and_those_that_are_gone_make_room() {
    let mut bench = Bench::new("rate");
    for first in (0..ROOM).step_by(JOBS as usize) {
        bench.say(1, &values_of(first..first + JOBS));
    }
    assert_eq!(bench.say(2, &values_of(ROOM - 1..ROOM + 3)), ["1000=65535 1=5"]);
    assert_eq!(bench.not_taken(), 3);
    assert_eq!(bench.say(1_000, "1000=70000 1=5").len(), 1);
}

#[test]
fn a_wave_has_room_for_so_many_values_and_the_next_one_again() {
    let mut bench = Bench::with("aggregate", &[("per", "element"), ("op", "sum")]);
    let jobs = (ROOM / PLACES) as usize;
    assert_eq!(bench.say(1, &format!("{};1=1", full())).len(), jobs);
    assert_eq!(bench.not_taken(), 1);
    // What has a place already is taken.
    let sums = bench.say(2, &format!("{};1000=0 1=1,2;1000=0 2=1", full()));
    assert_eq!((sums.len(), bench.not_taken()), (jobs, 2));
    assert!(sums[0].starts_with("1000=0 1=2,3,1,1"));
    assert_eq!(bench.say(3, "1=1"), ["1=1"]);
}

#[test]
fn a_window_longer_than_the_room_is_as_long_as_there_is_room_for() {
    let mut bench = Bench::with("window", &[("size", "65536"), ("op", "sum")]);
    let values = |value: &str| {
        let sums = bench.say(1, &format!("1={}", vec![value; 20_000].join(",")));
        (sums[0].split(',').next().unwrap().to_owned(), bench.not_taken())
    };
    let sums = ["1", "2", "4", "8", "16"].map(values);
    let sums = sums.each_ref().map(|(sum, gone)| (sum.as_str(), *gone));
    assert_eq!(sums, [("1=1", 0), ("1=3", 0), ("1=7", 0), ("1=14", 1), ("1=28", 2)]);
}

/// Any bytes under any ids, in any order, with settings that change meanwhile.
#[test]
fn no_value_and_no_setting_makes_a_stage_panic() {
    let mut random = SplitMix64(11);
    let keys = [
        "match", "as", "wrap", "forget", "every", "nth", "op", "per", "by", "size", "seconds", "metric",
        "above", "below", "clear", "notmatch", "job", "post", "sequence",
    ];
    let values = [
        "0",
        "1",
        "18446744073709551615",
        "1e9",
        "0.000001",
        "job",
        "cpu",
        "all",
        "none",
        "64",
        "sum",
        "element",
        "on",
        "",
        ",",
        "cpu,2",
        "-1",
        "NaN",
    ];
    let ids = [0, 1, 2, 1_000, 1_001, 1_002, 1_003, 1_004, 1_010, 1_011, u64::from(u32::MAX)];
    for type_name in [
        "aggregate",
        "blackhole",
        "derivative",
        "filter",
        "prepend",
        "rate",
        "threshold",
        "wavebuf",
        "window",
    ] {
        let mut bench = Bench::new(type_name);
        let mut came = 0;
        for _ in 0..2_000 {
            let draw = |random: &mut SplitMix64, from: &[&str]| {
                from[random.below(from.len() as u64) as usize].to_owned()
            };
            let _ = bench.set(&draw(&mut random, &keys), &draw(&mut random, &values));
            let message: Vec<String> = (0..random.below(12))
                .map(|_| {
                    let id = ids[random.below(ids.len() as u64) as usize];
                    match random.below(4) {
                        0 => format!("{id}='{}", "x".repeat(random.below(70) as usize)),
                        1 => format!("{id}={},{}", random.draw(), random.below(9)),
                        2 => format!("{id}=1/{0}/{0}/{0}", random.draw()),
                        _ => format!("{id}={}", random.draw() >> random.below(64)),
                    }
                })
                .collect();
            came += bench.say_at(random.draw() >> random.below(64), &message.join(" ")).len();
        }
        assert!(came > 0 || type_name == "blackhole", "{type_name}");
    }
}
