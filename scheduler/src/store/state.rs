//! The state directory: who the farm is, its epoch and its keys. One scheduler at a time holds its lock.
//! Every file is replaced as a whole: written beside, fsynced, renamed, and the directory fsynced.
//!
//! | file | what |
//! | --- | --- |
//! | `lock` | held by flock while a scheduler runs |
//! | `farm.json` | farm id, epoch, wall time of the last start |
//! | `journal/`, `ledger/` | every durable change: see `journal` |
//! | `checkpoint/` | sled: the state up to some record |
//! | `outputs/`, `blobs` | what commands wrote; contents by their hash |
//! | `ballast` | room that is given back when the disk is full |
//! | `scheduler.key` | our private key |
//! | `keys.json`, `enrolments` | enrolled keys and join keys; who enrolled since that was written, appended |
//! | `monitor.toml` | the stages that all back ends have beside their own, if somebody has loaded some |
//! | `worker.join`, `admin.join` | what a person copies to another machine |
//! | `admin.sock` | where local admin commands come in |

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use starfarm_net::{close, closed, nobody_elses, state_folder, unchanged_by_others};
use starfarm_protocol::ids::{Epoch, FarmId, PublicKey};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{JoinKey, KeyStore, Role, Secret, StaticKey};

use crate::descriptors::wait_for;
use crate::error::SchedulerError;
use crate::store::disk::{self, FileId, if_there};

/// Version of `farm.json`. In version 1 no job outlived its scheduler, 2 had no checksum.
const FORMAT_VERSION: u32 = 3;
/// The first version with a checksum.
const WITH_CHECKSUM: u32 = 3;
/// The first version that is read.
const OLDEST_VERSION: u32 = 2;

/// What in the directory is ours. Some of it holds secrets, or what users' programs wrote.
const PRIVATE: [&str; 15] = [
    "lock",
    "farm.json",
    "ballast",
    "scheduler.key",
    "keys.json",
    "enrolments",
    "monitor.toml",
    "worker.join",
    "admin.join",
    "journal",
    "ledger",
    "checkpoint",
    "outputs",
    "blobs",
    "log",
];

/// Who the farm is, as `farm.json` has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FarmFile {
    version: u32,
    #[serde(rename = "farm")]
    pub(crate) id: FarmId,
    /// The epoch: this start's once [`StateDir::raise_epoch`] has put it on disk.
    pub(crate) epoch: Epoch,
    started_unix: u64,
    /// A later epoch that workers told of: this directory is an old copy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) superseded: Option<Epoch>,
    /// CRC32C of the rest, as JSON without blanks.
    #[serde(default)]
    checksum: u32,
}

impl FarmFile {
    fn sum(&self) -> u32 {
        let rest = (self.version, self.id, self.epoch, self.started_unix, self.superseded);
        crc32c::crc32c(&serde_json::to_vec(&rest).expect("plain values are always JSON"))
    }
}

pub(crate) struct StateDir {
    path: PathBuf,
    /// Closing it lets go of the lock.
    lock: File,
    pub(crate) farm: FarmFile,
    pub(crate) key: StaticKey,
    /// The file `enrolments`, open for more; `None` before the keys were written.
    enrolments: Mutex<Option<File>>,
    /// What a person should know about this start.
    pub(crate) notes: Vec<String>,
}

