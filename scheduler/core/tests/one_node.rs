//! What one node may have the farm do, whatever it says: what it names is no state, each message costs a bounded time, and
//! its figures grow by what a worker can have counted. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::wire::{Facts, Heartbeat, Held, Message, Packer, messages};
use starfarm_scheduler_core::{NodeId, Record};

const A: NodeId = NodeId(0);

/// The jobs whose units node a was told to let go of since the script went on last.
fn withdrawn(bench: &Bench) -> Vec<JobId> {
    let to_a = bench.sent.iter().filter(|(id, _)| *id == A);
    let said = to_a.flat_map(|(_, datagram)| messages(datagram).map(Result::unwrap));
    said.filter_map(|message| if let Message::Revoke(revoke) = message { Some(revoke.job) } else { None })
        .collect()
}

/// A heartbeat of node a in one part, or the first of `parts`.
fn beat(bench: &mut Bench, held: Vec<Held>, parts: u16) {
    let mut packer = Packer::new();
    packer.heartbeat(&Heartbeat { number: 7, held, ..Heartbeat::default() });
    let mut datagram = packer.finish().remove(0);
    // Kind, length, number, part; then parts.
    datagram[9..11].copy_from_slice(&parts.to_le_bytes());
    bench.hear(A, &datagram);
}

fn unknown(jobs: std::ops::Range<u64>) -> Vec<Held> {
    jobs.map(|job| Held { job: JobId(job), lo: 0, units: 1 }).collect()
}

/// The dispatcher stood still for seconds: each of them was looked for among all that waited to be told.
#[test]
fn a_node_that_lists_ever_new_jobs_is_told_of_some_each_second_and_of_all_in_the_end() {
    let mut bench = Bench::new(config());
    bench.run("submit 10 units 1\n join a slots 1\n ack a");
    for first in (1_000..13_000).step_by(40) {
        beat(&mut bench, unknown(first..first + 40), 1);
    }
    bench.run("& tasks a\n at 0");
    assert_eq!(withdrawn(&bench).len(), 256);
    for second in 1..=3 {
        bench.run(&format!("at {second}000"));
        for first in (1_000..1_400).step_by(40) {
            beat(&mut bench, unknown(first..first + 40), 1);
        }
        bench.run("tasks a");
        assert_eq!(withdrawn(&bench).len(), 256, "each second as many");
    }
    // Whoever lists as much as a worker may hold hears of each of them within seconds.
    bench.run("at 9000");
    beat(&mut bench, unknown(1_000..1_030), 1);
    bench.run("tasks a");
    assert_eq!(withdrawn(&bench), (1_000..1_030).map(JobId).collect::<Vec<_>>());
}

#[test]
fn what_is_revoked_twice_is_told_once_and_the_later_word_holds() {
    let mut bench = Bench::new(config());
    bench.run("submit 10 units 1\n join a slots 1\n ack a");
    let story = bench.run("& pause 1\n & resume 1\n pause 1");
    assert_eq!(story.matches("withdraw job 1").count(), 1, "{story}");
}

/// It takes as many bits, and a node of which each part is another one's is never whole.
#[test]
fn a_heartbeat_of_more_parts_than_a_worker_can_fill_is_against_the_rules() {
    let mut bench = Bench::new(config());
    bench.run("submit 10 units 1\n join a slots 1\n ack a\n at 70000");
    assert!(bench.run("nodes").contains("a lost"));
    bench.run("session a\n hello a\n ack a");
    let held = || vec![Held { job: JobId(1), lo: 0, units: 10 }];
    for (parts, is_listed) in [(1_025, false), (u16::MAX, false), (1_024, true)] {
        // An attempt that is not listed for 80 s goes back.
        for _ in 0..50 {
            let at_ms = bench.now_us / 1_000 + 2_000;
            beat(&mut bench, held(), parts);
            beat(&mut bench, Vec::new(), 1);
            bench.run(&format!("at {at_ms}"));
        }
        let resent = bench.farm.jobs(bench.now_us)[0].totals.resent;
        assert_eq!(bench.run("nodes").contains("a up"), is_listed, "{parts} parts, {resent} resent");
        bench.run("undrain a\n ack a");
    }
}

/// One datagram of random numbers added up to 2 147 483 647 to the farm's figures.
#[test]
fn speed_ups_are_believed_as_fast_as_a_worker_counts_them() {
    let mut bench = Bench::new(config());
    bench.run("join a slots 1");
    let told = |bench: &mut Bench, script: &str| {
        bench.run(script);
        let status = bench.farm.nodes(bench.now_us).remove(0);
        (status.speed_ups, status.slow_downs)
    };
    assert_eq!(told(&mut bench, "feedback a 3 1"), (3, 1), "what is honest counts at once");
    assert_eq!(told(&mut bench, "feedback a 2000000003 1"), (1_024, 1));
    assert_eq!(told(&mut bench, "feedback a 4000000003 1"), (1_024, 1));
    assert_eq!(told(&mut bench, "at 2000\n feedback a 4000000103 1500000001"), (1_044, 1_025));
    // A scheduler that was away hears of it all in one.
    assert_eq!(told(&mut bench, "at 4000\n feedback a 4000000123 1500000001"), (1_064, 1_025));
}

