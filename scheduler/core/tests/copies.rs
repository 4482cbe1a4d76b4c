//! Copies near the end of a job, told as scripts: who gets one, whose result counts, and what becomes of the other.
//! Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::check_after;
use expect_test::expect;

#[test]
fn an_idle_node_gets_a_copy_of_what_takes_too_long_and_the_first_result_counts() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1",
        "live 1900 a 0+10 b none\n show 1\n at 2100\n beat a 0+10\n beat b none\n ack b\n show 1
         tasks b\n done b 0+10 hits 3:1\n show 1\n at 2150\n show 1",
        expect![[r#"
            1900: job 1 is running: done 20, out 10, waiting 0, resent tasks 1
            2100: to a: answer 3
            2100: copy of [0, 10) of job 1 to node b
            2100: to b: answer 2; offer job 1: 5=0+10
            2100: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            2100: b has 1 tasks
            2100: hit in job 1: unit 3, target 1
            2100: job 1 finished
            2100: to a: withdraw job 1 kill before 6
            2100: to b: ack results [(2, 2)]; withdraw job 1 kill before 6
            2100: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1, hits [(3, 1)]
            2150: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1, hits [(3, 1)]
        "#]],
    );
}

#[test]
fn the_one_who_was_first_may_still_be_first_and_the_copy_is_let_go() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "beat b 0+10\n done a 0+10 hits 3:1\n at 2150\n show 1\n done b 0+10 hits 3:1\n show 1",
        expect![[r#"
            2100: to b: answer 3
            2100: hit in job 1: unit 3, target 1
            2100: job 1 finished
            2100: to b: withdraw job 1 kill before 6
            2120: to a: ack results [(3, 3)]
            2150: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1, hits [(3, 1)]
            2150: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1, hits [(3, 1)]
        "#]],
    );
}

#[test]
fn there_is_one_copy_of_a_task_however_many_idle() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1",
        "join c slots 1\n live 2050 a 0+10 b none c none\n ack b\n live 5000 a 0+10 b 0+10 c none
         show 1\n tasks b\n tasks c",
        expect![[r#"
            20: node c joined: 1 slot, boot 0000000000000001
            20: to c: welcome epoch 1
            2020: copy of [0, 10) of job 1 to node b
            2020: to b: offer job 1: 5=0+10
            5000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            5000: b has 1 tasks
            5000: c has 0 tasks
        "#]],
    );
}

#[test]
fn who_is_no_faster_than_the_other_gets_no_copy() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10 ms 20000\n ack a\n done a 20+10 ms 20000\n at 20",
        "live 9000 a 0+10 b none\n show 1\n tasks b",
        expect![[r#"
            9000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1
            9000: b has 0 tasks
        "#]],
    );
}

