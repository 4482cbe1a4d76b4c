//! A node that is sick, told as scripts: how it is found out, its probes, and what it was given before. Times in the
//! stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{A_IS_SICK, Bench, check_after, config};
use expect_test::expect;
use starfarm_protocol::limits::NODE_TASKS_MAX;

/// Neighbours may be bad inputs. So it has to show at once what it does elsewhere.
#[test]
fn a_node_that_fails_in_three_places_where_others_pass_gets_probes_and_what_it_failed_goes_to_others() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+4 exit1,exit1,exit1,exit1\n ran a 4+1 exit1\n return a 5+5\n ack a
         ran a 25+1 exit1\n ran b 15+5 ok,ok,ok,ok,ok\n ran b 20+5 ok,ok,ok,ok,ok\n ack b\n ran b 26+5 ok,ok,ok,ok,ok
         ack a\n nodes\n ran a 31+1 exit1\n nodes\n show 1\n ack b\n ran b 5+5 ok,ok,ok,ok,ok\n tasks a",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=20+5
            0: unit 0 of job 1 failed on node a: exit 1
            0: unit 1 of job 1 failed on node a: exit 1
            0: unit 2 of job 1 failed on node a: exit 1
            0: unit 3 of job 1 failed on node a: exit 1
            0: unit 4 of job 1 failed on node a: exit 1
            0: to a: ack results [(1, 2)]; withdraw job 1 trim before 6
            0: to a: ack results [(3, 3)]; offer job 1: 6=25+1
            0: unit 25 of job 1 failed on node a: exit 1
            0: to b: ack results [(2, 2)]; offer job 1: 7=5+5
            0: to b: ack results [(3, 3)]; offer job 1: 8=26+5
            0: to a: ack results [(4, 4)]; offer job 1: 9=31+1
            0: to b: ack results [(4, 4)]; offer job 1: 10=32+5
            0: a up, b up
            0: unit 31 of job 1 failed on node a: exit 1
            0: node a quarantined: failed the last 7 units of job 1 that it ran, and others pass
            0: to a: ack results [(5, 5)]; withdraw job 1 trim before 11
            0: a quarantined (failed the last 7 units of job 1 that it ran, and others pass), b up
            0: job 1 is running: done 20, out 10, waiting 70, resent tasks 1
            0: to b: ack results [(5, 5)]; offer job 1: 11=0+1
            0: a has 0 tasks
        "#]],
    );
}

/// It was given a block of inputs on which the program always fails, and is well.
#[test]
fn a_node_that_fails_neighbours_and_passes_elsewhere_goes_on() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b",
        "ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5\n ack a
         ran a 25+1 ok\n ack a\n ran b 15+5 ok,ok,ok,ok,ok\n at 1000\n ack a\n ack b\n nodes
         ran b 5+5 exit1,exit1,exit1,exit1,exit1\n nodes",
        expect![[r#"
            0: to b: ack results [(1, 1)]; offer job 1: 5=20+5
            0: unit 0 of job 1 failed on node a: exit 1
            0: unit 1 of job 1 failed on node a: exit 1
            0: unit 2 of job 1 failed on node a: exit 1
            0: unit 3 of job 1 failed on node a: exit 1
            0: unit 4 of job 1 failed on node a: exit 1
            0: to a: ack results [(1, 1)]; withdraw job 1 trim before 6
            0: to a: ack results [(2, 2)]; offer job 1: 6=25+1
            0: to a: ack results [(3, 3)]; offer job 1: 7=26+5 8=31+5
            0: to b: ack results [(2, 2)]; offer job 1: 9=5+5
            50: offered 1 task again to node b
            50: to b: offer job 1: 9=5+5
            150: offered 1 task again to node b
            150: to b: offer job 1: 9=5+5
            350: offered 1 task again to node b
            350: to b: offer job 1: 9=5+5
            750: offered 1 task again to node b
            750: to b: offer job 1: 9=5+5
            1000: a up, b up
            1000: unit 5 of job 1 failed on node b: exit 1
            1000: unit 6 of job 1 failed on node b: exit 1
            1000: unit 7 of job 1 failed on node b: exit 1
            1000: unit 8 of job 1 failed on node b: exit 1
            1000: unit 9 of job 1 failed on node b: exit 1
            1000: to b: ack results [(3, 3)]; offer job 1: 10=36+5
            1000: a up, b up
        "#]],
    );
}

