//! The everyday size of the power cuts, and the full disk; `cargo xtask soak power-cut` is the full one.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::Duration;

use starfarm_e2e::{binary, run_within, skip};

/// Its exit code where it cannot do its work.
const LACKS: i32 = 77;

/// Runs the program, which mounts in a namespace of its own.
fn run(args: &[&str], need: &str, test: &str) {
    let mut command = Command::new(binary("starfarm-power-cut"));
    command.args(args);
    let reply = run_within(command, Duration::from_secs(280));
    if reply.code == LACKS {
        return skip(need, test, reply.stderr.trim());
    }
    println!("{}", reply.exits(0).stdout);
}

#[test]
fn what_was_acknowledged_outlives_power_cuts() {
    let args = ["--cuts", "20", "--fill-step", "5"];
    run(&args, "loop", "what_was_acknowledged_outlives_power_cuts");
}

#[test]
fn a_full_disk_stops_submissions_then_the_scheduler_and_loses_nothing() {
    run(&["--full-disk"], "tmpfs", "a_full_disk_stops_submissions_then_the_scheduler_and_loses_nothing");
}

#[test]
fn files_that_find_no_room_are_waited_for_at_the_scheduler_and_computed_elsewhere_than_at_a_full_worker() {
    let test = "files_that_find_no_room_are_waited_for_at_the_scheduler_and_computed_elsewhere_than_at_a_full_worker";
    run(&["--full-transfers"], "tmpfs", test);
}
