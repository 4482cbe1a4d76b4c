//! What comes in files that others hand over, or that a disk may give back changed: join files, keys, specifications, records
//! of the journal, spools, logs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use starfarm_decomposers::{NoChunks, open};
use starfarm_events::Event;
use starfarm_fuzz::{hex_file, show};
use starfarm_logs::{Limits, LogReader, LogWriter};
use starfarm_overlay_core::plan::topology::Topology;
use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId, PublicKey, from_hex};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::journal::Record;
use starfarm_protocol::journal::frame::{self, Found, Place};
use starfarm_protocol::journal::segment::Head;
use starfarm_protocol::journal::synced;
use starfarm_protocol::seal::{Claim, KeyStore, Role, Secret};
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::wire::Outcome;
use starfarm_worker_core as worker;

const FARM: FarmId = FarmId([0x66; 16]);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name)
}

/// A folder of this process, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("starfarm-fuzz-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn join_files() {
    let join = |addresses: &[&str], role| {
        let addresses = addresses.iter().map(|&address| address.to_owned()).collect();
        JoinFile::new(FARM, addresses, PublicKey([7; 32]), Secret([5; 32]), role)
            .to_text()
            .as_bytes()
            .to_vec()
    };
    let good = [
        join(&["farm.example:7117", "[2001:db8::1]:7117"], Role::Worker),
        join(&["10.0.0.1:7117"], Role::Observer),
    ];
    show("join", &good, 20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(join) = JoinFile::from_text(text) {
            let again = JoinFile::from_text(&join.to_text()).unwrap();
            assert_eq!(again.to_text().as_str(), join.to_text().as_str());
        }
    });
}

#[test]
fn topologies() {
    let good = ["a:0 => b:0 b:1 ; # two\nb:0 => c:0 ;", "root:7 ;", "f:0=>n1:0 n2:0;n1:0=>n3:0;n2:0=>n3:1;"];
    show("topology", &good.map(|text| text.as_bytes().to_vec()), 20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(topology) = Topology::read(text) {
            assert_eq!(Topology::read(&topology.to_string()).as_ref(), Ok(&topology));
        }
    });
}

#[test]
fn keys_and_enrolments() {
    let mut keys = KeyStore::default();
    let join_key = keys.add_join_key(Secret([1; 32]), Role::Worker);
    let before = keys.clone();
    let mut lines = keys.enrolments_head();
    for number in 1..4 {
        let key = PublicKey([number; 32]);
        let claim = Claim { key, name: format!("n{number}"), boot: Boot(1), join_key };
        keys.enrol(&claim, 9).unwrap();
        lines += &keys.enrolment(&key);
    }
    // Version 1 has no checksum, so that a change is read.
    let file = |keys: &KeyStore| keys.to_json().replace("\"version\": 2", "\"version\": 1").into_bytes();
    show("keys", &[file(&keys), file(&before)], 20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(keys) = KeyStore::from_json(text) {
            assert_eq!(KeyStore::from_json(&keys.to_json()).unwrap(), keys);
        }
    });
    show("enrolments", &[lines.into_bytes(), before.enrolments_head().into_bytes()], 20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let mut again = before.clone();
        if again.enrol_again(text).is_ok() {
            assert!(
                again.keys().all(|(key, entry)| keys.key(key) == Some(entry)),
                "each line has a checksum"
            );
        }
    });
}

#[test]
fn specifications() {
    let good = [
        r#"{"space":{"chars":{"positions":["616263","3031"],"min":1}},"work":{"search":{"algorithm":"md5","targets":["00000000000000000000000000000000","ffffffffffffffffffffffffffffffff"],"stop":"all-targets"}}}"#,
        r#"{"space":{"range":{"from":0,"to":100,"step":1}},"work":"nothing"}"#,
        r#"{"space":{"frames":{"first":1,"last":250}},"work":{"command":{"program":["render","--frame","{}","--at","{clock}"],"env":{"MODE":"fast"},"timeout_ms":600000,"retries":2}}}"#,
        r#"{"space":{"list":{"chunks":[{"hash":"0b8b60248fad7ac6dfac221b7e01a8b91c772421a15b387dd1fb2d6a94aee438","units":1}]}},"work":{"command":{"program":["convert","{}"],"env":{"MODE":"fast"},"timeout_ms":null,"retries":0}}}"#,
        r#"{"space":{"program":{"program":["cases","1000"],"names":["width","height"],"cwd":"/tmp","timeout_ms":60000}},"work":"nothing"}"#,
        r#"{"space":{"grid":{"axes":[{"name":"size","values":["1","2"]},{"name":"mode","values":["a","b","c"]}]}},"work":{"command":{"program":["sweep","{size}","{mode}"],"env":{"MODE":"fast"},"timeout_ms":null,"retries":0,"output_limit":{"bytes":65536,"strict":false}}}}"#,
    ];
    let good = good.map(|text| text.as_bytes().to_vec());
    show("specifications", &good, 40_000, |bytes| {
        let Ok(spec) = JobSpec::from_bytes(bytes) else { return };
        assert_eq!(JobSpec::from_bytes(&spec.to_bytes()).as_ref(), Ok(&spec));
        let Ok(space) = open(&spec.space, Arc::new(NoChunks)) else { return };
        let units = space.units();
        assert!(units > 0 && starfarm_decomposers::units(&spec.space) == Ok(units));
        for unit in [0, units / 2, units - 1] {
            let _ = space.value(unit);
            let _ = space.fields(unit);
        }
        assert!(space.value(units).is_err());
    });
}

