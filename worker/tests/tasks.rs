//! Real worker processes against a fake scheduler: tasks of each executor, from the offer to the result.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod fake;

use std::collections::BTreeMap;
use std::path::Path;

use fake::Fake;
use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::spec::{
    Algorithm, Chunk, CommandWork, HexBytes, Interval, JobSpec, OutputLimit, OwnSpace, SearchWork, Space,
    Stop, Work,
};
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::{Cancel, CommandUnit, FailReason, HitEntry, Outcome, Stream};

fn range(units: i64) -> Space {
    Space::Range { from: 0, to: units, step: 1 }
}

fn command(space: Space, program: &[&str]) -> JobSpec {
    let program = program.iter().map(|word| (*word).to_owned()).collect();
    let env = BTreeMap::from([("UNIT_VALUE".to_owned(), "v{}".to_owned())]);
    let output_limit = OutputLimit::default();
    JobSpec {
        space,
        work: Work::Command(CommandWork { program, env, output_limit, ..CommandWork::default() }),
    }
}

/// The records of a command job's units, in unit order, each once.
fn units(fake: &Fake, job: u64) -> Vec<CommandUnit> {
    let shared = fake.lock();
    let mut results: Vec<_> =
        shared.results.iter().filter(|r| r.job.0 == job && r.outcome == Outcome::Done).collect();
    results.sort_by_key(|r| r.lo);
    let mut next = 0;
    let mut units = Vec::new();
    for result in results {
        assert_eq!(result.lo, next, "parts tile the job");
        next += u128::from(result.units);
        let records = CommandUnit::read_all(&result.body).unwrap();
        assert_eq!(records.len() as u64, result.units, "a record a unit");
        units.extend(records);
    }
    units
}

fn text(stream: &Stream) -> String {
    let Stream::Inline(bytes) = stream else { panic!("{stream:?} is not inline") };
    String::from_utf8(bytes.clone()).unwrap()
}

#[test]
fn tasks_without_work_all_come_back_once() {
    let fake = Fake::start();
    let spec = fake.spec(&JobSpec { space: range(5_000), work: Work::Nothing });
    let _worker = fake.worker("a", &["--slots", "2"]);
    (0..5_000).for_each(|lo| fake.offer(1, spec, lo, 1));
    fake.until("5000 units", |shared| shared.results.len() >= 5_000);
    assert_eq!(fake.units(1, Outcome::Done), 5_000);
    let mut seen: Vec<_> = fake.lock().results.iter().map(|r| r.lo).collect();
    seen.sort_unstable();
    assert!(seen.iter().enumerate().all(|(i, lo)| *lo == i as u128));
    assert_eq!(fake.lock().gets, 1, "the specification travels once");
}

#[test]
fn a_part_of_a_job_runs_by_the_rules_of_gnu_parallel_with_its_old_numbers_and_reads_its_own_files() {
    let fake = Fake::start();
    let dir = std::env::temp_dir().join(format!("starfarm-stdin-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for unit in [3, 4] {
        std::fs::write(dir.join(format!("{unit}.in")), format!("input {unit}\n")).unwrap();
    }
    let of = |lo, hi| Interval { lo: Units(lo), hi: Units(hi) };
    let words = ["sh", "-c", "cat; echo {} {#} {index} $STARFARM_UNIT_INDEX"].map(str::to_owned);
    let stdin = Some(dir.join("{.}.in").to_str().unwrap().to_owned());
    let work = CommandWork { program: words.to_vec(), parallel: true, stdin, ..CommandWork::default() };
    let space = Space::Subset { of: Box::new(range(9)), units: vec![of(3, 5), of(8, 9)] };
    let spec = fake.spec(&JobSpec { space, work: Work::Command(work) });
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 3);
    fake.until("3 units", |shared| shared.results.iter().map(|result| result.units).sum::<u64>() >= 3);
    std::fs::remove_dir_all(dir).unwrap();
    let units = units(&fake, 1);
    assert_eq!(text(&units[0].outputs.stdout), "input 3\n3 4 {index} 3\n");
    assert_eq!(text(&units[1].outputs.stdout), "input 4\n4 5 {index} 4\n");
    assert_eq!(units[2].failed, Some(FailReason::Exit), "its input is not there");
    let said = text(&units[2].outputs.stderr);
    assert!(said.starts_with("the standard input `") && said.contains("8.in` cannot be read"), "{said}");
}

