//! A whole log: one file, or the segments of a folder one after another.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use starfarm_events::counted;

use super::folder::{self, Segment, Standing};
use super::{Fault, Item, LogError, LogReader, Note, NoteKind, Opening, Place};

const BUFFER_BYTES: usize = 256 << 10;

/// Opens the log at `path`: a file, or a folder whose segments are read in order of epoch and number. The segment in
/// use is read as far as it is.
///
/// # Errors
/// There is no log, or it cannot be read.
pub fn open(path: &Path) -> Result<Log, LogError> {
    Log::new(path, false)
}

/// Items of a log, file by file.
#[derive(Debug, Default)]
pub struct Log {
    segments: IntoIter<Segment>,
    reader: Option<LogReader<BufReader<File>>>,
    strict: bool,
    farm: Option<String>,
    before: Option<Segment>,
    /// Bytes of the files that were opened.
    pub(super) bytes: u64,
    noted: Option<Note>,
}

impl Log {
    pub(super) fn new(path: &Path, strict: bool) -> Result<Self, LogError> {
        let is_dir = fs::metadata(path).map_err(|e| whole(path, Fault::Io(e)))?.is_dir();
        let segments = if is_dir {
            let mut segments = folder::list(path).map_err(|e| whole(path, Fault::Io(e)))?;
            segments.retain(|segment| segment.standing != Standing::Damaged);
            // A segment that was just closed may have been seen under both its names.
            segments.dedup_by_key(|segment| (segment.epoch, segment.number));
            segments
        } else {
            let standing = Standing::Closed;
            let alone = Segment { epoch: 0, number: 0, standing, path: path.to_owned() };
            vec![Segment::from_path(path.to_owned()).unwrap_or(alone)]
        };
        if segments.is_empty() {
            return Err(whole(path, Fault::NoSegments));
        }
        Ok(Self { segments: segments.into_iter(), strict, ..Self::default() })
    }

    /// Goes on to the next file; none after the last.
    fn advance(&mut self) -> Option<Result<(), LogError>> {
        let segment = self.segments.next()?;
        let (path, file) = match open_segment(&segment) {
            Ok(opened) => opened,
            Err(e) => return Some(Err(whole(&segment.path, Fault::Io(e)))),
        };
        self.bytes += file.metadata().map_or(0, |data| data.len());
        let missing = self.before.as_ref().and_then(|before| missing_between(before, &segment));
        self.noted = missing.map(|what| Note { kind: NoteKind::Missing, place: place(&path), what });
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut reader = LogReader::new(input, path.display().to_string());
        (reader.in_use, reader.strict) = (segment.standing == Standing::Part, self.strict);
        let before = self.before.replace(segment);
        if let Some(last) = self.reader.take()
            && before.map(|before| before.epoch) == self.before.as_ref().map(|segment| segment.epoch)
        {
            // Clocks go on where the file before ended.
            (reader.last_at_us, reader.saved) = (last.last_at_us, last.saved);
        }
        self.reader = Some(reader);
        Some(Ok(()))
    }

    fn check(&mut self, item: Item) -> Result<Item, LogError> {
        let Item::Opened(opening) = &item else { return Ok(item) };
        let fault = match self.farm.get_or_insert_with(|| opening.farm.clone()) {
            farm if *farm != opening.farm => {
                Fault::OtherFarm { found: opening.farm.clone(), before: farm.clone() }
            }
            _ if self.strict && !self.is_named(opening) => Fault::Invalid(format!(
                "it is segment {} of epoch {}, and its name says otherwise",
                opening.segment, opening.epoch
            )),
            _ => return Ok(item),
        };
        let file = self.before.as_ref().map_or(Path::new(""), |segment| &segment.path);
        Err(whole(file, fault))
    }

    /// Whether the file at hand, where it has a segment's name, has that of its segment.
    fn is_named(&self, opening: &Opening) -> bool {
        let names = [(0, 0), (opening.epoch, opening.segment)];
        self.before.as_ref().is_none_or(|file| names.contains(&(file.epoch, file.number)))
    }
}

impl Iterator for Log {
    type Item = Result<Item, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(note) = self.noted.take() {
                return Some(Ok(Item::Note(note)));
            }
            let outcome = match self.reader.as_mut().and_then(Iterator::next) {
                Some(item) => item.and_then(|item| self.check(item)),
                None => match self.advance()? {
                    Ok(()) => continue,
                    Err(e) => Err(e),
                },
            };
            if outcome.is_err() {
                // Nothing more comes after an error.
                (self.reader, self.segments) = (None, Vec::new().into_iter());
            }
            return Some(outcome);
        }
    }
}

/// What is missing between two segments, in words. Nothing is said of what was before the first of all: old ones may
/// have been removed.
fn missing_between(before: &Segment, next: &Segment) -> Option<String> {
    let epochs = next.epoch.saturating_sub(before.epoch.saturating_add(1));
    let last = if next.epoch == before.epoch { before.number } else { 0 };
    let segments = next.number.saturating_sub(last.saturating_add(1));
    let are = if segments == 1 { "is" } else { "are" };
    let ours =
        format!("{} of epoch {} before this one {are} missing", counted(segments, "segment"), next.epoch);
    let theirs = match epochs {
        0 => return (segments > 0).then_some(ours),
        1 => format!("epoch {}", next.epoch - 1),
        _ => format!("epochs {} to {}", before.epoch + 1, next.epoch - 1),
    };
    let theirs = format!("nothing is here of {theirs}: no log was written then, or its files are missing");
    Some(if segments > 0 { format!("{theirs}; {ours}") } else { theirs })
}

/// The segment in use may have been closed since its name was seen.
fn open_segment(segment: &Segment) -> io::Result<(PathBuf, File)> {
    match File::open(&segment.path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && segment.standing == Standing::Part => {
            let path = segment.to(Standing::Closed).path;
            File::open(&path).map(|file| (path, file))
        }
        file => file.map(|file| (segment.path.clone(), file)),
    }
}

fn place(path: &Path) -> Place {
    Place { file: path.display().to_string(), line: 0, offset: 0 }
}

/// An error of a file as a whole.
fn whole(path: &Path, fault: Fault) -> LogError {
    LogError { place: place(path), fault }
}