impl StateDir {
    /// Opens or makes the directory and takes its lock.
    pub(crate) fn open(path: &Path) -> Result<(Self, KeyStore), SchedulerError> {
        let fail = |what: &str, e: std::io::Error| SchedulerError::State(format!("{what}: {e}"));
        state_folder(path).map_err(|e| fail(&format!("cannot use {}", path.display()), e))?;
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(path.join("lock"));
        let lock = lock.map_err(|e| fail(&format!("cannot open the lock in {}", path.display()), e))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(SchedulerError::State(format!(
                "another scheduler runs with --state {}: stop it, or give this one a directory of its own",
                path.display()
            )));
        }
        let mut notes = close_all(path)?;
        let farm = load_farm(path, &mut notes)?;
        // Of a farm that was never started nobody has a key yet. Any other one has lost what is not there.
        let new = farm.epoch == Epoch(0) && !path.join("journal").exists();
        let key = load_key(path, new)?;
        let mut keys = load_keys(path, new, &mut notes)?;
        check_owner(path, (farm.id, key.public()), keys.owner())?;
        keys.belong_to(farm.id, key.public());
        let path = fs::canonicalize(path).map_err(|e| fail("cannot resolve the directory", e))?;
        let enrolments = Mutex::new(None);
        let state = Self { path, lock, farm, key, enrolments, notes };
        if new {
            state.save_keys(&keys)?;
        }
        Ok((state, keys))
    }

    /// Where it is, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still there, and not another one in its place.
    pub(crate) fn is_there(&self) -> bool {
        match (self.lock.metadata(), fs::metadata(self.file("lock"))) {
            (Ok(ours), Ok(there)) => FileId::of(&ours) == FileId::of(&there),
            (_, Err(e)) => e.kind() != std::io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Notes the epoch that the journal was raised to. Whoever does so must be about to listen: a start that
    /// fails before is none.
    pub(crate) fn raise_epoch(&mut self, epoch: Epoch) -> Result<(), SchedulerError> {
        self.farm = FarmFile { epoch, started_unix: unix_now(), superseded: None, ..self.farm };
        save(&self.path, &self.farm)
    }

    /// Notes durably that a later epoch exists: this directory is not started again by mistake.
    pub(crate) fn supersede(&self, later: Epoch) -> Result<(), SchedulerError> {
        save(&self.path, &FarmFile { superseded: Some(later), ..self.farm })
    }

    pub(crate) fn save_keys(&self, keys: &KeyStore) -> Result<(), SchedulerError> {
        replace(&self.file("keys.json"), keys.to_json().as_bytes())?;
        let path = self.file("enrolments");
        replace(&path, keys.enrolments_head().as_bytes())?;
        let file = wait_for(|| OpenOptions::new().append(true).open(&path));
        let file = file.map_err(|e| cannot_write(&path, &e))?;
        *self.enrolments.lock().expect("a panic under the lock ends the process") = Some(file);
        Ok(())
    }

    /// Notes durably that these were enrolled in `keys`. It costs a line each and one sync: a farm of thousands
    /// joins within a minute.
    pub(crate) fn save_enrolled(
        &self,
        keys: &KeyStore,
        enrolled: &[PublicKey],
    ) -> Result<(), SchedulerError> {
        let lines: String = enrolled.iter().map(|key| keys.enrolment(key)).collect();
        let mut file = self.enrolments.lock().expect("a panic under the lock ends the process");
        let file = file.as_mut().expect("the keys are written before anybody can enrol");
        let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
        written.map_err(|e| cannot_write(&self.file("enrolments"), &e))
    }

    /// Makes sure that there are join keys for workers and admins, and writes their join files.
    pub(crate) fn write_join_files(
        &self,
        keys: &mut KeyStore,
        addresses: &[String],
    ) -> Result<(), SchedulerError> {
        for (role, name) in [(Role::Worker, "worker.join"), (Role::Admin, "admin.join")] {
            // The key of the file that is there stays, so that copies of it go on working.
            // One that was swapped with another would make a worker of an admin, or the other way round.
            let kept = join_file(&self.path, name).filter(|join| {
                let fits = |key: &JoinKey| !key.revoked && key.role == role;
                join.farm == self.farm.id && keys.join_key(&join.join_key()).is_some_and(fits)
            });
            let secret = match kept {
                Some(join) => join.join_secret.clone(),
                None => new_secret()?,
            };
            keys.add_join_key(secret.clone(), role);
            replace(&self.file(name), self.join_text(secret, role, addresses).as_bytes())?;
        }
        self.save_keys(keys)
    }

    pub(crate) fn join_text(&self, secret: Secret, role: Role, addresses: &[String]) -> String {
        let join = JoinFile::new(self.farm.id, addresses.to_vec(), self.key.public(), secret, role);
        join.to_text().as_str().to_owned()
    }
}

pub(crate) fn new_secret() -> Result<Secret, SchedulerError> {
    random().map(Secret)
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], SchedulerError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| SchedulerError::State(format!("the system gives no random numbers: {e}")))?;
    Ok(bytes)
}