/// All healthy nodes ended in quarantine: what had failed for good came first, and each of them had five of it.
#[test]
fn what_a_person_wanted_again_and_fails_again_says_nothing_of_its_node() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 1\n join b slots 1\n ack a\n ack b
         ran a 0+5 exit1,ok,exit1,ok,exit1\n ran b 10+5 ok,ok,ok,ok,ok\n ack b\n ran b 15+5 ok,ok,ok,ok,ok\n ack b",
        "retry 1\n ran a 5+5 exit1,ok,exit1,ok,exit1\n ack a\n tasks a\n tasks b\n ran a 0+1 exit1\n ack a\n ran a 2+1 exit1\n ack a\n ran a 4+1 exit1\n ack a\n nodes
         ran b 20+5 ok,ok,ok,ok,ok\n nodes",
        expect![[r#"
            0: unit 5 of job 1 failed on node a: exit 1
            0: unit 7 of job 1 failed on node a: exit 1
            0: unit 9 of job 1 failed on node a: exit 1
            0: to a: ack results [(2, 2)]; offer job 1: 8=0+1
            0: a has 2 tasks
            0: b has 2 tasks
            0: unit 0 of job 1 failed on node a: exit 1
            0: to a: ack results [(3, 3)]; offer job 1: 9=2+1
            0: unit 2 of job 1 failed on node a: exit 1
            0: to a: ack results [(4, 4)]; offer job 1: 10=4+1
            0: unit 4 of job 1 failed on node a: exit 1
            0: to a: ack results [(5, 5)]; offer job 1: 11=35+5
            0: a up, b up
            0: a up, b up
        "#]],
    );
}

