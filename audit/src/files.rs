//! A farm's state directory, read: its ledger, then the rest of its journal, segment by segment, each frame
//! checked against the one before. What is damaged or missing is a violation; what was cut short before
//! anybody was told of it is a note. `docs/journal.md` describes the files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{self, Found, Frame, SEAL};
use starfarm_protocol::journal::segment::{FORMAT_VERSION, HEAD_BYTES, Head, HeadError, Part};
use starfarm_protocol::journal::synced;
use starfarm_protocol::outputs::again;
use starfarm_protocol::units::Units;

use crate::account::Place;
use crate::books::Books;
use crate::hits;
use crate::outputs;
use crate::report::{Outputs, Report};

/// A scheduler may move segments to the ledger while they are read: then all is read anew, so often.
const TRIES_MAX: u32 = 5;
/// A segment that is written while it is read may look damaged; it is looked at again after this.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// Zeros that lie behind the last frame of the segment in use at all times: one with fewer was cut.
const MARGIN_BYTES: usize = 64 * 1024;

/// Why reading stopped.
enum Stop {
    /// A file that was listed has gone: it has moved to the ledger.
    Moved,
    Unreadable(String),
}

/// Audits the farm whose state directory is `dir`. With `outputs`, also checks the outputs of these jobs, or of all jobs if
/// the list is empty. Nothing is written and no lock is taken.
///
/// # Errors
/// It is no state directory, or a file in it cannot be read at all: in words.
pub fn directory(dir: &Path, outputs: Option<&[JobId]>) -> Result<Report, String> {
    // What a scheduler that may run there has done meanwhile, such as deleting a job, is no damage.
    let mut doubts = outputs.is_some() && dir.join("admin.sock").exists();
    for _ in 0..TRIES_MAX {
        match Reader::read(dir, outputs) {
            Ok(report) if doubts && report.outputs.as_ref().is_some_and(|outputs| !outputs.are_whole()) => {
                doubts = false;
                std::thread::sleep(SECOND_LOOK);
            }
            Ok(report) => return Ok(report),
            Err(Stop::Unreadable(why)) => return Err(why),
            Err(Stop::Moved) => {}
        }
    }
    Err(format!("segments in {} go away while they are read: try again", dir.display()))
}

/// A file of the journal or the ledger.
struct Listed {
    number: u64,
    path: PathBuf,
}

/// How a segment ended.
enum End {
    /// By a seal: another one follows.
    Sealed,
    /// With nothing behind the last frame.
    Open,
    /// With a frame that is none, or not the next.
    Broken(&'static str),
}

/// A segment's frames: where they end, and how.
struct Read {
    end: End,
    at: usize,
    place: frame::Place,
}

struct Reader {
    books: Books,
    farm: Option<FarmId>,
    /// The epoch that `farm.json` knows of.
    known_epoch: u64,
    /// Up to this record all was on the disk once.
    synced: u64,
    /// What the ledger stands for, up to here, in the journal's counting.
    ledger: frame::Place,
    /// Epoch of the last frame of the journal.
    epoch: u64,
}

impl Reader {
    fn read(dir: &Path, wanted: Option<&[JobId]>) -> Result<Report, Stop> {
        // The journal is listed before the ledger: what moves in between is found twice, never not at all.
        let journal = list(&dir.join("journal"), "seg")?;
        let ledger = list(&dir.join("ledger"), "led")?;
        let (Some(journal), ledger) = (journal, ledger.unwrap_or_default()) else {
            let words = format!("{} has no journal: give a scheduler's state directory", dir.display());
            return Err(Stop::Unreadable(words));
        };
        // These are read before the segments: what is written meanwhile only goes further.
        let (farm, known_epoch) = known_farm(dir).unzip();
        let noted = |name: &str| fs::read(dir.join(name)).ok();
        let at = farm.and_then(|farm| synced::read(&noted("journal/synced")?, farm));
        let again = noted("outputs/again");
        let mut reader = Reader {
            books: Books::default(),
            farm,
            known_epoch: known_epoch.unwrap_or(0),
            synced: at.unwrap_or(0),
            ledger: frame::Place::default(),
            epoch: 0,
        };
        if reader.ledger(&ledger, journal.first())? && reader.journal(&journal)? {
            reader.reached();
        }
        hits::check(dir, &mut reader.books).map_err(|e| unreadable(&dir.join("blobs"), &e))?;
        let outputs = match (reader.farm, wanted) {
            (Some(farm), Some(of)) => Some(reader.outputs(dir, farm, again, of)?),
            _ => None,
        };
        let farm = reader.farm.map_or_else(String::new, |farm| farm.to_string());
        let mut report = reader.books.close(&farm);
        report.holds &= outputs.as_ref().is_none_or(Outputs::are_whole);
        Ok(Report { outputs, ..report })
    }