#[test]
fn a_command_sees_its_unit_and_its_output_comes_back() {
    let fake = Fake::start();
    let script = "echo \"$1 $UNIT_VALUE $STARFARM_JOB $STARFARM_ATTEMPT $STARFARM_UNIT_INDEX\"; \
                  echo err >&2; test -d \"$STARFARM_SCRATCH\" || exit 9; test -e \"$STARFARM_SCRATCH/x\" && exit 8; \
                  if test $1 = 5; then rm -r \"$STARFARM_SCRATCH\"; \
                  elif test $1 = 7 || test $1 = 39; then rm -r \"$STARFARM_SCRATCH\"; touch \"$STARFARM_SCRATCH\"; else touch \"$STARFARM_SCRATCH/x\"; fi; exit $(( $1 % 3 ))";
    let spec = fake.spec(&command(range(40), &["sh", "-c", script, "sh", "{}"]));
    let _worker = fake.worker("a", &["--slots", "2"]);
    fake.offer(7, spec, 0, 15);
    fake.offer(7, spec, 15, 25);
    fake.until("40 units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 40);
    for (i, unit) in units(&fake, 7).iter().enumerate() {
        let attempt = 1 + usize::from(i >= 15);
        assert_eq!(text(&unit.outputs.stdout), format!("{i} v{i} 7 {attempt} {i}\n"));
        assert_eq!(text(&unit.outputs.stderr), "err\n");
        assert_eq!((unit.code, unit.failed), ((i % 3) as i32, (i % 3 > 0).then_some(FailReason::Exit)));
    }
    let scratch = std::fs::read_dir(fake.dir.join("a/scratch")).unwrap();
    fake.until("the last scratch directory to go", |_| {
        std::fs::read_dir(fake.dir.join("a/scratch")).unwrap().count() == 0
    });
    drop(scratch);
}

/// It lies on the machine that submitted and on other nodes; here every unit would fail in a millisecond.
#[test]
fn a_node_that_lacks_the_program_refuses_the_task_and_fails_no_unit() {
    let fake = Fake::start();
    let spec = fake.spec(&command(range(40), &["/no/such/program", "{}"]));
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 40);
    fake.until("a refusal", |shared| shared.results.len() == 1);
    let shared = fake.lock();
    let refusal = &shared.results[0];
    assert_eq!((refusal.outcome, refusal.lo, refusal.units), (Outcome::Refused, 0, 40));
    let why = String::from_utf8(refusal.body.clone()).unwrap();
    assert!(why.contains("`/no/such/program` does not exist on this node"), "{why}");
}

/// A folder that the job names is needed; the one that the job file lies in is so only where it is there.
#[test]
fn a_node_without_the_jobs_folder_refuses_it_and_without_the_job_files_uses_its_own() {
    let fake = Fake::start();
    let mut job = command(range(1), &["pwd"]);
    let mut in_folder = |path: &str, optional: bool| {
        let Work::Command(work) = &mut job.work else { panic!("a command") };
        (work.cwd, work.cwd_optional) = (Some(path.to_owned()), optional);
        fake.spec(&job)
    };
    let (there, gone, home) =
        (in_folder("/", false), in_folder("/no/such", false), in_folder("/no/such", true));
    let _worker = fake.worker("a", &["--slots", "1"]);
    for (job, spec) in [(1, there), (2, gone), (3, home)] {
        fake.offer(job, spec, 0, 1);
    }
    fake.until("3 results", |shared| shared.results.len() == 3);
    assert_eq!(text(&units(&fake, 1)[0].outputs.stdout), "/\n");
    let own = text(&units(&fake, 3)[0].outputs.stdout);
    assert_eq!(Path::new(own.trim_end()), std::env::current_dir().unwrap());
    let shared = fake.lock();
    let refused = shared.results.iter().find(|result| result.job.0 == 2).unwrap();
    assert_eq!(refused.outcome, Outcome::Refused);
    assert!(String::from_utf8_lossy(&refused.body).contains("`/no/such` is not a directory on this node"));
}

