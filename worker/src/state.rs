//! The worker's state directory: its lock and key, and a folder for each farm that it ever joined, with what
//! means nothing to another farm: the spool of unacknowledged results, the newest incarnation of the scheduler
//! that was believed, what was running when the worker died (`board`). So a worker that is given another
//! farm's join file offers it nothing of the old one, and finds all that again if it comes back.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use starfarm_net::{close, nobody_elses, private_folder, say, state_folder};
use starfarm_protocol::ids::{ContentHash, Epoch, FarmId, from_hex, to_hex};
use starfarm_protocol::seal::StaticKey;
use starfarm_worker_core::Known;
use zeroize::Zeroizing;

use crate::WorkerError;

/// An open state directory. The lock lasts as long as the value.
pub(crate) struct State {
    dir: PathBuf,
    /// The farm that this process works for, and its folder.
    of: FarmId,
    farm: PathBuf,
    _lock: File,
}

impl State {
    /// Makes the directory and the farm's folder if need be, private to the user, and locks it.
    pub(crate) fn open(dir: &Path, of: FarmId) -> Result<Self, WorkerError> {
        // Programs are told paths in it, and start in folders of their own.
        let dir = std::path::absolute(dir)
            .map_err(|e| WorkerError::file("cannot find the state directory", dir, &e))?;
        let farm = dir.join(of.to_string());
        state_folder(&dir)
            .and_then(|()| private_folder(&farm))
            .and_then(|()| nobody_elses(&farm, true))
            .map_err(|e| WorkerError::file("cannot use the state directory", &dir, &e))?;
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(|e| WorkerError::file("cannot open", &path, &e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                close(&path).map_err(|e| WorkerError::State(e.to_string()))?;
                Ok(Self { dir, of, farm, _lock: lock })
            }
            Err(Errno::WOULDBLOCK) => Err(WorkerError::State(format!(
                "another worker uses the state directory `{}`: stop it, or give this one its own by --state or --name",
                dir.display()
            ))),
            Err(error) => Err(WorkerError::file("cannot lock", &path, &error.into())),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A file or folder of the present farm.
    pub(crate) fn farm_path(&self, name: &str) -> PathBuf {
        self.farm.join(name)
    }

    pub(crate) fn key(&self) -> Result<StaticKey, WorkerError> {
        let path = self.path("key");
        match std::fs::read(&path).map(Zeroizing::new) {
            Ok(bytes) => {
                let told = close(&path).map_err(|e| WorkerError::State(e.to_string()))?;
                told.iter().for_each(|told| say(told));
                key_of(&bytes).map_err(|why| {
                    WorkerError::State(format!(
                        "the key file `{}` cannot be used: {why}; restore it from a copy, or move it away to come back \
                         as a new node",
                        path.display()
                    ))
                })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = StaticKey::generate().map_err(|e| WorkerError::System(e.to_string()))?;
                self.replace(&path, key.to_file().as_bytes())?;
                Ok(key)
            }
            Err(error) => Err(WorkerError::file("cannot read the key file", &path, &error)),
        }
    }

    /// The results that an earlier incarnation could not deliver, if it left any.
    pub(crate) fn spool(&self) -> Option<Vec<u8>> {
        std::fs::read(self.farm_path("spool")).ok()
    }

    /// Keeps the undelivered results for the next incarnation; without that they are computed again.
    pub(crate) fn write_spool(&self, bytes: &[u8]) -> Result<(), WorkerError> {
        self.replace(&self.farm_path("spool"), bytes)
    }

    /// The newest incarnation of the scheduler that was believed, `Known::NONE` where there was none. The worker can go on
    /// where the file cannot be read.
    pub(crate) fn known(&self) -> Result<Known, String> {
        let path = self.farm_path("epoch");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Known::NONE),
            Err(error) => return Err(WorkerError::file("cannot read", &path, &error).to_string()),
        };
        let read = || {
            let mut parts = text.strip_suffix('\n')?.split(' ');
            let epoch = Epoch(parts.next()?.parse().ok()?);
            let proof = from_hex(parts.next()?)?.try_into().ok()?;
            let known = Known { epoch, proof };
            // A release before wrote no checksum.
            let is_right = parts.next().is_none_or(|sum| sum == self.sum(known));
            (is_right && parts.next().is_none()).then_some(known)
        };
        read().ok_or_else(|| {
            format!(
                "`{}` is damaged, or another farm's: an old copy of the scheduler would not be noticed here until the \
                 next welcome, which writes it anew",
                path.display()
            )
        })
    }

    /// Checksum of what is known of this farm's scheduler.
    fn sum(&self, known: Known) -> String {
        let of = format!("{} {} {}", self.of, known.epoch.0, to_hex(&known.proof));
        to_hex(&ContentHash::of(of.as_bytes()).0[..4])
    }

    pub(crate) fn write_known(&self, known: Known) -> Result<(), WorkerError> {
        let text = format!("{} {} {}\n", known.epoch.0, to_hex(&known.proof), self.sum(known));
        self.replace(&self.farm_path("epoch"), text.as_bytes())
    }

