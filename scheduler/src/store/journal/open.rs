//! Opening: finds the end of the journal, and tells a commit that was cut short, which nobody was told of,
//! from damage, which a person must hear of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::{Epoch, FarmId};
use starfarm_protocol::journal::frame::{self, Frame, Place};
use starfarm_protocol::journal::segment::{HEAD_BYTES, Head, HeadError, Part};

use super::ledger::read_whole;
use super::writer::{Last, Synced, new_segment};
use super::{
    Each, End, Journal, MARGIN_BYTES, Medium, Options, Retirer, Segments, cannot_read, sync_folder, walk,
};
use crate::error::SchedulerError;
use crate::store::disk::damaged_name;

struct Opening<'a> {
    segments: &'a Segments,
    options: &'a Options,
    notes: Vec<String>,
    epoch: u64,
    /// Number of the first segment that is not in the ledger.
    first: u64,
    /// Up to this record all was on the disk once.
    synced: u64,
    /// The last sealed segment: its path, its bytes.
    sealed: Option<(PathBuf, Vec<u8>, End)>,
}

impl Journal {
    /// Opens the journal of `farm` in the state directory `dir`, or makes it. What a person should know comes
    /// back beside it.
    pub(crate) fn open(
        dir: &Path,
        farm: FarmId,
        options: &Options,
    ) -> Result<(Self, Vec<String>), SchedulerError> {
        let segments = Segments { dir: dir.to_owned(), farm };
        let synced = Synced::read(&segments);
        let (notes, sealed) = (Vec::new(), None);
        let mut opening = Opening { segments: &segments, options, notes, epoch: 0, first: 1, synced, sealed };
        let (start, retired) = opening.after_ledger()?;
        let last = opening.segments(start)?;
        if opening.epoch < options.expected_epoch {
            let note = format!(
                "{}: the journal ends in epoch {}, but epoch {} was started from it: its end is gone",
                dir.display(),
                opening.epoch,
                options.expected_epoch
            );
            if !options.salvage {
                return Err(SchedulerError::State(format!(
                    "{note}. Restore the directory from a copy, or give up what is missing with --salvage"
                )));
            }
            opening.notes.push(note);
        }
        let sequence = last.place.sequence;
        let synced = Synced::create(&segments, sequence, options).map_err(|e| cannot_write(dir, &e))?;
        let (epoch, notes) = (opening.epoch, opening.notes);
        let journal = Self {
            segments,
            options: options.clone(),
            last,
            commit: sequence + 1,
            gathered: Vec::new(),
            epoch,
            retired,
            synced,
            failed: None,
        };
        Ok((journal, notes))
    }

    /// Gives all records after `after` in order; see [`replay`].
    pub(crate) fn replay(&self, after: u64, each: &mut Each<'_>) -> Result<(), SchedulerError> {
        replay(&self.segments, after, each).map(drop)
    }

    /// What rewrites old segments; it may work while this journal is written.
    pub(crate) fn retirer(&self) -> Retirer {
        Retirer::new(self.segments.dir.clone(), self.segments.farm)
    }
}

/// Gives all records after `after` in order; `after` is 0 or not below [`Journal::retired`]. Those of the
/// ledger come in short, with numbers that do not count. Says which was the last. Nothing is written.
pub(super) fn replay(segments: &Segments, after: u64, each: &mut Each<'_>) -> Result<u64, SchedulerError> {
    // Asked anew, for segments may have been retired since the journal was opened.
    let ledger = segments.numbers(Part::Ledger)?;
    let ledger_end = ledger.last().copied().unwrap_or(0);
    let mut last = retired(segments, &ledger)?;
    if after < last {
        let mut chain = 0;
        for number in ledger {
            chain = read_whole(segments, number, Some(chain), each)?;
        }
    }
    for number in segments.numbers(Part::Journal)? {
        if number <= ledger_end {
            continue;
        }
        let (path, head, bytes) = segments.read(Part::Journal, number)?;
        if head.first != last + 1 {
            let what = format!("{}: it does not follow record {last}; start again", path.display());
            return Err(SchedulerError::State(what));
        }
        let start = Place { sequence: head.first - 1, chain: head.chain };
        let mut later = |frame: &Frame<'_>| if frame.sequence > after { each(frame) } else { Ok(()) };
        let end = walk(&path, &bytes, start, &mut later)?;
        last = end.place.sequence;
    }
    Ok(last)
}

