//! Merges against a reference that anybody can read: sort all results that count by their units, and put them together.
//! A seed says in which order results of whole tasks come, which units fail, run again or are given up, when a person
//! asks for more, and between which two steps the scheduler dies: it goes on from the files as they are then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use starfarm_protocol::admin::{JobInfo, MergeState};
use starfarm_protocol::ids::{Attempt, ContentHash, Epoch, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::spec::{CommandWork, Fold, JobSpec, Merge, MergeProgram, Space, Work};
use starfarm_protocol::unit_set::UnitSet;
use starfarm_protocol::wire::{CommandUnit, FailReason, Outputs, Stream};
use starfarm_scheduler_core as core;
use starfarm_scheduler_core::{NodeId, Record};

use super::{Merges, Results, merge};
use crate::store::blobs::Blobs;
use crate::store::outputs::OutputStore;
use crate::store::outputs::tests::{FARM, Scratch};
use crate::store::testing::as_a_user;

const SEEDS: u64 = 100;
const JOB: JobId = JobId(1);
const FOLDS: [Fold; 5] = [Fold::Concat, Fold::Sum, Fold::Min, Fold::Max, Fold::Count];

/// What counts of the job, by first unit: how many units, and what one run wrote for them.
type Counted = BTreeMap<u128, (u64, Vec<u8>)>;

/// All results, in the order of their units, as one; none where there is none.
fn reference(fold: Fold, counted: &Counted) -> Option<Vec<u8>> {
    let texts: Vec<&str> = counted.values().map(|(_, text)| std::str::from_utf8(text).unwrap()).collect();
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    let numbers = lines.iter().map(|line| line.parse::<i128>().unwrap());
    let number = match fold {
        Fold::Concat => return Some(texts.concat().into_bytes()),
        Fold::Sum => Some(numbers.sum()),
        Fold::Min => numbers.min(),
        Fold::Max => numbers.max(),
        Fold::Count => Some(lines.len() as i128),
        Fold::Report => unreachable!("its lines are no numbers"),
    };
    number.map(|number| format!("{number}\n").into_bytes())
}

/// A job of so many units, as a farm shows it.
fn info(units: u128) -> JobInfo {
    let mut farm = core::Farm::new(core::Config::new(FARM, Epoch(1)), 0);
    let new = core::NewJob {
        name: "a".into(),
        user: "b".into(),
        spec: ContentHash([1; 32]),
        units,
        work: core::WorkFacts::command(0),
        sizing: core::Sizing::Units(1),
        max_failures: core::MaxFailures::Never,
        speculative: false,
        trust: core::Trust::default(),
        terms: core::Terms::default(),
        place: core::Place::Tail,
    };
    let made = farm.submit(new, 0, &mut core::Deeds::default()).unwrap();
    farm.job(made, 0).unwrap()
}

fn spec(fold: Fold) -> Vec<u8> {
    let merge = Some(Merge::Fold(fold));
    let work = CommandWork { program: vec!["true".into()], merge, ..CommandWork::default() };
    JobSpec { space: Space::Frames { first: 1, last: 9 }, work: Work::Command(work) }.to_bytes()
}

/// What a scheduler has in memory, over what is on the disk.
struct House {
    outputs: Mutex<OutputStore>,
    blobs: Mutex<Blobs>,
    merges: Merges,
}

impl House {
    fn open(scratch: &Scratch, fold: Fold, records: &[Record]) -> Self {
        let mut outputs = scratch.open(0);
        for (sequence, record) in (1..).zip(records) {
            outputs.take(sequence, record).unwrap();
        }
        outputs.is_replayed();
        let (blobs, notes) = Blobs::open(&scratch.path("blobs")).unwrap();
        assert_eq!(notes, Vec::<String>::new());
        let merges = Merges::new(scratch.path("merged"));
        merges.learn(JOB, &spec(fold));
        Self { outputs: Mutex::new(outputs), blobs: Mutex::new(blobs), merges }
    }
}

struct World {
    random: SplitMix64,
    scratch: Scratch,
    fold: Fold,
    house: House,
    records: Vec<Record>,
    job: JobInfo,
    /// Units that are not decided.
    open: BTreeSet<u128>,
    failed: BTreeSet<u128>,
    counted: Counted,
    now_us: u64,
    /// A person wants the results merged, whatever is lacking, and no scheduler has died since.
    wanted: bool,
    /// Merges that came to a result, and deaths in the midst of one.
    merged: u64,
    torn: u64,
}

impl World {
    /// The results of all units.
    fn all(&self) -> Results<'_> {
        let House { outputs, blobs, .. } = &self.house;
        let mut done = UnitSet::default();
        done.insert(0, self.job.units_total.0);
        Results { job: JOB, done, outputs, blobs }
    }

    fn new(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let scratch = Scratch::new(&format!("merge-{seed}"));
        let fold = FOLDS[random.below(FOLDS.len() as u64) as usize];
        let units = 1 + u128::from(random.below(80));
        let house = House::open(&scratch, fold, &[]);
        Self {
            random,
            scratch,
            fold,
            house,
            records: Vec::new(),
            job: info(units),
            open: (0..units).collect(),
            failed: BTreeSet::new(),
            counted: Counted::new(),
            now_us: 1,
            wanted: false,
            merged: 0,
            torn: 0,
        }
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    /// The scheduler dies, and another one starts from what is on the disk.
    fn dies(&mut self) {
        self.house = House::open(&self.scratch, self.fold, &self.records);
        self.wanted = false;
        self.holds();
    }

    fn may_die(&mut self) {
        if self.one_in(12) {
            self.dies();
        }
    }

    fn record(&mut self, record: Record) {
        self.records.push(record);
        let sequence = self.records.len() as u64;
        self.house.outputs.lock().unwrap().take(sequence, self.records.last().unwrap()).unwrap();
        self.may_die();
    }

    /// What is open, cut as it happens to be and in any order.
    fn tasks(&mut self) -> Vec<(u128, u64)> {
        let (mut open, mut tasks) = (self.open.clone(), Vec::new());
        while let Some(lo) = open.pop_first() {
            let most = 1 + self.random.below(20);
            let mut units = 1;
            while units < most && open.remove(&(lo + u128::from(units))) {
                units += 1;
            }
            tasks.push((lo, units));
        }
        for at in (1..tasks.len()).rev() {
            tasks.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        tasks
    }

    /// What a run writes: lines with a number, or nothing. The last line may lack its end, and some of it is too long to
    /// ride along.
    fn text(&mut self) -> Vec<u8> {
        let lines = [0, 1, 1, 3, 40][self.random.below(5) as usize];
        let mut text = String::new();
        for _ in 0..lines {
            text += &format!("{}\n", self.random.below(2_000_000) as i64 - 1_000_000);
        }
        // Where outputs are put one behind the other, a line that does not end would go on in the next.
        if self.fold != Fold::Concat && self.one_in(3) {
            text.truncate(text.trim_end().len());
        }
        text.into_bytes()
    }

    fn outcome(&mut self, units: u64, fails: bool) -> (CommandUnit, Vec<u8>) {
        let text = self.text();
        let stdout = if self.one_in(3) {
            let hash = self.house.blobs.lock().unwrap().put(&text).unwrap();
            let bytes = text.len() as u64;
            Stream::Uploaded { hash, kept: bytes, total: bytes }
        } else {
            Stream::Inline(text.clone())
        };
        let outputs = Outputs { files: None, stdout, stderr: Stream::Inline(b"9\n".to_vec()) };
        let failed = fails.then_some(FailReason::Exit);
        (CommandUnit { units, failed, code: 0, duration_us: 1, outputs }, text)
    }

    /// Tasks run, and the job ends: when all units are decided, or before.
    fn runs(&mut self) {
        self.job.state = JobState::Running;
        let mut tasks = self.tasks();
        if self.one_in(4) {
            tasks.truncate(tasks.len() / 2);
        }
        while !tasks.is_empty() {
            let some = tasks.len().min(1 + self.random.below(3) as usize);
            let mut units = Vec::new();
            for (lo, count) in tasks.drain(..some) {
                let fails = count == 1 && self.one_in(4);
                let (outcome, text) = self.outcome(count, fails);
                units.push((lo, outcome));
                (lo..lo + u128::from(count)).for_each(|unit| _ = self.open.remove(&unit));
                match fails {
                    true => _ = self.failed.insert(lo),
                    false => _ = self.counted.insert(lo, (count, text)),
                }
            }
            self.record(Record::Ran { job: JOB, attempt: Attempt(7), node: NodeId(3), units });
        }
        self.job.state = match () {
            () if !self.open.is_empty() => JobState::Cancelled,
            () if !self.failed.is_empty() => JobState::Failed,
            () => JobState::Finished,
        };
        self.now_us += 1;
        self.job.totals.ended_us = Some(self.now_us);
        self.wanted = false;
    }

    /// Some results are lost, or some failures are to be tried again: their units run once more. Whoever merges may have
    /// looked at the job before that.
    fn reopens(&mut self) {
        let before = self.job.clone();
        let (ids, since) = self.house.merges.unsettled();
        let lost: Vec<u128> = self.counted.keys().copied().filter(|_| self.random.below(3) == 0).collect();
        let lost: Vec<(u128, u128)> = lost
            .into_iter()
            .map(|lo| (lo, lo + u128::from(self.counted.remove(&lo).expect("it counts").0)))
            .collect();
        let failed: Vec<(u128, u128)> =
            std::mem::take(&mut self.failed).into_iter().map(|unit| (unit, unit + 1)).collect();
        self.open.extend(lost.iter().chain(&failed).flat_map(|&(lo, hi)| lo..hi));
        if self.open.is_empty() {
            return;
        }
        self.job.state = JobState::Running;
        self.house.merges.reopened(JOB);
        if !ids.is_empty() {
            let begun = self.house.merges.begin(&[before], since);
            assert!(begun.is_none(), "what was looked at before is no ground to begin");
        }
        self.record(Record::Rerun { job: JOB, units: lost });
        self.record(Record::Retried { job: JOB, units: failed });
        self.runs();
    }

    /// As the merge thread does, until it has nothing more to do.
    fn merges(&mut self) {
        loop {
            self.holds();
            let (ids, since) = self.house.merges.unsettled();
            let job = self.job.clone();
            let begun = (!ids.is_empty()).then(|| self.house.merges.begin(&[job], since)).flatten();
            let Some((_, ended_us, how)) = begun else { break };
            if self.one_in(12) {
                self.dies();
                continue;
            }
            let mut done = UnitSet::default();
            for (lo, (units, _)) in &self.counted {
                done.insert(*lo, lo + u128::from(*units));
            }
            let House { outputs, blobs, merges } = &self.house;
            let results = Results { job: JOB, done, outputs, blobs };
            let outcome = merge(merges, &results, (&how, ended_us), &|| None);
            assert_eq!(outcome.why.is_empty(), reference(self.fold, &self.counted).is_some(), "{outcome:?}");
            if self.one_in(4) {
                self.tears();
                continue;
            }
            self.house.merges.end(JOB, outcome).1.unwrap();
            self.merged += 1;
            self.may_die();
        }
        let expected = match reference(self.fold, &self.counted) {
            _ if self.job.state != JobState::Finished && !self.wanted => return,
            Some(_) => MergeState::Done,
            None => MergeState::Failed,
        };
        assert_eq!(self.state(), expected);
    }

    /// The scheduler dies while it writes the result: a part of it is there.
    fn tears(&mut self) {
        let path = self.house.merges.path(JOB, "output");
        if let Ok(bytes) = fs::read(&path) {
            let part = self.random.below(bytes.len() as u64 + 1) as usize;
            fs::write(&path, &bytes[..part]).unwrap();
        }
        self.torn += 1;
        self.dies();
    }

    fn state(&self) -> MergeState {
        let mut jobs = [self.job.clone()];
        self.house.merges.fill(&mut jobs);
        jobs[0].merge.as_ref().unwrap().state
    }

    /// What is shown as the result is that of all results that count.
    fn holds(&self) {
        if self.state() == MergeState::Done {
            let found = self.house.merges.read(JOB, None, 0, 1 << 20).unwrap();
            assert_eq!(found, reference(self.fold, &self.counted), "{:?}", self.job);
        }
    }

    fn is_asked_again(&mut self) {
        self.house.merges.again(&self.job).unwrap();
        self.wanted = true;
        self.may_die();
        self.merges();
    }
}

#[test]
fn a_merged_result_is_that_of_all_results_that_count_whenever_the_scheduler_dies() {
    let (mut merged, mut torn) = (0, 0);
    for seed in 1..=SEEDS {
        let mut world = World::new(seed);
        world.runs();
        for _ in 0..4 {
            if !world.one_in(3) {
                world.merges();
            }
            match world.random.below(3) {
                0 => world.is_asked_again(),
                1 => world.reopens(),
                _ => world.dies(),
            }
        }
        world.merges();
        (merged, torn) = (merged + world.merged, torn + world.torn);
    }
    assert!(merged > SEEDS && torn > SEEDS / 4, "{merged} merges, {torn} torn");
}

/// What a record has said and the files lack is told, and nothing is made of the rest.
#[test]
fn a_gap_is_told_and_no_result_comes_of_it() {
    let mut world = World::new(0);
    world.runs();
    let House { outputs, blobs, merges } = &world.house;
    let units = world.job.units_total.0;
    let mut done = UnitSet::default();
    done.insert(0, units + 1);
    let results = Results { job: JOB, done, outputs, blobs };
    let outcome = merge(merges, &results, (&Merge::Fold(Fold::Concat), 1), &|| None);
    assert!(outcome.why.contains("are missing, that of unit"), "{outcome:?}");
    assert!(outcome.output.is_none());
}

/// A merge by a line for a shell, which is to make these files.
fn by_shell(script: &str, outputs: &[&str]) -> Merge {
    let program = ["sh", "-c", script].map(str::to_owned).to_vec();
    let outputs = outputs.iter().map(|&name| name.to_owned()).collect();
    Merge::Program(Box::new(MergeProgram { program, timeout_ms: None, outputs }))
}

#[test]
fn a_merge_whose_program_makes_something_else_than_files_fails_in_words() {
    let mut world = World::new(0);
    world.runs();
    let (results, merges) = (world.all(), &world.house.merges);
    let why = |script| merge(merges, &results, (&by_shell(script, &["d/f"]), 1), &|| None).why;
    assert_eq!(why("mkdir d; echo 7 > d/f"), "");
    for (script, told) in [
        ("true", "made no file `d/f`"),
        ("mkdir -p d/f", "made no file `d/f`"),
        ("mkdir d; ln -s /etc/passwd d/f", "made `d/f` by a link: only files are taken"),
        ("mkdir e; echo 7 > e/f; ln -s \"$PWD/e\" d", ""),
    ] {
        let why = why(script);
        assert!(why.contains(told) && why.is_empty() == told.is_empty(), "{script}: {why}");
    }
}

/// The disk is nearly full: the program is ended, and what it wrote makes room.
#[test]
fn a_merge_that_fills_the_disk_is_ended_and_leaves_nothing() {
    let mut world = World::new(0);
    world.runs();
    let (results, merges) = (world.all(), &world.house.merges);
    let output = merges.path(JOB, "output");
    let lacks = || {
        let bytes = std::fs::metadata(&output).map_or(0, |there| there.len());
        (bytes > 1 << 20).then(|| "was ended: the disk has 7 MiB left: make room".to_owned())
    };
    for (script, is_right) in [("yes", false), ("head -c 3000000 /dev/zero", false), ("echo 7", true)] {
        let outcome = merge(merges, &results, (&by_shell(script, &[]), 1), &lacks);
        assert_eq!((outcome.output.is_some(), output.exists()), (is_right, is_right), "{outcome:?}");
        assert!(is_right || outcome.why.contains("was ended: the disk has 7 MiB left"), "{outcome:?}");
    }
}

/// Only root may remove what lies in a folder of mode 555 without more ado.
#[test]
fn a_program_that_leaves_a_folder_nobody_may_write_is_merged_again_and_deleted() {
    as_a_user(|| {
        let mut world = World::new(0);
        world.runs();
        let (results, merges) = (world.all(), &world.house.merges);
        for script in
            ["mkdir d; echo 7 > d/f; chmod 555 d; echo 8", "mkdir -p d/e; echo 7 > d/e/f; chmod 0 d/e d"]
        {
            for _ in 0..2 {
                let outcome = merge(merges, &results, (&by_shell(script, &[]), 1), &|| None);
                assert_eq!(outcome.why, "", "{script}");
                assert!(!merges.path(JOB, "work").exists());
            }
        }
        // A scheduler that was killed leaves it.
        let left = merges.path(JOB, "work").join("d");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("f"), "7").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o555)).unwrap();
        merges.delete(JOB).unwrap();
        assert!(!merges.path(JOB, "work").exists());
    });
}

