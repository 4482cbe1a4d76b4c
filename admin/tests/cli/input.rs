//! What a person or a script puts in: names, standard input, directories. Bad input gets a sentence and an exit code of
//! its own kind.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Ended, Folder};

/// The program, with `text` on its standard input.
fn fed(folder: &Folder, line: &str, text: &str) -> Ended {
    let mut command = folder.command(line);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Ended::of(child.wait_with_output().unwrap())
}

#[test]
fn a_name_given_by_a_flag_is_held_to_what_a_job_file_is() {
    let folder = Folder::new();
    for name in ["", "two\nlines", "a\u{1b}[2J", "a\u{9b}2J", "\u{202e}\n"] {
        let mut command = folder.command("submit --dry-run --output quiet");
        let ended = Ended::of(command.args(["--name", name, "--", "true"]).output().unwrap());
        assert!(ended.stderr.contains("a job's name is one line of text, not empty"), "{ended:?}");
        assert!(!ended.stderr.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{ended:?}");
        assert_eq!(ended.with(2), "");
    }
}

#[test]
fn a_number_beyond_its_bounds_is_told_them() {
    let folder = Folder::new();
    let huge = "99999999999999999999999";
    let flag = folder.run(&format!("submit --dry-run --max-failures {huge} -- true"));
    assert!(flag.stderr.contains("from 1 to 18446744073709551615, or \"never\""), "{flag:?}");
    flag.with(2);
    let job = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n\
         [task]\nexecutor = \"command\"\nprogram = [\"true\"]\nmax_failures = {huge}\n"
    );
    let file = fed(&folder, "submit --dry-run -", &job).failed_with(2);
    assert!(
        file.contains("`max_failures` does not fit: use an integer from 1 to 9223372036854775807"),
        "{file}"
    );
}

#[test]
fn units_without_a_program_are_told_what_is_missing() {
    let folder = Folder::new();
    for units in ["--range 0..3", "--lines -", "--grid a=1"] {
        let told = folder.run(&format!("submit --dry-run {units}")).failed_with(2);
        assert!(told.contains("no program is given: name one after `--`"), "{units}: {told}");
    }
}

#[test]
fn a_line_that_no_program_can_be_given_is_refused_before_a_farm_is_asked() {
    let folder = Folder::new();
    for line in ["submit --lines - -- echo {}", "submit --lines - --env A={} -- true"] {
        let told = fed(&folder, line, "one\nt\0wo\n").failed_with(2);
        assert!(told.contains("line 2 of the list holds a NUL byte"), "{line}: {told}");
    }
    fed(&folder, "submit --dry-run --lines - -- echo {index}", "one\nt\0wo\n").with(0);
}

#[test]
fn a_run_refuses_a_farm_that_it_would_not_use() {
    let folder = Folder::new();
    for line in ["--farm FARM run FARM/no.toml", "run --farm FARM FARM/no.toml"] {
        let ended = folder.run(line);
        assert!(ended.stderr.contains("`run` starts a farm of its own: leave --farm out"), "{ended:?}");
        assert!(ended.stderr.contains("Usage: starfarm run [OPTIONS] [JOB.toml]"), "{ended:?}");
        assert_eq!(ended.with(2), "");
    }
    // A variable is there for the other commands.
    let mut command = folder.command("run FARM/no.toml");
    let ended = Ended::of(command.env("STARFARM_FARM", "somewhere").output().unwrap());
    assert!(ended.failed_with(2).contains("cannot read the job file"));
}

#[test]
fn a_dash_is_standard_input() {
    let folder = Folder::new();
    let lines = "submit --dry-run --output json --lines - -- echo {}";
    let of_lines: Value = serde_json::from_str(&fed(&folder, lines, "one\ntwo\nthree").with(0)).unwrap();
    assert_eq!(of_lines["units_total"], "3");
    assert_eq!(of_lines["last"]["program"][1], "three");
    let job = "name = \"piped\"\n[space]\nkind = \"range\"\nfrom = 3\nto = 9\n\
               [task]\nexecutor = \"command\"\nprogram = [\"true\", \"{}\"]\n";
    let of_job: Value =
        serde_json::from_str(&fed(&folder, "submit --dry-run --output json -", job).with(0)).unwrap();
    assert_eq!((&of_job["name"], &of_job["units_total"]), (&"piped".into(), &"6".into()));
    // What is wrong there is named as what it is.
    let wrong = fed(&folder, "submit --dry-run -", "[space]\nkind = \"none\"\n");
    assert!(wrong.stderr.contains("standard input"), "{wrong:?}");
    wrong.with(2);
}

#[test]
fn a_state_directory_that_cannot_be_made_has_one_exit_code() {
    let folder = Folder::new();
    let path = folder.path().display().to_string();
    std::fs::write(folder.path().join("file"), "").unwrap();
    std::fs::write(
        folder.path().join("job.toml"),
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\nprogram = [\"true\", \"{}\"]\n",
    )
    .unwrap();
    folder.run("run FARM/job.toml --state FARM/farm --slots 1").with(0);
    for line in [
        "scheduler --state FARM/file/state --listen 127.0.0.1:0",
        "worker --state FARM/file/state --join FARM/farm/worker.join",
        "run --state FARM/file/state FARM/job.toml",
    ] {
        let ended = folder.run(line);
        assert!(ended.stderr.contains(&format!("{path}/file/state")), "{ended:?}");
        assert_eq!(ended.with(6), "", "{line}");
    }
}

#[test]
fn scratch_has_an_absolute_path_where_the_state_directory_was_given_without_one() {
    let folder = Folder::new();
    std::fs::write(
        folder.path().join("job.toml"),
        "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\n\
         program = [\"sh\", \"-c\", \"cd / && touch $STARFARM_SCRATCH/x && echo $STARFARM_SCRATCH\", \"{}\"]\n",
    )
    .unwrap();
    let mut command = folder.command("run job.toml --state here --slots 1 --output quiet");
    let printed = Ended::of(command.current_dir(folder.path()).output().unwrap()).with(0);
    assert!(printed.starts_with('/'), "{printed}");
}