/// As [`Journal::retired`], by the numbers of the ledger's segments.
fn retired(segments: &Segments, ledger: &[u64]) -> Result<u64, SchedulerError> {
    ledger.last().map_or(Ok(0), |&number| segments.head(Part::Ledger, number).map(|head| head.last))
}

/// As [`Journal::retired`], of a journal that nobody has open.
pub(crate) fn retired_at_rest(dir: &Path, farm: FarmId) -> Result<u64, SchedulerError> {
    let segments = Segments { dir: dir.to_owned(), farm };
    retired(&segments, &segments.numbers(Part::Ledger)?)
}

/// As [`Journal::replay`], of a journal that nobody has open, all of it: it must reach as far as it once was on the disk,
/// and be there at all where a scheduler was ever started.
pub(crate) fn replay_at_rest(
    dir: &Path,
    (farm, epoch): (FarmId, Epoch),
    each: &mut Each<'_>,
) -> Result<u64, SchedulerError> {
    // Asked before: who starts meanwhile only goes further.
    let segments = Segments { dir: dir.to_owned(), farm };
    let synced = Synced::read(&segments);
    let last = replay(&segments, 0, each)?;
    if last == 0 && epoch > Epoch(0) {
        return Err(SchedulerError::State(format!(
            "{}: farm.json knows of epoch {}, and there is no journal. Restore the directory from a copy",
            dir.display(),
            epoch.0
        )));
    }
    if last < synced {
        return Err(SchedulerError::State(format!(
            "{}: records {} to {synced} of the journal cannot be read. `starfarm audit` says where it is damaged; restore \
             the directory from a copy",
            dir.display(),
            last + 1
        )));
    }
    Ok(last)
}

