//! One file of a log as items, in flat memory. What a killed scheduler, a later version or a clock does to a log is
//! noted and passed over; a validation minds it.

use std::collections::VecDeque;
use std::io::BufRead;

use quick_xml::events::BytesStart;
use starfarm_events::{
    Entry, Event, Field, Fields, FormError, Held, JobInfo, NodeInfo, Sample, Snapshot, TEXT_BYTES_MAX, shown,
};

use super::error::{Fault, LogError, Place};
use super::source::{self, Attribute, Attributes, Source, Token};
use super::text::backslashes_are_ours;
use super::{
    Closing, Item, NAMESPACE, Note, NoteKind, Opening, SNAPSHOT_BYTES_MAX, Utc, VERSION, sense, utc,
};

/// Reads one file of a log. After an error nothing more comes.
#[derive(Debug)]
pub struct LogReader<R> {
    source: Source<R>,
    buf: Vec<u8>,
    ready: VecDeque<Item>,
    stage: Stage,
    /// What stands before the name of each element of ours, with its colon; mostly nothing.
    prefix: String,
    over: bool,
    part: Option<Part>,
    /// Whatever the schema forbids is an error, also what a reading passes over.
    pub(super) strict: bool,
    /// What a file that ends early lacks is to be expected: its scheduler may run.
    pub(super) in_use: bool,
    /// The time of the last entry.
    pub(super) last_at_us: Option<u64>,
    times_back: u64,
    skipped: u64,
    first_skipped: Option<(Place, String)>,
    /// Events, whether or not they are understood.
    pub(super) entries: u64,
    /// The farm's clock and the wall clock at the last moment where both were told.
    pub(super) saved: Option<(u64, u64)>,
    /// Where the last whole entry ends.
    pub(super) whole: u64,
}

/// How far the reading is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Head,
    Opened,
    Told,
    Closed,
    Done,
}

/// A snapshot that is being read.
#[derive(Debug)]
struct Part {
    at_us: Option<u64>,
    begun: u64,
    sampled: bool,
    rank: usize,
    snapshot: Box<Snapshot>,
}

/// Parts of a snapshot, in their order.
const PARTS: [(&str, &[&str]); 4] = [
    (Sample::KIND, Sample::FIELDS),
    (NodeInfo::KIND, NodeInfo::FIELDS),
    (JobInfo::KIND, JobInfo::FIELDS),
    (Held::KIND, Held::FIELDS),
];
/// A wall clock that went so far from the farm's was set: NTP moves one by 30 ms a minute at most (500 ppm), and both
/// clocks are told each minute.
const SET_US: u128 = 1_000_000;
const CLOSING: &[&str] = &["utc", "entries", "cut"];

impl<R: BufRead> LogReader<R> {
    /// Reads `input`; `file` is how messages call it.
    pub fn new(input: R, file: impl Into<String>) -> Self {
        Self {
            source: Source::new(input, file.into()),
            buf: Vec::new(),
            ready: VecDeque::new(),
            stage: Stage::Head,
            prefix: String::new(),
            over: false,
            part: None,
            strict: false,
            in_use: false,
            last_at_us: None,
            times_back: 0,
            skipped: 0,
            first_skipped: None,
            entries: 0,
            saved: None,
            whole: 0,
        }
    }

    fn step(&mut self, buf: &mut Vec<u8>) -> Result<(), LogError> {
        match self.source.next(buf)? {
            Token::Other => Ok(()),
            Token::Eof { cut } => self.end_of_file(cut),
            Token::End => self.ended(),
            Token::Start(element) => self.element(&element),
        }
    }

    fn element(&mut self, element: &BytesStart<'_>) -> Result<(), LogError> {
        let name = element.name().0;
        if self.stage == Stage::Head {
            self.prefix = match name.strip_suffix("log") {
                Some(prefix) if prefix.is_empty() || prefix.ends_with(':') => prefix.to_owned(),
                _ => return Err(self.source.error(Fault::NotALog)),
            };
        }
        let attributes = source::attributes(element).map_err(|fault| self.source.error(fault))?;
        let Some(name) = name.strip_prefix(&*self.prefix) else {
            return self.skip(format!("`{}` is of no namespace of ours", shown(name)));
        };
        match (self.source.depth, name) {
            (1, _) if self.stage == Stage::Head => self.root(&attributes),
            (1, _) => Err(self.source.error(Fault::Malformed("an element behind the log's end".to_owned()))),
            (2, "snapshot") => self.snapshot(&attributes),
            (2, name) => self.entry(name, &attributes),
            (3, name) if self.part.is_some() => self.part_of_snapshot(name, &attributes),
            (_, name) => self.skip(format!("`{}` where nothing can be", shown(name))),
        }
    }

