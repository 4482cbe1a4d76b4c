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
    End, Journal, MARGIN_BYTES, Options, Retirer, Segment, cannot_read, numbers, read_head, segment_path,
    sync_folder, walk,
};
use crate::error::SchedulerError;

struct Opening<'a> {
    dir: &'a Path,
    farm: FarmId,
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
        let synced = Synced::read(dir, farm);
        let (notes, sealed) = (Vec::new(), None);
        let mut opening = Opening { dir, farm, options, notes, epoch: 0, first: 1, synced, sealed };
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
        let synced = Synced::create(dir, farm, sequence, options).map_err(|e| cannot_write(dir, &e))?;
        let journal = Self {
            dir: dir.to_owned(),
            farm,
            options: options.clone(),
            last,
            commit: sequence + 1,
            gathered: Vec::new(),
            epoch: opening.epoch,
            retired,
            synced,
            failed: None,
        };
        Ok((journal, opening.notes))
    }

    /// Gives all records after `after` in order; see [`replay`].
    pub(crate) fn replay(
        &self,
        after: u64,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), String>,
    ) -> Result<(), SchedulerError> {
        replay(&self.dir, self.farm, after, each).map(|_| ())
    }

    /// What rewrites old segments; it may work while this journal is written.
    pub(crate) fn retirer(&self) -> Retirer {
        Retirer::new(self.dir.clone(), self.farm)
    }
}

