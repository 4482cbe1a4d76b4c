//! What stories of `fuzz` found: the shortest script of each defect. After each line the bench checks that replay equals
//! live.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};

/// A unit that was poison is wanted again and done: nothing is held against it any more, whatever its job is.
#[test]
fn poison_that_is_wanted_again_and_done_is_forgotten() {
    Bench::new(config()).run(
        "submit 2 units 1\n join a slots 1\n hello a boot 2 died 0\n hello a boot 3 died 0\n hello a boot 4 died 0
         retry 1\n ack a\n done a 0+1",
    );
}

/// A hello of the same incarnation may tell of other slots.
#[test]
fn slots_that_a_later_hello_tells_are_on_record() {
    Bench::new(config()).run("join a slots 1\n hello a slots 2");
}

/// A crash may keep a node's record and not the next one, which says how many slots it has.
#[test]
fn slots_whose_record_was_not_durable_are_recorded_when_the_node_is_back() {
    Bench::new(config()).run("hold\n join a slots 1\n restart keeping 1\n hello a");
}

/// Nodes that seemed to have died of units are back, so that these may go to a node together: one with an idle slot gets
/// the next of them at once.
#[test]
fn a_pardon_is_news_to_nodes_with_an_idle_slot() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 8 command\n join a slots 2\n join b slots 2\n at +15160\n join c slots 3 queue 200 receives 1
         join d slots 2\n hello a",
    );
    nobody_idles(&mut bench);
}

/// The farm looks at all its nodes where its disk has room again: that gives none of them anything.
fn nobody_idles(bench: &mut Bench) {
    let late = bench.run("& full\n room");
    assert!(!late.contains("offer"), "a node idled, until\n{late}");
}

/// A node that cannot run a job is asked again when the pause is over, and not when the period happens to end.
#[test]
fn a_refusal_is_asked_about_again_when_its_pause_is_over() {
    let mut bench = Bench::new(config());
    bench.run("at 4000\n submit 2\n join a slots 1\n ack a\n refuse a 0+2 no-python");
    let story = bench.run("live +9995 a none\n at +10");
    assert!(story.contains("offer"), "{story}");
}

/// A node that came back and has not said what it holds gets nothing until the time for that is over, and then at once.
#[test]
fn a_node_that_never_said_what_it_holds_gets_work_when_the_time_for_that_is_over() {
    let mut bench = Bench::new(config());
    let story = bench.run(
        "submit 5 command\n join a\n join b\n restart\n at +13860\n hello b boot 2\n ran b 16+3 ok,ok,ok job 1
         join c slots 2\n live +1140 c none",
    );
    assert!(story.contains("to b: offer"), "{story}");
}

/// What failed elsewhere is kept for a node that has not failed it, and is anybody's once that node has left.
#[test]
fn what_was_kept_for_a_node_that_leaves_goes_to_others_at_once() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1\n join a slots 2\n done a 0+1\n join b\n submit 3\n submit 4 command retries 2\n done a 0+3 job 2
         return a 0+3 job 3\n join c slots 2\n ran b 0+4 timeout,exit0,ok,ok job 3\n ran c 0+1 exit0 job 3\n revoke a",
    );
    nobody_idles(&mut bench);
}

/// A result that ends a task, and tells of a failure that is known and wanted again, says two things of one unit.
#[test]
fn a_failure_that_comes_again_gives_its_unit_back_when_the_task_has_left() {
    Bench::new(config()).run(
        "submit 2 command\n join a\n ran a 0+2 exit0,exit0\n retry 1\n join c\n restart\n live +1 c 1:0+2
         ran c 0+2 timeout,ok",
    );
}
