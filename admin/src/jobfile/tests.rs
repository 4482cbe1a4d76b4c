//! Job files in, jobs or messages out. The files that a test names lie in a folder of its own, which the
//! expectations call BASE.

mod bad;
mod bad_input_files;
mod bytes;
mod command_line;
mod good;
mod parallel;
mod terms;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::Expect;

use super::{JobFile, JobFileError, parse, task};

/// A search over what the test puts into `[space]`.
const SEARCH: &str = "\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
                      targets = [\"d41d8cd98f00b204e9800998ecf8427e\"]\n";
/// A command over what the test puts into `[space]`.
const COMMAND: &str = "\n[task]\nexecutor = \"command\"\nprogram = [\"true\", \"{}\"]\n";
/// A space for what the test puts into `[task]`, which begins in line 6.
const RANGE: &str = "[space]\nkind = \"range\"\nfrom = 0\nto = 10\n[task]\n";
/// Likewise, a space that can be searched; `[task]`'s keys begin in line 4.
const CHARS: &str = "[space]\nkind = \"chars\"\nmask = \"?l?l\"\n[task]\n";

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("starfarm-jobfile-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn hide(&self, text: &str) -> String {
        text.replace(self.0.to_str().unwrap(), "BASE")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn parsed(text: &str) -> Result<JobFile, JobFileError> {
    parse(text, "demo.toml", Path::new(""))
}

/// Parses in `folder` and compares the job's debug form, or the message.
#[track_caller]
fn check_in(folder: &Folder, text: &str, expected: Expect) {
    let shown = match parse(text, "demo.toml", folder.path()) {
        Ok(job) => format!("{job:#?}"),
        Err(e) => e.to_string(),
    };
    expected.assert_eq(&folder.hide(&shown));
}

/// Every text is refused; the messages, in order, are compared. The list of the executors is `EXECUTORS` in them, which
/// a new one leaves alone.
#[track_caller]
fn refused(texts: &[String], expected: Expect) {
    let folder = Folder::new();
    let messages = texts.iter().map(|text| match parse(text, "demo.toml", folder.path()) {
        Ok(job) => panic!("{text}\nis taken for {job:#?}"),
        Err(e) => folder.hide(&e.to_string()).replace(&task::words(), "EXECUTORS") + "\n",
    });
    expected.assert_eq(&messages.collect::<String>());
}

/// Texts that differ in one line each.
fn each(before: &str, lines: &[&str], after: &str) -> Vec<String> {
    lines.iter().map(|line| format!("{before}{line}\n{after}")).collect()
}
