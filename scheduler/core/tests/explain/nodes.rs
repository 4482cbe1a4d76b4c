//! Why a node idles, or is kept out.

use expect_test::expect;
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::NodeId;

use super::common::{A_IS_SICK, Bench, config};
use super::{check, explained};

#[test]
fn a_node_that_works() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         feedback a 5 0\n ack a\n at 1500\n beat a 40+10,50+10 running 40",
        "node a",
        expect![[r#"
            Node a works.
            busy: It has 40 tasks of job 1, 400 units; the oldest for 1.5 s.
            running: Its last heartbeat said that it runs unit 40 of job 1.
            window: It has 40 tasks and may hold 40: 15 a slot for 2 slots (60 s of work ahead), speed-ups add 10; its own queue takes 100.
        "#]],
    );
}

#[test]
fn a_node_whose_queue_ran_full() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         feedback a 0 3",
        "node a",
        expect![[r#"
            Node a works.
            busy: It has 29 tasks of job 1, 290 units; the oldest for 0 ms.
            window: It has 29 tasks and may hold 24: 15 a slot for 2 slots (60 s of work ahead), slow-downs take 6 away; its own queue takes 100.
        "#]],
    );
}

#[test]
fn a_node_without_jobs() {
    check(
        "join a slots 1",
        "node a",
        expect![[r#"
        Node a idles: there is no job.
        no_job: There is no unfinished job. `starfarm submit` adds one.
    "#]],
    );
}

#[test]
fn a_node_that_gets_nothing_says_so_for_each_job() {
    check(
        "submit 10 units 10\n join b slots 1\n submit 90 units 10\n submit 90 units 10\n pause 3\n join a slots 1\n ack a
         refuse a 10+10 no-python job 2\n return a 20+10 job 2",
        "node a",
        expect![[r#"
            Node a idles: jobs are paused.
            paused: What it could work for is paused.
            job_all_out: Of job 1 the last 10 units are at other nodes; the job allows no copies.
            job_refused: It cannot run job 2: no-python. It is asked again in 10 s; after a repair `starfarm job resume 2` does so at once.
            job_paused: Job 3 is paused. `starfarm job resume 3` lets it go on.
        "#]],
    );
}

#[test]
fn the_last_unit_is_one() {
    check(
        "submit 1 units 1\n join a slots 1\n ack a\n join b slots 1",
        "node b",
        expect![[r#"
        Node b idles: nothing is left to give.
        nothing_left: All that is left is given out to others.
        job_all_out: Of job 1 the last unit is at another node; the job allows no copies.
    "#]],
    );
}

#[test]
fn a_node_that_is_silent() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 7000",
        "node a",
        expect![[r#"
            Node a is suspect.
            suspect: Nothing was heard of it for 7.0 s; after 5.0 s a node gets no new tasks, after 15 s it is lost and what it has, 2 tasks, goes back to gq.
            busy: It has 2 tasks of job 1, 20 units; the oldest for 7.0 s.
        "#]],
    );
}

#[test]
fn a_node_that_is_lost() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n at 17000",
        "node a",
        expect![[r#"
        Node a is lost.
        lost: Nothing was heard of it for 17 s; after 15 s a node is lost. 20 units went back to gq. See whether its machine, its network and its worker are up; `starfarm node forget a` drops it from the list.
    "#]],
    );
}

#[test]
fn a_node_that_said_goodbye() {
    check(
        "join a slots 1\n bye a\n at 300000",
        "node a",
        expect![[r#"
        Node a has left.
        left: Its worker said goodbye 5 min ago. Start it again, or drop it from the list with `starfarm node forget a`.
    "#]],
    );
}

#[test]
fn a_node_of_before_a_restart() {
    check(
        "join a slots 1\n restart\n at 2000",
        "node a",
        expect![[r#"
        Node a is suspect.
        suspect: It was not heard since before this scheduler started, 2.0 s ago. After 15 s it is lost.
    "#]],
    );
}

/// The records have no times, so none are made up.
#[test]
fn nodes_that_were_lost_or_gone_before_a_restart() {
    check(
        "join a slots 1\n at 17000\n restart\n at 18000",
        "node a",
        expect![[r#"
        Node a is lost.
        lost: It was not heard since before this scheduler started, 1.0 s ago. See whether its machine, its network and its worker are up; `starfarm node forget a` drops it from the list.
    "#]],
    );
    check(
        "join a slots 1\n bye a\n restart\n at 61000",
        "node a",
        expect![[r#"
        Node a has left.
        left: Its worker said goodbye. It was not heard since before this scheduler started, 61 s ago. Start it again, or drop it from the list with `starfarm node forget a`.
    "#]],
    );
    let facts = explained("join a slots 1\n bye a\n restart\n at 61000", "node a").facts;
    let heard = facts.iter().find(|fact| fact.name == "heard").unwrap();
    assert_eq!(heard.value, "not since before this scheduler started, 61 s ago");
}

#[test]
fn a_node_that_was_heard_after_a_restart_is_silent_since_then() {
    check(
        "join a slots 1\n restart\n at 2000\n session a\n hello a\n at 10000",
        "node a",
        expect![[r#"
        Node a is suspect.
        suspect: Nothing was heard of it for 8.0 s; after 5.0 s a node gets no new tasks, after 15 s it is lost and what it has, 0 tasks, goes back to gq.
    "#]],
    );
}

#[test]
fn a_node_whose_worker_has_not_said_hello() {
    let mut bench = Bench::new(config());
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain_node("a", bench.now_us).unwrap();
    assert_eq!(
        (explanation.verdict.as_str(), &*explanation.reasons[0].code),
        ("Node a has not joined yet.", "no_hello")
    );
    bench.run("join a slots 1\n submit 100 units 10");
    bench.farm.on_session(NodeId(0), "a", bench.now_us);
    let explanation = bench.farm.explain_node("a", bench.now_us).unwrap();
    assert_eq!(
        (explanation.verdict.as_str(), &*explanation.reasons[0].code),
        ("Node a comes back.", "no_hello")
    );
}

#[test]
fn a_node_that_a_person_drains() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n drain a",
        "node a",
        expect![[r#"
            Node a is draining.
            drained: A person drains it: it ends what it has and gets nothing new. `starfarm node resume a` undoes that.
            busy: It has 2 tasks of job 1, 20 units; the oldest for 0 ms.
        "#]],
    );
}

#[test]
fn a_node_whose_worker_stops() {
    check(
        "join a slots 1\n beat a none draining",
        "node a",
        expect![[r#"
        Node a is draining.
        stopping: Its worker stops: it ends what it runs and says goodbye. Start the worker again to have it back.
    "#]],
    );
}

#[test]
fn a_node_that_fails_what_others_pass() {
    check(
        &format!("{A_IS_SICK}\n ack b\n at 4000"),
        "node a",
        expect![[r#"
            Node a is quarantined.
            quarantined: It failed the last 7 units of job 1 that it ran, and others pass. It gets one task at a time as a probe, the next one in 6.0 s, the one after that no sooner than 20 s later; one that passes brings it back, or `starfarm node resume a`.
        "#]],
    );
}

#[test]
fn a_node_that_let_tasks_vanish() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none",
        "node a",
        expect![[r#"
            Node a is quarantined.
            quarantined: It let tasks vanish that it had acknowledged. It gets one task at a time as a probe, the next one in 9.0 s, the one after that no sooner than 20 s later; one that passes brings it back, or `starfarm node resume a`.
        "#]],
    );
}

#[test]
fn a_node_whose_results_differ() {
    check(
        "submit 20 search 9 never units 10\n join a slots 1\n ack a\n done a 0+10\n again a\n join b slots 1
         done b 0+10 hits 3:1 attempt 1",
        "node b",
        expect![[r#"
            Node b is quarantined.
            distrusted: It gets nothing: its results differ from those of others. Test its machine, then `starfarm node resume b`.
            conflict: Of units [0, 10) of job 1 it said what others did not.
        "#]],
    );
}

#[test]
fn a_node_whose_tasks_were_partly_done_gives_back_what_was_left() {
    let explanation =
        explained("submit 100 units 10\n join a slots 1\n ack a\n done a 0+7\n at 20000", "node a");
    assert!(explanation.reasons[0].text.contains(" 13 units went back to gq. "), "{explanation:?}");
}

#[test]
fn a_drained_node_that_is_lost_says_so() {
    check(
        "join a slots 1\n drain a\n bye a",
        "node a",
        expect![[r#"
            Node a has left.
            left: Its worker said goodbye 0 ms ago. Start it again, or drop it from the list with `starfarm node forget a`.
            drained: A person drained it as well: once it is back it gets nothing until `starfarm node resume a`.
        "#]],
    );
}

#[test]
fn a_node_whose_key_was_revoked_says_so_after_a_restart_too() {
    for restart in ["", "restart"] {
        check(
            &format!("join a slots 1\n revoke a\n {restart}"),
            "node a",
            expect![[r#"
                Node a is out: its key was revoked.
                revoked: What it had went back to gq, and it cannot come back with that key. To have its machine back move the worker's state directory away and start it with a valid join file; `starfarm node forget a` drops this one from the list.
            "#]],
        );
    }
}

#[test]
fn a_node_that_is_drained_and_quarantined_gets_no_probe() {
    check(
        "submit 100 units 10\n join a slots 1\n ack a\n live 81000 a none\n drain a",
        "node a",
        expect![[r#"
            Node a is draining.
            drained: A person drains it: it ends what it has and gets nothing new. `starfarm node resume a` undoes that.
            quarantined: It is quarantined too: it let tasks vanish that it had acknowledged.
        "#]],
    );
}

#[test]
fn a_paused_job_with_units_keeps_a_node_idle_before_one_without() {
    check(
        "submit 20 units 10\n submit 20 units 10\n pause 1\n join b slots 1\n join a slots 1",
        "node a",
        expect![[r#"
            Node a idles: jobs are paused.
            paused: What it could work for is paused.
            job_paused: Job 1 is paused. `starfarm job resume 1` lets it go on.
            job_all_out: Of job 2 the last 20 units are at other nodes; the job allows no copies.
        "#]],
    );
}

#[test]
fn what_came_back_since_the_last_heartbeat_is_not_told_as_running() {
    check(
        "submit 20 units 10\n join a slots 1\n ack a\n beat a 0+20 running 0\n done a 0+10",
        "node a",
        expect![[r#"
            Node a works.
            busy: It has 1 task of job 1, 10 units; the oldest for 0 ms.
        "#]],
    );
}

/// It was found to hold one range of 40 tasks, was taken to have one task and got 39 more.
#[test]
fn a_node_of_before_a_restart_has_as_many_tasks_as_it_counts_itself() {
    check(
        "submit 100000 units 10\n join a slots 2 queue 100\n ack a\n done a 0+10 ms 4000\n done a 10+10 ms 4000\n ack a
         checkpoint\n restart\n session a\n hello a\n beat a 20+300 queued 28 running 20",
        "node a",
        expect![[r#"
            Node a works.
            busy: It has 1 range of job 1, 300 units; the oldest for 0 ms.
            running: Its last heartbeat said that it runs unit 20 of job 1.
            window: It has 29 tasks and may hold 30: 15 a slot for 2 slots (60 s of work ahead), speed-ups and slow-downs move that by nothing; its own queue takes 100.
        "#]],
    );
}

/// Node a names unit 10 as running for so many seconds, every ten of them.
fn it_runs(seconds: u64) -> String {
    let beats = (0..=seconds / 10).map(|nth| format!("at {}\n beat a 10+10 running 10\n", 10 + nth * 10_000));
    beats.collect()
}

#[test]
fn a_slot_that_hangs_on_a_live_node_is_told_once_and_explained() {
    let before = "submit 100 command units 10\n join a slots 1\n ack a\n ran a 0+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok ms 4000
                  ack a\n";
    let mut bench = Bench::new(config());
    bench.run(before);
    // 30 times the 4 s that such a task takes are 120 s.
    let lines = |story: &str| {
        story.lines().filter(|line| line.contains("hangs")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&bench.run(&it_runs(110))), [""; 0]);
    let told = lines(&bench.run("at 121000\n beat a 10+10 running 10\n at 125000\n beat a 10+10 running 10"));
    assert_eq!(
        told,
        ["121000: unit 10 of job 1 hangs on node a: it runs for 121 s, such a task takes 4.0 s"]
    );
    let hangs = |subject: &str| {
        let explanation = match subject {
            "node" => bench.farm.explain_node("a", bench.now_us),
            _ => bench.farm.explain_job(JobId(1), bench.now_us),
        };
        explanation
            .unwrap()
            .reasons
            .into_iter()
            .find(|reason| reason.code == "hangs")
            .map(|reason| reason.text)
    };
    let (of_node, of_job) = (hangs("node").unwrap(), hangs("job").unwrap());
    assert!(
        of_node.starts_with(
            "Unit 10 of job 1 has run on node a for 2 min, and such a task takes about 4.0 s there"
        ),
        "{of_node}"
    );
    assert!(
        of_job.starts_with("Unit 10 has run on node a for 2 min") && of_job.contains("`hang_seconds`"),
        "{of_job}"
    );
}

#[test]
fn a_slot_that_goes_on_does_not_hang() {
    let mut bench = Bench::new(config());
    bench.run("submit 100 command units 10\n join a slots 1\n ack a\n ran a 0+10 ok,ok,ok,ok,ok,ok,ok,ok,ok,ok ms 4000\n ack a\n");
    bench.run(&it_runs(110));
    bench.run("ran a 10+1 ok ms 1\n at 120000\n beat a 11+9 running 11");
    let story = bench.run("at 130000\n beat a 11+9 running 11");
    assert!(!story.contains("hangs"), "{story}");
    assert!(
        bench
            .farm
            .explain_node("a", bench.now_us)
            .unwrap()
            .reasons
            .iter()
            .all(|reason| reason.code != "hangs")
    );
}
