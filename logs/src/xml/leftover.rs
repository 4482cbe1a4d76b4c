//! Segments that a killed scheduler or a full disk left behind: they are cut after their last whole entry and closed.

use std::fs::{self, OpenOptions};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use starfarm_events::Event;

use super::encode::Encoder;
use super::folder::{self, Segment, Standing};
use super::{Closing, Fault, Item, LogReader};

/// Events that entries account for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Accounted {
    /// Those that are there, and those that are said to be missing.
    pub(super) events: u64,
    /// Those that are said to be missing.
    pub(super) missing: u64,
}

impl Accounted {
    /// What an entry accounts for.
    pub(super) fn of(event: &Event) -> Self {
        match *event {
            Event::EventsDropped { events } => Self { events, missing: events },
            _ => Self { events: 1, missing: 0 },
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        let events = self.events.saturating_add(other.events);
        Self { events, missing: self.missing.saturating_add(other.missing) }
    }
}

/// Closes all segments in `dir` that were left behind; returns what they account for.
pub(super) fn finish_all(dir: &Path) -> io::Result<Accounted> {
    let mut accounted = Accounted::default();
    for segment in folder::list(dir)?.into_iter().filter(|segment| segment.standing == Standing::Part) {
        accounted = finish(&segment)?.and(accounted);
    }
    Ok(accounted)
}

fn finish(segment: &Segment) -> io::Result<Accounted> {
    let mut file = OpenOptions::new().read(true).write(true).open(&segment.path)?;
    let mut reader = LogReader::new(BufReader::new(&file), segment.path.display().to_string());
    reader.in_use = true;
    let (mut told, mut closed, mut accounted) = (false, false, Accounted::default());
    for item in reader.by_ref() {
        match item {
            Ok(Item::Snapshot(..)) => told = true,
            Ok(Item::Closed(_)) => closed = true,
            Ok(Item::Event(_, event)) => accounted = accounted.and(Accounted::of(&event)),
            Ok(Item::Opened(_) | Item::Note(_)) => {}
            Err(e) => match e.fault {
                Fault::Io(e) => return Err(e),
                // No file of ours any more: somebody may still want to look at it.
                _ => {
                    fs::rename(&segment.path, segment.to(Standing::Damaged).path)?;
                    return Ok(Accounted::default());
                }
            },
        }
    }
    if !told {
        // Its scheduler was killed as it wrote the first snapshot: nothing happened yet.
        fs::remove_file(&segment.path)?;
        return Ok(Accounted::default());
    }
    let (whole, entries, at_us) = (reader.whole, reader.entries, reader.last_at_us.unwrap_or_default());
    let (saved_at_us, saved_utc_us) = reader.saved.unwrap_or_default();
    let utc_us = saved_utc_us.saturating_add(at_us.saturating_sub(saved_at_us));
    file.set_len(whole)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(b"\n")?;
    let mut encoder = Encoder::new(&file);
    if closed {
        encoder.end("log")?;
    } else {
        encoder.close(&Closing { at_us, utc_us, entries }, true)?;
    }
    file.sync_all()?;
    fs::rename(&segment.path, segment.to(Standing::Closed).path)?;
    folder::sync(segment.path.parent().unwrap_or(Path::new(".")))?;
    Ok(accounted)
}
