//! Stages that do too much: nothing goes on for ever, and what is lost is counted.

use starfarm_agent_core::{Context, Guests, Hook, Losses, Order, Refusal, Stage, Triples, ValueId, Word};

use crate::common::*;

/// Passes all on.
struct Pass;

impl Stage for Pass {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        context.emit(0, |message| message.put_all(values));
    }
}

/// So many of these between a sensor and a sink: what the sink sees, and what is lost.
fn through(passes: usize) -> (Vec<String>, Losses) {
    let (mut runtime, seen) = (runtime(), Seen::default());
    runtime.add("sensor", Box::new(Sensor { id: 1, value: 0 }), Some("s0")).unwrap();
    for n in 1..=passes {
        runtime.add("pass", Box::new(Pass), Some(&format!("s{n}"))).unwrap();
        let output = if n == 1 { "out-u64" } else { "out" };
        link(&mut runtime, (&format!("s{}", n - 1), output), (&format!("s{n}"), "in"));
    }
    runtime.add("sink", Box::new(Sink(seen.clone())), Some("end")).unwrap();
    link(&mut runtime, (&format!("s{passes}"), "out"), ("end", "in"));
    every(&mut runtime, "second", SECOND, &["s0"]);
    run_to(&mut runtime, SECOND);
    (seen.take(), runtime.losses())
}

#[test]
fn a_message_passes_64_stages_and_no_more() {
    assert_eq!(through(63), (vec!["1.0 s, 0: 1=1".to_owned()], Losses::default()));
    assert_eq!(through(64), (Vec::new(), Losses { too_far: 1, ..Losses::default() }));
}

/// Has itself told something each time it is told something.
struct Restless;

impl Stage for Restless {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn told(&mut self, _: &Word, context: &mut Context<'_>) -> Result<(), String> {
        context.wait_for_wave();
        Ok(())
    }
}

#[test]
fn a_stage_that_never_rests_is_cut_off_and_the_others_go_on() {
    let (mut runtime, seen) = smallest();
    runtime.add("restless", Box::new(Restless), Some("restless")).unwrap();
    every(&mut runtime, "second", SECOND, &["cpu", "restless"]);
    run_to(&mut runtime, 2 * SECOND);
    assert_eq!(seen.take(), ["1.0 s, 0: 1=1", "2.0 s, 0: 1=2"]);
    assert_eq!(runtime.losses(), Losses { cut_off: 2, ..Losses::default() });
}

/// Emits more values than a message may have.
struct Flood;

impl Stage for Flood {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn told(&mut self, _: &Word, context: &mut Context<'_>) -> Result<(), String> {
        context.emit(0, |message| (0..5_000).for_each(|n| message.put_number(ValueId(n), 1)));
        context.order(Order::End(who("nobody")));
        Ok(())
    }
}

#[test]
fn values_that_a_message_has_no_room_for_and_orders_that_fail_are_counted() {
    let (mut runtime, seen) = smallest();
    runtime.add("flood", Box::new(Flood), Some("flood")).unwrap();
    link(&mut runtime, ("flood", "out"), ("up", "in"));
    every(&mut runtime, "second", SECOND, &["flood"]);
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take()[0].split(' ').count(), 3 + 4_096);
    assert_eq!(runtime.losses(), Losses { left_out: 904, refused: 1, ..Losses::default() });
}

#[test]
fn others_have_so_many_stages_at_most_and_there_is_room_for_the_agents_own() {
    let mut runtime = runtime();
    runtime.open_to(Guests { types: &["rate"], is_reserved: |_| false });
    let create = Order::Create { type_name: "rate".into(), name: None }.as_guest();
    let all: Vec<_> = (0..10_000).map(|_| runtime.order(create.clone(), 0).unwrap().unwrap()).collect();
    assert_eq!(runtime.order(create.clone(), 0), Err(Refusal::TooManyStages));
    assert!(runtime.add("pass", Box::new(Pass), None).is_ok());
    assert_eq!(runtime.order(create.clone(), 0), Err(Refusal::TooManyStages));
    order(&mut runtime, Order::End(all[77].into()));
    assert!(runtime.order(create, 0).is_ok());
}

/// Paths that part and meet again double what they carry each time.
#[test]
fn messages_that_multiply_are_dropped_and_counted() {
    let (mut runtime, seen) = (runtime(), Seen::default());
    runtime.add("sensor", Box::new(Sensor { id: 1, value: 0 }), Some("s0")).unwrap();
    runtime.add("sink", Box::new(Sink(seen.clone())), Some("end")).unwrap();
    for n in 1..=18 {
        for name in ["l", "r", "s"] {
            runtime.add("pass", Box::new(Pass), Some(&format!("{name}{n}"))).unwrap();
        }
        let before = format!("s{}", n - 1);
        for side in ["l", "r"] {
            let output = if n == 1 { "out-u64" } else { "out" };
            link(&mut runtime, (&before, output), (&format!("{side}{n}"), "in"));
            link(&mut runtime, (&format!("{side}{n}"), "out"), (&format!("s{n}"), "in"));
        }
    }
    link(&mut runtime, ("s18", "out"), ("end", "in"));
    every(&mut runtime, "second", SECOND, &["s0"]);
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take().len(), 65_536);
    assert_eq!(runtime.losses(), Losses { cut_off: 2 * 65_536, ..Losses::default() });
}

/// Jobs come and go, each with an output of its own: their hooks were never used again.
#[test]
fn hooks_of_edges_that_have_gone_make_room_for_others() {
    let (mut runtime, _) = smallest();
    for job in 0..3_000 {
        let (output, input) = ((who("wave"), "out".to_owned()), (who("up"), format!("job-{job}")));
        order(&mut runtime, Order::Link(output.clone(), input.clone()));
        order(&mut runtime, Order::Unlink(output, input));
    }
    assert_eq!(runtime.edges().len(), 3);
}
