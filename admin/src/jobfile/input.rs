//! What a path, or `-` in its place, holds.

use std::io::Read;
use std::path::Path;

/// The name that stands for standard input, where a file is asked for.
pub(crate) const STDIN: &str = "-";

/// The content of a file, or of standard input.
pub(super) fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new(STDIN) {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
