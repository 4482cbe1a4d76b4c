//! What the XML log costs: entries and bytes a second, written into segments as a scheduler does, and read back; for
//! `tasks` events alone, of which a long run's log is made. All on one core, from and to the page cache.
//!
//! `cargo run --release -p starfarm-benches --bin log_rate -- [EVENTS]`

use std::error::Error;
use std::fs;
use std::time::Instant;

use starfarm_events::{Event, Name, Outcome, Snapshot};
use starfarm_logs::{Item, Limits, LogWriter, open, validate};
use starfarm_protocol::ids::{Epoch, FarmId, JobId};

const EVENTS: u64 = 3_200_000;
const NODES: u64 = 300;

fn main() -> Result<(), Box<dyn Error>> {
    let events = std::env::args().nth(1).map_or(Ok(EVENTS), |events| events.parse())?;
    let dir = std::env::temp_dir().join(format!("starfarm-log-rate-{}", std::process::id()));
    let outcome = measure(&dir, events);
    fs::remove_dir_all(&dir)?;
    outcome
}

fn measure(dir: &std::path::Path, events: u64) -> Result<(), Box<dyn Error>> {
    let names: Vec<Name> = (0..NODES).map(|node| format!("node-{node:03}").into()).collect();
    let mut writer = LogWriter::open(dir, FarmId([7; 16]), Epoch(1), Limits::default())?;
    let begin_us = 1_795_262_400_000_000;
    let start = Instant::now();
    let mut at_us = begin_us;
    for number in 0..events {
        at_us += 200_000;
        if writer.wants_snapshot(at_us) {
            writer.begin(at_us, at_us, at_us - begin_us, &Snapshot::default())?;
        }
        writer.event(at_us, &task(&names[(number % NODES) as usize], number, at_us))?;
    }
    writer.close(at_us, at_us)?;
    let written_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let (mut read, mut segments) = (0, 0);
    for item in open(dir)? {
        match item? {
            Item::Event(..) => read += 1,
            Item::Opened(_) => segments += 1,
            _ => {}
        }
    }
    let read_s = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let bytes = validate(dir)?.bytes;
    let validated_s = start.elapsed().as_secs_f64();
    println!("{read} of {events} events in {segments} segments, {bytes} bytes");
    println!("{:<10} {:>8} {:>12} {:>8}", "", "s", "entries/s", "MB/s");
    for (what, seconds) in [("written", written_s), ("read", read_s), ("validated", validated_s)] {
        let (rate, mb) = (events as f64 / seconds, bytes as f64 / seconds / 1e6);
        println!("{what:<10} {seconds:>8.2} {rate:>12.0} {mb:>8.0}");
    }
    Ok(())
}

fn task(node: &Name, number: u64, at_us: u64) -> Event {
    let lo = u128::from(number) << 40;
    Event::Tasks {
        node: node.clone(),
        job: JobId(1 + number % 3),
        lo,
        hi: lo + (1 << 40),
        results: 1,
        outcome: Outcome::Counted,
        given_us: Some(at_us - 61_000_000),
        begun_us: at_us - 60_000_000,
        ended_us: at_us,
        busy_us: 59_999_000,
    }
}