/// Closes what only the owner may read, where a copy that came back or an older release left it open. What was open is
/// told of the keys: somebody may have them.
fn close_all(dir: &Path) -> Result<Vec<String>, SchedulerError> {
    let mut notes = Vec::new();
    let fail = |e: std::io::Error| SchedulerError::State(e.to_string());
    let there = PRIVATE.map(|name| dir.join(name));
    // Before anything is closed: a start that is refused leaves all as it was.
    for folder in there.iter().filter(|path| path.is_dir()) {
        nobody_elses(folder, true).map_err(fail)?;
        // A folder somewhere else may be there for others as well.
        if folder.is_symlink() {
            closed(folder).map_err(fail)?;
        }
    }
    // Also where the link of a file leads that a person made: what is put there is no less private.
    for path in there {
        let told = if_there(close(&path)).map_err(fail)?.flatten();
        notes.extend(told.filter(|_| path.is_file()));
        let named = |e| SchedulerError::State(format!("{}: {e}", path.display()));
        if_there(unchanged_by_others(&path)).map_err(named)?;
    }
    Ok(notes)
}

/// Seconds since 1970, for people only.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Microseconds since 1970: where the farm's clock starts from.
pub(crate) fn unix_now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The farm as its last start left it, or a new one of epoch 0.
fn load_farm(dir: &Path, notes: &mut Vec<String>) -> Result<FarmFile, SchedulerError> {
    let Some(file) = read_farm(dir)? else { return new_farm(dir) };
    if let Some(behind) = file.started_unix.checked_sub(unix_now()).filter(|&seconds| seconds > 0) {
        notes.push(format!(
            "the clock is {behind} s behind this farm's last start: times shown may be odd, nothing else \
             depends on it; set the clock"
        ));
    }
    Ok(file)
}

/// Which farm lies in `dir`; none where none does. Nothing is written.
pub(crate) fn read_farm(dir: &Path) -> Result<Option<FarmFile>, SchedulerError> {
    let path = dir.join("farm.json");
    let text = if_there(fs::read_to_string(&path)).map_err(|e| {
        SchedulerError::State(format!("cannot read {}: {e}; restore it from a copy", path.display()))
    })?;
    let Some(text) = text else { return Ok(None) };
    let file: FarmFile = serde_json::from_str(&text).map_err(|e| {
        SchedulerError::State(format!(
            "{}: {e}; restore it from a copy, or start a new farm in an empty directory",
            path.display()
        ))
    })?;
    if file.version < OLDEST_VERSION {
        return Err(SchedulerError::State(format!(
            "{} is damaged, or from a version of starfarm that kept no jobs: restore it from a copy, or start a new farm in \
             an empty directory",
            path.display()
        )));
    }
    if file.version > FORMAT_VERSION {
        return Err(SchedulerError::State(format!(
            "{} has format version {}, this scheduler knows {FORMAT_VERSION}: use the newer program",
            path.display(),
            file.version
        )));
    }
    if file.version >= WITH_CHECKSUM && file.checksum != file.sum() {
        return Err(SchedulerError::State(format!(
            "{}: it is damaged, since it does not have the checksum that it says; restore it from a copy, or start a \
             new farm in an empty directory",
            path.display()
        )));
    }
    Ok(Some(file))
}

/// A farm that is made now. Its identity is on the disk before anything else of it.
fn new_farm(dir: &Path) -> Result<FarmFile, SchedulerError> {
    for kept in ["journal", "ledger", "checkpoint", "keys.json", "scheduler.key"] {
        if dir.join(kept).exists() {
            return Err(SchedulerError::State(format!(
                "{}: farm.json is missing, but {kept} is there: restore it from a copy of the directory, or start a \
                 new farm in an empty directory",
                dir.display()
            )));
        }
    }
    let (id, epoch, version) = (FarmId(random()?), Epoch(0), FORMAT_VERSION);
    let file = FarmFile { version, id, epoch, started_unix: 0, superseded: None, checksum: 0 };
    save(dir, &file)?;
    Ok(file)
}

fn save(dir: &Path, file: &FarmFile) -> Result<(), SchedulerError> {
    let mut file = FarmFile { version: FORMAT_VERSION, ..*file };
    file.checksum = file.sum();
    let text = serde_json::to_string_pretty(&file).expect("a plain struct is always JSON");
    replace(&dir.join("farm.json"), text.as_bytes())
}

