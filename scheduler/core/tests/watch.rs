//! What watchers are told: changes of nodes' states, why a node is idle, samples, results in runs, certificates. Times
//! in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config, spec};
use expect_test::{Expect, expect};
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::wire::{Facts, Load, Outcome, Packer, ResultEntry};
use starfarm_scheduler_core::{Config, Deed, Deeds, NodeId};

/// The lines of the story that only watchers hear, or that a person hears too: nothing of the wire.
fn check(script: &str, expected: Expect) {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    let story = bench.run(script);
    let told = story.lines().filter(|line| !line.contains(": to "));
    expected.assert_eq(&told.map(|line| format!("{line}\n")).collect::<String>());
}

#[test]
fn a_nodes_state_and_why_it_is_idle_are_told_when_they_change() {
    check(
        "join a slots 1\n submit 30 search 9 targets never units 10\n ack a\n done a 0+10\n done a 10+10\n done a 20+10
         at 7000\n beat a none",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: node_state node=a state=up
            0: node_idle node=a reason=no_job
            0: job 1 submitted: 30 units
            0: job 1 running
            0: node_busy node=a
            0: tasks node=a job=1 lo=0 hi=10 results=1 outcome=counted given_us=0 begun_us=0 ended_us=0 busy_us=1000000
            0: tasks node=a job=1 lo=10 hi=20 results=1 outcome=counted given_us=0 begun_us=0 ended_us=0 busy_us=1000000
            0: job 1 finished
            0: job 1 is complete: 30 of 30 units done, once each
            0: tasks node=a job=1 lo=20 hi=30 results=1 outcome=counted given_us=0 begun_us=0 ended_us=0 busy_us=1000000
            0: node_idle node=a reason=no_job
            5000: node a suspect: no heartbeat
            5000: node_state node=a state=suspect
            5000: node_idle node=a reason=state
            7000: node a is back
            7000: node_state node=a state=up
            7000: node_idle node=a reason=no_job
        "#]],
    );
}

#[test]
fn a_node_that_leaves_or_is_lost_is_told_as_lost_and_not_as_busy() {
    check(
        "join a slots 1\n join b slots 1\n bye a\n at 20000",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: node_state node=a state=up
            0: node_idle node=a reason=no_job
            0: node b joined: 1 slot, boot 0000000000000001
            0: node_state node=b state=up
            0: node_idle node=b reason=no_job
            0: node a left
            0: node_state node=a state=lost
            5000: node b suspect: no heartbeat
            5000: node_state node=b state=suspect
            5000: node_idle node=b reason=state
            10000: sample gq=0 dq=0 jq=0 dq_oldest_us=0 nodes_up=0 nodes=1 slots=0 power_mean=0 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=0 decomposed_units=0 dispatched=0 results_counted=0 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=3 bytes_in=191 datagrams_out=2 bytes_out=196 messages_malformed=0
            10000: node_load node=b tasks=0 queued=0 power=0 idle_us=0 tasks_done=0 units_done=0 speed_ups=0 slow_downs=0
            15000: node b lost: 0 tasks back to gq
            15000: node_state node=b state=lost
            20000: sample gq=0 dq=0 jq=0 dq_oldest_us=0 nodes_up=0 nodes=0 slots=0 power_mean=0 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=0 decomposed_units=0 dispatched=0 results_counted=0 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=3 bytes_in=191 datagrams_out=2 bytes_out=196 messages_malformed=0
        "#]],
    );
}

