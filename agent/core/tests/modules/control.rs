//! Orders that a stage gives by what it sees, and what it may not change.

use starfarm_agent_core::{Guests, Order, Refusal, Runtime};

use crate::bench::*;
use crate::common::*;

/// A stage `control`, where guests may have those of the type `rate`, and the agent gives names such as `own-7`.
fn bench(settings: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::without_output("control");
    let is_reserved = |name: &str| name == "own-7";
    bench.runtime.open_to(Guests { types: &["rate"], is_reserved });
    settings.iter().for_each(|(key, value)| bench.set(key, value).unwrap());
    bench
}

fn periods(runtime: &Runtime) -> Vec<String> {
    let all = runtime.timers().into_iter();
    all.map(|timer| format!("{} {:?}", timer.name, timer.period_us)).collect()
}

fn as_guest(runtime: &mut Runtime, line: &str) -> Result<(), Refusal> {
    let order: Order = line.parse().unwrap();
    runtime.order(order.as_guest(), 0).map(drop)
}

#[test]
fn a_threshold_quickens_a_timer_and_slows_it_down_again() {
    let mut bench = bench(&[
        ("raised", "timer often every 0.1; create more rate;"),
        ("cleared", "end more; timer often every 1"),
    ]);
    let names = |runtime: &Runtime| {
        let all = runtime.stages().into_iter();
        all.filter_map(|(_, name, _)| name.map(str::to_owned)).collect::<Vec<_>>().join(" ")
    };
    let quick = ["often Some(100000)"];
    // Of two jobs that are beyond the level, the first one counts, and the last one that comes back.
    for (message, expected, stages) in [
        ("1000=7 1012=2", vec![], "feed it"),
        ("1000=7 1011=2 2=95", quick.to_vec(), "feed it more"),
        ("1000=8 1011=2 2=95", quick.to_vec(), "feed it more"),
        ("1000=7 1012=2 2=5", quick.to_vec(), "feed it more"),
        ("1000=9 1012=2 1000=8 2=5", quick.to_vec(), "feed it more"),
        ("1000=8 1012=1", quick.to_vec(), "feed it more"),
        ("1000=8 1012=2", vec!["often Some(1000000)"], "feed it"),
    ] {
        bench.say(1, message);
        assert_eq!(periods(&bench.runtime), expected, "{message}");
        assert_eq!(names(&bench.runtime), stages, "{message}");
    }
    assert_eq!(bench.runtime.losses().refused, 0);
}

#[test]
fn orders_are_given_with_each_message_where_that_is_asked() {
    let mut bench = bench(&[("any", "create a rate;end a;end b")]);
    (1..=3).for_each(|second| drop(bench.say(second, "1=5; 1=6")));
    assert_eq!(bench.runtime.losses().refused, 6, "there is no `b`, whenever it is asked for");
    assert_eq!(bench.runtime.stages().len(), 2);
}

#[test]
fn what_is_no_order_is_refused_when_it_is_set() {
    let mut bench = bench(&[]);
    let refused = bench.set("raised", "timer t every 1; jump").unwrap_err();
    assert!(refused.starts_with("`jump` is no order: write create NAME TYPE"), "{refused}");
    assert!(bench.set("any", &"end a;".repeat(101)).unwrap_err().contains("`any` is a list of 100 at most"));
    assert!(bench.set("colour", "red").unwrap_err().contains("`control` has no setting `colour`"));
    let out = bench.runtime.order(link_order(("it", "out"), ("feed", "in")), 0);
    assert!(out.is_err(), "it has no output");
}

