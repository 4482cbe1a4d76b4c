//! The segment in use: records are gathered, and a commit writes them at once and syncs. After any failure
//! nothing is written any more.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use starfarm_net::private_folder;
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::journal::frame::{FRAME_BYTES, Frame, MARK, Place, SEAL};
use starfarm_protocol::journal::segment::{HEAD_BYTES, Head, Part};
use starfarm_protocol::journal::synced;

use super::{MARGIN_BYTES, Medium, Options, Segments, create, sync_folder};

/// First step of preallocation; each further one doubles up to ...
const GROW_MIN_BYTES: u64 = 256 << 10;
/// ... this.
const GROW_MAX_BYTES: u64 = 4 << 20;

/// The segment that is written to.
pub(super) struct Last {
    pub(super) number: u64,
    /// Where the next frame goes.
    pub(super) end: u64,
    /// Bytes of the file; zeros from `end` on.
    pub(super) allocated: u64,
    pub(super) place: Place,
    pub(super) medium: Box<dyn Medium>,
}

pub(crate) struct Journal {
    pub(super) segments: Segments,
    pub(super) options: Options,
    pub(super) last: Last,
    /// First sequence of the commit that is gathered.
    pub(super) commit: u64,
    pub(super) gathered: Vec<u8>,
    pub(super) epoch: u64,
    /// The last record that is in the ledger.
    pub(super) retired: u64,
    pub(super) synced: Synced,
    /// A write or sync failed: nothing more is believed.
    pub(super) failed: Option<(io::ErrorKind, String)>,
}

