//! What is no log, or one that somebody made to hurt its reader.

use std::io::{self, BufReader, Read};

use starfarm_events::Event;
use starfarm_logs::{ELEMENT_BYTES_MAX, Fault, Item, LogError, LogReader, open, validate};

use crate::support::{Fill, Folder, Random, events, events_of, notes_of, read, segment, snapshot};

fn good() -> String {
    let random = &mut Random::new(3);
    String::from_utf8(segment(&snapshot(random, Fill::All, 1), &events(random, Fill::All))).unwrap()
}

fn fault(bytes: impl AsRef<[u8]>) -> LogError {
    match read(bytes.as_ref()) {
        Err(e) => e,
        Ok(items) => panic!("no error, but {items:?}"),
    }
}

#[test]
fn what_is_no_log_is_called_so() {
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff";
    let garbage: Vec<u8> = (0..20_000)
        .map({
            let mut random = Random::new(1);
            move |_| random.next() as u8
        })
        .collect();
    for bytes in [
        &gzip[..],
        &garbage,
        b"hello",
        b"<html><body/></html>",
        b"{\"a\": 1}",
        b"<logs/>",
        b"<xml",
        b"&amp;",
        b"\0\0x",
    ] {
        let e = fault(bytes);
        assert!(matches!(e.fault, Fault::NotALog), "{e}: {bytes:?}");
    }
    let utf16: Vec<u8> = good().encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(matches!(fault(utf16).fault, Fault::NotALog));
}

#[test]
fn another_format_is_named_with_ours() {
    for (from, to, named) in [
        ("urn:starfarm:log:1", "urn:starfarm:log:2", "`urn:starfarm:log:2` version `1`"),
        (" version=\"1\"", " version=\"7\"", "`urn:starfarm:log:1` version `7`"),
        (" xmlns=", " xmlns:a=", "`` version `1`"),
    ] {
        let text = good().replacen("version=\"1.0\"", "", 1).replacen(from, to, 1);
        let e = fault(text);
        assert!(matches!(e.fault, Fault::Version { .. }), "{e}");
        assert!(
            e.to_string().contains(named) && e.to_string().contains("reads `urn:starfarm:log:1` version 1"),
            "{e}"
        );
    }
    let e = fault(good().replacen("UTF-8", "ISO-8859-1", 1));
    assert!(e.to_string().contains("convert it to UTF-8"), "{e}");
}

#[test]
fn document_types_and_entities_are_refused() {
    let lol = "<!DOCTYPE log [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;\">]>\n<log";
    let e = fault(good().replacen("<log", lol, 1));
    assert!(matches!(e.fault, Fault::Doctype) && e.place.line == 2, "{e}");
    let e = fault(good().replacen("program=\"", "program=\"&b;", 1));
    assert!(matches!(&e.fault, Fault::Entity(name) if name == "b") && e.place.line == 2, "{e}");
    let e = fault(good().replacen("</snapshot>", "</snapshot>&b;", 1));
    assert!(matches!(&e.fault, Fault::Entity(name) if name == "b"), "{e}");
}

#[test]
fn damage_is_named_with_its_place() {
    let line = good().lines().position(|line| line.starts_with("<stalled ")).unwrap() as u64 + 1;
    let offset = good().find("<stalled ").unwrap() as u64;
    for (from, to) in [
        ("<stalled ", "<stalled at=\"1\" "),
        ("<stalled ", "<stalled at=1 "),
        ("<stalled at=\"", "<stalled at=\"\u{1}"),
        ("<stalled at=\"", "<stalled at=\"<"),
        ("<stalled ", "</stalled "),
        ("<stalled ", "text <stalled "),
        ("<stalled ", "<![CDATA[x]]><stalled "),
        ("<stalled ", "<!x><stalled "),
    ] {
        let e = fault(good().replacen(from, to, 1));
        assert!(matches!(e.fault, Fault::Malformed(_)), "{to}: {e}");
        assert_eq!(e.place.line, line - u64::from(to.starts_with("text")), "{to}: {e}");
        assert!(e.place.offset <= offset && offset - e.place.offset < 3, "{to}: {e}");
    }
    let mut bytes = good().into_bytes();
    bytes[offset as usize + 3] = 0xff;
    assert!(matches!(fault(bytes).fault, Fault::Malformed(_)));
    let e = fault(format!("{}<stalled at=\"1\" for_us=\"1\"/>", good()));
    assert!(e.to_string().contains("behind the log's end"), "{e}");
}

