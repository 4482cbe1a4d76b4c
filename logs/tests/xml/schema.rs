//! The schema says what the event model says, and another reader of XML agrees with both.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use quick_xml::Reader;
use quick_xml::events::Event as Xml;
use starfarm_events::{
    Entry, Event, Held, IdleReason, JobChange, JobInfo, NodeInfo, NodeState, Outcome, Sample, Snapshot,
};
use starfarm_logs::{schema, validate};
use starfarm_protocol::admin::{KeyKind, PostLoss, UsageSpan};
use starfarm_protocol::job::JobState;
use starfarm_protocol::orders::PostKind;
use starfarm_protocol::seal::Role;
use starfarm_protocol::state::Completion;
use starfarm_protocol::wire::FailReason;

use crate::support::{Fill, Folder, Random, events, segment, snapshot};

/// What the schema declares: attributes of each element or type (`true`: it must be there), words of each type.
#[derive(Default)]
struct Schema {
    attributes: BTreeMap<String, BTreeMap<String, bool>>,
    words: BTreeMap<String, Vec<String>>,
}

fn parse_schema() -> Schema {
    let (mut found, mut names, mut reader) = (Schema::default(), Vec::new(), Reader::from_str(schema()));
    loop {
        let (tag, holds) = match reader.read_event().unwrap() {
            Xml::Start(tag) => (tag, true),
            Xml::Empty(tag) => (tag, false),
            Xml::End(_) => {
                names.pop();
                continue;
            }
            Xml::Eof => return found,
            _ => continue,
        };
        let attribute =
            |name: &str| tag.try_get_attribute(name).unwrap().map(|found| found.value.into_owned());
        let owner =
            || names.iter().rev().find(|name: &&String| !name.is_empty()).cloned().unwrap_or_default();
        match tag.name().0 {
            "xs:attribute" => {
                let required = attribute("use").as_deref() == Some("required");
                found.attributes.entry(owner()).or_default().insert(attribute("name").unwrap(), required);
            }
            "xs:enumeration" => found.words.entry(owner()).or_default().push(attribute("value").unwrap()),
            "xs:element" | "xs:complexType" | "xs:attributeGroup" => {
                if let Some(name) = attribute("name") {
                    found.attributes.entry(name).or_default();
                }
            }
            _ => {}
        }
        if holds {
            names.push(attribute("name").unwrap_or_default());
        }
    }
}

/// The fields of a kind, and whether each must be there, which `read` tells when it is left out.
fn fields(kind: &str, names: &[&str], read: impl Fn(&[(&str, String)]) -> bool) -> BTreeMap<String, bool> {
    let random = &mut Random::new(1);
    let all: Vec<_> = names.iter().map(|name| (*name, crate::support::value(kind, name, random))).collect();
    assert!(read(&all), "{kind}: {all:?}");
    let needed =
        |name: &str| !read(&all.iter().filter(|(other, _)| *other != name).cloned().collect::<Vec<_>>());
    names.iter().map(|name| ((*name).to_owned(), needed(name))).collect()
}

#[test]
fn each_kind_and_field_is_in_the_schema_and_nothing_else() {
    let mut ours: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    for (kind, names) in Event::KINDS {
        let mut fields = fields(kind, names, |fields| Event::read(kind, fields).is_ok());
        fields.insert("at".to_owned(), true);
        ours.insert((*kind).to_owned(), fields);
    }
    ours.insert(
        NodeInfo::KIND.to_owned(),
        fields(NodeInfo::KIND, NodeInfo::FIELDS, |fields| NodeInfo::read(fields).is_ok()),
    );
    ours.insert(
        JobInfo::KIND.to_owned(),
        fields(JobInfo::KIND, JobInfo::FIELDS, |fields| JobInfo::read(fields).is_ok()),
    );
    ours.insert(Held::KIND.to_owned(), fields(Held::KIND, Held::FIELDS, |fields| Held::read(fields).is_ok()));
    let mut theirs = parse_schema().attributes;
    for own in ["log", "closed", "saved", "snapshot"] {
        assert!(theirs.remove(own).is_some(), "{own}");
    }
    assert_eq!(theirs, ours);
    assert_eq!(ours[Sample::KIND].len(), Sample::FIELDS.len() + 1);
}

#[test]
fn the_schema_has_the_words_of_the_model() {
    let words = parse_schema().words;
    assert!(words["node_state"].iter().eq(NodeState::ALL.iter().map(|word| word.word())));
    assert!(words["idle_reason"].iter().eq(IdleReason::ALL.iter().map(|word| word.word())));
    assert!(words["outcome"].iter().eq(Outcome::ALL.iter().map(|word| word.word())));
    assert!(words["job_state"].iter().eq(JobState::ALL.iter().map(|word| word.word())));
    let changes = JobState::ALL.iter().map(|state| JobChange::To(*state)).chain([JobChange::Deleted]);
    assert!(words["job_change"].iter().eq(changes.map(JobChange::word)));
    assert!(words["completion"].iter().eq(Completion::ALL.iter().map(|word| word.word())));
    assert!(words["fail_reason"].iter().eq(FailReason::ALL.iter().map(|word| word.word())));
    assert!(words["key_kind"].iter().eq(KeyKind::ALL.iter().map(|word| word.word())));
    assert!(words["post_kind"].iter().eq(PostKind::ALL.iter().map(|word| word.word())));
    assert!(words["post_loss"].iter().eq(PostLoss::ALL.iter().map(|word| word.word())));
    assert!(words["usage_span"].iter().eq(UsageSpan::ALL.iter().map(|word| word.word())));
    assert!(words["role"].iter().eq(Role::BY_JOIN_KEY.iter().map(|word| word.word())));
}

