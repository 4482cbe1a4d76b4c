//! What a node is said to have, to be and to have done. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_protocol::admin::NodeInfo;
use starfarm_protocol::ids::Boot;
use starfarm_protocol::state::NodeState;
use starfarm_protocol::wire::{Load, Packer};
use starfarm_scheduler_core::{Bookmark, NodeId, Record, Restoring};

/// The first node after a script.
fn first(script: &str) -> NodeInfo {
    let mut bench = Bench::new(config());
    bench.run(script);
    bench.farm.nodes(bench.now_us).remove(0)
}

/// Until it was heard again it had no slots, in tables and in the log's first snapshot.
#[test]
fn a_node_keeps_its_slots_and_the_time_of_its_joining_over_a_restart() {
    let told = |script: &str| {
        let node = first(&format!("at 5000\n join a slots 4\n at 7000\n {script}\n at 9000"));
        (node.slots, node.joined_seconds)
    };
    assert_eq!(told("restart"), (4, 4.0));
    assert_eq!(told("checkpoint\n restart"), (4, 4.0));
    assert_eq!(told("restart\n session a\n hello a"), (4, 4.0));
    assert_eq!(told("restart\n session a\n hello a boot 2"), (4, 2.0));
}

/// Such an end is no loss, also in the eyes of the next scheduler.
#[test]
fn a_node_that_left_by_itself_is_told_apart_from_one_that_is_lost() {
    let told = |script: &str| {
        let node = first(&format!("join a slots 4\n {script}"));
        (node.state, node.left)
    };
    assert_eq!(told("at 20000"), (NodeState::Lost, false));
    assert_eq!(told("bye a"), (NodeState::Lost, true));
    assert_eq!(told("bye a\n restart"), (NodeState::Lost, true));
    assert_eq!(told("revoke a"), (NodeState::Lost, false));
    assert_eq!(told("bye a\n session a\n hello a boot 2"), (NodeState::Up, false));
}

/// The records do not say when a node was heard, so no time is made up.
#[test]
fn a_node_that_this_scheduler_has_not_heard_was_silent_for_an_unknown_time() {
    let told = |script: &str| {
        let mut bench = Bench::new(config());
        bench.run(&format!("join a slots 4\n at 7000\n {script}\n at 9000"));
        let silent_seconds = bench.farm.nodes(bench.now_us).remove(0).silent_seconds;
        (silent_seconds, bench.farm.picture(bench.now_us).nodes.remove(0).heard_us)
    };
    assert_eq!(told(""), (Some(9.0), Some(0)));
    assert_eq!(told("restart"), (None, None));
    assert_eq!(told("bye a\n restart"), (None, None));
    assert_eq!(told("restart\n session a\n hello a"), (Some(2.0), Some(7_000_000)));
}

#[test]
fn records_of_nodes_from_before_these_had_slots_are_read() {
    let mut restoring = Restoring::new(config(), 0);
    restoring.apply(&Record::Node { node: NodeId(0), name: "a".into(), boot: Boot(1) }).unwrap();
    let node = restoring.finish(1, 9_000_000).nodes(10_000_000).remove(0);
    assert_eq!((node.slots, node.joined_seconds), (0, 1.0));
}

#[test]
fn who_was_first_with_a_copy_has_done_a_task() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b\n done b 0+10",
    );
    let done: Vec<_> = bench.farm.nodes(bench.now_us).iter().map(|node| node.tasks_done).collect();
    assert_eq!(done, [1, 2]);
}

#[test]
fn a_unit_that_failed_and_is_tried_again_is_not_counted_yet() {
    let joined = "submit 10 command retries 3 units 2\n join a slots 1\n ack a\n ran a 0+2 ok,exit1";
    assert_eq!(first(joined).units_done, 1);
    assert_eq!(first(&format!("{joined}\n ack a\n return a 2+2\n ack a\n ran a 1+1 ok")).units_done, 2);
}

/// A lost node seemed to have a full queue and busy slots for ever.
#[test]
fn what_a_node_said_of_itself_is_over_once_it_is_lost_or_gone() {
    for end in ["at 30000", "bye a", "hello a boot 2"] {
        let mut bench = Bench::new(config());
        bench.run("submit 100 units 10\n join a slots 1\n at 1\n ack a\n beat a 0+20");
        let mut packer = Packer::new();
        packer.load(&Load { idle_us: 5, slots: vec![700] });
        bench.hear(NodeId(0), &packer.finish().concat());
        let busy = bench.farm.picture(bench.now_us).nodes.remove(0);
        assert_eq!((busy.load, busy.idle_us), (vec![700], 5));
        bench.run(end);
        let node = bench.farm.picture(bench.now_us).nodes.remove(0);
        assert_eq!((node.load, node.idle_us, node.tasks_queued), (vec![], 0, 0), "{end}");
    }
}

/// Each page began with a walk over all pages before it: 800 000 hits took 21 s, 10 million never came.
#[test]
fn pages_by_their_bookmarks_are_those_by_their_places() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 search 3 targets units 10\n join a slots 1\n ack a\n done a 0+10 hits 1:0,1:2,3:1,7:2,9:0");
    let job = bench.farm.jobs(0)[0].id;
    for take in 1..7 {
        let (mut skip, mut mark, mut all) = (0, Bookmark::default(), Vec::new());
        loop {
            let page = bench.farm.found_page(job, skip, take, mark).unwrap();
            assert_eq!(page, bench.farm.found_page(job, skip, take, Bookmark::default()).unwrap());
            (skip, mark) = (skip + take, page.next);
            all.extend(page.hits);
            if !page.more {
                break;
            }
        }
        assert_eq!(all, [(1, 0), (1, 2), (3, 1), (7, 2), (9, 0)], "{take} a page");
        assert_eq!(bench.farm.found_page(job, skip, take, mark).unwrap().hits, []);
        assert_eq!(bench.farm.found_page(job, 2, 9, mark).unwrap().hits.len(), 3, "a mark of another place");
    }
}
