//! What may come in from outside: `cargo deny` by the rules in `deny.toml`. The advisory database is not asked
//! here, since a check must give the same answer without a network; `cargo deny check advisories` does.

use std::process::{Command, Stdio};

use crate::steps::{Steps, cargo};

/// Checks licences, sources and banned crates. CI installs the program where it is missing; a person is told how.
pub(crate) fn run(steps: &mut Steps) {
    if !is_installed() {
        if !std::env::var("CI").is_ok_and(|value| value == "true") {
            println!(
                "cargo-deny is not installed, so licences and sources are not checked; run `cargo install cargo-deny \
                 --locked` once (it compiles for some minutes)"
            );
            return;
        }
        // Unoptimised: it runs once, for less than a second.
        if !steps.cargo("install cargo-deny --locked --debug", &[]) {
            return;
        }
    }
    // It reads the manifests of all platforms; a build has downloaded those of its own alone.
    if steps.cargo("fetch --locked", &[]) {
        steps.cargo("deny --offline check bans licenses sources", &[]);
    }
}

fn is_installed() -> bool {
    let mut command: Command = cargo();
    command.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
