//! The everyday size of the torture; `cargo xtask soak torture` is the full one.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::torture::{self, Kind, Plan};

/// Until the scheduler keeps its jobs, a restart would lose them.
fn quick(kind: Kind) -> Plan {
    Plan { scheduler_kills: 0, ..Plan::quick(kind) }
}

#[test]
fn a_search_survives_kills_pauses_and_cuts_and_every_planted_hit_is_there_once() {
    println!("{}", torture::run(&quick(Kind::Search)));
}

#[test]
fn programs_that_append_to_a_file_have_all_run_and_none_is_called_done_that_has_not() {
    println!("{}", torture::run(&quick(Kind::Command)));
}
