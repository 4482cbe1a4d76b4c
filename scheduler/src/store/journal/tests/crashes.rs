//! Power cuts and failing disks. The disk is a model: of each file it knows what was synced, and what was written
//! since. At a power cut each sector that was written since holds any of its versions. Whatever the moment, the
//! journal opens without a person, and nothing that was acknowledged is missing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use starfarm_protocol::journal::frame::FRAME_BYTES;
use starfarm_protocol::journal::segment::HEAD_BYTES;

use super::super::{MARGIN_BYTES, Medium};
use super::{
    EPOCH, FARM, Files, Journal, Opened, Options, Random, Scratch, append, check_records, new_journal, small,
};
use crate::store::testing::SmallDisk;

const SECTOR: usize = 512;

/// What the journal asked of its disk.
#[derive(Clone, Debug)]
enum Op {
    Made(PathBuf),
    Write(PathBuf, usize, Vec<u8>),
    Sync(PathBuf),
}

/// How an operation fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Nothing of it happens.
    Whole(i32),
    /// Half of a write does.
    Half(i32),
}

thread_local! {
    static OPS: RefCell<Vec<Op>> = const { RefCell::new(Vec::new()) };
    /// The operation, counted from 0, that fails.
    static FAILS: RefCell<Option<(usize, Failure)>> = const { RefCell::new(None) };
}

/// A file that notes all that is done to it, and may fail.
struct Watched(File, PathBuf);

fn watched(file: File) -> Box<dyn Medium> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    OPS.with_borrow_mut(|ops| ops.push(Op::Made(path.clone())));
    Box::new(Watched(file, path))
}

/// The failure of the operation that comes now.
fn failure() -> Option<Failure> {
    let now = OPS.with_borrow(|ops| ops.len());
    FAILS.with_borrow(|fails| fails.filter(|(at, _)| now == *at).map(|(_, failure)| failure))
}

impl Medium for Watched {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (written, error) = match failure() {
            None => (bytes, None),
            Some(Failure::Whole(code)) => (&bytes[..0], Some(code)),
            Some(Failure::Half(code)) => (&bytes[..bytes.len() / 2], Some(code)),
        };
        OPS.with_borrow_mut(|ops| ops.push(Op::Write(self.1.clone(), offset as usize, written.to_vec())));
        self.0.write_all_at(written, offset)?;
        error.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(Failure::Whole(code) | Failure::Half(code)) = failure() {
            OPS.with_borrow_mut(|ops| ops.push(Op::Made(self.1.clone())));
            return Err(io::Error::from_raw_os_error(code));
        }
        OPS.with_borrow_mut(|ops| ops.push(Op::Sync(self.1.clone())));
        Ok(())
    }
}

fn take_ops() -> Vec<Op> {
    OPS.with_borrow_mut(std::mem::take)
}

/// A file on the model's disk.
#[derive(Clone, Default)]
struct Stored {
    /// It has been synced, so it is in its directory.
    listed: bool,
    synced: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

/// The disk.
#[derive(Clone, Default)]
struct Disk(BTreeMap<PathBuf, Stored>);

impl Disk {
    fn holding(files: &Files) -> Self {
        let stored = |bytes: &Vec<u8>| Stored { listed: true, synced: bytes.clone(), pending: vec![] };
        Self(files.0.iter().map(|(path, bytes)| (path.clone(), stored(bytes))).collect())
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Made(path) => drop(self.0.entry(path.clone()).or_default()),
            Op::Write(path, offset, bytes) => {
                let file = self.0.entry(path.clone()).or_default();
                file.pending.push((*offset, bytes.clone()));
            }
            Op::Sync(path) => {
                let file = self.0.entry(path.clone()).or_default();
                file.listed = true;
                let pending = std::mem::take(&mut file.pending);
                pending.iter().for_each(|(offset, bytes)| put(&mut file.synced, *offset, bytes));
            }
        }
    }