/// What is started is another program for each unit: that one is missing says nothing of the others.
#[test]
fn where_the_unit_names_the_program_a_missing_one_is_the_units_failure() {
    let fake = Fake::start();
    let lines = fake.content(b"true\n/no/such/program\ntrue\n".to_vec());
    let spec = fake.spec(&command(Space::List { chunks: vec![Chunk { hash: lines, units: 3 }] }, &["{}"]));
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 3);
    fake.until("3 units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 3);
    let ran: Vec<_> = units(&fake, 1).iter().map(|unit| (unit.failed, unit.code)).collect();
    assert_eq!(ran, [(None, 0), (Some(FailReason::Exit), -1), (None, 0)]);
}

#[test]
fn long_output_is_uploaded_before_its_result() {
    let fake = Fake::start();
    let spec = fake.spec(&command(range(3), &["sh", "-c", "head -c 200000 /dev/zero; echo short >&2"]));
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 3);
    fake.until("3 units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 3);
    for unit in units(&fake, 1) {
        let Stream::Uploaded { hash, kept, total } = unit.outputs.stdout else { panic!("{unit:?}") };
        assert_eq!((kept, total), (200_000, 200_000));
        assert_eq!(fake.lock().contents[&hash], vec![0; 200_000]);
        assert_eq!(text(&unit.outputs.stderr), "short\n");
    }
}

#[test]
fn lines_of_a_list_are_fetched_in_the_pieces_that_are_needed() {
    let fake = Fake::start();
    let mut chunks = Vec::new();
    for piece in 0..3 {
        let lines: String = (0..10).map(|line| format!("line {piece}.{line}\n")).collect();
        chunks.push(Chunk { hash: fake.content(lines.into_bytes()), units: 10 });
    }
    let spec = fake.spec(&command(Space::List { chunks }, &["echo", "{}"]));
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 12);
    fake.until("12 units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 12);
    let said: Vec<_> = units(&fake, 1).iter().map(|unit| text(&unit.outputs.stdout)).collect();
    assert_eq!((said[0].as_str(), said[11].as_str()), ("line 0.0\n", "line 1.1\n"));
    assert_eq!(fake.lock().gets, 3, "the specification and two of three pieces");
}

/// Two jobs of one specification, whose program has named other units for each.
#[test]
fn units_that_a_program_named_are_asked_for_and_fetched() {
    let fake = Fake::start();
    let own = OwnSpace {
        program: vec!["cases".into()],
        names: vec!["a".into(), "b".into()],
        cwd: None,
        timeout_ms: 1,
    };
    let spec = fake.spec(&command(Space::Program(Box::new(own)), &["echo", "{index}", "{b}", "{a}"]));
    for (job, first) in [(1, 0), (1, 2), (2, 0)] {
        let line = |unit| format!("[\"a{unit}\",\"job {job}\"]\n");
        let hash = fake.content((first..first + 2).map(line).collect::<String>().into_bytes());
        fake.lock().located.push((JobId(job), Located { hash, first, units: 2 }));
    }
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 3);
    fake.offer(2, spec, 1, 1);
    fake.offer(2, spec, 2, 1);
    fake.until("5 units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 5);
    let said = |job| units(&fake, job).iter().map(|unit| text(&unit.outputs.stdout)).collect::<Vec<_>>();
    assert_eq!(said(1), ["0 job 1 a0\n", "1 job 1 a1\n", "2 job 1 a2\n"]);
    let shared = fake.lock();
    let of = |lo| shared.results.iter().find(|result| (result.job.0, result.lo) == (2, lo)).unwrap();
    let done = &CommandUnit::read_all(&of(1).body).unwrap()[0];
    assert_eq!(text(&done.outputs.stdout), "1 job 2 a1\n");
    assert_eq!(of(2).outcome, Outcome::Refused);
    assert!(String::from_utf8_lossy(&of(2).body).contains("nobody named unit 2 of job 2"));
}

