//! The bytes of a job's file of outputs: what the labels and bodies of its [packed](crate::packed) entries mean. An entry
//! is a batch: what one record of the journal says of outputs.
//!
//! | bytes of a label | what |
//! | --- | --- |
//! | 0..8 | sequence of the record |
//! | 8..16 | units in the batch |
//! | 16..24 | units of these of whose output a part was left out |
//! | 24 | 3: outputs, each with its hash. 4: units that are wanted again, as pairs of lo and hi: their runs before do not count. 5: a run of a unit that failed, and was followed by another: the unit |
//! | 25..32 | whose file it is: the mark of the [`Owner`] |
//!
//! An output is its length, u32, of what follows its hash; its hash; then unit, attempt, node and outcome, as on the wire.
//! The hash is the owner's over the sequence and these, so that an output of another unit, record, job or farm is none
//! here, and one that is damaged takes no other with it.
//!
//! Releases before wrote 0, 1 and 2 for 3, 4 and 5, no hashes, and the job and one for the mark, or 0 still earlier.

pub mod again;

use crate::bytes::{Malformed, Reader};
use crate::ids::{Attempt, FarmId, JobId, NodeId};
use crate::packed::Label;
use crate::wire::{CommandUnit, Stream};

/// Bytes of an output's hash.
pub const HASH_BYTES: usize = 16;
/// Bytes before an output's unit.
const HEAD_BYTES: usize = 4 + HASH_BYTES;
/// Unit, attempt and node.
const FIXED_BYTES: usize = 16 + 8 + 4;
/// Numbers of jobs that the label of a release before tells apart.
const LABEL_JOBS: u64 = 1 << 56;

/// What a batch tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Units that ran to their end.
    Outputs,
    /// Units that are wanted again.
    Again,
    /// A run that decided nothing.
    Vain,
}

/// What the label of a batch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The journal's record.
    pub sequence: u64,
    /// Units in the batch.
    pub units: u64,
    /// Units of these of whose output a part was left out.
    pub cut: u64,
    /// What it tells of.
    pub kind: Kind,
    /// Each output has its hash: releases before wrote none.
    is_hashed: bool,
}

/// What a program wrote, as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// Its unit, or the first of several.
    pub unit: u128,
    /// The dispatch that counted.
    pub attempt: Attempt,
    /// Who ran it.
    pub node: NodeId,
    /// How it ended, and what it wrote.
    pub outcome: CommandUnit,
}

impl Stored {
    /// Behind its last unit.
    pub fn end(&self) -> u128 {
        self.unit.saturating_add(self.outcome.units.into())
    }
}

/// One of a batch's outputs, as it was found.
#[derive(Clone, PartialEq, Debug)]
pub enum Piece {
    /// It is what was written.
    Whole(Stored),
    /// It is not; its unit, where that can still be read.
    Damaged(Option<u128>),
}

/// Whose file it is: a job of a farm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    job: JobId,
    key: [u8; 32],
    /// In its labels.
    mark: [u8; 7],
}

impl Owner {
    /// The job of that farm.
    pub fn new(farm: FarmId, job: JobId) -> Self {
        let mut of = farm.0.to_vec();
        of.extend_from_slice(&job.0.to_le_bytes());
        let key = blake3::derive_key("starfarm 2026 outputs of a job v1", &of);
        let hash = blake3::keyed_hash(&key, b"label");
        Self { job, key, mark: *hash.as_bytes().first_chunk().expect("a hash has 32 bytes") }
    }

