//! A node that is known to be sick, told as scripts: its probes, and what it was given before. How it is found out is
//! in `blame`. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::check_after;
use expect_test::expect;

#[test]
fn a_node_that_was_sick_gets_work_again_when_a_probe_passes() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b
         ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5
         at 50",
        "live 9900 b none a none\n tasks a\n live 10100 b none a none\n tasks a\n nodes\n ack a
         ran a 0+5 ok,ok,ok,ok,ok\n nodes",
        expect![[r#"
            9900: a has 0 tasks
            10000: to a: offer job 1: 6=0+1
            10050: offered 1 task again to node a
            10050: to a: offer job 1: 6=0+1
            10100: a has 1 tasks
            10100: a quarantined (failed 5 of 5 units of job 1 that others pass), b up
            10100: to a: ack results [(3, 3)]; offer job 1: 7=5+5 8=25+5
            10100: a up, b up
        "#]],
    );
}

#[test]
fn a_probe_that_fails_makes_the_pause_longer() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b
         ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5
         at 50",
        "live 10100 b none a none\n tasks a\n ack a\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n show 1
         live 20200 b none a none\n tasks a\n nodes\n live 30200 b none a none\n tasks a",
        expect![[r#"
            10000: to a: offer job 1: 6=0+1
            10050: offered 1 task again to node a
            10050: to a: offer job 1: 6=0+1
            10100: a has 1 tasks
            10100: to a: ack results [(3, 3)]; withdraw job 1 trim before 7
            10100: job 1 is running: done 5, out 10, waiting 85, resent tasks 1
            20200: a has 0 tasks
            20200: a quarantined (failed 5 of 5 units of job 1 that others pass), b up
            30000: to a: offer job 1: 7=5+5
            30050: offered 1 task again to node a
            30050: to a: offer job 1: 7=5+5
            30150: offered 1 task again to node a
            30150: to a: offer job 1: 7=5+5
            30200: a has 1 tasks
        "#]],
    );
}

/// It was quarantined for each five of what it was given before, and the pause had grown to 40 s by then.
#[test]
fn a_sick_node_that_fails_what_it_was_given_before_is_quarantined_once() {
    check_after(
        "submit 100 command units 10 max-failures never\n join b slots 1\n ack b\n ran b 0+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok
         join a slots 2\n ack a",
        "tasks a\n ran a 30+10 exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1\n
         ran a 40+10 exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1,exit1\n
         return a 50+20\n nodes\n ack b\n live 9900 a none b 10+20\n tasks a\n live 10000 a none b 10+20\n tasks a",
        expect![[r#"
            0: a has 4 tasks
            0: unit 30 of job 1 failed on node a: exit 1
            0: unit 31 of job 1 failed on node a: exit 1
            0: unit 32 of job 1 failed on node a: exit 1
            0: unit 33 of job 1 failed on node a: exit 1
            0: unit 34 of job 1 failed on node a: exit 1
            0: unit 35 of job 1 failed on node a: exit 1
            0: unit 36 of job 1 failed on node a: exit 1
            0: unit 37 of job 1 failed on node a: exit 1
            0: unit 38 of job 1 failed on node a: exit 1
            0: unit 39 of job 1 failed on node a: exit 1
            0: node a quarantined: failed 10 of 10 units of job 1 that others pass
            0: to a: ack results [(1, 1)]; withdraw job 1 trim before 8
            0: to a: ack results [(2, 2)]; withdraw job 1 trim before 8
            0: a quarantined (failed 10 of 10 units of job 1 that others pass), b up
            0: to a: ack results [(3, 3)]
            9900: a has 0 tasks
            10000: to a: offer job 1: 8=30+1
            10000: a has 1 tasks
        "#]],
    );
}
