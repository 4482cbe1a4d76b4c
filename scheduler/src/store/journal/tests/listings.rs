//! Lists of hits: in order, each once, all of them, whatever is rewritten meanwhile.

use starfarm_protocol::ids::{ContentHash, JobId, NodeId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::record::{Ended, JobTotals};

use super::super::listing::Lister;
use super::{EPOCH, FARM, Options, Random, Scratch, new_journal};
use crate::store::journal::Journal;

const JOB: JobId = JobId(1);
type Hit = (u128, u32);

fn put(journal: &mut Journal, record: &Record) {
    let (sequence, mut body) = (journal.last_sequence() + 1, Vec::new());
    record.encode(&mut body);
    journal.append(EPOCH, sequence, record.kind(), &body).unwrap();
}

/// Hits of job 1, a hundred in a record, in no order; records of another job lie between them.
fn write(journal: &mut Journal, hits: &mut [Hit], random: &mut Random) {
    for at in (1..hits.len()).rev() {
        hits.swap(at, random.below(at as u64 + 1) as usize);
    }
    for some in hits.chunks(100) {
        let node = NodeId(random.below(3) as u32);
        let (pieces, hits) = (Vec::new(), some.to_vec());
        put(journal, &Record::Done { job: JOB, node, pieces: pieces.clone(), hits });
        put(journal, &Record::Done { job: JobId(2), node, pieces, hits: vec![(random.draw().into(), 0)] });
        if random.below(50) == 0 {
            journal.commit().unwrap();
        }
    }
    journal.commit().unwrap();
    hits.sort_unstable();
}

fn ended() -> Record {
    let (state, totals) = (JobState::Finished, JobTotals::default());
    Record::Ended(Ended { job: JOB, state, done: 0, failed: 0, abandoned: Vec::new(), totals })
}

fn hash(hits: &[Hit]) -> ContentHash {
    let lines: String = hits.iter().map(|(unit, target)| format!("{unit} {target}\n")).collect();
    ContentHash::of(lines.as_bytes())
}

/// As many as three times fit into memory, some of them in the ledger; those of a later scheduler come again.
#[test]
fn all_hits_are_listed_once_and_in_order() {
    let (scratch, mut random) = (Scratch::new(), Random(5));
    let mut journal = new_journal(&scratch.0, &Options { segment_bytes: 100_000, ..Options::default() });
    let mut hits: Vec<Hit> = (0..300_000).map(|unit| (unit * 3, (unit % 7) as u32)).collect();
    write(&mut journal, &mut hits, &mut random);
    put(&mut journal, &ended());
    let mut late: Vec<Hit> = vec![(1, 0), (899_998, 5)];
    write(&mut journal, &mut late, &mut random);
    let lister = Lister::new(scratch.0.clone(), FARM);
    let mut all: Vec<Hit> = [&hits[..], &late].concat();
    all.sort_unstable();
    for _ in 0..2 {
        let listing = lister.list(JOB, journal.last_sequence()).unwrap();
        assert_eq!(listing.hits(), 300_002);
        assert!(listing.page(0, u64::MAX).unwrap() == all);
        assert_eq!(listing.page(200_000, 3).unwrap(), all[200_000..200_003]);
        assert_eq!(
            (listing.page(300_001, 9).unwrap(), listing.page(300_002, 9).unwrap()),
            (vec![(899_998, 5)], vec![])
        );
        let at_end = journal.retirer().hits_at_end(JOB).unwrap();
        assert_eq!(
            (at_end.hits(), at_end.hash().unwrap()),
            (300_000, hash(&hits)),
            "the late ones are not in it"
        );
        journal.retirer().retire(journal.last_sequence()).unwrap();
        assert!(!scratch.segment(1).exists(), "it is in the ledger");
    }
    assert_eq!(lister.list(JobId(3), 0).unwrap().hits(), 0);
    let why =
        lister.list(JOB, journal.last_sequence() + 1).expect_err("that record is not there").to_string();
    assert!(why.contains("the journal ends at record"), "{why}");
    let files = std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.filter(|name| name != "journal" && name != "ledger").count(), 0, "no file is left");
}

#[test]
fn a_list_is_whole_while_segments_are_rewritten() {
    let (scratch, mut random) = (Scratch::new(), Random(6));
    let mut journal = new_journal(&scratch.0, &Options { segment_bytes: 20_000, ..Options::default() });
    let mut hits: Vec<Hit> = (0..40_000).map(|unit| (unit, 0)).collect();
    write(&mut journal, &mut hits, &mut random);
    let (retirer, last) = (journal.retirer(), journal.last_sequence());
    let lister = Lister::new(scratch.0.clone(), FARM);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in (0..last).step_by(20) {
                retirer.retire(sequence).unwrap();
            }
        });
        for _ in 0..20 {
            assert_eq!(lister.list(JOB, last).unwrap().hits(), 40_000);
        }
    });
}
