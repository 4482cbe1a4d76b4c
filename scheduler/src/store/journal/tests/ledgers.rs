//! Old segments in short: what a farm did is the same, whoever reads it and whenever the rewriting was broken off.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use starfarm_protocol::ids::{Attempt, Boot, JobId, NodeId};
use starfarm_protocol::interval::Interval;
use starfarm_protocol::job::FailedUnit;
use starfarm_protocol::journal::Record;
use starfarm_protocol::wire::{CommandUnit, FailReason, Outputs, Stream};
use starfarm_scheduler_core::{Trace, Traced, Tracing};

use super::super::ledger::Short;
use super::super::{Journal, Options};
use super::{EPOCH, FARM, Files, Random, Scratch};

/// What the records of a farm come to.
#[derive(Default, PartialEq, Eq, Debug)]
struct Sum {
    /// Who did each unit, how often.
    done: BTreeMap<(JobId, u128), Vec<NodeId>>,
    hits: BTreeSet<(JobId, u128, u32, NodeId)>,
    failed: BTreeMap<(JobId, u128), String>,
    marks: BTreeMap<JobId, u128>,
    /// All other records, with what their job had come to by then: its done and failed units, its mark.
    others: Vec<(String, usize, usize, u128)>,
}

impl Sum {
    fn add(&mut self, record: &Record) {
        match record {
            Record::Leased { job, mark } => {
                let highest = self.marks.entry(*job).or_default();
                *highest = (*highest).max(*mark);
            }
            Record::Done { job, node, pieces, hits } => {
                for unit in pieces.iter().flat_map(|&(lo, hi)| lo..hi) {
                    self.done.entry((*job, unit)).or_default().push(*node);
                }
                self.hits.extend(hits.iter().map(|&(unit, target)| (*job, unit, target, *node)));
            }
            Record::Ran { job, node, units, .. } => {
                for (unit, outcome) in units {
                    match outcome.failed {
                        None => self.done.entry((*job, *unit)).or_default().push(*node),
                        Some(reason) => {
                            let failed = FailedUnit { reason, code: Some(outcome.code), node: Some(*node) };
                            self.failed.insert((*job, *unit), format!("{failed:?}"));
                        }
                    }
                }
            }
            Record::Failed { job, unit, failed } => {
                self.failed.insert((*job, *unit), format!("{failed:?}"));
            }
            other => {
                let ours = |job: JobId| other.job().is_none_or(|its| its == job);
                let done = self.done.keys().filter(|key| ours(key.0)).count();
                let failed = self.failed.keys().filter(|key| ours(key.0)).count();
                let marks = self.marks.iter().filter(|(job, _)| ours(**job)).map(|(_, mark)| mark).sum();
                self.others.push((format!("{other:?}"), done, failed, marks));
            }
        }
    }
}

/// The life of a farm of three jobs and four nodes.
fn life(records: u64, seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let mut next = [0_u128; 3];
    let mut life = Vec::new();
    for _ in 0..records {
        let at = random.below(3) as usize;
        let (job, node) = (JobId(at as u64 + 1), NodeId(random.below(4) as u32));
        let unit = next[at];
        life.push(match random.below(40) {
            0 => Record::Leased { job, mark: unit + 100 },
            1 => Record::Retried { job, units: vec![(0, 1)] },
            2 => Record::Tried { job, unit, attempt: Attempt(3), node },
            3 => Record::Node { node, name: format!("n{}", node.0), boot: Boot(random.draw()) },
            4 => {
                next[at] += 1;
                let failed = FailedUnit { reason: FailReason::Poison, code: None, node: None };
                Record::Failed { job, unit, failed }
            }
            5..=15 => {
                let count = 1 + random.below(4);
                next[at] += u128::from(count);
                let units = (0..u128::from(count)).map(|i| (unit + i, outcome(&mut random))).collect();
                Record::Ran { job, attempt: Attempt(9), node, units }
            }
            _ => {
                let length = 1 + u128::from(random.below(5));
                next[at] += length;
                let hits = if random.below(9) == 0 { vec![(unit, random.below(8) as u32)] } else { vec![] };
                Record::Done { job, node, pieces: vec![(unit, unit + length)], hits }
            }
        });
    }
    life
}

fn outcome(random: &mut Random) -> CommandUnit {
    let failed = (random.below(6) == 0).then_some(FailReason::Exit);
    let stdout = Stream::Inline(vec![b'x'; random.below(60) as usize]);
    let outputs = Outputs { files: None, stdout, stderr: Stream::Inline(vec![]) };
    CommandUnit { units: 1, failed, code: failed.map_or(0, |_| 3), duration_us: 5, outputs }
}

fn sum(records: &[Record]) -> Sum {
    let mut sum = Sum::default();
    records.iter().for_each(|record| sum.add(record));
    sum
}

fn options() -> Options {
    Options { segment_bytes: 9_000, ..Options::default() }
}