impl Journal {
    /// Whether the segment that is written is still where it was made: else nobody will read it.
    pub(crate) fn is_there(&self) -> bool {
        let path = self.segments.path(Part::Journal, self.last.number);
        !path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    pub(crate) fn last_sequence(&self) -> u64 {
        self.last.place.sequence
    }

    /// Highest epoch that wrote here; 0 in a new journal.
    pub(crate) fn last_epoch(&self) -> u64 {
        self.epoch
    }

    /// The last record that is no longer here one by one: a replay after an earlier one is not possible, but
    /// from the beginning it is.
    pub(crate) fn retired(&self) -> u64 {
        self.retired
    }

    pub(crate) fn append(&mut self, epoch: u64, sequence: u64, kind: u8, body: &[u8]) -> io::Result<()> {
        self.usable()?;
        assert_eq!(sequence, self.last.place.sequence + 1, "records follow one another");
        if self.gathered.is_empty() {
            self.commit = sequence;
        }
        self.epoch = self.epoch.max(epoch);
        let frame = Frame { sequence, commit: self.commit, epoch, kind, body };
        frame.write(&mut self.last.place, &mut self.gathered);
        Ok(())
    }

    /// Writes and syncs what was gathered; returns the last sequence that is durable then. Where the disk does not take
    /// it, what was gathered counts as not written, and so does all that follows.
    pub(crate) fn commit(&mut self) -> io::Result<u64> {
        self.usable()?;
        if !self.gathered.is_empty() {
            let outcome = self.write();
            self.noted(outcome)?;
        }
        Ok(self.last.place.sequence)
    }

    fn write(&mut self) -> io::Result<()> {
        // Room for a mark and a seal, too.
        self.allocate(self.last.end + self.gathered.len() as u64 + 4 * FRAME_BYTES as u64)?;
        self.last.medium.write_at(&self.gathered, self.last.end)?;
        self.last.medium.sync()?;
        self.synced.write(self.last.place.sequence)?;
        self.last.end += self.gathered.len() as u64;
        self.gathered.clear();
        self.gathered.shrink_to(1 << 20);
        if self.last.end >= self.options.segment_bytes { self.rotate() } else { Ok(()) }
    }

    /// Leaves a sign that all before was synced, without a sync of its own: a reader then knows that what is
    /// broken before it is damage.
    pub(crate) fn mark(&mut self) -> io::Result<()> {
        self.usable()?;
        if !self.gathered.is_empty()
            || self.last.end + (2 * FRAME_BYTES) as u64 + MARGIN_BYTES > self.last.allocated
        {
            return Ok(());
        }
        let (sequence, mut bytes) = (self.last.place.sequence, Vec::new());
        let mark = Frame { sequence, commit: sequence + 1, epoch: self.epoch, kind: MARK, body: &[] };
        mark.write(&mut self.last.place, &mut bytes);
        let outcome = self.last.medium.write_at(&bytes, self.last.end);
        self.noted(outcome)?;
        self.last.end += bytes.len() as u64;
        Ok(())
    }

    /// Sees to it that `end` and the margin behind it are zeros on the disk.
    fn allocate(&mut self, end: u64) -> io::Result<()> {
        let wanted = end + MARGIN_BYTES;
        if wanted <= self.last.allocated {
            return Ok(());
        }
        let step = (self.last.allocated).clamp(GROW_MIN_BYTES, GROW_MAX_BYTES);
        let to = wanted.max(self.last.allocated + step);
        // Zeros that are written: what fallocate promises still changes the file's extents at each sync.
        write_zeros(&mut *self.last.medium, self.last.allocated, to)?;
        self.last.medium.sync()?;
        self.last.allocated = to;
        Ok(())
    }

    /// The next segment is made and durable, then this one is sealed.
    fn rotate(&mut self) -> io::Result<()> {
        let (sequence, mut seal, mut place) = (self.last.place.sequence, Vec::new(), self.last.place);
        let (commit, epoch) = (sequence + 1, self.epoch);
        let number = self.last.number + 1;
        Frame { sequence, commit, epoch, kind: SEAL, body: &number.to_le_bytes() }
            .write(&mut place, &mut seal);
        let next = new_segment(&self.segments, number, place, &self.options)?;
        self.last.medium.write_at(&seal, self.last.end)?;
        self.last.medium.sync()?;
        self.last = next;
        Ok(())
    }

    fn usable(&self) -> io::Result<()> {
        match &self.failed {
            None => Ok(()),
            Some((kind, why)) => Err(io::Error::new(*kind, format!("a write failed before: {why}"))),
        }
    }

    fn noted(&mut self, outcome: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &outcome {
            self.failed = Some((error.kind(), error.to_string()));
        }
        outcome
    }
}

/// Makes a segment that begins behind `place`, durably.
pub(super) fn new_segment(
    segments: &Segments,
    number: u64,
    place: Place,
    options: &Options,
) -> io::Result<Last> {
    let path = segments.path(Part::Journal, number);
    let folder = path.parent().expect("a segment lies in a folder");
    private_folder(folder)?;
    let (part, farm, first, chain) = (Part::Journal, segments.farm, place.sequence + 1, place.chain);
    let head = Head { part, farm, number, first, last: 0, chain, seal: 0 };
    let mut medium = (options.medium)(create(&path)?);
    medium.write_at(&head.to_bytes(), 0)?;
    write_zeros(&mut *medium, HEAD_BYTES as u64, GROW_MIN_BYTES)?;
    medium.sync()?;
    sync_folder(&path)?;
    sync_folder(folder)?;
    Ok(Last { number, end: HEAD_BYTES as u64, allocated: GROW_MIN_BYTES, place, medium })
}

fn write_zeros(medium: &mut dyn Medium, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; (to - from).min(1 << 20) as usize];
    let mut at = from;
    while at < to {
        let count = (to - at).min(zeros.len() as u64);
        medium.write_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// The file `journal/synced`, open for writing: how far the journal was on the disk when it was last written. Its bytes are
/// described in `protocol::journal::synced`.
pub(super) struct Synced {
    farm: FarmId,
    medium: Box<dyn Medium>,
}

impl Synced {
    /// What the file says; 0 where it says nothing.
    pub(super) fn read(segments: &Segments) -> u64 {
        let bytes = fs::read(synced_path(segments)).ok();
        bytes.and_then(|bytes| synced::read(&bytes, segments.farm)).unwrap_or(0)
    }

    /// Makes the file, or writes it anew, durably: later writes change no more than its bytes.
    pub(super) fn create(segments: &Segments, sequence: u64, options: &Options) -> io::Result<Self> {
        let (path, farm) = (synced_path(segments), segments.farm);
        let mut open = OpenOptions::new();
        let file = open.create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        let mut medium = (options.medium)(file);
        medium.write_at(&synced::to_bytes(farm, sequence), 0)?;
        medium.sync()?;
        sync_folder(&path)?;
        Ok(Self { farm, medium })
    }

    /// Says that all up to `sequence` is on the disk. Not synced: an old word is true as well.
    pub(super) fn write(&mut self, sequence: u64) -> io::Result<()> {
        self.medium.write_at(&synced::to_bytes(self.farm, sequence), 0)
    }
}

fn synced_path(segments: &Segments) -> PathBuf {
    segments.dir.join("journal").join("synced")
}