    /// Writes a file so that a crash leaves either the old or the new one whole.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), WorkerError> {
        let fresh = path.with_extension("new");
        let write = || {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&fresh, path)?;
            path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        write().map_err(|e| WorkerError::file("cannot write", path, &e))
    }
}

fn key_of(bytes: &[u8]) -> Result<StaticKey, String> {
    StaticKey::from_file(std::str::from_utf8(bytes).map_err(|_| "it is no text")?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::TempDir;

    const FARM: FarmId = FarmId([1; 16]);

    #[test]
    fn the_key_is_made_once_and_private() {
        let dir = TempDir::new();
        let state = State::open(&dir.0.join("deep/down"), FARM).unwrap();
        let key = state.key().unwrap().public();
        assert_eq!(state.key().unwrap().public(), key);
        let mode = std::fs::metadata(state.path("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(state.path("key"), "no key").unwrap();
        assert!(state.key().unwrap_err().to_string().contains("move it away"));
    }

    #[test]
    fn a_second_worker_in_the_directory_is_told_so_and_a_later_one_is_let_in() {
        let dir = TempDir::new();
        let first = State::open(&dir.0, FARM).unwrap();
        let second = State::open(&dir.0, FARM).map(drop).unwrap_err();
        assert!(second.to_string().starts_with("another worker uses"), "{second}");
        assert!(second.to_string().contains("another worker"));
        drop(first);
        assert!(State::open(&dir.0, FARM).is_ok());
    }

    #[test]
    fn the_spool_is_replaced_whole() {
        let dir = TempDir::new();
        let state = State::open(&dir.0, FARM).unwrap();
        assert_eq!(state.spool(), None);
        state.write_spool(b"long spool").unwrap();
        state.write_spool(b"short").unwrap();
        assert_eq!(state.spool().unwrap(), b"short");
    }

    #[test]
    fn the_known_incarnation_comes_back_and_a_damaged_file_is_told() {
        let dir = TempDir::new();
        let state = State::open(&dir.0, FARM).unwrap();
        assert_eq!(state.known(), Ok(Known::NONE));
        let known = Known { epoch: Epoch(u64::MAX), proof: [0xab; 16] };
        state.write_known(known).unwrap();
        assert_eq!(state.known(), Ok(known));
        let whole = std::fs::read_to_string(state.farm_path("epoch")).unwrap();
        for length in 0..whole.len() {
            std::fs::write(state.farm_path("epoch"), &whole[..length]).unwrap();
            assert!(state.known().unwrap_err().contains("damaged"), "cut at {length}");
        }
    }

    #[test]
    fn farms_do_not_see_what_was_kept_for_another() {
        let dir = TempDir::new();
        let state = State::open(&dir.0, FARM).unwrap();
        state.write_spool(b"results").unwrap();
        state.write_known(Known { epoch: Epoch(3), proof: [1; 16] }).unwrap();
        let key = state.key().unwrap().public();
        drop(state);
        let other = State::open(&dir.0, FarmId([2; 16])).unwrap();
        assert_eq!((other.spool(), other.known()), (None, Ok(Known::NONE)));
        assert_eq!(other.key().unwrap().public(), key, "the node stays who it is");
        drop(other);
        let back = State::open(&dir.0, FARM).unwrap();
        assert_eq!(back.spool().unwrap(), b"results");
    }

    /// Each byte of the files of a worker flipped, each length, none, and those of another worker or farm: what comes
    /// back is what was written, or a refusal in words.
    #[test]
    fn files_that_are_damaged_are_refused_in_words_or_say_what_was_written() {
        let dir = TempDir::new();
        let state = State::open(&dir.0, FARM).unwrap();
        let (key, known) = (state.key().unwrap().public(), Known { epoch: Epoch(41), proof: [0xab; 16] });
        state.write_known(known).unwrap();
        let check = |state: &State| {
            match state.key() {
                Ok(read) => assert_eq!(read.public(), key),
                Err(why) => assert!(why.to_string().contains("move it away"), "{why}"),
            }
            match state.known() {
                Ok(read) => assert_eq!(read, known),
                Err(why) => assert!(why.contains("damaged") || why.contains("cannot read"), "{why}"),
            }
        };
        for path in [state.path("key"), state.farm_path("epoch")] {
            let whole = std::fs::read(&path).unwrap();
            for bit in 0..whole.len() * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, damaged).unwrap();
                check(&state);
            }
            for length in 0..whole.len() {
                std::fs::write(&path, &whole[..length]).unwrap();
                check(&state);
            }
            std::fs::write(&path, whole).unwrap();
            check(&state);
        }
        let there = TempDir::new();
        let other = State::open(&there.0, FarmId([2; 16])).unwrap();
        other.write_known(Known { epoch: Epoch(99), proof: [1; 16] }).unwrap();
        std::fs::copy(other.farm_path("epoch"), state.farm_path("epoch")).unwrap();
        assert!(state.known().unwrap_err().contains("another farm's"));
        std::fs::remove_file(state.farm_path("epoch")).unwrap();
        assert_eq!(state.known(), Ok(Known::NONE));
        std::fs::write(state.farm_path("epoch"), format!("7 {}\n", to_hex(&[3; 16]))).unwrap();
        assert_eq!(state.known().unwrap().epoch, Epoch(7), "of the release before");
    }
}
