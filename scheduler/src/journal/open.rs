//! Opening: finds the end of the journal, and tells a commit that was cut short, which nobody was told of,
//! from damage, which a person must hear of.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use starfarm_protocol::ids::FarmId;
use starfarm_protocol::journal::frame::{self, Frame, Place};
use starfarm_protocol::journal::segment::{HEAD_BYTES, Head, HeadError, Part};

use super::writer::new_segment;
use super::{
    End, Journal, JournalError, MARGIN_BYTES, Medium, Options, Retirer, Segment, numbers, read_head,
    segment_path, sync_folder, walk,
};

/// The journal while it is being opened.
struct Opening<'a> {
    dir: &'a Path,
    farm: FarmId,
    options: &'a Options,
    notes: Vec<String>,
    epoch: u64,
}

/// The segment that will be written to.
struct Last {
    number: u64,
    end: u64,
    allocated: u64,
    place: Place,
    medium: Box<dyn Medium>,
}

impl Journal {
    /// Opens the journal of `farm` in the state directory `dir`, or makes it. What a person should know comes
    /// back beside it.
    ///
    /// # Errors
    /// It is damaged, incomplete or of another farm; the sentence says what to do.
    pub(crate) fn open(
        dir: &Path,
        farm: FarmId,
        options: &Options,
    ) -> Result<(Self, Vec<String>), JournalError> {
        let mut opening = Opening { dir, farm, options, notes: Vec::new(), epoch: 0 };
        let (mut place, retired) = opening.after_ledger()?;
        let last = opening.segments(&mut place)?;
        if opening.epoch < options.expected_epoch {
            let note = format!(
                "{}: the journal ends in epoch {}, but epoch {} was started from it: its end is gone",
                dir.display(),
                opening.epoch,
                options.expected_epoch
            );
            if !options.salvage {
                return Err(JournalError(format!(
                    "{note}. Restore the directory from a copy, or give up what is missing with --salvage"
                )));
            }
            opening.notes.push(note);
        }
        let Last { number, end, allocated, place, medium } = last;
        let (dir, options) = (dir.to_owned(), options.clone());
        let (commit, gathered, failed) = (place.sequence + 1, Vec::new(), None);
        let epoch = opening.epoch;
        let journal = Self {
            dir,
            farm,
            options,
            medium,
            number,
            end,
            allocated,
            place,
            commit,
            gathered,
            epoch,
            retired,
            failed,
        };
        Ok((journal, opening.notes))
    }