fn load_key(dir: &Path, new: bool) -> Result<StaticKey, SchedulerError> {
    let path = dir.join("scheduler.key");
    match fs::read_to_string(&path) {
        Ok(text) => StaticKey::from_file(&text).map_err(|e| cannot_use(&path, &e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && new => {
            let key = StaticKey::generate().map_err(|e| SchedulerError::State(e.to_string()))?;
            replace(&path, key.to_file().as_bytes())?;
            Ok(key)
        }
        Err(e) => Err(cannot_use(&path, &e.to_string())),
    }
}

/// The join file of that name, where it is there and can be read.
fn join_file(dir: &Path, name: &str) -> Option<JoinFile> {
    JoinFile::from_text(&fs::read_to_string(dir.join(name)).ok()?).ok()
}

/// The keys are those of this farm and this scheduler. Another private key is one that nobody who has joined believes, and
/// the join files would follow it; where no join file is left, a person wants it so. Of join files that do not fit the
/// rest, new ones are made.
fn check_owner(
    dir: &Path,
    (farm, key): (FarmId, PublicKey),
    of: Option<(FarmId, PublicKey)>,
) -> Result<(), SchedulerError> {
    if let Some((other, _)) = of.filter(|of| of.0 != farm) {
        let why = format!("it is of farm {other}, and farm.json says that this is farm {farm}");
        return Err(cannot_use(&dir.join("keys.json"), &why));
    }
    if of == Some((farm, key)) {
        return Ok(());
    }
    for name in ["worker.join", "admin.join"] {
        let join = join_file(dir, name);
        let names_another = join.is_some_and(|join| join.farm == farm && join.scheduler_key != key);
        if names_another || of.is_some() && dir.join(name).exists() {
            return Err(SchedulerError::State(format!(
                "{} is not the key that {name} names, so no worker would believe this scheduler: restore it from a copy \
                 of the directory. If the farm is to have this key from now on, delete worker.join and admin.join, and \
                 hand out the new ones",
                dir.join("scheduler.key").display()
            )));
        }
    }
    Ok(())
}

/// The keys of a farm. Only one that is new gets a new store: another one in place of what cannot be read would lock
/// everybody out.
fn load_keys(dir: &Path, new: bool, notes: &mut Vec<String>) -> Result<KeyStore, SchedulerError> {
    let read = |name: &str, kept: bool| {
        let path = dir.join(name);
        let text = fs::read_to_string(&path);
        let text = if kept { text.map(Some) } else { if_there(text) };
        text.map_err(|e| cannot_use(&path, &e.to_string()))
    };
    let Some(text) = read("keys.json", !new)? else { return Ok(KeyStore::default()) };
    let mut keys = KeyStore::from_json(&text).map_err(|why| cannot_use(&dir.join("keys.json"), &why))?;
    if let Some(text) = read("enrolments", false)? {
        // Who was revoked stands in keys.json, so nobody comes back who may not.
        let path = dir.join("enrolments");
        let is_whole = keys.enrol_again(&text).map_err(|why| {
            SchedulerError::State(format!(
                "cannot use {}: {why}; restore it from a copy, or delete it: the machines in it enrol again by themselves",
                path.display()
            ))
        })?;
        if !is_whole {
            notes.push(format!(
                "{}: its end is damaged, or was not written whole, and is passed over; machines that enrolled there do so \
                 again by themselves",
                path.display()
            ));
        }
    }
    Ok(keys)
}

fn cannot_use(path: &Path, why: &str) -> SchedulerError {
    SchedulerError::State(format!(
        "cannot use {}: {why}. It says who belongs to the farm, so nothing takes its place: restore it from a copy, or \
         start a new farm in an empty directory",
        path.display()
    ))
}

fn cannot_write(path: &Path, e: &std::io::Error) -> SchedulerError {
    SchedulerError::State(format!("cannot write {}: {e}", path.display()))
}

/// Replaces a file as a whole, readable by its owner only, durably.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SchedulerError> {
    disk::replace(path, bytes).map_err(|e| cannot_write(path, &e))
}

#[cfg(test)]
mod tests;