impl Opening<'_> {
    /// Where the journal's first segment must begin, its number, and the last record that is in the ledger
    /// alone.
    fn after_ledger(&mut self) -> Result<(Place, u64), SchedulerError> {
        let journal = self.segments.numbers(Part::Journal)?;
        let mut ledger = self.segments.numbers(Part::Ledger)?;
        if let Some(&number) = ledger.last().filter(|number| journal.contains(number)) {
            // A crash came before the journal's segment was removed: the one that is whole stays.
            let is_whole = read_whole(self.segments, number, None, &mut |_| Ok(())).is_ok();
            let part = if is_whole { Part::Journal } else { Part::Ledger };
            let path = self.segments.path(part, number);
            fs::remove_file(&path).map_err(|e| cannot_write(&path, &e))?;
            if !is_whole {
                ledger.pop();
            }
        }
        if let Some(missing) = (1..).zip(&ledger).find(|(expected, number)| expected != *number) {
            return Err(SchedulerError::State(format!(
                "{}: it is missing. Restore the state directory from a copy",
                self.segments.path(Part::Ledger, missing.0).display()
            )));
        }
        self.first = ledger.last().map_or(1, |last| last + 1);
        let Some(&number) = ledger.last() else { return Ok((Place::default(), 0)) };
        let head = self.segments.head(Part::Ledger, number)?;
        Ok((Place { sequence: head.last, chain: head.seal }, head.last))
    }

    /// Walks all segments of the journal; the last one comes back, open.
    fn segments(&mut self, mut place: Place) -> Result<Last, SchedulerError> {
        let mut all = self.segments.numbers(Part::Journal)?;
        all.retain(|number| {
            let belongs = *number >= self.first;
            if !belongs {
                self.notes.push(format!(
                    "{} is not part of the journal any more, the ledger stands for it: passed over",
                    self.segments.path(Part::Journal, *number).display()
                ));
            }
            belongs
        });
        let is_new = self.first == 1 && self.options.expected_epoch == 0 && self.synced == 0;
        if all.is_empty() && is_new {
            return self.begin(1, place);
        }
        for (at, number) in (self.first..).enumerate() {
            let is_last = at + 1 == all.len();
            if all.get(at) != Some(&number) {
                let why = match at {
                    0 if number == 1 => "it is missing, and no `ledger` stands for it",
                    _ if at < all.len() => "it is missing",
                    _ => "it is missing: one more was begun",
                };
                return self.damaged(number, None, why, place);
            }
            let why = match self.segments.head(Part::Journal, number) {
                Ok(head) if (head.first, head.chain) == (place.sequence + 1, place.chain) => None,
                Ok(_) => Some("this segment does not follow the one before".to_owned()),
                Err(_) if is_last && is_new => return self.begin(1, place),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why {
                return self.damaged(number, None, &why, place);
            }
            let path = self.segments.path(Part::Journal, number);
            let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
            let end = walk(&path, &bytes, place, &mut |_| Ok(()))?;
            self.epoch = self.epoch.max(end.epoch);
            place = end.place;
            // The farm's very first start was cut short, or its first record was.
            if is_last && is_new && place.sequence == 0 && frame::written(&bytes) <= HEAD_BYTES {
                return self.begin(1, place);
            }
            if end.sealed {
                self.sealed = Some((path, bytes[..end.at].to_vec(), end));
                continue;
            }
            if !is_last && !self.is_leftover(&all[at + 1..], number, place)? {
                let why = end.broken.unwrap_or("it ends without a seal, and other segments follow");
                return self.damaged(number, Some((&bytes, end)), why, place);
            }
            let leftover = all.get(at + 1).map(|&next| self.segments.path(Part::Journal, next));
            return self.reopen(number, &bytes, end, leftover);
        }
        unreachable!("the numbers of segments end")
    }

    /// A segment that was made and never used, since a crash came before the one in use was sealed.
    fn is_leftover(&self, later: &[u64], number: u64, place: Place) -> Result<bool, SchedulerError> {
        let [next] = *later else { return Ok(false) };
        let path = self.segments.path(Part::Journal, next);
        let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
        let is_empty = bytes.get(HEAD_BYTES..).unwrap_or_default().iter().all(|&byte| byte == 0);
        let is_ours = match Head::read(&bytes) {
            Ok(head) => head.farm == self.segments.farm && head.first == place.sequence + 1,
            Err(error) => error == HeadError::Broken,
        };
        Ok(next == number + 1 && is_empty && is_ours)
    }

    /// The segment that was in use: what was cut short in it is cut off, and so is a successor that was made
    /// too early.
    fn reopen(
        &mut self,
        number: u64,
        bytes: &[u8],
        end: End,
        leftover: Option<PathBuf>,
    ) -> Result<Last, SchedulerError> {
        let written = frame::written(bytes).max(end.at);
        let damage = if ((bytes.len() - written) as u64) < MARGIN_BYTES {
            Some("the file is shorter than it was made: its end was cut off".to_owned())
        } else if end.place.sequence < self.synced {
            let why = end.broken.unwrap_or("here the journal ends");
            Some(format!("{why}, and it was on the disk up to record {}", self.synced))
        } else {
            end.broken.filter(|_| !frame::is_torn(bytes, end.at, end.place)).map(str::to_owned)
        };
        if let Some(why) = damage {
            return self.damaged(number, Some((bytes, end)), &why, end.place);
        }
        if written > end.at {
            self.notes.push(format!(
                "{}: the last {} bytes, after record {}, were not written to their end; they are cut off. \
                 Nobody was told that they were kept",
                self.segments.path(Part::Journal, number).display(),
                written - end.at,
                end.place.sequence
            ));
        }
        if let Some(path) = leftover {
            fs::remove_file(&path).and_then(|()| sync_folder(&path)).map_err(|e| cannot_write(&path, &e))?;
        }
        self.settle_sealed(end)?;
        self.settle(number, bytes, end, bytes.len() as u64)
    }

    /// Writes the last commit of a segment again, and zeros behind it, and syncs. What was read may be in the
    /// system's memory alone: the scheduler was killed before its sync ended, or that sync failed, after which
    /// the system takes the pages for clean. What is replayed must be on the disk.
    fn settle(&self, number: u64, bytes: &[u8], end: End, length: u64) -> Result<Last, SchedulerError> {
        let path = self.segments.path(Part::Journal, number);
        let mut tail = bytes[end.commit_at..end.at].to_vec();
        tail.resize(length as usize - end.commit_at, 0);
        let medium = self.write_again(&path, &tail, end)?;
        sync_folder(&path).map_err(|e| cannot_write(&path, &e))?;
        Ok(Last { number, end: end.at as u64, allocated: length, place: end.place, medium })
    }

    /// The same for the segment before, where the one in use has no frame yet: its seal may be the last that
    /// was written.
    fn settle_sealed(&mut self, end: End) -> Result<(), SchedulerError> {
        let Some((path, bytes, sealed)) = self.sealed.take().filter(|_| end.at == HEAD_BYTES) else {
            return Ok(());
        };
        self.write_again(&path, &bytes[sealed.commit_at..], sealed).map(drop)
    }

    /// Writes `tail`, the last commit and what is to lie behind it, again, and syncs.
    fn write_again(&self, path: &Path, tail: &[u8], end: End) -> Result<Box<dyn Medium>, SchedulerError> {
        let write = || -> io::Result<_> {
            let mut medium = (self.options.medium)(OpenOptions::new().read(true).write(true).open(path)?);
            medium.write_at(tail, end.commit_at as u64)?;
            medium.sync()?;
            Ok(medium)
        };
        write().map_err(|e| cannot_write(path, &e))
    }

    /// A segment is damaged: refused, or with a person's word cut there. Nothing is deleted.
    fn damaged(
        &mut self,
        number: u64,
        readable: Option<(&[u8], End)>,
        why: &str,
        place: Place,
    ) -> Result<Last, SchedulerError> {
        let (path, at) = (self.segments.path(Part::Journal, number), readable.map_or(0, |(_, end)| end.at));
        let what =
            format!("{}: {why}, at byte {at}; the last good record is {}", path.display(), place.sequence);
        if !self.options.salvage {
            return Err(SchedulerError::State(format!(
                "{what}. The journal is damaged, and acknowledged results may lie behind that place. Restore the \
                 state directory from a copy, or give up what lies behind it with --salvage"
            )));
        }
        if readable.is_some() {
            let aside = damaged_name(&path);
            let copy = || fs::copy(&path, &aside).and_then(|_| File::open(&aside)?.sync_all());
            copy().map_err(|e| cannot_write(&aside, &e))?;
            self.notes.push(format!("{} is kept as {}", path.display(), aside.display()));
        }
        // From the last one down, so that after a crash on the way the same is found damaged again.
        let first = number + u64::from(readable.is_some());
        for later in self.segments.numbers(Part::Journal)?.into_iter().rev().filter(|&later| later >= first) {
            let path = self.segments.path(Part::Journal, later);
            let aside = damaged_name(&path);
            let moved = fs::rename(&path, &aside).and_then(|()| sync_folder(&path));
            moved.map_err(|e| cannot_write(&path, &e))?;
            self.notes.push(format!("{} is kept as {}", path.display(), aside.display()));
        }
        self.notes.push(format!("{what}; the journal is cut there"));
        self.synced = self.synced.min(place.sequence);
        let Some((bytes, end)) = readable else { return self.begin(number, place) };
        self.settle(number, bytes, end, (bytes.len() as u64).max(end.at as u64 + 2 * MARGIN_BYTES))
    }

    fn begin(&mut self, number: u64, place: Place) -> Result<Last, SchedulerError> {
        let made = new_segment(self.segments, number, place, self.options);
        made.map_err(|e| cannot_write(&self.segments.path(Part::Journal, number), &e))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> SchedulerError {
    SchedulerError::State(format!(
        "{}: cannot be written: {error}; make room or repair the disk",
        path.display()
    ))
}