    /// Looks at the outputs that there must be by what was read. `again` is the note beside them, if any.
    fn outputs(
        &mut self,
        dir: &Path,
        farm: FarmId,
        again: Option<Vec<u8>>,
        of: &[JobId],
    ) -> Result<Outputs, Stop> {
        let known = again.as_ref().map(|bytes| again::read(bytes, farm));
        if known == Some(None) {
            self.books.wrong(
                "outputs/again is damaged, of another farm or of a newer starfarm: older outputs of units that were run \
                 again may count; the scheduler sets it aside when it starts"
                    .to_owned(),
            );
        }
        let known = known.flatten().unwrap_or_default();
        let checked = outputs::check(dir, farm, &self.books.owed(), &known, of);
        let outputs = checked.map_err(|e| Stop::Unreadable(format!("cannot read {e}")))?;
        if outputs.in_journal > Units(0) {
            let units = outputs.in_journal;
            self.books.notes.push(format!(
                "{units} outputs are whole in the journal only: the scheduler writes them to their files when it starts"
            ));
        }
        if outputs.idle_damaged > 0 {
            self.books.notes.push(format!(
                "{} stored contents are damaged, and nothing that counts names them: no output is missed for them",
                outputs.idle_damaged
            ));
        }
        Ok(outputs)
    }

    /// All was read and is whole: whether it is all that there once was.
    fn reached(&mut self) {
        let (epoch, known) = (self.books.epoch(), self.known_epoch);
        if epoch < known {
            self.books.wrong(format!(
                "farm.json knows of epoch {known}, the records end in epoch {epoch}: their end is lost"
            ));
        }
        let (last, synced) = (self.books.last.sequence, self.synced);
        if last < synced {
            self.books.wrong(format!(
                "the journal ends with record {last}, and was on the disk up to record {synced}: records {} to \
                 {synced} are lost",
                last + 1
            ));
        }
    }

    /// Reads the ledger. Whether the journal can be read after it.
    fn ledger(&mut self, ledger: &[Listed], journal: Option<&Listed>) -> Result<bool, Stop> {
        let mut before = frame::Place::default();
        for (listed, number) in ledger.iter().zip(1..) {
            let bytes = load(&listed.path)?;
            let shown = listed.path.display();
            let fault = match self.ledger_segment(listed, number, before, &bytes) {
                Ok((head, chain)) => {
                    before = frame::Place { sequence: head.last, chain };
                    self.ledger = frame::Place { sequence: head.last, chain: head.seal };
                    continue;
                }
                Err(fault) => fault,
            };
            let is_last = number as usize == ledger.len();
            let in_journal = journal.map(|first| load(&first.path)).transpose()?;
            let still_there = in_journal
                .and_then(|bytes| Head::read(&bytes).ok())
                .is_some_and(|head| head.first <= before.sequence + 1);
            if is_last && still_there {
                self.books
                    .notes
                    .push(format!("{shown} is not finished; the journal still has what it is to hold"));
                return Ok(true);
            }
            self.books.wrong(format!("{shown}: {fault}; restore it from a copy"));
            return Ok(false);
        }
        Ok(true)
    }