fn write(journal: &mut Journal, records: &[Record]) {
    let mut body = Vec::new();
    for (i, record) in records.iter().enumerate() {
        body.clear();
        record.encode(&mut body);
        journal.append(EPOCH, journal.last_sequence() + 1, record.kind(), &body).unwrap();
        if i % 7 == 0 {
            journal.commit().unwrap();
        }
    }
    journal.commit().unwrap();
}

fn read(journal: &Journal, after: u64) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    let outcome = journal.replay(after, &mut |frame| {
        records.push(Record::decode(frame.kind, frame.body).unwrap());
        Ok(())
    });
    outcome.map(|()| records).map_err(|error| error.to_string())
}

fn open(dir: &Path) -> Journal {
    let (journal, notes) = Journal::open(dir, FARM, &options()).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    journal
}

#[test]
fn what_is_short_comes_to_the_same() {
    for seed in 0..50 {
        let life = life(400, seed);
        let mut short = Short::default();
        life.iter().for_each(|record| short.add(EPOCH, record.clone()));
        let records: Vec<Record> = short.finish().into_iter().map(|(_, record)| record).collect();
        assert_eq!(sum(&records), sum(&life), "seed {seed}");
        assert!(!records.iter().any(|record| matches!(record, Record::Ran { .. })));
    }
}

/// Who computed what is the same, too: units that failed are a node's as well, and poison is nobody's.
#[test]
fn what_is_short_is_traced_to_the_same_nodes() {
    let traced = |records: &[Record]| {
        let asked: Vec<Trace> = (0..4).map(|node| Trace::Node(NodeId(node))).collect();
        let mut tracing = Tracing::new(&asked);
        records.iter().for_each(|record| tracing.read(record));
        tracing.end().collect::<Vec<_>>()
    };
    for seed in 0..50 {
        let life = life(400, seed);
        let mut short = Short::default();
        life.iter().for_each(|record| short.add(EPOCH, record.clone()));
        let records: Vec<Record> = short.finish().into_iter().map(|(_, record)| record).collect();
        assert_eq!(traced(&records), traced(&life), "seed {seed}");
    }
}

/// Node 1 left out a hit that node 2 found. It is node 1 also where the records are in short by the time that is asked, and
/// node 3 has computed the unit anew by then, and found the hit as well.
#[test]
fn who_computed_a_unit_before_a_conflict_is_known_from_short_records_too() {
    let scratch = Scratch::new();
    let (job, done) = (JobId(1), |node, lo, hi| Record::Done {
        job: JobId(1),
        node: NodeId(node),
        pieces: vec![(lo, hi)],
        hits: vec![],
    });
    let mut life: Vec<Record> = (100..1_100).map(|unit| done(0, unit, unit + 1)).collect();
    life.extend([done(1, 0, 10), Record::Conflict { job, lo: 0, hi: 10, node: NodeId(2) }]);
    let traced = life.len() as u64 + 2;
    life.extend([Record::Rerun { job, units: vec![(0, 10)] }, done(3, 0, 10)]);
    life.extend((1_100..3_000).map(|unit| done(0, unit, unit + 1)));
    let mut journal = open(&scratch.0);
    write(&mut journal, &life);
    let retirer = journal.retirer();
    let asked = [Trace::Missed { job, hit: (5, 0), at: Interval::new(0, 10), second: NodeId(2) }];
    let missed = [Traced::Missed { job, unit: 5, node: NodeId(1), second: NodeId(2) }];
    assert_eq!(retirer.trace(&asked).unwrap(), missed);
    retirer.retire(journal.last_sequence()).unwrap();
    assert!(open(&scratch.0).retired() >= traced);
    assert_eq!(retirer.trace(&asked).unwrap(), missed);
}

#[test]
fn results_of_many_nodes_come_to_a_record_for_each() {
    let mut short = Short::default();
    for unit in 0..1_000_u128 {
        let (job, node) = (JobId(1), NodeId(u32::from(unit >= 500)));
        short.add(EPOCH, Record::Done { job, node, pieces: vec![(unit, unit + 1)], hits: vec![] });
        short.add(EPOCH, Record::Leased { job, mark: unit });
    }
    let records: Vec<Record> = short.finish().into_iter().map(|(_, record)| record).collect();
    let done =
        |node, piece| Record::Done { job: JobId(1), node: NodeId(node), pieces: vec![piece], hits: vec![] };
    assert_eq!(
        records,
        [Record::Leased { job: JobId(1), mark: 999 }, done(0, (0, 500)), done(1, (500, 1_000))]
    );
}