    fn root(&mut self, attributes: &Attributes<'_>) -> Result<(), LogError> {
        let version = attributes.text("version").unwrap_or_default().to_owned();
        let declared = match self.prefix.strip_suffix(':') {
            Some(prefix) => format!("xmlns:{prefix}"),
            None => "xmlns".to_owned(),
        };
        let namespace = attributes.text(&declared).unwrap_or_default().to_owned();
        if namespace != NAMESPACE || version.parse() != Ok(VERSION) {
            return Err(self.source.error(Fault::Version { namespace, version }));
        }
        let fields = &["xmlns", "version", "farm", "epoch", "segment", "program", "utc", "mono_us"];
        self.check(true, fields, attributes)?;
        let opening = opening(attributes).map_err(|field| {
            self.source.error(Fault::Malformed(format!("`{field}` of `log` is absent or makes no sense")))
        })?;
        self.stage = Stage::Opened;
        self.wall_clock(opening.at_us, opening.utc_us);
        self.time(opening.at_us)?;
        self.ready.push_back(Item::Opened(opening));
        Ok(())
    }

    fn snapshot(&mut self, attributes: &Attributes<'_>) -> Result<(), LogError> {
        self.check(true, &[], attributes)?;
        if self.stage != Stage::Opened {
            self.mind("a snapshot that does not open its segment")?;
        }
        let at_us = moment(attributes);
        let (begun, snapshot) = (self.source.offset(), Box::default());
        self.part = Some(Part { at_us, begun, sampled: false, rank: 0, snapshot });
        Ok(())
    }

    fn part_of_snapshot(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), LogError> {
        let Some(rank) = PARTS.iter().position(|(kind, _)| *kind == name) else {
            return self.skip(FormError::Kind(name.to_owned()).to_string());
        };
        let (kind, fields) = PARTS[rank];
        self.check(false, fields, attributes)?;
        let size = self.source.offset();
        let Some(part) = &mut self.part else { return Ok(()) };
        if size - part.begun > SNAPSHOT_BYTES_MAX {
            return Err(self.source.error(Fault::SnapshotTooLarge));
        }
        let orderly = if rank == 0 { !part.sampled } else { part.sampled && rank >= part.rank };
        let read = match kind {
            Sample::KIND => Sample::read(attributes).map(|sample| part.snapshot.sample = sample),
            NodeInfo::KIND => NodeInfo::read(attributes).map(|node| part.snapshot.nodes.push(node)),
            JobInfo::KIND => JobInfo::read(attributes).map(|job| part.snapshot.jobs.push(job)),
            _ => Held::read(attributes).map(|held| part.snapshot.held.push(held)),
        };
        part.sampled |= rank == 0 && read.is_ok();
        part.rank = rank;
        if !orderly {
            self.mind("parts of a snapshot in another order than sample, node, job, held")?;
        }
        read.or_else(|e| self.skip(e.to_string()))
    }

