//! Values on their way: waves, copies, what passes through.

use starfarm_agent_core::{Order, Triples, ValueId};

use crate::common::*;

#[test]
fn the_smallest_agent_sends_one_message_a_wave() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["cpu", "memory"]);
    run_to(&mut runtime, 2 * SECOND);
    assert_eq!(seen.take(), ["1.0 s, 0: 1=1 2=1", "2.0 s, 0: 1=2 2=2"]);
}

/// Two timers fire at one time, and each sensor has its own: still it is one wave.
#[test]
fn timers_that_fire_together_make_one_wave_and_apart_they_make_two() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["memory"]);
    every(&mut runtime, "half", SECOND / 2, &["cpu"]);
    run_to(&mut runtime, 2 * SECOND);
    assert_eq!(seen.take(), ["0.5 s, 0: 1=1", "1.0 s, 0: 1=2 2=1", "1.5 s, 0: 1=3", "2.0 s, 0: 1=4 2=2"]);
}

#[test]
fn who_subscribed_to_two_timers_that_fire_together_measures_once() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["cpu"]);
    every(&mut runtime, "half", SECOND / 2, &["cpu"]);
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take(), ["0.5 s, 0: 1=1", "1.0 s, 0: 1=2"]);
}

#[test]
fn an_output_goes_to_everybody_who_is_linked_to_it() {
    let (mut runtime, seen) = smallest();
    let other = Seen::default();
    runtime.add("sink", Box::new(Sink(other.clone())), Some("log")).unwrap();
    link(&mut runtime, ("cpu", "out-u64"), ("log", "first"));
    link(&mut runtime, ("memory", "out-u64"), ("log", "second"));
    every(&mut runtime, "second", SECOND, &["cpu", "memory"]);
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take(), ["1.0 s, 0: 1=1 2=1"]);
    assert_eq!(other.take(), ["1.0 s, 0: 1=1", "1.0 s, 1: 2=1"]);
}

#[test]
fn values_of_unknown_ids_pass_as_they_are() {
    let (mut runtime, seen) = smallest();
    runtime.add("sensor", Box::new(Sensor { id: 4_000_000_000, value: 7 }), Some("new")).unwrap();
    link(&mut runtime, ("new", "out-u64"), ("wave", "in"));
    every(&mut runtime, "second", SECOND, &["new"]);
    run_to(&mut runtime, SECOND);
    assert_eq!(seen.take(), ["1.0 s, 0: 4000000000=8"]);
    assert_eq!(Triples::read(&[]).unwrap().find(ValueId(1)), None);
}

#[test]
fn an_agent_whose_clock_stood_still_measures_once_and_goes_on() {
    let (mut runtime, seen) = smallest();
    every(&mut runtime, "second", SECOND, &["cpu"]);
    runtime.on_time(10 * SECOND + 300_000);
    run_to(&mut runtime, 11 * SECOND);
    assert_eq!(seen.take(), ["10.3 s, 0: 1=1", "11.0 s, 0: 1=2"]);
    order(&mut runtime, Order::EndTimer("second".into()));
    assert_eq!(runtime.next_due_us(), None);
}