/// A lost quote turns all that follows inside out, up to the end of the file: that is no cut.
#[test]
fn a_lost_quote_or_bracket_in_a_closed_segment_is_damage_and_no_cut() {
    let line = good().lines().position(|line| line.starts_with("<stalled ")).unwrap() as u64 + 1;
    let folder = Folder::new();
    let mut ends_open = 0;
    for (from, to) in
        [("<stalled at=\"", "<stalled at="), ("<stalled ", "<stalled \""), ("<stalled ", "<!-- ")]
    {
        let bad = good().replacen(from, to, 1);
        let file = folder.file("00000001-000001.xml", &bad);
        let e = open(&file).unwrap().find_map(Result::err).unwrap();
        assert!(matches!(e.fault, Fault::Malformed(_)) && e.place.line == line, "{to}: {e}");
        assert!(e.to_string().contains("00000001-000001.xml, line"), "{e}");
        ends_open += u64::from(e.to_string().contains("has no end"));
        let e = validate(&file).unwrap_err();
        assert!(matches!(e.fault, Fault::Malformed(_)) && e.place.line == line, "{to}: {e}");
    }
    assert!(ends_open > 0);
}

#[test]
fn only_a_segment_in_use_is_said_to_have_a_scheduler() {
    let folder = Folder::new();
    let text = good();
    let cut = &text[..text.len() - 30];
    let ended = |name: &str| {
        let file = folder.file(name, cut);
        let items: Vec<Item> = open(&file).unwrap().map(Result::unwrap).collect();
        (notes_of(&items)[0].what.clone(), validate(&file).err().map(|e| e.to_string()))
    };
    let (note, error) = ended("00000001-000001.xml");
    let error = error.unwrap();
    assert!(note.contains("the end of this file is lost"), "{note}");
    assert!(error.contains("the end of this file is lost") && !error.contains("next start"), "{error}");
    let (note, error) = ended("00000001-000001.xml.part");
    assert!(note.contains("its scheduler runs, or was stopped") && error.is_none(), "{note}, {error:?}");
}

#[test]
fn after_damage_nothing_more_comes() {
    let text = good().replacen("<stalled ", "text <stalled ", 1);
    let mut reader = LogReader::new(text.as_bytes(), "x");
    assert!(reader.by_ref().any(|item| item.is_err()));
    assert!(reader.next().is_none());
}

#[test]
fn numbers_that_do_not_fit_each_other_are_read_and_not_valid() {
    let folder = Folder::new();
    let text = good();
    let file = |name: &str, text: &str| folder.file(name, text);
    validate(&file("good", &text)).unwrap();
    let line = |kind: &str| text.lines().find(|line| line.starts_with(&format!("<{kind} "))).unwrap();
    let with = |kind: &str, field: &str, value: &str| {
        let (before, rest) = line(kind).split_once(&format!(" {field}=\"")).unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        text.replacen(line(kind), &format!("{before} {field}=\"{value}\"{after}"), 1)
    };
    let at_us: u64 = line("tasks").split('"').nth(1).unwrap().parse().unwrap();
    for (kind, field, value, said) in [
        ("tasks", "hi", "0".to_owned(), "`lo` must be below `hi`"),
        ("task_expired", "lo", "3".repeat(39), "`lo` must be below `hi`"),
        ("task_copied", "hi", "0".to_owned(), "`lo` must be below `hi`"),
        ("conflict", "hi", "0".to_owned(), "`lo` must be below `hi`"),
        ("held", "hi", "0".to_owned(), "`lo` must be below `hi`"),
        ("tasks", "begun_us", (1_u64 << 42).to_string(), "later than `ended_us`"),
        ("tasks", "ended_us", u64::MAX.to_string(), "later than `at`"),
        ("tasks", "ended_us", (at_us + 1_000_001).to_string(), "later than `at`"),
    ] {
        let bad = file("bad", &with(kind, field, &value));
        assert!(open(&bad).unwrap().all(|item| item.is_ok()), "{kind} {field}");
        let e = validate(&bad).unwrap_err();
        assert!(e.to_string().contains(said) && e.place.line > 2, "{kind} {field}: {e}");
    }
    validate(&file("late", &with("tasks", "ended_us", &(at_us + 1_000_000).to_string()))).unwrap();
}

