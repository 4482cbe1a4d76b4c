//! A job as it is submitted, whichever way it was said. How it is read stands beside this.

use std::collections::HashMap;
use std::path::{self, Path};
use std::sync::Arc;

use starfarm_decomposers::template::{Rules, UnitText};
use starfarm_decomposers::{Chunks, Decomposer, NoChunks};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::job::{MaxFailures, Per, Sizing};
use starfarm_protocol::spec::{JobSpec, Space, Work};
use starfarm_protocol::terms::Terms;
use starfarm_protocol::trust::TrustChecks;
use starfarm_protocol::unit_set::UnitSet;

use super::error::JobFileError;
use super::inputs::{self, InputFile};

/// Contents that are at hand: the chunks of a job's own list.
pub(crate) struct Held(HashMap<ContentHash, Arc<[u8]>>);

impl Held {
    /// These.
    pub(crate) fn of<'a>(contents: impl Iterator<Item = &'a [u8]>) -> Self {
        Self(contents.map(|content| (ContentHash::of(content), Arc::from(content))).collect())
    }
}

impl Chunks for Held {
    fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>> {
        self.0.get(hash).cloned()
    }
}

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
    /// Which jobs it starts after, its labels, how many nodes it may have.
    pub(crate) terms: Terms,
    /// The chunks of a list, about 64 KiB each, in the order of the specification: to be uploaded before
    /// the job is submitted. The same content may occur twice.
    pub(crate) blobs: Vec<Vec<u8>>,
    /// Files that the job brings along: to be uploaded likewise.
    pub(crate) inputs: Vec<InputFile>,
    /// The program could not be started on this machine. On others it may.
    pub(crate) not_here: Option<JobFileError>,
    /// Units that are not to run: their own inputs are left out.
    pub(crate) over: UnitSet,
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
            terms: Terms::default(),
            blobs: Vec::new(),
            inputs: Vec::new(),
            not_here: None,
            over: UnitSet::default(),
            repeated_targets: 0,
        }
    }

    /// Its space, with the chunks of its own list at hand.
    ///
    /// # Errors
    /// As [`starfarm_decomposers::open`].
    pub(crate) fn opened(&self) -> Result<Box<dyn Decomposer>, String> {
        let chunks = Held::of(self.blobs.iter().map(Vec::as_slice));
        starfarm_decomposers::open(&self.spec.space, Arc::new(chunks))
    }

    /// The units whose values may stand in names of inputs.
    pub(super) fn units_of_inputs(&self) -> inputs::Units<'_> {
        let open = || match self.spec.space.grows() {
            true => Err("a program names them while the job runs: bring files along by a pattern".to_owned()),
            false => self.opened(),
        };
        let parallel = matches!(&self.spec.work, Work::Command(command) if command.parallel);
        inputs::Units { open: Box::new(open), names: names_of(&self.spec.space), parallel, over: &self.over }
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
        let rules = Rules::of(command, &[]);
        let is_given = |word: &String| rules.text(word).fill(&nul).contains(&0);
        if !command.program.iter().chain(command.env.values()).chain(&command.stdin).any(is_given) {
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

    /// What the templates of a program name is told to it.
    ///
    /// # Errors
    /// One names what only a unit of its own has, in words that say what to write instead.
    pub(crate) fn templates_fit(&self) -> Result<(), String> {
        let Work::Command(command) = &self.spec.work else { return Ok(()) };
        if command.per == Per::Unit {
            return Ok(());
        }
        if command.parallel {
            return Err("with --parallel each unit has a run of its own: leave --per out".to_owned());
        }
        let words = command.program.iter().chain(command.env.values());
        let words = words.chain(&command.outputs).chain(&command.stdin);
        let mut names = vec![String::new()];
        names.extend(names_of(&self.spec.space));
        let wrong = words.flat_map(|word| names.iter().map(move |name| (word, format!("{{{name}}}"))));
        match wrong.into_iter().find(|(word, name)| word.contains(name)) {
            None => Ok(()),
            Some((_, name)) => Err(format!(
                "`{name}` is of one unit, and with per = \"task\" one run computes many: write {{lo}} and {{hi}} (or \
                 {{last}}), {{count}}, or {{file}}, which has a line for each unit"
            )),
        }
    }

    /// Files beneath `base` that go along, and files that units make, in the place of those that the job has so far.
    ///
    /// # Errors
    /// There are no such files, or none can be called so; or programs start elsewhere.
    pub(crate) fn set_files(
        &mut self,
        inputs: &[String],
        outputs: &[String],
        base: &Path,
    ) -> Result<(), String> {
        let names = names_of(&self.spec.space);
        let found = inputs::find(inputs, base, &self.units_of_inputs())?;
        let Work::Command(command) = &mut self.spec.work else { return Ok(()) };
        if !inputs.is_empty() {
            (self.inputs, command.unit_inputs) = (found.files, found.of_units);
            command.inputs = self.inputs.iter().map(|file| file.input.clone()).collect();
        }
        if !outputs.is_empty() {
            let rules = Rules::of(command, &names);
            for (at, name) in outputs.iter().enumerate() {
                inputs::check_output(name, &outputs[..at], &rules)?;
            }
            command.outputs = outputs.to_vec();
        }
        if !command.has_files() {
            return Ok(());
        }
        match command.cwd {
            Some(_) if !command.cwd_optional => {
                return Err(
                    "a job with `inputs` or `outputs` runs where these are: leave `cwd` out".to_owned()
                );
            }
            _ => (command.cwd, command.cwd_optional) = (None, false),
        }
        if let Some(name) = &command.stdin
            && Rules::of(command, &names).text(name).is_fixed()
            && !Path::new(name).is_absolute()
            && !self.inputs.iter().any(|file| file.input.path == name.trim_start_matches("./"))
        {
            return Err(format!("`stdin` names `{name}`, which is none of the `inputs`: add it to them"));
        }
        let brought = self
            .inputs
            .iter()
            .find(|file| command.program.first().is_some_and(|program| file.source == Path::new(program)));
        if let (Some(file), Some(program)) = (brought, command.program.first_mut()) {
            *program = format!("./{}", file.input.path);
        }
        Ok(())
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
