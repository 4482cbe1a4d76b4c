//! What is done with a unit: each executor's work as it stands in a specification, and the facts about it that
//! the scheduler decides by. A new executor begins here: `docs/new-executor.md`.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::kernel::KernelWork;
use super::merge::Merge;
use crate::devices::{DeviceNeeds, RunsOn};
use crate::ids::{ContentHash, HexBytes, to_hex};
use crate::limits::SLOTS_MAX;
use crate::resources::{MEMORY_MAX, Resource, Resources, gpus};
use crate::word::words;

/// What is done with a unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Work {
    /// A program is run.
    Command(CommandWork),
    /// The candidate is hashed and compared.
    Search(SearchWork),
    /// A kernel of the user's own is run on a device.
    OpenCl(KernelWork),
    /// Nothing is done: what `starfarm bench dispatch` measures with.
    Nothing,
}

impl Work {
    /// What the scheduler must know of it.
    pub fn facts(&self) -> WorkFacts {
        match self {
            Work::Command(command) => WorkFacts {
                per: command.per,
                // What cannot be is refused before.
                needs: command.needs().unwrap_or(Resources::ONE_SLOT),
                ..WorkFacts::command(command.retries)
            },
            Work::Search(search) => {
                let facts = WorkFacts::search(search.stop, search.targets.len() as u32);
                let on = search.needs.map_or(facts.on, |needs| RunsOn { cores: false, devices: Some(needs) });
                WorkFacts { on, ..facts }
            }
            Work::OpenCl(kernel) => WorkFacts::kernel(kernel.retries, kernel.needs),
            Work::Nothing => WorkFacts::NOTHING,
        }
    }

    /// What a hit's target is called in results: of a search its digest.
    pub fn target(&self, target: u32) -> String {
        match self {
            Work::Search(search) => {
                let digest = search.targets.get(target as usize);
                digest.map_or_else(String::new, |digest| to_hex(&digest.0))
            }
            Work::Command(_) | Work::OpenCl(_) | Work::Nothing => String::new(),
        }
    }

    /// What becomes of the results of its units.
    pub fn merge(&self) -> Option<&Merge> {
        match self {
            Work::Command(command) => command.merge.as_ref(),
            Work::OpenCl(kernel) => kernel.merge.as_ref(),
            Work::Search(_) | Work::Nothing => None,
        }
    }
}

/// What the results of a job's units carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "a body's own line says what its fields are")]
pub enum Body {
    /// Nothing.
    Nothing,
    /// Hits: the units are looked through for so many targets. Whoever looks through a unit finds the same. `stop`: when
    /// to end early.
    Hits { stop: Stop, targets: u32 },
    /// An outcome of each unit, or of several together. A unit that failed is run again so many times.
    Outcomes { retries: u32 },
}

/// The facts about the work that the scheduler decides by: it knows no executor by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkFacts {
    /// What results carry.
    pub body: Body,
    /// Units of the first task for a slot of unknown speed, 1 or more: small enough to be over soon.
    pub first_units: u64,
    /// Units are programs: each may take hours, write what the scheduler keeps, and bring down its machine.
    pub programs: bool,
    /// What one run computes.
    pub per: Per,
    /// What one run takes of its node's cores: a slot or more. On a device it takes that.
    pub needs: Resources,
    /// Which slots run it.
    pub on: RunsOn,
}

words! {
    /// What one run of a program computes.
    #[derive(Default)]
    Per {
        /// A unit. Its outcome is its own.
        #[default]
        Unit = 0 => "unit",
        /// All units of a task. Its outcome counts for all of them, or for none.
        Task = 1 => "task",
    }
}

impl WorkFacts {
    /// Nothing comes back.
    pub const NOTHING: Self = Self {
        body: Body::Nothing,
        first_units: 1 << 10,
        programs: false,
        per: Per::Unit,
        needs: Resources::ONE_SLOT,
        on: RunsOn::CORES,
    };

    /// A search for `targets` targets.
    pub const fn search(stop: Stop, targets: u32) -> Self {
        Self { body: Body::Hits { stop, targets }, first_units: 1 << 16, on: RunsOn::ANY, ..Self::NOTHING }
    }

    /// A program for each unit, run again up to `retries` times.
    pub const fn command(retries: u32) -> Self {
        Self { body: Body::Outcomes { retries }, first_units: 1, programs: true, ..Self::NOTHING }
    }

    /// A kernel on such devices: what one launch computes counts together. What fails is run again up to `retries` times.
    pub const fn kernel(retries: u32, needs: DeviceNeeds) -> Self {
        let on = RunsOn { cores: false, devices: Some(needs) };
        Self { per: Per::Task, on, ..Self::command(retries) }
    }

