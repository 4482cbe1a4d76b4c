//! A unit's command line, and in which words it is said why it could not be started.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;

use super::progress::Progress;

/// What is in the way of a program's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// The command line itself: it starts nowhere.
    Line,
    /// The program, or its working directory, is not here, or not fit to be started here.
    Program,
    /// This machine has no process, memory or file descriptor left.
    Room,
}

/// What is run for one unit. No shell is involved: each argument arrives as it stands here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommandLine {
    /// A path, or a name that is looked up in the worker's PATH. A relative path counts from `dir`.
    pub program: OsString,
    /// Its arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Added to the worker's own environment, which is inherited. A PATH given here is the one the
    /// program is looked up in, and makes the start slow (fork instead of `posix_spawn`).
    pub env: Vec<(OsString, OsString)>,
    /// The directory it starts in; the worker's own where there is none.
    pub dir: Option<PathBuf>,
    /// The file that is its standard input, relative to `dir`; without it that is empty.
    pub stdin: Option<PathBuf>,
    /// How long it may run before it is ended. Without it a hanging program hangs its slot.
    pub timeout: Option<Duration>,
    /// A file in which it tells how far it is, if it can: then a graceful cancel ends it as well.
    pub progress: Option<Progress>,
    /// Bytes kept of each of stdout and stderr, see [`Captured`](super::Captured).
    pub output_limit: u64,
}

impl CommandLine {
    /// The same for std. Only options that leave std on its `posix_spawn` path: a fork would copy the
    /// page tables of the whole worker for every unit.
    ///
    /// # Errors
    /// The file that is to be read cannot be; [`CommandLine::why_not_started`] finds that again.
    pub(super) fn to_std(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        let stdin = self.stdin().map_or(Ok(Stdio::null()), |path| open(&path).map(Stdio::from))?;
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        Ok(command)
    }

    /// Where the file lies that is standard input.
    fn stdin(&self) -> Option<PathBuf> {
        Some(self.dir.as_deref().unwrap_or(Path::new("")).join(self.stdin.as_ref()?))
    }

    /// What to tell the user when the start failed with `error`, and what is in the way.
    pub(super) fn why_not_started(&self, error: &io::Error) -> (String, Lack) {
        if let Some(dir) = self.dir.as_deref().filter(|dir| !dir.is_dir()) {
            let why =
                format!("the working directory `{}` is not a directory on this node: make it", dir.display());
            return (why, Lack::Program);
        }
        if let Some((path, e)) = self.stdin().and_then(|path| open(&path).err().map(|e| (path, e))) {
            let why = format!("the standard input `{}` cannot be read on this node: {e}", path.display());
            return (why, Lack::Line);
        }
        let program = self.program.to_string_lossy();
        let was_not_started = |lack: &str, cure: &str| {
            (format!("`{program}` was not started, {lack}: {cure} give the worker fewer slots"), Lack::Room)
        };
        let of_program = |why: String| (why, Lack::Program);
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => of_program(self.why_not_found()),
            Some(Errno::ACCESS) => of_program(format!(
                "`{program}` may not be executed on this node: it must be a file with execute permission \
                 (chmod +x), in directories the worker may enter, not on a `noexec` mount"
            )),
            Some(Errno::NOEXEC) => of_program(format!(
                "`{program}` is neither a program for this kind of machine nor a script whose first line \
                 names its interpreter (such as `#!/bin/sh`)"
            )),
            Some(Errno::TXTBSY) => {
                of_program(format!("`{program}` is still open for writing: start it when it has been closed"))
            }
            Some(Errno::TOOBIG) => {
                let why = format!(
                    "the arguments and environment of `{program}` are longer than this system allows: pass \
                     them in a file"
                );
                (why, Lack::Line)
            }
            Some(Errno::MFILE | Errno::NFILE) => {
                was_not_started("the worker has no file descriptor left", "raise `ulimit -n` or")
            }
            Some(Errno::AGAIN) => was_not_started(
                "this node allows no more processes",
                "raise `ulimit -u` (or the container's pids limit) or",
            ),
            Some(Errno::NOMEM) => was_not_started("this node is out of memory", "free some, or"),
            None if error.kind() == io::ErrorKind::InvalidInput => {
                let why =
                    format!("the command line or environment of `{program}` holds a NUL byte: remove it");
                (why, Lack::Line)
            }
            _ => of_program(format!("`{program}` could not be started: {error}")),
        }
    }

    /// `ENOENT` has three causes that call for three remedies.
    fn why_not_found(&self) -> String {
        let program = self.program.to_string_lossy();
        let path = self.dir.as_deref().unwrap_or(Path::new("")).join(&self.program);
        if !program.contains('/') {
            format!("`{program}` was not found in PATH on this node: install it here, or name its path")
        } else if path.exists() {
            format!(
                "`{program}` is there, but what it needs to start is not: the interpreter that its first \
                 line (`#!`) names, or the loader of the system it was built for"
            )
        } else {
            format!("`{program}` does not exist on this node: put it at this path here, or correct the path")
        }
    }
}

/// A file to read from. To open a pipe would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no regular file")),
    }
}
