//! Units whose outputs are lost and that run again, told as scripts: each counts once all the while, also through a
//! restart and a checkpoint. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{check, check_after};
use expect_test::expect;

#[test]
fn a_finished_job_goes_on_with_the_units_whose_outputs_are_lost_and_ends_again() {
    check(
        "submit 6 command retries 0 units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok\n ran a 2+2 ok,ok\n ack a
         ran a 4+2 ok,ok\n at 100\n show 1\n rerun 1 1+3\n show 1\n ack a\n at 200\n show 1\n ran a 1+3 ok,ok,ok
         at 300\n show 1",
        expect![[r#"
            0: job 1 submitted: 6 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+2 2=2+2
            0: to a: ack results [(1, 1)]; offer job 1: 3=4+2
            0: job 1 finished
            20: to a: ack results [(2, 3)]
            100: job 1 is finished: done 6, out 0, waiting 0
            100: rerun: Ok(3)
            100: job 1 queued
            100: job 1 running
            100: to a: offer job 1: 4=1+2 5=3+1
            100: job 1 is running: done 3, out 3, waiting 0
            200: job 1 is running: done 3, out 3, waiting 0
            200: job 1 finished
            220: to a: ack results [(4, 4)]
            300: job 1 is finished: done 6, out 0, waiting 0
        "#]],
    );
}

#[test]
fn units_that_are_wanted_again_are_so_after_a_restart() {
    check_after(
        "submit 4 command retries 0 units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok\n ran a 2+2 ok,exit3\n at 100
         rerun 1 1+3\n show 1",
        "restart\n show 1\n hello a\n beat a none\n at 200\n ack a\n ran a 1+1 ok\n ran a 2+2 ok,ok\n at 300\n show 1",
        expect![[r#"
            100: job 1 is running: done 1, out 3, waiting 0
            100: node a is back
            100: to a: welcome epoch 2
            100: to a: answer 1
            100: to a: offer job 1: 1099511627777=1+2 1099511627778=3+1
            200: job 1 finished
            220: to a: ack results [(3, 4)]
            300: job 1 is finished: done 4, out 0, waiting 0, resent tasks 1
        "#]],
    );
}

/// A result of the first run comes late: it has the output that is wanted.
#[test]
fn a_late_result_of_the_first_run_is_as_good_as_a_new_one() {
    check(
        "submit 2 command retries 0 units 2\n join a slots 1\n ack a\n ran a 0+2 ok,ok\n at 100\n rerun 1 0+2\n again a
         at 200\n show 1",
        expect![[r#"
            0: job 1 submitted: 2 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+2
            0: job 1 finished
            20: to a: ack results [(1, 1)]
            100: rerun: Ok(2)
            100: job 1 queued
            100: job 1 running
            100: to a: offer job 1: 2=0+2
            100: job 1 finished
            120: to a: ack results [(1, 1)]
            200: job 1 is finished: done 2, out 0, waiting 0
        "#]],
    );
}

#[test]
fn what_cannot_run_again_is_refused() {
    check(
        "submit 4 command retries 0 units 2\n submit 4 search 1 targets never units 2\n join a slots 1\n ack a
         rerun 1 0+2\n rerun 2 0+2\n rerun 3 0+2\n cancel 1\n rerun 1 0+4",
        expect![[r#"
            0: job 1 submitted: 4 units
            0: job 2 submitted: 4 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+2 2=2+2
            0: rerun: Err(Conflict(NoLostOutput))
            0: rerun: Err(Conflict(NoOutputs))
            0: rerun: Err(NotFound)
            0: job 1 cancelled
            0: job 2 running
            0: to a: withdraw job 1 kill before 3; offer job 2: 3=0+2 4=2+2
            0: rerun: Err(Conflict(EndedForGood(Cancelled)))
        "#]],
    );
}
