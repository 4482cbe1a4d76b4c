//! Speeds that a node does not have, told as scripts: what it gets near a job's end goes by what is left, and a task that
//! lasts far too long while others idle gives back what is not begun. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check_after, config};
use expect_test::expect;
use starfarm_protocol::admin::Subject;
use starfarm_scheduler_core::NodeId;

/// A job of 17 programs: node a has 16 of them, node b did the last one in a second, and idles.
const A_HAS_MUCH: &str = "submit 17 command units 8\n join a slots 1 queue 8\n ack a\n join b slots 1\n ack b
    ran b 16+1 ok\n at 50";

/// It took all that was left: a tenth of a second at that speed was more than there was.
#[test]
fn whoever_tells_of_any_speed_gets_a_share_of_what_is_left() {
    let mut bench = Bench::new(config());
    bench.run("submit 300 command target 8\n join a slots 1 queue 8\n join b slots 1\n ack a\n ack b");
    for _ in 0..12 {
        let held = bench.farm.picture(bench.now_us).held;
        let its = held.iter().filter(|held| held.node.as_deref() == Some("a"));
        let first = its.min_by_key(|held| held.lo).unwrap();
        let (lo, units) = (first.lo, ((first.hi - first.lo) / u128::from(first.tasks)) as usize);
        bench.run(&format!("ran a {lo}+{units} {} ms 0\n ack a", vec!["ok"; units].join(",")));
    }
    let left = bench.farm.jobs(bench.now_us)[0].units_pending.0;
    let told = bench.farm.explain(&Subject::Node("a".into()), bench.now_us).unwrap();
    let size = &told.sizes[0];
    assert!(size.growth_units_max.unwrap().0 > left, "it did large tasks: {size:?}");
    assert!(size.units.0 <= left.div_ceil(4), "a quarter of {left}, for two slots: {size:?}");
}

