//! What comes back from a node goes to another one first, told as scripts: that is a preference, with an end.
//! Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::check_after;
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
