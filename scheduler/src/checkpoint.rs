//! The checkpoint: the farm's state as bytes, in sled. All that is written for sled is in this file; what the
//! bytes mean is not.
//!
//! The journal alone has everything, so a checkpoint may always be lost: it only shortens the replay. Whatever
//! is wrong with it, it is set aside in words and made anew, never believed in part.
//!
//! | key | value |
//! | --- | --- |
//! | `s`, generation u64, index u32, all big endian | a chunk of the state |
//! | `head` | format version u8, generation, sequence, length u64, BLAKE3 over these and the state |
//!
//! A save writes the chunks of the next generation beside those of the last, and then the head: sled's log keeps
//! that order, so a head that is found has its chunks. The old generation goes once the new one is on the disk.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use starfarm_protocol::ids::ContentHash;

use crate::error::SchedulerError;

/// Bytes of a state in one value. What sled writes at once may be a whole leaf of up to 16 values, a few more while
/// leaves merge, and what is over a quarter of a segment (512 KiB) goes to a file of its own that sled never fsyncs.
const CHUNK_BYTES: usize = 4 << 10;
const _: () = assert!(24 * (CHUNK_BYTES + 64) < (512 << 10) / 4, "a leaf stays in the log");
/// Memory for sled's cache, bytes; its own default is 1 GiB.
const CACHE_BYTES: u64 = 16 << 20;
/// How often, 10 ms apart, it is tried whether an earlier use has ended.
const LOCK_TRIES: u32 = 1_000;
const FORMAT_VERSION: u8 = 1;
const HEAD_KEY: &[u8] = b"head";
/// Version, generation, sequence, length, BLAKE3.
const HEAD_BYTES: usize = 1 + 3 * 8 + 32;

/// A state and the sequence of the last record in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Saved {
    pub(crate) sequence: u64,
    pub(crate) state: Vec<u8>,
}

/// What opening found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) checkpoint: Checkpoint,
    /// `None`: replay the journal from its beginning.
    pub(crate) saved: Option<Saved>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
}

/// The place where states are saved.
pub(crate) struct Checkpoint {
    dir: PathBuf,
    db: sled::Db,
    /// Of the last whole state; 0: there is none.
    generation: u64,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Opens the checkpoint in directory `dir`, or makes it, and reads the state. A state whose sequence is
    /// below `retired` is of no use: the journal no longer has what follows it record by record.
    ///
    /// # Errors
    /// Not even an empty checkpoint can be made there.
    pub(crate) fn open(dir: &Path, retired: u64) -> Result<Opened, SchedulerError> {
        let mut notes = Vec::new();
        wait_until_free(dir, LOCK_TRIES)?;
        match guarded(|| open_whole(dir, retired)) {
            Ok(found) => {
                let (checkpoint, saved) = found;
                return Ok(Opened { checkpoint, saved, notes });
            }
            Err(why) if dir.symlink_metadata().is_ok() => notes.push(set_aside(dir, &why)?),
            Err(why) => return Err(cannot_keep(dir, &why)),
        }
        let fresh = guarded(|| open_whole(dir, 0)).map_err(|why| cannot_keep(dir, &why))?;
        Ok(Opened { checkpoint: fresh.0, saved: None, notes })
    }

    /// Sets aside what is here, for a reason that the caller found, and begins anew; returns a note.
    pub(crate) fn discard(self, why: &str) -> Result<Opened, SchedulerError> {
        let Self { dir, db, .. } = self;
        // Its drop would flush; what is set aside stays as it is.
        std::mem::forget(db);
        let note = set_aside(&dir, why)?;
        let mut opened = Self::open(&dir, 0)?;
        opened.notes.insert(0, note);
        Ok(opened)
    }

    /// Saves `state`, which holds all records up to `sequence`. When this returns it is on the disk.
    ///
    /// # Errors
    /// The disk does not take it. What was saved before is still there; this value is not to be used again.
    pub(crate) fn save(&mut self, sequence: u64, state: &[u8]) -> Result<(), SchedulerError> {
        let generation = self.generation + 1;
        let written = guarded(|| {
            for (index, chunk) in (0_u32..).zip(state.chunks(CHUNK_BYTES)) {
                self.db.insert(chunk_key(generation, index), chunk)?;
            }
            self.db.insert(HEAD_KEY, &head(generation, sequence, state)[..])?;
            make_durable(&self.db, &self.dir)?;
            // Lost if the power fails now, and then found again at the next start.
            remove_all_but(&self.db, generation)
        });
        written.map_err(|why| {
            SchedulerError::State(format!("the checkpoint in {} cannot be saved: {why}", self.dir.display()))
        })?;
        self.generation = generation;
        Ok(())
    }
}

/// Why sled, or what it holds, cannot be used; becomes words at the rim of this file.
struct Trouble(String);

impl From<sled::Error> for Trouble {
    fn from(error: sled::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// From now on a panic ends the process, in whatever thread, but for those that are expected of sled, which are
/// caught here and come out as words. For programs whose panics unwind: where they abort nothing can be caught.
pub(crate) fn abort_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            before(panic);
            std::process::abort();
        }
    }));
}

/// Runs `work`; sled panics where its files are damaged, and that is an error like others.
fn guarded<T>(work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, String> {
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    match outcome {
        Ok(done) => done.map_err(|Trouble(words)| words),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            Err(words.to_owned())
        }
    }
}

