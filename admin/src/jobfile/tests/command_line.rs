//! Jobs without a file.

use expect_test::{Expect, expect};

use super::*;
use crate::jobfile::from_command_line;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The flags of one command line; without a program it runs `echo {}`.
#[derive(Default)]
struct Flags {
    range: Option<&'static str>,
    lines: Option<&'static str>,
    grid: &'static [&'static str],
    program: Option<&'static [&'static str]>,
}

/// One line per command line: the job in short, or the message.
#[track_caller]
fn check(all: &[Flags], expected: Expect) {
    let folder = Folder::new().with("words.txt", "one\ntwo\n").with("empty.txt", "");
    let shown = all.iter().map(|flags| {
        let (lines, grid) = (flags.lines.map(Path::new), words(flags.grid));
        let program = words(flags.program.unwrap_or(&["echo", "{}"]));
        match from_command_line(flags.range, lines, &grid, &program, folder.path()) {
            Ok(job) => format!("{}: {:?}, {} blobs\n", job.name, job.spec.space, job.blobs.len()),
            Err(e) => format!("{e}\n"),
        }
    });
    expected.assert_eq(&folder.hide(&shown.collect::<String>()));
}

fn range(range: &'static str) -> Flags {
    Flags { range: Some(range), ..Flags::default() }
}

fn lines(lines: &'static str) -> Flags {
    Flags { lines: Some(lines), ..Flags::default() }
}

fn grid(grid: &'static [&'static str]) -> Flags {
    Flags { grid, ..Flags::default() }
}

fn program(program: &'static [&'static str]) -> Flags {
    Flags { program: Some(program), ..Flags::default() }
}

#[test]
fn one_space_or_none() {
    let flags = [
        Flags::default(),
        range("-3..7"),
        lines("words.txt"),
        grid(&["a=1,2", "b=x=y,"]),
        program(&["/bin/sh"]),
    ];
    check(
        &flags,
        expect![[r#"
        echo: Range { from: 0, to: 1, step: 1 }, 0 blobs
        echo: Range { from: -3, to: 7, step: 1 }, 0 blobs
        echo: List { chunks: [Chunk { hash: ContentHash(04d2649e), units: 2 }] }, 1 blobs
        echo: Grid { axes: [Axis { name: "a", values: ["1", "2"] }, Axis { name: "b", values: ["x=y", ""] }] }, 0 blobs
        sh: Range { from: 0, to: 1, step: 1 }, 0 blobs
    "#]],
    );
}

#[test]
fn two_spaces() {
    let flags = [
        Flags { grid: &["a=1"], ..range("0..1") },
        Flags { lines: Some("words.txt"), ..range("0..1") },
        Flags { lines: Some("words.txt"), ..grid(&["a=1"]) },
    ];
    check(
        &flags,
        expect![[r#"
        the command line: a job has one space: give one of --range, --lines and --grid
        the command line: a job has one space: give one of --range, --lines and --grid
        the command line: a job has one space: give one of --range, --lines and --grid
    "#]],
    );
}

#[test]
fn bad_flags() {
    check(
        &[range("0..=9"), range("9"), range("..9"), range("9..9")],
        expect![[r#"
            --range 0..=9: write two integers of 64 bits with two dots between, e.g. --range 0..100, which ends with 99
            --range 9: write two integers of 64 bits with two dots between, e.g. --range 0..100, which ends with 99
            --range ..9: write two integers of 64 bits with two dots between, e.g. --range 0..100, which ends with 99
            --range 9..9: the range from 9 to 9 (exclusive) in steps of 1 is empty: `to` must be above `from`
        "#]],
    );
    check(
        &[lines("missing.txt"), lines("empty.txt")],
        expect![[r#"
        --lines: cannot read the list `BASE/missing.txt`: No such file or directory (os error 2); check the path
        --lines: the list `BASE/empty.txt` is empty: give it at least one line
    "#]],
    );
    check(
        &[grid(&["a"]), grid(&["a="]), grid(&["a=1", "a=2"]), grid(&["index=1"])],
        expect![[r#"
        --grid a: write a name and its values, e.g. --grid size=1,2,3
        --grid a=: write a name and its values, e.g. --grid size=1,2,3
        --grid: the grid has two lists `a`: rename one
        --grid: a grid's list cannot be named `index`: the name must not be empty, `index`, or contain a brace
    "#]],
    );
    check(
        &[program(&[]), program(&["./no-such-program-here"])],
        expect![[r#"
            the command line: no program is given: name one after `--`, e.g. submit --range 0..10 -- echo {}
            the command line: the program `./no-such-program-here` is not a file here: check the path, which is relative to `BASE`
        "#]],
    );
}
