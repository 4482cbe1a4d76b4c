//! What must hold besides the tests: format, lints, the rules of the house, what comes in from outside,
//! documentation.

use crate::steps::Steps;
use crate::{deny, tidy};

/// Runs every check; a failed one does not hide the next.
pub(crate) fn run(steps: &mut Steps) {
    let root = steps.root();
    steps.cargo("fmt --all --check", &[]);
    steps.cargo("clippy --workspace --all-targets -- -D warnings", &[]);
    steps.run("tidy", || tidy::run(&root));
    deny::run(steps);
    steps.cargo("doc --workspace --no-deps", &[("RUSTDOCFLAGS", "-D warnings")]);
}