    /// Checks a segment of the ledger as a whole, and then enters its records.
    fn ledger_segment(
        &mut self,
        listed: &Listed,
        number: u64,
        before: frame::Place,
        bytes: &[u8],
    ) -> Result<(Head, u32), String> {
        let head = self.head(listed, number, Part::Ledger, bytes)?;
        if head.first != before.sequence + 1 {
            let (from, to) = (before.sequence, head.first);
            return Err(format!("it begins with record {to}, the ledger before it ends with {from}"));
        }
        if head.chain != before.chain {
            return Err("it does not follow the segment before it: the chain is cut".to_owned());
        }
        let start = frame::Place { sequence: 0, chain: head.chain };
        let read = frames(bytes, start, |_| {});
        match read.end {
            End::Sealed => {}
            End::Open => return Err("it has no end".to_owned()),
            End::Broken(why) => return Err(format!("{why} at byte {}", read.at)),
        }
        // What was one commit is none any more: all in the ledger was durable long ago.
        let place = Place { sequence: head.last, commit: 0 };
        frames(bytes, start, |frame| self.enter(place, frame));
        Ok((head, read.place.chain))
    }

    /// Reads what the journal has beyond the ledger. Whether it could be read to its end.
    fn journal(&mut self, journal: &[Listed]) -> Result<bool, Stop> {
        let Some(first) = journal.first() else {
            self.books.wrong("the journal has no segment: restore it from a copy".to_owned());
            return Ok(false);
        };
        let (mut number, mut before, mut sealed) = (first.number, None, true);
        for listed in journal {
            let mut bytes = load(&listed.path)?;
            let shown = listed.path.display();
            let head = match self.head(listed, number, Part::Journal, &bytes) {
                Ok(head) => head,
                // Made before the one before was sealed: nothing was written to it.
                Err(_) if !sealed && listed.number == number => return Ok(true),
                Err(_) if journal.len() == 1 && self.known_epoch == 0 && self.synced == 0 => {
                    self.books
                        .notes
                        .push("the farm's first start was cut short: nothing was ever recorded".to_owned());
                    return Ok(true);
                }
                Err(fault) => {
                    self.books.wrong(format!("{shown}: {fault}; restore it from a copy"));
                    return Ok(false);
                }
            };
            if let Some(fault) = self.joint(&head, before) {
                self.books.wrong(format!("{shown}: {fault}"));
                return Ok(false);
            }
            let start = frame::Place { sequence: head.first - 1, chain: head.chain };
            let mut read = frames(&bytes, start, |_| {});
            if let End::Broken(_) = read.end
                && !frame::is_torn(&bytes, read.at, read.place)
            {
                std::thread::sleep(SECOND_LOOK);
                bytes = load(&listed.path)?;
                read = frames(&bytes, start, |_| {});
            }
            if !sealed {
                if !matches!((&read.end, read.at), (End::Open, HEAD_BYTES)) {
                    self.books
                        .wrong(format!("{shown}: the segment before it has no end, and this one is in use"));
                }
                return Ok(true);
            }
            frames(&bytes, start, |frame| self.enter_from_journal(frame));
            if !self.end_of_segment(&listed.path, &bytes, &read) {
                return Ok(false);
            }
            sealed = matches!(read.end, End::Sealed);
            before = Some(read.place);
            number = listed.number + 1;
        }
        if sealed {
            let words =
                format!("segment {number} of the journal is missing: the one before it says that it follows");
            self.books.wrong(words);
        }
        Ok(true)
    }

    /// Whether a segment of the journal fits to what lies before it; else why not.
    fn joint(&self, head: &Head, before: Option<frame::Place>) -> Option<String> {
        let (after, chain) = match before {
            Some(before) => (before.sequence, Some(before.chain)),
            // The first one that is left. The ledger may stand for it as well: nothing was deleted yet.
            None if head.first <= self.ledger.sequence => return None,
            None => (self.ledger.sequence, (head.first > 1).then_some(self.ledger.chain)),
        };
        if head.first != after + 1 {
            let missing = head.first.saturating_sub(1);
            return Some(format!("records {} to {missing} are missing", after + 1));
        }
        let cut = chain.is_some_and(|chain| chain != head.chain);
        cut.then(|| format!("it does not follow record {after}: the chain is cut"))
    }

