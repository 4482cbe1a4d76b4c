//! A graph that changes while it runs, by orders from outside and by its own stages, and what is refused.

use starfarm_agent_core::{Context, Hook, Order, Refusal, Stage, StageNumber, Triples, When, Word};

use crate::common::*;

#[test]
fn stages_come_and_go_while_others_go_on() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["cpu", "memory"]);
    run_to(&mut runtime, SECOND);
    order(&mut runtime, Order::End(who("memory")));
    run_to(&mut runtime, 2 * SECOND);
    runtime.add("sensor", Box::new(Sensor { id: 3, value: 0 }), Some("memory")).unwrap();
    link(&mut runtime, ("memory", "out-u64"), ("wave", "in"));
    order(&mut runtime, Order::Subscribe("second".into(), who("memory"), true));
    run_to(&mut runtime, 3 * SECOND);
    assert_eq!(seen.take(), ["1.0 s, 0: 1=1 2=1", "2.0 s, 0: 1=2", "3.0 s, 0: 1=3 3=1"]);
    // The number of what has ended is nobody's.
    let numbers: Vec<u64> = runtime.stages().iter().map(|(number, ..)| number.0).collect();
    assert_eq!(numbers, [1, 3, 4, 5]);
    assert_eq!(runtime.order(Order::End(StageNumber(2).into()), 0), Err(Refusal::NoStage("2".into())));
}

#[test]
fn an_edge_that_is_taken_away_carries_nothing_and_who_is_left_hears_of_it() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["cpu", "memory"]);
    let cut = Order::Unlink((who("wave"), "out".into()), (who("up"), "in".into()));
    order(&mut runtime, cut.clone());
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take(), ["in is gone"]);
    assert_eq!(runtime.order(cut, 0), Err(Refusal::NoEdge));
    link(&mut runtime, ("wave", "out"), ("up", "in"));
    run_to(&mut runtime, 2 * SECOND);
    order(&mut runtime, Order::End(who("wave")));
    assert_eq!(seen.take(), ["2.0 s, 0: 1=2 2=2", "in is gone"]);
    assert_eq!(runtime.edges(), []);
}

/// Once a value is beyond a bound, the timer of those who measure is quickened.
struct Alert;

impl Stage for Alert {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        if values.into_iter().any(|triple| triple.number() == Some(2)) {
            context.order(Order::Timer("second".into(), When::Every(SECOND / 10)));
        }
    }
}

#[test]
fn a_stage_changes_the_graph_by_what_it_sees() {
    let (mut runtime, seen) = smallest();
    runtime.add("alert", Box::new(Alert), Some("alert")).unwrap();
    link(&mut runtime, ("cpu", "out-u64"), ("alert", "in"));
    every(&mut runtime, "second", SECOND, &["cpu"]);
    run_to(&mut runtime, 2 * SECOND + 250_000);
    assert_eq!(seen.take(), ["1.0 s, 0: 1=1", "2.0 s, 0: 1=2", "2.1 s, 0: 1=3", "2.2 s, 0: 1=4"]);
}

#[test]
fn a_stage_is_told_settings_and_says_why_not() {
    let (mut runtime, seen) = smallest();
    let set =
        |key: &str, value: &str| Order::Tell(who("cpu"), Word::Set { key: key.into(), value: value.into() });
    order(&mut runtime, set("value", "41"));
    let refused = |why: &str| Err(Refusal::ByStage(why.into()));
    assert_eq!(runtime.order(set("value", "many"), 0), refused("`many` is no number"));
    assert_eq!(runtime.order(set("colour", "red"), 0), refused("there is no setting `colour`"));
    order(&mut runtime, Order::Tell(who("cpu"), Word::Fired(vec!["by hand".into()])));
    assert_eq!(seen.take(), ["0.0 s, 0: 1=42"]);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let (mut runtime, _) = smallest();
    let before = (runtime.edges().len(), runtime.stages().len());
    let create =
        |type_name: &str, name: &str| Order::Create { type_name: type_name.into(), name: Some(name.into()) };
    let link = |from: (&str, &str), to: (&str, &str)| link_order(from, to);
    for (order, refusal) in [
        (create("cpuload", "x"), Refusal::NoType("cpuload".into())),
        (create("wavebuf", "cpu"), Refusal::NameTaken("cpu".into())),
        (create("wavebuf", "a.b"), Refusal::BadName("a.b".into())),
        (create("wavebuf", &"x".repeat(70)), Refusal::BadName("x".repeat(64))),
        (Order::Name(who("cpu"), String::new()), Refusal::BadName(String::new())),
        (link(("cpu", "out-u64"), ("nobody", "in")), Refusal::NoStage("nobody".into())),
        (link(("cpu", "out-u64"), ("wave", "in")), Refusal::EdgeThere),
        (
            link(("cpu", "out-f32"), ("wave", "in")),
            Refusal::ByStage("a sensor has the output `out-u64`, not `out-f32`".into()),
        ),
        (link(("cpu", "out-u64"), ("memory", "in")), Refusal::ByStage("a sensor has no inputs".into())),
        (link(("wave", "out"), ("wave", "in")), Refusal::Ring),
        (Order::Timer("t".into(), When::Every(0)), Refusal::PeriodTooShort),
        (Order::Subscribe("t".into(), who("cpu"), true), Refusal::NoTimer("t".into())),
    ] {
        assert_eq!(runtime.order(order.clone(), 0), Err(refusal), "{order:?}");
    }
    assert_eq!((runtime.edges().len(), runtime.stages().len()), before);
}

#[test]
fn a_ring_over_several_stages_is_refused() {
    let mut runtime = runtime();
    for name in ["a", "b", "c"] {
        order(&mut runtime, Order::Create { type_name: "wavebuf".into(), name: Some(name.into()) });
    }
    link(&mut runtime, ("a", "out"), ("b", "in"));
    link(&mut runtime, ("b", "out"), ("c", "in"));
    assert_eq!(runtime.order(link_order(("c", "out"), ("a", "in")), 0), Err(Refusal::Ring));
    link(&mut runtime, ("a", "out"), ("c", "in"));
    order(&mut runtime, Order::Name(who("b"), "middle".into()));
    assert_eq!(
        runtime.edges().iter().map(|(from, _, to, _)| (from.0, to.0)).collect::<Vec<_>>(),
        [(1, 2), (1, 3), (2, 3)]
    );
    assert_eq!(runtime.stages()[1].1, Some("middle"));
}
