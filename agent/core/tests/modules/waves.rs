//! `wavebuf`, and waves whose end is cut off.

use starfarm_agent_core::{Context, Hook, Order, Stage, Triples, ValueId, Word};

use crate::bench::*;
use crate::common::*;

/// Values of the node came behind those of a job, and were read as the job's.
#[test]
fn values_that_are_nobodys_stay_nobodys_in_a_wave() {
    let mut bench = Bench::new("wavebuf");
    let wave = "1000=7 1=1;1000=7 2=2;1000=8 1=3;4=4;5=5 1002=3 1000=8 6=6";
    assert_eq!(bench.say(1, wave), ["4=4 5=5 1000=7 1=1 2=2 1000=8 1=3 1002=3 6=6"]);
    assert_eq!(bench.say(2, "1000=8 1=3"), ["1000=8 1=3"], "whose values a wave had is not said in the next");
}

/// Has itself asked again and again, once it has seen the value 666.
struct Restless;

impl Stage for Restless {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        if values.find(ValueId(666)).is_some() {
            context.order(Order::Tell(context.number().into(), Word::Ready));
        }
    }

    fn told(&mut self, _: &Word, context: &mut Context<'_>) -> Result<(), String> {
        context.order(Order::Tell(context.number().into(), Word::Ready));
        Ok(())
    }
}

/// A stage waited for the end of a wave that never came, asked no more, and grew.
#[test]
fn a_wave_whose_end_was_cut_off_stops_no_later_one() {
    let mut bench = Bench::new("wavebuf");
    bench.create("aggregate", "sums", &[("op", "sum")]);
    link(&mut bench.runtime, ("feed", "out"), ("sums", "in"));
    let sums = bench.sink_of("sums", "out");
    bench.runtime.add("restless", Box::new(Restless), Some("restless")).unwrap();
    link(&mut bench.runtime, ("feed", "out"), ("restless", "in"));
    assert_eq!(bench.say(1, "1=1 666=1"), NOTHING);
    assert_eq!(bench.say(2, "1=2"), ["1=1 666=1 1=2"]);
    assert_eq!(messages_of(&sums), ["1=2"], "no sum is of two waves");
    assert_eq!(bench.not_taken(), 2);
}