#[test]
fn guests_change_what_is_theirs_and_nothing_of_the_agents_own() {
    let mut bench = bench(&[]);
    let runtime = &mut bench.runtime;
    every(runtime, "period", SECOND, &["it"]);
    let before = (runtime.stages().len(), runtime.edges().len(), periods(runtime));
    let cannot = |what: &str| Err(Refusal::NotForGuests(what.to_owned()));
    for (line, what) in [
        ("create x run", "a stage of a type other than `rate`"),
        ("create own-7 rate", "what is named `own-7`"),
        ("timer own-7 every 1", "what is named `own-7`"),
        ("end feed", "the stage `feed`"),
        ("name feed x", "the stage `feed`"),
        ("set it any end it", "the stage `it`"),
        ("unlink feed.out it.in", "what comes to `it.in`"),
        ("link feed.out it.more", "what comes to `it.more`"),
        ("timer period every 0.1", "the timer `period`"),
        ("end-timer period", "the timer `period`"),
        ("subscribe period feed", "the timer `period`"),
        ("unsubscribe period it", "the timer `period`"),
    ] {
        assert_eq!(as_guest(runtime, line), cannot(what), "{line}");
    }
    assert_eq!(as_guest(runtime, "end nobody"), Err(Refusal::NoStage("nobody".into())));
    assert_eq!(as_guest(runtime, "end-timer never"), Err(Refusal::NoTimer("never".into())));
    assert_eq!((runtime.stages().len(), runtime.edges().len(), periods(runtime)), before);
    // What is theirs they may have beside it, and take away again.
    for line in [
        "create slow rate",
        "set slow every 10",
        "link feed.out slow.in",
        "timer often every 0.1",
        "subscribe often slow",
        "timer often after 0",
        "name slow slower",
    ] {
        assert_eq!(as_guest(runtime, line), Ok(()), "{line}");
    }
    assert_eq!(as_guest(runtime, "subscribe often feed"), cannot("when the stage `feed` is asked"));
    assert_eq!(as_guest(runtime, "link slower.out it.more"), cannot("what comes to `it.more`"));
    assert_eq!(runtime.next_due_us(), Some(10_000), "no timer keeps an agent busy");
    let slower = runtime.stages().last().unwrap().0;
    assert_eq!(runtime.settings(slower).unwrap()["every"], "10");
    assert_eq!(as_guest(runtime, "name slower own-7"), cannot("what is named `own-7`"));
    for line in ["unsubscribe often slower", "end-timer often", "unlink feed.out slower.in", "end slower"] {
        assert_eq!(as_guest(runtime, line), Ok(()), "{line}");
    }
    assert_eq!((runtime.stages().len(), runtime.edges().len(), periods(runtime)), before);
}

#[test]
fn what_a_stage_has_had_made_goes_with_it_and_what_orders_from_afar_have_made_can_be_taken_back() {
    let mut bench = bench(&[]);
    bench.runtime.open_to(Guests { types: &["rate", "control"], is_reserved: |_| false });
    let before = bench.runtime.stages().len();
    for line in [
        "create c control",
        "set c any create made rate; timer often every 1; create d control; set d any create more rate",
        "link feed.out c.in",
    ] {
        assert_eq!(as_guest(&mut bench.runtime, line), Ok(()), "{line}");
    }
    bench.say(1, "1=5");
    assert_eq!(as_guest(&mut bench.runtime, "link feed.out d.in"), Ok(()));
    bench.say(2, "1=5");
    assert_eq!((bench.runtime.stages().len(), bench.runtime.timers().len()), (before + 4, 1));
    assert_eq!(as_guest(&mut bench.runtime, "end c"), Ok(()));
    assert_eq!((bench.runtime.stages().len(), bench.runtime.timers().len()), (before, 0));
    for line in ["create c control", "create slow rate", "timer often every 1"] {
        assert_eq!(as_guest(&mut bench.runtime, line), Ok(()), "{line}");
    }
    bench.runtime.take_back();
    assert_eq!((bench.runtime.stages().len(), bench.runtime.timers().len()), (before, 0));
}

#[test]
fn two_thresholds_of_one_figure_are_two_and_one_that_has_gone_is_none() {
    let mut bench = bench(&[("raised", "timer often every 0.1"), ("cleared", "end-timer often")]);
    for (nth, name) in ["one", "other"].into_iter().enumerate() {
        bench.create("threshold", name, &[("metric", "memory"), ("above", ["90", "50"][nth])]);
        link(&mut bench.runtime, ("feed", "out"), (name, "in"));
        link(&mut bench.runtime, (name, "out"), ("it", name));
    }
    let timers = |bench: &mut Bench, second, value| {
        bench.say(second, &format!("2={value}"));
        bench.runtime.timers().len()
    };
    assert_eq!([95, 60, 40, 95].map(|value| timers(&mut bench, value, value)), [1, 1, 0, 1]);
    order(&mut bench.runtime, Order::End(who("one")));
    order(&mut bench.runtime, Order::End(who("other")));
    bench.create("threshold", "again", &[("metric", "memory"), ("above", "90")]);
    link(&mut bench.runtime, ("feed", "out"), ("again", "in"));
    link(&mut bench.runtime, ("again", "out"), ("it", "again"));
    order(&mut bench.runtime, Order::EndTimer("often".into()));
    assert_eq!(timers(&mut bench, 200, 95), 1, "nobody was beyond its level any more");
    bench.set("cleared", "none").unwrap();
    assert_eq!(timers(&mut bench, 201, 5), 1);
}

#[test]
fn without_leave_guests_change_nothing() {
    let mut runtime = runtime();
    for line in ["create slow rate", "timer often every 1"] {
        assert!(as_guest(&mut runtime, line).is_err(), "{line}");
    }
}