    /// One run of a program computes a whole task, and may take long to start. On a device a task is many short launches.
    pub fn is_whole_run(&self) -> bool {
        self.programs && self.per == Per::Task && self.on.cores
    }
}

/// A program and how to run it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandWork {
    /// The program, then its arguments. `{}`, `{index}` and the space's names are filled in.
    pub program: Vec<String>,
    /// What one run of it computes.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub per: Per,
    /// Slots of a node that one run takes, 1 to [`SLOTS_MAX`].
    #[serde(default = "one_slot", skip_serializing_if = "is_one_slot")]
    pub slots: u16,
    /// Bytes of memory that one run claims, up to [`MEMORY_MAX`].
    #[serde(default, skip_serializing_if = "is_none")]
    pub memory_bytes: u64,
    /// Cards that one run has to itself, or the share of one, as of [`gpus`].
    #[serde(default, skip_serializing_if = "is_no_card")]
    pub gpus: f64,
    /// The replacement strings of GNU parallel (`{}`, `{.}`, `{#}`, `{1/}`) are filled in instead, in `program` quoted for
    /// a shell: that is `sh -c` and the line of a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// Added to the worker's environment; values are filled in likewise.
    pub env: BTreeMap<String, String>,
    /// A unit that runs longer is ended, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// A unit that runs for so many milliseconds, and for 30 times as long as units of the job have taken on its node,
    /// hangs and is ended likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang_ms: Option<u64>,
    /// A unit that fails is run again up to this many times.
    pub retries: u32,
    /// How much of what a unit writes is kept.
    #[serde(skip_serializing_if = "OutputLimit::is_usual", default)]
    pub output_limit: OutputLimit,
    /// The folder that programs start in, an absolute path; without it the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A node without that folder starts them in its own, instead of refusing the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cwd_optional: bool,
    /// The file that a program reads as its standard input, as a path from the directory that it starts in; values are
    /// filled in likewise. Without it standard input is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// What becomes of all that the units wrote, at the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
    /// Files that units find in their scratch directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Which of them a unit finds of those that are [of units](Input::of_units): their paths; `{}`, `{index}` and the
    /// space's names are filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unit_inputs: Vec<String>,
    /// Files that each unit makes there, by their paths; `{}`, `{index}` and the space's names are filled in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Bytes that the files of a unit may have together, 1 to [`OUTPUT_LIMIT_MAX`]. A unit that makes more has failed.
    #[serde(default = "files_limit", skip_serializing_if = "is_files_limit")]
    pub files_limit: u64,
}

impl Default for CommandWork {
    fn default() -> Self {
        Self {
            program: Vec::new(),
            per: Per::Unit,
            slots: 1,
            memory_bytes: 0,
            gpus: 0.0,
            parallel: false,
            env: BTreeMap::new(),
            timeout_ms: None,
            hang_ms: None,
            retries: 0,
            output_limit: OutputLimit::default(),
            cwd: None,
            cwd_optional: false,
            merge: None,
            stdin: None,
            inputs: Vec::new(),
            unit_inputs: Vec::new(),
            outputs: Vec::new(),
            files_limit: FILES_LIMIT,
        }
    }
}

impl CommandWork {
    /// Programs start in the scratch directory, where their files are.
    pub fn has_files(&self) -> bool {
        !(self.inputs.is_empty() && self.outputs.is_empty())
    }

    /// What a run takes of its node, if that can be.
    ///
    /// # Errors
    /// It cannot; the sentence says what to write.
    pub fn needs(&self) -> Result<Resources, String> {
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return Err(format!("`slots` is {}: write 1 to {SLOTS_MAX}", self.slots));
        }
        if self.memory_bytes > MEMORY_MAX {
            return Err(format!("`memory` is {} bytes: write up to {MEMORY_MAX}", self.memory_bytes));
        }
        let gpus = gpus(self.gpus).map_err(|why| format!("`gpus` is {}: {why}", self.gpus))?;
        Ok(Resources::new(self.slots, self.memory_bytes).with(Resource::Gpus, gpus))
    }

    /// Bytes of the longest content that a unit may upload.
    pub fn upload_max(&self) -> u64 {
        if self.outputs.is_empty() {
            return self.output_limit.bytes;
        }
        self.output_limit.bytes.max(archive_bytes_max(self.files_limit))
    }
}

/// Bytes of an archive of a unit's files that have so many bytes: what describes them may take a sixteenth and a mebibyte
/// more.
pub fn archive_bytes_max(files_limit: u64) -> u64 {
    files_limit.saturating_add(files_limit / 16).saturating_add(1 << 20).min(OUTPUT_LIMIT_MAX)
}