/// Any bytes of a log, changed by chance, are read or refused, never more.
#[test]
fn changed_bytes_are_read_or_refused() {
    let good = good().into_bytes();
    let mut refused = 0;
    for seed in 0..3_000 {
        let random = &mut Random::new(seed);
        let mut bytes = good.clone();
        for _ in 0..1 + random.next() % 4 {
            let at = random.next() as usize % bytes.len();
            match random.next() % 4 {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] = b"<>&\"/\\ \n="[random.next() as usize % 9],
                2 => drop(bytes.drain(at..(at + random.next() as usize % 50).min(bytes.len()))),
                _ => bytes.insert(at, b"<>&\"/;"[random.next() as usize % 6]),
            }
        }
        match read(&bytes) {
            Ok(items) => assert!(matches!(items[0], Item::Opened(_) | Item::Note(_))),
            Err(e) => {
                refused += 1;
                assert!(e.place.offset <= bytes.len() as u64 && !e.to_string().contains('\n'), "{e}");
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// A file that is never in memory: a head, then the same piece again and again.
struct Endless {
    head: Vec<u8>,
    piece: &'static [u8],
    at: usize,
    left: u64,
    /// Bytes that were asked for.
    given: u64,
}

impl Read for Endless {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let from = if self.at < self.head.len() {
            &self.head[self.at..]
        } else {
            &self.piece[(self.at - self.head.len()) % self.piece.len()..]
        };
        let count = from.len().min(to.len()).min(self.left as usize);
        to[..count].copy_from_slice(&from[..count]);
        self.at += count;
        self.left -= count as u64;
        self.given += count as u64;
        Ok(count)
    }
}

fn endless(head: &str, piece: &'static [u8]) -> LogReader<BufReader<Endless>> {
    let input = Endless { head: head.as_bytes().to_vec(), piece, at: 0, left: 200 << 20, given: 0 };
    LogReader::new(BufReader::with_capacity(64 << 10, input), "endless")
}

/// The head of a log, up to its first event.
fn head() -> String {
    let text = good();
    text[..text.find("</snapshot>").unwrap() + "</snapshot>".len()].to_owned()
}

#[test]
fn a_line_without_end_is_refused_at_the_length_of_an_entry() {
    for (head, piece, what) in [
        (head(), &b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[..], "text"),
        (head() + "<stalled at=\"", b"1111111111111111111111111", "a value"),
        (head() + "<stalled ", b"a=\"1\" b=\"2\" ", "attributes"),
        (head() + "<!--", b"- ", "a comment"),
        (head(), b"  \n", "blanks"),
    ] {
        let mut reader = endless(&head, piece);
        let e = reader.find_map(Result::err).unwrap();
        assert!(matches!(e.fault, Fault::TooLong), "{what}: {e}");
        assert!(e.to_string().contains("longer than 1048576 bytes"), "{e}");
        assert!(e.place.offset <= head.len() as u64, "{what}: {e}");
    }
    let e = endless("", b"abcdef").find_map(Result::err).unwrap();
    assert!(matches!(e.fault, Fault::NotALog), "{e}");
}

#[test]
fn nesting_without_end_is_refused() {
    let e = endless(&head(), b"<a>").find_map(Result::err).unwrap();
    assert!(matches!(e.fault, Fault::TooDeep), "{e}");
}

/// 200 MiB of entries on one line, and then a cut: the reader holds one entry at a time.
#[test]
fn many_entries_on_one_line_are_read_in_flat_memory() {
    let piece = b"<node_busy at=\"1795262400000000\" node=\"a-node-with-a-name\"/>";
    let before = peak_kib();
    let mut events = 0_u64;
    for item in endless(&head(), piece) {
        events += u64::from(matches!(item.unwrap(), Item::Event(_, Event::NodeBusy { .. })));
    }
    assert!(events > (199 << 20) / piece.len() as u64, "{events}");
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        let allowed = 8 * ELEMENT_BYTES_MAX as u64 / 1_024;
        assert!(after - before < allowed, "from {before} KiB to {after} KiB");
    }
}

/// The most memory that this process ever had, KiB; none where the system does not say.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn a_path_without_a_log_says_what_to_name() {
    let folder = Folder::new();
    let e = open(folder.path()).unwrap_err();
    assert!(e.to_string().contains("name the directory that the scheduler logs to"), "{e}");
    let e = open(&folder.path().join("nothing")).unwrap_err();
    assert!(matches!(e.fault, Fault::Io(_)) && e.to_string().contains("nothing: cannot be read"), "{e}");
    folder.file("00000001-000001.xml", "hello");
    let e = open(folder.path()).unwrap().find_map(Result::err).unwrap();
    assert!(matches!(e.fault, Fault::NotALog), "{e}");
    let file = folder.file("any name", good());
    let items: Vec<Item> = open(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(events_of(&items).len(), Event::KINDS.len());
}

/// Each attribute is compared with all before it: a million of them would take a day.
#[test]
fn an_element_with_very_many_attributes_is_refused() {
    let with = |count: usize| {
        let many: String = (0..count).map(|at| format!(" a{at}=\"\"")).collect();
        good().replacen("<stalled ", &format!("<stalled{many} "), 1)
    };
    assert!(read(with(200).as_bytes()).is_ok(), "a later version may have more than ours");
    let e = fault(with(100_000));
    assert!(matches!(e.fault, Fault::Malformed(_)) && e.to_string().contains("more than 256"), "{e}");
}

#[test]
fn a_text_that_is_longer_than_any_of_ours_is_passed_over() {
    let named = |bytes: usize| {
        let line = format!("<node_busy at=\"1795262400000000\" node=\"{}\"/>\n", "x".repeat(bytes));
        format!("{}\n{line}", head())
    };
    let (whole, long) = (read(named(512).as_bytes()).unwrap(), read(named(513).as_bytes()).unwrap());
    assert_eq!((events_of(&whole).len(), events_of(&long).len()), (1, 0));
    let notes = notes_of(&long);
    assert!(notes.iter().any(|note| note.what.contains("`node` of `node_busy` cannot be `xxx")), "{notes:?}");
    let long = good().replacen("program=\"", &format!("program=\"{}", "x".repeat(512)), 1);
    assert!(fault(long).to_string().contains("`program` of `log`"));
}