fn deaths(bench: &Bench) -> Vec<u128> {
    let died = |record: &Record| if let Record::Died { unit, .. } = record { Some(*unit) } else { None };
    bench.records.iter().filter_map(died).collect()
}

/// The units that node a has.
fn its(bench: &mut Bench) -> impl Iterator<Item = u128> {
    let held = bench.farm.picture(bench.now_us).held.into_iter();
    held.filter(|held| held.node.as_deref() == Some("a")).flat_map(|held| held.lo..held.hi)
}

/// Ten starts a second that each named other units made a record of each, and set these units apart.
#[test]
fn a_node_is_charged_with_the_units_that_it_had_and_with_so_many_each_second() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 100000 command units 500\n join b slots 1\n ack b\n join c slots 1\n join a slots 1\n ack a",
    );
    for boot in 2..8 {
        let first = 50_000 + 30 * boot;
        let named: Vec<String> = (first..first + 30).map(|unit| unit.to_string()).collect();
        bench.run(&format!("hello a boot {boot} died {}", named.join(",")));
    }
    assert_eq!(deaths(&bench), [], "none of that was ever at it");
    bench.run("ack a");
    let mut boot = 100;
    for _ in 0..20 {
        let named: Vec<String> = its(&mut bench).take(30).map(|unit| unit.to_string()).collect();
        boot += 1;
        bench.run(&format!("hello a boot {boot} died {}\n ack a", named.join(",")));
    }
    assert!((200..=256).contains(&deaths(&bench).len()), "{}", deaths(&bench).len());
    let before = deaths(&bench).len();
    bench.run("at 3000\n beat a none");
    let unit = its(&mut bench).next().unwrap();
    bench.run(&format!("hello a boot 900 died {unit}"));
    assert_eq!(deaths(&bench).len(), before + 1, "an honest one is heard a second later");
}

/// It was left undone without a word, so nobody could tell which of a thousand nodes it was.
#[test]
fn what_a_node_says_too_often_is_counted_against_it() {
    let mut bench = Bench::new(config());
    bench.run("join b slots 1\n join a slots 1");
    let counted = |bench: &mut Bench| {
        let nodes = bench.farm.nodes(bench.now_us);
        let of = |name: &str| nodes.iter().find(|node| node.name == name).unwrap().malformed;
        (of("a"), of("b"))
    };
    (2..33).for_each(|boot| drop(bench.run(&format!("hello a boot {boot}"))));
    assert_eq!(counted(&mut bench), (0, 0), "a worker may start and die for a while");
    bench.run("hello a boot 33\n hello a boot 34");
    assert_eq!(counted(&mut bench), (2, 0));
    bench.run("at 1000\n hello a boot 35\n feedback a 0 0\n feedback a 2000 0\n feedback a 2000 0");
    assert_eq!(counted(&mut bench), (2, 0), "what a scheduler did not hear for minutes comes at once");
    bench.run("feedback a 4000 0");
    assert_eq!(counted(&mut bench), (3, 0));
    for cores in 1..=6 {
        let mut packer = Packer::new();
        packer.facts(&Facts { cores, ..facts() });
        let datagram = packer.finish().remove(0);
        [&datagram, &datagram].into_iter().for_each(|datagram| bench.hear(A, datagram));
    }
    // Each came twice; what was dropped is news again.
    assert_eq!(counted(&mut bench), (7, 0), "four changes are taken at once");
}

fn facts() -> Facts {
    let text = String::from;
    Facts { system: text("s"), cpu: text("c"), cores: 1, memory_bytes: 1, accelerators: String::new() }
}

/// Four starts of one worker within a second were taken for a power cut, for which no unit is to blame.
#[test]
fn one_node_that_dies_over_and_over_is_no_power_cut() {
    let mut bench = Bench::new(config());
    bench.run("submit 3 command units 1\n join a slots 1\n ack a\n join b slots 1");
    let story = bench.run(
        "hello a boot 2 died 0\n ack a\n hello a boot 3 died 0\n ack a\n hello a boot 4 died 0\n ack a
         hello a boot 5 died 0\n ack a\n hello a boot 6 died 0\n ack a\n bye b\n hello a boot 7 died 0",
    );
    let pardoned = bench.records.iter().any(|record| matches!(record, Record::Pardoned { .. }));
    assert!(!pardoned && !deaths(&bench).is_empty(), "{story}");
}
