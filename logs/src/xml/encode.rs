//! Entries as bytes: one a line.

use std::fmt::{self, Display, Write as _};
use std::io::{self, Write};

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, Event as Xml};
use starfarm_events::{Form, Snapshot, Value};

use super::text::escape;
use super::utc::Utc;
use super::{Closing, NAMESPACE, Opening};

/// Writes a segment's XML to `W`.
pub(super) struct Encoder<W> {
    xml: Writer<W>,
    /// The inside of a tag, while it is put together.
    tag: String,
    /// Bytes written.
    pub(super) bytes: u64,
}

impl<W> fmt::Debug for Encoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(to: W) -> Self {
        Self { xml: Writer::new(to), tag: String::new(), bytes: 0 }
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        self.xml.get_mut()
    }

    pub(super) fn open(&mut self, opening: &Opening) -> io::Result<()> {
        self.xml.write_event(Xml::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        self.end_of_line()?;
        self.begin("log");
        self.put("xmlns", NAMESPACE);
        self.put("version", opening.version);
        attribute(&mut self.tag, "farm", Value::Text(&opening.farm));
        self.put("epoch", opening.epoch);
        self.put("segment", opening.segment);
        attribute(&mut self.tag, "program", Value::Text(&opening.program));
        self.put("at", opening.at_us);
        self.put("utc", Utc(opening.utc_us));
        self.put("mono_us", opening.mono_us);
        self.start("log")
    }

    pub(super) fn snapshot(&mut self, at_us: u64, snapshot: &Snapshot) -> io::Result<()> {
        self.begin("snapshot");
        self.put("at", at_us);
        self.start("snapshot")?;
        self.entry(None, &snapshot.sample)?;
        snapshot.nodes.iter().try_for_each(|node| self.entry(None, node))?;
        snapshot.jobs.iter().try_for_each(|job| self.entry(None, job))?;
        snapshot.held.iter().try_for_each(|held| self.entry(None, held))?;
        self.end("snapshot")
    }

    /// An event, or a part of a snapshot, which has no time of its own.
    pub(super) fn entry(&mut self, at_us: Option<u64>, form: &dyn Form) -> io::Result<()> {
        self.begin(form.kind());
        if let Some(at_us) = at_us {
            self.put("at", at_us);
        }
        let tag = &mut self.tag;
        form.each(&mut |name, value| attribute(tag, name, value));
        self.empty(form.kind())
    }

    /// The log was on its way to the disk at this moment.
    pub(super) fn saved(&mut self, at_us: u64, utc_us: u64) -> io::Result<()> {
        self.begin("saved");
        self.put("at", at_us);
        self.put("utc", Utc(utc_us));
        self.empty("saved")
    }

    /// The last entry, and the end of the document; `cut` where somebody else than its writer closes it.
    pub(super) fn close(&mut self, closing: &Closing, cut: bool) -> io::Result<()> {
        self.begin("closed");
        self.put("at", closing.at_us);
        self.put("utc", Utc(closing.utc_us));
        self.put("entries", closing.entries);
        if cut {
            self.put("cut", true);
        }
        self.empty("closed")?;
        self.end("log")
    }

    fn begin(&mut self, name: &str) {
        self.tag.clear();
        self.tag.push_str(name);
    }

    /// An attribute that needs no escaping.
    fn put(&mut self, name: &str, value: impl Display) {
        // A String takes all.
        let _ = write!(self.tag, " {name}=\"{value}\"");
    }

    fn start(&mut self, name: &str) -> io::Result<()> {
        self.xml.write_event(Xml::Start(BytesStart::from_content(&*self.tag, name.len())))?;
        self.bytes += self.tag.len() as u64 + 2;
        self.end_of_line()
    }

    fn empty(&mut self, name: &str) -> io::Result<()> {
        self.xml.write_event(Xml::Empty(BytesStart::from_content(&*self.tag, name.len())))?;
        self.bytes += self.tag.len() as u64 + 3;
        self.end_of_line()
    }

    pub(super) fn end(&mut self, name: &str) -> io::Result<()> {
        self.xml.write_event(Xml::End(BytesEnd::new(name)))?;
        self.bytes += name.len() as u64 + 3;
        self.end_of_line()
    }

    fn end_of_line(&mut self) -> io::Result<()> {
        self.bytes += 1;
        self.xml.get_mut().write_all(b"\n")
    }
}

fn attribute(tag: &mut String, name: &str, value: Value<'_>) {
    tag.push(' ');
    tag.push_str(name);
    tag.push_str("=\"");
    match value {
        Value::Text(text) => escape(text, tag),
        plain => {
            // A String takes all.
            let _ = write!(tag, "{plain}");
        }
    }
    tag.push('"');
}
