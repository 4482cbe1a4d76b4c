//! What the system says of single processes and threads: their files below /proc, read into one buffer. To open such a file
//! takes longer than to read it, so those of processes that are looked at again and again may stay open. A process may end at
//! any moment, so each figure may be missing.

use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, open, openat, seek};
use rustix::io::{pread, read};
use starfarm_exec::UNIT_VARIABLE;

use crate::sensors::text::{lines, number, value, words};

/// Room for the list of processes, in bytes; longer ones come in pieces.
const LIST_BYTES: usize = 32 * 1_024;
/// Room for a piece of a text, in bytes: all files but environments are shorter.
const PIECE: usize = 2_048;
/// A longer environment is not read to its end.
const TEXT_BYTES_MAX: usize = 256 * 1_024;

/// Who a process is, and what it has used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// CPU time of the process, and of those children that it has waited for, with theirs, in microseconds.
    pub(super) cpu_us: u64,
    /// When it started, in ticks since the machine did: with its number this is who it is.
    pub(super) start: u64,
}

/// Files of a process that stay open. They are this process's whoever has its number later, and say nothing after its end.
pub(super) struct Files {
    stat: OwnedFd,
    statm: OwnedFd,
    io: Option<OwnedFd>,
}

/// Descriptors of them.
pub(super) const FILES: usize = 3;

/// The folder /proc, or one like it.
pub(super) struct Proc {
    path: PathBuf,
    folder: Option<OwnedFd>,
    loadavg: Option<OwnedFd>,
    name: String,
    text: Vec<u8>,
    list: Vec<u8>,
    tick_us: u64,
    page_bytes: u64,
}

impl Proc {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            folder: None,
            loadavg: None,
            name: String::new(),
            text: Vec::with_capacity(PIECE),
            list: Vec::with_capacity(LIST_BYTES),
            tick_us: 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
            page_bytes: rustix::param::page_size() as u64,
        }
    }

    /// The number that the system gave last, if it tells: while that stays, there is no new process or thread.
    pub(super) fn newest(&mut self) -> Option<u64> {
        self.open()?;
        if self.loadavg.is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            self.loadavg = openat(self.folder.as_ref()?, "loadavg", flags, Mode::empty()).ok();
        }
        let text = read_again(self.loadavg.as_ref()?, &mut self.text)?;
        words(text).nth(4).and_then(number)
    }

    /// The numbers of all processes, ascending.
    pub(super) fn processes(&mut self, numbers: &mut Vec<u32>) -> Option<()> {
        numbers.clear();
        self.open()?;
        let folder = self.folder.as_ref()?;
        seek(folder, SeekFrom::Start(0)).ok()?;
        let mut entries = RawDir::new(folder, self.list.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            let process = number(entry.file_name().to_bytes()).and_then(|number| u32::try_from(number).ok());
            numbers.extend(process);
        }
        // They are in that order already, but in recorded folders.
        numbers.sort_unstable();
        Some(())
    }

    fn open(&mut self) -> Option<()> {
        if self.folder.is_none() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.folder = open(&self.path, flags, Mode::empty()).ok();
        }
        self.folder.as_ref().map(|_| ())
    }

    /// Opens the files of a process, to be read again and again.
    pub(super) fn files(&mut self, process: u32) -> Option<Files> {
        let [stat, statm, io] = ["stat", "statm", "io"].map(|file| self.open_file(process, file));
        Some(Files { stat: stat?, statm: statm?, io })
    }

    pub(super) fn stat(&mut self, process: u32, files: Option<&Files>) -> Option<Stat> {
        let tick_us = self.tick_us;
        let text = match files {
            Some(files) => read_again(&files.stat, &mut self.text)?,
            None => self.read(process, "stat")?,
        };
        stat(text, tick_us)
    }

    /// Resident memory of a process, in bytes. One that has ended and was not waited for has none.
    pub(super) fn memory_bytes(&mut self, process: u32, files: Option<&Files>) -> Option<u64> {
        let page_bytes = self.page_bytes;
        let text = match files {
            Some(files) => read_again(&files.statm, &mut self.text)?,
            None => self.read(process, "statm")?,
        };
        words(text).nth(1).and_then(number)?.checked_mul(page_bytes)
    }

    /// What a process, and those children that it has waited for, have read from disks and written to them, in bytes.
    pub(super) fn io_bytes(&mut self, process: u32, files: Option<&Files>) -> Option<u64> {
        let text = match files {
            Some(files) => read_again(files.io.as_ref()?, &mut self.text)?,
            None => self.read(process, "io")?,
        };
        let of = |key| lines(text).find_map(|line| value(line, key));
        of("read_bytes")?.checked_add(of("write_bytes")?)
    }

    /// The mark that a unit's program gives to all its descendants, if the process has one and we may see it.
    pub(super) fn mark(&mut self, process: u32) -> Option<&[u8]> {
        let mut entries = self.read(process, "environ")?.split(|byte| *byte == 0);
        entries.find_map(|entry| entry.strip_prefix(UNIT_VARIABLE.as_bytes())?.strip_prefix(b"="))
    }

    /// CPU time of a thread since its start, in microseconds. Some systems count in nothing finer than ticks.
    pub(super) fn thread_cpu_us(&mut self, thread: u32) -> Option<u64> {
        self.open()?;
        let file = format!("task/{thread}/schedstat");
        let exact_ns = self.read(thread, &file).and_then(|text| words(text).next()).and_then(number);
        if let Some(exact_ns) = exact_ns.filter(|ns| *ns > 0) {
            return Some(exact_ns / 1_000);
        }
        let tick_us = self.tick_us;
        own_cpu_us(self.read(thread, &format!("task/{thread}/stat"))?, tick_us)
    }

    fn open_file(&mut self, process: u32, file: &str) -> Option<OwnedFd> {
        self.name.clear();
        write!(self.name, "{process}/{file}").ok()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(self.folder.as_ref()?, self.name.as_str(), flags, Mode::empty()).ok()
    }

    /// Reads a file. The kernel gives the whole text at once where there is room for it.
    fn read(&mut self, process: u32, file: &str) -> Option<&[u8]> {
        let file = self.open_file(process, file)?;
        self.text.clear();
        while self.text.len() < TEXT_BYTES_MAX {
            self.text.reserve(PIECE);
            let room = self.text.capacity() - self.text.len();
            if read(&file, spare_capacity(&mut self.text)).ok()? < room {
                break;
            }
        }
        Some(&self.text)
    }
}

