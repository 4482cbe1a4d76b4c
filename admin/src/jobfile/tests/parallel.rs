//! Lines of GNU parallel.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use expect_test::{Expect, expect};
use starfarm_protocol::job::MaxFailures;
use starfarm_protocol::spec::Work;

use super::*;
use crate::jobfile::from_parallel;

/// One line per line of parallel: what the shell is given and the units, or the message.
#[track_caller]
fn check(all: &[&[&str]], expected: Expect) {
    let folder = Folder::new().with("one", "1\n2\n").with("two", "x y\n\nz").with("none", "");
    let shown = all.iter().map(|words| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        match from_parallel(&words, folder.path()) {
            Ok(JobFile { name, spec, blobs, .. }) => {
                let Work::Command(command) = spec.work else { panic!("a command") };
                let lines = String::from_utf8(blobs.concat()).unwrap();
                let space = if blobs.is_empty() { format!("{:?}", spec.space) } else { format!("{lines:?}") };
                format!("{name}: {:?} over {space}\n", command.program)
            }
            Err(e) => format!("{e}\n"),
        }
    });
    expected.assert_eq(&folder.hide(&shown.collect::<String>()));
}

#[test]
fn words_are_joined_and_a_placeholder_is_added_where_there_is_none() {
    check(
        &[
            &["convert {} {.}.png", ":::", "a.jpg", "b c.jpg"],
            &["gzip", "-9", ":::", "a"],
            &["echo", "{#}", ":::", ""],
            &[":::", "echo 1", "echo 2"],
            &["echo ${HOME}", "::::", "one"],
        ],
        expect![[r#"
            convert: ["sh", "-c", "convert {} {.}.png"] over "a.jpg\nb c.jpg\n"
            gzip: ["sh", "-c", "gzip -9 {}"] over "a\n"
            echo: ["sh", "-c", "echo {#}"] over "\n"
            eval: ["sh", "-c", "eval {}"] over "echo 1\necho 2\n"
            echo: ["sh", "-c", "echo ${HOME} {}"] over "1\n2\n"
        "#]],
    );
}

#[test]
fn several_lists_are_combined() {
    check(
        &[
            &["echo", ":::", "a", "b", ":::", "c"],
            &["echo", "::::", "one", "two", ":::", "c"],
            &["echo", ":::", "line\nbreak"],
        ],
        expect![[r#"
            echo: ["sh", "-c", "echo {}"] over Grid { axes: [Axis { name: "1", values: ["a", "b"] }, Axis { name: "2", values: ["c"] }] }
            echo: ["sh", "-c", "echo {}"] over Grid { axes: [Axis { name: "1", values: ["1", "2"] }, Axis { name: "2", values: ["x y", "", "z"] }, Axis { name: "3", values: ["c"] }] }
            echo: ["sh", "-c", "echo {}"] over Grid { axes: [Axis { name: "1", values: ["line\nbreak"] }] }
        "#]],
    );
}

#[test]
fn what_is_not_known_is_refused() {
    check(
        &[
            &["echo", ":::"],
            &["echo", "::::"],
            &["echo", ":::", "a", ":::+", "b"],
            &["echo {%}", ":::", "a"],
            &["echo '{= $_++ =}'", ":::", "a"],
            &["echo", "::::", "missing"],
            &["echo", "::::", "none"],
        ],
        expect![[r#"
            the command line: no value follows `:::`: give at least one
            the command line: no file follows `::::`: name one, or `-` for standard input
            the command line: `:::+` is not known here: lists are combined, not linked
            the command line: `{%}` is not known here: use {}, {.}, {/}, {//}, {/.}, {#}, or these with a list's number such as {1.}
            the command line: `{=` is not known here: use {}, {.}, {/}, {//}, {/.}, {#}, or these with a list's number such as {1.}
            the command line: cannot read the list `BASE/missing`: No such file or directory (os error 2); check the path
            the command line: the list `BASE/none` is empty: give it at least one line
        "#]],
    );
}

#[test]
fn names_that_are_not_utf8_are_kept_and_failures_stop_nothing() {
    let words = ["echo".into(), ":::".into(), OsString::from_vec(vec![0xff, b'a'])];
    let job = from_parallel(&words, Path::new("")).unwrap();
    assert_eq!((job.blobs, job.max_failures), (vec![b"\xffa\n".to_vec()], MaxFailures::Never));
}
