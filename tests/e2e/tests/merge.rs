//! The results of a job become one at its end, on the scheduler's host.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use starfarm_e2e::{Farm, alive, program, run, until};

const NUMBERS: &str = "[space]\nkind = \"range\"\nfrom = 0\nto = 300\n[task]\nexecutor = \"command\"\n\
                       program = [\"sh\", \"-c\", \"echo $1\", \"-\", \"{}\"]\n";

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn merged(farm: &Farm, id: &str) -> String {
    let reply = farm.cli(&["results", id, "--merged"]);
    reply.exits(0);
    reply.stdout
}

fn state(farm: &Farm, id: &str) -> String {
    farm.job(id)["merge"]["state"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_scheduler_can_merge_by_itself() {
    let mut farm = Farm::with_workers(2, 2);
    let all: String = (0..300).map(|n| format!("{n}\n")).collect();
    let mut ids = Vec::new();
    for (kind, result) in
        [("concat", all.as_str()), ("sum", "44850\n"), ("min", "0\n"), ("max", "299\n"), ("count", "300\n")]
    {
        let id = farm.submit_text(&format!("{NUMBERS}[merge]\nkind = \"{kind}\"\n"));
        farm.wait(&id).exits(0);
        assert_eq!(merged(&farm, &id), result, "{kind}");
        ids.push(id);
    }
    farm.kill_scheduler();
    audit_tells_a_damaged_result(&farm, &ids[1]);
    // At rest as well, and after another start.
    let at_rest = farm.cli_by(&farm.state(), &["results", &ids[0], "--merged"]);
    at_rest.exits(0);
    assert_eq!(at_rest.stdout, all);
    farm.restart_scheduler();
    assert_eq!((state(&farm, &ids[1]), merged(&farm, &ids[1])), ("done".into(), "44850\n".into()));
    farm.cli(&["job", "delete", &ids[1]]).exits(0);
    let left = fs::read_dir(farm.state().join("merged")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with(&format!("{}.", ids[1]))), "{left:?}");
    assert_eq!(left.len(), 2 * 4, "{left:?}");
    for name in left {
        let mode = fs::metadata(farm.state().join("merged").join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o77, 0, "{name} is the scheduler's own");
    }
}

#[test]
fn what_a_merge_makes_counts_as_stored() {
    let farm = Farm::with_workers(1, 1);
    let job = NUMBERS.replace("300", "3");
    let id = farm
        .submit_text(&format!("{job}[merge]\nprogram = [\"head\", \"-c\", \"1000000\", \"/dev/zero\"]\n"));
    farm.wait(&id).exits(0);
    let stored = || farm.status()["stored_bytes"].as_u64().unwrap();
    until("it counts for the job", || farm.job(&id)["stored_bytes"].as_u64().unwrap() >= 1_000_000);
    until("and for the farm", || stored() >= 1_000_000);
    farm.cli(&["job", "delete", &id]).exits(0);
    until("it is gone", || stored() < 1_000_000);
}

fn audit_tells_a_damaged_result(farm: &Farm, id: &str) {
    let audit = || farm.cli(&["audit", "--outputs", farm.state().to_str().unwrap()]);
    audit().exits(0);
    let path = farm.state().join(format!("merged/{id}.output"));
    for (bytes, what) in [(Some("44851\n"), "DAMAGED"), (None, "MISSING"), (Some("44850\n"), "")] {
        bytes.map_or_else(|| fs::remove_file(&path), |bytes| fs::write(&path, bytes)).unwrap();
        let told = audit();
        told.exits(i32::from(!what.is_empty()));
        let line = format!("MERGED {what}: job {id}, the result\n`starfarm job merge ID` merges");
        assert_eq!(told.stdout.contains(&line), !what.is_empty(), "{}", told.stdout);
    }
}

#[test]
fn what_is_no_number_fails_the_merge_and_not_the_job() {
    let farm = Farm::with_workers(1, 2);
    let text = NUMBERS.replace("echo $1", "echo n$1") + "[merge]\nkind = \"sum\"\n";
    let id = farm.submit_text(&text);
    let waited = farm.wait(&id);
    waited.exits(1);
    assert!(
        waited.stderr.contains("merging them failed: unit 0 wrote what cannot be merged"),
        "{}",
        waited.stderr
    );
    let job = farm.job(&id);
    assert_eq!((&job["state"], &job["merge"]["state"]), (&"finished".into(), &"failed".into()));
    let refused = farm.cli(&["results", &id, "--merged"]);
    refused.exits(6);
    assert!(refused.stderr.contains("`n0` is no number"), "{}", refused.stderr);
}

/// It gets all outputs in order, and the files; what it makes comes back. One that failed is tried again.
#[test]
fn a_program_merges_what_units_wrote_and_their_files() {
    let mut farm = Farm::with_workers(2, 2);
    let dir = farm.temp().path().to_owned();
    let go = dir.join("go");
    let merge = script(
        &dir,
        "merge.sh",
        &format!(
            "test -e {} || {{ echo not yet >&2; exit 9; }}\ncat part-0.txt part-1.txt part-9.txt > film.txt\nmkdir sub\n\
             ls | wc -l > sub/count.txt\nexec cat",
            go.display()
        ),
    );
    let text = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 40\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"head -c 3000 /dev/zero | tr '\\\\0' x; echo $1; echo file $1 > part-$1.txt\", \"-\", \"{{}}\"]\n\
         outputs = [\"part-{{}}.txt\"]\n\
         [merge]\nprogram = [\"{}\"]\noutputs = [\"film.txt\", \"sub/count.txt\"]\n",
        merge.display()
    );
    let id = farm.submit_text(&text);
    let waited = farm.wait(&id);
    waited.exits(1);
    assert!(waited.stderr.contains("merge.sh` failed, exit status: 9: not yet"), "{}", waited.stderr);
    fs::write(&go, "").unwrap();
    // A restart does not try what has failed: a person says when.
    farm.kill_scheduler();
    farm.restart_scheduler();
    assert_eq!(state(&farm, &id), "failed");
    fs::remove_file(&go).unwrap();
    farm.cli(&["job", "merge", &id]).exits(1);
    fs::write(&go, "").unwrap();
    farm.cli(&["job", "merge", &id]).exits(0);
    let parts: String = (0..40).map(|n| format!("{}{n}\n", "x".repeat(3_000))).collect();
    assert!(merged(&farm, &id) == parts);
    let out = dir.join("out");
    farm.cli(&["results", &id, "--merged", "--dir", out.to_str().unwrap()]).exits(0);
    assert_eq!(fs::read_to_string(out.join("film.txt")).unwrap(), "file 0\nfile 1\nfile 9\n");
    assert_eq!(fs::read_to_string(out.join("sub/count.txt")).unwrap().trim(), "42");
}

