//! Where the programs are that the tests run: beside the test executables, in the same profile.

use std::path::PathBuf;

/// The path of the program `name`.
///
/// # Panics
/// It has not been built.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has an executable");
    // target/PROFILE/deps/TEST-HASH
    let profile = test.ancestors().nth(2).expect("a test lies two folders deep");
    let path = profile.join(name);
    assert!(path.is_file(), "{} is missing: run `cargo build --workspace --bins` first", path.display());
    path
}
