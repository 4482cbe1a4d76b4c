//! Events and snapshots of every kind, made by chance from a seed, and folders that go away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use starfarm_events::{Entry, Event, FormError, Held, JobInfo, NodeInfo, Sample, Snapshot};
use starfarm_logs::{Item, Limits, LogError, LogReader, LogWriter, Note};
use starfarm_protocol::ids::{Epoch, FarmId};
use starfarm_protocol::random::SplitMix64;

pub(crate) const FARM: FarmId = FarmId([0xab; 16]);
/// 2026-11-21, 12:00 UTC.
pub(crate) const NOON_US: u64 = 1_795_262_400_000_000;

/// Numbers from a seed.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// As many bits as chance wants, so that small numbers come too.
    fn number(&mut self, bits: u64) -> u64 {
        let shift = 64 - 1 - self.below(bits);
        self.next() >> shift
    }

    /// Text that somebody with bad intentions chose.
    fn text(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "",
            "a",
            "node-1",
            "\"",
            "'",
            "<",
            ">",
            "/>",
            "&",
            "&amp;",
            "&#10;",
            "\n",
            "\t",
            "\r\n",
            " ",
            "  ",
            "\\",
            "\\u{41}",
            "\\\\n",
            "]]>",
            "-->",
            "\0",
            "\u{1b}[31m",
            "é",
        ];
        const CHARS: [char; 8] =
            ['\u{fffe}', '\u{ffff}', '\u{85}', '\u{2028}', '\u{10ffff}', '\u{1f600}', '\u{7f}', '\u{feff}'];
        let mut text = String::new();
        for _ in 0..self.below(8) {
            match self.below(5) {
                0 => text.push(CHARS[self.below(8) as usize]),
                1 => text.extend(char::from_u32(self.number(20) as u32)),
                _ => text.push_str(PIECES[self.below(24) as usize]),
            }
        }
        text
    }
}

/// How much of a value's fields is there.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fill {
    All,
    Least,
    Chance,
}