#[test]
fn a_merge_without_a_program_stops_as_soon_as_it_is_told() {
    let mut world = World::new(0);
    world.runs();
    // Outputs of which the longest takes several looks.
    let text = b"1\n".repeat(2 << 20);
    let hash = world.house.blobs.lock().unwrap().put(&text).unwrap();
    let stdout = Stream::Uploaded { hash, kept: text.len() as u64, total: text.len() as u64 };
    let outputs = Outputs { files: None, stdout, stderr: Stream::Inline(Vec::new()) };
    let ran = CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs };
    let units = (0..world.job.units_total.0).map(|unit| (unit, ran.clone())).collect();
    world.record(Record::Ran { job: JOB, attempt: Attempt(7), node: NodeId(3), units });
    let (results, merges) = (world.all(), &world.house.merges);
    for fold in FOLDS {
        for stops_at in 1..4 {
            let looks = AtomicU64::new(0);
            let stopped = || (looks.fetch_add(1, Relaxed) + 1 >= stops_at).then(|| "was ended".to_owned());
            let outcome = merge(merges, &results, (&Merge::Fold(fold), 1), &stopped);
            assert_eq!((&*outcome.why, looks.into_inner()), ("it was ended", stops_at), "{fold:?}");
        }
    }
}

#[test]
fn a_long_result_is_read_back_only_as_long_as_the_merge_goes_on() {
    let mut world = World::new(0);
    world.runs();
    let (results, merges) = (world.all(), &world.house.merges);
    let looks = AtomicU64::new(0);
    let count = || {
        looks.fetch_add(1, Relaxed);
        None
    };
    let outcome = merge(merges, &results, (&by_shell("head -c 8388608 /dev/zero", &[]), 1), &count);
    assert_eq!(outcome.why, "");
    assert!(looks.into_inner() >= 8, "a look at each MiB");
}
