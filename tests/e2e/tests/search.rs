//! Searches of key spaces. The digests come from crates that the farm does not use for searching.
#![allow(clippy::unwrap_used)]

use md4::Md4;
use md5::Md5;
use serde_json::Value;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use starfarm_e2e::{Farm, units, until};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn md5(word: &[u8]) -> String {
    hex(&Md5::digest(word))
}

fn digest(algorithm: &str, word: &str) -> String {
    match algorithm {
        "md5" => md5(word.as_bytes()),
        "sha1" => hex(&Sha1::digest(word)),
        "sha256" => hex(&Sha256::digest(word)),
        _ => {
            let wide: Vec<u8> = word.bytes().flat_map(|byte| [byte, 0]).collect();
            hex(&Md4::digest(wide))
        }
    }
}

fn job(space: &str, algorithm: &str, targets: &[String], more: &str) -> String {
    format!(
        "[space]\nkind = \"chars\"\n{space}\n[task]\nexecutor = \"search\"\nalgorithm = \"{algorithm}\"\n\
         targets = {targets:?}\n{more}\n"
    )
}

/// Number of a word in `?l?l?l...`.
fn unit_of(word: &str) -> u128 {
    word.bytes().fold(0, |unit, byte| unit * 26 + u128::from(byte - b'a'))
}

#[test]
fn all_four_algorithms_find_what_was_planted_and_nothing_else() {
    let farm = Farm::with_workers(2, 1);
    let words = ["aaaa", "star", "zzzz"];
    let jobs = ["md5", "sha1", "sha256", "ntlm"].map(|algorithm| {
        let mut targets = words.map(|word| digest(algorithm, word)).to_vec();
        targets.push(digest(algorithm, "NOT IN THE SPACE"));
        let text = job("mask = \"?l?l?l?l\"", algorithm, &targets, "stop = \"never\"\ntarget_seconds = 0.2");
        (algorithm, farm.submit_text(&text))
    });
    for (algorithm, id) in jobs {
        farm.wait(&id).exits(0);
        assert_eq!(farm.job(&id)["units_done"], 26_u32.pow(4).to_string());
        let hits = farm.results(&id)["hits"].take();
        assert_eq!(units(&hits), words.map(unit_of), "{algorithm}");
        for (hit, word) in hits.as_array().unwrap().iter().zip(words) {
            assert_eq!(hit["value"], word);
            assert_eq!(hit["target"], digest(algorithm, word));
            assert_eq!(hit.as_object().unwrap().len(), 3, "unit, value and target: {hit}");
        }
    }
}

#[test]
fn a_search_stops_when_it_was_told_to() {
    let farm = Farm::with_workers(1, 2);
    // A space that takes hours, with targets at its very beginning.
    let space = "mask = \"?l?l?l?l?l?l?l?l?l\"";
    let words = ["aaaaaaaab", "aaaaaabcd"];
    let targets = words.map(|word| md5(word.as_bytes()));
    let run = |more: &str, targets: &[String]| {
        let id = farm.submit_text(&job(space, "md5", targets, more));
        farm.wait(&id).exits(0);
        (farm.job(&id), farm.results(&id)["hits"].take())
    };
    let early = |job: &Value| {
        let count = |key: &str| job[key].as_str().unwrap().parse::<u128>().unwrap();
        assert_eq!(job["state"], "finished");
        assert!(count("units_abandoned") > 0);
        assert_eq!(count("units_done") + count("units_abandoned"), count("units_total"), "{job}");
    };
    let (first, hits) = run("stop = \"first-hit\"\ntarget_seconds = 0.1", &targets);
    early(&first);
    assert!(!hits.as_array().unwrap().is_empty());
    let (all, hits) = run("target_seconds = 0.1", &targets);
    early(&all);
    assert_eq!(units(&hits), words.map(unit_of), "all targets are found before the end by default");
}

#[test]
fn shorter_words_come_first_and_a_target_is_found_at_every_length() {
    let farm = Farm::with_workers(1, 1);
    let words = ["b", "ca", "abc"];
    let targets = words.map(|word| digest("sha1", word));
    let text = job("alphabet = \"abc\"\nmin = 1\nmax = 3", "sha1", &targets, "stop = \"never\"");
    let id = farm.submit_text(&text);
    farm.wait(&id).exits(0);
    assert_eq!(farm.job(&id)["units_total"], "39");
    assert_eq!(units(&farm.results(&id)["hits"]), [1, 3 + 6, 12 + 5]);
}

