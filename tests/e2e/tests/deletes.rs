//! A scheduler that is killed while it deletes a job: the job is there with all that it has, or it is gone with all that only
//! it had. What another job shares with it is whole at any time.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use starfarm_e2e::{Farm, GUARD, program, stdouts, until};

/// Kills, after ever more of the time that a delete takes.
const KILLS: u32 = 16;
/// Units of the job that stays. The other one has the same, and as many more.
const SHARED: u32 = 20;

/// Each unit writes a text of 30000 bytes to the one stream, and one of 2000 to the other.
fn submit(farm: &Farm, units: u32) -> String {
    let script = "yes the same of $1 each time | head -c 30000; yes and of $1 | head -c 2000 >&2";
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"{script}\", \"-\", \"{{}}\"]\n[merge]\nkind = \"concat\"\n"
    );
    let id = farm.submit_text(&text);
    farm.wait(&id).exits(0);
    id
}

/// All that a job has given: what each unit wrote, and all of it merged.
fn given(farm: &Farm, id: &str) -> (usize, String, String) {
    let results = farm.results(id);
    let merged = farm.cli(&["results", id, "--merged"]);
    (stdouts(&results).len(), format!("{:?}", stdouts(&results)), merged.exits(0).stdout.clone())
}

/// The files of a job.
fn files(farm: &Farm, id: &str) -> Vec<PathBuf> {
    let folders = ["outputs", "merged"].map(|folder| farm.state().join(folder));
    let all = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten())
        .map(|entry| entry.path());
    let is_its = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{id}."));
    all.filter(is_its).collect()
}

/// Bytes on the disk that contents take.
fn room(farm: &Farm) -> u64 {
    std::fs::metadata(farm.state().join("blobs")).unwrap().blocks() * 512
}

/// Begins to delete a job.
fn delete(farm: &Farm, id: &str) -> Child {
    let mut command = program("starfarm", farm.temp().path());
    command.arg("--farm").arg(farm.state()).args(["job", "delete", id]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// How long it takes to delete a job like that.
fn whole_delete(farm: &Farm) -> Duration {
    let id = submit(farm, 2 * SHARED);
    let start = Instant::now();
    assert!(delete(farm, &id).wait().unwrap().success());
    start.elapsed()
}

#[test]
fn a_kill_at_any_moment_of_a_delete_leaves_a_job_whole_or_gone() {
    let mut farm = Farm::with_workers(1, 4);
    let kept = submit(&farm, SHARED);
    let written = given(&farm, &kept);
    let takes = whole_delete(&farm);
    let (mut id, mut whole, mut gone) = (submit(&farm, 2 * SHARED), 0, 0);
    let of_it = given(&farm, &id);
    assert_eq!((written.0, of_it.0), (SHARED as usize, 2 * SHARED as usize));
    for kill in 0..KILLS {
        let outputs = farm.state().join(format!("outputs/{id}.outputs"));
        let (mut command, start) = (delete(&farm, &id), Instant::now());
        match kill % 4 {
            // In the middle for sure: the first of its files has just gone.
            0 => {
                while outputs.exists() {
                    assert!(start.elapsed() < GUARD, "the delete gets on");
                }
            }
            _ => sleep(takes * kill / KILLS),
        }
        farm.kill_scheduler();
        let was_told = command.wait().unwrap().success();
        farm.restart_scheduler();
        let shown = farm.cli(&["job", "show", &id]);
        match shown.code {
            0 => {
                assert!(!was_told, "who was told that it is deleted finds it again");
                assert_eq!(given(&farm, &id), of_it, "kill {kill}: it is there, and not whole");
                whole += 1;
            }
            _ => {
                shown.exits(4);
                let left = files(&farm, &id);
                assert!(left.is_empty(), "kill {kill}: it is gone, and not all its files are: {left:?}");
                gone += 1;
                farm.until_nodes_up(1);
                id = submit(&farm, 2 * SHARED);
            }
        }
        assert_eq!(given(&farm, &kept), written, "kill {kill}: another job lacks what it shared");
        let state = farm.state();
        farm.cli(&["audit", "--outputs", state.to_str().unwrap()]).exits(0);
    }
    assert!(whole > 0 && gone > 0, "{whole} times it was whole, {gone} times gone");
    // What a delete that was killed left behind is the last job's as well, and goes with it.
    let before = room(&farm);
    farm.cli(&["job", "delete", &id]).exits(0);
    until("its room comes back", || room(&farm) + u64::from(SHARED) * 20_000 <= before);
    assert_eq!(given(&farm, &kept), written);
}
