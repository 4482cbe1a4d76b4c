//! What passes messages on with little change: `filter`, `prepend`; and `blackhole`, which does not.

use starfarm_agent_core::{Order, Word};

use crate::bench::*;
use crate::common::*;

#[test]
fn values_pass_by_their_ids_with_what_says_whose_they_are() {
    let mut bench = Bench::with("filter", &[("match", "cpu,1000001")]);
    let message = "1000=7 1=5 2=6 1000=8 2=7 1000=9 1000001='text";
    assert_eq!(bench.say(1, message), ["1000=7 1=5 1000=9 1000001='text"]);
    assert_eq!(bench.say(2, "1000=7 2=6"), NOTHING, "a message that would say nothing is none");
    bench.set("match", "cpu,units").unwrap();
    assert_eq!(bench.say(2, "1000=7 1001=0"), ["1000=7 1001=0"], "a job that has no units any more");
    bench.set("match", "cpu,1000001").unwrap();
    bench.set("notmatch", "1000001").unwrap();
    assert_eq!(bench.say(3, message), ["1000=7 1=5"]);
    bench.set("match", "all").unwrap();
    assert_eq!(bench.say(4, message), ["1000=7 1=5 2=6 1000=8 2=7"]);
    bench.set("notmatch", "none").unwrap();
    assert_eq!(bench.say(5, message), [message]);
}

#[test]
fn messages_are_given_job_post_and_number() {
    let mut bench = Bench::new("prepend");
    assert_eq!(bench.say(1, "1=1"), ["1=1"]);
    for (key, value) in [("job", "7"), ("post", "3"), ("sequence", "on")] {
        bench.set(key, value).unwrap();
    }
    let both = bench.say(2, "1=1;1000=8 1=2");
    assert_eq!(both, ["1000=7 1002=3 1004=0 1=1", "1000=7 1002=3 1004=1 1000=8 1=2"]);
    for (key, value) in [("job", "none"), ("post", "4"), ("sequence", "off")] {
        bench.set(key, value).unwrap();
    }
    assert_eq!(bench.say(3, "1=1"), ["1002=4 1=1"]);
    bench.set("sequence", "on").unwrap();
    assert_eq!(bench.say(4, "1=1"), ["1002=4 1004=2 1=1"], "numbers are not given twice");
}

#[test]
fn a_blackhole_tells_how_much_it_took_when_its_timer_fires() {
    let mut bench = Bench::new("blackhole");
    every(&mut bench.runtime, "second", SECOND, &["it"]);
    assert_eq!(bench.say_at(100, "1=1;1=2;2=3 3=4"), NOTHING);
    run_to(&mut bench.runtime, SECOND);
    assert_eq!(messages_of(&bench.seen), ["1013=3"]);
    bench.say_at(SECOND + 1, "1=1");
    order(&mut bench.runtime, Order::Tell(who("it"), Word::Fired(Vec::new())));
    assert_eq!(messages_of(&bench.seen), ["1013=4"]);
}
