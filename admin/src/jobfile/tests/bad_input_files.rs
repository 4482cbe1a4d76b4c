//! Files that a job names and that cannot be used.

use std::os::unix::ffi::OsStrExt;

use expect_test::{Expect, expect};
use starfarm_protocol::unit_set::UnitSet;

use super::*;
use crate::jobfile::read;

#[track_caller]
fn list(folder: &Folder, keys: &str, expected: Expect) {
    check_in(folder, &format!("[space]\nkind = \"list\"\n{keys}\n{COMMAND}"), expected);
}

#[test]
fn lists_that_are_empty_or_missing() {
    let folder = Folder::new().with("empty.txt", "").with("folder/note.txt", "");
    list(
        &folder,
        "file = \"missing.txt\"",
        expect![
            "demo.toml:3:8: cannot read the list `BASE/missing.txt`: No such file or directory (os error 2); check the path"
        ],
    );
    list(
        &folder,
        "file = \"empty.txt\"",
        expect!["demo.toml:3:8: the list `BASE/empty.txt` is empty: give it at least one line"],
    );
    list(
        &folder,
        "file = \"folder\"",
        expect![
            "demo.toml:3:8: cannot read the list `BASE/folder`: Is a directory (os error 21); check the path"
        ],
    );
}

#[test]
fn patterns_without_files() {
    let folder = Folder::new().with("folder/note.txt", "");
    list(
        &folder,
        "glob = \"*.png\"",
        expect!["demo.toml:3:8: the pattern `*.png` matches no file under `BASE`: change it"],
    );
    list(
        &folder,
        "glob = \"*\"",
        expect!["demo.toml:3:8: the pattern `*` matches no file under `BASE`: change it"],
    );
    list(
        &folder,
        "glob = \"folder/[\"",
        expect![
            "demo.toml:3:8: the pattern `folder/[` cannot be read: unclosed character class; missing ']'; change it"
        ],
    );
    list(
        &folder.with("line\nbreak.png", ""),
        "glob = \"*.png\"",
        expect![[
            r#"demo.toml:3:8: the name "BASE/line\nbreak.png" has a line break in it and cannot be a line of a list: rename the file"#
        ]],
    );
}

/// A job file that is named without a folder has none.
#[test]
fn a_pattern_without_files_says_where_it_looked() {
    let text = format!("[space]\nkind = \"list\"\nglob = \"*.no-such\"\n{COMMAND}");
    let said = parsed(&text).unwrap_err().message;
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        said,
        format!("the pattern `*.no-such` matches no file under `{}`: change it", here.display())
    );
}

/// Programs are given lines as arguments or variables; a search takes any bytes.
#[test]
fn a_line_with_a_nul_byte_is_refused_for_programs_that_are_given_it() {
    let folder = Folder::new().with("nul.txt", format!("{}one\nt\0wo\n", "x\n".repeat(40_000)));
    let space = "[space]\nkind = \"list\"\nfile = \"nul.txt\"\n[task]\nexecutor = \"command\"\nprogram =";
    for line in ["[\"true\", \"-{}\"]", "[\"true\"]\nenv = { LINE = \"{}\" }"] {
        let said = parse(&format!("{space} {line}\n"), "demo.toml", folder.path()).unwrap_err();
        assert_eq!(
            said.message,
            "line 40002 of the list holds a NUL byte, which no program can be given: remove it"
        );
    }
    parse(&format!("{space} [\"true\", \"{{index}}\"]\n"), "demo.toml", folder.path()).unwrap();
}

#[test]
fn targets_files() {
    let sound = "0".repeat(32);
    let folder = Folder::new()
        .with("short.txt", format!("# two\n{sound}\n\n  0123\n"))
        .with("form.txt", format!("{sound}\n{sound}:salt\n"))
        .with("binary.txt", b"\xff\xfe\n")
        .with("none.txt", "# nothing yet\n\n");
    for (name, expected) in [
        (
            "missing.txt",
            expect![
                "demo.toml:7:16: cannot read the targets file `BASE/missing.txt`: No such file or directory (os error 2); check the path and its permissions"
            ],
        ),
        (
            "short.txt",
            expect![
                "BASE/short.txt:4:3: this digest has 4 hexadecimal digits, md5 has 32: check it and `algorithm`"
            ],
        ),
        (
            "form.txt",
            expect![
                "BASE/form.txt:2:1: forms such as `hash:anything` are not supported: give the digest alone"
            ],
        ),
        (
            "binary.txt",
            expect![
                "BASE/binary.txt:1:1: '�' is not a hexadecimal digit: give the digest with 0-9, a-f or A-F"
            ],
        ),
        (
            "none.txt",
            expect!["demo.toml:7:16: the targets file `BASE/none.txt` holds no digest: give at least one"],
        ),
    ] {
        let task = format!("executor = \"search\"\nalgorithm = \"md5\"\ntargets_file = \"{name}\"\n");
        check_in(&folder, &format!("{CHARS}{task}"), expected);
    }
}

#[test]
fn a_program_without_the_right_to_run() {
    let folder = Folder::new().with("tool.sh", "#!/bin/sh\n");
    check_in(
        &folder,
        &format!("{RANGE}executor = \"command\"\nprogram = [\"./tool.sh\"]\n"),
        expect![
            "demo.toml:7:12: the program `./tool.sh` is not executable here: run `chmod +x BASE/./tool.sh`"
        ],
    );
}

