//! What a job may store, told as scripts: it waits for a person when its outputs take that much, and what ran counts.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, check, check_after, config};
use expect_test::expect;
use starfarm_protocol::ids::JobId;
use starfarm_scheduler_core::{Deeds, Retention};

/// A job that may store 100 bytes, a node, and one unit that ran.
const STORING: &str = "submit 6 command units 1 may-store 100\n join a slots 1\n ack a\n ran a 0+1 ok";

#[test]
fn a_job_that_stores_too_much_is_paused_and_what_ran_counts() {
    check_after(
        STORING,
        "stored 1 99\n stored 1 100\n \
         ran a 1+1 ok\n stored 1 130\n show 1",
        expect![[r#"
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: job 1 is paused: done 2, out 1, waiting 3, since its outputs take 100 bytes, and storage_limit is 100
        "#]],
    );
}

#[test]
fn a_person_lets_it_store_as_much_again_and_no_restart_forgets_that() {
    check_after(
        STORING,
        "stored 1 120\n resume 1\n \
         checkpoint\n restart\n hello a\n stored 1 219\n show 1\n restart\n stored 1 220\n resume 1\n stored 1 319\n \
         stored 1 320\n show 1",
        expect![[r#"
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: job 1 running
            0: node a is back
            0: to a: welcome epoch 2
            0: job 1 is running: done 1, out 5, waiting 0
            0: job 1 paused
            0: job 1 running
            0: job 1 paused
            0: job 1 is paused: done 1, out 5, waiting 0, since its outputs take 320 bytes, and storage_limit is 100
        "#]],
    );
}

#[test]
fn a_job_that_was_paused_for_what_it_stores_goes_on_when_its_limit_allows_that() {
    check_after(
        STORING,
        "stored 1 120\n limit 1 may-store 120\n show 1\n limit 1 may-store 121\n show 1\n stored 1 121\n \
         limit 1 may-store none\n stored 1 999\n show 1",
        expect![[r#"
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: limits of job 1: max_nodes none, storage_limit 120
            0: job 1 is paused: done 1, out 2, waiting 3, since its outputs take 120 bytes, and storage_limit is 120
            0: limits of job 1: max_nodes none, storage_limit 121
            0: job 1 running
            0: job 1 is running: done 1, out 2, waiting 3
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: limits of job 1: max_nodes none, storage_limit none
            0: job 1 running
            0: job 1 is running: done 1, out 2, waiting 3
        "#]],
    );
}

#[test]
fn a_limit_below_what_a_job_stores_pauses_it_at_once() {
    check_after(
        STORING,
        "stored 1 99\n limit 1 may-store 50\n show 1\n resume 1\n stored 1 148\n limit 1 may-store 149\n stored 1 149",
        expect![[r#"
            0: limits of job 1: max_nodes none, storage_limit 50
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: job 1 is paused: done 1, out 2, waiting 3, since its outputs take 99 bytes, and storage_limit is 50
            0: job 1 running
            0: limits of job 1: max_nodes none, storage_limit 149
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
        "#]],
    );
}

#[test]
fn what_a_person_paused_or_what_has_ended_is_not_let_go_on_by_a_limit() {
    check_after(
        STORING,
        "pause 1\n stored 1 120\n limit 1 may-store none\n show 1\n cancel 1\n limit 1 may-store 5\n limit 7 may-store 5",
        expect![[r#"
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: limits of job 1: max_nodes none, storage_limit none
            0: job 1 is paused: done 1, out 2, waiting 3
            0: job 1 cancelled
            0: to a: withdraw job 1 kill before 4
            0: Limit(StorageLimit(Some(5))): Conflict(Ended(Cancelled))
            0: Limit(StorageLimit(Some(5))): NotFound
        "#]],
    );
}

#[test]
fn a_restart_knows_the_new_limit_and_what_counts_for_it() {
    check_after(
        STORING,
        "stored 1 120\n resume 1\n limit 1 may-store 150\n \
         checkpoint\n restart\n hello a\n stored 1 149\n show 1\n stored 1 150\n \
         restart\n hello a\n limit 1 may-store 140\n show 1\n limit 1 may-store 151\n show 1",
        expect![[r#"
            0: job 1 paused
            0: to a: withdraw job 1 trim before 4
            0: job 1 running
            0: limits of job 1: max_nodes none, storage_limit 150
            0: node a is back
            0: to a: welcome epoch 2
            0: job 1 is running: done 1, out 5, waiting 0
            0: job 1 paused
            0: node a is back
            0: to a: welcome epoch 3
            0: limits of job 1: max_nodes none, storage_limit 140
            0: job 1 is paused: done 1, out 5, waiting 0, since its outputs take 150 bytes, and storage_limit is 140
            0: limits of job 1: max_nodes none, storage_limit 151
            0: job 1 running
            0: job 1 is running: done 1, out 5, waiting 0
        "#]],
    );
}

#[test]
fn a_job_whose_last_unit_is_decided_is_not_paused() {
    check(
        "submit 1 command units 1 may-store 100\n join a slots 1\n ack a\n & stored 1 90\n ran a 0+1 ok\n stored 1 120\n \
         show 1",
        expect![[r#"
            0: job 1 submitted: 1 unit
            0: node a joined: 1 slot, boot 0000000000000001
            0: to a: welcome epoch 1
            0: job 1 running
            0: to a: offer job 1: 1=0+1
            0: job 1 finished
            0: job 1 is finished: done 1, out 0, waiting 0
        "#]],
    );
}

#[test]
fn only_ended_jobs_that_nobody_waits_for_expire() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 1 command units 1\n submit 1 command units 1\n submit 9 command units 1\n join a slots 1\n ack a\n \
         ran a 0+1 ok\n ack a\n ran a 0+1 ok job 2\n stored 1 70\n stored 2 30\n stored 3 900\n at +5000",
    );
    let expired = |bench: &Bench, for_us, below| {
        let expired = bench.farm.expired(Retention { for_us, below }, 1_000, bench.now_us);
        expired.iter().map(|(job, _)| job.0).collect::<Vec<_>>()
    };
    assert_eq!(expired(&bench, Some(1), None), [1, 2]);
    assert_eq!(expired(&bench, Some(6_000_000), None), [0; 0]);
    assert_eq!(expired(&bench, None, Some(950)), [1]);
    assert_eq!(expired(&bench, None, Some(0)), [1, 2], "what has not ended stays");
    bench.run("submit 5 command units 1 after 2\n merge 2 waiting");
    let now_us = bench.now_us;
    let [(_, why), ..] = bench.farm.expired(Retention { for_us: Some(1), below: None }, 0, now_us)[..] else {
        panic!("some expire")
    };
    let mut deeds = Deeds::default();
    bench.farm.delete_expired(JobId(1), why, now_us, &mut deeds).unwrap();
    assert!(format!("{deeds:?}").contains("longer than --keep-jobs-for says"), "{deeds:?}");
    bench.farm.delete_expired(JobId(3), why, now_us, &mut deeds).unwrap_err();
}