    /// Says what is to be said of the end of a segment. Whether another one may follow.
    fn end_of_segment(&mut self, path: &Path, bytes: &[u8], read: &Read) -> bool {
        let shown = path.display();
        let last = read.place.sequence;
        let written = frame::written(bytes).max(read.at);
        if !matches!(read.end, End::Sealed) && bytes.len() - written < MARGIN_BYTES {
            let words =
                format!("{shown}: shorter than it was made, after record {last}: its end was cut off");
            self.books.wrong(words);
            return false;
        }
        let End::Broken(why) = read.end else { return true };
        if frame::is_torn(bytes, read.at, read.place) {
            self.books.notes.push(format!(
                "{shown}: the last write was cut short, or is under way: {} bytes after record {last}, of which \
                 nobody was told",
                written - read.at
            ));
            return true;
        }
        self.books.wrong(format!(
            "{shown}: {why} at byte {}, after record {last}: the file is damaged; restore it from a copy",
            read.at
        ));
        false
    }

    fn head(&mut self, listed: &Listed, number: u64, part: Part, bytes: &[u8]) -> Result<Head, String> {
        if listed.number != number {
            return Err(format!("segment {number} before it is missing"));
        }
        let head = match Head::read(bytes) {
            Ok(head) => head,
            Err(HeadError::Broken) => return Err("its head is damaged".to_owned()),
            Err(HeadError::Version(version)) => {
                return Err(format!(
                    "it has format version {version}, this audit knows {FORMAT_VERSION}: use the newer program"
                ));
            }
        };
        if head.part != part || head.number != number || head.first == 0 {
            return Err("its head is that of another segment".to_owned());
        }
        if *self.farm.get_or_insert(head.farm) != head.farm {
            return Err(format!("it is of another farm, {}", head.farm));
        }
        Ok(head)
    }

    fn enter_from_journal(&mut self, frame: &Frame<'_>) {
        if frame.sequence <= self.ledger.sequence {
            return;
        }
        if frame.epoch < self.epoch {
            let (epoch, last) = (frame.epoch, self.epoch);
            let words = format!("record {} was written by epoch {epoch} after epoch {last}", frame.sequence);
            self.books.wrong(words);
        }
        self.epoch = self.epoch.max(frame.epoch);
        self.enter(Place { sequence: frame.sequence, commit: frame.commit }, frame);
    }

    fn enter(&mut self, place: Place, frame: &Frame<'_>) {
        match Record::decode(frame.kind, frame.body) {
            Ok(record) => self.books.enter(place, &record),
            Err(_) => self.books.wrong(format!(
                "record {} of kind {} cannot be read: a newer starfarm wrote it, or a bug",
                place.sequence, frame.kind
            )),
        }
    }
}

/// Goes through a segment's frames and hands the records on.
fn frames(bytes: &[u8], start: frame::Place, mut record: impl FnMut(&Frame<'_>)) -> Read {
    let (mut at, mut place) = (HEAD_BYTES, start);
    loop {
        let end = match frame::read(bytes, at, place) {
            Found::Frame(found, length, next) => {
                (at, place) = (at + length, next);
                if found.kind != SEAL {
                    if found.is_record() {
                        record(&found);
                    }
                    continue;
                }
                End::Sealed
            }
            Found::Nothing => End::Open,
            Found::Broken(why) => End::Broken(why),
        };
        return Read { end, at, place };
    }
}

/// The files in `folder` that are called NUMBER.`end`, by number; none where there is no such folder.
fn list(folder: &Path, end: &str) -> Result<Option<Vec<Listed>>, Stop> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(folder, &e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| unreadable(folder, &e))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|name| name == end)) {
            found.push(Listed { number, path });
        }
    }
    found.sort_unstable_by_key(|listed| listed.number);
    Ok(Some(found))
}

fn load(path: &Path) -> Result<Vec<u8>, Stop> {
    fs::read(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Stop::Moved,
        _ => unreadable(path, &e),
    })
}

fn unreadable(path: &Path, error: &io::Error) -> Stop {
    Stop::Unreadable(format!("cannot read {}: {error}", path.display()))
}

/// What `farm.json` says: whose records these must be, and which epoch they must reach.
fn known_farm(dir: &Path) -> Option<(FarmId, u64)> {
    let text = fs::read_to_string(dir.join("farm.json")).ok()?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let farm = json.get("farm")?.as_str()?.parse().ok()?;
    Some((farm, json.get("epoch")?.as_u64()?))
}