    fn end_of_snapshot(&mut self) -> Result<(), LogError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let (Some(at_us), true) = (part.at_us, part.sampled) else {
            return self.skip("`snapshot` lacks its time or its `sample`".to_owned());
        };
        let held = part.snapshot.held.iter();
        held.into_iter()
            .try_for_each(|held| sense::interval(held.lo, held.hi))
            .or_else(|what| self.mind(what))?;
        self.stage = self.stage.max(Stage::Told);
        self.whole = self.source.offset();
        self.time(at_us)?;
        self.ready.push_back(Item::Snapshot(at_us, part.snapshot));
        Ok(())
    }

    /// An entry: an event, or what the log says of itself.
    fn entry(&mut self, name: &str, attributes: &Attributes<'_>) -> Result<(), LogError> {
        match self.stage {
            Stage::Opened => self.mind("an entry before the segment's snapshot")?,
            Stage::Closed => self.mind("an entry behind `closed`")?,
            _ => {}
        }
        let Some(at_us) = moment(attributes) else {
            self.entries += u64::from(!matches!(name, "saved" | "closed"));
            return self.skip(format!("`{}` lacks its time, or it makes no sense", shown(name)));
        };
        match name {
            "saved" => self.saved(at_us, attributes)?,
            "closed" => return self.closed(at_us, attributes),
            name => match Event::read(name, attributes) {
                Ok(event) => {
                    if self.strict {
                        let fields = Event::KINDS.iter().find(|(kind, _)| *kind == name);
                        self.check(true, fields.map_or(&[], |(_, fields)| fields), attributes)?;
                        sense::of_event(&event, at_us).or_else(|what| self.mind(what))?;
                    }
                    self.time(at_us)?;
                    self.entries += 1;
                    self.ready.push_back(Item::Event(at_us, event));
                }
                Err(e) => {
                    self.entries += 1;
                    self.skip(e.to_string())?;
                }
            },
        }
        self.whole = self.source.offset();
        Ok(())
    }

    fn saved(&mut self, at_us: u64, attributes: &Attributes<'_>) -> Result<(), LogError> {
        self.check(true, &["utc"], attributes)?;
        let Some(utc_us) = attributes.text("utc").and_then(utc::parse) else {
            return self.mind("`utc` of `saved` is absent or makes no sense");
        };
        self.wall_clock(at_us, utc_us);
        self.time(at_us)
    }

    /// Both clocks at a moment.
    fn wall_clock(&mut self, at_us: u64, utc_us: u64) {
        let Some((last_at_us, last_utc_us)) = self.saved.replace((at_us, utc_us)) else { return };
        let ahead = |at_us: u64, utc_us: u64| i128::from(utc_us) - i128::from(at_us);
        let set_us = ahead(at_us, utc_us) - ahead(last_at_us, last_utc_us);
        if set_us.unsigned_abs() >= SET_US {
            let what = if set_us > 0 { "set forward, or the machine slept:" } else { "set back:" };
            let by = utc::duration(u64::try_from(set_us.unsigned_abs()).unwrap_or(u64::MAX));
            self.note(NoteKind::ClockSet, format!(
                "between {} and {} the wall clock was {what} {by}; times shown are the farm's own, which did not follow",
                    Utc(last_at_us), Utc(at_us)
            ));
        }
    }

    fn closed(&mut self, at_us: u64, attributes: &Attributes<'_>) -> Result<(), LogError> {
        self.check(true, CLOSING, attributes)?;
        let utc_us = attributes.text("utc").and_then(utc::parse);
        let entries = u64::read(attributes.text("entries"));
        let (Some(utc_us), Some(entries)) = (utc_us, entries) else {
            return self.mind("a field of `closed` is absent or makes no sense");
        };
        self.time(at_us)?;
        self.wall_clock(at_us, utc_us);
        if attributes.text("cut") == Some("true") {
            let what = "the log breaks off here: the scheduler was stopped without closing it, or could not write \
                        it; what happened last may be missing";
            self.note(NoteKind::Stopped, what.to_owned());
        }
        if entries != self.entries {
            let what = format!("the segment should hold {entries} events and holds {}", self.entries);
            self.mind(&*what)?;
            self.note(NoteKind::Missing, what);
        }
        self.whole = self.source.offset();
        self.stage = Stage::Closed;
        self.ready.push_back(Item::Closed(Closing { at_us, utc_us, entries }));
        Ok(())
    }

    fn ended(&mut self) -> Result<(), LogError> {
        match self.source.depth {
            1 => self.end_of_snapshot(),
            0 => {
                if self.stage != Stage::Closed {
                    self.mind("the log ends without `closed`")?;
                }
                self.stage = Stage::Done;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end_of_file(&mut self, cut: bool) -> Result<(), LogError> {
        if cut && !self.in_use && self.source.goes_on() {
            // No cut does that: an entry is a line. Read on as a cut, all behind it would be lost without a word.
            let what = "what begins here has no end (a quote or a bracket is lost)".to_owned();
            return Err(self.source.error(Fault::Malformed(what)));
        }
        if self.stage != Stage::Done {
            let what = match (cut || self.part.is_some(), self.stage) {
                (_, Stage::Head) => "the log ends before it begins",
                (true, _) => "the log ends in the middle of an entry",
                (false, _) => "the log is not closed",
            };
            let why = if self.in_use {
                "its scheduler runs, or was stopped"
            } else {
                "the end of this file is lost, or it was copied while its scheduler wrote it"
            };
            if !self.in_use {
                self.mind(format!("{what}: {why}"))?;
            }
            self.note(NoteKind::Cut, format!("{what}: {why}; all before this is read"));
        }
        self.summary();
        self.over = true;
        Ok(())
    }

    /// An entry cannot be understood: it is passed over.
    fn skip(&mut self, what: String) -> Result<(), LogError> {
        self.mind(&*what)?;
        self.skipped += 1;
        self.first_skipped.get_or_insert_with(|| (self.source.place(), what));
        Ok(())
    }

    /// Something is not as the schema wants it, and makes no difference to a reading.
    fn mind(&self, what: impl Into<String>) -> Result<(), LogError> {
        if self.strict { Err(self.source.error(Fault::Invalid(what.into()))) } else { Ok(()) }
    }

    /// An entry has this time.
    fn time(&mut self, at_us: u64) -> Result<(), LogError> {
        let before = self.last_at_us.replace(at_us).filter(|before| *before > at_us);
        let Some(before) = before else { return Ok(()) };
        let what = format!("time goes back by {:.6} s here", (before - at_us) as f64 / 1e6);
        self.mind(&*what)?;
        self.times_back += 1;
        if self.times_back == 1 {
            self.note(NoteKind::TimeBack, what);
        }
        Ok(())
    }

    fn note(&mut self, kind: NoteKind, what: String) {
        self.ready.push_back(Item::Note(Note { kind, place: self.source.place(), what }));
    }

    /// What was too much to be noted one by one.
    fn summary(&mut self) {
        if self.times_back > 1 {
            self.note(NoteKind::TimeBack, format!("time went back {} times in this file", self.times_back));
        }
        if let Some((place, first)) = self.first_skipped.take() {
            let count = self.skipped;
            let what = format!("{count} entries are passed over, the first of them because {first}");
            self.ready.push_back(Item::Note(Note { kind: NoteKind::Skipped, place, what }));
        }
    }

    /// In a validation, an element has none but these attributes, and their text is escaped as ours.
    fn check(&self, timed: bool, fields: &[&str], attributes: &Attributes<'_>) -> Result<(), LogError> {
        if !self.strict {
            return Ok(());
        }
        let known = |attribute: &Attribute<'_>| {
            fields.contains(&attribute.name)
                || timed && attribute.name == "at"
                || attribute.name == "xmlns" && attribute.text == NAMESPACE
                || attribute.name.starts_with("xmlns:")
                || attribute.name.starts_with("xsi:")
        };
        let what = if let Some(unknown) = attributes.list.iter().find(|attribute| !known(attribute)) {
            format!("the attribute `{}` is nothing that the schema knows here", shown(unknown.name))
        } else if let Some(odd) =
            attributes.list.iter().find(|attribute| !backslashes_are_ours(attribute.raw))
        {
            format!("a backslash of `{}` begins no escape: write it twice", odd.name)
        } else {
            return Ok(());
        };
        Err(self.source.error(Fault::Invalid(what)))
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<Item, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut buf = std::mem::take(&mut self.buf);
        while self.ready.is_empty() && !self.over {
            if let Err(e) = self.step(&mut buf) {
                self.over = true;
                return Some(Err(e));
            }
        }
        self.buf = buf;
        self.ready.pop_front().map(Ok)
    }
}

/// When an entry is of; none where it does not say, or no calendar has such a moment.
fn moment(attributes: &Attributes<'_>) -> Option<u64> {
    u64::read(attributes.text("at")).filter(|at_us| *at_us <= utc::LATEST_US)
}

/// What the root says; or the name of the field that is wrong.
fn opening(attributes: &Attributes<'_>) -> Result<Opening, &'static str> {
    let text = |name| attributes.text(name).filter(|text| text.len() <= TEXT_BYTES_MAX).ok_or(name);
    let number = |name: &'static str| u64::read(Some(text(name)?)).ok_or(name);
    Ok(Opening {
        version: VERSION,
        farm: text("farm")?.to_owned(),
        epoch: number("epoch")?,
        segment: number("segment")?,
        program: text("program")?.to_owned(),
        at_us: moment(attributes).ok_or("at")?,
        utc_us: utc::parse(text("utc")?).ok_or("utc")?,
        mono_us: number("mono_us")?,
    })
}
