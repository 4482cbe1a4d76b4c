//! A scheduler's disk: the records of its journal as bytes, and its checkpoints. What was synced stays. Of
//! what was only written any part may be there after a crash.

use starfarm_protocol::ids::Epoch;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{self, Found, Frame, Place};

use crate::random::Random;
use crate::violation::{Broken, rule};

/// A disk writes so many bytes together.
const SECTOR_BYTES: usize = 512;

/// A disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// Of the scheduler that writes.
    epoch: u64,
    /// Frames, as in a segment. What the commit under way does not cover waits in memory.
    log: Vec<u8>,
    /// The place in the chain after each record, and where its frame ends.
    ends: Vec<(Place, usize)>,
    /// Records that are being written.
    begun: u64,
    /// Records that are synced.
    synced: u64,
    /// The last checkpoint and the one before: sequence, records.
    checkpoints: Vec<(u64, Vec<u8>)>,
    /// Records on it when each scheduler had started: an old copy is a prefix.
    starts: Vec<(Epoch, u64)>,
}

impl Disk {
    /// Takes the next record.
    pub(crate) fn append(&mut self, record: &Record) {
        let mut body = Vec::new();
        record.encode(&mut body);
        let (mut place, _) = self.end(self.len());
        let (sequence, commit) = (place.sequence + 1, self.begun + 1);
        let frame = Frame { sequence, commit, epoch: self.epoch, kind: record.kind(), body: &body };
        frame.write(&mut place, &mut self.log);
        self.ends.push((place, self.log.len()));
    }

    /// The place after so many records, and where it is.
    fn end(&self, records: u64) -> (Place, usize) {
        records.checked_sub(1).map_or((Place::default(), 0), |last| self.ends[last as usize])
    }

    /// All records taken so far are being written.
    pub(crate) fn begin(&mut self) {
        self.begun = self.len();
    }

    /// Records up to `sequence` are synced.
    pub(crate) fn sync(&mut self, sequence: u64) {
        self.synced = self.synced.max(sequence);
    }

    /// Records taken.
    pub(crate) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// A scheduler of `epoch` starts: nothing but its number is on the disk before anything is sent.
    pub(crate) fn start(&mut self, epoch: Epoch, at_us: u64) -> Record {
        let record = Record::Epoch { epoch, at_us };
        self.epoch = epoch.0;
        self.append(&record);
        self.begin();
        self.sync(self.len());
        self.starts.push((epoch, self.len()));
        record
    }

    /// Keeps a checkpoint of the state after `sequence`.
    pub(crate) fn keep(&mut self, sequence: u64, records: &[Record]) {
        let (mut bytes, mut place) = (Vec::new(), Place::default());
        for record in records {
            let mut body = Vec::new();
            record.encode(&mut body);
            let (sequence, kind) = (place.sequence + 1, record.kind());
            Frame { sequence, commit: 1, epoch: 1, kind, body: &body }.write(&mut place, &mut bytes);
        }
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
        Some((*sequence, read(bytes, (Place::default(), 0)).0))
    }

    /// The records after `sequence`.
    pub(crate) fn records(&self, sequence: u64) -> Vec<Record> {
        read(&self.log, self.end(sequence)).0
    }

    /// The power goes. What was synced is there, of what was being written some sectors, in no order; the log
    /// ends where it cannot be read on. That must look like a write cut short, not like damage.
    pub(crate) fn crash(&mut self, random: &mut Random) -> Result<(), Broken> {
        let ((_, synced), (_, begun)) = (self.end(self.synced), self.end(self.begun));
        self.log.truncate(begun);
        let luck = random.below(4);
        let mut at = synced;
        while at < begun {
            let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(begun);
            // None of it, any of it, or (below) all up to some byte.
            if luck == 0 || (luck == 1 && random.below(4) == 0) {
                self.log[at..end].fill(0);
            }
            at = end;
        }
        if luck == 2 {
            let cut = synced + random.below((begun - synced) as u64 + 1) as usize;
            self.log[cut..].fill(0);
        }
        self.log.resize(begun + SECTOR_BYTES, 0);
        let (records, (place, end)) = read(&self.log, self.end(self.synced));
        let rest = frame::read(&self.log, end, place);
        rule(
            rest == Found::Nothing || frame::is_torn(&self.log, end, place),
            "a torn tail is seen as such",
            || format!("{rest:?} after {place:?}; {} synced, {} written", self.synced, self.begun),
        )?;
        self.log.truncate(end);
        self.ends.truncate(self.synced as usize + records.len());
        (self.begun, self.synced) = (self.len(), self.len());
        // One that is ahead is thrown away: the journal will come by its number again, by other records.
        self.checkpoints.retain(|(sequence, _)| *sequence <= self.ends.len() as u64);
        Ok(())
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
        let mut copy = Self { checkpoints: Vec::new(), ..self.clone() };
        (copy.begun, copy.synced) = (records as u64, records as u64);
        copy.ends.truncate(records);
        copy.log.truncate(self.end(records as u64).1);
        copy.starts.truncate(nth + 1);
        Some((copy, epoch))
    }
}

/// The records from a place on, and where what can be read ends.
fn read(bytes: &[u8], (mut place, mut at): (Place, usize)) -> (Vec<Record>, (Place, usize)) {
    let mut records = Vec::new();
    while let Found::Frame(frame, length, next) = frame::read(bytes, at, place) {
        let Ok(record) = Record::decode(frame.kind, frame.body) else { break };
        records.push(record);
        (place, at) = (next, at + length);
    }
    (records, (place, at))
}
