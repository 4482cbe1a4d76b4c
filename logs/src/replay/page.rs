//! A report as one page of HTML that needs nothing else: the page that `dashboard/` builds, filled with the data.

mod blob;

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde_json::{Value, json};
use starfarm_events::{JOB_COLOURS, NODE_COLOURS, Outcome, UNIT_COLOURS};
use starfarm_protocol::foreign::is_hidden;

use super::timeline::{Report, SERIES, Shown, coarsen, run_bytes};

use blob::{Blob, Place};

/// The page that `cargo xtask dashboard` makes of the sources in `dashboard/`; a check compares the two.
const TEMPLATE: &str = include_str!("../../page/report.html");

const META: &str = "<!--starfarm:meta-->";
const DATA: &str = "<!--starfarm:data-->";
const NO_ROOM: &str =
    "the report's page in this starfarm is damaged: `cargo xtask dashboard` (needs npm), then build again";
/// A page of a log that a scheduler wrote is no larger than this, however long the log.
pub const PAGE_BYTES_MAX: usize = 8 << 20;
/// Of these, packed data before base64: the rest is the page and what is plain text in it.
const DATA_BYTES_MAX: usize = 5 << 20;

/// Writes a report as a page.
///
/// # Errors
/// It cannot be written.
pub fn page(report: Report, out: &mut dyn Write) -> io::Result<()> {
    fill(TEMPLATE, report, out)
}

/// Fills a page that is not the built one: one with the two places for data.
///
/// # Errors
/// It lacks them, or cannot be written.
pub fn fill(template: &str, mut report: Report, out: &mut dyn Write) -> io::Result<()> {
    let no_room = || io::Error::other(NO_ROOM);
    let (head, rest) = template.split_once(META).ok_or_else(no_room)?;
    let (middle, tail) = rest.split_once(DATA).ok_or_else(no_room)?;
    foresee(&mut report);
    let (meta, data) = loop {
        let blob = Blob::of(&mut report);
        let (meta, data) = (meta(&report, &blob.arrays), deflate(&blob.bytes)?);
        let bytes = template.len() + meta.len() + data.len().div_ceil(3) * 4;
        if (bytes <= PAGE_BYTES_MAX && data.len() <= DATA_BYTES_MAX) || run_bytes(&report.nodes) == 0 {
            break (meta, data);
        }
        coarsen(&mut report.nodes, &mut report.grain_us);
    };
    for part in [head, &meta, middle, &STANDARD.encode(data), tail] {
        out.write_all(part.as_bytes())?;
    }
    Ok(())
}

/// Chooses the grain by what a part of the runs packs to: packing all of them again and again would take long.
fn foresee(report: &mut Report) {
    const SAMPLE_BYTES: usize = 2 << 20;
    loop {
        let all = run_bytes(&report.nodes);
        if all <= DATA_BYTES_MAX {
            return;
        }
        let stride = all / SAMPLE_BYTES + 1;
        let mut sample = Vec::new();
        for node in report.nodes.iter_mut().step_by(stride) {
            sample.extend_from_slice(node.runs.bytes());
        }
        let packed = deflate(&sample).map_or(0, |packed| packed.len());
        let foreseen = packed as f64 / sample.len().max(1) as f64 * all as f64;
        if foreseen <= DATA_BYTES_MAX as f64 {
            return;
        }
        coarsen(&mut report.nodes, &mut report.grain_us);
    }
}

fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// What the page reads as JSON: the report, and what its pictures need beside it.
#[derive(Serialize)]
struct Meta<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(flatten)]
    pictures: Value,
}

fn meta(report: &Report, arrays: &BTreeMap<String, Place>) -> String {
    let colours = NODE_COLOURS.iter().chain(&JOB_COLOURS).chain(&UNIT_COLOURS);
    let palette = colours.map(|colour| {
        let (r, g, b) = colour.rgb;
        (colour.word, format!("#{r:02x}{g:02x}{b:02x}"))
    });
    let axis = &report.axis;
    let pictures = json!({
        "format": "starfarm-report/1",
        "version": env!("CARGO_PKG_VERSION"),
        "grain_us": report.grain_us,
        "palette": palette.collect::<BTreeMap<_, _>>(),
        "states": Shown::all().map(Shown::word).collect::<Vec<_>>(),
        "outcomes": Outcome::ALL,
        "bins": { "count": report.bins, "from_us": axis.from_us, "width_us": axis.width_us },
        "series": SERIES,
        "arrays": arrays,
    });
    let text =
        serde_json::to_string(&Meta { report, pictures }).expect("keys are text, and numbers are finite");
    // What would end the script element, or open a comment in it, is written so that it does not.
    shown(&text).replace("</", "<\\/").replace("<!--", "<\\u0021--")
}

/// JSON whose texts hide and reorder nothing on a page. What it escapes by itself no page obeys.
fn shown(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            // Within a text, where a backslash is written twice.
            clean.push('\\');
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}