/// Bytes of a unit's files where the job does not say: 256 MiB.
pub const FILES_LIMIT: u64 = 256 << 20;

fn is_usual(per: &Per) -> bool {
    *per == Per::Unit
}

fn one_slot() -> u16 {
    1
}

fn is_one_slot(slots: &u16) -> bool {
    *slots == one_slot()
}

fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

fn is_no_card(cards: &f64) -> bool {
    *cards == 0.0
}

fn files_limit() -> u64 {
    FILES_LIMIT
}

fn is_files_limit(bytes: &u64) -> bool {
    *bytes == FILES_LIMIT
}

/// A file that units find in their scratch directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where: a path of plain names, parted by `/`.
    pub path: String,
    /// Its bytes, in pieces of [`INPUT_PART_BYTES`], the last one shorter: the hash of each. None: it is empty.
    pub parts: Vec<ContentHash>,
    /// How many bytes it has.
    pub bytes: u64,
    /// It may be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// Only units whose `unit_inputs` give its path find it; else all do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_units: bool,
}

/// Bytes of a part of an input.
pub const INPUT_PART_BYTES: usize = 4 << 20;

/// A relative path without what means nothing in it: `./a//b` is `a/b`.
pub fn plain(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    names.join("/")
}

/// Whether a path leads to somewhere inside of a folder, whatever lies there: plain names, parted by `/`.
pub fn is_inside(path: &str) -> bool {
    let is_plain = |name: &str| !matches!(name, "" | "." | "..");
    !path.contains('\0') && path.split('/').all(is_plain)
}

/// How much is kept of each of a unit's two output streams. Of what writes more the head and the tail are kept, half
/// of the limit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputLimit {
    /// Bytes, 1 to [`OUTPUT_LIMIT_MAX`].
    pub bytes: u64,
    /// A unit that writes more has failed.
    pub strict: bool,
}

/// Longest output that can be kept, in bytes: a worker has it in memory.
pub const OUTPUT_LIMIT_MAX: u64 = crate::bulk::CONTENT_BYTES_MAX;

impl Default for OutputLimit {
    fn default() -> Self {
        Self { bytes: 1 << 20, strict: false }
    }
}

impl OutputLimit {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for OutputLimit {
    type Err = String;

    /// "BYTES", "strict", or "strict:BYTES".
    fn from_str(text: &str) -> Result<Self, String> {
        let (strict, bytes) = match text.strip_prefix("strict") {
            Some("") => return Ok(Self { strict: true, ..Self::default() }),
            Some(rest) => (true, rest.strip_prefix(':')),
            None => (false, Some(text)),
        };
        let bytes = bytes.and_then(|bytes| bytes.parse().ok());
        match bytes.filter(|bytes| (1..=OUTPUT_LIMIT_MAX).contains(bytes)) {
            Some(bytes) => Ok(Self { bytes, strict }),
            None => Err(format!(
                "write a number of bytes, 1 to {OUTPUT_LIMIT_MAX}, or strict, or strict:BYTES; with strict a unit that \
                 writes more has failed"
            )),
        }
    }
}

/// A search for preimages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchWork {
    /// Which digest.
    pub algorithm: Algorithm,
    /// The digests looked for, without repeats.
    pub targets: Vec<HexBytes>,
    /// When to end early.
    pub stop: Stop,
    /// Only devices search, and what they must be; none: cores and all devices do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<DeviceNeeds>,
}

words! {
    /// A digest that `search` knows.
    Algorithm {
        /// RFC 1321.
        Md5 => "md5",
        /// FIPS 180-4.
        Sha1 => "sha1",
        /// FIPS 180-4.
        Sha256 => "sha256",
        /// MD4 (RFC 1320) over the bytes widened to 16 bits, little endian.
        Ntlm => "ntlm",
    }
}

impl Algorithm {
    /// Bytes of a digest.
    pub fn digest_bytes(self) -> usize {
        match self {
            Algorithm::Md5 | Algorithm::Ntlm => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }

    /// Bytes of the longest candidate: with padding and length it fills one block of 64 bytes, in NTLM with two for each.
    pub fn candidate_bytes_max(self) -> usize {
        match self {
            Algorithm::Md5 | Algorithm::Sha1 | Algorithm::Sha256 => 55,
            Algorithm::Ntlm => 27,
        }
    }
}

words! {
    /// When a search ends before its space does. The numbers are those of records.
    #[derive(Default)]
    Stop {
        /// Never: the whole space is searched.
        Never = 0 => "never",
        /// At the first hit.
        FirstHit = 1 => "first-hit",
        /// When every target has been found.
        #[default]
        AllTargets = 2 => "all-targets",
    }
}
