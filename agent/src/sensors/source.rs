//! Files that are read again and again: they stay open, and their text has one buffer. Files of single processes, which come
//! and go, are read in `units`.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::pread;

/// Room for the next piece of a text, in bytes: the kernel gives most of these files a page at a time.
const PIECE: usize = 4_096;
/// The kernel ends a piece before a line that does not fit any more, and no line of these files is as long: so behind a shorter piece
/// there is nothing. Where a line is, as in /proc/stat of a machine with many processors, all comes as one piece.
const LINE_BYTES_MAX: usize = 1_024;
/// A longer text is none of these files.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// A file that is read again and again.
pub(super) struct Source {
    path: PathBuf,
    file: Option<OwnedFd>,
    text: Vec<u8>,
}

impl Source {
    /// The file of this name below a folder.
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self::at(folder.join(name))
    }

    /// The file at this path. It may come later.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, file: None, text: Vec::new() }
    }

    /// Its whole text at this moment, if it can be read.
    pub(super) fn read(&mut self) -> Option<&[u8]> {
        if self.file.is_none() {
            self.file = open_plain(&self.path);
        }
        if read_whole(self.file.as_ref()?, &mut self.text).is_none() {
            // Another one may be there next time.
            self.file = None;
            return None;
        }
        Some(&self.text)
    }
}

/// Opens a file if it is a plain one: to open anything else may wait, or do something.
fn open_plain(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then_some(file)
}

/// Reads a file from its start to its end. None where that fails, or there is nothing.
fn read_whole(file: &OwnedFd, text: &mut Vec<u8>) -> Option<()> {
    text.clear();
    loop {
        text.reserve(PIECE);
        let at = text.len() as u64;
        match pread(file, spare_capacity(text), at) {
            Ok(0) => return (!text.is_empty()).then_some(()),
            Ok(_) if text.len() <= PIECE - LINE_BYTES_MAX => return Some(()),
            Ok(_) if text.len() <= TEXT_BYTES_MAX => {}
            _ => return None,
        }
    }
}
