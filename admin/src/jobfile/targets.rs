//! The digests that a search looks for, from the job file or from a file of their own.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use starfarm_protocol::ids::from_hex;
use starfarm_protocol::spec::{Algorithm, HexBytes};

use super::error::JobFileError;
use super::table::Item;

/// Digests without repeats, in the order of their first appearance.
#[derive(Default)]
pub(super) struct Targets {
    /// Each once.
    pub(super) list: Vec<HexBytes>,
    /// How many more there were.
    pub(super) repeated: usize,
    seen: HashSet<HexBytes>,
}

impl Targets {
    fn add(&mut self, digest: HexBytes) {
        if self.seen.insert(digest.clone()) {
            self.list.push(digest);
        } else {
            self.repeated += 1;
        }
    }
}

pub(super) fn of_array(item: &Item<'_>, algorithm: Algorithm) -> Result<Targets, JobFileError> {
    let mut targets = Targets::default();
    for (i, entry) in item.array("a list of digests in hexadecimal")?.iter().enumerate() {
        let digest = digest(entry.string()?.trim(), algorithm)
            .map_err(|message| entry.error(format!("entry {} of `targets`: {message}", i + 1)))?;
        targets.add(digest);
    }
    if targets.list.is_empty() {
        return Err(item.error("`targets` is empty: give at least one digest"));
    }
    Ok(targets)
}

/// Reads the file that `targets_file` names, relative to `base`: one digest per line; blank lines and
/// lines that begin with `#` are skipped.
pub(super) fn of_file(item: &Item<'_>, base: &Path, algorithm: Algorithm) -> Result<Targets, JobFileError> {
    let path = base.join(item.string()?);
    let file = path.display().to_string();
    let content = fs::read(&path).map_err(|e| {
        item.error(format!("cannot read the targets file `{file}`: {e}; check the path and its permissions"))
    })?;
    let mut targets = Targets::default();
    for (i, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let digest = digest(text, algorithm).map_err(|message| {
            let column = line.chars().take_while(|c| c.is_whitespace()).count() + 1;
            JobFileError { file: file.clone(), place: Some((i + 1, column)), message }
        })?;
        targets.add(digest);
    }
    if targets.list.is_empty() {
        return Err(item.error(format!("the targets file `{file}` holds no digest: give at least one")));
    }
    Ok(targets)
}

/// One digest; the error is a sentence for the user.
fn digest(text: &str, algorithm: Algorithm) -> Result<HexBytes, String> {
    if text.contains(':') {
        return Err("forms such as `hash:anything` are not supported: give the digest alone".to_owned());
    }
    if let Some(wrong) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(format!("{wrong:?} is not a hexadecimal digit: give the digest with 0-9, a-f or A-F"));
    }
    let expected = algorithm.digest_bytes() * 2;
    let bytes = from_hex(text).filter(|bytes| bytes.len() * 2 == expected).ok_or_else(|| {
        let found = text.len();
        format!(
            "this digest has {found} hexadecimal digits, {algorithm} has {expected}: check it and `algorithm`"
        )
    })?;
    Ok(HexBytes(bytes))
}
