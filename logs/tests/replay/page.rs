//! The page's data, read as the page reads them.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use serde_json::Value;
use starfarm_events::{Event, IdleReason, NodeState};
use starfarm_logs::Item;
use starfarm_logs::replay::{SERIES, Shown, Window, fill};

use crate::farm::*;

const TEMPLATE: &str = "<!doctype html><!--starfarm:meta--><hr><!--starfarm:data--></html>";

/// The places of a page: the data about the data, the plain page, the blob.
pub(crate) fn opened(page: &[u8]) -> (Value, String, Vec<u8>) {
    let page = std::str::from_utf8(page).unwrap();
    let end = page.rfind('}').unwrap() + 1;
    let start = page.find('{').unwrap();
    let data: String = page[end..].chars().skip_while(|c| !c.is_ascii_alphanumeric()).collect();
    let data = data.strip_prefix("hr>").unwrap_or(&data);
    let data = data.split('<').next().unwrap();
    let mut blob = Vec::new();
    DeflateDecoder::new(&STANDARD.decode(data).unwrap()[..]).read_to_end(&mut blob).unwrap();
    (serde_json::from_str(&page[start..end]).unwrap(), page.replace(data, ""), blob)
}

/// The bytes of an array.
fn array<'a>(meta: &Value, blob: &'a [u8], name: &str) -> (&'static str, &'a [u8]) {
    let place = &meta["arrays"][name];
    let number = |key: &str| place[key].as_u64().unwrap() as usize;
    let (kind, width) = match place["type"].as_str().unwrap() {
        "u8" => ("u8", 1),
        "u32" => ("u32", 4),
        "f32" => ("f32", 4),
        "f64" => ("f64", 8),
        other => panic!("{other}"),
    };
    assert_eq!(number("offset") % 8, 0, "{name}");
    (kind, &blob[number("offset")..number("offset") + number("length") * width])
}

fn offsets(meta: &Value, blob: &[u8], name: &str) -> Vec<usize> {
    let (kind, bytes) = array(meta, blob, name);
    assert_eq!(kind, "u32");
    bytes.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize).collect()
}

/// A run of results, in grains.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Run {
    pub(crate) ended: i64,
    pub(crate) took: u64,
    pub(crate) results: u64,
    pub(crate) tag: u64,
}

/// Each node's runs, unpacked here once more.
pub(crate) fn runs(meta: &Value, blob: &[u8]) -> Vec<Vec<Run>> {
    let bytes = array(meta, blob, "tasks/bytes").1;
    let ends = offsets(meta, blob, "tasks/offset");
    ends.windows(2).map(|pair| runs_of(&bytes[pair[0]..pair[1]])).collect()
}

fn runs_of(bytes: &[u8]) -> Vec<Run> {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    let mut shift = 0;
    for byte in bytes {
        number |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    let mut ended = 0;
    let run = |four: &[u64]| {
        ended += if four[0].is_multiple_of(2) { (four[0] / 2) as i64 } else { -((four[0] / 2) as i64) - 1 };
        Run { ended, took: four[1], results: four[2], tag: four[3] }
    };
    numbers.chunks_exact(4).map(run).collect()
}

fn log() -> Vec<Item> {
    vec![
        crate::farm::opened(1, 1, 0),
        snapshot(0, &["n-2", "n-10"]),
        event(1, Event::NodeQuarantined { node: "n-2".into(), why: "</script><!-- \u{2028}\u{202e}".into() }),
        event(2, Event::NodeIdle { node: "n-2".into(), reason: IdleReason::NoJob }),
        event(3, tasks("n-10", (0, 5), 2, at(1), at(3))),
        event(4, tasks("n-10", (5, 9), 1, at(2), at(3))),
        event(5, state("n-10", NodeState::Lost)),
        closed(10),
    ]
}

fn filled(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    fill(TEMPLATE, replayed(items, Window::default()), &mut out).unwrap();
    out
}

#[test]
fn the_page_reads_what_the_contract_says() {
    let (meta, page, blob) = opened(&filled(&log()));
    assert!(page.starts_with("<!doctype html>{") && page.ends_with("</html>"));
    assert!(!page.contains("</script") && page.matches("<!--").count() == 0, "text cannot end its element");
    assert_eq!(meta["format"], "starfarm-report/1");
    assert_eq!((&meta["from_us"], &meta["to_us"]), (&at(0).into(), &at(10).into()));
    assert_eq!((&meta["nodes"][0]["node"], &meta["nodes"][1]["node"]), (&"n-2".into(), &"n-10".into()));
    assert_eq!(meta["nodes"][0]["idle_us"]["no_job"], 8 * SECOND_US);
    assert_eq!(meta["marks"][1]["text"], "node n-2 quarantined: </script><!-- \\u{2028}\\u{202e}");
    assert!(!page.contains(starfarm_protocol::foreign::is_hidden), "nothing turns round or hides");
    assert_eq!((&meta["palette"]["lost"], &meta["states"][2]), (&"#d55e00".into(), &"lost".into()));
    assert_eq!(meta["jobs"][0]["states"][0][1], "running");
    let bins = meta["bins"]["count"].as_u64().unwrap() as usize;
    for name in SERIES {
        let (kind, bytes) = array(&meta, &blob, &format!("series/{name}"));
        assert_eq!((kind, bytes.len()), ("f32", bins * 4), "{name}");
    }
    let (_, grid) = array(&meta, &blob, "grid/state");
    assert_eq!((grid.len(), grid[2 * bins - 1]), (2 * bins, Shown::State(NodeState::Lost).code()));
    let (_, busy) = array(&meta, &blob, "grid/busy");
    let width_us = meta["bins"]["width_us"].as_u64().unwrap();
    let bin = |seconds: u64| bins + (seconds * SECOND_US / width_us) as usize;
    assert_eq!((busy[bin(0) + 1], busy[bin(2) + 2], busy[bin(4)]), (0, 255, 0), "three tasks on two slots");
}

#[test]
fn states_and_runs_come_back() {
    let (meta, _, blob) = opened(&filled(&log()));
    let ends = offsets(&meta, &blob, "states/offset");
    let (kind, at_bytes) = array(&meta, &blob, "states/at");
    let (_, codes) = array(&meta, &blob, "states/code");
    let moments: Vec<f64> =
        at_bytes.chunks(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect();
    assert_eq!((kind, &ends[..]), ("f64", &[0, 2, 4][..]));
    let words: Vec<&str> =
        codes.iter().map(|code| meta["states"][usize::from(*code)].as_str().unwrap()).collect();
    assert_eq!(words, ["up", "idle:no_job", "up", "lost"]);
    assert_eq!(moments, [0.0, 2e6, 0.0, 5e6]);
    let runs = runs(&meta, &blob);
    assert!(runs[0].is_empty());
    let run = |ended, took, results| Run { ended, took, results, tag: 0 };
    assert_eq!(runs[1], [run(3_000, 2_000, 2), run(3_000, 1_000, 1)], "grains of a millisecond");
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    assert_eq!(filled(&log()), filled(&log()));
    assert_ne!(filled(&log()), filled(&log()[..6]));
}

#[test]
fn a_page_without_room_for_data_is_refused() {
    let report = replayed(&log(), Window::default());
    let outcome = fill("<html></html>", report, &mut Vec::new());
    assert!(outcome.unwrap_err().to_string().contains("is damaged"));
}
