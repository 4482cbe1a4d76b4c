//! The disk under the state directory: what kind it is, how much room it has, and the ballast that is thrown off
//! when it has none.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use starfarm_protocol::random::SplitMix64;

use crate::descriptors::wait_for;
use crate::error::SchedulerError;
use crate::store::low_water::{LowWater, free_bytes};

pub(crate) const BALLAST_BYTES: u64 = 8 << 20;
/// Free bytes below which the ballast is thrown off before a write fails.
const NEARLY_FULL_BYTES: u64 = 4 << 20;

/// Magic numbers of `statfs` and names: file systems whose disk is elsewhere. From the kernel's `linux/magic.h`,
/// `fs/` where it is not there, and for GPFS and Lustre from coreutils' `stat`.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564C, "NCP"),
    (0x7461_636F, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0xAAD7_AAEA, "PanFS"),
    (0x2003_0528, "PVFS2"),
    (0x1983_0326, "BeeGFS"),
];
/// FUSE says only that some program answers.
const FUSE: u32 = 0x6573_5546;
/// What is known to keep its files on a disk of this machine, as /proc/self/mountinfo names it.
const LOCAL_FUSE: &[&str] = &["fuseblk", "fuse.ntfs-3g", "fuse.exfat", "fuse.lklfs", "fuse.fuse-overlayfs"];

/// Refuses a state directory that lies on another machine's disk: what is fsynced there may not be kept, and
/// locks may not hold. `path` need not be there yet.
pub(crate) fn refuse_network(path: &Path, allowed: bool) -> Result<(), SchedulerError> {
    let found = network_kind(path).map_err(|e| {
        SchedulerError::State(format!("it cannot be said what file system {} is on: {e}", path.display()))
    })?;
    judge(path, found.as_deref(), allowed)
}

fn judge(path: &Path, kind: Option<&str>, allowed: bool) -> Result<(), SchedulerError> {
    match kind {
        Some(kind) if !allowed => Err(SchedulerError::State(format!(
            "{} is on a network file system ({kind}), where neither locks nor what was synced can be relied on: \
             choose a directory on a local disk, or add --allow-network-file-system",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn network_kind(path: &Path) -> io::Result<Option<String>> {
    let path = first_there(path)?;
    // The kernel's number has 32 bits, its type may have more and a sign.
    let magic = rustix::fs::statfs(&path)?.f_type as u32;
    if magic == FUSE {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let device = rustix::fs::stat(&path)?.st_dev;
        let name =
            mount_type(&mounts, rustix::fs::major(device), rustix::fs::minor(device)).unwrap_or("fuse");
        return Ok((!LOCAL_FUSE.contains(&name)).then(|| name.to_owned()));
    }
    Ok(network_name(magic).map(str::to_owned))
}

fn network_name(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|&&(number, _)| number == magic).map(|&(_, name)| name)
}

/// Type of the mount of a device, from the text of /proc/self/mountinfo: behind a lone `-`.
fn mount_type(mounts: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    line.split(' ').skip_while(|&word| word != "-").nth(1)
}

/// The path itself, or the first directory above it that is there.
fn first_there(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    Ok(there.to_owned())
}

/// `PATH.damaged-N`, the first that nothing has: where what cannot be read is set aside.
pub(crate) fn damaged_name(path: &Path) -> PathBuf {
    (1_u64..)
        .map(|number| PathBuf::from(format!("{}.damaged-{number}", path.display())))
        .find(|path| path.symlink_metadata().is_err())
        .expect("a directory has fewer than 2^64 entries")
}

/// Numbers of the files in `folder` that are called NUMBER and `ending`, in order; none where there is no such folder.
pub(crate) fn numbers(folder: &Path, ending: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in if_there(wait_for(|| fs::read_dir(folder)))?.into_iter().flatten() {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(ending)?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// What was done to a file; `None` where there is no such file.
pub(crate) fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Which file it is, whatever its name: no other has the same while it is there, or open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    pub(crate) fn of(there: &Metadata) -> Self {
        Self { dev: there.dev(), ino: there.ino() }
    }
}

/// Which file lies at `path`, if any.
pub(crate) fn file_id(path: &Path) -> io::Result<Option<FileId>> {
    Ok(if_there(fs::metadata(path))?.map(|there| FileId::of(&there)))
}

/// Makes a file, or empties one that a crash left, readable by its owner only.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true).read(true).write(true).mode(0o600);
    wait_for(|| options.open(path))
}

/// A file in `folder` that is gone when it is closed. It does not wait for a descriptor.
pub(crate) fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(File::from(file));
    }
    // Some file systems do not know such files.
    static MADE: AtomicU64 = AtomicU64::new(0);
    let path = folder.join(format!("unnamed-{}", MADE.fetch_add(1, Ordering::Relaxed)));
    let file =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Replaces a file as a whole, readable by its owner only, durably.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_folder(path)
}

/// What the directory of `path` lists is durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    wait_for(|| File::open(folder.unwrap_or(Path::new("."))))?.sync_all()
}

/// A file that takes room which is needed later: thrown off when the disk is full, so that what runs can be
/// finished and the state closed.
#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    low_water: LowWater,
}

