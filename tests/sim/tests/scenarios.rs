//! Every scenario of `tests/scenarios` over its seeds, in its shortened form, and every kept seed of
//! `tests/seeds`. The whole paper runs are made by hand: `starfarm-sim run FILE` in release.

#![allow(clippy::unwrap_used)] // a panic here is the report

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use starfarm_logs::Item;
use starfarm_logs::replay::{Window, replay};
use starfarm_sim::{Scenario, Sim, Tally};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn load(name: &str) -> Scenario {
    let path = folder("scenarios").join(format!("{name}.toml"));
    Scenario::load(&path).unwrap_or_else(|error| panic!("{error}")).shortened()
}

fn run(name: &str, seed: u64) -> Tally {
    Sim::new(&load(name), seed).run().unwrap_or_else(|violation| {
        panic!(
            "{violation}\nrun `starfarm-sim run tests/scenarios/{name}.toml --short --seed {seed} --verbose`"
        )
    })
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                for seed in 1..=load(stringify!($name)).seeds {
                    run(stringify!($name), seed);
                }
            }
        )*
    };
}

scenarios!(
    all_back buffers calm cards chains checked clocks commands deadlines devices doubted drain eight_devices figure3 growing guangzhou guangzhou_8s half_too_large hangs ill_behaved jobs liars lossy many million
    mole mole_8s narrow old_copies orders paged_hits pause_many poison recut refusals restarts second_choice sessions sick
    slow_boot slow_disk small_disks small_turns starts storm stragglers supplanted swizzle together torn unlike unproven upheaval wide
);

/// The stems of the TOML files in a folder.
fn stems(name: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder(name)).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let toml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    toml.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_scenario_has_a_test() {
    let tested: BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(stems("scenarios"), tested);
}

#[test]
fn some_results_over_whole_tasks_come_when_others_had_counted_a_part_of_them() {
    let in_vain: u64 = (1..=load("recut").seeds).map(|seed| run("recut", seed).in_vain).sum();
    assert!(in_vain > 0, "the scenario is about these");
}

/// Those run for minutes each: `cargo xtask soak law`.
#[test]
fn the_laws_farms_have_the_nodes_that_the_paper_gives() {
    let nodes = |name: &str| {
        let scenario = Scenario::load(&folder("scenarios/law").join(format!("{name}.toml"))).unwrap();
        (scenario.machines(), scenario.nodes[0].slots)
    };
    assert_eq!(stems("scenarios/law").len(), 3);
    assert_eq!([nodes("tianhe1"), nodes("mole"), nodes("tianhe2")], [(1_328, 1), (221, 6), (3_333, 3)]);
}

#[test]
fn one_seed_is_one_run_and_two_seeds_are_two() {
    let logs = [run("storm", 1).log, run("storm", 1).log, run("storm", 2).log];
    assert_eq!(logs[0], logs[1]);
    assert_ne!(logs[0], logs[2]);
}

#[test]
fn watching_changes_nothing() {
    let dir = std::env::temp_dir().join(format!("starfarm-sim-log-{}", std::process::id()));
    let watched = Scenario { log: Some(dir.clone()), ..load("restarts") };
    let watched = Sim::new(&watched, 1).run().unwrap_or_else(|violation| panic!("{violation}"));
    let segments = std::fs::read_dir(&dir).unwrap().count();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(watched.log, run("restarts", 1).log);
    assert!(segments > 1, "each scheduler's log has a segment of its own: {segments}");
}

#[test]
fn a_log_whose_clock_was_set_back_again_and_again_is_replayed_on_one_line_of_time() {
    let dir = std::env::temp_dir().join(format!("starfarm-sim-back-{}", std::process::id()));
    let logged = Scenario { log: Some(dir.clone()), ..load("clocks") };
    Sim::new(&logged, 1).run().unwrap_or_else(|violation| panic!("{violation}"));
    let items = || starfarm_logs::open(&dir).unwrap();
    let moments: Vec<u64> = items()
        .filter_map(|item| match item.unwrap() {
            Item::Opened(opening) if opening.segment == 1 => Some(opening.at_us),
            _ => None,
        })
        .collect();
    let report = replay(items(), Window::default()).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(!moments.is_sorted(), "some clock was set back: {moments:?}");
    assert_eq!(report.epochs.len(), moments.len());
    assert!(report.epochs.windows(2).all(|pair| pair[0].to_us <= pair[1].from_us), "{:?}", report.epochs);
    assert!(report.epochs.iter().all(|epoch| epoch.from_us < epoch.to_us), "none collapses");
    for job in &report.jobs {
        let (started_us, ended_us) = (job.started_us.unwrap(), job.ended_us.unwrap());
        assert!(job.submitted_us <= started_us && started_us < ended_us, "{job:?}");
        assert!(job.states.is_sorted_by_key(|(at_us, _)| *at_us), "{job:?}");
    }
}

/// A run that once broke a rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// What went wrong then.
    story: String,
    /// Stem of a scenario's file.
    scenario: String,
    seed: u64,
}

#[test]
fn kept_seeds_stay_repaired() {
    for stem in stems("seeds") {
        let text = std::fs::read_to_string(folder("seeds").join(format!("{stem}.toml"))).unwrap();
        let kept: Kept = toml::from_str(&text).unwrap_or_else(|error| panic!("{stem}: {error}"));
        assert!(!kept.story.is_empty());
        run(&kept.scenario, kept.seed);
    }
}
