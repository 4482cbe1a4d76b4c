//! The README's test command: outside programs, the page, the binaries, all tests, and what could not run.

use std::path::Path;
use std::process::Stdio;

use crate::steps::{Steps, cargo};
use crate::{dashboard, emulated, programs, skips};

/// Where the tests of one run note what they had to skip, below the repository's top.
pub(crate) const SKIPS_FILE: &str = "target/skips.txt";

/// Runs all tests. Without the binaries there is nothing to test, so a failed build ends it.
pub(crate) fn run(steps: &mut Steps) {
    let skips_file = steps.root().join(SKIPS_FILE);
    steps.run("outside programs", programs::provide);
    steps.run("empty the list of skipped tests", || skips::empty(&skips_file));
    dashboard::test(steps, in_ci());
    if steps.cargo("build --workspace --bins", &[]) {
        run_tests(steps, &skips_file);
        emulated::test(steps, in_ci());
        steps.run("skipped tests", || skips::report(&skips_file, in_ci()));
    }
}

fn run_tests(steps: &mut Steps, skips_file: &Path) {
    let runner = if has_nextest() {
        "nextest run --workspace"
    } else {
        println!(
            "cargo-nextest is not installed, so `cargo test` runs the tests; for one process per test and a \
             shorter report run `cargo install cargo-nextest --locked` once (it compiles for some minutes)"
        );
        "test --workspace --tests --no-fail-fast"
    };
    let file = skips_file.to_string_lossy();
    steps.cargo(runner, &[(skips::VARIABLE, &file)]);
}

fn has_nextest() -> bool {
    let mut command = cargo();
    command.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// CI sets this variable; there what it promises must be so.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