/// Reads a file that is open, from its start.
fn read_again<'a>(file: &OwnedFd, text: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    text.clear();
    text.reserve(PIECE);
    pread(file, spare_capacity(text), 0).ok()?;
    Some(text)
}

/// The columns of a stat file behind the program's name, which may hold anything: the first is the state.
fn columns(text: &[u8]) -> Option<impl Iterator<Item = Option<u64>>> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    Some(words(&text[end + 1..]).map(number))
}

fn stat(text: &[u8], tick_us: u64) -> Option<Stat> {
    let mut columns = columns(text)?.skip(1);
    let mut next = |skipped: usize| columns.nth(skipped)?;
    let [parent, group, session] = [next(0)?, next(0)?, next(0)?].map(u32::try_from);
    let ticks = [next(7)?, next(0)?, next(0)?, next(0)?];
    let start = next(4)?;
    let cpu_us = ticks.into_iter().fold(0, u64::saturating_add).saturating_mul(tick_us);
    Some(Stat { parent: parent.ok()?, group: group.ok()?, session: session.ok()?, cpu_us, start })
}

/// CPU time without that of children.
fn own_cpu_us(text: &[u8], tick_us: u64) -> Option<u64> {
    let mut columns = columns(text)?;
    let (user, system) = (columns.nth(11)??, columns.next()??);
    user.checked_add(system)?.checked_mul(tick_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] =
        b"77 (a) R (b) S 70 71 72 0 -1 4194304 101 0 0 0 1 20 300 4000 20 0 1 0 1650402 3133440 396\n";

    #[test]
    fn a_program_may_have_any_name() {
        let (parent, group, session) = (70, 71, 72);
        let expected = Stat { parent, group, session, cpu_us: 43_210_000, start: 1_650_402 };
        assert_eq!(stat(LINE, 10_000), Some(expected));
        assert_eq!(own_cpu_us(LINE, 10_000), Some(210_000));
    }

    #[test]
    fn a_text_that_ends_too_early_is_no_process() {
        // The last columns are not read.
        let end = LINE.windows(7).position(|part| part == b"1650402").unwrap();
        for cut in 0..=end {
            assert_eq!(stat(&LINE[..cut], 10_000), None, "{cut}");
        }
        let odd = String::from_utf8_lossy(LINE).replace(" 70 ", " -1 ");
        assert_eq!(stat(odd.as_bytes(), 10_000), None);
    }
}
