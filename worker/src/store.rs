//! Files that jobs bring along, on the worker's disk by what is in them: each is fetched once, whatever slots, tasks and
//! jobs want it, and stays while there is room. A unit gets a hard link of its own, so that what is thrown away here is
//! thrown away under nobody. A program that writes to an input all the same spoils it for nobody else: that is seen, and
//! the file is fetched again.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::{INPUT_PART_BYTES, Input};

use crate::bulk::FetchError;
use starfarm_exec::CancelFlag;

#[cfg(test)]
mod tests;

/// How often who waits for another's fetch looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// A unit starts with at least so many bytes free on the disk, or with a share of a small disk.
const ROOM_BYTES: u64 = 64 << 20;
const ROOM_SHARE: u64 = 16;

/// A disk is full with less than this left, or than a share of a small one.
const FULL_BYTES: u64 = 4 << 20;
const FULL_SHARE: u64 = 64;

/// A disk is tight with less than this left.
const TIGHT_BYTES: u64 = 1 << 30;

/// Fetches a part by its hash.
pub(crate) type Fetch<'a> = &'a dyn Fn(ContentHash) -> Result<Vec<u8>, FetchError>;

#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    bytes_max: u64,
    disk: Disk,
    files: Mutex<Files>,
    changed: Condvar,
}

/// Bytes that are free on the disk of a directory, and all that it has.
pub(crate) type Disk = fn(&Path) -> io::Result<(u64, u64)>;

pub(crate) fn disk(dir: &Path) -> io::Result<(u64, u64)> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok((disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize)))
}

#[derive(Debug, Default)]
struct Files {
    by_name: HashMap<String, Kept>,
    /// Their names, by when they were asked for last.
    by_age: BTreeMap<u64, String>,
    bytes: u64,
    asked: u64,
}

impl Files {
    /// A file in this state from now on, as the one that was asked for last.
    fn put(&mut self, name: &str, bytes: u64, state: State) {
        self.remove(name);
        self.asked += 1;
        self.by_age.insert(self.asked, name.to_owned());
        self.by_name.insert(name.to_owned(), Kept { bytes, state, asked: self.asked });
        self.bytes += bytes;
    }

    fn remove(&mut self, name: &str) {
        if let Some(kept) = self.by_name.remove(name) {
            self.by_age.remove(&kept.asked);
            self.bytes -= kept.bytes;
        }
    }

    /// The state of a file, which is asked for now.
    fn ask(&mut self, name: &str) -> Option<State> {
        let kept = self.by_name.get_mut(name)?;
        self.asked += 1;
        let before = std::mem::replace(&mut kept.asked, self.asked);
        let name = self.by_age.remove(&before).expect("each file has its place");
        self.by_age.insert(self.asked, name);
        Some(kept.state)
    }
}

#[derive(Debug)]
struct Kept {
    bytes: u64,
    state: State,
    /// When it was asked for last, by a count of all that was.
    asked: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Of an earlier start: nobody has looked at it since.
    Unread,
    /// The beginning of one that was not wanted any more before it was whole.
    Part,
    /// Somebody fetches it, or looks at it.
    Taken,
    /// It is what its name says, as of this look at it.
    Whole(Seen),
}

/// What changes where a file is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    bytes: u64,
    written: (i64, i64),
    mode: u32,
}

impl Seen {
    fn of(file: &Metadata) -> Self {
        Self { bytes: file.len(), written: (file.mtime(), file.mtime_nsec()), mode: file.mode() }
    }
}

