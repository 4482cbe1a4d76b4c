//! The checkpoint: the farm's state as bytes, in sled. All that is written for sled is in this file; what the
//! bytes mean is not, nor the process that does the saving.
//!
//! The journal alone has everything, so a checkpoint may always be lost: it only shortens the replay. Whatever
//! is wrong with it, it is set aside in words and made anew, never believed in part.
//!
//! | path | what |
//! | --- | --- |
//! | `N/` | a whole checkpoint: a sled database that was written once, fsynced, and is never written again |
//! | `new/` | one that is being written; renamed when it is on the disk |
//! | `reading/` | a copy that is being read: sled writes to whatever it opens |
//!
//! A database that is written again and again does not stand a power cut in the midst of it: with 5 MiB of state
//! and the power cut at any moment, every tenth came up empty or in a panic. A new one each time stands it.
//!
//! | key | value |
//! | --- | --- |
//! | index u32, big endian | a chunk of the state |
//! | `head` | format version u8, sequence u64, length u64, big endian, BLAKE3 over these and the state's BLAKE3 |

use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use starfarm_net::{close as close_to_others, private_folder};
use starfarm_protocol::ids::ContentHash;

use crate::error::SchedulerError;
use crate::guard;
use crate::store::disk::{damaged_name, if_there, numbers, sync_folder};
use crate::store::keeper::{self, Trouble};

/// Bytes of a state in one value. What sled writes at once may be a whole leaf of up to 16 values, a few more
/// while leaves merge, and what is over a quarter of a segment (512 KiB) goes to a file of its own that sled
/// never fsyncs.
const CHUNK_BYTES: usize = 4 << 10;
const _: () = assert!(24 * (CHUNK_BYTES + 64) < (512 << 10) / 4, "a leaf stays in the log");
/// Memory for sled's cache, bytes, while one is written or read; its own default is 1 GiB.
const CACHE_BYTES: u64 = 16 << 20;
/// How often, 10 ms apart, it is tried whether an earlier use has ended.
const LOCK_TRIES: u32 = 1_000;
const FORMAT_VERSION: u8 = 1;
const HEAD_KEY: &[u8] = b"head";
const HEAD_BYTES: usize = 1 + 2 * 8 + 32;

/// A state and the sequence of the last record in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Saved {
    pub(crate) sequence: u64,
    pub(crate) state: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) checkpoint: Checkpoint,
    /// `None`: replay the journal from its beginning.
    pub(crate) saved: Option<Saved>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Checkpoint {
    dir: PathBuf,
    /// Number of the last one that was here.
    number: u64,
    /// Save by a process of its own: see [`keep_if_asked`](crate::keep_if_asked).
    pub(crate) process: bool,
}

impl Checkpoint {
    /// Opens the place `dir`, or makes it, and reads the newest state. A state whose sequence is below `retired`
    /// is of no use: the journal no longer has what follows it record by record.
    pub(crate) fn open(dir: &Path, retired: u64) -> Result<Opened, SchedulerError> {
        let mut notes = Vec::new();
        if dir.symlink_metadata().is_ok() && !dir.is_dir() {
            notes.push(set_aside(dir, dir, "it is no directory")?);
        }
        let found = prepare(dir).map_err(|e| cannot_keep(dir, &e.to_string()))?;
        let number = found.first().copied().unwrap_or(0);
        let checkpoint = Self { dir: dir.to_owned(), number, process: false };
        for &number in &found {
            let path = dir.join(number.to_string());
            match guard::guarded(|| load(&path, &dir.join("reading"), retired)) {
                Ok(saved) => {
                    checkpoint.remove_before(number);
                    return Ok(Opened { checkpoint, saved: Some(saved), notes });
                }
                Err(Trouble { words, passing: true }) => return Err(cannot_keep(dir, &words)),
                Err(Trouble { words, .. }) => {
                    let _ = remove(&dir.join("reading"));
                    notes.push(set_aside(dir, &path, &words)?);
                }
            }
        }
        if notes.is_empty() && retired > 0 {
            notes.push(format!(
                "there is no checkpoint in {}: the state is rebuilt from the journal",
                dir.display()
            ));
        }
        Ok(Opened { checkpoint, saved: None, notes })
    }

