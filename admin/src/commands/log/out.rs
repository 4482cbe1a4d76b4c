//! Files that are made of a log, and the terminal's width.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Without a terminal.
const WIDTH: usize = 80;
/// Narrower pictures show nothing, wider ones are hard to follow.
const WIDTHS: (usize, usize) = (60, 160);

/// How many columns a picture may have.
pub(super) fn terminal_width() -> usize {
    let columns = output::terminal_columns();
    columns.map_or(WIDTH, |columns| columns.clamp(WIDTHS.0, WIDTHS.1))
}

/// A file in the making: what stands under its name is whole, or what was there before.
pub(super) struct File {
    path: PathBuf,
    draft: PathBuf,
    out: BufWriter<fs::File>,
}

impl File {
    /// A file that is made of the log at `log`.
    pub(super) fn create(path: &Path, log: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        if path == Path::new("-") {
            return Err(Failure::usage("`-` is no file here: name one, or ./- if it is to be called so"));
        }
        if path.is_dir() {
            return Err(Failure::usage(format!("{shown} is a directory: name a file")));
        }
        // A device's name would be taken away from it.
        if path.exists() && !path.is_file() {
            return Err(Failure::usage(format!("{shown} is something else than a file: name a file")));
        }
        if is_of_log(path, log) {
            return Err(Failure::usage(format!("{shown} is a part of the log itself: name another file")));
        }
        let name = path.file_name().ok_or_else(|| Failure::usage(format!("{shown} names no file")))?;
        let mut draft: OsString = name.to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        let draft = path.with_file_name(draft);
        let new = fs::OpenOptions::new().write(true).create_new(true).open(&draft);
        let file = new.map_err(|error| Failure::usage(format!("cannot write {shown}: {error}")))?;
        Ok(Self { path: path.to_owned(), draft, out: BufWriter::new(file) })
    }

    /// Where its bytes go.
    pub(super) fn writer(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    pub(super) fn failure(&self, error: &io::Error) -> Failure {
        Failure::usage(format!("cannot write {}: {error}", self.path.display()))
    }

    /// Puts it in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let written = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        written.and_then(|()| fs::rename(&self.draft, &self.path)).map_err(|error| self.failure(&error))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Once it is in its place, nothing stands under the draft's name.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Whether a file is the log, or stands among its segments under a segment's name.
fn is_of_log(path: &Path, log: &Path) -> bool {
    let is_same =
        |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_segment = path.extension().is_some_and(|end| end == "xml" || end == "part");
    is_same(path, log) || (is_segment && is_same(parent, log))
}