#[test]
fn without_a_word_of_it_there_are_no_copies() {
    check_after(
        "submit 3 command units 1\n join a slots 1\n ack a\n return a 1+1\n join b slots 1\n ack b
         ran b 1+1 ok\n ack a\n ran a 2+1 ok\n at 20",
        "live 60000 a 0+1/0 b none\n show 1\n tasks b",
        expect![[r#"
            60000: job 1 is running: done 2, out 1, waiting 0, resent tasks 1
            60000: b has 0 tasks
        "#]],
    );
}

#[test]
fn of_a_task_that_is_done_in_part_the_rest_is_copied() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1\n done a 0+4",
        "ack b\n live 9000 a 4+6 b 4+6\n done b 4+6\n show 1",
        expect![[r#"
            20: to a: ack results [(3, 3)]
            2020: copy of [4, 10) of job 1 to node b
            2020: to b: offer job 1: 5=4+6
            2070: offered 1 task again to node b
            2070: to b: offer job 1: 5=4+6
            2170: offered 1 task again to node b
            2170: to b: offer job 1: 5=4+6
            2370: offered 1 task again to node b
            2370: to b: offer job 1: 5=4+6
            2770: offered 1 task again to node b
            2770: to b: offer job 1: 5=4+6
            3570: offered 1 task again to node b
            3570: to b: offer job 1: 5=4+6
            5170: offered 1 task again to node b
            5170: to b: offer job 1: 5=4+6
            7170: offered 1 task again to node b
            7170: to b: offer job 1: 5=4+6
            9000: job 1 finished
            9000: to a: withdraw job 1 kill before 6
            9000: to b: ack results [(2, 2)]; withdraw job 1 kill before 6
            9000: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1
        "#]],
    );
}

#[test]
fn where_the_first_node_is_lost_its_task_is_wanted_again_and_the_copy_may_be_first() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "live 17050 b 0+10\n nodes\n show 1\n tasks b\n done b 0+10\n at 17600\n show 1",
        expect![[r#"
            7020: node a suspect: no heartbeat
            17020: node a lost: 1 task back to gq
            17020: to b: offer job 1: 6=0+10
            17050: a lost, b up
            17050: job 1 is running: done 20, out 10, waiting 0, resent tasks 2, copies 1
            17050: b has 2 tasks
            17050: job 1 finished
            17050: to b: ack results [(2, 2)]; withdraw job 1 kill before 7
            17600: job 1 is finished: done 30, out 0, waiting 0, resent tasks 2, copies 1
        "#]],
    );
}

#[test]
fn where_the_copys_node_is_lost_the_first_goes_on() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "live 18500 a 0+10\n nodes\n show 1\n done a 0+10\n show 1",
        expect![[r#"
            7100: node b suspect: no heartbeat
            17100: node b lost: 0 tasks back to gq
            18500: a up, b lost
            18500: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            18500: job 1 finished
            18500: job 1 is finished: done 30, out 0, waiting 0, resent tasks 1, copies 1
        "#]],
    );
}

#[test]
fn a_copy_that_is_given_back_is_forgotten_and_another_may_be_made() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "return b 0+10\n show 1\n at 2150\n show 1\n tasks b",
        expect![[r#"
            2100: copy of [0, 10) of job 1 to node b
            2100: to b: ack results [(2, 2)]; offer job 1: 6=0+10
            2100: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 2
            2150: offered 1 task again to node b
            2150: to b: offer job 1: 6=0+10
            2150: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 2
            2150: b has 1 tasks
        "#]],
    );
}

#[test]
fn a_copy_that_its_node_no_longer_lists_expires_alone() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "live 80000 a 0+10 b none\n show 1\n live 86000 a 0+10 b none\n show 1\n nodes",
        expect![[r#"
            80000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            84000: task [0, 10) of job 1 expired on node b
            86000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            86000: a up, b quarantined
        "#]],
    );
}

#[test]
fn a_copy_is_not_kept_alive_by_an_interval_that_begins_where_it_ends() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "live 80000 a 0+10 b 10+10\n show 1\n live 86000 a 0+10 b 10+10\n show 1",
        expect![[r#"
            80000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
            84000: task [0, 10) of job 1 expired on node b
            86000: job 1 is running: done 20, out 10, waiting 0, resent tasks 1, copies 1
        "#]],
    );
}

#[test]
fn where_the_first_gives_its_task_back_the_copy_may_be_first() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "return a 0+10\n show 1\n tasks a\n tasks b\n done b 0+10\n show 1",
        expect![[r#"
            2100: to b: offer job 1: 6=0+10
            2100: job 1 is running: done 20, out 10, waiting 0, resent tasks 2, copies 1
            2100: a has 0 tasks
            2100: b has 2 tasks
            2100: job 1 finished
            2100: to b: ack results [(2, 2)]; withdraw job 1 kill before 7
            2100: job 1 is finished: done 30, out 0, waiting 0, resent tasks 2, copies 1
        "#]],
    );
}

#[test]
fn with_the_job_both_are_let_go() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "cancel 1\n tasks a\n tasks b\n show 1",
        expect![[r#"
            2100: job 1 cancelled
            2100: to a: withdraw job 1 kill before 6
            2100: to b: withdraw job 1 kill before 6
            2100: a has 0 tasks
            2100: b has 0 tasks
            2100: job 1 is cancelled: done 20, out 0, waiting 0, abandoned 10, resent tasks 1, copies 1
        "#]],
    );
}

#[test]
fn a_paused_job_takes_its_copies_back_too() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "pause 1\n beat b 0+10\n return b 0+10\n show 1\n return a 0+10\n at 2200\n show 1",
        expect![[r#"
            2100: job 1 paused
            2100: to a: withdraw job 1 trim before 6
            2100: to b: withdraw job 1 trim before 6
            2100: to b: answer 3
            2100: job 1 is paused: done 20, out 10, waiting 0, resent tasks 1, copies 1
            2120: to a: ack results [(3, 3)]
            2120: to b: ack results [(2, 2)]
            2200: job 1 is paused: done 20, out 0, waiting 10, resent tasks 2, copies 1
        "#]],
    );
}

#[test]
fn after_a_restart_who_speaks_first_owns_and_the_other_one_may_still_be_first() {
    check_after(
        "submit 30 search 9 targets never units 10 copies\n join a slots 1\n ack a\n return a 10+10
         join b slots 1\n ack b\n done b 10+10\n ack a\n done a 20+10\n beat a 0+10\n at 20\n show 1
         live 2100 a 0+10 b none\n ack b",
        "restart\n hello b\n beat b 0+10\n hello a\n beat a 0+10\n at 2101\n tasks a\n tasks b
         done a 0+10\n show 1\n done b 0+10\n show 1",
        expect![[r#"
            2100: node b is back
            2100: to b: welcome epoch 2
            2100: to b: answer 3
            2100: node a is back
            2100: to a: welcome epoch 2
            2100: to a: answer 4
            2101: a has 0 tasks
            2101: b has 1 tasks
            2101: job 1 finished
            2101: job 1 is finished: done 30, out 0, waiting 0
            2101: job 1 is finished: done 30, out 0, waiting 0
        "#]],
    );
}
