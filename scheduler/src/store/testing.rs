//! For tests: a file system of a few MiB that can be filled, and another user.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small tmpfs, unmounted when it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one; where that is not allowed it says, and notes for the summary of the run, that `test` was
    /// skipped. The caller returns.
    pub(crate) fn mount(mib: u32, test: &str) -> Option<Self> {
        let dir = std::env::temp_dir().join(format!("starfarm-disk-{}-{}", std::process::id(), test));
        fs::create_dir_all(&dir).unwrap();
        let size = format!("size={mib}m,mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&dir).output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Some(Self(dir)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "),
            Err(e) => format!("mount: {e}"),
        };
        fs::remove_dir(&dir).unwrap();
        if let Some(path) = std::env::var_os("STARFARM_SKIPS") {
            let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "root: {test}: {why}").unwrap();
        }
        None
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Fills it until fewer than `left` bytes are free; returns the file that takes the room.
    pub(crate) fn fill(&self, left: u64) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        while crate::store::low_water::free_bytes(&self.0).unwrap() > left
            && file.write_all(&[7; 4_096]).is_ok()
        {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if unmounted.is_ok_and(|status| status.success()) {
            let _ = fs::remove_dir(&self.0);
        }
    }
}

/// Does `act` as a user who is not root, as a scheduler should be: root may do anything, whatever the modes.
pub(crate) fn as_a_user(act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                // Of this thread alone and of what it starts; it ends with it.
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            act();
        });
        user.join().unwrap();
    });
}
