//! The file `journal/synced`: how far the journal was on the disk when it was last written. Its bytes are
//! described in `protocol::journal::synced`.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use starfarm_protocol::ids::FarmId;
use starfarm_protocol::journal::synced;

use super::{Medium, Options, sync_folder};

/// The file, open for writing.
pub(super) struct Synced {
    farm: FarmId,
    medium: Box<dyn Medium>,
}

impl Synced {
    /// What the file says; 0 where it says nothing.
    pub(super) fn read(dir: &Path, farm: FarmId) -> u64 {
        fs::read(path(dir)).ok().and_then(|bytes| synced::read(&bytes, farm)).unwrap_or(0)
    }

    /// Makes the file, or writes it anew, durably: later writes change no more than its bytes.
    pub(super) fn create(dir: &Path, farm: FarmId, sequence: u64, options: &Options) -> io::Result<Self> {
        let path = path(dir);
        let mut open = OpenOptions::new();
        let file = open.create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        let mut medium = (options.medium)(file);
        medium.write_at(&synced::to_bytes(farm, sequence), 0)?;
        medium.sync()?;
        sync_folder(&path)?;
        Ok(Self { farm, medium })
    }

    /// Says that all up to `sequence` is on the disk. Not synced: an old word is true as well.
    pub(super) fn write(&mut self, sequence: u64) -> io::Result<()> {
        self.medium.write_at(&synced::to_bytes(self.farm, sequence), 0)
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("journal").join("synced")
}
