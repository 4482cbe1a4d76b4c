//! The everyday size of the torture; `cargo xtask soak torture` is the full one.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::torture::{self, Kills, Kind, Plan};

#[test]
fn a_search_survives_kills_pauses_and_cuts_and_every_planted_hit_is_there_once() {
    println!("{}", torture::run(&Plan::quick(Kind::Search)));
}

#[test]
fn programs_that_append_to_a_file_have_all_run_and_none_is_called_done_that_has_not() {
    println!("{}", torture::run(&Plan::quick(Kind::Command)));
}

#[test]
fn files_are_whole_and_there_once_whoever_is_killed_while_they_are_on_their_way() {
    println!("{}", torture::run(&Plan::quick(Kind::Files)));
}

#[test]
fn monitoring_trees_live_through_kills_of_everything_and_no_unit_notices() {
    println!("{}", torture::kills(&Kills { workers: 8, fanout: 2, seconds: 20, seed: 1 }));
}

#[test]
fn a_network_that_loses_a_fifth_makes_workers_compute_little_twice() {
    let report = torture::run(&Plan::waste(200, 10));
    println!("{report}");
    assert!(report.waste().unwrap() <= 0.1, "{report}");
}
