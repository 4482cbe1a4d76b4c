//! Which incarnation of the scheduler a worker obeys, told as scripts. Times in the logs are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::ids::Epoch;
use starfarm_protocol::wire::Pace;
use starfarm_worker_core::{Config, Known};

/// A worker that a scheduler of epoch 5 has welcomed, or an earlier incarnation of it; the log of that is left
/// out.
fn check(script: &str, expected: Expect) -> Bench {
    let mut bench = Bench::new(config(1));
    bench.run("session\n welcome epoch 5\n answer epoch 5\n");
    expected.assert_eq(&bench.run(script));
    bench
}

#[test]
fn an_older_scheduler_is_not_obeyed_and_hears_in_each_session_what_is_known() {
    let bench = check(
        "offer 1 0+10\n part 0 1 0+4\n at 10\n session\n welcome epoch 4\n offer 7 50+10\n ack 1 1
         revoke 1 forced 99\n answer epoch 4\n at 3000\n session\n welcome epoch 4\n at 20000\n session
         welcome epoch 6\n offer 8 70+10\n at 20030",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            10: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10]
            10: say the scheduler that answers is incarnation 4
            832: Handshake
            1760: Handshake
            3000: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 3 waiting 0 holds [1:0+10]
            6780: Handshake
            9748: Handshake
            14279: Handshake
            20000: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 4 waiting 0 holds [1:0+10]
            20000: remember 6
            20000: send ages [(1, 20000000)]; results #1 Done 0+4; faster 2 slower 0
            20020: send ack [(8, 8)]
        "#]],
    );
    assert!(bench.worker.counters().older_epochs >= 6);
}

#[test]
fn words_that_come_late_by_a_session_of_an_earlier_epoch_change_nothing() {
    let bench = check(
        "offer 1 0+10\n offer 2 10+10\n part 0 1 0+4\n at 10\n session\n welcome epoch 6\n at 50\n offer 3 20+10 by 5
         ack 1 1 by 5\n revoke 1 forced 99 by 5\n answer epoch 5 by 5\n welcome epoch 5\n at 100\n ack 1 1 by 6\n at 1100",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 2)]; faster 1 slower 0
            10: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 2 waiting 1 holds [1:0+20]
            10: remember 6
            10: send results #1 Done 0+4
            50: say the scheduler that answers is incarnation 5
            1010: send faster 1 slower 0; beat 3 waiting 1 holds [1:4+16]
        "#]],
    );
    assert!(bench.worker.is_welcomed(), "a late word ends no trust in the present session");
}

/// It was believed without a session to answer in: results were due, nothing could send them, and the rim turned for ever.
#[test]
fn a_welcome_that_comes_late_while_no_session_is_there_waits_for_the_next_one() {
    check(
        "offer 1 0+10\n part 0 1 0+4\n at 10\n session\n welcome epoch 4\n welcome epoch 5\n at 500
         at 3000\n session\n welcome epoch 5\n at 3010",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            10: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10]
            10: say the scheduler that answers is incarnation 4
            832: Handshake
            1760: Handshake
            3000: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 3 waiting 0 holds [1:0+10]
            3000: send ages [(1, 3000000)]; results #1 Done 0+4; faster 2 slower 0
        "#]],
    );
}