    fn hash(&self, sequence: u64, bytes: &[u8]) -> [u8; HASH_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&sequence.to_le_bytes()).update(bytes);
        *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// The label of a batch.
    pub fn label(&self, sequence: u64, kind: Kind, units: u64, cut: u64) -> Label {
        let mut label = Label::default();
        let words = [sequence, units, cut].map(u64::to_le_bytes);
        label.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word);
        label[24] = match kind {
            Kind::Outputs => 3,
            Kind::Again => 4,
            Kind::Vain => 5,
        };
        label[25..].copy_from_slice(&self.mark);
        label
    }

    /// What a label says; `None` where it is none of this job's.
    pub fn batch(&self, label: &Label) -> Option<Batch> {
        let word = |at: usize| u64::from_le_bytes(label.as_chunks().0[at]);
        let (kind, is_hashed) = match label[24] {
            number @ 0..6 => ([Kind::Outputs, Kind::Again, Kind::Vain][number as usize % 3], number >= 3),
            _ => return None,
        };
        let is_ours = match is_hashed {
            true => label[25..] == self.mark,
            false => [0, (self.job.0 + 1) % LABEL_JOBS].contains(&(word(3) >> 8)),
        };
        is_ours.then(|| Batch { sequence: word(0), units: word(1), cut: word(2), kind, is_hashed })
    }

    /// The body of a batch of outputs, by the record `sequence`, and how many of them were cut.
    pub fn body(
        &self,
        sequence: u64,
        (attempt, node): (Attempt, NodeId),
        units: &[(u128, CommandUnit)],
    ) -> (Vec<u8>, u64) {
        let mut body = Vec::new();
        for (unit, outcome) in units {
            let start = body.len();
            body.extend_from_slice(&[0; HEAD_BYTES]);
            body.extend_from_slice(&unit.to_le_bytes());
            body.extend_from_slice(&attempt.0.to_le_bytes());
            body.extend_from_slice(&node.0.to_le_bytes());
            outcome.write(&mut body);
            let (head, rest) = body[start..].split_at_mut(HEAD_BYTES);
            head[..4].copy_from_slice(&(rest.len() as u32).to_le_bytes());
            head[4..].copy_from_slice(&self.hash(sequence, rest));
        }
        (body, units.iter().filter(|(_, outcome)| is_cut(outcome)).count() as u64)
    }

    /// The outputs in a body, as many as its label says; `is_whole`: the entry's checksum fits.
    pub fn outputs(&self, batch: &Batch, body: &[u8], is_whole: bool) -> Vec<Piece> {
        let mut pieces = match (batch.is_hashed, is_whole) {
            (true, _) => self.hashed(batch.sequence, body),
            (false, true) => unhashed(body).unwrap_or_default(),
            (false, false) => Vec::new(),
        };
        // A label that lies has no say over memory.
        let most = body.len() / FIXED_BYTES + 1;
        let units = usize::try_from(batch.units).map_or(most, |units| units.min(most));
        pieces.resize(units, Piece::Damaged(None));
        pieces
    }

    /// What lies behind a damaged output is found by its hash.
    fn hashed(&self, sequence: u64, body: &[u8]) -> Vec<Piece> {
        let (mut pieces, mut rest) = (Vec::new(), body);
        while !rest.is_empty() {
            let next = (0..rest.len()).find_map(|skip| Some((skip, self.output(sequence, &rest[skip..])?)));
            let skipped = next.as_ref().map_or(rest.len(), |(skip, _)| *skip);
            if skipped > 0 {
                let unit =
                    rest.get(HEAD_BYTES..HEAD_BYTES + 16).filter(|_| skipped >= HEAD_BYTES + FIXED_BYTES);
                let unit = unit.and_then(|bytes| Reader(bytes).u128().ok());
                pieces.push(Piece::Damaged(unit));
            }
            let Some((skip, (stored, length))) = next else { break };
            pieces.push(Piece::Whole(stored));
            rest = &rest[skip + length..];
        }
        pieces
    }

    /// The output that `bytes` begin with, and its length; `None` where they begin with none.
    fn output(&self, sequence: u64, bytes: &[u8]) -> Option<(Stored, usize)> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (length, hash) = head.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let of = rest.get(..length).filter(|of| of.len() >= FIXED_BYTES)?;
        if self.hash(sequence, of) != hash {
            return None;
        }
        Some((stored(of).ok()?, HEAD_BYTES + length))
    }
}

/// The outputs of a batch of a release before.
fn unhashed(bytes: &[u8]) -> Result<Vec<Piece>, Malformed> {
    let (mut rest, mut pieces) = (Reader(bytes), Vec::new());
    while !rest.0.is_empty() {
        let length = rest.u32()? as usize;
        pieces.push(Piece::Whole(stored(rest.bytes(length)?)?));
    }
    Ok(pieces)
}

fn stored(bytes: &[u8]) -> Result<Stored, Malformed> {
    let mut rest = Reader(bytes);
    let (unit, attempt, node) = (rest.u128()?, Attempt(rest.u64()?), NodeId(rest.u32()?));
    let [outcome] = <[CommandUnit; 1]>::try_from(CommandUnit::read_all(rest.0)?).map_err(|_| Malformed)?;
    Ok(Stored { unit, attempt, node, outcome })
}

/// A part of what it wrote was left out.
pub fn is_cut(outcome: &CommandUnit) -> bool {
    let is_cut = |stream: &Stream| matches!(stream, Stream::Uploaded { kept, total, .. } if kept < total);
    is_cut(&outcome.outputs.stdout) || is_cut(&outcome.outputs.stderr)
}

/// The body of a batch of units that are wanted again.
pub fn intervals_body(units: &[(u128, u128)]) -> Vec<u8> {
    units.iter().flat_map(|(lo, hi)| [lo.to_le_bytes(), hi.to_le_bytes()]).flatten().collect()
}

/// The units of such a body.
pub fn intervals(body: &[u8]) -> Vec<(u128, u128)> {
    let (numbers, _) = body.as_chunks();
    let numbers: Vec<u128> = numbers.iter().map(|number| u128::from_le_bytes(*number)).collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests;
