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
use starfarm_protocol::spec::{CommandWork, JobSpec, Space, Work};

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
    /// The farm alone knows the values of units.
    are_unknown: bool,
    per: Per,
    stdout: Option<Template>,
    stderr: Option<Template>,
}

impl StreamFiles {
    /// Files for the streams that are named; `spec` is what the job is made from.
    ///
    /// # Errors
    /// The job runs no program; the farm lost what it is made from; a name has placeholders that the job lacks, or such whose
    /// values the farm alone knows.
    pub(super) fn open(source: &mut dyn Source, spec: ContentHash, names: &Streams) -> Result<Self, Failure> {
        let JobSpec { space, work } =
            JobSpec::from_bytes(&fetched(source, spec)?).map_err(|why| Failure::new(Exit::Conflict, why))?;
        let Work::Command(work) = work else {
            return Err(Failure::usage("this job runs no program: leave --stdout and --stderr out"));
        };
        Self::of(opened(source, &space)?, space.grows(), &work, names)
    }

    fn of(
        space: Box<dyn Decomposer>,
        are_unknown: bool,
        work: &CommandWork,
        names: &Streams,
    ) -> Result<Self, Failure> {
        let rules = Rules::of(work, &space.names());
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
        if are_unknown
            && [&stdout, &stderr].into_iter().flatten().any(|name| needs_values(name, rules.names()))
        {
            return Err(Failure::usage(
                "the values of units that a program names are known to the farm alone: name the files by `{index}`",
            ));
        }
        Ok(Self { space, are_unknown, per: work.per, stdout, stderr })
    }

    /// Standard output under this name, of a job of a few units.
    #[cfg(test)]
    pub(super) fn testing(stdout: &str) -> Self {
        let space = Space::Range { from: 0, to: 9, step: 1 };
        let space = starfarm_decomposers::open(&space, Arc::new(Fetched(HashMap::new()))).unwrap();
        let stdout = Some(Rules::of(&Default::default(), &space.names()).text(stdout));
        Self { space, are_unknown: false, per: Per::Unit, stdout, stderr: None }
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
            _ if self.are_unknown => {
                UnitText { index: self.space.number(lo), value: Vec::new(), fields: Vec::new() }
            }
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

    /// A name that is the same for all units is put into a folder with the unit's number, as names of `outputs` are: also
    /// where a single unit of many is left.
    fn path(&self, name: &Template, text: &UnitText) -> PathBuf {
        let path = PathBuf::from(OsString::from_vec(name.fill(text)));
        match name.is_fixed() && self.space.numbers() > 1 {
            // An absolute one would take its place.
            true if path.is_relative() => Path::new(&text.index.to_string()).join(path),
            _ => path,
        }
    }
}

/// It is another one for other values of a unit's.
fn needs_values(name: &Template, names: &[String]) -> bool {
    let filled = |value: &[u8]| {
        let fields = names.iter().map(|name| (name.clone(), value.to_vec())).collect();
        name.fill(&UnitText { index: 0, value: value.to_vec(), fields })
    };
    filled(b"a") != filled(b"b")
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

#[cfg(test)]
mod tests {
    use starfarm_protocol::spec::{Interval, OwnSpace};
    use starfarm_protocol::units::Units;

    use super::*;

    fn files(space: &Space, stdout: &str) -> Result<StreamFiles, Failure> {
        let opened = starfarm_decomposers::open(space, Arc::new(Fetched(HashMap::new()))).unwrap();
        let names = Streams { stdout: Some(stdout.to_owned()), stderr: None };
        StreamFiles::of(opened, space.grows(), &CommandWork::default(), &names)
    }

    fn path(files: &StreamFiles, index: u128) -> PathBuf {
        let text = UnitText { index, value: Vec::new(), fields: Vec::new() };
        files.path(files.stdout.as_ref().unwrap(), &text)
    }

    /// What it wrote lay elsewhere than what it made.
    #[test]
    fn a_single_unit_that_is_left_of_many_has_its_folder_as_its_outputs_have() {
        let whole = Space::Range { from: 0, to: 9, step: 1 };
        let units = vec![Interval { lo: Units(7), hi: Units(8) }];
        let rest = Space::Subset { of: Box::new(whole), units };
        assert_eq!(path(&files(&rest, "log").unwrap(), 7), Path::new("7/log"));
        let one = Space::Range { from: 0, to: 1, step: 1 };
        assert_eq!(path(&files(&one, "log").unwrap(), 0), Path::new("log"));
    }

    /// It was found out at the first unit, in words about the scheduler.
    #[test]
    fn files_of_units_that_a_program_names_are_named_by_numbers_alone() {
        let own = OwnSpace {
            program: vec!["true".into()],
            names: vec!["case".into()],
            cwd: None,
            timeout_ms: 1_000,
        };
        let space = Space::Program(Box::new(own));
        for name in ["{}.txt", "{case}.txt", "{index}-{case}"] {
            let why = files(&space, name).err().unwrap();
            assert!(why.message.contains("name the files by `{index}`"), "{name}: {}", why.message);
        }
        assert_eq!(path(&files(&space, "{index}.txt").unwrap(), 3), Path::new("3.txt"));
        assert_eq!(path(&files(&space, "out").unwrap(), 3), Path::new("3/out"));
    }
}
