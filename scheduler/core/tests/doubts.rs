//! Nodes of which the monitoring tree hears nothing: the farm believes that where it hears nothing of them either, and sooner
//! than it would for its own silence alone. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config};
use expect_test::expect;

/// Two nodes beat until then, and node a holds a task.
const THREE: &str = "submit 10 units 10\n join a slots 1\n join b slots 1\n join c slots 1\n ack a";

#[test]
fn a_node_that_two_witnesses_do_not_hear_is_lost_after_five_seconds() {
    check_after(
        THREE,
        "live 5000 b none c none\n doubt a\n nodes\n live 5100 b none c none\n nodes",
        expect![[r#"
            5000: node a suspect: no heartbeat
            5000: a suspect, b up, c up
            5000: node a lost: 1 task back to gq
            5000: to b: offer job 1: 2=0+10
            5100: a lost, b up, c up
        "#]],
    );
}

#[test]
fn one_that_is_heard_is_not_believed_to_be_gone() {
    check_after(
        THREE,
        "live 9000 a 0+10 b none c none\n doubt a\n nodes\n live 20000 a 0+10 b none c none\n nodes
         at 30000\n nodes",
        expect![[r#"
            9000: a up, b up, c up
            20000: a up, b up, c up
            24000: node a suspect: no heartbeat
            24000: node b suspect: no heartbeat
            24000: node c suspect: no heartbeat
            30000: a suspect, b suspect, c suspect
        "#]],
    );
}

#[test]
fn one_that_was_heard_just_before_is_suspect_once_two_heartbeats_are_missing() {
    check_after(
        THREE,
        "live 4000 a 0+10 b none c none\n doubt a\n live 5900 b none c none\n nodes\n live 8000 b none c none
         nodes\n live 9100 b none c none\n nodes\n session a\n hello a\n nodes",
        expect![[r#"
            4000: node a suspect: no heartbeat
            5900: a suspect, b up, c up
            7000: node a lost: 1 task back to gq
            7000: to b: offer job 1: 2=0+10
            7200: offered 1 task again to node b
            7200: to b: offer job 1: 2=0+10
            7600: offered 1 task again to node b
            7600: to b: offer job 1: 2=0+10
            8000: a lost, b up, c up
            8400: offered 1 task again to node b
            8400: to b: offer job 1: 2=0+10
            9100: a lost, b up, c up
            9100: node a is back
            9100: to a: welcome epoch 1
            9100: to a: welcome epoch 1
            9100: a up, b up, c up
        "#]],
    );
}

/// A switch that starts anew, or the scheduler's own cable.
#[test]
fn where_most_are_silent_at_once_nobody_is_lost_sooner_than_for_the_farms_own_silence() {
    check_after(
        THREE,
        "at 5000\n doubt a b c\n nodes\n at 14999\n nodes\n at 15000\n nodes",
        expect![[r#"
            5000: node a suspect: no heartbeat
            5000: node b suspect: no heartbeat
            5000: node c suspect: no heartbeat
            5000: a suspect, b suspect, c suspect
            14999: a suspect, b suspect, c suspect
            15000: node a lost: 1 task back to gq
            15000: node b lost: 0 tasks back to gq
            15000: node c lost: 0 tasks back to gq
            15000: a lost, b lost, c lost
        "#]],
    );
}

#[test]
fn a_farm_of_one_node_waits_as_long_as_ever() {
    check_after(
        "submit 10 units 10\n join a slots 1\n ack a",
        "at 5000\n doubt a\n nodes\n at 14999\n nodes\n at 15000",
        expect![[r#"
            5000: node a suspect: no heartbeat
            5000: a suspect
            14999: a suspect
            15000: node a lost: 1 task back to gq
        "#]],
    );
}

/// What is doubted is of a node, not of its name: whoever has left, or was never there, is not lost.
#[test]
fn whoever_is_not_there_cannot_be_doubted() {
    check_after(
        THREE,
        "bye a\n doubt a nobody\n live 20000 b none c none\n nodes",
        expect![[r#"
        0: node a left
        0: to b: offer job 1: 2=0+10
        200: offered 1 task again to node b
        200: to b: offer job 1: 2=0+10
        600: offered 1 task again to node b
        600: to b: offer job 1: 2=0+10
        1400: offered 1 task again to node b
        1400: to b: offer job 1: 2=0+10
        3000: offered 1 task again to node b
        3000: to b: offer job 1: 2=0+10
        5000: offered 1 task again to node b
        5000: to b: offer job 1: 2=0+10
        7000: offered 1 task again to node b
        7000: to b: offer job 1: 2=0+10
        9000: offered 1 task again to node b
        9000: to b: offer job 1: 2=0+10
        11000: offered 1 task again to node b
        11000: to b: offer job 1: 2=0+10
        13000: offered 1 task again to node b
        13000: to b: offer job 1: 2=0+10
        15000: offered 1 task again to node b
        15000: to b: offer job 1: 2=0+10
        17000: offered 1 task again to node b
        17000: to b: offer job 1: 2=0+10
        19000: offered 1 task again to node b
        19000: to b: offer job 1: 2=0+10
        20000: a lost, b up, c up
    "#]],
    );
}

/// Its record is what the next scheduler goes by, which has heard nobody yet.
#[test]
fn after_a_restart_silence_counts_as_before() {
    let mut bench = Bench::new(config());
    bench.run(THREE);
    bench.run("live 5000 a 0+10 b none c none\n restart\n doubt a");
    let story = bench.run("at +5100\n nodes\n at +14000\n nodes");
    expect![[r#"
        10100: a suspect, b suspect, c suspect
        20000: node a lost: 0 tasks back to gq
        20000: node b lost: 0 tasks back to gq
        20000: node c lost: 0 tasks back to gq
        24100: a lost, b lost, c lost
    "#]]
    .assert_eq(&story);
}
