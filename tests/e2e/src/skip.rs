//! What a test does that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write;

/// Says, and notes for the summary of the whole run, that `test` lacks `need`. The caller returns.
pub fn skip(need: &str, test: &str, why: &str) {
    eprintln!("skipped {test}: it needs {need}: {why}");
    let Some(path) = std::env::var_os("STARFARM_SKIPS") else { return };
    let noted = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{need}: {test}: {why}"));
    if let Err(error) = noted {
        eprintln!("the skip could not be noted in {}: {error}", path.display());
    }
}
