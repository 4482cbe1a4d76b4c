//! Where the programs are that the tests run: beside the test executables, in the same profile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A program that is being built anew is away for a moment.
const AWAY: Duration = Duration::from_secs(5);

/// The path of the program `name`. Says so where sources are newer: a test that fails may have met an old program.
///
/// # Panics
/// It has not been built.
pub fn binary(name: &str) -> PathBuf {
    // A test that polls starts a program a thousand times: it is looked for, and its age told, once.
    static KNOWN: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(name.to_owned()).or_insert_with(|| look(name)).clone()
}

fn look(name: &str) -> PathBuf {
    let start = Instant::now();
    let path = loop {
        match find(name) {
            Some(path) => break path,
            None if start.elapsed() < AWAY => std::thread::sleep(Duration::from_millis(20)),
            None => panic!("{name} is missing: run `cargo build --workspace --bins` first"),
        }
    };
    if let Some(source) = newer_source(&path) {
        eprintln!("{name} is older than {source}: run `cargo build --workspace --bins` first");
    }
    path
}

fn find(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a running test has an executable");
    // target/PROFILE/deps/TEST-HASH, or target/PROFILE/PROGRAM for one that measures.
    let beside = test.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    beside.filter(|path| path.is_file()).last()
}

/// A source of the program that was written after it was built, by the list that cargo leaves beside it.
fn newer_source(program: &Path) -> Option<String> {
    let written = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let built = written(program)?;
    let list = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let sources = list.split_once(": ")?.1.split_whitespace();
    sources.into_iter().find(|source| written(Path::new(source)) > Some(built)).map(str::to_owned)
}
