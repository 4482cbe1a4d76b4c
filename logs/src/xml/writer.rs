//! Writes a log's segments into a folder: which file is open, when the next one is due, how much is kept.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use starfarm_events::{Event, Form, Snapshot};
use starfarm_protocol::ids::{Epoch, FarmId};

use super::encode::Encoder;
use super::folder::{self, Segment, Standing};
use super::leftover::{self, Accounted};
use super::{Closing, Item, LogReader, Opening, VERSION};

/// What is written goes to the disk's door in pieces of this size.
const BUFFER_BYTES: usize = 256 << 10;
/// The log tells at most so often when it was saved.
const SAVED_PERIOD_US: u64 = 60_000_000;

/// When a segment is closed, and how much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// A segment with so many bytes after its snapshot is closed; where `keep_bytes` is set, with a quarter of that at
    /// the latest.
    pub segment_bytes: u64,
    /// A segment of this age is closed, microseconds.
    pub segment_us: u64,
    /// Bytes that all segments may have together: the oldest go first, the newest closed one never. None: all are kept.
    pub keep_bytes: Option<u64>,
}

impl Default for Limits {
    /// 64 MiB, an hour, all are kept.
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, segment_us: 3_600_000_000, keep_bytes: None }
    }
}

impl Limits {
    /// Segments of at most a quarter of what is kept: room for a new one never costs more than that of the history.
    fn with_history(self) -> Self {
        let most = self.keep_bytes.map_or(u64::MAX, |keep| keep / 4);
        Self { segment_bytes: self.segment_bytes.min(most), ..self }
    }
}

/// Writes a log. Between [`begin`](LogWriter::begin) and [`close`](LogWriter::close) a segment is open; an error
/// leaves none open, and the next `begin` starts anew.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    farm: FarmId,
    epoch: Epoch,
    limits: Limits,
    open: Option<OpenSegment>,
    /// The highest number that a segment of this epoch ever had: it may be removed, its number is not given again.
    last_number: u64,
    /// Events that went nowhere, to be told as soon as there is a segment.
    missed: u64,
    /// Events that were told to be missing.
    told: u64,
    /// What a segment which failed would account for: some of it may be in its file.
    unsure: Accounted,
}

#[derive(Debug)]
struct OpenSegment {
    segment: Segment,
    encoder: Encoder<BufWriter<File>>,
    began_us: u64,
    /// Bytes of its head and its snapshot.
    head_bytes: u64,
    entries: u64,
    accounted: Accounted,
    saved_us: u64,
    /// Bytes when it was saved last.
    saved_bytes: u64,
}