/// What xmllint says of a file; none without it.
fn xmllint(test: &str, path: &Path) -> Option<Result<(), String>> {
    let folder = Folder::new();
    let schema = folder.file("log.xsd", schema());
    let output = match Command::new("xmllint").args(["--noout", "--schema"]).arg(schema).arg(path).output() {
        Ok(output) => output,
        Err(e) => {
            skip(test, &e.to_string());
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_ne!(output.status.code(), Some(5), "the schema itself is wrong: {said}");
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

/// Says, and notes for the summary of the run, that xmllint is missing.
fn skip(test: &str, why: &str) {
    eprintln!("skipped {test}: it needs xmllint: {why}");
    if let Some(path) = std::env::var_os("STARFARM_SKIPS") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "xmllint: {test}: {why}").unwrap();
    }
}

#[test]
fn xmllint_finds_all_that_is_written_valid() {
    let folder = Folder::new();
    for (seed, fill) in
        [(1, Fill::All), (2, Fill::Least), (3, Fill::Chance), (4, Fill::Chance), (5, Fill::All)]
    {
        let random = &mut Random::new(seed);
        let bytes = segment(&snapshot(random, fill, 3), &events(random, fill));
        let path = folder.file("1-1.xml", bytes);
        let Some(said) = xmllint("xmllint_finds_all_that_is_written_valid", &path) else { return };
        assert_eq!(said, Ok(()), "seed {seed}");
    }
    let path = folder.file("1-2.xml", segment(&Snapshot::default(), &[]));
    let said = xmllint("xmllint_finds_all_that_is_written_valid", &path);
    assert_eq!(said, Some(Ok(())));
}

/// Without the attribute `dropped`, which an edit put in the place of another value.
fn without_dropped(text: &str) -> String {
    match text.split_once(" dropped=\"").and_then(|(head, rest)| Some((head, rest.split_once('"')?.1))) {
        Some((head, tail)) => format!("{head}{tail}"),
        None => text.to_owned(),
    }
}

#[test]
fn xmllint_and_our_own_check_refuse_the_same() {
    let folder = Folder::new();
    let random = &mut Random::new(11);
    let good =
        String::from_utf8(segment(&snapshot(random, Fill::All, 1), &events(random, Fill::All))).unwrap();
    for (what, from, to) in [
        ("another element", "<node_busy ", "<node_bsy "),
        ("a field is missing", " for_us=", " foo_us="),
        ("a field too many", "<stalled ", "<stalled more=\"1\" "),
        ("no number", "<stalled at=\"", "<stalled at=\"x"),
        ("a number with a sign", " for_us=\"", " for_us=\"+"),
        ("a segment's number with a sign", " segment=\"", " segment=\"+"),
        ("a number with an exponent", " power_mean=\"", " power_mean=\"1e308\" dropped=\""),
        ("a moment of no calendar", "<stalled at=\"", "<stalled at=\"18446744073709551615\" dropped=\""),
        ("two dashes in a comment", "<snapshot ", "<!-- a -- b --><snapshot "),
        ("no state", "state=\"quarantined\"", "state=\"sleepy\""),
        ("a backslash", "program=\"", "program=\"a\\b"),
        (
            "an entry before the snapshot",
            "<snapshot ",
            "<stalled at=\"1795262400000000\" for_us=\"1\"/><snapshot ",
        ),
        ("an entry behind the end", "</log>", "<stalled at=\"1795262400900000\" for_us=\"1\"/></log>"),
        ("another order", "</snapshot>", "<node/></snapshot>"),
        ("not closed", "<closed ", "<saved "),
        ("a moment that is none", " utc=\"2026-11-", " utc=\"2026-13-"),
        ("another namespace", "urn:starfarm:log:1", "urn:starfarm:log:2"),
        ("another version", "version=\"1\"", "version=\"2\""),
        ("an entity", "program=\"", "program=\"&foo;"),
        ("not well-formed", "</snapshot>", ""),
    ] {
        let bad = good.replacen(from, to, 1).replace("<?xml version=\"2\"", "<?xml version=\"1.0\"");
        let bad = without_dropped(&bad);
        assert_ne!(good, bad, "{what}");
        let path = folder.file("1-1.xml", bad);
        assert!(validate(&path).is_err(), "{what}");
        let Some(said) = xmllint("xmllint_and_our_own_check_refuse_the_same", &path) else { return };
        assert!(said.is_err(), "{what}");
    }
}