    /// Sets aside what was read, for a reason that the caller found, and opens again.
    pub(crate) fn discard(self, why: &str) -> Result<Opened, SchedulerError> {
        let note = set_aside(&self.dir, &self.dir.join(self.number.to_string()), why)?;
        let mut opened = Self::open(&self.dir, 0)?;
        opened.notes.insert(0, note);
        Ok(opened)
    }

    /// Saves `state`, which holds all records up to `sequence`. When this returns it is on the disk, or, after an error,
    /// what was saved before still is.
    pub(crate) fn save(&mut self, sequence: u64, state: &[u8]) -> Result<(), Trouble> {
        let (dir, new) = (&self.dir, self.dir.join("new"));
        let written: Result<(), Trouble> = guard::guarded(|| {
            if self.process {
                keeper::by_process(keeper::SAVE, sequence, &new, None, state)?;
            } else {
                write(&new, sequence, state)?;
            }
            fs::rename(&new, dir.join((self.number + 1).to_string()))?;
            Ok(File::open(dir)?.sync_all()?)
        });
        if let Err(trouble) = written {
            let _ = fs::remove_dir_all(&new);
            let (dir, why) = (dir.display(), first_line(&trouble.words));
            return Err(Trouble {
                words: format!("the checkpoint in {dir} cannot be saved: {why}"),
                ..trouble
            });
        }
        self.number += 1;
        self.remove_before(self.number);
        Ok(())
    }

    /// Older ones are of no use. One that cannot be removed now is found again.
    fn remove_before(&self, number: u64) {
        for old in numbers(&self.dir, "").unwrap_or_default().into_iter().filter(|&old| old < number) {
            let _ = fs::remove_dir_all(self.dir.join(old.to_string()));
        }
    }
}

/// Makes the directory, drops what an earlier use left half done, and says which checkpoints are there, newest
/// first.
fn prepare(dir: &Path) -> io::Result<Vec<u64>> {
    if !dir.is_dir() {
        private_folder(dir)?;
        sync_folder(dir)?;
    }
    for name in ["new", "reading"] {
        remove(&dir.join(name))?;
    }
    Ok(numbers(dir, "")?.into_iter().rev().collect())
}

fn remove(dir: &Path) -> io::Result<()> {
    if_there(fs::remove_dir_all(dir)).map(drop)
}

/// Opens a database. Its drop may write and may panic, which must not happen while a panic is under way: so
/// it is only dropped where all went well.
fn open_sled(dir: &Path) -> Result<ManuallyDrop<sled::Db>, Trouble> {
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    Ok(ManuallyDrop::new(config.use_compression(false).open()?))
}

