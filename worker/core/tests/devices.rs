//! Devices beside the cores of a worker.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_protocol::devices::DeviceFacts;
use starfarm_worker_core::{AlikeDevices, Config};

/// Two cores, two cards as devices of kind 1, and one device that is no card.
fn bench() -> Bench {
    let facts = |name: &str| DeviceFacts { name: name.into(), ..DeviceFacts::default() };
    let devices = vec![
        AlikeDevices { facts: facts("card"), cards: vec![Some(0), Some(1)] },
        AlikeDevices { facts: facts("other"), cards: vec![None] },
    ];
    let mut bench = Bench::new(Config { devices, gpus: 2, queue_tasks_max: 64, ..config(2) });
    bench.run("session\n welcome");
    bench
}

/// What was started, as "SLOT: ATTEMPT".
fn started(log: &str) -> Vec<String> {
    log.lines()
        .filter_map(|line| {
            line.split_once("start on ").map(|(_, what)| what.split('=').next().unwrap().to_owned())
        })
        .collect()
}

/// The last thing of that kind that was said.
fn said<'a>(log: &'a str, what: &str) -> Vec<&'a str> {
    log.split(['\n', ';']).map(str::trim).filter(|said| said.contains(what)).collect()
}

#[test]
fn each_kind_of_slots_has_its_own_queue() {
    let mut bench = bench();
    let log = bench.run(
        "offer 1 0+10 kind 1\n offer 2 10+1\n offer 3 20+10 kind 1\n offer 4 30+10 kind 1\n offer 5 40+9 kind 2
         offer 6 50+1\n offer 7 60+1",
    );
    assert_eq!(started(&log), ["2: 1", "0: 2", "3: 3", "4: 5", "1: 6"], "{log}");
    assert_eq!(bench.worker.idle_slots(), 0);
    let log = bench.run("part 2 1 0+10\n end 2 1");
    assert_eq!(started(&log), ["2: 4"], "what waited for such a device: {log}");
    let log = bench.run("at 3000");
    assert_eq!(
        said(&log, "holds").last().unwrap(),
        &"beat 4 waiting 1 holds [1:40+9]",
        "the last part of a heartbeat is of the last kind: {log}"
    );
    for part in ["holds [1:0+11 1:50+1 1:60+1]", "of 1", "holds [1:20+20]", "of 2", "holds [1:40+9]"] {
        assert!(!said(&log, part).is_empty(), "{part}: {log}");
    }
    assert_eq!(said(&log, "devices 1").last().unwrap(), &"devices 1 waiting 0 [ready 1000, ready 1000]");
}

#[test]
fn a_device_that_fails_gives_its_task_back_and_gets_none_until_it_is_ready() {
    let mut bench = bench();
    bench.run("offer 1 0+10 kind 1\n offer 2 10+10 kind 1\n offer 3 20+10 kind 1\n at 100");
    let log = bench.run("device 2 sick\n end 2 1\n at 200");
    assert!(log.contains("Returned 0+10") && started(&log).is_empty(), "{log}");
    assert_eq!(said(&log, "devices 1"), ["devices 1 waiting 1 [sick 0, ready 0]"], "at once: {log}");
    let log = bench.run("device 3 sick\n end 3 2\n at 300");
    assert!(log.contains("Returned 10+10") && log.contains("Returned 20+10"), "nobody is left for it: {log}");
    let log = bench.run("device 2 ready\n offer 4 0+10 kind 1\n offer 5 10+10 kind 1");
    assert_eq!(started(&log), ["2: 4"], "{log}");
    assert_eq!(started(&bench.run("device 3 compiling")), ["3: 5"], "it is about to be ready");
}

#[test]
fn a_card_is_a_device_or_a_programs_and_whoever_waited_first_has_it() {
    let mut bench = bench();
    let log = bench.run("offer 1 0+1 job 2 halves 2\n offer 2 0+10 kind 1\n offer 3 10+10 kind 1\n at 100");
    assert!(log.contains("start on 0: 1=0+1 on cards [0]"), "{log}");
    assert_eq!(started(&log), ["0: 1", "3: 2"], "the other card is free: {log}");
    let log = bench.run("at 1100");
    assert_eq!(said(&log, "devices 1").last().unwrap(), &"devices 1 waiting 1 [taken 0, ready 1000]");
    // A program that waits for both cards keeps the one that is free first.
    bench.run("offer 4 1+1 job 2 halves 4");
    let log = bench.run("end 0 1");
    assert!(started(&log).is_empty(), "card 0 is kept: {log}");
    let log = bench.run("part 3 2 0+10\n end 3 2");
    assert!(log.contains("4=1+1 on cards [0, 1]"), "{log}");
    assert!(log.contains("Returned 10+10") || bench.run("at 1300").contains("Returned 10+10"), "{log}");
    assert!(bench.run("end 0 4\n offer 5 20+10 kind 1").contains("start on 2: 5"));
}

#[test]
fn what_is_for_devices_that_are_not_there_goes_back() {
    let mut bench = bench();
    let log = bench.run("offer 1 0+10 kind 3\n offer 2 10+10 kind 200\n at 100");
    assert!(log.contains("Returned 0+10") && log.contains("Returned 10+10"), "{log}");
}

#[test]
fn a_worker_that_leaves_gives_back_what_waits_for_devices() {
    let mut bench = bench();
    bench.run("offer 1 0+10 kind 2\n offer 2 10+10 kind 2");
    let log = bench.run("drain\n at 100");
    assert!(log.contains("Returned 10+10") && log.contains("cancel 4 job 1 graceful"), "{log}");
    assert!(!bench.run("at 20000").contains("Drained"), "the device still runs something");
    assert!(bench.run("part 4 1 0+4\n end 4 1\n at 21000\n ack 1 3\n at 22000").contains("Drained"));
}