/// Gives all records after `after` in order; `after` is 0 or not below [`Journal::retired`]. Those of the
/// ledger come in short, with numbers that do not count. Says which was the last. Nothing is written.
pub(crate) fn replay(
    dir: &Path,
    farm: FarmId,
    after: u64,
    each: &mut dyn FnMut(&Frame<'_>) -> Result<(), String>,
) -> Result<u64, SchedulerError> {
    let unreadable = |e: io::Error| cannot_read(dir, &e);
    // Asked anew, for segments may have been retired since the journal was opened.
    let ledger = numbers(dir, Part::Ledger).map_err(unreadable)?;
    let ledger_end = ledger.last().copied().unwrap_or(0);
    let mut last = 0;
    if let Some(&number) = ledger.last() {
        let path = segment_path(dir, Part::Ledger, number);
        last = read_head(&path, Part::Ledger, number, farm)?.last;
    }
    if after < last {
        let mut chain = 0;
        for number in ledger {
            chain = read_whole(dir, number, farm, Some(chain), each)?;
        }
    }
    for number in numbers(dir, Part::Journal).map_err(unreadable)? {
        if number <= ledger_end {
            continue;
        }
        let path = segment_path(dir, Part::Journal, number);
        let head = read_head(&path, Part::Journal, number, farm)?;
        if head.first != last + 1 {
            let what = format!("{}: it does not follow record {last}; start again", path.display());
            return Err(SchedulerError::State(what));
        }
        let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
        let start = Place { sequence: head.first - 1, chain: head.chain };
        let end = walk(&bytes, start, &mut |frame| {
            if frame.is_record() && frame.sequence > after {
                return each(frame)
                    .map_err(|why| SchedulerError::State(format!("{}: {why}", path.display())));
            }
            Ok(())
        })?;
        last = end.place.sequence;
    }
    Ok(last)
}

/// The same for a journal that nobody has open, all of it: it must reach as far as it once was on the disk, and be there
/// at all where a scheduler was ever started.
pub(crate) fn replay_at_rest(
    dir: &Path,
    (farm, epoch): (FarmId, Epoch),
    each: &mut dyn FnMut(&Frame<'_>) -> Result<(), String>,
) -> Result<u64, SchedulerError> {
    // Asked before: who starts meanwhile only goes further.
    let synced = Synced::read(dir, farm);
    let last = replay(dir, farm, 0, each)?;
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
        let journal = self.numbers(Part::Journal)?;
        let mut ledger = self.numbers(Part::Ledger)?;
        if let Some(&number) = ledger.last().filter(|number| journal.contains(number)) {
            // A crash came before the journal's segment was removed: the one that is whole stays.
            let is_whole = read_whole(self.dir, number, self.farm, None, &mut |_| Ok(())).is_ok();
            let part = if is_whole { Part::Journal } else { Part::Ledger };
            let path = segment_path(self.dir, part, number);
            fs::remove_file(&path).map_err(|e| cannot_write(&path, &e))?;
            if !is_whole {
                ledger.pop();
            }
        }
        if let Some(missing) = (1..).zip(&ledger).find(|(expected, number)| expected != *number) {
            return Err(SchedulerError::State(format!(
                "{}: it is missing. Restore the state directory from a copy",
                segment_path(self.dir, Part::Ledger, missing.0).display()
            )));
        }
        self.first = ledger.last().map_or(1, |last| last + 1);
        let Some(&number) = ledger.last() else { return Ok((Place::default(), 0)) };
        let path = segment_path(self.dir, Part::Ledger, number);
        let head = read_head(&path, Part::Ledger, number, self.farm)?;
        Ok((Place { sequence: head.last, chain: head.seal }, head.last))
    }

    /// Walks all segments of the journal; the last one comes back, open.
    fn segments(&mut self, mut place: Place) -> Result<Last, SchedulerError> {
        let mut all = self.numbers(Part::Journal)?;
        all.retain(|number| {
            let belongs = *number >= self.first;
            if !belongs {
                self.notes.push(format!(
                    "{} is not part of the journal any more, the ledger stands for it: passed over",
                    segment_path(self.dir, Part::Journal, *number).display()
                ));
            }
            belongs
        });
        let is_new = self.first == 1 && self.options.expected_epoch == 0 && self.synced == 0;
        if all.is_empty() && is_new {
            return self.begin(1, place);
        }
        for (at, number) in (self.first..).enumerate() {
            let segment = Segment { path: segment_path(self.dir, Part::Journal, number), number };
            let is_last = at + 1 == all.len();
            if all.get(at) != Some(&number) {
                let why = match at {
                    0 if number == 1 => "it is missing, and no `ledger` stands for it",
                    _ if at < all.len() => "it is missing",
                    _ => "it is missing: one more was begun",
                };
                return self.damaged(&segment, None, why, place);
            }
            let why = match read_head(&segment.path, Part::Journal, number, self.farm) {
                Ok(head) if (head.first, head.chain) == (place.sequence + 1, place.chain) => None,
                Ok(_) => Some("this segment does not follow the one before".to_owned()),
                Err(_) if is_last && is_new => return self.begin(1, place),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why {
                return self.damaged(&segment, None, &why, place);
            }
            let bytes = fs::read(&segment.path).map_err(|e| cannot_read(&segment.path, &e))?;
            let end = walk(&bytes, place, &mut |_| Ok(()))?;
            self.epoch = self.epoch.max(end.epoch);
            place = end.place;
            // The farm's very first start was cut short, or its first record was.
            if is_last && is_new && place.sequence == 0 && frame::written(&bytes) <= HEAD_BYTES {
                return self.begin(1, place);
            }
            if end.sealed {
                self.sealed = Some((segment.path, bytes[..end.at].to_vec(), end));
                continue;
            }
            if !is_last && !self.is_leftover(&all[at + 1..], number, place)? {
                let why = end.broken.unwrap_or("it ends without a seal, and other segments follow");
                return self.damaged(&segment, Some((&bytes, end)), why, place);
            }
            let leftover = all.get(at + 1).map(|next| segment_path(self.dir, Part::Journal, *next));
            return self.reopen(&segment, &bytes, end, leftover);
        }
        unreachable!("the numbers of segments end")
    }

    /// A segment that was made and never used, since a crash came before the one in use was sealed.
    fn is_leftover(&self, later: &[u64], number: u64, place: Place) -> Result<bool, SchedulerError> {
        let [next] = *later else { return Ok(false) };
        let path = segment_path(self.dir, Part::Journal, next);
        let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
        let is_empty = bytes.get(HEAD_BYTES..).unwrap_or_default().iter().all(|&byte| byte == 0);
        let is_ours = match Head::read(&bytes) {
            Ok(head) => head.farm == self.farm && head.first == place.sequence + 1,
            Err(error) => error == HeadError::Broken,
        };
        Ok(next == number + 1 && is_empty && is_ours)
    }

    /// The segment that was in use: what was cut short in it is cut off, and so is a successor that was made
    /// too early.
    fn reopen(
        &mut self,
        segment: &Segment,
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
            return self.damaged(segment, Some((bytes, end)), &why, end.place);
        }
        if written > end.at {
            self.notes.push(format!(
                "{}: the last {} bytes, after record {}, were not written to their end; they are cut off. \
                 Nobody was told that they were kept",
                segment.path.display(),
                written - end.at,
                end.place.sequence
            ));
        }
        if let Some(path) = leftover {
            fs::remove_file(&path).and_then(|()| sync_folder(&path)).map_err(|e| cannot_write(&path, &e))?;
        }
        self.settle_sealed(end)?;
        self.settle(segment, bytes, end, bytes.len() as u64)
    }

    /// Writes the last commit of a segment again, and zeros behind it, and syncs. What was read may be in the
    /// system's memory alone: the scheduler was killed before its sync ended, or that sync failed, after which
    /// the system takes the pages for clean. What is replayed must be on the disk.
    fn settle(&self, segment: &Segment, bytes: &[u8], end: End, length: u64) -> Result<Last, SchedulerError> {
        let file = OpenOptions::new().read(true).write(true).open(&segment.path);
        let file = file.map_err(|e| cannot_write(&segment.path, &e))?;
        let mut medium = (self.options.medium)(file);
        let mut tail = bytes[end.commit_at..end.at].to_vec();
        tail.resize(length as usize - end.commit_at, 0);
        let written = medium.write_at(&tail, end.commit_at as u64).and_then(|()| medium.sync());
        written.and_then(|()| sync_folder(&segment.path)).map_err(|e| cannot_write(&segment.path, &e))?;
        Ok(Last { number: segment.number, end: end.at as u64, allocated: length, place: end.place, medium })
    }

    /// The same for the segment before, where the one in use has no frame yet: its seal may be the last that
    /// was written.
    fn settle_sealed(&mut self, end: End) -> Result<(), SchedulerError> {
        let Some((path, bytes, sealed)) = self.sealed.take().filter(|_| end.at == HEAD_BYTES) else {
            return Ok(());
        };
        let write = || -> io::Result<()> {
            let mut medium = (self.options.medium)(OpenOptions::new().read(true).write(true).open(&path)?);
            medium.write_at(&bytes[sealed.commit_at..], sealed.commit_at as u64)?;
            medium.sync()
        };
        write().map_err(|e| cannot_write(&path, &e))
    }

    /// A segment is damaged: refused, or with a person's word cut there. Nothing is deleted.
    fn damaged(
        &mut self,
        segment: &Segment,
        readable: Option<(&[u8], End)>,
        why: &str,
        place: Place,
    ) -> Result<Last, SchedulerError> {
        let at = readable.map_or(0, |(_, end)| end.at);
        let what = format!(
            "{}: {why}, at byte {at}; the last good record is {}",
            segment.path.display(),
            place.sequence
        );
        if !self.options.salvage {
            return Err(SchedulerError::State(format!(
                "{what}. The journal is damaged, and acknowledged results may lie behind that place. Restore the \
                 state directory from a copy, or give up what lies behind it with --salvage"
            )));
        }
        if readable.is_some() {
            let aside = free_name(&segment.path);
            let copy = || fs::copy(&segment.path, &aside).and_then(|_| File::open(&aside)?.sync_all());
            copy().map_err(|e| cannot_write(&aside, &e))?;
            self.notes.push(format!("{} is kept as {}", segment.path.display(), aside.display()));
        }
        // From the last one down, so that after a crash on the way the same is found damaged again.
        let number = segment.number + u64::from(readable.is_some());
        for number in self.numbers(Part::Journal)?.into_iter().rev().filter(|later| *later >= number) {
            let path = segment_path(self.dir, Part::Journal, number);
            let aside = free_name(&path);
            let moved = fs::rename(&path, &aside).and_then(|()| sync_folder(&path));
            moved.map_err(|e| cannot_write(&path, &e))?;
            self.notes.push(format!("{} is kept as {}", path.display(), aside.display()));
        }
        self.notes.push(format!("{what}; the journal is cut there"));
        self.synced = self.synced.min(place.sequence);
        let Some((bytes, end)) = readable else { return self.begin(segment.number, place) };
        self.settle(segment, bytes, end, (bytes.len() as u64).max(end.at as u64 + 2 * MARGIN_BYTES))
    }

    fn numbers(&self, part: Part) -> Result<Vec<u64>, SchedulerError> {
        numbers(self.dir, part).map_err(|e| cannot_read(self.dir, &e))
    }

    fn begin(&mut self, number: u64, place: Place) -> Result<Last, SchedulerError> {
        let (part, farm, first, chain) = (Part::Journal, self.farm, place.sequence + 1, place.chain);
        let head = Head { part, farm, number, first, last: 0, chain, seal: 0 };
        let path = segment_path(self.dir, Part::Journal, number);
        let made = new_segment(self.dir, &head, self.options);
        let (medium, allocated) = made.map_err(|e| cannot_write(&path, &e))?;
        Ok(Last { number, end: HEAD_BYTES as u64, allocated, place, medium })
    }
}

/// A name beside `path` that nothing has.
fn free_name(path: &Path) -> PathBuf {
    let mut aside = path.with_added_extension("damaged");
    let mut number = 1;
    while aside.exists() {
        number += 1;
        aside = path.with_added_extension(format!("damaged-{number}"));
    }
    aside
}

fn cannot_write(path: &Path, error: &io::Error) -> SchedulerError {
    SchedulerError::State(format!(
        "{}: cannot be written: {error}; make room or repair the disk",
        path.display()
    ))
}