/// Fields of `kind` that can be read as `read` does; which of them may be absent is found out by leaving them out.
fn fields<T>(
    (kind, names): (&str, &'static [&'static str]),
    random: &mut Random,
    fill: Fill,
    read: impl Fn(&[(&'static str, String)]) -> Result<T, FormError>,
) -> Vec<(&'static str, String)> {
    let mut all: Vec<_> = names.iter().map(|name| (*name, value(kind, name, random))).collect();
    for name in names {
        let leave = match fill {
            Fill::All => false,
            Fill::Least => true,
            Fill::Chance => random.below(2) == 0,
        };
        let without: Vec<_> = all.iter().filter(|(other, _)| other != name).cloned().collect();
        if leave && read(&without).is_ok() {
            all = without;
        }
    }
    all
}

/// A value that a field may have. One that is new is to be added here, where it is more than a number.
pub(crate) fn value(kind: &str, name: &str, random: &mut Random) -> String {
    match name {
        "state" if kind.starts_with("node") => "quarantined".to_owned(),
        "state" => "paused".to_owned(),
        "reason" if kind == "node_idle" => "nothing_left".to_owned(),
        "reason" => "timeout".to_owned(),
        "verdict" => "ended_early".to_owned(),
        "key_kind" => "join".to_owned(),
        "role" => "observer".to_owned(),
        "idle" => "no_job".to_owned(),
        "outcome" => "partly".to_owned(),
        "device" => "gpu".to_owned(),
        "boot" => format!("{:016x}", random.next()),
        "spec" | "intervals_hash" | "hits_hash" => {
            (0..4).map(|_| format!("{:016x}", random.next())).collect()
        }
        "post_kind" => "ibe".to_owned(),
        "over" => "life".to_owned(),
        "change" => "changed".to_owned(),
        "level" => "critical".to_owned(),
        "value" => (random.number(40) as f64 / 1e6).to_string(),
        "id" | "sensor" | "text" if kind == "alarm" => random.text(),
        "units" if kind == "job_usage" => random.number(64).to_string(),
        "why" if kind == "tree_lost" => "out_of_reach".to_owned(),
        "why" if kind == "untrue" => "missed_hit".to_owned(),
        _ if kind == "job_usage" && name.contains('_') && name != "for_us" => {
            (random.number(40) as f64 / 1e6).to_string()
        }
        "power" | "power_mean" | "units_per_s" | "check" => (random.number(40) as f64 / 1e6).to_string(),
        "load" => (0..=random.below(9)).map(|_| random.number(10).to_string()).collect::<Vec<_>>().join(" "),
        // What a validation finds sensible: begun before ended before now, lo below hi.
        "begun_us" => random.number(40).to_string(),
        "ended_us" => ((1 << 40) + random.number(40)).to_string(),
        "hi" => ((1 << 127) + (u128::from(random.number(64)) << random.below(63))).to_string(),
        "lo" => (u128::from(random.number(63)) << random.below(64)).to_string(),
        "unit" | "units" | "done" | "failed" | "out" | "pending" | "abandoned" | "units_done"
        | "decomposed_units" | "duplicate" | "checked" => {
            (u128::from(random.number(64)) << random.below(65)).to_string()
        }
        "version" | "target" | "cores" | "compute_units" | "code" => random.number(16).to_string(),
        "slots" if kind != Sample::KIND => random.number(16).to_string(),
        "key" | "node" | "name" | "user" | "why" | "system" | "cpu" | "accelerators" | "believed" => {
            random.text()
        }
        _ => random.number(64).to_string(),
    }
}

/// An event of `kind`.
pub(crate) fn event(kind: &str, random: &mut Random, fill: Fill) -> Event {
    let (_, names) = Event::KINDS.iter().find(|(other, _)| *other == kind).unwrap();
    let fields = fields((kind, names), random, fill, |fields| Event::read(kind, fields));
    Event::read(kind, &fields[..]).unwrap()
}

/// An event of each kind.
pub(crate) fn events(random: &mut Random, fill: Fill) -> Vec<Event> {
    Event::KINDS.iter().map(|(kind, _)| event(kind, random, fill)).collect()
}

macro_rules! part {
    ($type:ident, $random:expr, $fill:expr) => {{
        let fields = fields(($type::KIND, $type::FIELDS), $random, $fill, |fields: &[_]| $type::read(fields));
        $type::read(&fields[..]).unwrap()
    }};
}

/// A snapshot with `count` of each part.
pub(crate) fn snapshot(random: &mut Random, fill: Fill, count: usize) -> Snapshot {
    let sample = part!(Sample, random, fill);
    let nodes = (0..count).map(|_| part!(NodeInfo, random, fill)).collect();
    let jobs = (0..count).map(|_| part!(JobInfo, random, fill)).collect();
    let held = (0..count).map(|_| part!(Held, random, fill)).collect();
    Snapshot { sample, jobs, nodes, held }
}

/// A folder of this test alone, gone at the end of it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("starfarm-logs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Names of its files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&self.0).unwrap().map(name).collect();
        names.sort();
        names
    }

    /// A file in it with this content.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn writer(dir: &Path, epoch: u64, limits: Limits) -> LogWriter {
    LogWriter::open(dir, FARM, Epoch(epoch), limits).unwrap()
}

/// A closed segment with these events, a millisecond apart.
pub(crate) fn segment(snapshot: &Snapshot, events: &[Event]) -> Vec<u8> {
    let folder = Folder::new();
    let mut writer = writer(folder.path(), 1, Limits::default());
    writer.begin(NOON_US, NOON_US, 0, snapshot).unwrap();
    let mut at_us = NOON_US;
    for event in events {
        at_us += 1_000;
        writer.event(at_us, event).unwrap();
    }
    writer.close(at_us, at_us).unwrap();
    fs::read(folder.path().join("00000001-000001.xml")).unwrap()
}

/// All that a reader makes of these bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Item>, LogError> {
    LogReader::new(bytes, "test.xml").collect()
}

/// The events among these.
pub(crate) fn events_of(items: &[Item]) -> Vec<Event> {
    let event = |item: &Item| match item {
        Item::Event(_, event) => Some(event.clone()),
        _ => None,
    };
    items.iter().filter_map(event).collect()
}

/// The notes among these.
pub(crate) fn notes_of(items: &[Item]) -> Vec<Note> {
    let note = |item: &Item| match item {
        Item::Note(note) => Some(note.clone()),
        _ => None,
    };
    items.iter().filter_map(note).collect()
}