/// sled's threads hold its lock a moment longer than the value lives, which must not look like damage.
fn wait_until_free(dir: &Path, tries: u32) -> Result<(), SchedulerError> {
    let Ok(db) = File::open(dir.join("db")) else { return Ok(()) };
    for _ in 0..tries {
        if rustix::fs::flock(&db, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let dir = dir.display();
    Err(SchedulerError::State(format!("the checkpoint in {dir} is in use: stop the program that uses it")))
}

fn open_whole(dir: &Path, retired: u64) -> Result<(Checkpoint, Option<Saved>), Trouble> {
    let found = file_names(dir)?;
    if !found.is_empty() && ["conf", "db"].iter().any(|name| !found.contains(&(*name).to_owned())) {
        return Err("a file of it is missing".into());
    }
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    let db = config.use_compression(false).open()?;
    match load(&db, dir, retired) {
        Ok((generation, saved)) => {
            remove_all_but(&db, generation)?;
            if found.is_empty() {
                make_durable(&db, dir)?;
            }
            Ok((Checkpoint { dir: dir.to_owned(), db, generation }, saved))
        }
        Err(trouble) => {
            // Its drop would write to what is to be set aside, and may panic where one panic is under way.
            std::mem::forget(db);
            Err(trouble)
        }
    }
}

fn load(db: &sled::Db, dir: &Path, retired: u64) -> Result<(u64, Option<Saved>), Trouble> {
    let Some(head) = db.get(HEAD_KEY)? else {
        return if retired > 0 { Err("it holds no state".into()) } else { Ok((0, None)) };
    };
    if head.len() != HEAD_BYTES {
        return Err("its head has a wrong length".into());
    }
    if head[0] != FORMAT_VERSION {
        return Err(Trouble(format!("it has format version {}", head[0])));
    }
    let number = |at: usize| head[at..at + 8].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let (generation, sequence, length) = (number(1), number(9), number(17));
    // The head is not believed before its digest is: no room is taken on its word.
    let most = fs::metadata(dir.join("db"))?.len();
    let mut state = Vec::with_capacity(length.min(most) as usize);
    for (index, entry) in (0_u32..).zip(db.scan_prefix(generation_key(generation))) {
        let (key, chunk) = entry?;
        if *key != chunk_key(generation, index) {
            return Err("a piece of the state is missing".into());
        }
        state.extend_from_slice(&chunk);
    }
    if head[..] != self::head(generation, sequence, &state) {
        return Err("the state does not fit its digest".into());
    }
    if sequence < retired {
        return Err(Trouble(format!("it ends at record {sequence}, the journal begins after {retired}")));
    }
    Ok((generation, Some(Saved { sequence, state })))
}

fn head(generation: u64, sequence: u64, state: &[u8]) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[0] = FORMAT_VERSION;
    for (at, number) in [(1, generation), (9, sequence), (17, state.len() as u64)] {
        bytes[at..at + 8].copy_from_slice(&number.to_be_bytes());
    }
    // The state may be large: its hash is hashed, not a copy of it.
    let mut digested = bytes;
    digested[25..].copy_from_slice(&ContentHash::of(state).0);
    bytes[25..].copy_from_slice(&ContentHash::of(&digested).0);
    bytes
}

fn generation_key(generation: u64) -> [u8; 9] {
    let mut key = [b's'; 9];
    key[1..].copy_from_slice(&generation.to_be_bytes());
    key
}

fn chunk_key(generation: u64, index: u32) -> [u8; 13] {
    let mut key = [0; 13];
    key[..9].copy_from_slice(&generation_key(generation));
    key[9..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Removes chunks of other generations: older ones, and what a save left that did not come to its end.
fn remove_all_but(db: &sled::Db, generation: u64) -> Result<(), Trouble> {
    for key in db.scan_prefix(b"s").keys() {
        let key = key?;
        if !key.starts_with(&generation_key(generation)) {
            db.remove(key)?;
        }
    }
    Ok(())
}

/// sled's flush hands its log to the system, and asks it to write, but not in a way that survives a power cut
/// each time: the file is fsynced by ourselves.
fn make_durable(db: &sled::Db, dir: &Path) -> Result<(), Trouble> {
    db.flush()?;
    for name in file_names(dir)? {
        let path = dir.join(&name);
        if name == "db" || name == "conf" || name.starts_with("snap.") {
            File::open(path)?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()?;
    Ok(File::open(parent(dir))?.sync_all()?)
}

fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn parent(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_keep(dir: &Path, why: &str) -> SchedulerError {
    let (dir, why) = (dir.display(), first_line(why));
    SchedulerError::State(format!(
        "no checkpoint can be kept in {dir}: {why}; see that the disk has room and the directory may be written"
    ))
}

/// Renames what is at `dir` to `DIR.damaged-N`; says so.
fn set_aside(dir: &Path, why: &str) -> Result<String, SchedulerError> {
    let aside = (1..)
        .map(|number: u64| PathBuf::from(format!("{}.damaged-{number}", dir.display())))
        .find(|path| path.symlink_metadata().is_err())
        .expect("a directory has fewer than 2^64 entries");
    let moved = fs::rename(dir, &aside).and_then(|()| File::open(parent(dir))?.sync_all());
    match moved {
        Ok(()) => Ok(format!(
            "the checkpoint in {} could not be used: {}; it is set aside as {} and may be deleted; the state is \
             rebuilt from the journal",
            dir.display(),
            first_line(why),
            aside.display()
        )),
        Err(e) => Err(SchedulerError::State(format!(
            "the checkpoint in {} cannot be used ({}) and not be moved away: {e}; delete it",
            dir.display(),
            first_line(why)
        ))),
    }
}

fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