impl Ballast {
    /// The ballast in state directory `dir`. Nothing is written before [`Ballast::tend`].
    pub(crate) fn new(dir: &Path, low_water: LowWater) -> Self {
        Self { path: dir.join("ballast"), low_water }
    }

    /// Looks at the disk, now and then: makes the ballast where there is room for it above the low-water mark,
    /// throws it off where the disk is nearly full.
    pub(crate) fn tend(&self) -> io::Result<()> {
        let free = free_bytes(self.low_water.dir())?;
        let enough = self.low_water.bytes().max(NEARLY_FULL_BYTES).saturating_add(BALLAST_BYTES);
        match self.is_there() {
            true if free < NEARLY_FULL_BYTES => self.throw_off(),
            false if free >= enough => self.make().inspect_err(|_| drop(self.throw_off())),
            _ => Ok(()),
        }
    }

    /// Removes it, as when a write found no room.
    pub(crate) fn throw_off(&self) -> io::Result<()> {
        if_there(fs::remove_file(&self.path)).map(drop)
    }

    fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() == BALLAST_BYTES)
    }

    /// Written bytes, no hole; not zeros, which some file systems store as nothing.
    fn make(&self) -> io::Result<()> {
        // Not waiting for a descriptor: records are more urgent.
        let mut file: File =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&self.path)?;
        let mut piece = vec![0_u8; 1 << 20];
        let mut noise = SplitMix64(0);
        for _ in 0..BALLAST_BYTES / piece.len() as u64 {
            for bytes in piece.as_chunks_mut::<8>().0 {
                *bytes = noise.draw().to_le_bytes();
            }
            file.write_all(&piece)?;
        }
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use starfarm_protocol::ids::{Attempt, FarmId, JobId};
    use starfarm_scheduler_core::NodeId;

    use super::*;
    use crate::store::blobs::Blobs;
    use crate::store::checkpoint::Checkpoint;
    use crate::store::outputs::OutputStore;
    use crate::store::testing::SmallDisk;

    #[test]
    fn local_disks_pass_and_others_are_refused_by_name() {
        refuse_network(&std::env::temp_dir().join("not/there/yet"), false).unwrap();
        assert_eq!((network_name(0x6969), network_name(0xEF53)), (Some("NFS"), None));
        let words = judge(Path::new("/farm"), Some("NFS"), false).unwrap_err().to_string();
        assert!(words.starts_with("/farm is on a network file system (NFS)"), "{words}");
        judge(Path::new("/farm"), Some("NFS"), true).unwrap();
        let mounts =
            "36 35 0:50 / /mnt/a b rw - fuse.sshfs host: rw\n37 35 8:1 / / rw shared:1 - ext4 /dev/a rw\n";
        assert_eq!(mount_type(mounts, 0, 50), Some("fuse.sshfs"));
        assert_eq!(mount_type(mounts, 8, 1), Some("ext4"));
        assert_eq!(mount_type(mounts, 8, 2), None);
    }

    #[test]
    fn the_ballast_is_thrown_off_when_the_disk_is_full_and_made_again_when_it_is_not() {
        let Some(disk) = SmallDisk::mount(24, "disk::ballast") else { return };
        let ballast = Ballast::new(disk.path(), LowWater::new(disk.path(), 14));
        let is_there_after_a_look = || {
            ballast.tend().unwrap();
            ballast.is_there()
        };
        assert!(!ballast.is_there() && is_there_after_a_look());
        assert!(free_bytes(disk.path()).unwrap() <= 16 << 20);
        assert!(is_there_after_a_look());
        let filler = disk.fill(NEARLY_FULL_BYTES - 1);
        assert!(!is_there_after_a_look());
        assert!(free_bytes(disk.path()).unwrap() >= BALLAST_BYTES);
        let file = OpenOptions::new().write(true).open(&filler).unwrap();
        file.set_len(file.metadata().unwrap().len() - (4 << 20)).unwrap();
        drop(file);
        assert!(!is_there_after_a_look(), "there is room for it, but only below the mark");
        fs::remove_file(filler).unwrap();
        assert!(is_there_after_a_look());
        ballast.throw_off().unwrap();
        assert!(!ballast.is_there());
        ballast.throw_off().expect("that there is none is no failure");
    }

    #[test]
    fn stores_on_a_full_disk_say_so_and_keep_what_they_had() {
        let Some(disk) = SmallDisk::mount(24, "disk::full") else { return };
        let ballast = Ballast::new(disk.path(), LowWater::new(disk.path(), 0));
        ballast.tend().unwrap();
        let (blobs_at, outputs_at, at) =
            (disk.path().join("blobs"), disk.path().join("outputs"), disk.path().join("checkpoint"));
        let mut blobs = Blobs::open(&blobs_at).unwrap().0;
        let mut outputs = OutputStore::open(&outputs_at, FarmId([6; 16]), 0, u64::MAX).unwrap();
        let mut checkpoint = Checkpoint::open(&at, 0).unwrap().checkpoint;
        let one = blobs.put(&[1; 5_000]).unwrap();
        checkpoint.save(1, &[1; 100_000]).unwrap();
        let units = crate::store::outputs::tests::units(1);
        outputs.append(1, JobId(1), (Attempt(1), NodeId(1)), &units).unwrap();
        disk.fill(0);
        let full = |e: io::Error| assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        full(blobs.put(&[2; 50_000]).unwrap_err());
        let many: Vec<_> = (0..5_000).flat_map(|_| units.clone()).collect();
        full(outputs.append(2, JobId(1), (Attempt(1), NodeId(1)), &many).unwrap_err());
        let words = checkpoint.save(2, &[2; 1_000_000]).unwrap_err().words;
        assert!(words.contains("cannot be saved"), "{words}");
        drop(checkpoint);
        ballast.throw_off().unwrap();
        let two = blobs.put(&[2; 50_000]).unwrap();
        outputs.append(2, JobId(1), (Attempt(1), NodeId(1)), &units).unwrap();
        let (mut blobs, notes) = Blobs::open(&blobs_at).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        let lengths: HashMap<_, _> = [one, two].map(|hash| (hash, blobs.len(&hash).unwrap())).into();
        assert_eq!((lengths[&one], lengths[&two]), (Some(5_000), Some(50_000)));
        let mut outputs = OutputStore::open(&outputs_at, FarmId([6; 16]), 2, u64::MAX).unwrap();
        assert_eq!(outputs.page(JobId(1), 0, 100).unwrap().outputs.len(), 8);
        assert!(outputs.take_notes().is_empty());
        let opened = Checkpoint::open(&at, 0).unwrap();
        assert!(opened.saved.is_none_or(|saved| saved.state == [1; 100_000]), "{:?}", opened.notes);
    }
}
