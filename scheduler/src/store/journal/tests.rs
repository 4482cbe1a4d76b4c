//! Tests of the journal: what happens to its files, and what opening makes of it. A journal that is opened gives
//! all that was acknowledged, or is refused in words. The bench is here, the stories in the files beside.

mod crashes;
mod damage;
mod ledgers;
mod listings;
mod refusals;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use starfarm_protocol::ids::FarmId;
use starfarm_protocol::random::SplitMix64 as Random;

use super::{Journal, Options};

const FARM: FarmId = FarmId([7; 16]);
/// Of all records that these tests write.
const EPOCH: u64 = 3;

/// A directory, in memory where there is one: these tests sync without end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let memory = Path::new("/dev/shm");
        let top = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = top.join(format!("starfarm-journal-{process}-{count}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.0.join("journal").join(format!("{number:08}.seg"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Kind and body of record `sequence`: the same whenever it is written.
fn record(sequence: u64) -> (u8, Vec<u8>) {
    let mut random = Random(sequence);
    let length = random.below(120);
    let body = (0..length).map(|_| random.draw() as u8).collect();
    (1 + (sequence % 60) as u8, body)
}

fn small() -> Options {
    Options { segment_bytes: 10_000, expected_epoch: EPOCH, ..Options::default() }
}

fn new_journal(dir: &Path, options: &Options) -> Journal {
    Journal::open(dir, FARM, &Options { expected_epoch: 0, ..options.clone() }).unwrap().0
}

/// Appends `count` records.
fn append(journal: &mut Journal, count: u64) -> std::io::Result<()> {
    for _ in 0..count {
        let sequence = journal.last_sequence() + 1;
        let (kind, body) = record(sequence);
        journal.append(EPOCH, sequence, kind, &body)?;
    }
    Ok(())
}

/// A journal of such commits, with marks as an idle scheduler leaves them; the last one has none.
fn write(dir: &Path, options: &Options, commits: &[u64]) -> u64 {
    let mut journal = new_journal(dir, options);
    for (i, &count) in commits.iter().enumerate() {
        append(&mut journal, count).unwrap();
        journal.commit().unwrap();
        if i % 3 == 1 && i + 1 < commits.len() {
            journal.mark().unwrap();
        }
    }
    journal.last_sequence()
}

/// All records of a journal: they are those that were written, in order; their number comes back.
fn check_records(journal: &Journal) -> u64 {
    let mut last = 0;
    let outcome = journal.replay(0, &mut |frame| {
        last += 1;
        let (kind, body) = record(last);
        let is_it = (frame.sequence, frame.epoch, frame.kind, frame.body) == (last, EPOCH, kind, &body[..]);
        if is_it { Ok(()) } else { Err(format!("record {last} is another")) }
    });
    outcome.unwrap();
    assert_eq!(last, journal.last_sequence());
    last
}

/// What opening made of a journal.
#[derive(PartialEq, Eq, Debug)]
enum Opened {
    /// So many records are there; notes for a person.
    Holds(u64, Vec<String>),
    Refused(String),
}

impl Opened {
    fn of(dir: &Path, options: &Options) -> Self {
        match Journal::open(dir, FARM, options) {
            Ok((journal, notes)) => Opened::Holds(check_records(&journal), notes),
            Err(error) => Opened::Refused(error.to_string()),
        }
    }

    /// The words of a refusal, which must say where, up to where all is well, and what to do.
    fn words(self) -> String {
        let Opened::Refused(words) = self else { panic!("not refused: {self:?}") };
        assert!(words.contains("--salvage") && words.contains("Restore"), "{words}");
        words
    }

    /// Nothing that was acknowledged is missing, unless a person is told.
    fn assert_honest(self, acknowledged: u64, story: &str) {
        match self {
            Opened::Holds(count, _) => assert!(count >= acknowledged, "{story}: {count} of {acknowledged}"),
            refused @ Opened::Refused(_) => drop(refused.words()),
        }
    }
}

/// The files below a directory, to put them back after they were damaged and opened.
#[derive(Clone)]
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn of(dir: &Path) -> Self {
        let mut files = BTreeMap::new();
        for folder in ["journal", "ledger"].map(|name| dir.join(name)) {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                files.insert(path.clone(), fs::read(path).unwrap());
            }
        }
        Self(files)
    }

    /// Makes the directory hold these files and no others.
    fn put(&self, dir: &Path) {
        for (path, _) in Files::of(dir).0 {
            if !self.0.contains_key(&path) {
                fs::remove_file(path).unwrap();
            }
        }
        for (path, bytes) in &self.0 {
            fs::write(path, bytes).unwrap();
        }
    }

    fn get(&mut self, path: &Path) -> &mut Vec<u8> {
        self.0.get_mut(path).unwrap()
    }

    /// End of what was written in a file.
    fn used(&self, path: &Path) -> usize {
        self.0[path].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
    }
}