#[test]
fn a_hit_that_is_no_text_has_its_bytes_in_hexadecimal() {
    let farm = Farm::with_workers(1, 1);
    // Bytes, not code points: the two bytes of one letter stand for themselves.
    let targets = [md5(b"\xa9x"), md5(b"xx")];
    let id =
        farm.submit_text(&job("alphabet = \"xé\"\nmin = 2\nmax = 2", "md5", &targets, "stop = \"never\""));
    farm.wait(&id).exits(0);
    let hits = farm.results(&id)["hits"].take();
    let odd = hits.as_array().unwrap().iter().find(|hit| hit["target"] == targets[0].as_str()).unwrap();
    assert_eq!((&odd["value"], &odd["value_hex"]), (&"\u{fffd}x".into(), &"a978".into()));
    let plain = hits.as_array().unwrap().iter().find(|hit| hit["target"] == targets[1].as_str()).unwrap();
    assert_eq!((&plain["value"], &plain["value_hex"]), (&"xx".into(), &Value::Null));
}

#[test]
fn targets_come_from_a_file_and_may_be_many() {
    let farm = Farm::with_workers(1, 2);
    let mut lines: Vec<String> = (0..20_000_u32).map(|i| md5(&i.to_be_bytes())).collect();
    lines.push(md5(b"farm"));
    farm.temp().write("digests.txt", lines.join("\n"));
    let id = farm.submit_text(
        "[space]\nkind = \"chars\"\nmask = \"?l?l?l?l\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets_file = \"digests.txt\"\nstop = \"never\"\ntarget_seconds = 0.2\n",
    );
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"]), [unit_of("farm")]);
}

/// A scheduler that keeps a hundred of them in memory has the others in its journal and its ledger.
#[test]
fn a_search_lists_all_that_it_found_however_little_is_in_memory() {
    let small = ["--hits-kept", "100", "--checkpoint-records", "20", "--journal-segment-kib", "4"];
    let mut farm = Farm::start_with(&small);
    let letters = || b'a'..=b'z';
    let words = letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| [a, b, c])));
    let targets: Vec<String> = words.map(|[a, b, c]| md5(&[b'a', b'a', b'a', a, b, c])).collect();
    farm.temp().write("all.txt", targets.join("\n"));
    // All are at the beginning of a space in which there is more to do.
    let id = farm.submit_text(
        "[space]\nkind = \"chars\"\nmask = \"?l?l?l?l?l?l\"\n[task]\n\
         executor = \"search\"\nalgorithm = \"md5\"\ntargets_file = \"all.txt\"\nstop = \"never\"\n\
         units_per_task = 100_000\n",
    );
    farm.add_worker("w1", &["--slots", "2"]);
    until("much is found", || farm.job(&id)["hits"].as_u64().unwrap() > 1_000);
    farm.cli(&["job", "pause", &id]).exits(0);
    let early = units(&farm.results(&id)["hits"]);
    assert!(early.len() > 1_000 && early.is_sorted_by(|a, b| a < b), "{} hits", early.len());
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.cli(&["job", "resume", &id]).exits(0);
    farm.wait(&id).exits(0);
    let log = farm.state().join("log").to_string_lossy().into_owned();
    let certificate = || {
        let entries = farm.cli(&["log", "export", &log, "--format", "jsonl"]).exits(0).stdout.clone();
        let mut entries = entries.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.find(|entry| entry["event"] == "certificate")
    };
    until("the certificate is in the log", || certificate().is_some());
    let certificate = certificate().unwrap();
    let all = |farm: &Farm| {
        assert_eq!(farm.job(&id)["hits"], 17_576);
        let hits = farm.results(&id)["hits"].take();
        assert!(units(&hits).into_iter().eq(0..17_576), "each hit once, in order");
        let hits = hits.as_array().unwrap();
        assert!(hits.iter().zip(&targets).all(|(hit, target)| hit["target"] == target.as_str()));
    };
    all(&farm);
    assert!(
        std::fs::read_dir(farm.state().join("ledger")).unwrap().count() > 1,
        "old segments are rewritten"
    );
    farm.kill_scheduler();
    farm.restart_scheduler();
    all(&farm);

    let audited = farm.ask(&["audit", &farm.state().to_string_lossy()]);
    let derived = &audited["jobs"][0]["certificate"];
    assert_eq!((&certificate["hits"], &certificate["hits_hash"]), (&17_576.into(), &derived["hits_hash"]));
}
