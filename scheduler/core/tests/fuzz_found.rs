//! Defects that stories of `fuzz` found and that are still there: the shortest script of each, and what is broken after
//! it. Whoever mends one takes its mark away here, and what keeps the stories off it in `fuzz/writer.rs`.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};

/// A unit that was poison is wanted again and done. Live its `Retried` stays beside it where its job is no command:
/// `record_done` acquits units only of jobs with deaths or units given back, replay always does.
#[test]
#[should_panic(expected = "live: Retried { job: JobId(1), units: [(0, 1)] }")]
fn poison_that_is_wanted_again_and_done_is_forgotten() {
    Bench::new(config()).run(
        "submit 2 units 1\n join a slots 1\n hello a boot 2 died 0\n hello a boot 3 died 0\n hello a boot 4 died 0
         retry 1\n ack a\n done a 0+1",
    );
}

/// A hello of the same incarnation changes a node's slots, and no record says so.
#[test]
#[should_panic(expected = "replayed: Joined { node: NodeId(0), slots: 1, at_us: 0 }, live: Joined")]
fn slots_that_a_later_hello_tells_are_on_record() {
    Bench::new(config()).run("join a slots 1\n hello a slots 2");
}

/// The same after a crash that kept a node's record and not the next one, which says how many slots it has: they are
/// never recorded.
#[test]
#[should_panic(expected = "replayed: Joined { node: NodeId(0), slots: 0, at_us: 0 }, live: Joined")]
fn slots_whose_record_was_not_durable_are_recorded_when_the_node_is_back() {
    Bench::new(config()).run("hold\n join a slots 1\n restart keeping 1\n hello a");
}

/// Nodes that seemed to have died of units are back, so that these may go to a node together. One with an idle slot
/// gets the next of them at the end of the period only: `pardon` marks nobody.
#[test]
#[should_panic(expected = "idled")]
fn a_pardon_is_news_to_nodes_with_an_idle_slot() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 8 command\n join a slots 2\n join b slots 2\n at +15160\n join c slots 3 queue 200 receives 1
         join d slots 2\n hello a",
    );
    // The farm looks at all its nodes where its disk has room again.
    let late = bench.run("& full\n room");
    assert!(!late.contains("offer"), "a node idled, until\n{late}");
}
