//! Jobs whose files the disk of a worker does not hold at once, or never.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use starfarm_e2e::power::Disk;
use starfarm_e2e::{Farm, each_done_once, skip, units, until};

/// A farm, and a disk of 24 MiB for its worker `small`. The farm goes first: what is named last in a pattern does.
struct SmallDisk {
    _disk: Disk,
    farm: Farm,
}

impl SmallDisk {
    /// With four inputs of 15 MB each.
    fn set(test: &str) -> Option<Self> {
        let farm = Farm::start();
        let disk = match Disk::tmpfs(&farm.worker_state("small"), 24 << 10) {
            Ok(disk) => disk,
            Err(lack) => {
                skip("mount", test, &lack.0);
                return None;
            }
        };
        fs::create_dir_all(inputs(&farm)).unwrap();
        for unit in 0..4 {
            fs::write(inputs(&farm).join(unit.to_string()), vec![unit; 15_000_000]).unwrap();
        }
        Some(Self { _disk: disk, farm })
    }
}

fn inputs(farm: &Farm) -> PathBuf {
    farm.temp().path().join("photos/in")
}

/// Submits a job of four units.
fn job(farm: &Farm, keys: &str) -> String {
    let text = format!(
        "name = \"photos\"\n[space]\nkind = \"range\"\nfrom = 0\nto = 4\n[task]\nexecutor = \"command\"\n{keys}"
    );
    let path = inputs(farm).with_file_name("job.toml");
    fs::write(&path, text).unwrap();
    farm.submit(&[path.to_str().unwrap()])
}

/// So many jobs have ended, none of which the node refused.
fn no_job_was_refused(farm: &Farm, ended: usize) {
    let log = farm.state().join("log");
    let export =
        || farm.cli(&["log", "export", &log.to_string_lossy(), "--format", "jsonl"]).exits(0).stdout.clone();
    until("the log has all certificates", || export().matches("\"certificate\"").count() >= ended);
    assert!(!export().contains("node_refused"), "{}", export());
}

/// A unit that found no room for its inputs beside another made its node refuse the job for ten seconds, then twenty,
/// though the other gave its room back within one; and so did a unit whose output could not be packed.
#[test]
fn units_take_turns_on_a_disk_that_does_not_hold_those_of_all_slots() {
    let Some(SmallDisk { _disk, mut farm }) =
        SmallDisk::set("units_take_turns_on_a_disk_that_does_not_hold_those_of_all_slots")
    else {
        return;
    };
    let ids = [
        job(&farm, "program = [\"sh\", \"-c\", \"sleep 0.3; wc -c < in/{}\"]\ninputs = [\"in/{}\"]\n"),
        job(
            &farm,
            "program = [\"sh\", \"-c\", \"head -c 9000000 /dev/urandom > {}; sleep 0.3\"]\noutputs = [\"{}\"]\n",
        ),
    ];
    farm.add_worker("small", &["--slots", "2"]);
    for id in &ids {
        farm.wait(id).exits(0);
        each_done_once(&farm.job(id), &farm.results(id), 4);
    }
    // Both fill the disk at once, and a program fails of that.
    let fills = job(
        &farm,
        "program = [\"sh\", \"-c\", \"head -c 14000000 /dev/zero > {} && sleep 0.3\"]\ninputs = [\"job.toml\"]\n",
    );
    farm.wait(&fills).exits(0);
    each_done_once(&farm.job(&fills), &farm.results(&fills), 4);
    // A run over a task has more inputs than the disk holds.
    let whole = job(
        &farm,
        "per = \"task\"\nunits_per_task = 4\nprogram = [\"sh\", \"-c\", \"ls in | wc -l\"]\ninputs = [\"in/{}\"]\n",
    );
    farm.wait(&whole).exits(0);
    assert_eq!(units(&farm.results(&whole)["outputs"]), [0, 1, 2, 3]);
    no_job_was_refused(&farm, ids.len() + 2);
}

/// A unit whose files the disk can never hold made its node refuse the job, and each try began with that one.
#[test]
fn a_unit_that_a_disk_can_never_hold_waits_for_another_node_and_stands_in_the_way_of_no_other() {
    let Some(SmallDisk { _disk, mut farm }) = SmallDisk::set(
        "a_unit_that_a_disk_can_never_hold_waits_for_another_node_and_stands_in_the_way_of_no_other",
    ) else {
        return;
    };
    farm.add_worker("small", &["--slots", "2"]);
    // One unit of many has an input beyond the whole disk, and one makes more than that holds beside its archive. It
    // waits, alone and in words, where no other node is there.
    fs::write(inputs(&farm).join("1"), vec![1; 30_000_000]).unwrap();
    let large =
        |farm: &Farm| job(farm, "program = [\"sh\", \"-c\", \"wc -c < in/{}\"]\ninputs = [\"in/{}\"]\n");
    let makes = "head -c $((3000000 + 10000000 * ({} == 2))) /dev/urandom > {}";
    let makes = format!("program = [\"sh\", \"-c\", \"{makes}\"]\noutputs = [\"{{}}\"]\n");
    let made = |farm: &Farm| job(farm, &makes);
    let wait = [(large(&farm), 1), (made(&farm), 2)];
    for (id, unit) in &wait {
        until("all others are done", || farm.job(id)["units_done"] == "3");
        let words = format!("unit {unit} waits for a node whose disk has room for its files");
        until("it waits", || farm.job(id)["note"] == words.as_str());
        let why = format!("The files of unit {unit} have no room on the disk of small");
        let explained = farm.cli(&["job", "explain", id]).exits(0).stdout.clone();
        assert!(explained.contains(&why), "{explained}");
    }
    // Where another one is, it has room for those, and they cost no run.
    farm.add_worker("roomy", &["--slots", "1"]);
    for (id, _) in &wait {
        farm.wait(id).exits(0);
        each_done_once(&farm.job(id), &farm.results(id), 4);
    }
    // A program may fill the disk with what is no output, and fail of that.
    let script = "head -c 30000000 /dev/zero > tmp && sleep 0.5 && rm tmp && echo done > {}";
    let fills = format!("program = [\"sh\", \"-c\", \"{script}\"]\noutputs = [\"{{}}\"]\n");
    let elsewhere = [large(&farm), made(&farm), job(&farm, &fills)];
    for id in &elsewhere {
        farm.wait(id).exits(0);
        each_done_once(&farm.job(id), &farm.results(id), 4);
    }
    let runs = "per = \"task\"\nunits_per_task = 4\nprogram = [\"sh\", \"-c\", \"ls in | wc -l\"]\ninputs = [\"in/{}\"]\n";
    farm.wait(&job(&farm, runs)).exits(0);
    no_job_was_refused(&farm, wait.len() + elsewhere.len() + 1);
}