#[test]
fn retired_segments_are_read_from_the_ledger() {
    let scratch = Scratch::new();
    let life = life(3_000, 1);
    let mut journal = open(&scratch.0);
    write(&mut journal, &life[..2_900]);
    let retirer = journal.retirer();
    let files = Files::of(&scratch.0).0.len();
    assert!(files > 8);
    retirer.retire(0).unwrap();
    assert!(!scratch.0.join("ledger").exists(), "nothing lies before the checkpoint");
    retirer.retire(journal.last_sequence()).unwrap();
    let left = |ending: &str| {
        Files::of(&scratch.0).0.keys().filter(|path| path.to_string_lossy().ends_with(ending)).count()
    };
    assert_eq!((left(".seg"), left(".led")), (3, files - 4), "the one in use, the newest two, `synced`");
    write(&mut journal, &life[2_900..]);
    assert!(sum(&read(&journal, 0).unwrap()) == sum(&life));
    drop(journal);
    let journal = open(&scratch.0);
    let retired = journal.retired() as usize;
    assert!(retired > 1_500 && sum(&read(&journal, 0).unwrap()) == sum(&life));
    assert_eq!(read(&journal, retired as u64).unwrap(), life[retired..]);
    assert_eq!(read(&journal, 2_950).unwrap(), life[2_950..]);
}

#[test]
fn segments_are_retired_while_the_journal_is_written() {
    let scratch = Scratch::new();
    let life = life(4_000, 2);
    let mut journal = open(&scratch.0);
    let retirer = journal.retirer();
    for part in life.chunks(400) {
        let up_to = journal.last_sequence();
        std::thread::scope(|scope| {
            let retiring = scope.spawn(|| retirer.retire(up_to).unwrap());
            write(&mut journal, part);
            retiring.join().unwrap();
        });
    }
    drop(journal);
    let journal = open(&scratch.0);
    assert!(journal.retired() > 3_000 && sum(&read(&journal, 0).unwrap()) == sum(&life));
}

#[test]
fn a_crash_while_a_segment_is_retired_loses_nothing() {
    let scratch = Scratch::new();
    let life = life(1_500, 3);
    let mut journal = open(&scratch.0);
    write(&mut journal, &life);
    let before = Files::of(&scratch.0);
    journal.retirer().retire(journal.last_sequence()).unwrap();
    drop(journal);
    let after = Files::of(&scratch.0);
    let (ledger, whole) = after.0.iter().find(|(path, _)| path.ends_with("00000001.led")).unwrap();
    for end in (0..=whole.len()).rev().step_by(211).chain([0, 1]) {
        let mut files = before.clone();
        files.0.insert(ledger.clone(), whole[..end].to_vec());
        files.put(&scratch.0);
        let journal = open(&scratch.0);
        assert!(sum(&read(&journal, 0).unwrap()) == sum(&life), "{end} of {} bytes", whole.len());
        assert!(!ledger.exists() || !scratch.segment(1).exists(), "one of the two is left");
        assert_eq!(ledger.exists(), end == whole.len(), "the whole one stays");
        journal.retirer().retire(journal.last_sequence()).unwrap();
        assert!(sum(&read(&open(&scratch.0), 0).unwrap()) == sum(&life), "retired after all");
    }
}

#[test]
fn a_ledger_segment_of_another_history_is_refused() {
    let mut life = life(1_500, 6);
    let mut ledgers = Vec::new();
    let scratch = Scratch::new();
    for node in [NodeId(0), NodeId(1)] {
        life[0] = Record::Pardoned { node, boot: Boot(1) };
        Files(BTreeMap::new()).put(&scratch.0);
        let mut journal = open(&scratch.0);
        write(&mut journal, &life);
        journal.retirer().retire(journal.last_sequence()).unwrap();
        ledgers.push(Files::of(&scratch.0));
    }
    let path = scratch.0.join("ledger/00000001.led");
    ledgers[1].put(&scratch.0);
    fs::write(&path, &ledgers[0].0[&path]).unwrap();
    let words = read(&open(&scratch.0), 0).unwrap_err();
    assert!(words.contains("00000002.led") && words.contains("follow the one before"), "{words}");
}

#[test]
fn a_damaged_ledger_is_refused_in_words() {
    let scratch = Scratch::new();
    let mut journal = open(&scratch.0);
    write(&mut journal, &life(1_500, 4));
    journal.retirer().retire(journal.last_sequence()).unwrap();
    drop(journal);
    let files = Files::of(&scratch.0);
    let mut random = Random(5);
    let outcome = || match Journal::open(&scratch.0, FARM, &options()) {
        Ok((journal, _)) => read(&journal, 0),
        Err(error) => Err(error.to_string()),
    };
    let ledgers: Vec<_> =
        files.0.keys().filter(|path| path.extension().is_some_and(|e| e == "led")).collect();
    for trial in 0..200 {
        let path = ledgers[random.below(ledgers.len() as u64) as usize];
        let mut files = files.clone();
        let bytes = files.get(path);
        // The head's zeros carry nothing.
        let at = random.below(bytes.len() as u64 - 4_028) as usize;
        let at = if at < 68 { at } else { at + 4_028 };
        bytes[at] ^= 1 << random.below(8);
        files.put(&scratch.0);
        let words = outcome().unwrap_err();
        assert!(
            words.contains(&*path.to_string_lossy()) && words.contains("Restore"),
            "trial {trial}: {words}"
        );
    }
    for path in ledgers {
        files.put(&scratch.0);
        fs::remove_file(path).unwrap();
        let words = outcome().unwrap_err();
        assert!(words.contains("missing"), "{words}");
    }
}
