//! The program under test, in a folder of its own, and how it ended.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of this test's own, with all the state that the program under test may write.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("starfarm-admin-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The program with `line`'s words as arguments; `FARM` stands for the folder.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_starfarm"));
        let folder = self.0.to_str().unwrap();
        command.args(line.split(' ').map(|word| word.replace("FARM", folder)));
        for name in ["STARFARM_FARM", "STARFARM_OUTPUT", "STARFARM_STATE", "STARFARM_JOIN"] {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.0.join("state")).env("XDG_CONFIG_HOME", self.0.join("config"));
        command.env("XDG_CACHE_HOME", self.0.join("cache"));
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, line: &str) -> Ended {
        Ended::of(self.command(line).output().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Its output, if it ended with `code`.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.stdout
    }

    /// Its message, if it ended with `code` and printed nothing.
    #[track_caller]
    pub(crate) fn failed_with(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        assert!(self.stderr.starts_with("starfarm: "), "{self:?}");
        self.stderr
    }
}
