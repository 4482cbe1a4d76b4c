//! Each attack on a real scheduler, beside an honest worker: the jobs end, what they found is right, the audit holds, the
//! wicked worker is named and the honest one is not.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use md5::{Digest, Md5};
use starfarm_e2e::{Farm, units, until};
use starfarm_protocol::join::JoinFile;
use starfarm_wicked::{Attack, Wicked};

/// How long an attack lasts here; at full length it is a soak.
const LASTS: Duration = Duration::from_secs(3);
/// Words whose digests are looked for, and their units in `?d?d?d?d?d?d?d`.
const WORDS: [(&str, u128); 3] = [("0000007", 7), ("1234567", 1_234_567), ("9999990", 9_999_990)];

/// A search of ten million candidates in small tasks. One that ends with its first hit has that at its end.
fn search(stop: &str) -> String {
    let words = if stop == "never" { &WORDS[..] } else { &WORDS[2..] };
    let targets: Vec<String> = words
        .iter()
        .map(|(word, _)| Md5::digest(word).iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    format!(
        "[space]\nkind = \"chars\"\nmask = \"?d?d?d?d?d?d?d\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = {targets:?}\nstop = \"{stop}\"\nunits_per_task = 2000\n"
    )
}

/// A farm with one honest worker and two jobs, attacked. What the scheduler says of the wicked worker in the end.
fn attacked(attack: Attack, stop: &str) -> (Farm, String) {
    let farm = Farm::with_workers(1, 2);
    let text = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    let join = JoinFile::from_text(&text).unwrap();
    // It is in before there is work: the honest one may have done all of it within a second.
    let wicked = Wicked::join(&join, "wick", attack).unwrap();
    let of_programs = || farm.submit(&["--range", "0..400", "--", "true"]);
    let (programs, found) = match attack {
        Attack::Outputs | Attack::LyingSpeed => (of_programs(), farm.submit_text(&search(stop))),
        _ => {
            let found = farm.submit_text(&search(stop));
            (of_programs(), found)
        }
    };
    let report = wicked.run(LASTS);
    assert!(report.offers > 0, "{report}");
    farm.ask(&["status"]);
    let why = farm.ask(&["node", "show", "wick"])["nodes"][0]["why"].as_str().unwrap_or_default().to_owned();
    for id in [&programs, &found] {
        farm.wait(id).exits(0);
    }
    assert_eq!(farm.job(&programs)["units_done"], "400");
    let hits = farm.results(&found)["hits"].take();
    let known = WORDS.map(|(_, unit)| unit);
    if stop == "never" {
        assert_eq!(units(&hits), known, "{attack:?}");
        assert_eq!(farm.job(&found)["units_done"], "10000000");
    } else {
        assert!(units(&hits).iter().all(|unit| known.contains(unit)) && !units(&hits).is_empty(), "{hits}");
    }
    assert_eq!(farm.node_state("w1"), "up", "{attack:?}: the honest one is not to blame");
    (farm, why)
}

/// The audit holds.
fn proved(mut farm: Farm) {
    farm.kill_scheduler();
    let state = farm.state();
    let mut command = starfarm_e2e::program("starfarm", farm.temp().path());
    command.arg("audit").arg(&state);
    starfarm_e2e::run(command).exits(0);
}

/// Attacks for which the node gets nothing any more, or a task now and then.
fn is_named(attack: Attack, words: &str) {
    let (farm, why) = attacked(attack, "never");
    assert!(why.contains(words), "{attack:?}: {why:?}");
    proved(farm);
}

#[test]
fn false_hits() {
    is_named(Attack::FalseHits, "it reported a hit that is none");
}

#[test]
fn a_first_hit_that_is_none() {
    let (farm, why) = attacked(Attack::FirstHit, "first-hit");
    assert!(why.contains("it reported a hit that is none"), "{why:?}");
    proved(farm);
}

#[test]
fn units_of_others() {
    is_named(Attack::Steal, "");
}

#[test]
fn pieces_given_back() {
    is_named(Attack::Pieces, "");
}

#[test]
fn every_second_unit() {
    is_named(Attack::Gaps, "");
}

#[test]
fn bodies_that_nobody_can_read() {
    is_named(Attack::Bodies, "a body of 5 bytes for");
}

#[test]
fn outputs_that_were_never_stored() {
    is_named(Attack::Outputs, "an output that it did not store");
}

#[test]
fn jobs_that_do_not_exist() {
    is_named(Attack::UnknownJobs, "");
}

#[test]
fn claims_of_everything() {
    is_named(Attack::ClaimAll, "");
}

#[test]
fn claims_of_everything_after_a_restart() {
    let mut farm = Farm::with_workers(1, 2);
    let text = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    let join = JoinFile::from_text(&text).unwrap();
    let id = farm.submit_text(&search("never"));
    Wicked::join(&join, "early", Attack::LyingSpeed).unwrap().run(Duration::from_secs(1));
    farm.kill_scheduler();
    farm.restart_scheduler();
    Wicked::join(&join, "wick", Attack::ClaimAll).unwrap().run(LASTS);
    until("the honest one is back", || farm.node_state("w1") == "up");
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"].take()), WORDS.map(|(_, unit)| unit));
    proved(farm);
}

#[test]
fn ever_new_incarnations() {
    is_named(Attack::Boots, "");
}

#[test]
fn ever_new_facts() {
    is_named(Attack::Facts, "");
}

#[test]
fn totals_that_jump() {
    is_named(Attack::Totals, "");
}

#[test]
fn work_that_took_no_time() {
    is_named(Attack::LyingSpeed, "");
}

#[test]
fn datagrams_that_are_cut_short() {
    is_named(Attack::Malformed, "");
}

#[test]
fn words_that_steer_a_terminal() {
    let (farm, _) = attacked(Attack::Escapes, "never");
    for words in [&["nodes"][..], &["node", "show", "wick"], &["jobs"], &["job", "show", "1"]] {
        let told = farm.cli(words);
        assert!(told.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{words:?}: {}", told.stdout);
    }
    let log = farm.scheduler.log();
    assert!(log.chars().all(|c| c == '\n' || !c.is_control()), "{log:?}");
    proved(farm);
}

#[test]
fn names_of_its_own_making() {
    let (farm, _) = attacked(Attack::Renames, "never");
    let nodes = farm.ask(&["nodes"])["nodes"].take();
    let names: Vec<_> = nodes.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["w1", "wick"]);
    proved(farm);
}
