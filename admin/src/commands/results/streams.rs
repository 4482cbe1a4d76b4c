//! What units wrote, each stream in a file whose name a template makes, beneath a folder of the user's.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use starfarm_decomposers::template::{Rules, Template, UnitText};
use starfarm_decomposers::{Chunks, Decomposer};
use starfarm_protocol::admin::OutputInfo;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::job::Per;
use starfarm_protocol::spec::{JobSpec, Space, Work};

use super::beneath::There;
use super::files::Folder;
use super::show::bytes;
use super::source::{Source, content, fill};
use crate::cli::Streams;
use crate::failure::{Exit, Failure};
use crate::jobfile::words_in_braces;

/// The chunks of a job's list, as the farm has them.
struct Fetched(HashMap<ContentHash, Arc<[u8]>>);

impl Chunks for Fetched {
    fn chunk(&self, hash: &ContentHash) -> Option<Arc<[u8]>> {
        self.0.get(hash).cloned()
    }
}

/// Where the streams of units go.
pub(super) struct StreamFiles {
    space: Box<dyn Decomposer>,
    per: Per,
    stdout: Option<Template>,
    stderr: Option<Template>,
}

impl StreamFiles {
    /// Files for the streams that are named; `spec` is what the job is made from.
    ///
    /// # Errors
    /// The job runs no program; the farm lost what it is made from.
    pub(super) fn open(source: &mut dyn Source, spec: ContentHash, names: &Streams) -> Result<Self, Failure> {
        let JobSpec { space, work } =
            JobSpec::from_bytes(&fetched(source, spec)?).map_err(|why| Failure::new(Exit::Conflict, why))?;
        let Work::Command(work) = work else {
            return Err(Failure::usage("this job runs no program: leave --stdout and --stderr out"));
        };
        let space = opened(source, &space)?;
        let rules = Rules::of(&work, &space.names());
        let known = |word: &str| word == "index" || rules.names().iter().any(|name| name == word);
        for name in [&names.stdout, &names.stderr].into_iter().flatten() {
            if name.is_empty() {
                return Err(Failure::usage("--stdout and --stderr name files, and one of them is empty"));
            }
            let unknown = words_in_braces(name).into_iter().find(|word| !known(word));
            if let Some(word) = unknown.filter(|_| !work.parallel) {
                let all: Vec<String> = rules.names().iter().map(|name| format!(", `{{{name}}}`")).collect();
                let all = all.concat();
                return Err(Failure::usage(format!(
                    "`{{{word}}}` in {name} is no placeholder of this job: there are `{{}}`, `{{index}}`{all}"
                )));
            }
        }
        let template = |name: &Option<String>| name.as_deref().map(|name| rules.text(name));
        let (stdout, stderr) = (template(&names.stdout), template(&names.stderr));
        if stdout.is_some() && stdout == stderr {
            return Err(Failure::usage("--stdout and --stderr name the same files: change one of them"));
        }
        Ok(Self { space, per: work.per, stdout, stderr })
    }

    /// Standard output under this name, of a job of a few units.
    #[cfg(test)]
    pub(super) fn testing(stdout: &str) -> Self {
        let space = Space::Range { from: 0, to: 9, step: 1 };
        let space = starfarm_decomposers::open(&space, Arc::new(Fetched(HashMap::new()))).unwrap();
        let stdout = Some(Rules::of(&Default::default(), &space.names()).text(stdout));
        Self { space, per: Per::Unit, stdout, stderr: None }
    }

    /// Fetches the streams of a run that have files, so far as they are long.
    pub(super) fn fill(&self, source: &mut dyn Source, output: &mut OutputInfo) -> Result<(), Failure> {
        let streams = [(&self.stdout, &mut output.stdout), (&self.stderr, &mut output.stderr)];
        let named = streams.into_iter().filter(|(name, _)| name.is_some());
        named.map(|(_, stream)| stream).try_for_each(|stream| fill(source, stream))
    }

    /// Writes the streams of a run; how many files. What is lost on the scheduler's disk is left out: the caller tells of it.
    pub(super) fn write(&self, folder: &Folder, output: &OutputInfo, there: There) -> Result<u64, Failure> {
        let lo = output.unit.0;
        let text = match self.per {
            Per::Unit => UnitText::of(&*self.space, lo).map_err(|e| Failure::usage(e.to_string()))?,
            Per::Task => {
                let hi = lo.saturating_add(output.units.0).min(self.space.units());
                UnitText::of_task(&*self.space, (lo, hi), Vec::new())
            }
        };
        let streams = [(&self.stdout, &output.stdout), (&self.stderr, &output.stderr)];
        let mut files = 0;
        for (name, stream) in streams {
            let Some(name) = name.as_ref().filter(|_| stream.lost.is_none()) else { continue };
            let content = bytes(&stream.text, stream.hex.as_deref());
            folder.write(&self.path(name, &text), None, &mut &content[..], there)?;
            files += 1;
        }
        Ok(files)
    }

    /// A name that is the same for all units is put into a folder with the unit's number, as names of `outputs` are.
    fn path(&self, name: &Template, text: &UnitText) -> PathBuf {
        let path = PathBuf::from(OsString::from_vec(name.fill(text)));
        match name.is_fixed() && self.space.units() > 1 {
            // An absolute one would take its place.
            true if path.is_relative() => Path::new(&text.index.to_string()).join(path),
            _ => path,
        }
    }
}

/// The space of a job, with its list at hand.
fn opened(source: &mut dyn Source, space: &Space) -> Result<Box<dyn Decomposer>, Failure> {
    let whole = match space {
        Space::Subset { of, .. } => of,
        space => space,
    };
    let mut chunks = HashMap::new();
    if let Space::List { chunks: list } = whole {
        for chunk in list {
            chunks.insert(chunk.hash, Arc::from(fetched(source, chunk.hash)?));
        }
    }
    starfarm_decomposers::open(space, Arc::new(Fetched(chunks))).map_err(Failure::usage)
}

fn fetched(source: &mut dyn Source, hash: ContentHash) -> Result<Vec<u8>, Failure> {
    content(source, hash, u64::MAX)?.map_err(|what| {
        let words = format!(
            "what the job is made from is {what} on the scheduler's disk: submit the same job file again, which puts it back"
        );
        Failure::new(Exit::Conflict, words)
    })
}