/// Who reads a sample, and then a state that it had counted already, counts that twice.
#[test]
fn a_sample_comes_behind_the_states_that_it_counts() {
    check(
        "at 5000\n join a slots 1\n at 10000",
        expect![[r#"
            5000: node a joined: 1 slot, boot 0000000000000001
            5000: node_state node=a state=up
            5000: node_idle node=a reason=no_job
            10000: node a suspect: no heartbeat
            10000: node_state node=a state=suspect
            10000: node_idle node=a reason=state
            10000: sample gq=0 dq=0 jq=0 dq_oldest_us=0 nodes_up=0 nodes=1 slots=0 power_mean=0 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=0 decomposed_units=0 dispatched=0 results_counted=0 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=1 bytes_in=78 datagrams_out=1 bytes_out=98 messages_malformed=0
        "#]],
    );
}

#[test]
fn an_idle_node_says_what_keeps_it() {
    check(
        "submit 10 search 9 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n pause 1\n return a 0+10
         beat b none\n resume 1\n drain b\n undrain b",
        expect![[r#"
            0: job 1 submitted: 10 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: node_state node=a state=up
            0: node_idle node=a reason=waiting
            0: job 1 running
            0: node_busy node=a
            0: node b joined: 1 slot, boot 0000000000000001
            0: node_state node=b state=up
            0: node_idle node=b reason=nothing_left
            0: job 1 paused
            0: tasks node=a job=1 lo=0 hi=10 results=1 outcome=returned begun_us=0 ended_us=0 busy_us=1000000
            0: node_idle node=a reason=paused
            0: node_idle node=b reason=paused
            0: job 1 running
            0: node_busy node=a
            0: node_idle node=b reason=nothing_left
            0: node b draining
            0: node_state node=b state=draining
            0: node_idle node=b reason=state
            0: node b resumed
            0: node_state node=b state=up
            0: node_idle node=b reason=nothing_left
        "#]],
    );
}

#[test]
fn results_that_follow_each_other_are_told_as_one_where_their_units_do() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    bench.run("submit 50 search 9 targets never units 10\n join a slots 1\n ack a\n at 3000");
    let mut packer = Packer::new();
    for (at, lo) in [0, 10, 30, 40].into_iter().enumerate() {
        packer.result(&ResultEntry {
            job: JobId(1),
            spec: spec(1),
            sequence: 1 + at as u64,
            attempt: Attempt(0),
            lo,
            units: 10,
            duration_us: 100_000 * (1 + at as u64),
            outcome: Outcome::Done,
            body: &[],
        });
    }
    packer.finish().iter().for_each(|datagram| bench.hear(NodeId(0), datagram));
    let story = bench.run("");
    let told = story.lines().filter(|line| line.contains("tasks node=a"));
    expect![[r#"
        3000: tasks node=a job=1 lo=0 hi=20 results=2 outcome=counted given_us=0 begun_us=2700000 ended_us=3000000 busy_us=300000
    "#]].assert_eq(&told.map(|line| format!("{line}\n")).collect::<String>());
}

/// A node can send any number of them, and each would be a line of the log.
#[test]
fn of_results_that_count_nothing_the_log_keeps_a_few_and_of_quarantine_the_first_word() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    bench.run("submit 50 search 9 targets never units 10\n join a slots 1\n ack a");
    let worthless = "done a 0+10 body 01\n".repeat(10_000);
    let count = |told: &str, what: &str| told.matches(what).count();
    let at_once = bench.run(&worthless);
    assert_eq!(count(&at_once, "tasks node=a"), 4_096);
    assert_eq!([count(&at_once, "node_state node=a"), count(&at_once, "node a quarantined")], [1, 1]);
    let second_later = bench.run(&format!("live 1000 a none\n{worthless}"));
    assert_eq!(count(&second_later, "tasks node=a"), 10);
    let one_that_counts = bench.run("done a 10+10");
    assert_eq!(count(&one_that_counts, "outcome=counted"), 1, "{one_that_counts}");
}

#[test]
fn a_sample_comes_once_a_period_and_progress_only_where_there_is_some() {
    check(
        "submit 30 search 9 targets never units 10\n join a slots 1\n ack a\n done a 0+10\n ack a\n live 10000 a 10+10
         live 20000 a 10+10\n live 60000 a 10+10",
        expect![[r#"
            0: job 1 submitted: 30 units
            0: node a joined: 1 slot, boot 0000000000000001
            0: node_state node=a state=up
            0: node_idle node=a reason=waiting
            0: job 1 running
            0: node_busy node=a
            0: tasks node=a job=1 lo=0 hi=10 results=1 outcome=counted given_us=0 begun_us=0 ended_us=0 busy_us=1000000
            10000: sample gq=0 dq=2 jq=1 dq_oldest_us=10000000 nodes_up=1 nodes=1 slots=1 power_mean=1 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=9 bytes_in=727 datagrams_out=8 bytes_out=602 messages_malformed=0
            10000: job_progress job=1 done=10 failed=0 out=20 pending=0 abandoned=0 units_per_s=3
            20000: sample gq=0 dq=2 jq=1 dq_oldest_us=20000000 nodes_up=1 nodes=1 slots=1 power_mean=0.5 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=14 bytes_in=1132 datagrams_out=13 bytes_out=847 messages_malformed=0
            30000: sample gq=0 dq=2 jq=1 dq_oldest_us=30000000 nodes_up=1 nodes=1 slots=1 power_mean=0.3333333333333333 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=19 bytes_in=1537 datagrams_out=18 bytes_out=1092 messages_malformed=0
            40000: sample gq=0 dq=2 jq=1 dq_oldest_us=40000000 nodes_up=1 nodes=1 slots=1 power_mean=0.25 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=24 bytes_in=1942 datagrams_out=23 bytes_out=1337 messages_malformed=0
            50000: sample gq=0 dq=2 jq=1 dq_oldest_us=50000000 nodes_up=1 nodes=1 slots=1 power_mean=0.2 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=29 bytes_in=2347 datagrams_out=28 bytes_out=1582 messages_malformed=0
            60000: sample gq=0 dq=2 jq=1 dq_oldest_us=60000000 nodes_up=1 nodes=1 slots=1 power_mean=0.16666666666666666 speed_ups=0 slow_downs=0 resent=0 offers_repeated=0 decomposed=3 decomposed_units=30 dispatched=3 results_counted=1 results_duplicate=0 datagrams_dropped=0 datagrams_refused=0 datagrams_in=34 bytes_in=2752 datagrams_out=33 bytes_out=1827 messages_malformed=0
            60000: node_load node=a tasks=2 queued=0 power=0.167 idle_us=0 tasks_done=1 units_done=10 speed_ups=0 slow_downs=0
        "#]],
    );
}

fn tell(bench: &mut Bench, pack: impl FnOnce(&mut Packer)) {
    let mut packer = Packer::new();
    pack(&mut packer);
    packer.finish().iter().for_each(|datagram| bench.hear(NodeId(0), datagram));
}

#[test]
fn a_node_tells_what_it_is_and_it_is_told_on_where_that_changed() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    let facts = Facts { system: "lab-7, Linux".into(), cpu: "Some CPU".into(), cores: 4, ..Facts::default() };
    tell(&mut bench, |packer| packer.facts(&facts));
    bench.run("join a slots 2\n at 1");
    for cores in [4, 4, 8] {
        tell(&mut bench, |packer| packer.facts(&Facts { cores, ..facts.clone() }));
        tell(&mut bench, |packer| packer.load(&Load { idle_us: 7, slots: vec![1_000, 250] }));
    }
    let story = bench.run("");
    let facts: Vec<&str> = story.lines().filter(|line| line.contains("node_facts")).collect();
    let cores: Vec<_> =
        facts.iter().map(|line| line.split("cores=").nth(1).unwrap().split(' ').next().unwrap()).collect();
    assert_eq!(cores, ["4", "8"], "{facts:?}");
    let node = &bench.farm.nodes(bench.now_us)[0];
    assert_eq!((&node.load[..], node.idle_us), (&[1_000, 250][..], 7));
    let picture = &bench.farm.picture(bench.now_us).nodes[0];
    assert_eq!((&picture.load[..], picture.idle_us, picture.cores), (&[1_000, 250][..], 7, Some(8)));
    // Another incarnation has a load of its own; a lost node has none.
    bench.run("hello a slots 2 boot 2");
    assert!(bench.farm.nodes(bench.now_us)[0].load.is_empty());
    tell(&mut bench, |packer| packer.load(&Load { idle_us: 7, slots: vec![5] }));
    assert_eq!(bench.farm.nodes(bench.now_us)[0].load, [5]);
    bench.run("at 60000");
    assert!(bench.farm.nodes(bench.now_us)[0].load.is_empty());
}

#[test]
fn a_late_result_is_told_at_its_own_time_and_not_before_it_was_given_out() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    bench.run(
        "submit 50 search 9 targets never units 10\n at 1000\n join a slots 5\n ack a\n live 9000 a 0+50",
    );
    let result = |sequence: u64| ResultEntry {
        job: JobId(1),
        spec: spec(1),
        sequence,
        attempt: Attempt(0),
        lo: u128::from(sequence) * 10,
        units: 10,
        duration_us: 100_000,
        outcome: Outcome::Done,
        body: &[],
    };
    tell(&mut bench, |packer| {
        packer.result(&result(0));
        packer.ages(&[(1, 3_000_000), (2, 2_000_000)]);
        (1..3).for_each(|sequence| packer.result(&result(sequence)));
        packer.next_datagram();
        packer.result(&result(3));
        packer.next_datagram();
        packer.ages(&[(0, u64::MAX); 50]);
        packer.result(&result(4));
    });
    let story = bench.run("");
    let ends = story.lines().filter_map(|line| {
        let field = |name: &str| line.split(name).nth(1)?.split(' ').next();
        Some(format!("{}..{} {} {}\n", field("lo=")?, field("hi=")?, field("outcome=")?, field("ended_us=")?))
    });
    expect![[r#"
        0..10 counted 9000000
        10..20 counted 6000000
        20..30 counted 7000000
        30..40 counted 9000000
        40..50 counted 1000000
    "#]]
    .assert_eq(&ends.collect::<String>());
}

/// The story without datagrams, told while a log opens with a picture of the farm that has just been started anew.
fn told_after_a_restart(bench: &mut Bench, before: &str, script: &str) -> String {
    bench.run(before);
    bench.run("restart");
    bench.farm.picture(bench.now_us);
    let story = bench.run(script);
    story.lines().filter(|line| !line.contains(": to ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_node_that_computes_as_the_scheduler_comes_back_is_told_as_busy() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    let before = "submit 50 search 9 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b\n at 1000";
    let told = told_after_a_restart(&mut bench, before, "hello a\n beat a 0+10");
    // Of b nothing is new.
    expect![[r#"
        1000: node a is back
        1000: node_state node=a state=up
        1000: node_idle node=a reason=nothing_left
        1000: node_busy node=a
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_lost_node_that_comes_back_with_its_tasks_is_told_as_busy() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    bench.run("join a slots 1\n submit 10 search 9 targets never units 10\n ack a\n at 20000");
    let story = bench.run("beat a 0+10");
    let told = story.lines().filter(|line| !line.contains(": to "));
    expect![[r#"
        20000: node a is back
        20000: node_state node=a state=up
        20000: node_busy node=a
    "#]]
    .assert_eq(&told.map(|line| format!("{line}\n")).collect::<String>());
}

#[test]
fn a_result_of_a_task_that_an_earlier_scheduler_gave_out_is_told_at_its_own_time() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    let before =
        "at 500\n submit 50 search 9 targets never units 10\n join a slots 5\n ack a\n live 9000 a 0+50";
    told_after_a_restart(&mut bench, before, "hello a\n beat a 0+50");
    let result = |sequence: u64| ResultEntry {
        job: JobId(1),
        spec: spec(1),
        sequence,
        attempt: Attempt(0),
        lo: u128::from(sequence) * 20,
        units: 10,
        duration_us: 100_000,
        outcome: Outcome::Done,
        body: &[],
    };
    tell(&mut bench, |packer| {
        packer.ages(&[(0, 3_000_000), (1, 0), (2, u64::MAX)]);
        (0..3).for_each(|sequence| packer.result(&result(sequence)));
    });
    let story = bench.run("");
    let told = story.lines().filter(|line| line.contains("tasks node=a"));
    expect![[r#"
        9000: tasks node=a job=1 lo=0 hi=10 results=1 outcome=counted begun_us=5900000 ended_us=6000000 busy_us=100000
        9000: tasks node=a job=1 lo=20 hi=30 results=1 outcome=counted begun_us=8900000 ended_us=9000000 busy_us=100000
        9000: tasks node=a job=1 lo=40 hi=50 results=1 outcome=counted begun_us=400000 ended_us=500000 busy_us=100000
    "#]]
    .assert_eq(&told.map(|line| format!("{line}\n")).collect::<String>());
}

#[test]
fn a_scheduler_that_stops_tells_how_far_all_has_come() {
    let mut bench = Bench::new(Config { watch: true, ..config() });
    bench.run("submit 50 search 9 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n done a 0+10\n at 500");
    let stopped = |bench: &mut Bench| {
        let mut deeds = Deeds::default();
        bench.farm.on_stop(bench.now_us, &mut deeds);
        let events = deeds.0.into_iter().filter_map(|deed| match deed {
            Deed::Event(event) => Some(event.to_string().split(' ').take(3).collect::<Vec<_>>().join(" ")),
            _ => None,
        });
        events.collect::<Vec<_>>()
    };
    assert_eq!(
        stopped(&mut bench),
        [
            "sample gq=0 dq=4",
            "job_progress job=1 done=10",
            "node_load node=a tasks=2",
            "node_load node=b tasks=2"
        ]
    );
    bench = Bench::new(config());
    assert_eq!(stopped(&mut bench), [""; 0], "nobody watches");
}
