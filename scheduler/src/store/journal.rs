//! The journal's files: `journal/NNNNNNNN.seg`, the segment with the highest number in use, and
//! `ledger/NNNNNNNN.led`, the older ones in short. What a byte means is described in `protocol::journal` and
//! `docs/journal.md`; here is how files are made, read at a start, written and let go.
//!
//! `open` finds the end and judges what is broken, `writer` appends and remembers how far all is on the disk, `ledger` rewrites old segments,
//! `trace` looks who computed a unit, `listing` puts the hits of a job in order.

mod ledger;
mod listing;
mod open;
#[cfg(test)]
mod tests;
mod trace;
mod writer;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::FarmId;
use starfarm_protocol::journal::frame::{self, Found, Frame, Place};
use starfarm_protocol::journal::segment::{HEAD_BYTES, Head, HeadError, Part};

pub(crate) use ledger::Retirer;
pub(crate) use listing::{Lister, Listing};
pub(crate) use open::{replay_at_rest, retired_at_rest};
pub(crate) use writer::Journal;

use crate::descriptors::wait_for;
use crate::error::SchedulerError;
use crate::store::disk::{self, create, sync_folder};

/// A segment that has grown to this many bytes gets a successor, if nothing else is asked for.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;
/// Zeros that lie behind the last frame at all times: a segment with fewer was cut.
const MARGIN_BYTES: u64 = 64 << 10;

/// How a journal is kept, and what a person decided.
#[derive(Clone)]
pub(crate) struct Options {
    /// Cut the journal where it is damaged.
    pub(crate) salvage: bool,
    /// The epoch that the directory remembers: a journal that does not reach it has lost its end.
    pub(crate) expected_epoch: u64,
    /// A segment that has grown to this many bytes gets a successor.
    pub(crate) segment_bytes: u64,
    /// How the segment in use is written.
    pub(crate) medium: fn(File) -> Box<dyn Medium>,
}

impl Default for Options {
    fn default() -> Self {
        let medium: fn(File) -> Box<dyn Medium> = |file| Box::new(file);
        Self { salvage: false, expected_epoch: 0, segment_bytes: SEGMENT_BYTES, medium }
    }
}

/// What the writer needs of a file: the seam where tests let a disk fail.
pub(crate) trait Medium: Send {
    /// Writes all of `bytes`.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all that was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The files of a farm's journal and ledger, in its state directory.
#[derive(Clone)]
struct Segments {
    dir: PathBuf,
    farm: FarmId,
}

impl Segments {
    fn path(&self, part: Part, number: u64) -> PathBuf {
        let (folder, ending) = place(part);
        self.dir.join(folder).join(format!("{number:08}{ending}"))
    }

    /// Numbers of the files of a part, in order.
    fn numbers(&self, part: Part) -> Result<Vec<u64>, SchedulerError> {
        let (folder, ending) = place(part);
        disk::numbers(&self.dir.join(folder), ending).map_err(|e| cannot_read(&self.dir, &e))
    }

    /// Reads the head of a segment and checks that it is the one that belongs there.
    fn head(&self, part: Part, number: u64) -> Result<Head, SchedulerError> {
        let (path, farm) = (self.path(part, number), self.farm);
        let mut block = vec![0; HEAD_BYTES];
        let read = wait_for(|| File::open(&path)).and_then(|file| file.read_exact_at(&mut block, 0));
        let refuse = |what: String| {
            Err(SchedulerError::State(format!(
                "{}: {what}. Restore the state directory from a copy{}",
                path.display(),
                if part == Part::Journal { ", or let --salvage cut the journal before it" } else { "" }
            )))
        };
        let head = match read.map_err(|_| HeadError::Broken).and_then(|()| Head::read(&block)) {
            Ok(head) => head,
            Err(HeadError::Broken) => return refuse("the head of the segment is damaged".into()),
            Err(HeadError::Version(version)) => {
                return refuse(format!("format version {version} is not known: use the newer starfarm"));
            }
        };
        if head.farm != farm {
            return refuse(format!("this segment is of farm {}, not of {farm}", head.farm));
        }
        if (head.part, head.number) != (part, number) {
            return refuse(format!("this is segment {}: files were swapped or renamed", head.number));
        }
        Ok(head)
    }

    /// A segment's path, its checked head, and all its bytes.
    fn read(&self, part: Part, number: u64) -> Result<(PathBuf, Head, Vec<u8>), SchedulerError> {
        let (path, head) = (self.path(part, number), self.head(part, number)?);
        let bytes = wait_for(|| fs::read(&path)).map_err(|e| cannot_read(&path, &e))?;
        Ok((path, head, bytes))
    }
}

/// Where the frames of a segment end, and with what.
#[derive(Clone, Copy, Debug)]
struct End {
    at: usize,
    /// Where the last commit begins.
    commit_at: usize,
    place: Place,
    /// Highest epoch among them.
    epoch: u64,
    /// It ends with a seal: another segment follows.
    sealed: bool,
    /// What lies behind is broken; in words.
    broken: Option<&'static str>,
}

/// What is done with each record in its turn; an error says in words why it cannot be.
type Each<'a> = dyn FnMut(&Frame<'_>) -> Result<(), String> + 'a;

/// Walks the frames of the segment at `path`, whose bytes these are, and gives its records to `each`.
fn walk(path: &Path, bytes: &[u8], start: Place, each: &mut Each<'_>) -> Result<End, SchedulerError> {
    let (at, place) = (HEAD_BYTES, start);
    let mut end = End { at, commit_at: at, place, epoch: 0, sealed: false, broken: None };
    let mut commit = 0;
    loop {
        match frame::read(bytes, end.at, end.place) {
            Found::Frame(frame, length, place) => {
                if frame.is_record() {
                    each(&frame)
                        .map_err(|why| SchedulerError::State(format!("{}: {why}", path.display())))?;
                }
                if frame.commit > commit {
                    (commit, end.commit_at) = (frame.commit, end.at);
                }
                (end.at, end.place, end.epoch) = (end.at + length, place, end.epoch.max(frame.epoch));
                if frame.kind == frame::SEAL {
                    end.sealed = true;
                    return Ok(end);
                }
            }
            Found::Nothing => return Ok(end),
            Found::Broken(why) => {
                end.broken = Some(why);
                return Ok(end);
            }
        }
    }
}

/// Folder of the files of a part, and how they are called.
fn place(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Journal => ("journal", ".seg"),
        Part::Ledger => ("ledger", ".led"),
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> SchedulerError {
    SchedulerError::State(format!("{}: cannot be read: {error}", path.display()))
}
