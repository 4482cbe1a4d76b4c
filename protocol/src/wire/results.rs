//! Bodies of results. A search's body is a list of hits. A command's body is one record a unit, in unit
//! order, covering the result's interval without a gap; the scheduler refuses a body that does not.
//!
//! Hit: `unit u64 (from lo), target u32`.
//! Command unit: `status u8, code i32, duration_us u64`, then stdout and stderr, each `form u8` and either
//! `length u16, bytes` (form 0) or `hash [32], kept u64, total u64` (form 1: uploaded over the bulk channel).

use crate::bytes::{Malformed, Reader};
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
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.target.to_le_bytes());
    }

    /// Reads a body of hits.
    pub fn read_all(body: &[u8]) -> Result<Vec<HitEntry>, Malformed> {
        let mut rest = Reader(body);
        let mut hits = Vec::with_capacity(body.len() / Self::BYTES);
        while !rest.0.is_empty() {
            hits.push(HitEntry { offset: rest.u64()?, target: rest.u32()? });
        }
        Ok(hits)
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
    }
}

impl FailReason {
    /// The exit code and the signal of a program that failed so with `code`.
    pub fn ended_by(self, code: Option<i32>) -> (Option<i32>, Option<i32>) {
        match self {
            FailReason::Signal => (None, code),
            // The code of a program that was ended by us tells nothing about the program.
            FailReason::Timeout => (None, None),
            FailReason::Exit | FailReason::Poison | FailReason::Output => (code, None),
        }
    }
}

/// What a program wrote to one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stream {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// Uploaded over the bulk channel before the result was sent.
    Uploaded {
        /// BLAKE3 of what was kept.
        hash: ContentHash,
        /// Bytes kept.
        kept: u64,
        /// Bytes that the program wrote.
        total: u64,
    },
}

/// stdout and stderr of a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outputs {
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

/// One unit of a command's result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandUnit {
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
        out.push(self.failed.map_or(0, |reason| reason as u8));
        out.extend_from_slice(&self.code.to_le_bytes());
        out.extend_from_slice(&self.duration_us.to_le_bytes());
        for stream in [&self.outputs.stdout, &self.outputs.stderr] {
            match stream {
                Stream::Inline(bytes) => {
                    out.push(0);
                    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
                    out.extend_from_slice(bytes);
                }
                Stream::Uploaded { hash, kept, total } => {
                    out.push(1);
                    out.extend_from_slice(&hash.0);
                    out.extend_from_slice(&kept.to_le_bytes());
                    out.extend_from_slice(&total.to_le_bytes());
                }
            }
        }
    }

    /// Reads a body of command units.
    pub fn read_all(body: &[u8]) -> Result<Vec<CommandUnit>, Malformed> {
        let mut rest = Reader(body);
        let mut units = Vec::new();
        while !rest.0.is_empty() {
            units.push(read_unit(&mut rest)?);
        }
        Ok(units)
    }
}

fn read_unit(rest: &mut Reader<'_>) -> Result<CommandUnit, Malformed> {
    let failed = match rest.u8()? {
        0 => None,
        number => match FailReason::from_number(number) {
            None | Some(FailReason::Poison) => return Err(Malformed),
            known => known,
        },
    };
    let code = i32::from_le_bytes(rest.array()?);
    let duration_us = rest.u64()?;
    let outputs = Outputs { stdout: read_stream(rest)?, stderr: read_stream(rest)? };
    Ok(CommandUnit { failed, code, duration_us, outputs })
}

fn read_stream(rest: &mut Reader<'_>) -> Result<Stream, Malformed> {
    match rest.u8()? {
        0 => {
            let length = usize::from(rest.u16()?);
            Ok(Stream::Inline(rest.bytes(length)?.to_vec()))
        }
        1 => {
            let hash = ContentHash(rest.array()?);
            Ok(Stream::Uploaded { hash, kept: rest.u64()?, total: rest.u64()? })
        }
        _ => Err(Malformed),
    }
}
