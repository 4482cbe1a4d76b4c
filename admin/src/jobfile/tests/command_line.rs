//! Jobs without a file.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use starfarm_protocol::spec::{Space, Work};

use super::*;
use crate::jobfile::{CommandOptions, Sizing, from_command_line};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[track_caller]
fn check(range: Option<&str>, lines: Option<&str>, grid: &[&str], program: &[&str], expected: Expect) {
    let folder = Folder::new().with("words.txt", "one\ntwo\n").with("empty.txt", "");
    let options = CommandOptions::default();
    let job = from_command_line(
        range,
        lines.map(Path::new),
        &words(grid),
        &words(program),
        folder.path(),
        &options,
    );
    let shown = match job {
        Ok(job) => format!("{} {:?} {:?}", job.name, job.spec.space, job.blobs.len()),
        Err(e) => e.to_string(),
    };
    expected.assert_eq(&folder.hide(&shown));
}

#[test]
fn one_space_or_none() {
    let echo = ["echo", "{}"];
    check(None, None, &[], &echo, expect!["echo Range { from: 0, to: 1, step: 1 } 0"]);
    check(Some("-3..7"), None, &[], &echo, expect!["echo Range { from: -3, to: 7, step: 1 } 0"]);
    check(
        None,
        None,
        &["a=1,2", "b=x=y,"],
        &echo,
        expect![[
            r#"echo Grid { axes: [Axis { name: "a", values: ["1", "2"] }, Axis { name: "b", values: ["x=y", ""] }] } 0"#
        ]],
    );
    check(
        None,
        Some("words.txt"),
        &[],
        &["/bin/sh"],
        expect!["sh List { chunks: [Chunk { hash: ContentHash(04d2649e), units: 2 }] } 1"],
    );
    check(
        Some("0..1"),
        None,
        &["a=1"],
        &echo,
        expect!["the command line: a job has one space: give one of --range, --lines and --grid"],
    );
    check(
        Some("0..1"),
        Some("words.txt"),
        &[],
        &echo,
        expect!["the command line: a job has one space: give one of --range, --lines and --grid"],
    );
}

#[test]
fn bad_flags() {
    let echo = ["echo", "{}"];
    check(
        Some("0..=9"),
        None,
        &[],
        &echo,
        expect![
            "--range 0..=9: write two integers with two dots between, e.g. --range 0..100, which ends with 99"
        ],
    );
    check(
        Some("9"),
        None,
        &[],
        &echo,
        expect![
            "--range 9: write two integers with two dots between, e.g. --range 0..100, which ends with 99"
        ],
    );
    check(
        Some("9..9"),
        None,
        &[],
        &echo,
        expect![
            "--range 9..9: the range from 9 to 9 (exclusive) in steps of 1 is empty: `to` must be above `from`"
        ],
    );
    check(
        None,
        Some("missing.txt"),
        &[],
        &echo,
        expect![
            "--lines: cannot read the list `BASE/missing.txt`: No such file or directory (os error 2); check the path"
        ],
    );
    check(
        None,
        Some("empty.txt"),
        &[],
        &echo,
        expect!["--lines: the list `BASE/empty.txt` is empty: give it at least one line"],
    );
    check(
        None,
        None,
        &["a"],
        &echo,
        expect!["--grid a: write a name and its values, e.g. --grid size=1,2,3"],
    );
    check(
        None,
        None,
        &["a="],
        &echo,
        expect!["--grid a=: write a name and its values, e.g. --grid size=1,2,3"],
    );
    check(None, None, &["a=1", "a=2"], &echo, expect!["--grid: the grid has two lists `a`: rename one"]);
    check(
        None,
        None,
        &["index=1"],
        &echo,
        expect![
            "--grid: a grid's list cannot be named `index`: the name must not be empty, `index`, or contain a brace"
        ],
    );
    check(
        None,
        None,
        &[],
        &[],
        expect![
            "the command line: no program is given: name one after `--`, e.g. submit --range 0..10 -- echo {}"
        ],
    );
    check(
        None,
        None,
        &[],
        &["no-such-program-here"],
        expect![
            "the command line: the program `no-such-program-here` is neither on PATH nor a file in `BASE`: install it, or give its path"
        ],
    );
}

#[test]
fn options_reach_the_job() {
    let options = CommandOptions {
        name: Some("mine".into()),
        sizing: Some(Sizing::UnitsPerTask(5)),
        timeout_seconds: Some(1.5),
        retries: 2,
        env: BTreeMap::from([("A".into(), "{}".into())]),
    };
    let job = from_command_line(None, None, &[], &words(&["true"]), Path::new(""), &options).unwrap();
    assert_eq!((job.name.as_str(), job.sizing), ("mine", Sizing::UnitsPerTask(5)));
    assert_eq!(job.spec.space, Space::Range { from: 0, to: 1, step: 1 });
    let Work::Command(command) = job.spec.work else { panic!("a command") };
    assert_eq!((command.timeout_ms, command.retries, command.env), (Some(1500), 2, options.env));
}

#[test]
fn options_out_of_range() {
    let refused = |options: CommandOptions| {
        from_command_line(None, None, &[], &words(&["true"]), Path::new(""), &options)
            .unwrap_err()
            .to_string()
    };
    let timeout = CommandOptions { timeout_seconds: Some(0.0), ..Default::default() };
    expect!["the time limit: 0 is not a time: use seconds above 0, up to 1000000000"]
        .assert_eq(&refused(timeout));
    let sizing = |sizing| CommandOptions { sizing: Some(sizing), ..Default::default() };
    expect!["the target time: NaN is not a time: use seconds above 0, up to 1000000000"]
        .assert_eq(&refused(sizing(Sizing::TargetSeconds(f64::NAN))));
    expect!["the units per task: 0 units are no task: use 1 or more"]
        .assert_eq(&refused(sizing(Sizing::UnitsPerTask(0))));
}
