//! Where the programs are that the tests run: beside the test executables, in the same profile.

use std::path::PathBuf;

/// The path of the program `name`.
///
/// # Panics
/// It has not been built.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has an executable");
    // target/PROFILE/deps/TEST-HASH, or target/PROFILE/PROGRAM for one that measures.
    let beside = test.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    beside
        .filter(|path| path.is_file())
        .last()
        .unwrap_or_else(|| panic!("{name} is missing: run `cargo build --workspace --bins` first"))
}
