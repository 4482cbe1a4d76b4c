//! Many values become one.

use starfarm_agent_core::{Context, Hook, Order, Stage, Triples, ValueId, Word};
use starfarm_protocol::random::SplitMix64;

use crate::bench::*;
use crate::common::*;

#[test]
fn the_values_of_a_wave_become_one_for_each_job() {
    let mut bench = Bench::new("aggregate");
    let wave = "1002=1 1000=7 1=10 2=1 1000=8 1=5;1002=2 1000=7 1=30;1=2";
    assert_eq!(bench.say(1, wave), ["1=1/2/2/2", "1000=7 1=2/40/10/30 2=1/1/1/1", "1000=8 1=1/5/5/5"]);
    assert_eq!(bench.say(2, "1000=7 1=3"), ["1000=7 1=1/3/3/3"], "each wave begins with nothing");
}

#[test]
fn one_number_may_be_asked_for_and_places_may_be_kept_apart() {
    let mut bench = Bench::new("aggregate");
    let mut outcome = |op: &str, per: &str| {
        bench.set("op", op).unwrap();
        bench.set("per", per).unwrap();
        bench.say(1, "1010=1,2,3,4;1010=10,20").concat()
    };
    for (op, whole, element) in [
        ("count", "1010=6", "1010=2,2,1,1"),
        ("sum", "1010=40", "1010=11,22,3,4"),
        ("min", "1010=1", "1010=1,2,3,4"),
        ("max", "1010=20", "1010=10,20,3,4"),
        ("all", "1010=6/40/1/20", "1010=2/11/1/10,2/22/2/20,1/3/3/3,1/4/4/4"),
    ] {
        assert_eq!((outcome(op, "whole"), outcome(op, "element")), (whole.to_owned(), element.to_owned()));
    }
}

#[test]
fn posts_are_kept_apart_where_one_asks_for_it_and_units_are_added_up() {
    let mut bench = Bench::with("aggregate", &[("op", "sum")]);
    let wave = "1002=1 1003=9 1000=7 1001=2 1=1;1002=2 1003=9 1000=7 1001=3 1=2;1002=1 1000=7 1=4";
    assert_eq!(bench.say(1, wave), ["1000=7 1=7 1001=5"], "the wave is not said: nobody asked for it");
    bench.set("by", "wave,post,job").unwrap();
    let apart = ["1000=7 1002=1 1=4", "1000=7 1003=9 1002=1 1=1 1001=2", "1000=7 1003=9 1002=2 1=2 1001=3"];
    assert_eq!(bench.say(2, wave), apart);
    bench.set("by", "job").unwrap();
    assert_eq!(bench.say(3, "1000=7 1=1 1000='seven 1=2 1000=7 1=3"), ["1=2", "1000=7 1=4"]);
}

/// Where it sees the value 666, it has the sums kept for each place, and then more said.
struct Changer;

impl Stage for Changer {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        if values.find(ValueId(666)).is_some() {
            for (stage, key, value) in [("it", "per", "element"), ("feed", "say", "1=10,20")] {
                let word = Word::Set { key: key.into(), value: value.into() };
                context.order(Order::Tell(who(stage), word));
            }
        }
    }
}

#[test]
fn a_setting_that_changes_within_a_wave_holds_from_the_next_one_on() {
    let mut bench = Bench::with("aggregate", &[("op", "sum")]);
    bench.runtime.add("changer", Box::new(Changer), Some("changer")).unwrap();
    link(&mut bench.runtime, ("feed", "out"), ("changer", "in"));
    assert_eq!(bench.say(1, "1=1,2 666=1"), ["1=33 666=1"]);
    assert_eq!(bench.say(2, "1=1,2;1=10,20"), ["1=11,22"]);
}

#[test]
fn values_that_are_no_numbers_are_counted() {
    let mut bench = Bench::new("aggregate");
    assert_eq!(bench.say(1, "1='text 2=5;1='"), ["2=1/5/5/5"]);
    assert_eq!(bench.not_taken(), 2);
}

/// Three posts and one above them, and beside them one that takes everything by itself.
fn tree_and_flat(settings: &[(&str, &str)]) -> (Bench, Seen) {
    let mut bench = Bench::without_output("demux");
    bench.set("by", "post").unwrap();
    bench.create("aggregate", "top", settings);
    bench.create("aggregate", "flat", settings);
    for post in ["0", "1", "2"] {
        let name = format!("post-{post}");
        bench.create("aggregate", &name, settings);
        link(&mut bench.runtime, ("it", post), (&name, "in"));
        link(&mut bench.runtime, (&name, "out"), ("top", &name));
    }
    link(&mut bench.runtime, ("feed", "out"), ("flat", "in"));
    bench.seen = bench.sink_of("top", "out");
    let flat = bench.sink_of("flat", "out");
    (bench, flat)
}

/// A wave of messages about any jobs, with values of one to five places.
fn wave(random: &mut SplitMix64) -> String {
    let mut messages = Vec::new();
    for _ in 0..random.below(30) + 1 {
        let mut message = format!("1002={}", random.below(3));
        for _ in 0..random.below(4) + 1 {
            let places: Vec<_> = (0..=random.below(5)).map(|_| random.below(1_000).to_string()).collect();
            message += &format!(" 1000={} {}={}", random.below(4), random.below(3) + 1, places.join(","));
        }
        messages.push(message);
    }
    messages.join(";")
}

#[test]
fn what_is_combined_at_each_post_and_above_is_what_is_combined_at_once() {
    for op in ["all", "sum", "min", "max"] {
        for per in ["whole", "element"] {
            let (mut bench, flat) = tree_and_flat(&[("op", op), ("per", per)]);
            let mut random = SplitMix64(5);
            for second in 0..50 {
                let wave = wave(&mut random);
                let tree = bench.say(second, &wave);
                assert!(!tree.is_empty());
                assert_eq!(tree, messages_of(&flat), "{op} {per}: {wave}");
            }
            assert_eq!(bench.not_taken(), 0);
        }
    }
}
