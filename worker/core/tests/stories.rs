//! What a worker says and does, told as scripts. Times in the logs are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use expect_test::{Expect, expect};
use starfarm_protocol::ids::Epoch;
use starfarm_protocol::wire::Facts;
use starfarm_worker_core::Config;

const JOINED: &str = "session\n welcome\n answer\n";

/// Runs a script on a welcomed worker; the log of the joining is left out.
fn check(slots: u16, script: &str, expected: Expect) {
    let mut bench = Bench::new(config(slots));
    bench.run(JOINED);
    expected.assert_eq(&bench.run(script));
}

#[test]
fn a_session_begins_with_hello_and_a_heartbeat_and_hello_repeats_until_the_welcome() {
    let mut bench = Bench::new(config(2));
    let log = bench.run("at 0\n session\n answer\n at 1500\n welcome\n at 2500");
    expect![[r#"
        0: Handshake
        0: send hello slots 2; faster 0 slower 0; beat 1 waiting 0 holds []
        1000: send hello slots 2; faster 0 slower 0; beat 2 waiting 0 holds []
        1500: remember 1
        2000: send faster 2 slower 0; beat 3 waiting 0 holds []
    "#]]
    .assert_eq(&log);
}

#[test]
fn a_task_is_acknowledged_run_reported_and_kept_until_the_result_ack() {
    check(
        1,
        "offer 1 0+10\n at 30\n part 0 1 0+10\n end 0 1\n at 500\n ack 1 1\n at 1900",
        expect![[r#"
            0: start on 0: 1=0+10
            20: send ack [(1, 1)]; faster 1 slower 0
            30: send results #1 Done 0+10
            1000: send faster 3 slower 0; beat 2 waiting 0 holds []
        "#]],
    );
}

#[test]
fn acknowledgements_ride_on_results_when_they_can() {
    check(
        1,
        "offer 1 0+10\n at 5\n part 0 1 0+4\n at 10\n offer 2 20+1\n at 40",
        expect![[r#"
            0: start on 0: 1=0+10
            5: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            30: send ack [(2, 2)]
        "#]],
    );
}

#[test]
fn an_offer_heard_again_is_acknowledged_and_not_run_twice() {
    check(
        1,
        "offer 1 0+10\n offer 1 0+10\n offer 7 0+10\n at 30\n part 0 1 0+10\n end 0 1\n at 60
         offer 1 0+10\n offer 8 0+10\n at 90\n ack 1 1\n offer 9 0+10\n at 120",
        expect![[r#"
            0: start on 0: 1=0+10
            20: send ack [(1, 1), (7, 7)]; faster 1 slower 0
            30: send results #1 Done 0+10
            60: start on 0: 8=0+10
            80: send ack [(1, 1), (8, 8)]
            110: send ack [(9, 9)]
        "#]],
    );
}

#[test]
fn a_retry_that_overtakes_the_end_of_its_failed_run_is_run() {
    check(
        1,
        "offer 1 0+1\n at 30\n part 0 1 0+1\n offer 2 0+1\n end 0 1\n at 60\n part 0 2 0+1\n end 0 2\n at 90",
        expect![[r#"
            0: start on 0: 1=0+1
            20: send ack [(1, 1)]; faster 1 slower 0
            30: send results #1 Done 0+1
            30: start on 0: 2=0+1
            50: send ack [(2, 2)]
            60: send results #2 Done 0+1
        "#]],
    );
}

#[test]
fn offers_beyond_the_queue_are_left_to_the_scheduler_and_slow_it_down() {
    let mut bench = Bench::new(config(1));
    bench.run(JOINED);
    let offers: Vec<_> = (1..=12).map(|n| format!("offer {n} {}+10", n * 10)).collect();
    expect![[r#"
        0: start on 0: 1=10+10
        20: send ack [(1, 9)]; faster 1 slower 0
        1000: send faster 1 slower 1; beat 2 waiting 8 holds [1:10+90]
    "#]]
    .assert_eq(&bench.run(&(offers.join("\n") + "\n at 100\n at 1050")));
    assert_eq!(bench.worker.counters().refused_offers, 3);
}

#[test]
fn a_lost_result_is_repeated_with_a_growing_wait() {
    check(
        1,
        "offer 1 0+1\n offer 2 1+1\n at 30\n part 0 1 0+1\n end 0 1\n at 60\n ack 1 1\n part 0 2 1+1\n end 0 2
         at 900\n answer\n at 990",
        expect![[r#"
            0: start on 0: 1=0+1
            20: send ack [(1, 2)]; faster 1 slower 0
            30: send results #1 Done 0+1
            30: start on 0: 2=1+1
            60: send results #2 Done 1+1
            150: send ages [(2, 90000)]; results #2 Done 1+1
            330: send ages [(2, 270000)]; results #2 Done 1+1
            690: send ages [(2, 630000)]; results #2 Done 1+1
        "#]],
    );
}

#[test]
fn results_in_flight_never_exceed_the_credit() {
    check(
        1,
        "welcome credit 1\n offer 1 0+9\n at 30\n part 0 1 0+1\n at 40\n part 0 1 1+1\n part 0 1 2+1\n at 60
         ack 1 1 credit 0\n at 70\n ack 1 1 credit 2\n at 100",
        expect![[r#"
            0: start on 0: 1=0+9
            20: send ack [(1, 1)]; faster 1 slower 0
            30: send results #1 Done 0+1
            70: send results #2 Done 1+1, #3 Done 2+1
        "#]],
    );
}

#[test]
fn a_revoked_job_gives_back_what_waits_and_ends_what_runs() {
    check(
        2,
        "offer 1 0+10\n offer 2 10+10\n offer 3 20+10\n offer 4 30+10\n offer 5 50+10\n offer 6 60+10 job 2
         offer 9 70+10\n at 30\n revoke 1 graceful 9\n at 40\n revoke 1 graceful 9\n revoke 1 forced 9\n at 50
         part 0 1 0+3\n end 0 1\n end 1 2\n at 60",
        expect![[r#"
            0: start on 0: 1=0+10
            0: start on 1: 2=10+10
            20: send ack [(1, 6), (9, 9)]; faster 1 slower 0
            30: cancel 0 job 1 graceful
            30: cancel 1 job 1 graceful
            30: send results #1 Returned 20+20, #2 Returned 50+10
            40: cancel 0 job 1 forced
            40: cancel 1 job 1 forced
            50: send results #3 Done 0+3
            50: start on 0: 6=60+10
            50: start on 1: 9=70+10
            52: send results #4 Returned 3+7, #5 Returned 10+10
        "#]],
    );
}

#[test]
fn a_task_that_ends_early_goes_back_and_is_run_when_it_is_offered_again() {
    check(
        1,
        "offer 1 0+10\n part 0 1 0+4\n end 0 1\n at 40\n offer 2 0+10\n at 80",
        expect![[r#"
            0: start on 0: 1=0+10
            0: send results #1 Done 0+4; ack [(1, 1)]; faster 1 slower 0
            2: send results #2 Returned 4+6
            40: start on 0: 2=0+10
            60: send ack [(2, 2)]
        "#]],
    );
}

#[test]
fn an_interval_offered_again_after_its_withdrawal_is_run() {
    check(
        1,
        "offer 1 0+10\n offer 2 10+10\n revoke 1 graceful 3\n at 30\n offer 3 0+10\n offer 4 10+10\n end 0 1\n at 60",
        expect![[r#"
            0: start on 0: 1=0+10
            0: cancel 0 job 1 graceful
            0: send results #1 Returned 10+10; ack [(1, 2)]; faster 1 slower 0
            30: start on 0: 3=0+10
            30: send results #2 Returned 0+10; ack [(3, 4)]
        "#]],
    );
}

#[test]
fn a_drained_worker_returns_ends_waits_for_acks_and_says_bye() {
    check(
        1,
        "offer 1 0+10\n offer 2 10+10\n at 30\n drain\n offer 3 20+10\n at 100\n part 0 1 0+5\n end 0 1\n at 150
         ack 1 4\n at 300",
        expect![[r#"
            0: start on 0: 1=0+10
            20: send ack [(1, 2)]; faster 1 slower 0
            30: cancel 0 job 1 graceful
            30: send results #1 Returned 10+10; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10] draining
            32: send results #2 Returned 20+10; ack [(3, 3)]
            100: send results #3 Done 0+5
            102: send results #4 Returned 5+5
            150: send bye
            150: Drained
        "#]],
    );
}

#[test]
fn a_drain_without_acknowledgements_ends_and_keeps_its_results_for_the_spool() {
    let mut bench = Bench::new(config(1));
    bench.run(JOINED);
    let log = bench.run("offer 1 0+10\n part 0 1 0+10\n end 0 1\n drain\n at 6000");
    assert!(log.contains("5000: send bye\n5000: Drained\n"), "{log}");
    let spool = bench.worker.unacknowledged();
    let mut next = Bench::new(config(1));
    assert_eq!(next.worker.restore(&spool), Ok(1));
    assert!(next.worker.restore(&spool[1..]).is_err());
    expect![[r#"
        0: send hello slots 1; faster 0 slower 0; beat 1 waiting 0 holds [1:0+10]
        0: remember 1
        0: send results #1 Done 0+10; faster 1 slower 0
        1000: send faster 2 slower 0; beat 2 waiting 0 holds []
    "#]]
    .assert_eq(&next.run(&(JOINED.to_owned() + "at 10\n ack 1 1\n at 1010")));
}

#[test]
fn three_unanswered_heartbeats_make_a_new_session_and_everything_is_offered_again() {
    check(
        1,
        "offer 1 0+10\n offer 2 10+10\n at 30\n part 0 1 0+10\n end 0 1\n at 5000\n session\n at 5010
         welcome epoch 2\n at 5100\n offer 1 90+1\n revoke 1 graceful 1\n at 5150",
        expect![[r#"
            0: start on 0: 1=0+10
            20: send ack [(1, 2)]; faster 1 slower 0
            30: send results #1 Done 0+10
            30: start on 0: 2=10+10
            1000: send faster 2 slower 0; beat 2 waiting 0 holds [1:0+20]
            1030: send ages [(1, 1000000)]; results #1 Done 0+10
            2000: send faster 3 slower 0; beat 3 waiting 0 holds [1:0+20]
            3000: send faster 4 slower 0; beat 4 waiting 0 holds [1:0+20]
            3030: send ages [(1, 3000000)]; results #1 Done 0+10
            4000: send faster 5 slower 0; beat 5 waiting 0 holds [1:0+20]
            4822: Handshake
            5000: send faster 5 slower 0; beat 6 waiting 0 holds [1:0+20]
            5000: send hello slots 1 knows 1 by 1; faster 5 slower 0; beat 7 waiting 0 holds [1:0+20]
            5010: remember 2
            5010: send ages [(1, 4980000)]; results #1 Done 0+10
            5100: cancel 0 job 1 graceful
            5120: send ack [(1, 1)]
        "#]],
    );
}

/// docs/protocol.md, "New keys".
#[test]
fn in_a_new_session_results_wait_for_the_welcome_and_offers_before_it_come_again() {
    check(
        1,
        "offer 1 0+10\n at 5\n session\n part 0 1 0+10\n end 0 1\n offer 2 10+10\n at 900\n welcome
         at 905\n offer 2 10+10\n at 950",
        expect![[r#"
            0: start on 0: 1=0+10
            5: send hello slots 1 knows 1 by 1; ack [(1, 1)]; faster 1 slower 0; beat 2 waiting 0 holds [1:0+10]
            900: send ages [(1, 895000)]; results #1 Done 0+10; faster 2 slower 0
            905: start on 0: 2=10+10
            925: send ack [(2, 2)]
        "#]],
    );
}

/// docs/protocol.md, "Silence": with nothing to do it goes by the time in the pace, else by three heartbeats.
#[test]
fn a_worker_with_nothing_to_do_that_has_heard_no_message_for_long_shakes_hands_at_a_heartbeat() {
    check(
        1,
        "pace 2000 9000 9000\n at 2950",
        expect![[r#"
        1000: send faster 2 slower 0; beat 2 waiting 0 holds []
        2000: send faster 3 slower 0; beat 3 waiting 0 holds []
        2822: Handshake
    "#]],
    );
    check(
        1,
        "pace 2000 9000 9000\n offer 1 0+10\n at 3950",
        expect![[r#"
        0: start on 0: 1=0+10
        20: send ack [(1, 1)]; faster 1 slower 0
        1000: send faster 2 slower 0; beat 2 waiting 0 holds [1:0+10]
        2000: send faster 3 slower 0; beat 3 waiting 0 holds [1:0+10]
        3000: send faster 4 slower 0; beat 4 waiting 0 holds [1:0+10]
    "#]],
    );
}

#[test]
fn another_epoch_in_an_answer_makes_the_worker_introduce_itself_again() {
    check(
        1,
        "answer epoch 2\n at 10\n welcome epoch 2\n at 20",
        expect![[r#"
            0: send hello slots 1 knows 1 by 1; faster 1 slower 0
            10: remember 2
        "#]],
    );
}

#[test]
fn another_version_of_the_protocol_is_told_to_the_person() {
    let mut bench = Bench::new(config(1));
    let mut welcome = common::welcome(1, 1);
    welcome.version = 9;
    let mut deeds = Vec::new();
    bench.worker.on_session(0, &mut deeds);
    deeds.clear();
    bench.worker.on_datagram(&common::packed(|p| p.welcome(&welcome)), Epoch(1), 0, &mut deeds);
    expect![[r#"[Refused("the scheduler speaks version 9 of the protocol, this worker version 1; install the same release of starfarm on both")]"#]].assert_eq(&format!("{deeds:?}"));
    assert!(!bench.worker.is_welcomed());
}

#[test]
fn heartbeats_of_a_welcomed_worker_tell_its_load_and_every_minute_what_its_machine_is() {
    let facts = Facts { system: "lab-7".into(), ..Facts::default() };
    let mut bench = Bench::new(Config { facts: Some(facts), ..config(2) });
    bench.tells = true;
    let log = bench.run(
        "session\n welcome\n at 500\n offer 1 0+10\n at 1700\n part 0 1 0+10\n end 0 1\n at 1750\n ack 1 1\n at 3100
         session\n welcome epoch 2\n at 4000",
    );
    let told: Vec<_> = log.lines().filter_map(|line| Some(line.split_once("load ")?.1)).collect();
    expect![[r#"
         [500, 0] idle 0 ms; facts lab-7; beat 2 waiting 0 holds [1:0+10]
         [700, 0] idle 300 ms; beat 3 waiting 0 holds []
         [0, 0] idle 1300 ms; beat 4 waiting 0 holds []
    "#]]
    .assert_eq(&(told.join("\n") + "\n"));
    let mut told = Vec::new();
    for second in 4..190 {
        let log = bench.run(&format!("answer epoch 2\n at {}", second * 1_000 + 999));
        assert_eq!(log.matches("load").count(), 1, "each heartbeat: {log}");
        told.extend(log.contains("facts").then_some(second));
    }
    assert_eq!(told, [4, 64, 124, 184]);
}

/// Once a second, it asked for hours on an idle farm, and its curve of speed-ups said nothing.
#[test]
fn an_idle_worker_asks_less_and_less_often_and_anew_once_a_task_came() {
    let mut bench = Bench::new(config(1));
    bench.run(JOINED);
    let mut asked = Vec::new();
    let mut last = String::from("1");
    for second in 1..=400 {
        let mut log = bench.run(&format!("at {}\n answer", second * 1_000));
        if second == 300 {
            log += &bench.run("offer 1 0+10\n part 0 1 0+10\n end 0 1\n at 300150");
        }
        let totals = log.lines().filter_map(|line| line.split_once("faster ")?.1.split_once(' '));
        for (total, _) in totals {
            if total != std::mem::replace(&mut last, total.to_owned()) {
                asked.push(second);
            }
        }
    }
    // Pauses of 100 ms to 60 s, each up to the next heartbeat.
    assert_eq!(asked[..14], [1, 2, 3, 4, 6, 10, 17, 30, 56, 108, 168, 228, 288, 300]);
    assert_eq!(asked[14..], [301, 302, 303, 305, 309, 316, 329, 355]);
}