    /// Gives all records after `after` in order; `after` is 0 or not below [`Journal::retired`]. Those of the
    /// ledger come in short, with numbers that do not count.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or `each` refuses a record.
    pub(crate) fn replay(
        &self,
        after: u64,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), String>,
    ) -> Result<(), JournalError> {
        if after < self.retired {
            let mut place = Place::default();
            for number in numbers(&self.dir, Part::Ledger).map_err(|e| cannot_read(&self.dir, &e))? {
                let head = read_whole(&self.dir, Part::Ledger, number, self.farm, place.chain, each)?;
                place.chain = head;
            }
        }
        for number in numbers(&self.dir, Part::Journal).map_err(|e| cannot_read(&self.dir, &e))? {
            let path = segment_path(&self.dir, Part::Journal, number);
            let head = read_head(&path, Part::Journal, number, self.farm)?;
            let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
            let start = Place { sequence: head.first - 1, chain: head.chain };
            walk(&bytes, start, &mut |frame| {
                if frame.is_record() && frame.sequence > after {
                    return each(frame).map_err(|why| JournalError(format!("{}: {why}", path.display())));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// What rewrites old segments; it may work while this journal is written.
    pub(crate) fn retirer(&self) -> Retirer {
        Retirer::new(self.dir.clone(), self.farm)
    }
}

/// Reads a ledger segment, which must be whole; its seal's CRC comes back.
fn read_whole(
    dir: &Path,
    part: Part,
    number: u64,
    farm: FarmId,
    chain: u32,
    each: &mut dyn FnMut(&Frame<'_>) -> Result<(), String>,
) -> Result<u32, JournalError> {
    let path = segment_path(dir, part, number);
    let head = read_head(&path, part, number, farm)?;
    let bytes = fs::read(&path).map_err(|e| cannot_read(&path, &e))?;
    let start = Place { sequence: 0, chain: head.chain };
    let end = walk(&bytes, start, &mut |frame| {
        if frame.is_record() {
            return each(frame).map_err(|why| JournalError(format!("{}: {why}", path.display())));
        }
        Ok(())
    })?;
    if head.chain != chain || !end.sealed {
        return Err(JournalError(format!(
            "{}: {}. Restore the state directory from a copy",
            path.display(),
            end.broken.unwrap_or("this segment is not whole, or does not follow the one before")
        )));
    }
    Ok(end.place.chain)
}

impl Opening<'_> {
    /// Where the journal's first segment must begin, and the last record that is in the ledger alone.
    fn after_ledger(&mut self) -> Result<(Place, u64), JournalError> {
        let journal = numbers(self.dir, Part::Journal).map_err(|e| cannot_read(self.dir, &e))?;
        let mut ledger = numbers(self.dir, Part::Ledger).map_err(|e| cannot_read(self.dir, &e))?;
        while let Some(&number) = ledger.last().filter(|number| journal.contains(number)) {
            // A crash came between its making and the end of the segment that it stands for.
            let path = segment_path(self.dir, Part::Ledger, number);
            fs::remove_file(&path).map_err(|e| cannot_write(&path, &e))?;
            ledger.pop();
        }
        if let Some(missing) = (1..).zip(&ledger).find(|(expected, number)| expected != *number) {
            return Err(JournalError(format!(
                "{}: it is missing. Restore the state directory from a copy",
                segment_path(self.dir, Part::Ledger, missing.0).display()
            )));
        }
        let Some(&number) = ledger.last() else { return Ok((Place::default(), 0)) };
        let path = segment_path(self.dir, Part::Ledger, number);
        let head = read_head(&path, Part::Ledger, number, self.farm)?;
        Ok((Place { sequence: head.last, chain: head.seal }, head.last))
    }

    /// Walks all segments of the journal; the last one comes back, open.
    fn segments(&mut self, place: &mut Place) -> Result<Last, JournalError> {
        let ledger = numbers(self.dir, Part::Ledger).map_err(|e| cannot_read(self.dir, &e))?;
        let mut expected = ledger.last().map_or(1, |last| last + 1);
        let all = numbers(self.dir, Part::Journal).map_err(|e| cannot_read(self.dir, &e))?;
        if all.is_empty() && expected == 1 && self.options.expected_epoch == 0 {
            return self.begin(expected, *place);
        }
        let first = expected;
        for (at, &number) in all.iter().enumerate() {
            if number != expected {
                break;
            }
            let (path, is_last) = (segment_path(self.dir, Part::Journal, number), at + 1 == all.len());
            let head = match read_head(&path, Part::Journal, number, self.farm) {
                Ok(head) if (head.first, head.chain) == (place.sequence + 1, place.chain) => head,
                Ok(_) => {
                    let why = "this segment does not follow the one before";
                    return self.damaged(
                        &Segment { path, head: self.head(number, *place) },
                        None,
                        why,
                        *place,
                    );
                }
                // The farm's very first start was cut short.
                Err(_) if number == 1 && is_last && self.options.expected_epoch == 0 => {
                    return self.begin(1, *place);
                }
                Err(JournalError(why)) => {
                    let segment = Segment { path, head: self.head(number, *place) };
                    return self.damaged(&segment, None, &why, *place);
                }
            };
            let segment = Segment { path, head };
            let bytes = fs::read(&segment.path).map_err(|e| cannot_read(&segment.path, &e))?;
            let end = walk(&bytes, *place, &mut |_| Ok(()))?;
            self.epoch = self.epoch.max(end.epoch);
            *place = end.place;
            if end.sealed {
                expected += 1;
                continue;
            }
            if !is_last && !self.is_leftover(all[at + 1..].iter().copied(), number, *place) {
                let why = end.broken.unwrap_or("it ends without a seal, and other segments follow");
                return self.damaged(&segment, Some((&bytes, end)), why, *place);
            }
            return self.reopen(&segment, &bytes, end);
        }
        let path = segment_path(self.dir, Part::Journal, expected);
        if all.first().is_none_or(|number| *number > first)
            || all.last().is_some_and(|last| *last >= expected)
        {
            return self.damaged(
                &Segment { path, head: self.head(expected, *place) },
                None,
                "it is missing",
                *place,
            );
        }
        self.damaged(
            &Segment { path, head: self.head(expected, *place) },
            None,
            "it is missing: the segment before was sealed, so there was one",
            *place,
        )
    }

    /// A segment that was made and never used, since a crash came before the one in use was sealed: removed.
    fn is_leftover(&mut self, mut later: impl Iterator<Item = u64>, number: u64, place: Place) -> bool {
        let (Some(next), None) = (later.next(), later.next()) else { return false };
        let path = segment_path(self.dir, Part::Journal, next);
        let Ok(bytes) = fs::read(&path) else { return false };
        let empty = bytes.get(HEAD_BYTES..).unwrap_or_default().iter().all(|&byte| byte == 0);
        let is_ours = match Head::read(&bytes) {
            Ok(head) => head.first == place.sequence + 1,
            Err(error) => error == HeadError::Broken,
        };
        next == number + 1 && empty && is_ours && fs::remove_file(&path).is_ok()
    }

    /// The segment that was in use: what was cut short in it is cut off.
    fn reopen(&mut self, segment: &Segment, bytes: &[u8], end: End) -> Result<Last, JournalError> {
        let written = frame::written(bytes).max(end.at);
        if ((bytes.len() - written) as u64) < MARGIN_BYTES {
            let why = "the file is shorter than it was made: its end was cut off";
            return self.damaged(segment, Some((bytes, end)), why, end.place);
        }
        if let Some(why) = end.broken
            && !frame::is_torn(bytes, end.at, end.place)
        {
            return self.damaged(segment, Some((bytes, end)), why, end.place);
        }
        let file = OpenOptions::new().read(true).write(true).open(&segment.path);
        let file = file.map_err(|e| cannot_write(&segment.path, &e))?;
        let mut medium = (self.options.medium)(file);
        if written > end.at {
            let zeros = vec![0; written - end.at];
            let cut = medium.write_at(&zeros, end.at as u64).and_then(|()| medium.sync());
            cut.map_err(|e| cannot_write(&segment.path, &e))?;
            self.notes.push(format!(
                "{}: the last {} bytes, after record {}, were not written to their end; they are cut off. \
                 Nobody was told that they were kept",
                segment.path.display(),
                written - end.at,
                end.place.sequence
            ));
        }
        let (number, allocated) = (segment.head.number, bytes.len() as u64);
        Ok(Last { number, end: end.at as u64, allocated, place: end.place, medium })
    }

    /// A segment is damaged: refused, or with a person's word cut there. Nothing is deleted.
    fn damaged(
        &mut self,
        segment: &Segment,
        readable: Option<(&[u8], End)>,
        why: &str,
        place: Place,
    ) -> Result<Last, JournalError> {
        let at = readable.map_or(0, |(_, end)| end.at);
        let what = format!(
            "{}: {why}, at byte {at}; the last good record is {}",
            segment.path.display(),
            place.sequence
        );
        if !self.options.salvage {
            return Err(JournalError(format!(
                "{what}. The journal is damaged, and acknowledged results may lie behind that place. Restore the \
                 state directory from a copy, or give up what lies behind it with --salvage"
            )));
        }
        let later = numbers(self.dir, Part::Journal).map_err(|e| cannot_read(self.dir, &e))?;
        for number in later.into_iter().filter(|number| *number >= segment.head.number) {
            let path = segment_path(self.dir, Part::Journal, number);
            let aside = free_name(&path);
            fs::rename(&path, &aside).map_err(|e| cannot_write(&path, &e))?;
            self.notes.push(format!("{} is kept as {}", path.display(), aside.display()));
        }
        self.notes.push(format!("{what}; the journal is cut there"));
        let Some((bytes, end)) = readable else { return self.begin(segment.head.number, place) };
        let mut last = self.begin_with(&segment.head)?;
        let good = &bytes[HEAD_BYTES..end.at];
        let length = (end.at as u64 + 2 * MARGIN_BYTES).max(last.allocated);
        let copied = last.medium.write_at(good, HEAD_BYTES as u64).and_then(|()| {
            last.medium.write_at(&vec![0; (length - end.at as u64) as usize], end.at as u64)?;
            last.medium.sync()
        });
        copied.map_err(|e| cannot_write(&segment.path, &e))?;
        (last.end, last.allocated, last.place) = (end.at as u64, length, end.place);
        Ok(last)
    }

    fn head(&self, number: u64, place: Place) -> Head {
        let (part, farm, first, chain) = (Part::Journal, self.farm, place.sequence + 1, place.chain);
        Head { part, farm, number, first, last: 0, chain, seal: 0 }
    }

    fn begin(&mut self, number: u64, place: Place) -> Result<Last, JournalError> {
        let last = self.begin_with(&self.head(number, place))?;
        Ok(Last { place, ..last })
    }

    fn begin_with(&mut self, head: &Head) -> Result<Last, JournalError> {
        let path = segment_path(self.dir, Part::Journal, head.number);
        let made = new_segment(self.dir, head, self.options);
        let (medium, allocated) = made.map_err(|e| cannot_write(&path, &e))?;
        sync_folder(&path).map_err(|e| cannot_write(&path, &e))?;
        let place = Place { sequence: head.first - 1, chain: head.chain };
        Ok(Last { number: head.number, end: HEAD_BYTES as u64, allocated, place, medium })
    }
}

/// A name beside `path` that nothing has.
fn free_name(path: &Path) -> std::path::PathBuf {
    let mut aside = path.with_added_extension("damaged");
    let mut number = 1;
    while aside.exists() {
        number += 1;
        aside = path.with_added_extension(format!("damaged-{number}"));
    }
    aside
}

fn cannot_read(path: &Path, error: &io::Error) -> JournalError {
    JournalError(format!("{}: cannot be read: {error}", path.display()))
}

fn cannot_write(path: &Path, error: &io::Error) -> JournalError {
    JournalError(format!("{}: cannot be written: {error}; make room or repair the disk", path.display()))
}