#[test]
fn a_merge_that_hangs_is_ended_and_a_stop_does_not_wait_for_one() {
    let mut farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().to_owned();
    let pid = dir.join("pid");
    let hang = script(&dir, "hang.sh", &format!("echo begun >&2; echo $$ > {}; sleep 600", pid.display()));
    let with = |keys: &str| format!("{NUMBERS}[merge]\nprogram = [\"{}\"]\n{keys}", hang.display());
    let id = farm.submit_text(&with("timeout_seconds = 2\n"));
    farm.wait(&id).exits(1);
    let why = farm.job(&id)["merge"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("ran longer than 2 s: begun"), "{why}");
    let id = farm.submit_text(&with(""));
    until("it is merged", || state(&farm, &id) == "running");
    until("it has begun", || fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let begun = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    farm.kill_scheduler();
    fs::write(&hang, "#!/bin/sh\nwc -l\n").unwrap();
    farm.restart_scheduler();
    farm.wait(&id).exits(0);
    assert_eq!(merged(&farm, &id).trim(), "300");
    until("what was left is ended", || !alive(begun));
    // Nor does the next merge wait for that of a job which was deleted.
    fs::write(&hang, format!("#!/bin/sh\necho $$ > {}; sleep 600\n", pid.display())).unwrap();
    let id = farm.submit_text(&with(""));
    until("it is merged", || state(&farm, &id) == "running");
    until("it has begun", || fs::read_to_string(&pid).unwrap().trim() != begun.to_string());
    let begun = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    farm.cli(&["job", "delete", &id]).exits(0);
    until("it is ended", || !alive(begun));
}

#[test]
fn a_job_with_failed_units_is_merged_only_where_somebody_says_so() {
    let farm = Farm::with_workers(1, 2);
    let text = NUMBERS.replace("echo $1", "test $1 != 7 || exit 3; echo $1") + "[merge]\nkind = \"sum\"\n";
    let id = farm.submit_text(&text);
    farm.wait(&id).exits(1);
    assert_eq!(state(&farm, &id), "skipped");
    farm.cli(&["job", "merge", &id]).exits(0);
    assert_eq!(state(&farm, &id), "done");
    assert_eq!(merged(&farm, &id), format!("{}\n", 44_850 - 7));
    // Once the unit has run, all are merged anew.
    farm.cli(&["job", "retry", "--failed", &id]).exits(0);
    farm.wait(&id).exits(1);
    assert_eq!(state(&farm, &id), "skipped");
}

#[test]
fn a_run_prints_what_is_merged() {
    let dir = starfarm_e2e::TempDir::new();
    let job = dir.path().join("job.toml");
    fs::write(&job, format!("{NUMBERS}[merge]\nkind = \"max\"\n")).unwrap();
    let mut command = program("starfarm", dir.path());
    command.args(["run", "--state"]).arg(dir.path().join("farm")).arg(&job);
    let reply = run(command);
    reply.exits(0);
    assert_eq!(reply.stdout, "299\n");
}

/// It said to use a command that needs a scheduler, which runs no more, and the next run computed all units again.
#[test]
fn a_run_whose_merge_failed_only_merges_when_it_is_run_again() {
    let dir = starfarm_e2e::TempDir::new();
    let (go, ran) = (dir.path().join("go"), dir.path().join("ran"));
    let merge = script(dir.path(), "merge.sh", &format!("test -e {} && exec sort -n", go.display()));
    let job = dir.path().join("job.toml");
    let text = NUMBERS.replace("echo $1", &format!("echo $1 | tee -a {}", ran.display()));
    fs::write(&job, format!("{text}[merge]\nprogram = [\"{}\"]\n", merge.display())).unwrap();
    let again = || {
        let mut command = program("starfarm", dir.path());
        command.args(["run", "--state"]).arg(dir.path().join("farm")).arg(&job);
        run(command)
    };
    let failed = again();
    failed.exits(1);
    assert!(
        failed.stderr.contains("run it again to try it again: no unit is computed again"),
        "{}",
        failed.stderr
    );
    fs::write(&go, "").unwrap();
    let reply = again();
    reply.exits(0);
    reply.says(&["merging its results failed; that is tried again"]);
    assert!(reply.stdout == (0..300).map(|n| format!("{n}\n")).collect::<String>());
    assert_eq!(fs::read_to_string(&ran).unwrap().lines().count(), 300);
}

/// It would have any program run on the scheduler's host.
#[test]
fn an_operator_may_have_no_program_run_on_the_schedulers_host() {
    let farm = Farm::with_workers(1, 1);
    let key = farm.cli(&["key", "add", "--role", "operator"]);
    key.exits(0);
    let join = farm.temp().path().join("operator.join");
    fs::write(&join, &key.stdout).unwrap();
    fs::set_permissions(&join, fs::Permissions::from_mode(0o600)).unwrap();
    let job = farm.temp().path().join("job.toml");
    fs::write(&job, format!("{NUMBERS}[merge]\nprogram = [\"id\"]\n")).unwrap();
    let refused = farm.cli_by(&join, &["submit", job.to_str().unwrap()]);
    assert!(refused.stderr.contains("run on the scheduler's host"), "{}", refused.stderr);
    fs::write(&job, format!("{NUMBERS}[merge]\nkind = \"sum\"\n")).unwrap();
    farm.cli_by(&join, &["submit", job.to_str().unwrap()]).exits(0);
}
