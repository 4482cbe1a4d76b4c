//! Whether there is room on the file system of a folder, as `statvfs` says it, for one who is not root.

use std::path::PathBuf;

use rustix::fs::statvfs;
use starfarm_protocol::link::AlarmLevel;

use super::found::{Found, Look, by_less};

/// Free of all, of which it is bad.
const SHARES: [f64; 2] = [0.05, 0.01];
/// So many bytes are enough, however large the file system is.
const BYTES: [f64; 2] = [(1_u64 << 30) as f64, (256_u64 << 20) as f64];

#[derive(Default)]
pub(super) struct Disk {
    folder: Option<PathBuf>,
}

impl Disk {
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }
}

fn judge(free: f64, all: f64, was: Option<AlarmLevel>) -> Option<AlarmLevel> {
    let shares = [0, 1].map(|at| f64::min(SHARES[at], BYTES[at] / all));
    by_less(free / all, shares, was)
}

impl Look for Disk {
    fn sensor(&self) -> &'static str {
        "disk"
    }

    fn look(&mut self, was: Option<AlarmLevel>, _: u64) -> Option<Found> {
        let folder = self.folder.as_ref()?;
        let disk = statvfs(folder).ok()?;
        if disk.f_blocks == 0 {
            return None;
        }
        let free = disk.f_bavail as f64 * disk.f_frsize as f64;
        let all = disk.f_blocks as f64 * disk.f_frsize as f64;
        let blocks = judge(free, all, was);
        // Files without names are as little use as bytes.
        let names = if disk.f_files == 0 {
            None
        } else {
            by_less(disk.f_favail as f64 / disk.f_files as f64, SHARES, was)
        };
        let Some(level) = blocks.max(names) else { return Some(Found::well()) };
        let folder = folder.display();
        Some(if blocks >= names {
            let free_mib = free / f64::from(1 << 20);
            Found::bad(level, free / all, format!("{free_mib:.0} MiB are free on the disk of {folder}"))
        } else {
            let free = disk.f_favail;
            Found::bad(level, free as f64, format!("{free} more files fit on the disk of {folder}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_disk_has_enough_with_a_gibibyte() {
        use AlarmLevel::{Critical, Warning};
        let (gib, tib) = (f64::from(1 << 30), (1_u64 << 40) as f64);
        assert_eq!(
            [2.0, 0.9, 0.2].map(|free| judge(free * gib, 10.0 * tib, None)),
            [None, Some(Warning), Some(Critical)]
        );
        assert_eq!(
            [0.06, 0.04, 0.009].map(|free| judge(free * gib, gib, None)),
            [None, Some(Warning), Some(Critical)]
        );
    }
}