impl Store {
    /// The store in the directory `dir`, which is made if need be. What is there from before is kept, up to `bytes_max`
    /// bytes of all.
    pub(crate) fn open(dir: &Path, bytes_max: u64) -> io::Result<Self> {
        starfarm_net::private_folder(dir)?;
        let mut files = Files::default();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (there, name) = (entry.metadata()?, entry.file_name());
            let Some(name) = name.to_str().filter(|_| there.is_file()) else { continue };
            match name.strip_suffix(PART) {
                Some(name) => files.put(name, there.len(), State::Part),
                None => files.put(name, there.len(), State::Unread),
            }
        }
        let store =
            Self { dir: dir.to_owned(), bytes_max, disk, files: Mutex::new(files), changed: Condvar::new() };
        let mut files = store.lock();
        while files.bytes > bytes_max && store.drop_oldest(&mut files, |_, _| true) {}
        drop(files);
        Ok(store)
    }

    #[cfg(test)]
    pub(crate) fn on(self, disk: Disk) -> Self {
        Self { disk, ..self }
    }

    /// A unit is to start, and to write: where the disk is nearly full, inputs that no unit has a link of are thrown away.
    ///
    /// # Errors
    /// That is not enough; in words for a person.
    pub(crate) fn leave_room(&self) -> Result<(), FetchError> {
        let dir = self.dir.display();
        let unknown = |e| FetchError::Refused(format!("the disk of {dir} tells of no room: {e}"));
        let (free, all) = (self.disk)(&self.dir).map_err(unknown)?;
        let wanted = ROOM_BYTES.min(all / ROOM_SHARE);
        if free >= wanted {
            return Ok(());
        }
        match self.make_free(&mut self.lock(), wanted).map_err(unknown)? {
            free if free < wanted => Err(FetchError::NoRoom(format!(
                "the disk of {dir} has {} MiB left on this node, too little to start a program: make room",
                free >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// A program that fails now may have failed of that.
    pub(crate) fn is_full(&self) -> bool {
        (self.disk)(&self.dir).is_ok_and(|(free, all)| free < FULL_BYTES.min(all / FULL_SHARE))
    }

    /// It may have been full a moment ago, with what others had there.
    pub(crate) fn is_tight(&self) -> bool {
        (self.disk)(&self.dir).is_ok_and(|(free, _)| free < TIGHT_BYTES)
    }

    /// A unit found the disk full: all inputs that no unit has a link of are thrown away. False where there were none.
    pub(crate) fn give_way(&self) -> bool {
        let mut files = self.lock();
        let mut has_given = false;
        while self.drop_oldest(&mut files, |name, state| self.has_no_links(name, state)) {
            has_given = true;
        }
        has_given
    }

    /// Throws away inputs that no unit has a link of, from the oldest on, until so many bytes are free on the disk: none where
    /// all of them would not do. Says how many are.
    fn make_free(&self, files: &mut Files, bytes: u64) -> io::Result<u64> {
        let (mut free, _) = (self.disk)(&self.dir)?;
        if free >= bytes {
            return Ok(free);
        }
        let mut may_go = Vec::new();
        let mut could_be = free;
        for name in files.by_age.values() {
            let kept = &files.by_name[name];
            if kept.state != State::Taken && self.has_no_links(name, kept.state) {
                may_go.push(name.clone());
                could_be = could_be.saturating_add(kept.bytes);
            }
            if could_be >= bytes {
                break;
            }
        }
        // What lies on the disk is no less than the files are long, but for holes.
        let mut may_go = may_go.into_iter().filter(|_| could_be >= bytes);
        while free < bytes
            && let Some(name) = may_go.next()
        {
            self.throw_away(files, &name);
            (free, _) = (self.disk)(&self.dir)?;
        }
        Ok(free)
    }

    fn has_no_links(&self, name: &str, state: State) -> bool {
        fs::symlink_metadata(self.path(name, state)).is_ok_and(|there| there.nlink() == 1)
    }

    /// Where the file in this state lies.
    fn path(&self, name: &str, state: State) -> PathBuf {
        if state == State::Part { self.part(name) } else { self.dir.join(name) }
    }

    fn throw_away(&self, files: &mut Files, name: &str) {
        let _ = fs::remove_file(self.path(name, files.by_name[name].state));
        files.remove(name);
    }

    /// Puts a link to an input at `to`.
    pub(crate) fn link(
        &self,
        input: &Input,
        to: &Path,
        fetch: Fetch<'_>,
        cancel: &CancelFlag,
    ) -> Result<(), FetchError> {
        let name = name_of(input);
        loop {
            let mut files = self.lock();
            match files.ask(&name) {
                Some(State::Taken) if cancel.is_raised() => return Err(FetchError::Cancelled),
                Some(State::Taken) => {
                    drop(self.changed.wait_timeout(files, LOOK).expect("a panic ends the process"));
                }
                Some(State::Whole(seen)) => {
                    // Nobody throws it away as long as the lock is held.
                    match self.link_whole(&name, seen, to) {
                        Ok(true) => return Ok(()),
                        Ok(false) => files.remove(&name),
                        Err(e) => return Err(not_kept(input, &e)),
                    }
                }
                Some(State::Unread | State::Part) | None => {
                    let here = files.by_name.get(&name).map_or(0, |kept| kept.bytes);
                    // It does not give way to itself.
                    files.put(&name, here, State::Taken);
                    let took = self.make_room(&mut files, input, here).and_then(|()| {
                        files.put(&name, input.bytes, State::Taken);
                        drop(files);
                        self.take_beside(input, &name, fetch)
                    });
                    self.settle(&name, took)?;
                }
            }
        }
    }

    /// A link of a whole file; false where it is not what it was.
    fn link_whole(&self, name: &str, seen: Seen, to: &Path) -> io::Result<bool> {
        let path = self.dir.join(name);
        match fs::symlink_metadata(&path) {
            Ok(there) if Seen::of(&there) == seen => fs::hard_link(&path, to).map(|()| true),
            Ok(_) => fs::remove_file(&path).map(|()| false),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What came of a fetch.
    fn settle(&self, name: &str, took: Result<Seen, FetchError>) -> Result<(), FetchError> {
        let mut files = self.lock();
        let settled = match took {
            Ok(seen) => {
                files.by_name.entry(name.to_owned()).and_modify(|kept| kept.state = State::Whole(seen));
                Ok(())
            }
            Err(error) => {
                match fs::metadata(self.part(name)) {
                    Ok(part) => files.put(name, part.len(), State::Part),
                    Err(_) => files.remove(name),
                }
                Err(error)
            }
        };
        self.changed.notify_all();
        settled
    }

    /// As [`Store::take`]; where the disk is full before the store is, others give way, and a file that cannot be kept leaves
    /// nothing behind.
    fn take_beside(&self, input: &Input, name: &str, fetch: Fetch<'_>) -> Result<Seen, FetchError> {
        loop {
            match self.take(input, name, fetch) {
                Ok(seen) => return Ok(seen),
                Err(NotTaken::Fetch(error)) => return Err(error),
                Err(NotTaken::Disk(e)) => {
                    let error = not_kept(input, &e);
                    let is_full = matches!(error, FetchError::NoRoom(_));
                    if !is_full
                        || !self.drop_oldest(&mut self.lock(), |other, of| self.has_no_links(other, of))
                    {
                        let _ = fs::remove_file(self.part(name));
                        return Err(error);
                    }
                }
            }
        }
    }

    fn part(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{PART}"))
    }

    /// Looks at what is there of an input, fetches what is not, and gives the whole its name.
    fn take(&self, input: &Input, name: &str, fetch: Fetch<'_>) -> Result<Seen, NotTaken> {
        let (whole, part) = (self.dir.join(name), self.part(name));
        if whole.exists() {
            // Of an earlier start: it is looked at like one that did not come to its end.
            fs::rename(&whole, &part)?;
        }
        // A file from before may be one that nobody may write to.
        let writable = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o600));
        writable(&part).or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
        let mut at = 0;
        for hash in &input.parts {
            let bytes = (input.bytes - at).min(INPUT_PART_BYTES as u64);
            if !is_there(&file, at, bytes, hash) {
                let content = fetch(*hash).map_err(NotTaken::Fetch)?;
                if content.len() as u64 != bytes {
                    return Err(NotTaken::Fetch(FetchError::Refused(format!(
                        "a part of the input `{}` has {} bytes, not {bytes}: submit the job again",
                        input.path,
                        content.len()
                    ))));
                }
                file.write_all_at(&content, at)?;
            }
            at += bytes;
        }
        file.set_len(input.bytes)?;
        file.set_permissions(Permissions::from_mode(if input.executable { 0o555 } else { 0o444 }))?;
        fs::rename(&part, &whole)?;
        Ok(Seen::of(&file.metadata()?))
    }

    /// Throws away what was not asked for the longest, until there is room for the rest of an input of which so many bytes are
    /// `here`; in the store that is as far as there is anything else.
    ///
    /// # Errors
    /// The disk has none: it is not fetched in vain.
    fn make_room(&self, files: &mut Files, input: &Input, here: u64) -> Result<(), FetchError> {
        let missing = input.bytes.saturating_sub(here);
        while files.bytes.saturating_add(missing) > self.bytes_max && self.drop_oldest(files, |_, _| true) {}
        if self.make_free(files, missing).is_ok_and(|free| free < missing) {
            let is_too_large = (self.disk)(&self.dir).is_ok_and(|(_, all)| all < input.bytes);
            return Err(match not_kept(input, &ErrorKind::StorageFull.into()) {
                FetchError::NoRoom(why) if is_too_large => FetchError::TooLarge(why),
                error => error,
            });
        }
        Ok(())
    }

    /// Throws away what was not asked for the longest, of the files that `may` go; false where none is left.
    fn drop_oldest(&self, files: &mut Files, may: impl Fn(&str, State) -> bool) -> bool {
        let may = |name: &&String| {
            let state = files.by_name[*name].state;
            state != State::Taken && may(name, state)
        };
        let Some(oldest) = files.by_age.values().find(may).cloned() else { return false };
        self.throw_away(files, &oldest);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().expect("a panic ends the process")
    }
}

/// Why an input is not kept.
enum NotTaken {
    /// The disk's.
    Disk(io::Error),
    Fetch(FetchError),
}

impl From<io::Error> for NotTaken {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// What the file of an unfinished fetch is called, behind its name.
const PART: &str = ".part";

/// Equal files have one name; one that may be executed has another, since links share their modes.
fn name_of(input: &Input) -> String {
    let hashes: Vec<u8> = input.parts.iter().flat_map(|hash| hash.0).collect();
    let mode = if input.executable { "x" } else { "r" };
    format!("{}-{mode}", ContentHash::of(&hashes))
}

/// A part is in the file already.
fn is_there(file: &File, at: u64, bytes: u64, hash: &ContentHash) -> bool {
    let mut part = vec![0; bytes as usize];
    file.read_exact_at(&mut part, at).is_ok() && ContentHash::of(&part) == *hash
}

fn not_kept(input: &Input, e: &io::Error) -> FetchError {
    let why = format!("the input `{}` of {} bytes cannot be kept on this node: {e}", input.path, input.bytes);
    FetchError::of_disk(e, why)
}
