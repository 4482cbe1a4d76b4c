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

/// Others did well, so a node that failed was to go elsewhere; now they fail as well, and it may go on where it is.
#[test]
fn a_node_is_doubted_no_more_once_the_others_fail_as_well() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 73 command units 4\n join a queue 13\n ran a 0+4 ok,exit0,ok,ok ms 0
         ran a 4+4 exit0,timeout,timeout,timeout ms 0\n join b\n ran a 9+4 ok,exit0,signal0,signal0
         hello b boot 0 died 1:60\n ran b 65+3 ok,exit0,signal0\n ran a 8+4 ok,exit0,exit0,timeout
         ran b 68+4 signal0,exit0,signal0,signal0\n return b 61+4\n ran a 11+4 exit0,exit0,timeout,timeout",
    );
    nobody_idles(&mut bench);
}

/// A welcome that waited for its turn went to the next session, which had not said hello, and acknowledgements of the
/// incarnation before with it.
#[test]
fn the_welcome_of_a_session_before_is_not_sent() {
    let mut bench = Bench::new(config());
    let story = bench.run(
        "limits 1 2\n restart\n submit 2 command\n & hello a\n join b\n & hello a boot 0\n & ran b 0+1 ok\n & hello b
         hello b boot 0",
    );
    assert!(!story.contains("to b: welcome epoch 2; ack"), "{story}");
}

/// The next lease is on its way, and the one before is not used up.
#[test]
fn nodes_get_what_is_leased_while_the_next_lease_is_on_its_way() {
    let mut bench = Bench::new(config());
    let story = bench.run(
        "submit 323 command\n join a\n restart\n hold\n hello b\n & full\n room\n ran a 0+1 ok\n & full\n room
         durable 3",
    );
    assert!(story.contains("to b: offer"), "{story}");
}

/// The node that unit 0 was kept for says that it cannot run it.
#[test]
fn what_was_kept_for_a_node_that_refuses_the_job_goes_to_others_at_once() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1\n join a\n join b slots 3\n submit 3 command retries 1 copies\n at +26462
         ran b 0+3 exit3,ok,timeout job 2 ms 14\n live +5992 a none b 2:0+1,2:2+1,2:2+1/2:0\n hello b boot 2
         refuse a 0+1 no-python job 2 attempt 1099511627787",
    );
    nobody_idles(&mut bench);
}

/// Somebody did a part of what a node gave back: the rest is still kept for others for a while.
#[test]
fn the_rest_of_what_a_node_gave_back_is_kept_for_others() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1\n join a slots 2\n join b\n submit 9\n join d\n pause 2\n restart\n live +1 a 2:1+8 b none
         done d 0+1 job 2\n join e slots 2\n hello a\n hello b\n resume 2\n ack a\n return a 0+9 job 2 attempt 2
         done a 0+1 job 1\n ack b\n done b 1+1 job 2",
    );
    nobody_idles(&mut bench);
}

/// They wait as one task, and the node may have all but its first units.
#[test]
fn what_lies_behind_units_that_a_node_gave_back_goes_to_it() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 21 command units 2\n join a\n restart\n beat a none\n ran a 11+1 ok ms 0\n at +0\n join b slots 3
         ran b 0+2 ok\n return b 12+2\n ran b 6+5 exit0\n hello a",
    );
    nobody_idles(&mut bench);
}

/// A node had two copies. The unit of one is decided elsewhere.
#[test]
fn a_node_whose_copy_is_dropped_has_room() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 3 command units 2\n join b\n ran b 0+3 exit0,ok,timeout\n join c slots 4\n submit 22 units 5
         join d slots 2\n done b 0+5 job 2\n hello c boot 0 died 2:6,2:9\n done b 6+1 job 2\n return c 5+3 job 2
         done c 5+1 job 2\n live +363\n join e\n done d 20+2 job 2\n submit 5 command units 5 copies
         done b 9+1 job 2\n join f slots 2\n at +6638\n ack b\n hello c died 3:0
         live +16777 b 1:0+3/2:15 d none e none f none\n ran b 0+1 signal9 job 3 ms 117875",
    );
    nobody_idles(&mut bench);
}

/// What waits in gq should go to others, and there is enough that nobody was given: one task of it is not all.
#[test]
fn a_node_that_should_not_have_what_waits_gets_as_much_else_as_it_has_room_for() {
    let mut bench = Bench::new(config());
    let ok = |units| vec!["ok"; units].join(",");
    bench.run(&format!(
        "submit 193 command units 5\n join a slots 4\n join b slots 3\n join c slots 3
         ran c 71+5 signal0,timeout,exit0,timeout,signal0\n join d slots 2\n hello a\n hello b\n hello c\n ack a
         ran a 0+40 {}\n ack b\n ran b 40+30 {}\n ack c\n return c 70+1 attempt 15\n return c 76+4 attempt 16
         return c 80+5 attempt 17\n return c 85+5 attempt 18\n return c 90+5 attempt 19\n return c 95+5 attempt 20
         ack d\n ran d 100+20 {}",
        ok(40),
        ok(30),
        ok(20),
    ));
    nobody_idles(&mut bench);
}

/// A hello in another version is answered, and what the incarnation before is owed does not go with the answer.
#[test]
fn a_worker_of_another_version_is_told_who_we_are_and_nothing_else() {
    let mut bench = Bench::new(config());
    let story = bench.run(
        "limits 1 2\n restart\n submit 3 command\n hello a\n join c\n & hello a boot 0\n & ran c 0+1 exit0
         hello c boot 2\n hello c version 0",
    );
    assert!(story.contains("to c: welcome") && !story.contains("welcome epoch 2; ack"), "{story}");
}

/// What came back twice was kept for longer, and what lay beside it as well.
#[test]
fn a_node_is_given_what_it_may_have_again_though_what_lies_before_that_is_kept_from_it() {
    let mut bench = Bench::new(config());
    let story = bench.run("submit 2\n join a\n return a 0+1\n live +1000\n return a 0+2\n at +1000");
    assert!(story.contains("2000: to a: offer job 1: 3=1+1"), "{story}");
}
