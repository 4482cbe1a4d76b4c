//! Completions and manual pages as shells and `man` see them. That the pages name every flag is a test beside the code
//! that makes them.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use starfarm_e2e::{Reply, TempDir, program, run, skip};

fn starfarm(dir: &TempDir, args: &[&str]) -> Reply {
    let mut command = program("starfarm", dir.path());
    command.args(args);
    run(command)
}

/// Runs a shell; none where this machine has none of that name.
fn shell(name: &str, args: &[&str], test: &str) -> Option<Reply> {
    let there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    if !there {
        skip(name, test, "it is not installed");
        return None;
    }
    let mut command = Command::new(name);
    command.args(args);
    Some(run(command))
}

#[test]
fn each_shell_accepts_its_completions() {
    let dir = TempDir::new();
    for name in ["bash", "zsh", "fish"] {
        let script = starfarm(&dir, &["completions", name]).exits(0).stdout.clone();
        assert!(script.contains("take-over"), "{name} is told of a flag");
        let file = dir.write(name, script);
        if let Some(reply) =
            shell(name, &["-n", &file.to_string_lossy()], "each_shell_accepts_its_completions")
        {
            assert_eq!(reply.exits(0).stderr, "", "{name}");
        }
    }
    starfarm(&dir, &["completions", "tcsh"]).exits(2).says(&["bash, zsh, fish"]);
}

/// What bash offers after `words`.
fn offered(dir: &TempDir, words: &str) -> Option<Vec<String>> {
    let script = starfarm(dir, &["completions", "bash"]).exits(0).stdout.clone();
    let file = dir.write("completions", script);
    let ask = format!(
        "source {}; COMP_WORDS=(starfarm {words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         $(complete -p starfarm | sed 's/.*-F \\([^ ]*\\).*/\\1/') starfarm '' \"${{COMP_WORDS[-2]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let reply = shell("bash", &["--norc", "-c", &ask], "bash_completes_the_verbs_of_a_job")?;
    Some(reply.exits(0).stdout.lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_the_verbs_of_a_job() {
    let dir = TempDir::new();
    let Some(verbs) = offered(&dir, "job") else { return };
    for verb in ["show", "explain", "pause", "resume", "cancel", "retry"] {
        assert!(verbs.iter().any(|offer| offer == verb), "{verb}: {verbs:?}");
    }
    assert!(!verbs.iter().any(|offer| offer == "drain"), "that is for nodes: {verbs:?}");
    let all = offered(&dir, "").unwrap();
    assert!(all.iter().any(|offer| offer == "top") && !all.iter().any(|offer| offer == "man"), "{all:?}");
    let formats = offered(&dir, "jobs --output").unwrap();
    assert!(formats.iter().any(|offer| offer == "jsonl"), "{formats:?}");
}

#[test]
fn pages_of_the_manual_are_written() {
    let dir = TempDir::new();
    let out = dir.path().join("man");
    starfarm(&dir, &["man", "--out", &out.to_string_lossy()]).exits(0);
    let page = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(page("starfarm-job-explain.1").contains(".TH starfarm-job-explain 1"));
    assert!(page("starfarm.1").contains("starfarm\\-submit(1)"), "the first page names the others");
    assert!(starfarm(&dir, &["man"]).exits(0).stdout.contains(".TH starfarm 1"));
    let file = dir.write("file", "");
    starfarm(&dir, &["man", "--out", &file.to_string_lossy()]).exits(2).says(&["name a directory"]);
    if let Some(reply) = shell(
        "man",
        &["--warnings", "-l", &out.join("starfarm.1").to_string_lossy()],
        "pages_of_the_manual_are_written",
    ) {
        assert!(reply.exits(0).stdout.contains("fault-tolerant task farm"), "{reply:?}");
        assert_eq!(reply.stderr, "");
    }
}
