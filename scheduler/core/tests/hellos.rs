//! What a node's datagrams say besides tasks and results, told as scripts: hellos of other versions and of later
//! schedulers, keys revoked, lists in several parts, credits. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config, hello};
use expect_test::expect;
use starfarm_protocol::wire::Packer;
use starfarm_scheduler_core::{Config, Deed, Deeds, NodeCommand, NodeId};

#[test]
fn a_node_of_another_version_is_told_ours_and_nothing_else() {
    check_after(
        "submit 40 units 10",
        "join a slots 1 version 9\n at 1000\n nodes\n show 1\n hello a",
        expect![[r#"
            0: node a speaks protocol version 9: update the older side
            0: to a: welcome epoch 1
            1000: a suspect
            1000: job 1 is queued: done 0, out 0, waiting 40
            1000: node a joined: 1 slot, boot 0000000000000001
            1000: to a: welcome epoch 1
            1000: job 1 running
            1000: to a: offer job 1: 1=0+10 2=10+10
        "#]],
    );
}

#[test]
fn a_node_that_comes_back_with_another_version_gets_nothing_more() {
    check_after(
        "submit 80 units 10\n join a slots 1\n ack a",
        "hello a version 9\n done a 0+20\n beat a none\n at 100\n tasks a\n show 1",
        expect![[r#"
            0: node a speaks protocol version 9: update the older side
            0: to a: welcome epoch 1
            100: a has 0 tasks
            100: job 1 is running: done 20, out 0, waiting 60
        "#]],
    );
}

#[test]
fn a_hello_that_proves_a_later_scheduler_ends_this_one() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "hello a knows 2 genuine\n tasks a",
        expect![[r#"
            0: node a knows epoch 2 of this farm: a later scheduler was started
            0: superseded by epoch 2
            0: a has 2 tasks
        "#]],
    );
}

#[test]
fn a_hello_that_only_claims_a_later_scheduler_is_an_ordinary_one() {
    check_after(
        "submit 40 units 10",
        "join a slots 1 knows 2 forged\n tasks a",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+10 2=10+10
            0: a has 2 tasks
        "#]],
    );
}

#[test]
fn an_earlier_scheduler_is_no_reason_to_end() {
    check_after(
        "submit 40 units 10\n join a slots 1\n ack a",
        "restart\n hello a knows 1 genuine\n hello a knows 2 genuine\n nodes",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: welcome epoch 2
            0: a up
        "#]],
    );
}

#[test]
fn a_node_whose_key_is_revoked_loses_all_at_once_and_is_told_nothing() {
    check_after(
        "submit 40 units 10\n join a slots 1\n join b slots 1\n ack a\n ack b\n done b 20+10\n ack b",
        "revoke a\n ack b\n nodes\n at 3000\n show 1\n done b 30+10\n nodes\n forget a\n nodes",
        expect![[r#"
            0: node a left
            0: to b: ack results [(1, 1)]; offer job 1: 5=0+10
            0: a lost, b up
            3000: job 1 is running: done 10, out 20, waiting 10, resent tasks 2
            3000: to b: ack results [(2, 2)]; offer job 1: 6=10+10
            3000: a lost, b up
            3000: node a forgotten
            3000: b up
        "#]],
    );
}

/// A bench whose receive buffer holds 400 datagrams: half of these are given as credits.
fn bench() -> Bench {
    Bench::new(Config { receive_datagrams: 400, ..config() })
}

#[test]
fn credits_share_half_of_the_receive_buffer_among_the_nodes_that_live() {
    let script = "join a slots 1\n beat a none\n credit a\n join b slots 1\n beat a none\n credit a
        live 17000 a none\n nodes\n credit a";
    expect![[r#"
        0: node a joined: 1 slot, boot 0000000000000001
        0: to a: welcome epoch 1
        0: to a: answer 1
        0: a may have 200 datagrams under way
        0: node b joined: 1 slot, boot 0000000000000001
        0: to b: welcome epoch 1
        0: to a: answer 2
        0: a may have 100 datagrams under way
        5000: node b suspect: no heartbeat
        15000: node b lost: 0 tasks back to gq
        17000: a up, b lost
        17000: a may have 200 datagrams under way
    "#]]
    .assert_eq(&bench().run(script));
}

#[test]
fn an_overflow_halves_credits_once_a_round_trip_and_each_period_doubles_them_again() {
    let script = "join a slots 1\n at 100\n overflow\n overflow\n at 199\n overflow\n beat a none\n credit a
        at 200\n overflow\n beat a none\n credit a\n live 9900 a none\n credit a\n live 12000 a none\n credit a
        live 30000 a none\n credit a";
    expect![[r#"
        0: node a joined: 1 slot, boot 0000000000000001
        0: to a: welcome epoch 1
        199: to a: answer 1
        199: a may have 100 datagrams under way
        200: to a: answer 2
        200: a may have 50 datagrams under way
        9900: a may have 50 datagrams under way
        12000: a may have 100 datagrams under way
        30000: a may have 200 datagrams under way
    "#]]
    .assert_eq(&bench().run(script));
}

#[test]
fn credits_never_fall_below_two() {
    let mut bench = bench();
    bench.run("join a slots 1");
    (1..20).for_each(|at| drop(bench.run(&format!("at {at}00\n overflow"))));
    expect![[r#"
        1900: to a: answer 1
        1900: a may have 2 datagrams under way
    "#]]
    .assert_eq(&bench.run("beat a none\n credit a"));
}

#[test]
fn what_a_long_list_holds_expires_by_lists_that_came_whole_or_had_the_time_to() {
    let mut bench = Bench::new(config());
    bench.run("submit 200 units 1\n join a slots 1 queue 100\n feedback a 64 0\n ack a");
    bench.run("done a 0+1 ms 1\n ack a\n feedback a 128 0\n ack a");
    let held: Vec<String> = (1..91).map(|unit| format!("{unit}+1")).collect();
    let (all, but_last) = (held.join(","), held[..89].join(","));
    let mut story = bench.run("show 1");
    // Only the first parts arrive: nothing is said about the rest, until it was not listed for T_retry.
    for at in (2_000..=88_000).step_by(2_000) {
        story += &bench.run(&format!("at {at}\n beat a {all} only 0\n beat a {all} only 1 same"));
    }
    story += &bench.run(&format!("show 1\n beat a {all}\n show 1"));
    for at in (92_000..=180_000).step_by(2_000) {
        story += &bench.run(&format!("at {at}\n beat a {but_last}"));
    }
    story += &bench.run("show 1");
    let told: Vec<&str> = story.lines().filter(|line| !line.contains("answer")).collect();
    expect![[r#"
        0: job 1 is running: done 1, out 100, waiting 99
        81000: task [85, 86) of job 1 expired on node a
        81000: task [86, 87) of job 1 expired on node a
        81000: task [87, 88) of job 1 expired on node a
        81000: task [88, 89) of job 1 expired on node a
        81000: task [89, 90) of job 1 expired on node a
        81000: task [90, 91) of job 1 expired on node a
        81000: task [91, 92) of job 1 expired on node a
        81000: task [92, 93) of job 1 expired on node a
        81000: task [93, 94) of job 1 expired on node a
        81000: task [94, 95) of job 1 expired on node a
        81000: task [95, 96) of job 1 expired on node a
        81000: task [96, 97) of job 1 expired on node a
        81000: task [97, 98) of job 1 expired on node a
        81000: task [98, 99) of job 1 expired on node a
        81000: task [99, 100) of job 1 expired on node a
        81000: task [100, 101) of job 1 expired on node a
        88000: job 1 is running: done 1, out 84, waiting 115, resent tasks 16
        88000: job 1 is running: done 1, out 84, waiting 115, resent tasks 16
        180000: job 1 is running: done 1, out 84, waiting 115, resent tasks 16"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn a_drain_by_a_person_outlives_the_worker_that_was_drained() {
    check_after(
        "submit 100 units 10\n join a slots 1\n drain a",
        "hello a boot 2\n nodes\n tasks a\n undrain a\n tasks a",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000002
            0: to a: welcome epoch 1
            0: a draining
            0: a has 0 tasks
            0: node a resumed
            0: to a: offer job 1: 3=0+10 4=10+10
            0: a has 2 tasks
        "#]],
    );
}

#[test]
fn a_heartbeat_that_lost_a_part_is_whole_by_the_same_part_of_the_next() {
    let mut bench = Bench::new(config());
    bench.run("submit 200 units 1\n join a slots 1 queue 100\n feedback a 64 0\n ack a");
    bench.run("done a 0+1 ms 1\n ack a\n feedback a 128 0\n ack a");
    let held: Vec<String> = (1..91).map(|unit| format!("{unit}+1")).collect();
    // One part of three arrives of each beat: what is not listed is known from the third on.
    let mut story = String::new();
    for beat in 1..=42 {
        story += &bench.run(&format!("at {}000\n beat a {} only {}", 2 * beat, held.join(","), beat % 3));
    }
    let told: Vec<&str> = story.lines().filter(|line| !line.contains("answer")).collect();
    expect![[r#"
        84000: task [91, 92) of job 1 expired on node a
        84000: task [92, 93) of job 1 expired on node a
        84000: task [93, 94) of job 1 expired on node a
        84000: task [94, 95) of job 1 expired on node a
        84000: task [95, 96) of job 1 expired on node a
        84000: task [96, 97) of job 1 expired on node a
        84000: task [97, 98) of job 1 expired on node a
        84000: task [98, 99) of job 1 expired on node a
        84000: task [99, 100) of job 1 expired on node a
        84000: task [100, 101) of job 1 expired on node a"#]]
    .assert_eq(&told.join("\n"));
}

/// All nodes are marked once a turn; one that joins behind that is looked at all the same.
#[test]
fn a_hello_in_the_turn_of_an_order_to_all_is_answered() {
    let mut bench = Bench::new(config());
    bench.run("join b slots 1");
    let (mut deeds, mut packer) = (Deeds::default(), Packer::new());
    packer.hello(&hello(1));
    bench.farm.command_node("b", NodeCommand::Drain, &mut deeds).unwrap();
    bench.farm.on_session(NodeId(7), "a", 0);
    bench.farm.on_datagram(NodeId(7), &packer.finish().concat(), 0, &mut deeds);
    bench.farm.turn(0, &mut deeds);
    assert!(deeds.0.iter().any(|deed| matches!(deed, Deed::Send(NodeId(7), _))), "{deeds:?}");
}