#[test]
fn records_of_the_journal() {
    let text = fs::read_to_string(golden("journal-v1/bodies.hex")).unwrap();
    let good: Vec<Vec<u8>> = text
        .lines()
        .map(|line| {
            let (kind, body) = line.split_once(':').unwrap();
            let mut bytes = vec![kind.trim().parse().unwrap()];
            bytes.extend(from_hex(&body.replace(' ', "")).unwrap());
            bytes
        })
        .collect();
    show("records", &good, 60_000, |bytes| {
        let Some((kind, body)) = bytes.split_first() else { return };
        if let Ok(record) = Record::decode(*kind, body) {
            let mut again = Vec::new();
            record.encode(&mut again);
            assert_eq!(Record::decode(record.kind(), &again), Ok(record));
        }
    });
}

#[test]
fn frames_and_heads_of_segments() {
    let good = ["frames", "head", "synced"].map(|name| hex_file(&golden(&format!("journal-v1/{name}.hex"))));
    show("frames", &good, 40_000, |bytes| {
        let mut place = Place { sequence: 0, chain: 0 };
        let mut at = 0;
        while let Found::Frame(frame, length, next) = frame::read(bytes, at, place) {
            assert!(length > frame.body.len() && at + length <= bytes.len());
            (at, place) = (at + length, next);
        }
        frame::is_torn(bytes, at, place);
        frame::proves_synced(bytes, at, place);
        if let Ok(head) = Head::read(bytes) {
            assert_eq!(Head::read(&head.to_bytes()).map(|head| head.number), Ok(head.number));
        }
        synced::read(bytes, FARM);
    });
}

/// A spool ends in a hash of all before it: a mutant gets the right one.
#[test]
fn spools() {
    let config = || worker::Config {
        devices: Vec::new(),
        boot: Boot(1),
        slots: 1,
        memory_bytes: 0,
        gpus: 0,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        heartbeat_us: 1_000_000,
        seed: 1,
        died_running: Vec::new(),
        farm: FARM,
        known: worker::Known::NONE,
        facts: None,
        limits: worker::Limits::default(),
    };
    let spool = |results: u64| {
        let mut bytes = b"SFSPOOL1".to_vec();
        bytes.extend(results.to_le_bytes());
        for number in 0..results {
            bytes.extend(number.to_le_bytes());
            bytes.extend(ContentHash([7; 32]).0);
            bytes.extend(number.to_le_bytes());
            bytes.extend(u128::from(number).to_le_bytes());
            bytes.extend(1_u64.to_le_bytes());
            bytes.extend(5_u64.to_le_bytes());
            bytes.push(Outcome::Done as u8);
            bytes.extend(3_u16.to_le_bytes());
            bytes.extend(b"abc");
        }
        bytes
    };
    let restore = |bytes: &[u8]| {
        let mut core = worker::Worker::new(config(), 0);
        let whole = [bytes, blake3::hash(bytes).as_bytes()].concat();
        core.restore(&whole).map(|count| (count, core))
    };
    for results in [0, 1, 3] {
        assert_eq!(restore(&spool(results)).map(|(count, _)| count), Ok(results as usize));
    }
    show("spools", &[spool(0), spool(1), spool(3)], 20_000, |bytes| {
        let Ok((count, core)) = restore(bytes) else { return };
        assert_eq!(core.unacknowledged_results(), count);
        let mut again = worker::Worker::new(config(), 0);
        assert_eq!(again.restore(&core.unacknowledged()), Ok(count));
    });
}

#[test]
fn logs() {
    let folder = Folder::new("logs");
    let limits = Limits { segment_bytes: 1 << 20, segment_us: u64::MAX, keep_bytes: None };
    let mut writer = LogWriter::open(&folder.0, FARM, Epoch(1), limits).unwrap();
    let mut logs = Vec::new();
    for number in 1..3 {
        writer.begin(number, number, number, &starfarm_events::Snapshot::default()).unwrap();
        writer.event(number + 1, &Event::NodeLeft { node: "lab-\u{1b}1".into() }).unwrap();
        writer.event(number + 2, &Event::Hit { job: JobId(1), unit: number.into(), target: 1 }).unwrap();
        writer.close(number + 3, number + 3).unwrap();
    }
    for entry in fs::read_dir(&folder.0).unwrap() {
        logs.push(fs::read(entry.unwrap().path()).unwrap());
    }
    show("logs", &logs, 6_000, |bytes| {
        let mut items = 0;
        for item in LogReader::new(bytes, "a log") {
            items += 1;
            assert!(items <= bytes.len() + 2, "an item has a byte at least, but for notes at the end");
            if let Err(error) = item {
                assert!(!error.to_string().chars().any(|c| c.is_control()), "{error}");
                break;
            }
        }
    });
}