#[test]
fn never_more_than_half_of_the_nodes_are_quarantined_for_a_job() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command retries 1 units 5 max-failures never\n join a slots 1\n join b slots 1\n join c slots 1");
    let passes = |units: std::ops::Range<u32>| {
        units.map(|unit| format!("ack c\n ran c {unit}+1 ok\n")).collect::<String>()
    };
    let one = format!(
        "ran a 0+5 exit1,exit1,exit1,exit1,exit1\n ack c\n ran c 20+5 ok,ok,ok,ok,ok\n {} nodes",
        passes(0..5)
    );
    let two = format!(
        "ran b 10+5 exit1,exit1,exit1,exit1,exit1\n ran c 25+5 ok,ok,ok,ok,ok\n {} nodes",
        passes(10..15)
    );
    bench.run("ack a\n ack b\n ack c");
    // One that refuses the job could not take over from anybody.
    bench.run("join d slots 1\n ack d\n refuse d 15+5 no-such-program\n ack d");
    let told = bench.run(&one) + &bench.run(&two) + &bench.run("bye d\n bye c\n nodes\n bye b\n nodes");
    let told: String =
        told.lines().filter(|line| !line.contains("to ")).map(|line| format!("{line}\n")).collect();
    expect![[r#"
        0: node a quarantined: failed 5 units of job 1 that others pass
        0: a quarantined (failed 5 units of job 1 that others pass), b up, c up, d up
        0: a quarantined (failed 5 units of job 1 that others pass), b up, c up, d up
        0: node d left
        0: node c left
        0: a quarantined (failed 5 units of job 1 that others pass), b up, c lost, d lost
        0: node b left
        0: a up, b lost, c lost, d lost
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_node_that_was_sick_gets_work_again_when_a_probe_passes() {
    check_after(
        &format!("{A_IS_SICK}\n ack b\n at 50"),
        "live 9900 b none a none\n tasks a\n live 10100 b none a none\n tasks a\n nodes\n ack a
         ran a 0+1 ok\n nodes",
        expect![[r#"
            9900: a has 0 tasks
            10000: to a: offer job 1: 11=0+1
            10050: offered 1 task again to node a
            10050: to a: offer job 1: 11=0+1
            10100: a has 1 tasks
            10100: a quarantined (failed the last 7 units of job 1 that it ran, and others pass), b up
            10100: to a: ack results [(5, 5)]; offer job 1: 12=1+1 13=2+1
            10100: a up, b up
        "#]],
    );
}

#[test]
fn a_probe_that_fails_makes_the_pause_longer() {
    check_after(
        &format!("{A_IS_SICK}\n ack b\n at 50"),
        "live 10100 b none a none\n tasks a\n ack a\n ran a 0+1 exit1\n show 1
         live 20200 b none a none\n tasks a\n nodes\n live 30200 b none a none\n tasks a",
        expect![[r#"
            10000: to a: offer job 1: 11=0+1
            10050: offered 1 task again to node a
            10050: to a: offer job 1: 11=0+1
            10100: a has 1 tasks
            10100: job 1 is running: done 20, out 10, waiting 70, resent tasks 1
            10100: to a: ack results [(5, 5)]
            20200: a has 0 tasks
            20200: a quarantined (failed the last 7 units of job 1 that it ran, and others pass), b up
            30000: to a: offer job 1: 12=1+1
            30050: offered 1 task again to node a
            30050: to a: offer job 1: 12=1+1
            30150: offered 1 task again to node a
            30150: to a: offer job 1: 12=1+1
            30200: a has 1 tasks
        "#]],
    );
}

/// It was quarantined for each five of what it was given before, and the pause had grown to 40 s by then.
#[test]
fn a_sick_node_that_fails_what_it_was_given_before_is_quarantined_once() {
    check_after(
        "submit 100 command units 5 max-failures never\n join a slots 2\n join b slots 1\n ack a\n ack b
         ran b 20+5 ok,ok,ok,ok,ok\n ack b\n ran a 0+5 exit1,exit1,exit1,exit1,exit1\n return a 5+5
         ran b 25+5 ok,ok,ok,ok,ok\n ack b\n ran b 5+5 ok,ok,ok,ok,ok\n ack b
         ran a 15+5 exit1,exit1,exit1,exit1,exit1\n ack a\n ran b 30+5 ok,ok,ok,ok,ok\n ack b",
        "ran a 40+1 exit1\n nodes\n ran a 10+5 exit1,exit1,exit1,exit1,exit1\n nodes\n ack b
         live 9900 a none b none\n tasks a\n live 10000 a none b none\n tasks a",
        expect![[r#"
            0: unit 40 of job 1 failed on node a: exit 1
            0: node a quarantined: failed the last 11 units of job 1 that it ran, and others pass
            0: to a: ack results [(4, 4)]; withdraw job 1 trim before 12
            0: a quarantined (failed the last 11 units of job 1 that it ran, and others pass), b up
            0: a quarantined (failed the last 11 units of job 1 that it ran, and others pass), b up
            0: to a: ack results [(5, 5)]
            9900: a has 0 tasks
            10000: to a: offer job 1: 12=0+1
            10000: a has 1 tasks
        "#]],
    );
}

/// A unit that passed lifted it each time, however many results that could not count came beside.
#[test]
fn a_node_whose_results_cannot_count_shows_with_a_probe_that_it_is_well_whatever_it_runs() {
    check_after(
        "submit 200 command units 1\n join a slots 16\n join b slots 1\n ack a\n ack b",
        "done a 0+1 body 01\n done a 1+1 body 01\n done a 2+1 body 01\n done a 3+1 body 01\n done a 4+1 body 01\n nodes
         ran a 5+1 ok\n nodes\n done a 6+1 body 01\n ran a 7+1 ok\n nodes\n ack a\n at +10001\n ran a 8+1 ok\n nodes",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 20=19+1
            0: to a: ack results [(2, 2)]; offer job 1: 21=20+1
            0: to a: ack results [(3, 3)]; offer job 1: 22=21+1
            0: to a: ack results [(4, 4)]; offer job 1: 23=22+1
            0: node a quarantined: sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit
            0: to a: ack results [(5, 5)]; withdraw job 1 trim before 24
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit), b up
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit), b up
            0: a quarantined (sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit), b up
            20: to a: ack results [(6, 8)]
            5000: node a suspect: no heartbeat
            5000: node b suspect: no heartbeat
            10001: node a is back
            10001: to a: ack results [(9, 9)]; offer job 1: 24=0+1 25=1+1 26=2+1 27=3+1 28=4+1
            10001: a up, b suspect
        "#]],
    );
}

#[test]
fn a_node_that_a_person_takes_for_repaired_begins_anew() {
    check_after(
        "submit 200 command units 1\n join a slots 16\n join b slots 1\n ack a\n ack b",
        "done a 0+1 body 01\n done a 1+1 body 01\n done a 2+1 body 01\n done a 3+1 body 01\n done a 4+1 body 01
         done a 5+1 body 01\n undrain a\n ack a\n ran a 6+1 ok\n done a 7+1 body 01\n nodes",
        expect![[r#"
            0: to a: ack results [(1, 1)]; offer job 1: 20=19+1
            0: to a: ack results [(2, 2)]; offer job 1: 21=20+1
            0: to a: ack results [(3, 3)]; offer job 1: 22=21+1
            0: to a: ack results [(4, 4)]; offer job 1: 23=22+1
            0: node a quarantined: sent 5 results of job 1 that cannot count, the last with a body of 1 byte for 1 unit
            0: to a: ack results [(5, 5)]; withdraw job 1 trim before 24
            0: node a resumed
            0: to a: ack results [(6, 6)]; offer job 1: 24=0+1 25=1+1
            0: to a: ack results [(7, 7)]; offer job 1: 26=2+1
            0: to a: ack results [(8, 8)]; offer job 1: 27=3+1
            0: a up, b up
        "#]],
    );
}

/// A node whose device flaps fills no log, and yet the log says in the end how its devices do.
#[test]
fn what_the_log_had_no_room_for_is_logged_with_a_later_heartbeat() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1");
    // As many lines as a node may have at once, and one more.
    let flaps = (0..=NODE_TASKS_MAX).map(|flap| format!("devices a 2 sick {}", flap % 2));
    let last = flaps.map(|flap| bench.run(&flap)).filter(|story| !story.is_empty()).last();
    expect![[r#"
        0: node a has 2 devices  (accelerator), 1 of them sick: tried again later
    "#]]
    .assert_eq(&last.unwrap());
    let story = bench.run("at 1000\n devices a 2 sick 0\n devices a 2 sick 0");
    expect![[r#"
        1000: node a has 2 devices  (accelerator)
    "#]]
    .assert_eq(&story);
}