#[test]
fn job_files_that_cannot_be_read() {
    let folder = Folder::new().with("latin.toml", b"name = \"x\"\n# caf\xe9\n");
    let message = |name: &str| {
        folder.hide(&read(&folder.path().join(name), &UnitSet::default()).unwrap_err().to_string())
    };
    expect![
        "BASE/missing.toml: cannot read the job file: No such file or directory (os error 2); check the path"
    ]
    .assert_eq(&message("missing.toml"));
    expect!["BASE/latin.toml:2:6: this is not UTF-8 text: save the job file as UTF-8"]
        .assert_eq(&message("latin.toml"));
}

/// Keys of a task that starts `true`.
#[track_caller]
fn files(folder: &Folder, keys: &str, expected: Expect) {
    let space = "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n";
    check_in(
        folder,
        &format!("{space}[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n{keys}\n"),
        expected,
    );
}

#[test]
fn inputs_that_are_no_files_or_cannot_be_read_or_named() {
    let folder = Folder::new();
    // Its bytes cannot be read, whoever tries, though it is a file.
    std::os::unix::fs::symlink("/proc/self/mem", folder.path().join("torn")).unwrap();
    files(
        &folder,
        "inputs = [\"torn\"]",
        expect![
            "demo.toml:8:11: cannot read the input `BASE/torn`: Input/output error (os error 5); check the path"
        ],
    );
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff.txt");
    std::fs::write(folder.path().join(odd), "").unwrap();
    files(
        &folder,
        "inputs = [\"odd*\"]",
        expect![[r#"demo.toml:8:11: the name "BASE/odd-\xFF.txt" is not UTF-8: rename the file"#]],
    );
    // A device, by a link that its folder has.
    std::os::unix::fs::symlink("/dev/null", folder.path().join("null")).unwrap();
    files(
        &folder,
        "inputs = [\"null\"]",
        expect!["demo.toml:8:11: the input `null` is no regular file: bring the bytes along in one"],
    );
    files(
        &folder,
        "inputs = [\"nul*\"]",
        expect!["demo.toml:8:11: the pattern `nul*` matches no file under `BASE`: change it"],
    );
}

#[test]
fn inputs_that_cannot_come_along() {
    let folder = Folder::new().with("textures/oak.txt", "oak");
    files(
        &folder,
        "inputs = [\"/etc/passwd\"]",
        expect![
            "demo.toml:8:11: the input `/etc/passwd` does not lie beneath the job file's folder: move or link it there, and write its path relative to that folder"
        ],
    );
    files(
        &folder,
        "inputs = [\"../x\"]",
        expect![
            "demo.toml:8:11: the input `../x` does not lie beneath the job file's folder: move or link it there, and write its path relative to that folder"
        ],
    );
    files(
        &folder,
        "inputs = [\"textures/../../x\"]",
        expect![
            "demo.toml:8:11: the input `textures/../../x` does not lie beneath the job file's folder: move or link it there, and write its path relative to that folder"
        ],
    );
    files(
        &folder,
        "inputs = [\"missing.txt\"]",
        expect!["demo.toml:8:11: the input `missing.txt` is not a file in BASE: check the path"],
    );
    files(
        &folder,
        "inputs = [\"textures\"]",
        expect![
            "demo.toml:8:11: the input `textures` is a directory: write `textures/**` for all files in it"
        ],
    );
    files(
        &folder,
        "inputs = [\"*.png\"]",
        expect!["demo.toml:8:11: the pattern `*.png` matches no file under `BASE`: change it"],
    );
    files(&folder, "inputs = [\"\"]", expect!["demo.toml:8:11: the name of an input is empty: name a file"]);
    files(
        &folder,
        "inputs = [\".\"]",
        expect!["demo.toml:8:11: the input `.` is a directory: write `./**` for all files in it"],
    );
    files(
        &folder,
        "inputs = \"textures/oak.txt\"",
        expect!["demo.toml:8:10: `inputs` must be a list of files or patterns, this is a string: change it"],
    );
    files(
        &folder,
        "inputs = [\"textures/**\"]\ncwd = \".\"",
        expect!["demo.toml:9:7: a job with `inputs` or `outputs` runs where these are: remove `cwd`"],
    );
}

#[test]
fn outputs_that_lie_elsewhere() {
    let folder = Folder::new();
    files(
        &folder,
        "outputs = [\"/tmp/{}.png\"]",
        expect![
            "demo.toml:8:12: the output `/tmp/{}.png` is no path inside of the directory that a unit runs in: write plain names, parted by /"
        ],
    );
    files(
        &folder,
        "outputs = [\"../{}.png\"]",
        expect![
            "demo.toml:8:12: the output `../{}.png` is no path inside of the directory that a unit runs in: write plain names, parted by /"
        ],
    );
    files(
        &folder,
        "outputs = [\"a//b\"]",
        expect![
            "demo.toml:8:12: the output `a//b` is no path inside of the directory that a unit runs in: write plain names, parted by /"
        ],
    );
    files(
        &folder,
        "outputs = [\"d/*.png\"]",
        expect![
            "demo.toml:8:12: the output `d/*.png` is a pattern, which only inputs may be: name each file, or let the program pack those whose names it alone knows into one"
        ],
    );
    files(
        &folder,
        "outputs = [\"{}\", \"{}\"]",
        expect!["demo.toml:8:18: the output `{}` is named twice: remove one"],
    );
    files(
        &folder,
        "outputs = [\"{}\"]\nfiles_limit = 0",
        expect!["demo.toml:9:15: `files_limit` is 0: use an integer from 1 to 1073741824"],
    );
}
