//! Jobs that start after others, and jobs that only so many nodes work for at once, told as scripts. Times in the stories
//! are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;
use starfarm_protocol::admin::Subject;
use starfarm_protocol::ids::JobId;

#[test]
fn a_chain_of_jobs_runs_one_after_another() {
    check(
        "join a slots 1\n submit 10 units 10\n submit 10 units 10 after 1\n submit 10 units 10 after 1,2\n ack a\n show 2
         show 3\n done a 0+10\n show 2\n ack a\n done a 0+10 job 2\n ack a\n done a 0+10 job 3\n show 3",
        expect![[r#"
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 submitted: 10 units
            0: job 1 running
            0: to a: offer job 1: 1=0+10
            0: job 2 submitted: 10 units
            0: job 2 waiting
            0: job 3 submitted: 10 units
            0: job 3 waiting
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: job 3 is waiting: done 0, out 0, waiting 10, since waits for jobs 1, 2
            0: job 1 finished
            0: job 2 queued
            0: job 2 running
            0: to a: ack results [(1, 1)]; offer job 2: 2=0+10
            0: job 2 is running: done 0, out 10, waiting 0
            0: job 2 finished
            0: job 3 queued
            0: job 3 running
            0: to a: ack results [(2, 2)]; offer job 3: 3=0+10
            0: job 3 finished
            0: job 3 is finished: done 10, out 0, waiting 0
        "#]],
    );
}

#[test]
fn who_waits_for_a_job_that_fails_is_cancelled_and_so_is_who_waits_for_that_one() {
    check_after(
        "join a slots 1\n submit 1 command units 1\n submit 10 units 10 after 1\n submit 10 units 10 after 2
         submit 10 units 10 after-any 1,3\n ack a",
        "ran a 0+1 exit1\n show 2\n show 3\n show 4\n retry 1\n show 2\n submit 9 after 2",
        expect![[r#"
            0: unit 0 of job 1 failed on node a: exit 1
            0: job 1 failed
            0: job 2 cancelled
            0: job 3 cancelled
            0: job 4 queued
            0: job 4 running
            0: to a: ack results [(1, 1)]; offer job 4: 2=0+10
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 10, since job 1 has ended (failed)
            0: job 3 is cancelled: done 0, out 0, waiting 0, abandoned 10, since job 2 has ended (cancelled)
            0: job 4 is running: done 0, out 10, waiting 0
            0: job 1 queued
            0: job 1 running
            0: to a: offer job 1: 3=0+1
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 10
            0: submit: AfterFailed(JobId(2), Cancelled)
        "#]],
    );
}

#[test]
fn a_job_of_no_number_and_one_that_waits_and_is_to_run_now_are_refused() {
    check(
        "submit 10 after 1\n submit 10\n submit 10 after 1,7\n submit 10 after 1 now\n submit 10 after 1 head\n show 2
         switch 2\n resume 2",
        expect![[r#"
            0: submit: NoSuchJob(JobId(1))
            0: job 1 submitted: 10 units
            0: submit: NoSuchJob(JobId(7))
            0: submit: Waits(JobId(1))
            0: job 2 submitted: 10 units
            0: job 2 waiting
            0: job 2 is number 1 in jq
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: Switch: Conflict(Waits(JobId(1)))
            0: Resume: Conflict(NotPaused)
        "#]],
    );
}

#[test]
fn what_has_ended_well_holds_nobody_up_even_when_it_is_deleted() {
    check_after(
        "join a slots 1\n submit 10 units 10\n submit 10 units 10\n submit 10 units 10 after 1,2\n ack a\n done a 0+10",
        "delete 1\n show 3\n ack a\n restart\n hello a\n beat a 0+10 job 2\n show 3\n done a 0+10 job 2\n show 3
         submit 10 units 10 after 2\n show 4",
        expect![[r#"
            0: job 1 deleted
            0: job 3 is waiting: done 0, out 0, waiting 10, since waits for job 2
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: job 3 is waiting: done 0, out 0, waiting 10, since waits for job 2
            0: job 2 finished
            0: job 3 queued
            0: job 3 running
            0: to a: ack results [(2, 2)]; offer job 3: 1099511627777=0+10
            0: job 3 is running: done 0, out 10, waiting 0
            0: job 4 submitted: 10 units
            0: job 4 queued
            0: job 4 running
            0: to a: offer job 4: 1099511627778=0+10
            0: job 4 is running: done 0, out 10, waiting 0
        "#]],
    );
}

#[test]
fn a_job_waits_for_the_merge_too() {
    check_after(
        "join a slots 1\n submit 1 command units 1\n merge 1 waiting\n submit 10 units 10 after 1\n ack a",
        "ran a 0+1 ok\n show 2\n delete 1\n merge 1 running\n show 2\n merge 1 done\n show 2",
        expect![[r#"
            0: job 1 finished
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: Delete: Conflict(Awaited(JobId(2)))
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: job 2 queued
            0: job 2 running
            0: to a: ack results [(1, 1)]; offer job 2: 2=0+10
            0: job 2 is running: done 0, out 10, waiting 0
        "#]],
    );
    check_after(
        "join a slots 1\n submit 1 command units 1\n merge 1 waiting\n submit 10 units 10 after 1
         submit 10 units 10 after-any 1\n ack a",
        "ran a 0+1 ok\n merge 1 failed\n show 2\n show 3",
        expect![[r#"
            0: job 1 finished
            0: job 2 cancelled
            0: job 3 queued
            0: job 3 running
            0: to a: ack results [(1, 1)]; offer job 3: 2=0+10
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 10, since the results of job 1 could not be merged
            0: job 3 is running: done 0, out 10, waiting 0
        "#]],
    );
}

#[test]
fn a_paused_job_waits_on_and_is_cancelled_all_the_same() {
    check_after(
        "submit 10 units 10\n submit 10 units 10 after 1\n submit 10 units 10 after 1",
        "pause 2\n show 2\n resume 2\n show 2\n pause 3\n cancel 1\n show 2\n show 3",
        expect![[r#"
            0: job 2 paused
            0: job 2 is paused: done 0, out 0, waiting 10
            0: job 2 waiting
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: job 3 paused
            0: job 1 cancelled
            0: job 2 cancelled
            0: job 3 cancelled
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 10, since job 1 has ended (cancelled)
            0: job 3 is cancelled: done 0, out 0, waiting 0, abandoned 10, since job 1 has ended (cancelled)
        "#]],
    );
}

#[test]
fn a_restart_forgets_no_link() {
    check_after(
        "join a slots 1\n submit 10 units 10\n submit 10 units 10 after 1\n ack a",
        "restart\n hello a\n show 2\n checkpoint\n restart\n hello a\n beat a 0+10\n done a 0+10\n show 2",
        expect![[r#"
            0: node a is back
            0: to a: welcome epoch 2
            0: job 2 is waiting: done 0, out 0, waiting 10, since waits for job 1
            0: node a is back
            0: to a: welcome epoch 3
            0: to a: answer 1
            0: job 1 finished
            0: job 2 queued
            0: job 2 running
            0: to a: ack results [(1, 1)]; offer job 2: 2199023255553=0+10
            0: job 2 is running: done 0, out 10, waiting 0
        "#]],
    );
    // The scheduler dies between the record of the links and that of the job: the job never was, and the next has none.
    check_after(
        "submit 10 units 10",
        "hold\n submit 10 units 10 after 1\n restart keeping 1\n submit 20 units 10\n show 2",
        expect![[r#"
            0: job 2 submitted: 10 units
            0: job 2 waiting
            0: job 2 submitted: 20 units
            0: job 2 is queued: done 0, out 0, waiting 20
        "#]],
    );
    // It dies between the end of a job and what follows from it.
    check_after(
        "join a slots 1\n submit 10 units 10\n submit 10 units 10 after 1\n ack a",
        "hold\n cancel 1\n restart keeping 1\n show 1\n show 2",
        expect![[r#"
            0: job 1 cancelled
            0: job 2 cancelled
            0: to a: withdraw job 1 kill before 2
            0: job 2 cancelled
            0: job 1 is cancelled: done 0, out 0, waiting 0, abandoned 10
            0: job 2 is cancelled: done 0, out 0, waiting 0, abandoned 10, since job 1 has ended (cancelled)
        "#]],
    );
}

#[test]
fn one_node_works_for_the_job_and_its_place_is_free_when_it_is_lost() {
    check_after(
        "join a slots 1\n join b slots 1\n submit 100 units 10 max-nodes 1\n ack a",
        "tasks a\n tasks b\n beat b none\n done a 0+10\n tasks b\n live 16000 b none\n tasks a\n tasks b\n show 1",
        expect![[r#"
            0: a has 2 tasks
            0: b has 0 tasks
            0: to b: answer 1
            0: to a: ack results [(1, 1)]; offer job 1: 3=20+10
            0: b has 0 tasks
            50: offered 1 task again to node a
            50: to a: offer job 1: 3=20+10
            150: offered 1 task again to node a
            150: to a: offer job 1: 3=20+10
            350: offered 1 task again to node a
            350: to a: offer job 1: 3=20+10
            750: offered 1 task again to node a
            750: to a: offer job 1: 3=20+10
            1550: offered 1 task again to node a
            1550: to a: offer job 1: 3=20+10
            3150: offered 1 task again to node a
            3150: to a: offer job 1: 3=20+10
            5000: node a suspect: no heartbeat
            5150: offered 1 task again to node a
            5150: to a: offer job 1: 3=20+10
            7150: offered 1 task again to node a
            7150: to a: offer job 1: 3=20+10
            9150: offered 1 task again to node a
            9150: to a: offer job 1: 3=20+10
            11150: offered 1 task again to node a
            11150: to a: offer job 1: 3=20+10
            13150: offered 1 task again to node a
            13150: to a: offer job 1: 3=20+10
            15000: node a lost: 2 tasks back to gq
            15000: to b: offer job 1: 4=10+10 5=20+10
            15200: offered 2 tasks again to node b
            15200: to b: offer job 1: 4=10+10 5=20+10
            15600: offered 2 tasks again to node b
            15600: to b: offer job 1: 4=10+10 5=20+10
            16000: a has 0 tasks
            16000: b has 2 tasks
            16000: job 1 is running: done 10, out 20, waiting 70, resent tasks 2
        "#]],
    );
}

#[test]
fn a_node_that_comes_back_finds_its_place_taken() {
    check_after(
        "join a slots 1\n join b slots 1\n submit 100 units 10 max-nodes 1\n ack a\n live 16000 b none\n ack b",
        "beat a 0+10\n tasks a\n tasks b\n done a 0+10\n show 1",
        expect![[r#"
            16000: node a is back
            16000: to a: answer 1; withdraw job 1 kill before 5
            16000: a has 0 tasks
            16000: b has 2 tasks
            16000: to b: offer job 1: 5=20+10
            16000: job 1 is running: done 10, out 20, waiting 70, resent tasks 2
        "#]],
    );
}

#[test]
fn an_idle_node_gets_no_copy_where_the_job_has_its_nodes() {
    check_after(
        "submit 30 search 9 targets never units 10 copies max-nodes 1\n join a slots 1\n ack a\n done a 0+10
         ack a\n join b slots 1\n return a 10+10\n return a 20+10\n ack b\n done b 10+10\n ack b",
        "live 9000 a none b 20+10\n tasks a\n tasks b\n show 1",
        expect![[r#"
            0: to a: ack results [(2, 3)]
            0: to b: ack results [(1, 1)]
            9000: a has 0 tasks
            9000: b has 1 tasks
            9000: job 1 is running: done 20, out 10, waiting 0, resent tasks 2
        "#]],
    );
}

#[test]
fn after_a_restart_nobody_takes_the_place_of_who_had_one() {
    check_after(
        "join a slots 1\n join b slots 1\n submit 100 units 10 max-nodes 1\n ack a",
        "restart\n hello b\n beat b none\n tasks b\n hello a\n beat a 0+10,10+10\n tasks a\n tasks b",
        expect![[r#"
            0: node b is back
            0: to b: welcome epoch 2
            0: to b: answer 1
            0: b has 0 tasks
            0: node a is back
            0: to a: welcome epoch 2
            0: to a: answer 1
            0: a has 2 tasks
            0: b has 0 tasks
        "#]],
    );
}

#[test]
fn a_person_gives_a_job_more_nodes_and_fewer() {
    check_after(
        "join a slots 1\n join b slots 1\n join c slots 1\n submit 100 units 10 max-nodes 1\n ack a",
        "limit 1 max-nodes 2\n ack b\n tasks a\n tasks b\n tasks c\n limit 1 max-nodes none\n ack c\n tasks c\n \
         limit 1 max-nodes 1\n done b 20+10\n done a 0+10\n tasks b\n done b 30+10\n done c 40+10\n done c 50+10\n ack a\n \
         done a 10+10\n tasks a\n tasks b\n tasks c\n checkpoint\n restart\n hello a\n hello b\n beat a none\n beat b none\n hello c\n beat c none\n ack a\n live +100 a none\n tasks a\n tasks b\n tasks c",
        expect![[r#"
            0: limits of job 1: max_nodes 2, storage_limit none
            0: to b: offer job 1: 3=20+10 4=30+10
            0: a has 2 tasks
            0: b has 2 tasks
            0: c has 0 tasks
            0: limits of job 1: max_nodes none, storage_limit none
            0: to c: offer job 1: 5=40+10 6=50+10
            0: c has 2 tasks
            0: limits of job 1: max_nodes 1, storage_limit none
            0: to a: ack results [(1, 1)]; offer job 1: 7=60+10
            0: b has 1 tasks
            0: to a: ack results [(2, 2)]; offer job 1: 8=70+10
            0: a has 2 tasks
            0: b has 0 tasks
            0: c has 0 tasks
            0: node a is back
            0: to a: welcome epoch 2
            0: node b is back
            0: to b: welcome epoch 2
            0: to a: answer 1
            0: to b: answer 1
            0: node c is back
            0: to c: welcome epoch 2
            0: to c: answer 1
            0: to a: offer job 1: 1099511627777=60+10 1099511627778=70+10
            100: a has 2 tasks
            100: b has 0 tasks
            100: c has 0 tasks
        "#]],
    );
}

#[test]
fn the_nodes_of_a_job_with_a_tree_of_its_own_are_known_whatever_its_limits_are() {
    let mut bench = Bench::new(config());
    let of = |bench: &Bench| format!("{:?}", bench.farm.own_trees());
    bench.run("join a slots 1\n join b slots 1\n submit 100 units 10 own-tree\n submit 100 units 10\n ack a\n ack b");
    assert_eq!(of(&bench), r#"{JobId(1): {"a", "b"}}"#);
    bench.run("limit 1 max-nodes 1\n limit 1 max-nodes none\n done a 0+10");
    assert_eq!(of(&bench), r#"{JobId(1): {"a", "b"}}"#);
    bench.run("checkpoint\n restart");
    assert_eq!(of(&bench), "{JobId(1): {}}", "nobody has said yet what it holds");
    bench.run("hello b\n beat b none");
    bench.run("cancel 1");
    assert_eq!(of(&bench), "{}");
}

#[test]
fn why_a_job_waits_and_a_node_gets_nothing() {
    let mut bench = Bench::new(config());
    bench.run(
        "join a slots 1\n join b slots 1\n submit 100 units 10 max-nodes 1\n submit 10 units 10 after 1",
    );
    let mut told = String::new();
    for subject in [Subject::Job(JobId(1)), Subject::Job(JobId(2)), Subject::Node("b".into())] {
        let why = bench.farm.explain(&subject, bench.now_us).unwrap();
        for (at, reason) in why.reasons.iter().enumerate() {
            told += &format!("{} {reason:?}\n", if at == why.verdict { '*' } else { '-' });
        }
    }
    expect![[r#"
        - Job(MaxNodes { nodes: 1 })
        * Job(Runs { nodes: 1, taking: 2 })
        - Place(AtNode { node: "a", lo: Units(0), hi: Units(10), for_us: 0, offer: Offered, copy: None })
        - Place(AtNode { node: "a", lo: Units(10), hi: Units(20), for_us: 0, offer: Offered, copy: None })
        * Job(After { jobs: [JobId(1)] })
        * Work(MaxNodes)
        - Offer(JobId(1), MaxNodes { nodes: 1 })
        - Offer(JobId(2), After { jobs: [JobId(1)] })
    "#]]
    .assert_eq(&told);
}