    /// What is there after a power cut.
    fn cut(&self, random: &mut Random) -> Files {
        let mut files = BTreeMap::new();
        for (path, file) in &self.0 {
            if !file.listed && random.below(3) == 0 {
                continue;
            }
            let mut bytes = file.synced.clone();
            // Now nothing of what was not synced is there, now all of it, mostly some.
            let luck = random.below(5);
            let mut reached: BTreeMap<usize, u64> = BTreeMap::new();
            for (i, (offset, written)) in file.pending.iter().enumerate() {
                let mut from = 0;
                while from < written.len() {
                    let sector = (offset + from) / SECTOR;
                    let to = written.len().min((sector + 1) * SECTOR - offset);
                    let versions = file.pending.len() as u64 + 1;
                    let kept = *reached.entry(sector).or_insert_with(|| match luck {
                        0 => 0,
                        1 => versions,
                        _ => random.below(versions + 1),
                    });
                    if (i as u64) < kept {
                        put(&mut bytes, offset + from, &written[from..to]);
                    }
                    from = to;
                }
            }
            // A file that grows may not have reached its new length.
            let grown = bytes.len().saturating_sub(file.synced.len()) as u64;
            if random.below(2) == 0 {
                bytes.truncate(bytes.len() - random.below(grown + 1) as usize);
            }
            files.insert(path.clone(), bytes);
        }
        Files(files)
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    bytes.resize(bytes.len().max(offset + written.len()), 0);
    bytes[offset..offset + written.len()].copy_from_slice(written);
}

fn watching(options: Options) -> Options {
    Options { medium: watched, ..options }
}

/// What was promised when: after so many operations, so many records were acknowledged.
type Promises = Vec<(usize, u64)>;

fn run(dir: &Path, options: &Options, commits: &[u64]) -> (Vec<Op>, Promises) {
    take_ops();
    let mut journal = new_journal(dir, options);
    let mut promises = Vec::new();
    for (i, &count) in commits.iter().enumerate() {
        append(&mut journal, count).unwrap();
        let durable = journal.commit().unwrap();
        promises.push((OPS.with_borrow(Vec::len), durable));
        if i % 3 == 1 {
            journal.mark().unwrap();
        }
    }
    (take_ops(), promises)
}

fn promised(promises: &Promises, ops: usize) -> u64 {
    promises.iter().rfind(|(at, _)| *at <= ops).map_or(0, |(_, durable)| *durable)
}

fn expecting(acknowledged: u64, options: &Options) -> Options {
    Options { expected_epoch: if acknowledged > 0 { EPOCH } else { 0 }, ..options.clone() }
}

/// The power fails after each operation, `trials` times, and then once more while the journal is opened.
fn cut_everywhere(options: &Options, commits: &[u64], trials: u32, seed: u64) {
    let scratch = Scratch::new();
    let (ops, promises) = run(&scratch.0, options, commits);
    let total = promises.last().unwrap().1;
    let (mut disk, mut random) = (Disk::default(), Random(seed));
    for (done, op) in ops.iter().enumerate() {
        disk.apply(op);
        let acknowledged = promised(&promises, done + 1);
        for trial in 0..trials {
            let story = format!("operation {done} of {}, trial {trial}", ops.len());
            let files = disk.cut(&mut random);
            files.put(&scratch.0);
            take_ops();
            let opened = Opened::of(&scratch.0, &expecting(acknowledged, options));
            let Opened::Holds(first, _) = opened else { panic!("{story}: {opened:?}") };
            assert!((acknowledged..=total).contains(&first), "{story}: {first} of {acknowledged}");
            let recovery = take_ops();
            let mut again = Disk::holding(&files);
            let stop = random.below(recovery.len() as u64 + 1) as usize;
            recovery[..stop].iter().for_each(|op| again.apply(op));
            again.cut(&mut random).put(&scratch.0);
            let opened = Opened::of(&scratch.0, &expecting(acknowledged, options));
            let Opened::Holds(second, _) = opened else { panic!("{story}, then {stop}: {opened:?}") };
            assert!(second >= acknowledged, "{story}, then {stop}: {second} of {acknowledged}");
            assert!(stop < recovery.len() || second == first, "{story}: what was replayed is gone");
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_acknowledged() {
    let commits = [3, 1, 9, 2, 40, 1, 1, 25, 30, 2, 60, 6, 5, 40, 2, 1];
    cut_everywhere(&watching(small()), &commits, 4, 1);
}

#[test]
fn a_power_cut_while_a_segment_grows_loses_nothing_acknowledged() {
    let options = Options { segment_bytes: 1 << 20, ..small() };
    cut_everywhere(&watching(options), &[900, 1_500, 2, 1_300, 1, 2_500], 2, 2);
}

/// A commit that leaves the promised zeros and not a byte more: mark and seal must not eat into them.
#[test]
fn a_power_cut_while_a_full_segment_is_sealed_is_not_taken_for_a_cut_file() {
    // The seal lies in two sectors.
    let end = (256 << 10) - MARGIN_BYTES - 20;
    let options = watching(Options { segment_bytes: end, expected_epoch: 0, ..small() });
    let scratch = Scratch::new();
    let mut journal = new_journal(&scratch.0, &options);
    let body = vec![1; end as usize - HEAD_BYTES - FRAME_BYTES];
    take_ops();
    journal.append(EPOCH, 1, 6, &body).unwrap();
    let mut disk = Disk::default();
    Files::of(&scratch.0).0.iter().for_each(|(path, bytes)| {
        disk.apply(&Op::Write(path.clone(), 0, bytes.clone()));
        disk.apply(&Op::Sync(path.clone()));
    });
    journal.commit().unwrap();
    drop(journal);
    assert!(scratch.segment(2).exists());
    let mut random = Random(3);
    for (at, op) in take_ops().iter().enumerate() {
        disk.apply(op);
        for _ in 0..64 {
            disk.cut(&mut random).put(&scratch.0);
            let opened = Journal::open(&scratch.0, FARM, &options);
            assert!(
                opened.is_ok(),
                "operation {at}: {}",
                opened.err().map_or(String::new(), |e| e.to_string())
            );
        }
    }
}

#[test]
fn after_a_failed_operation_nothing_more_is_confirmed() {
    let commits = [3, 20, 1, 60, 4, 30, 2, 50, 1];
    let options = watching(small());
    for failure in [Failure::Whole(libc::ENOSPC), Failure::Whole(libc::EIO), Failure::Half(libc::ENOSPC)] {
        let scratch = Scratch::new();
        drop(new_journal(&scratch.0, &small()));
        let fresh = Files::of(&scratch.0);
        for at in 0.. {
            fresh.put(&scratch.0);
            take_ops();
            let (mut journal, _) = Journal::open(&scratch.0, FARM, &expecting(0, &options)).unwrap();
            take_ops();
            FAILS.set(Some((at, failure)));
            let (mut confirmed, mut failed) = (0, None);
            for &count in &commits {
                if let Err(error) = append(&mut journal, count).and_then(|()| journal.commit()) {
                    failed = Some(error);
                    break;
                }
                confirmed = journal.last_sequence();
                if let Err(error) = journal.mark() {
                    failed = Some(error);
                    break;
                }
            }
            FAILS.set(None);
            let story = format!("{failure:?} of operation {at}");
            if let Some(error) = &failed {
                let again = [journal.commit().map(drop), journal.mark(), append(&mut journal, 1)];
                for outcome in again {
                    assert_eq!(outcome.unwrap_err().kind(), error.kind(), "{story}");
                }
            }
            drop(journal);
            let opened = Opened::of(&scratch.0, &expecting(confirmed, &small()));
            assert!(matches!(&opened, Opened::Holds(count, _) if *count >= confirmed), "{story}: {opened:?}");
            if failed.is_none() {
                assert!(scratch.segment(3).exists(), "segments are made and sealed on the way");
                break;
            }
        }
    }
}

/// After a failed sync the system takes the pages for clean: they are read, and a later sync writes nothing. What
/// opening gives must be on the disk all the same.
#[test]
fn what_is_replayed_after_a_failed_sync_is_on_the_disk() {
    let options = watching(small());
    for commits in [&[3, 2][..], &[3, 70, 4]] {
        let scratch = Scratch::new();
        let (ops, _) = run(&scratch.0, &options, commits);
        let last = (0..ops.len()).filter(|&at| matches!(ops[at], Op::Sync(_)));
        for at in last {
            let mut disk = Disk::default();
            // Nothing of what was pending at the failed sync ever reaches the disk.
            ops[..at].iter().for_each(|op| disk.apply(op));
            let mut seen = disk.clone();
            seen.apply(&ops[at]);
            let all = |disk: &Disk| {
                Files(disk.0.iter().map(|(path, file)| (path.clone(), file.synced.clone())).collect())
            };
            all(&seen).put(&scratch.0);
            take_ops();
            let (mut journal, _) = Journal::open(&scratch.0, FARM, &expecting(0, &options)).unwrap();
            append(&mut journal, 1).unwrap();
            let count = journal.commit().unwrap();
            disk.0.values_mut().for_each(|file| file.pending.clear());
            take_ops().iter().for_each(|op| disk.apply(op));
            all(&disk).put(&scratch.0);
            let opened = Opened::of(&scratch.0, &expecting(0, &options));
            assert!(
                matches!(opened, Opened::Holds(again, _) if again == count),
                "sync {at}: {opened:?}, not {count}"
            );
        }
    }
}

#[test]
fn a_full_disk_stops_the_journal_and_room_lets_it_go_on() {
    let Some(disk) = SmallDisk::mount(2, "a_full_disk_stops_the_journal_and_room_lets_it_go_on") else {
        return;
    };
    let options = Options { expected_epoch: 0, ..small() };
    let mut journal = new_journal(disk.path(), &options);
    let filler = disk.fill(700 << 10);
    let mut confirmed = 0;
    let error = loop {
        match append(&mut journal, 10).and_then(|()| journal.commit()) {
            Ok(durable) => confirmed = durable,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(journal.commit().is_err(), "it never goes on");
    drop(journal);
    fs::remove_file(filler).unwrap();
    let (mut journal, _) = Journal::open(disk.path(), FARM, &options).unwrap();
    assert!(check_records(&journal) >= confirmed && confirmed > 0, "{confirmed}");
    append(&mut journal, 200).unwrap();
    journal.commit().unwrap();
}
