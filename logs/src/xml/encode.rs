//! Entries as bytes: one a line.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use starfarm_events::{Form, Snapshot, Value};

use super::text::escape;
use super::utc::Utc;
use super::{Closing, NAMESPACE, Opening};

/// Writes a segment's XML to `W`.
#[derive(Debug)]
pub(super) struct Encoder<W> {
    to: W,
    /// The line that is put together.
    line: String,
    /// Bytes written.
    pub(super) bytes: u64,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, line: String::new(), bytes: 0 }
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }

    pub(super) fn open(&mut self, opening: &Opening) -> io::Result<()> {
        self.write("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
        self.begin("log", None);
        self.put("xmlns", NAMESPACE);
        self.put("version", opening.version);
        attribute(&mut self.line, "farm", Value::Text(&opening.farm));
        self.put("epoch", opening.epoch);
        self.put("segment", opening.segment);
        attribute(&mut self.line, "program", Value::Text(&opening.program));
        self.put("at", opening.at_us);
        self.put("utc", Utc(opening.utc_us));
        self.put("mono_us", opening.mono_us);
        self.write(">\n")
    }

    pub(super) fn snapshot(&mut self, at_us: u64, snapshot: &Snapshot) -> io::Result<()> {
        self.begin("snapshot", Some(at_us));
        self.write(">\n")?;
        snapshot.forms().try_for_each(|part| self.entry(None, part))?;
        self.end("snapshot")
    }

    /// An event, or a part of a snapshot, which has no time of its own.
    pub(super) fn entry(&mut self, at_us: Option<u64>, form: &dyn Form) -> io::Result<()> {
        self.begin(form.kind(), at_us);
        let line = &mut self.line;
        form.each(&mut |name, value| attribute(line, name, value));
        self.write("/>\n")
    }

    /// The log was on its way to the disk at this moment.
    pub(super) fn saved(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        self.begin("saved", Some(at_us));
        self.put("utc", Utc(utc_us));
        self.write("/>\n")
    }

    /// The last entry, and the end of the document; `cut` where somebody else than its writer closes it.
    pub(super) fn close(&mut self, closing: &Closing, cut: bool) -> io::Result<()> {
        self.begin("closed", Some(closing.at_us));
        self.put("utc", Utc(closing.utc_us));
        self.put("entries", closing.entries);
        if cut {
            self.put("cut", true);
        }
        self.write("/>\n")?;
        self.end("log")
    }

    fn begin(&mut self, name: &str, at_us: Option<u64>) {
        self.line.push('<');
        self.line.push_str(name);
        if let Some(at_us) = at_us {
            self.put("at", at_us);
        }
    }

    /// An attribute that needs no escaping.
    fn put(&mut self, name: &str, value: impl Display) {
        // A String takes all.
        let _ = write!(self.line, " {name}=\"{value}\"");
    }

    pub(super) fn end(&mut self, name: &str) -> io::Result<()> {
        self.write(&format!("</{name}>\n"))
    }

    /// Writes the line at hand and what ends it.
    fn write(&mut self, end: &str) -> io::Result<()> {
        self.line.push_str(end);
        let written = self.to.write_all(self.line.as_bytes());
        self.bytes += self.line.len() as u64;
        self.line.clear();
        written
    }
}

fn attribute(line: &mut String, name: &str, value: Value<'_>) {
    line.push(' ');
    line.push_str(name);
    line.push_str("=\"");
    match value {
        Value::Text(text) => escape(text, line),
        Value::Node(name) => escape(name, line),
        plain => {
            // A String takes all.
            let _ = write!(line, "{plain}");
        }
    }
    line.push('"');
}
