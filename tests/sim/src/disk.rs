//! A scheduler's disk: the records of its journal as bytes, and its checkpoints. What was synced stays. Of
//! what was only written any part may be there after a crash.

use starfarm_protocol::ids::Epoch;
use starfarm_protocol::journal::Record;

use crate::random::Random;

/// Bytes of a frame before its body: length, kind, check.
const HEAD_BYTES: usize = 4 + 1 + 4;
/// A disk writes so many bytes together.
const SECTOR_BYTES: usize = 512;

/// A disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    log: Vec<u8>,
    /// Where each record ends in the log.
    ends: Vec<usize>,
    /// Records that are synced.
    synced: u64,
    /// The last checkpoint and the one before: sequence, records.
    checkpoints: Vec<(u64, Vec<u8>)>,
    /// Records on it when each scheduler had started: an old copy is a prefix.
    starts: Vec<(Epoch, u64)>,
}

impl Disk {
    /// Writes the next record.
    pub(crate) fn append(&mut self, record: &Record) {
        frame(record, &mut self.log);
        self.ends.push(self.log.len());
    }

    /// Records up to `sequence` are synced.
    pub(crate) fn sync(&mut self, sequence: u64) {
        self.synced = self.synced.max(sequence);
    }

    /// Records written.
    pub(crate) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// A scheduler of `epoch` has started.
    pub(crate) fn on_start(&mut self, epoch: Epoch) {
        self.starts.push((epoch, self.len()));
    }

    /// Keeps a checkpoint of the state after `sequence`.
    pub(crate) fn keep(&mut self, sequence: u64, records: &[Record]) {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| frame(record, &mut bytes));
        if self.checkpoints.len() == 2 {
            self.checkpoints.remove(0);
        }
        self.checkpoints.push((sequence, bytes));
    }

    /// Sequence of the last checkpoint.
    pub(crate) fn kept(&self) -> u64 {
        self.checkpoints.last().map_or(0, |(sequence, _)| *sequence)
    }

    /// Sequence and records of the last checkpoint that the journal has caught up with.
    pub(crate) fn checkpoint(&self) -> Option<(u64, Vec<Record>)> {
        let (sequence, bytes) = self.checkpoints.iter().rfind(|(sequence, _)| *sequence <= self.len())?;
        Some((*sequence, unframe(bytes).0))
    }

    /// The records after `sequence`.
    pub(crate) fn records(&self, sequence: u64) -> Vec<Record> {
        let from = sequence.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        unframe(&self.log[from..]).0
    }

    /// The power goes. What was synced is there, and of the rest some sectors, in no order; the log ends
    /// where it cannot be read on.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let synced = self.synced.checked_sub(1).map_or(0, |last| self.ends[last as usize]);
        let luck = random.below(4);
        let mut at = synced;
        while at < self.log.len() {
            let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(self.log.len());
            // All of it, none of it, or any of it.
            if luck == 0 || (luck > 1 && random.below(4) == 0) {
                self.log[at..end].fill(0);
            }
            at = end;
        }
        if luck == 3 {
            let cut = random.below((self.log.len() - synced) as u64 + 1) as usize;
            self.log.truncate(synced + cut);
        }
        let (records, bytes) = unframe(&self.log[synced..]);
        self.log.truncate(synced + bytes);
        self.ends.truncate(self.synced as usize + records.len());
        self.synced = self.len();
    }

    /// A copy from the time of some scheduler before the last: the one that starts from it takes an epoch
    /// that has been. The epoch of that time comes back too.
    pub(crate) fn old_copy(&self, random: &mut Random) -> Option<(Self, Epoch)> {
        let old = self.starts.len().saturating_sub(2) as u64;
        let nth = random.below(old) as usize;
        let [(epoch, from), (_, to)] = *self.starts[..].get(nth..nth + 2).filter(|_| old > 0)? else {
            return None;
        };
        // The next one's first record is its epoch's.
        let records = (from + random.below(to - from)) as usize;
        let mut copy = Self { checkpoints: Vec::new(), synced: records as u64, ..self.clone() };
        copy.ends.truncate(records);
        copy.log.truncate(copy.ends.last().copied().unwrap_or(0));
        copy.starts.truncate(nth + 1);
        Some((copy, epoch))
    }
}

fn check(kind: u8, body: &[u8]) -> u32 {
    let fold = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    body.iter().fold(0x811C_9DC5 ^ u32::from(kind), fold) | 1
}

fn frame(record: &Record, out: &mut Vec<u8>) {
    let head = out.len();
    out.resize(head + HEAD_BYTES, 0);
    record.encode(out);
    let (kind, length) = (record.kind(), (out.len() - head - HEAD_BYTES) as u32);
    let check = check(kind, &out[head + HEAD_BYTES..]);
    out[head..head + 4].copy_from_slice(&length.to_le_bytes());
    out[head + 4] = kind;
    out[head + 5..head + HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
}

/// The records that can be read, and how many bytes they are.
fn unframe(bytes: &[u8]) -> (Vec<Record>, usize) {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some((head, rest)) = bytes[at..].split_first_chunk::<HEAD_BYTES>() {
        let [a, b, c, d, kind, checked @ ..] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some(body) = rest.get(..length) else { break };
        if check(kind, body) != u32::from_le_bytes(checked) {
            break;
        }
        let Ok(record) = Record::decode(kind, body) else { break };
        records.push(record);
        at += HEAD_BYTES + length;
    }
    (records, at)
}
