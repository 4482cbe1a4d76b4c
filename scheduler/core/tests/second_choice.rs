//! What comes back from a node goes to another one first, told as scripts: that is a preference, with an end.
//! Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config};
use expect_test::expect;

/// It was given to nobody: it had failed on the one, and the other had died of it.
#[test]
fn a_unit_that_failed_on_one_node_and_killed_the_other_goes_to_the_one_where_it_failed() {
    check_after(
        "submit 1 command retries 3 units 1\n join a slots 1\n ack a\n join b slots 1\n ran a 0+1 exit1\n ack b",
        "hello b boot 2 died 0\n ack a\n ran a 0+1 ok\n show 1",
        expect![[r#"
            0: node b joined: 1 slot, boot 0000000000000002
            0: to b: welcome epoch 1
            0: to a: ack results [(1, 1)]; offer job 1: 3=0+1
            0: job 1 finished
            0: job 1 is finished: done 1, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

#[test]
fn a_unit_that_killed_its_node_goes_there_again_where_the_only_other_one_refused_the_job() {
    check_after(
        "submit 2 command units 1\n join a slots 1\n ack a\n join b slots 1\n refuse b 0+1 no-python",
        "hello a boot 2 died 0\n tasks a\n tasks b",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 3=0+1 4=1+1
            0: a has 2 tasks
            0: b has 0 tasks
        "#]],
    );
}

#[test]
fn a_unit_that_failed_waits_ten_seconds_for_another_node_that_is_busy() {
    check_after(
        "submit 5 command retries 1 units 1\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "ran a 0+1 exit1\n ran a 1+1 ok\n ran a 4+1 ok\n tasks a\n live 9000 a none b 2+2\n tasks a\n at 10000\n tasks a",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=4+1
            0: a has 0 tasks
            0: to a: ack results [(2, 3)]
            9000: a has 0 tasks
            10000: to a: offer job 1: 6=0+1
            10000: a has 1 tasks
        "#]],
    );
}

/// They die one after another, and each time the pause for the same one is longer.
#[test]
fn a_unit_that_killed_its_node_waits_longer_for_another_one() {
    check_after(
        "submit 5 command units 1\n join b slots 1\n ack b\n join a slots 1\n ack a\n hello a boot 2 died 2\n ack a
         ran a 3+1 ok\n ran a 4+1 ok\n tasks a",
        "live 19000 a none b 0+2\n tasks a\n live 21000 a none b 0+2\n ack a\n hello a boot 3 died 2\n
         live 60000 a none b 0+2\n tasks a\n live 62000 a none b 0+2\n tasks a",
        expect![[r#"
            0: to a: ack results [(1, 2)]
            19000: a has 0 tasks
            20000: to a: offer job 1: 7=2+1
            20050: offered 1 task again to node a
            20050: to a: offer job 1: 7=2+1
            20150: offered 1 task again to node a
            20150: to a: offer job 1: 7=2+1
            20350: offered 1 task again to node a
            20350: to a: offer job 1: 7=2+1
            20750: offered 1 task again to node a
            20750: to a: offer job 1: 7=2+1
            21000: node a joined: 1 slot, boot 0000000000000003
            21000: to a: welcome epoch 1
            60000: a has 0 tasks
            61000: to a: offer job 1: 8=2+1
            61200: offered 1 task again to node a
            61200: to a: offer job 1: 8=2+1
            61600: offered 1 task again to node a
            61600: to a: offer job 1: 8=2+1
            62000: a has 1 tasks
        "#]],
    );
}

/// It went round between them for as long as the others had enough to do.
#[test]
fn what_a_node_gave_back_goes_to_another_one_at_once() {
    check_after(
        "submit 2 command units 1\n join a slots 1\n ack a\n ran a 1+1 ok\n join b slots 1",
        "return a 0+1\n tasks a\n tasks b",
        expect![[r#"
            0: to b: offer job 1: 3=0+1
            0: a has 0 tasks
            0: b has 1 tasks
        "#]],
    );
}

#[test]
fn what_a_node_gave_back_comes_to_it_again_after_a_pause_that_grows() {
    check_after(
        "submit 1 command units 1\n join a slots 1\n ack a",
        "return a 0+1\n at 900\n tasks a\n at 1000\n ack a\n return a 0+1\n at 2900\n tasks a\n at 3000\n tasks a",
        expect![[r#"
            20: to a: ack results [(1, 1)]
            900: a has 0 tasks
            1000: to a: offer job 1: 2=0+1
            1020: to a: ack results [(2, 2)]
            2900: a has 0 tasks
            3000: to a: offer job 1: 3=0+1
            3000: a has 1 tasks
        "#]],
    );
}

/// It idled, though there was enough that nobody had run yet.
#[test]
fn a_node_that_should_not_get_what_waits_gets_what_was_never_given_out() {
    check_after(
        "submit 100 command retries 1 units 1\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "ran a 0+2 exit1,exit1\n ran a 4+1 ok",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 5=4+1 6=5+1
            0: to a: ack results [(2, 2)]; offer job 1: 7=6+1
        "#]],
    );
}

/// The disk of the one is too small for it: that is no failure of the unit, nor of the node, and costs no run.
#[test]
fn a_unit_whose_files_one_node_has_no_room_for_runs_on_another_and_the_rest_goes_on() {
    check_after(
        "submit 4 command retries 0 units 4\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "ran a 0+4 ok,room,ok,ok\n ack b\n ran b 1+1 exit3\n show 1",
        expect![[r#"
            0: to b: offer job 1: 2=1+1
            0: unit 1 of job 1 failed on node b: exit 3
            0: job 1 failed
            0: job 1 is failed: done 3, out 0, waiting 0, resent tasks 1, unit 1 failed by exit 3
        "#]],
    );
}

/// Nobody has room for it: those who said so are asked again ever later, and who comes gets it at once.
#[test]
fn a_unit_whose_files_no_node_has_room_for_waits_for_one_that_has() {
    check_after(
        "submit 2 command retries 0 units 1\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "ran a 0+1 room\n again a\n ran a 1+1 ok\n ack b\n ran b 0+1 room\n show 1\n live 2000 a none b none
         ack a\n ran a 0+1 room\n show 1\n live 6000 a none b none\n ack a\n ack b\n live 20000 a 0+1 b 0+1
         ran a 0+1 room\n ran b 0+1 room\n show 1\n join c slots 1\n ack c\n ran c 0+1 ok",
        expect![[r#"
            0: to b: offer job 1: 3=0+1
            0: job 1 is running: done 1, out 0, waiting 1, duplicate 1, resent tasks 2, since unit 0 waits for a node whose disk has room for its files
            0: to a: ack results [(1, 1), (1, 2)]
            0: to b: ack results [(1, 1)]
            2000: to a: offer job 1: 4=0+1
            2000: job 1 is running: done 1, out 0, waiting 1, duplicate 1, resent tasks 3, since unit 0 waits for a node whose disk has room for its files
            2000: to a: ack results [(3, 3)]
            6000: to a: offer job 1: 5=0+1
            20000: job 1 is running: done 1, out 0, waiting 1, duplicate 2, resent tasks 4, since unit 0 waits for a node whose disk has room for its files
            20000: node c joined: 1 slot, boot 0000000000000001
            20000: to c: welcome epoch 1; offer job 1: 6=0+1
            20000: job 1 finished
        "#]],
    );
}

/// A person has made room, and the job is to go on; or a worker starts anew.
#[test]
fn what_had_no_room_is_tried_again_at_once_where_a_person_says_so_or_the_worker_is_another() {
    check_after(
        "submit 1 command retries 0 units 1\n join a slots 1\n ack a",
        "ran a 0+1 room\n resume 1\n ack a\n ran a 0+1 room\n hello a boot 2\n ack a\n ran a 0+1 ok",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 2=0+1
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1; offer job 1: 3=0+1
            0: job 1 finished
        "#]],
    );
}

/// They are busy for long: whoever has room for it.
#[test]
fn a_unit_waits_for_a_node_with_room_though_that_is_busy_for_long() {
    check_after(
        "submit 4 command retries 0 units 1\n join b slots 1 queue 1\n ack b\n join a slots 1 queue 1\n ack a",
        "ran a 2+1 room\n ran a 3+1 ok\n tasks a\n live 600000 a none b 0+2\n tasks a\n ran b 0+2 ok,ok\n ack b\n ran b 2+1 ok",
        expect![[r#"
            0: a has 0 tasks
            0: to a: ack results [(1, 2)]
            600000: a has 0 tasks
            600000: to b: ack results [(1, 1)]; offer job 1: 5=2+1
            600000: job 1 finished
        "#]],
    );
}

/// The other would have run it, and did not come to it for weeks; meanwhile the first had room again.
#[test]
fn a_unit_that_waits_for_a_node_that_never_comes_to_it_is_tried_again_where_it_had_no_room() {
    check_after(
        "submit 4 command retries 0 units 1\n join b slots 1 queue 1\n ack b\n join a slots 1 queue 1\n ack a",
        "ran a 2+1 room\n ran a 3+1 ok\n live 639000 a none b 0+2\n tasks a\n live 640000 a none b 0+2\n ack a
         tasks a\n ran a 2+1 room\n live 660000 a none b 0+2\n tasks a\n ran b 0+2 ok,ok\n ack b\n ran b 2+1 ok",
        expect![[r#"
            0: to a: ack results [(1, 2)]
            639000: a has 0 tasks
            640000: to a: offer job 1: 5=2+1
            640000: a has 1 tasks
            640000: to a: ack results [(3, 3)]
            660000: a has 0 tasks
            660000: to b: ack results [(1, 1)]; offer job 1: 6=2+1
            660000: job 1 finished
        "#]],
    );
}

/// It ran nowhere yet: it has all its runs still, and the node that had no room is not to blame for what others pass.
#[test]
fn what_a_node_has_no_room_for_takes_no_run_from_a_unit_and_makes_it_no_sick_node() {
    check_after(
        "submit 12 command retries 1 units 12\n join a slots 1\n ack a\n join b slots 1\n ack b
         ran a 0+12 room,room,room,room,room,room,room,ok,ok,ok,ok,ok\n ack b",
        "ran b 0+1 exit3\n ack b\n ran b 0+1 ok\n ack b\n ran b 1+1 ok\n ack b\n ran b 2+1 ok\n ack b\n ran b 3+1 ok
         ack b\n ran b 4+1 ok\n ack b\n ran b 5+1 ok\n ack b\n ran b 6+1 ok\n show 1\n nodes",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 4=0+1
            0: to b: ack results [(2, 2)]; offer job 1: 5=2+1
            0: to b: ack results [(3, 3)]; offer job 1: 6=3+1
            0: to b: ack results [(4, 4)]; offer job 1: 7=4+1
            0: to b: ack results [(5, 5)]; offer job 1: 8=5+1
            0: to b: ack results [(6, 6)]; offer job 1: 9=6+1
            0: job 1 finished
            0: job 1 is finished: done 12, out 0, waiting 0, resent tasks 7
            0: a up, b up
        "#]],
    );
}

/// Its answer was lost, and it was quarantined for units that it was not given: it had been.
#[test]
fn what_had_no_room_may_be_said_again_however_often() {
    check_after(
        "submit 8 command retries 0 units 4\n join a slots 1\n ack a\n join b slots 1\n ack b",
        "ran a 0+4 ok,room,ok,ok\n again a\n again a\n again a\n again a\n again a\n again a\n nodes",
        expect![[r#"
            0: to b: offer job 1: 3=1+1
            0: a up, b up
        "#]],
    );
}

/// Memory grew with each unit of the job, and it was never doubted.
#[test]
fn a_node_that_has_no_room_for_any_unit_of_a_large_job_refuses_it_and_is_asked_ever_later() {
    let mut bench = Bench::new(config());
    bench.run("submit 2000 command retries 0 units 2000\n join a slots 1\n ack a");
    let says = vec!["room"; 50].join(",");
    let all: Vec<_> = (0..2_000).step_by(50).map(|lo| format!("ran a {lo}+50 {says}")).collect();
    let mut story = bench.run(&all.join("\n"));
    story += &bench.run("live 9000 a none\n tasks a\n live 10000 a none\n ack a\n tasks a\n show 1");
    expect![[r#"
        0: node a refused job 1: of 1024 units and more: its files have no room there
        0: to a: ack results [(1, 40)]
        9000: a has 0 tasks
        10000: to a: offer job 1: 2=0+1
        10000: a has 1 tasks
        10000: job 1 is running: done 0, out 1, waiting 1999, resent tasks 1044, refused by a: of 1024 units and more: its files have no room there
    "#]].assert_eq(&story);
}
