//! The monitoring tree in the simulator: trees of 1 to 300 nodes over a range of seeds, and every kept seed of
//! `tests/seeds/trees`. Each run must keep the rules, and all of them together must have seen what they are for. Many seeds,
//! and trees of up to 10 000 nodes, are for `cargo xtask soak trees`.

#![allow(clippy::unwrap_used)] // a panic here is the report

use std::path::Path;

use serde::Deserialize;
use starfarm_sim::{TreeModel, TreeTally, trees};

fn run(model: &TreeModel, seed: u64) -> TreeTally {
    trees(model, seed).unwrap_or_else(|violation| panic!("seed {seed} of {model:?}: {violation}"))
}

fn sum(model: &TreeModel, seeds: std::ops::Range<u64>) -> TreeTally {
    let mut sum = TreeTally::default();
    for seed in seeds {
        let run = run(model, seed);
        sum.links += run.links;
        sum.refused += run.refused;
        sum.adopted += run.adopted;
        sum.taken += run.taken;
        sum.dropped += run.dropped;
        sum.closed += run.closed;
        sum.faults += run.faults;
        sum.own += run.own;
        sum.depth = sum.depth.max(run.depth);
    }
    println!("{model:?}: {sum:?}");
    sum
}

#[test]
fn trees_of_a_few_nodes_mend_themselves() {
    for nodes in 1..=6 {
        sum(&TreeModel { nodes, fanout: 2, fault_every_us: 1_000_000, ..TreeModel::default() }, 0..6);
    }
}

#[test]
fn trees_of_some_levels_mend_themselves() {
    let sum = sum(&TreeModel::default(), 0..12);
    let seen =
        [sum.links / 100, sum.refused / 100, sum.adopted, sum.dropped, sum.closed, sum.faults / 10, sum.own];
    assert!(seen.iter().all(|count| *count >= 10) && sum.depth >= 3, "{sum:?}");
}

#[test]
fn trees_whose_machines_carry_several_nodes_mend_themselves() {
    sum(&TreeModel { nodes: 20, per_host: 3, fanout: 4, ..TreeModel::default() }, 0..6);
}

#[test]
fn trees_to_which_much_happens_at_once_mend_themselves() {
    sum(&TreeModel { nodes: 30, fanout: 2, fault_every_us: 500_000, ..TreeModel::default() }, 0..4);
}

#[test]
fn a_tree_of_hundreds_of_nodes_mends_itself() {
    let model = TreeModel { nodes: 300, fanout: 8, faults_s: 10, look_us: 1_000_000, ..TreeModel::default() };
    assert_eq!(sum(&model, 1..2).depth, 3);
}

#[test]
fn a_tree_to_which_nothing_happens_loses_nothing() {
    let sum = sum(&TreeModel { nodes: 20, faults_s: 0, ..TreeModel::default() }, 0..2);
    assert_eq!((sum.dropped, sum.faults), (0, 0));
}

#[test]
fn one_seed_is_one_run() {
    let logs = [1, 1, 2].map(|seed| run(&TreeModel::default(), seed).log);
    assert_eq!(logs[0], logs[1]);
    assert_ne!(logs[0], logs[2]);
}

/// A run that once broke a rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// What went wrong then.
    story: String,
    seed: u64,
    nodes: u32,
    per_host: u32,
    fanout: u32,
    faults_s: u64,
    fault_every_ms: u64,
}

#[test]
fn kept_seeds_stay_repaired() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds/trees");
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let kept: Kept = toml::from_str(&text).unwrap();
        assert!(!kept.story.is_empty());
        let Kept { nodes, per_host, fanout, faults_s, .. } = kept;
        let fault_every_us = kept.fault_every_ms * 1_000;
        run(
            &TreeModel { nodes, per_host, fanout, faults_s, fault_every_us, ..TreeModel::default() },
            kept.seed,
        );
    }
}