#[test]
fn a_task_that_lasts_far_too_long_while_others_idle_gives_back_what_is_not_begun() {
    check_after(
        A_HAS_MUCH,
        "show 1\n live 31900 a 0+16/0 b none\n tasks b\n live 34100 a 0+16/0 b none\n return a 1+7\n return a 8+8
         tasks a\n tasks b\n ack b\n ran b 1+7 ok,ok,ok,ok,ok,ok,ok\n ack b\n ran b 8+8 ok,ok,ok,ok,ok,ok,ok,ok\n ran a 0+1 ok",
        expect![[r#"
            50: job 1 is running: done 1, out 16, waiting 0
            31900: b has 0 tasks
            33900: to a: withdraw job 1 trim before 4
            34100: to b: offer job 1: 4=1+7
            34100: to b: offer job 1: 5=8+8
            34100: a has 1 tasks
            34100: b has 2 tasks
            34100: job 1 finished
        "#]],
    );
}

#[test]
fn who_does_not_heed_that_is_told_three_times() {
    let mut bench = Bench::new(config());
    bench.run(A_HAS_MUCH);
    let story = bench.run("live 1000000 a 0+16/0 b none");
    assert_eq!(story.matches("withdraw job 1 trim").count(), 3, "{story}");
}

/// A worker whose slots are dead while its network lives, or one that wants to be in the way: the job never ended.
#[test]
fn what_a_node_keeps_all_the_same_and_does_not_run_others_get() {
    check_after(
        A_HAS_MUCH,
        "live 128090 a 0+16/0 b none\n ack b\n nodes\n tasks a\n ran b 8+8 ok,ok,ok,ok,ok,ok,ok,ok
         live 256130 a 0+16/0 b none\n ack b\n ran b 1+7 ok,ok,ok,ok,ok,ok,ok\n show 1\n ran a 0+1 ok\n nodes",
        expect![[r#"
            32050: to a: withdraw job 1 trim before 4
            64050: to a: withdraw job 1 trim before 4
            96050: to a: withdraw job 1 trim before 4
            128050: node a quarantined: kept 1 task that it was asked to give back
            128050: to b: offer job 1: 4=8+8
            128090: a quarantined (kept 1 task that it was asked to give back), b up
            128090: a has 1 tasks
            128090: to b: ack results [(2, 2)]
            198090: unit 0 of job 1 hangs on node a: it runs for 198 s, such a task takes 6.6 s
            256090: to b: offer job 1: 5=1+7
            256130: job 1 is running: done 16, out 1, waiting 0, resent tasks 2
            256130: job 1 finished
            256130: a up, b up
        "#]],
    );
}

#[test]
fn whoever_runs_nothing_keeps_not_even_single_units() {
    check_after(
        "submit 4 command units 1\n join a slots 4\n ack a\n join b slots 1",
        "live 128040 a 0+4 b none\n ack b\n nodes\n ran b 0+1 ok\n ran b 1+1 ok\n ack b\n ran b 2+1 ok\n ran b 3+1 ok",
        expect![[r#"
            32000: to a: withdraw job 1 trim before 5
            64000: to a: withdraw job 1 trim before 5
            96000: to a: withdraw job 1 trim before 5
            128000: node a quarantined: kept 4 tasks that it was asked to give back
            128000: to b: offer job 1: 5=0+1 6=1+1
            128040: a quarantined (kept 4 tasks that it was asked to give back), b up
            128040: to b: ack results [(1, 1)]; offer job 1: 7=2+1
            128040: to b: ack results [(2, 2)]; offer job 1: 8=3+1
            128040: job 1 finished
        "#]],
    );
}

/// Each of its slots may run one unit, and it cannot name them all.
#[test]
fn of_many_slots_those_that_a_heartbeat_cannot_name_may_run_as_well() {
    let runs: Vec<String> = (0..32).map(|unit| unit.to_string()).collect();
    let mut bench = Bench::new(config());
    bench.run("submit 40 command units 1\n join a slots 40\n ack a\n join b slots 1");
    let story = bench.run(&format!("live 900000 a 0+40/{} b none", runs.join(",")));
    assert!(!story.contains("withdraw"), "{story}");
}

#[test]
fn nothing_is_taken_where_nobody_idles_or_would_gain() {
    let told = |script: &str| {
        let mut bench = Bench::new(config());
        bench.run(A_HAS_MUCH);
        let story = bench.run(script);
        assert!(!story.contains("withdraw"), "{story}");
    };
    told("bye b\n live 100000 a 0+16/0");
    told("submit 9 command units 9\n ack b\n live 100000 a 0+16/0 b 0+9");
    told("drain b\n live 100000 a 0+16/0 b none");
    // It did most of its tasks by then, and the one unit that runs cannot be shared.
    told(
        "at 30000\n beat a 0+16\n beat b none\n ran a 0+8 ok,ok,ok,ok,ok,ok,ok,ok\n ran a 8+7 ok,ok,ok,ok,ok,ok,ok
         live 90000 a 15+1/15 b none",
    );
}

/// Node a says this of its heartbeat, part 1 of 2, once a second, and b that it has nothing.
fn half_a_list(bench: &mut Bench, held: &[(u128, u64)], seconds: u64) {
    for second in 0..seconds {
        let mut body = (second as u32).to_le_bytes().to_vec();
        // Part 1 of 2; nothing waits, it is not draining and names no running unit.
        body.extend_from_slice(&[1, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        for (lo, units) in held {
            body.extend_from_slice(&1_u64.to_le_bytes());
            body.extend_from_slice(&lo.to_le_bytes());
            body.extend_from_slice(&units.to_le_bytes());
        }
        let mut datagram = vec![5];
        datagram.extend_from_slice(&(body.len() as u16).to_le_bytes());
        datagram.extend_from_slice(&body);
        bench.hear(NodeId(0), &datagram);
        bench.run("beat b none\n at +1000");
    }
}

/// A list that never came whole was never looked at: its node kept what it had for ever, and the job never ended.
#[test]
fn who_never_says_all_that_it_holds_keeps_nothing_by_that() {
    let submit =
        "submit 17 command units 8\n join a slots 1 queue 8\n ack a\n join b slots 1\n ack b\n ran b 16+1 ok";
    for (held, seconds) in [(&[][..], 110), (&[(0, 16)][..], 160)] {
        let mut bench = Bench::new(config());
        bench.run(submit);
        half_a_list(&mut bench, held, seconds);
        let story = bench.run("tasks a\n tasks b");
        assert!(story.contains("a has 0 tasks") && story.contains("b has 2 tasks"), "{held:?}: {story}");
    }
}

/// One that lists nothing and is silent now and then has no more time than one that is heard.
#[test]
fn who_is_silent_now_and_then_keeps_nothing_by_that_either() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 17 command units 8\n join a slots 1 queue 8\n ack a\n join b slots 1\n ack b\n ran b 16+1 ok",
    );
    let mut story = String::new();
    for beat in 0..20 {
        for _ in 0..6 {
            story += &bench.run("at +1000\n beat b none");
        }
        story += &bench.run(&format!("feedback a {beat} 0"));
    }
    assert!(story.contains("node a is back") && !story.contains("node a lost"), "{story}");
    let story = bench.run("tasks a\n tasks b");
    assert!(story.contains("a has 0 tasks") && story.contains("b has 2 tasks"), "{story}");
}