/// Closes a database. sled's threads hold its files a moment longer than the value lives.
fn close(db: ManuallyDrop<sled::Db>, dir: &Path) -> Result<(), Trouble> {
    drop(ManuallyDrop::into_inner(db));
    let file = File::open(dir.join("db"))?;
    for _ in 0..LOCK_TRIES {
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err("sled does not let go of it".into())
}

/// Writes a database that holds `state` in the new directory `dir`, durably; a panic of sled is an error.
pub(crate) fn write_guarded(dir: &Path, sequence: u64, state: &[u8]) -> Result<(), Trouble> {
    guard::guarded(|| write(dir, sequence, state))
}

fn write(dir: &Path, sequence: u64, state: &[u8]) -> Result<(), Trouble> {
    remove(dir)?;
    let db = open_sled(dir)?;
    for (index, chunk) in (0_u32..).zip(state.chunks(CHUNK_BYTES)) {
        db.insert(index.to_be_bytes(), chunk)?;
    }
    db.insert(HEAD_KEY, &head(sequence, state)[..])?;
    db.flush()?;
    close(db, dir)?;
    // sled's flush asks the system to write, but not so that it survives a power cut each time.
    close_to_others(dir)?;
    for name in file_names(dir)? {
        let path = dir.join(name);
        close_to_others(&path)?;
        File::open(path)?.sync_all()?;
    }
    Ok(File::open(dir)?.sync_all()?)
}

/// Reads the state in directory `dir` by way of a copy.
fn load(dir: &Path, copy: &Path, retired: u64) -> Result<Saved, Trouble> {
    remove(copy)?;
    private_folder(copy)?;
    let names = file_names(dir)?;
    if ["conf", "db"].iter().any(|name| !names.contains(&(*name).to_owned())) {
        return Err("a file of it is missing".into());
    }
    for name in names.iter().filter(|name| dir.join(name).is_file()) {
        fs::copy(dir.join(name), copy.join(name))?;
    }
    let most = fs::metadata(dir.join("db"))?.len();
    let db = open_sled(copy)?;
    let saved = read(&db, most, retired)?;
    close(db, copy)?;
    remove(copy)?;
    Ok(saved)
}

/// Reads the state; it has at most `most` bytes.
fn read(db: &sled::Db, most: u64, retired: u64) -> Result<Saved, Trouble> {
    let Some(head) = db.get(HEAD_KEY)? else { return Err("it holds no state".into()) };
    if head.len() != HEAD_BYTES {
        return Err("its head has a wrong length".into());
    }
    if head[0] != FORMAT_VERSION {
        return Err(format!("it has format version {}", head[0]).as_str().into());
    }
    let number = |at: usize| head[at..at + 8].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let (sequence, length) = (number(1), number(9));
    // The head is not believed before its digest is: no room is taken on its word.
    let mut state = Vec::with_capacity(length.min(most) as usize);
    for index in 0..length.div_ceil(CHUNK_BYTES as u64) {
        let chunk = db.get((index as u32).to_be_bytes())?.ok_or("a piece of the state is missing")?;
        state.extend_from_slice(&chunk);
    }
    if head[..] != self::head(sequence, &state) {
        return Err("the state does not fit its digest".into());
    }
    if sequence < retired {
        let words = format!("it ends at record {sequence}, the journal begins after {retired}");
        return Err(words.as_str().into());
    }
    Ok(Saved { sequence, state })
}

fn head(sequence: u64, state: &[u8]) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[0] = FORMAT_VERSION;
    bytes[1..9].copy_from_slice(&sequence.to_be_bytes());
    bytes[9..17].copy_from_slice(&(state.len() as u64).to_be_bytes());
    // The state may be large: its hash is hashed, not a copy of it.
    bytes[17..].copy_from_slice(&ContentHash::of(state).0);
    let digest = ContentHash::of(&bytes);
    bytes[17..].copy_from_slice(&digest.0);
    bytes
}

fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn cannot_keep(dir: &Path, why: &str) -> SchedulerError {
    let (dir, why) = (dir.display(), first_line(why));
    SchedulerError::State(format!(
        "no checkpoint can be kept in {dir}: {why}; see that the disk has room and the directory may be written"
    ))
}

/// Renames `path`, a checkpoint in `dir`, to `DIR.damaged-N`; says so.
fn set_aside(dir: &Path, path: &Path, why: &str) -> Result<String, SchedulerError> {
    let aside = damaged_name(dir);
    let moved = fs::rename(path, &aside).and_then(|()| sync_folder(dir));
    let (why, path) = (first_line(why), path.display());
    match moved {
        Ok(()) => Ok(format!(
            "the checkpoint {path} could not be used: {why}; it is set aside as {} and may be deleted; the state \
             is rebuilt from the journal",
            aside.display()
        )),
        Err(e) => Err(SchedulerError::State(format!(
            "the checkpoint {path} cannot be used ({why}) and not be moved away: {e}; delete it"
        ))),
    }
}

fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
