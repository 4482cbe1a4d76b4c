//! JSON lines: an object for each entry of the log, its fields as the event model names them.

use std::io::{self, Write};

use serde::Serialize;
use starfarm_events::Form;
use starfarm_protocol::foreign;

use crate::{Item, Note, Utc};

/// An entry's line.
#[derive(Serialize)]
struct Entry<'a, F: ?Sized> {
    at: u64,
    utc: Utc,
    event: &'a str,
    #[serde(flatten)]
    fields: &'a F,
}

/// A note has no time of its own.
#[derive(Serialize)]
struct Noted<'a> {
    event: &'a str,
    #[serde(flatten)]
    note: &'a Note,
}

/// Writes what comes of an item.
pub(super) fn item(out: &mut dyn Write, item: &Item) -> io::Result<()> {
    match item {
        Item::Opened(opening) => entry(out, opening.at_us, "opened", opening),
        Item::Snapshot(at_us, snapshot) => {
            snapshot.forms().try_for_each(|part| entry(out, *at_us, part.kind(), part))
        }
        Item::Event(at_us, event) => entry(out, *at_us, event.kind(), event as &dyn Form),
        Item::Closed(closing) => entry(out, closing.at_us, "closed", closing),
        Item::Note(note) => line(out, &Noted { event: "note", note }),
    }
}

fn entry<F: Serialize + ?Sized>(out: &mut dyn Write, at_us: u64, event: &str, fields: &F) -> io::Result<()> {
    line(out, &Entry { at: at_us, utc: Utc(at_us), event, fields })
}

fn line(out: &mut dyn Write, object: &impl Serialize) -> io::Result<()> {
    let mut line = foreign::json(serde_json::to_string(object)?);
    line.push('\n');
    out.write_all(line.as_bytes())
}
