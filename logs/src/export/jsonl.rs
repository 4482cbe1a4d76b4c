//! JSON lines: an object for each entry of the log, its fields as the event model names them.

use std::io::{self, Write};

use starfarm_events::Form;

use crate::json::json;
use crate::{Closing, Item, Note, Opening, Utc};

/// Writes JSON lines.
pub(super) struct Lines<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, line: Vec::new() }
    }

    fn begin(&mut self, at_us: u64, event: &str) -> io::Result<()> {
        self.line.clear();
        write!(self.line, "{{\"at\":{at_us},\"utc\":\"{}\",\"event\":\"{event}\"", Utc(at_us))
    }

    fn field(&mut self, name: &str, value: impl Into<serde_json::Value>) -> io::Result<()> {
        write!(self.line, ",\"{name}\":")?;
        Ok(serde_json::to_writer(&mut self.line, &value.into())?)
    }

    fn end(&mut self) -> io::Result<()> {
        self.line.extend(b"}\n");
        self.out.write_all(&self.line)
    }

    fn form(&mut self, at_us: u64, form: &dyn Form) -> io::Result<()> {
        self.begin(at_us, form.kind())?;
        let mut outcome = Ok(());
        form.each(&mut |name, value| {
            if outcome.is_ok() {
                outcome = self.field(name, json(value));
            }
        });
        outcome?;
        self.end()
    }

    fn opened(&mut self, opening: &Opening) -> io::Result<()> {
        self.begin(opening.at_us, "opened")?;
        self.field("version", opening.version)?;
        self.field("farm", opening.farm.as_str())?;
        self.field("epoch", opening.epoch)?;
        self.field("segment", opening.segment)?;
        self.field("program", opening.program.as_str())?;
        self.field("wall_us", opening.utc_us)?;
        self.field("mono_us", opening.mono_us)?;
        self.end()
    }

    fn closed(&mut self, closing: &Closing) -> io::Result<()> {
        self.begin(closing.at_us, "closed")?;
        self.field("wall_us", closing.utc_us)?;
        self.field("entries", closing.entries)?;
        self.end()
    }

    /// A note has no time of its own.
    fn note(&mut self, note: &Note) -> io::Result<()> {
        self.line.clear();
        self.line.extend(b"{\"event\":\"note\"");
        self.field("file", note.place.file.as_str())?;
        self.field("line", note.place.line)?;
        self.field("offset", note.place.offset)?;
        self.field("what", note.what.as_str())?;
        self.end()
    }
}

impl Lines<'_> {
    /// Writes what comes of an item.
    pub(super) fn item(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Opened(opening) => self.opened(opening),
            Item::Snapshot(at_us, snapshot) => {
                self.form(*at_us, &snapshot.sample)?;
                snapshot.nodes.iter().try_for_each(|node| self.form(*at_us, node))?;
                snapshot.jobs.iter().try_for_each(|job| self.form(*at_us, job))?;
                snapshot.held.iter().try_for_each(|held| self.form(*at_us, held))
            }
            Item::Event(at_us, event) => self.form(*at_us, event),
            Item::Closed(closing) => self.closed(closing),
            Item::Note(note) => self.note(note),
        }
    }
}
