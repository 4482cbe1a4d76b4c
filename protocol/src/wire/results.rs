//! Bodies of results. A search's body is a list of hits. A command's body is one record a unit, in unit
//! order, covering the result's interval without a gap; the scheduler refuses a body that does not.
//!
//! Hit: `unit u64 (from lo), target u32`.
//! Command unit: `status u8, code i32, duration_us u64`, then stdout and stderr, each `form u8` and either
//! `length u16, bytes` (form 0) or `hash [32], kept u64, total u64` (form 1: uploaded over the bulk channel). A unit
//! that made files has `form u8` (2), `hash [32], bytes u64, count u32` before these: the archive of them, uploaded. One
//! record for several units, which one program computed, has `128 u8, units u64` (2 or more) before all that.

use crate::bytes::{Malformed, Reader, fields, tagged};
use crate::field::Field;
use crate::ids::ContentHash;
use crate::word::words;

/// A target was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitEntry {
    /// Which unit, counted from the result's first.
    pub offset: u64,
    /// Index into the specification's targets.
    pub target: u32,
}

impl HitEntry {
    /// Bytes of a hit.
    pub const BYTES: usize = 12;

    /// Appends the hit to a body.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads a body of hits.
    pub fn read_all(body: &[u8]) -> Result<Vec<HitEntry>, Malformed> {
        Field::read_all(&mut Reader(body))
    }
}

words! {
    /// Why a unit failed.
    FailReason {
        /// The program ended with an exit code other than 0, or could not be started.
        Exit = 1 => "exit",
        /// A signal ended the program.
        Signal = 2 => "signal",
        /// The program ran longer than `timeout_seconds`.
        Timeout = 3 => "timeout",
        /// The unit kills its workers. Decided by the scheduler; it never travels.
        Poison = 4 => "poison",
        /// The program wrote more than `output_limit`, which is strict.
        Output = 5 => "output",
        /// The program did not make the files that the job asks for, or made more than `files_limit`.
        Files = 6 => "files",
        /// Its own files had no room on its node's disk, where none of other units were. It travels, and is no end: another node
        /// may have room, or this one later.
        Room = 7 => "room",
    }
}

impl FailReason {
    /// The exit code and the signal of a program that failed so with `code`.
    pub fn ended_by(self, code: Option<i32>) -> (Option<i32>, Option<i32>) {
        match self {
            FailReason::Signal => (None, code),
            // The code of a program that was ended by us tells nothing about the program.
            FailReason::Timeout => (None, None),
            FailReason::Room => (None, None),
            FailReason::Exit | FailReason::Poison | FailReason::Output | FailReason::Files => (code, None),
        }
    }
}

/// What a program wrote to one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "a variant's own lines say what its fields are")]
pub enum Stream {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// Uploaded over the bulk channel before the result was sent: BLAKE3 and number of the bytes that were kept, and how
    /// many the program wrote.
    Uploaded { hash: ContentHash, kept: u64, total: u64 },
}

/// The files that a unit made: a tar archive of them, which was uploaded before the result was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Files {
    /// BLAKE3 of the archive.
    pub hash: ContentHash,
    /// Its bytes.
    pub bytes: u64,
    /// Files in it.
    pub count: u32,
}

/// What a unit wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outputs {
    /// Its files, where the job asks for any and it passed.
    pub files: Option<Files>,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

impl Outputs {
    /// Two streams, and no files.
    pub fn streams(stdout: Stream, stderr: Stream) -> Self {
        Self { files: None, stdout, stderr }
    }

    /// What of it was uploaded: the hash of each content, and how many bytes it has.
    pub fn uploaded(&self) -> impl Iterator<Item = (ContentHash, u64)> {
        let files = self.files.map(|files| (files.hash, files.bytes));
        let streams = [&self.stdout, &self.stderr].into_iter().filter_map(|stream| match stream {
            Stream::Uploaded { hash, kept, .. } => Some((*hash, *kept)),
            Stream::Inline(_) => None,
        });
        files.into_iter().chain(streams)
    }
}

/// What came of a program: of one unit of a command's result, or of several that one program computes together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandUnit {
    /// How many units, 1 or more.
    pub units: u64,
    /// `None`: exit code 0.
    pub failed: Option<FailReason>,
    /// Exit code, or the signal's number; -1 where the program could not be started.
    pub code: i32,
    /// Wall time of the program, in microseconds.
    pub duration_us: u64,
    /// What it wrote.
    pub outputs: Outputs,
}

impl CommandUnit {
    /// Appends the unit to a body.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads a body of command units.
    pub fn read_all(body: &[u8]) -> Result<Vec<CommandUnit>, Malformed> {
        Field::read_all(&mut Reader(body))
    }
}

fields! { Field:
    HitEntry { offset, target }
    Files { hash, bytes, count }
}
tagged! { Field:
    Stream {
        0 Inline(bytes),
        1 Uploaded { hash, kept, total },
    }
}

/// Stands before the record of several units, where else its status is.
const TOGETHER: u8 = 128;

impl Field for CommandUnit {
    fn put(&self, out: &mut Vec<u8>) {
        if self.units != 1 {
            out.push(TOGETHER);
            self.units.put(out);
        }
        self.failed.put(out);
        self.code.put(out);
        self.duration_us.put(out);
        self.outputs.put(out);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let units = match rest.0.first() {
            Some(&TOGETHER) => rest.u8().and_then(|_| u64::read(rest))?,
            _ => 1,
        };
        if units == 0 {
            return Err(Malformed);
        }
        let (failed, code) = (Field::read(rest)?, Field::read(rest)?);
        Ok(Self { units, failed, code, duration_us: Field::read(rest)?, outputs: Field::read(rest)? })
    }
}

/// Form of the files of a unit, beside those of [`Stream`].
const FILES: u8 = 2;

impl Field for Outputs {
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(files) = &self.files {
            out.push(FILES);
            files.put(out);
        }
        self.stdout.put(out);
        self.stderr.put(out);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let has_files = rest.0.first() == Some(&FILES);
        let files = has_files.then(|| rest.u8().and_then(|_| Files::read(rest))).transpose()?;
        Ok(Self { files, stdout: Stream::read(rest)?, stderr: Stream::read(rest)? })
    }
}

impl Field for Option<FailReason> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.map_or(0, |reason| reason as u8));
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        match rest.u8()? {
            0 => Ok(None),
            number => match FailReason::from_number(number) {
                None | Some(FailReason::Poison) => Err(Malformed),
                known => Ok(known),
            },
        }
    }
}
