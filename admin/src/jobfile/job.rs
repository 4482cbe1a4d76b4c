//! A job as it is submitted, whichever way it was said. How it is read stands beside this.

use std::path::{self, Path};
use std::sync::Arc;

use starfarm_decomposers::NoChunks;
use starfarm_decomposers::template::{Template, UnitText};
use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::spec::{JobSpec, Space, Work};
use starfarm_protocol::trust::TrustChecks;

use super::error::JobFileError;
use super::inputs::InputFile;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobFile {
    /// The job's name: for people, need not be unique.
    pub(crate) name: String,
    /// The space and the work; what is hashed.
    pub(crate) spec: JobSpec,
    pub(crate) sizing: Sizing,
    /// How many failed units it bears.
    pub(crate) max_failures: MaxFailures,
    /// Whether idle nodes get copies of its last tasks; none: what the farm thinks right for its kind.
    pub(crate) speculative: Option<bool>,
    /// How its results are checked beyond what always is.
    pub(crate) trust: TrustChecks,
    /// The chunks of a list, about 64 KiB each, in the order of the specification: to be uploaded before
    /// the job is submitted. The same content may occur twice.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// Files that the job brings along: to be uploaded likewise.
    pub(crate) inputs: Vec<InputFile>,
    /// The program could not be started on this machine. On others it may.
    pub(crate) not_here: Option<JobFileError>,
    /// Targets of a search that were given before, and are left out.
    pub(crate) repeated_targets: usize,
}

impl JobFile {
    /// A job of which nothing is said but its units and what is done with them.
    pub(crate) fn new(name: String, space: Space, work: Work) -> Self {
        Self {
            name,
            spec: JobSpec { space, work },
            sizing: Sizing::default(),
            max_failures: MaxFailures::Usual,
            speculative: None,
            trust: TrustChecks::default(),
            blobs: Vec::new(),
            inputs: Vec::new(),
            not_here: None,
            repeated_targets: 0,
        }
    }

    /// Programs for which the user names no folder start where the job was written, on nodes that have that folder.
    pub(crate) fn at_home(mut self, base: &Path) -> Self {
        if let Work::Command(command) = &mut self.spec.work
            && command.cwd.is_none()
            && !command.has_files()
        {
            command.cwd = absolute(base);
            command.cwd_optional = command.cwd.is_some();
        }
        self
    }

    /// Programs are given no line of the list that no program can be given.
    ///
    /// # Errors
    /// One would be, in words that say which.
    pub(crate) fn no_nul_in_line(&self) -> Result<(), String> {
        let Work::Command(command) = &self.spec.work else { return Ok(()) };
        let nul = UnitText { index: 0, value: vec![0], fields: Vec::new() };
        let is_given = |word: &String| Template::parse(word, &[]).fill(&nul).contains(&0);
        if !command.program.iter().chain(command.env.values()).any(is_given) {
            return Ok(());
        }
        let mut lines = self.blobs.iter().flat_map(|blob| blob.split_inclusive(|byte| *byte == b'\n'));
        match lines.position(|line| line.contains(&0)) {
            None => Ok(()),
            Some(at) => Err(format!(
                "line {} of the list holds a NUL byte, which no program can be given: remove it",
                at + 1
            )),
        }
    }

    /// Programs start in this folder, relative to the present one.
    pub(crate) fn in_folder(&mut self, folder: &Path) {
        if let Work::Command(command) = &mut self.spec.work {
            (command.cwd, command.cwd_optional) = (absolute(folder), false);
        }
    }
}

/// The names that `space` gives to templates beside `{}` and `{index}`.
pub(super) fn names_of(space: &Space) -> Vec<String> {
    starfarm_decomposers::open(space, Arc::new(NoChunks)).map(|opened| opened.names()).unwrap_or_default()
}

/// The absolute form of a folder, if it is UTF-8; the present one where `folder` is empty.
pub(super) fn absolute(folder: &Path) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    path::absolute(folder).ok()?.into_os_string().into_string().ok()
}