/// A folder that is made is its owner's alone; one that is there stays as it is.
fn make_folder(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

impl LogWriter {
    /// Takes the folder `dir`, which is made where there is none, and closes what an earlier scheduler left open.
    ///
    /// # Errors
    /// The folder cannot be used, or holds the log of another farm.
    pub fn open(dir: &Path, farm: FarmId, epoch: Epoch, limits: Limits) -> io::Result<Self> {
        make_folder(dir)?;
        check_farm(dir, farm)?;
        leftover::finish_all(dir)?;
        let (dir, limits) = (dir.to_owned(), limits.with_history());
        let unsure = Accounted::default();
        Ok(Self { dir, farm, epoch, limits, open: None, last_number: 0, missed: 0, told: 0, unsure })
    }

    /// Whether a segment is to be begun: none is open, or the open one is large or old enough.
    pub fn wants_snapshot(&self, at_us: u64) -> bool {
        self.open.as_ref().is_none_or(|open| {
            open.encoder.bytes - open.head_bytes >= self.limits.segment_bytes
                || at_us.saturating_sub(open.began_us) >= self.limits.segment_us
        })
    }

    /// Events that went nowhere since the start, told or still to be told. Of a segment that failed it is known at
    /// the next [`begin`](LogWriter::begin) how many these are; the number never sinks.
    pub fn dropped(&self) -> u64 {
        self.told.saturating_add(self.missed)
    }

    /// `events` did not come as far as here: they are told as missing.
    pub fn miss(&mut self, events: u64) {
        self.missed = self.missed.saturating_add(events);
    }

    /// Closes the open segment, if any, and begins one with `snapshot`. `at_us` is the farm's clock, `utc_us` the
    /// wall clock since 1970, `mono_us` the time since the scheduler's start. A folder that is gone is made anew.
    ///
    /// # Errors
    /// The disk's; no segment is open then.
    pub fn begin(&mut self, at_us: u64, utc_us: u64, mono_us: u64, snapshot: &Snapshot) -> io::Result<()> {
        self.close(at_us, utc_us)?;
        make_folder(&self.dir)?;
        let safe = leftover::finish_all(&self.dir)?;
        let unsure = std::mem::take(&mut self.unsure);
        self.miss(unsure.events.saturating_sub(safe.events));
        // What was told there and is gone is missed once more, as part of that.
        self.told = self.told.saturating_sub(unsure.missing.saturating_sub(safe.missing));
        self.make_room()?;
        let ours = |segment: &&Segment| segment.epoch == self.epoch.0;
        let there = folder::list(&self.dir)?.iter().rfind(ours).map_or(0, |segment| segment.number);
        let number = self.last_number.max(there).checked_add(1);
        let number = number.ok_or_else(|| io::Error::other("a segment here has the last number of all"))?;
        let segment = Segment::of(&self.dir, self.epoch.0, number, Standing::Part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&segment.path)?;
        let mut encoder = Encoder::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        encoder.open(&Opening {
            version: VERSION,
            farm: self.farm.to_string(),
            epoch: self.epoch.0,
            segment: number,
            program: concat!("starfarm ", env!("CARGO_PKG_VERSION")).to_owned(),
            at_us,
            utc_us,
            mono_us,
        })?;
        encoder.snapshot(at_us, snapshot)?;
        let head_bytes = encoder.bytes;
        self.open = Some(OpenSegment {
            segment,
            encoder,
            began_us: at_us,
            head_bytes,
            entries: 0,
            accounted: Accounted::default(),
            saved_us: at_us,
            saved_bytes: head_bytes,
        });
        self.tell_missed(at_us)?;
        // Who looks sees a whole snapshot or nothing.
        self.flush(at_us, utc_us)?;
        // Not before: a file without a whole snapshot is removed, and leaves no gap.
        self.last_number = number;
        Ok(())
    }

    /// Writes what happened at `at_us` of the farm's clock. Without an open segment it is counted as missing.
    ///
    /// # Errors
    /// The disk's; no segment is open then.
    pub fn event(&mut self, at_us: u64, event: &Event) -> io::Result<()> {
        if self.open.is_some() {
            self.tell_missed(at_us).inspect_err(|_| self.miss(Accounted::of(event).events))?;
        }
        self.put(at_us, event)
    }

    /// Tells of what went nowhere, where there is a segment to tell it in.
    fn tell_missed(&mut self, at_us: u64) -> io::Result<()> {
        match std::mem::take(&mut self.missed) {
            0 => Ok(()),
            events => self.put(at_us, &Event::EventsDropped { events }),
        }
    }

    fn put(&mut self, at_us: u64, event: &Event) -> io::Result<()> {
        let accounted = Accounted::of(event);
        let Some(open) = &mut self.open else {
            self.miss(accounted.events);
            return Ok(());
        };
        open.entries += 1;
        open.accounted = open.accounted.and(accounted);
        self.told = self.told.saturating_add(accounted.missing);
        let written = open.encoder.entry(Some(at_us), event as &dyn Form);
        self.kept(written)
    }

    /// Gives all that was written to the operating system, so that who reads the open segment sees it.
    ///
    /// # Errors
    /// The disk's; no segment is open then.
    pub fn flush(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let flushed = open.flush(at_us, utc_us);
        self.kept(flushed)
    }

    /// Closes the open segment, if any, and brings it to the disk.
    ///
    /// # Errors
    /// The disk's; the segment can be read all the same, and is closed at the next `begin` or `open`.
    pub fn close(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        self.tell_missed(at_us)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let closed = open.close(at_us, utc_us);
        self.kept(closed)?;
        self.open = None;
        folder::sync(&self.dir)
    }

    /// After an error the segment is left as it is.
    fn kept(&mut self, outcome: io::Result<()>) -> io::Result<()> {
        if outcome.is_err() {
            let accounted = self.open.take().map(|open| open.accounted);
            self.unsure = self.unsure.and(accounted.unwrap_or_default());
        }
        outcome
    }

    /// Removes the oldest segments so that one more has room; the newest stays in any case.
    fn make_room(&self) -> io::Result<()> {
        let Some(keep) = self.limits.keep_bytes else { return Ok(()) };
        let mut sized = Vec::new();
        for segment in folder::list(&self.dir)?.into_iter().filter(|one| one.standing == Standing::Closed) {
            let bytes = fs::metadata(&segment.path)?.len();
            sized.push((segment.path, bytes));
        }
        let mut total: u64 = sized.iter().map(|(_, bytes)| bytes).sum();
        sized.pop();
        for (path, bytes) in sized {
            if total.saturating_add(self.limits.segment_bytes) <= keep {
                break;
            }
            fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(())
    }
}

impl OpenSegment {
    fn flush(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        let due = at_us.saturating_sub(self.saved_us) >= SAVED_PERIOD_US;
        if due && self.encoder.bytes > self.saved_bytes {
            self.encoder.saved(at_us, utc_us)?;
            (self.saved_us, self.saved_bytes) = (at_us, self.encoder.bytes);
        }
        self.encoder.get_mut().flush()
    }

    fn close(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        self.encoder.close(&Closing { at_us, utc_us, entries: self.entries }, false)?;
        let file = self.encoder.get_mut();
        file.flush()?;
        file.get_ref().sync_all()?;
        fs::rename(&self.segment.path, self.segment.to(Standing::Closed).path)
    }
}

/// Two farms in one folder would be read as one.
fn check_farm(dir: &Path, farm: FarmId) -> io::Result<()> {
    let farm = farm.to_string();
    for segment in folder::list(dir)?.into_iter().rev() {
        let reader = LogReader::new(BufReader::new(File::open(&segment.path)?), "");
        let Some(Ok(Item::Opened(opening))) = reader.into_iter().next() else { continue };
        if opening.farm == farm {
            return Ok(());
        }
        let what =
            format!("it holds the log of farm {}: each farm needs a directory of its own", opening.farm);
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    Ok(())
}