#[test]
fn a_search_reports_its_hits() {
    let fake = Fake::start();
    let positions = vec![HexBytes((b'a'..=b'z').collect()); 4];
    // md5 of "gold" and of "zzzz".
    let targets = ["e07e81c20cf5935f5225765f0af81755", "02c425157ecd32f259548b33402ff6d3"];
    let targets =
        targets.iter().map(|hex| HexBytes(starfarm_protocol::ids::from_hex(hex).unwrap())).collect();
    let work =
        Work::Search(SearchWork { algorithm: Algorithm::Md5, targets, stop: Stop::Never, needs: None });
    let spec = fake.spec(&JobSpec { space: Space::Chars { positions, min: 4 }, work });
    let _worker = fake.worker("a", &["--slots", "2"]);
    let all = 26_u64.pow(4);
    (0..26).for_each(|i| fake.offer(1, spec, u128::from(i * all / 26), all / 26));
    fake.until("the whole space", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == all);
    let mut hits = Vec::new();
    for result in &fake.lock().results {
        for hit in HitEntry::read_all(&result.body).unwrap() {
            hits.push((result.lo + u128::from(hit.offset), hit.target));
        }
    }
    hits.sort_unstable();
    let gold = b"gold".iter().fold(0, |unit, c| unit * 26 + u128::from(c - b'a'));
    assert_eq!(hits, [(gold, 0), (u128::from(all) - 1, 1)]);
}

#[test]
fn a_job_that_cannot_be_had_or_used_is_refused_in_words() {
    let fake = Fake::start();
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, ContentHash([9; 32]), 0, 5);
    fake.offer(2, fake.content(b"no json".to_vec()), 0, 5);
    let beyond = fake.spec(&JobSpec { space: range(5), work: Work::Nothing });
    fake.offer(3, beyond, 3, 5);
    fake.until("three refusals", |shared| shared.results.len() == 3);
    for (job, words) in [(1, "no content"), (2, "cannot be read"), (3, "beyond the end")] {
        assert_eq!(fake.units(job, Outcome::Refused), 5);
        let shared = fake.lock();
        let body = &shared.results.iter().find(|r| r.job.0 == job).unwrap().body;
        assert!(String::from_utf8_lossy(body).contains(words), "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_withdrawal_ends_a_running_program_and_gives_its_units_back() {
    let fake = Fake::start();
    let spec = fake.spec(&command(range(10), &["sleep", "1000"]));
    let nothing = fake.spec(&JobSpec { space: range(10), work: Work::Nothing });
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 10);
    fake.until("the sleep to run", |shared| shared.beat.running.len() == 1);
    fake.offer(2, nothing, 0, 10);
    fake.revoke(1, Cancel::Forced);
    fake.until("the units", |shared| shared.results.iter().map(|r| r.units).sum::<u64>() == 20);
    assert_eq!((fake.units(1, Outcome::Returned), fake.units(2, Outcome::Done)), (10, 10));
}

#[test]
fn a_fetch_that_breaks_off_goes_on_where_it_was() {
    let fake = Fake::start();
    let targets: Vec<_> = (0..10_000_u128).map(|i| HexBytes(i.to_be_bytes().to_vec())).collect();
    let work =
        Work::Search(SearchWork { algorithm: Algorithm::Md5, targets, stop: Stop::Never, needs: None });
    let positions = vec![HexBytes(b"ab".to_vec())];
    let spec = fake.spec(&JobSpec { space: Space::Chars { positions, min: 1 }, work });
    fake.lock().cut_after = Some(2);
    let _worker = fake.worker("a", &["--slots", "1"]);
    fake.offer(1, spec, 0, 2);
    fake.until("the result", |shared| shared.results.len() == 1);
    assert_eq!(fake.units(1, Outcome::Done), 2);
    let two_chunks = 2 * starfarm_protocol::bulk::CHUNK_BYTES as u64;
    assert_eq!(fake.lock().offsets, [0, two_chunks]);
}