#[test]
fn attempts_of_an_earlier_epoch_are_not_acknowledged_to_the_next_one() {
    check(
        "at 10\n offer 7 0+10\n welcome epoch 6\n at 60",
        expect![[r#"
        10: start on 0: 7=0+10
        10: remember 6
    "#]],
    );
}

#[test]
fn an_answer_that_names_an_older_epoch_does_not_move_the_credit() {
    check(
        "welcome epoch 5 credit 0\n answer epoch 4 by 5\n offer 1 0+10\n part 0 1 0+4\n at 900\n answer epoch 5\n at 990",
        expect![[r#"
            0: start on 0: 1=0+10
            20: send ack [(1, 1)]; faster 1 slower 0
            900: send ages [(1, 900000)]; results #1 Done 0+4; faster 2 slower 0
        "#]],
    );
}

#[test]
fn what_an_earlier_incarnation_of_the_worker_knew_holds_for_the_next_one() {
    let known = Known { epoch: Epoch(5), proof: [5; 16] };
    let mut bench = Bench::new(Config { known, ..config(1) });
    expect![[r#"
        0: Handshake
        0: send hello slots 1 knows 5 by 5; faster 0 slower 0; beat 1 waiting 0 holds []
        0: say the scheduler that answers is incarnation 4
    "#]]
    .assert_eq(&bench.run("at 0\n session\n welcome epoch 4\n offer 1 0+10\n at 30"));
    expect![[r#"
        40: send hello slots 1 knows 5 by 5; faster 0 slower 0; beat 2 waiting 0 holds []
        40: start on 0: 1=0+10
        60: send ack [(1, 1)]; faster 1 slower 0
    "#]]
    .assert_eq(&bench.run("at 40\n session\n welcome epoch 5\n offer 1 0+10\n at 70"));
}

/// A directory was copied, and both were started: the numbers are the same, the starts are not.
#[test]
fn another_start_with_the_same_number_is_not_obeyed() {
    let known = Known { epoch: Epoch(5), proof: [55; 16] };
    let mut bench = Bench::new(Config { known, ..config(1) });
    expect![[r#"
        0: Handshake
        0: send hello slots 1 knows 5 by 55; faster 0 slower 0; beat 1 waiting 0 holds []
        0: say the scheduler that answers is another one than that which was here with the same number
    "#]]
    .assert_eq(&bench.run("at 0\n session\n welcome epoch 5\n offer 1 0+10\n at 30"));
}

#[test]
fn a_scheduler_of_another_farm_gets_nothing() {
    check(
        "offer 1 0+10\n part 0 1 0+4\n at 10\n session\n welcome epoch 9 farm 2\n offer 7 50+10\n ack 1 1\n at 500
         session\n welcome epoch 5\n at 510",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            10: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10]
            10: say the scheduler says it is of farm 02020202020202020202020202020202
            500: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 3 waiting 0 holds [1:0+10]
            500: send ages [(1, 500000)]; results #1 Done 0+4; faster 2 slower 0
        "#]],
    );
}

#[test]
fn a_worker_drains_beside_a_scheduler_that_it_does_not_obey() {
    let mut bench = check(
        "offer 1 0+10\n part 0 1 0+4\n at 10\n session\n welcome epoch 4\n drain\n end 0 1\n at 6000",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            10: send hello slots 1 knows 5 by 5; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10]
            10: say the scheduler that answers is incarnation 4
            10: cancel 0 job 1 graceful
            832: Handshake
            1760: Handshake
            3651: Handshake
            5010: Drained
        "#]],
    );
    assert_eq!(Bench::new(config(1)).worker.restore(&bench.worker.unacknowledged()), Ok(1));
    assert_eq!(bench.run("at 7000"), "");
}

#[test]
fn the_pace_is_that_of_the_scheduler_that_is_obeyed() {
    let pace = |idle_ms| Pace { idle_ms, reconnect_ms: 2_000, period_ms: 3_000 };
    let mut bench = Bench::new(config(1));
    assert_eq!(bench.worker.pace(), Pace::DEFAULT);
    bench.run("session\n welcome epoch 5\n pace 9000 2000 3000");
    assert_eq!(bench.worker.pace(), pace(9_000));
    // The welcome that is heard twice changes nothing; another scheduler that names no pace has the usual one.
    bench.run("welcome epoch 5");
    assert_eq!(bench.worker.pace(), pace(9_000));
    bench.run("at 10\n session\n welcome epoch 6");
    assert_eq!(bench.worker.pace(), Pace::DEFAULT);
    bench.run("pace 8000 2000 3000 by 5");
    assert_eq!(bench.worker.pace(), Pace::DEFAULT, "words of an earlier one");
    bench.run("pace 7000 2000 3000 by 6");
    assert_eq!(bench.worker.pace(), pace(7_000));
}
