//! Datagrams of monitored values against a second implementation in Python, written from the docs: both ways, real sockets, the
//! stages as an agent has them.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use starfarm_agent::measure::Graph;
use starfarm_agent_core::{Context, Hook, Order, Stage, Triples, When, Who, Word, ids};
use starfarm_e2e::has;
use starfarm_protocol::random::SplitMix64;

const PATIENCE: Duration = Duration::from_secs(60);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/datagrams.py");

/// What came to a stage, a line a message.
struct Ledger(Rc<RefCell<Vec<String>>>);

impl Stage for Ledger {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        self.0.borrow_mut().push(line(values.into_iter().map(|triple| (triple.id.0, triple.value.to_vec()))));
    }
}

fn line(values: impl Iterator<Item = (u32, Vec<u8>)>) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    values.map(|(id, value)| format!("{id}:{}", hex(&value))).collect::<Vec<_>>().join(",")
}

/// A graph whose stage `wire` is of that type and has these settings.
struct Tried {
    graph: Graph,
    values: Rc<RefCell<Vec<String>>>,
    counts: Rc<RefCell<Vec<String>>>,
}

impl Tried {
    fn new(of: &str, settings: &[(&str, &str)]) -> Self {
        let (mut graph, values, counts) = (Graph::new().unwrap(), Rc::default(), Rc::default());
        let runtime = &mut graph.runtime;
        let create = Order::Create { type_name: of.into(), name: Some("wire".into()) };
        runtime.order(create, 0).unwrap();
        for (key, value) in settings {
            let word = Word::Set { key: (*key).into(), value: (*value).into() };
            runtime.order(Order::Tell(Who::from("wire"), word), 0).unwrap();
        }
        runtime.add("ledger", Box::new(Ledger(Rc::clone(&values))), Some("values")).unwrap();
        runtime.add("ledger", Box::new(Ledger(Rc::clone(&counts))), Some("counts")).unwrap();
        runtime.order(Order::Link(end("wire", "counts"), end("counts", "in")), 0).unwrap();
        runtime.order(Order::Timer("second".into(), When::Every(50_000)), 0).unwrap();
        runtime.order(Order::Subscribe("second".into(), Who::from("wire"), true), 0).unwrap();
        Self { graph, values, counts }
    }

    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "still waiting until {what}");
            self.graph.turn(Duration::from_millis(50)).unwrap();
        }
    }

    /// What was counted under that id, as it was said last.
    fn count(&self, id: starfarm_agent_core::ValueId) -> u64 {
        let counts = self.counts.borrow();
        let said = counts.last().into_iter().flat_map(|line| line.split(','));
        let value = said.filter_map(|one| one.strip_prefix(&format!("{}:", id.0))).next();
        value.map_or(0, |hex| u64::from_str_radix(hex, 16).unwrap().swap_bytes())
    }
}

fn end(stage: &str, hook: &str) -> (Who, String) {
    (Who::from(stage), hook.into())
}

/// Messages of scalars, vectors, structures and nothing, of ids that somebody knows and of others.
fn messages(count: usize) -> Vec<String> {
    let mut random = SplitMix64(14);
    let message = |_| {
        let values = (0..random.below(12)).map(|_| {
            let id =
                [1 + random.below(9), 1_000_000 + random.below(9), 1 + random.below(u64::from(u32::MAX))];
            let length = [4, 8, 8 * random.below(12), random.below(40)][random.below(4) as usize];
            let value = (0..length).map(|_| random.below(256) as u8).collect();
            (id[random.below(3) as usize] as u32, value)
        });
        line(values)
    };
    (0..count).map(message).collect()
}

/// A port that is free.
fn port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn python_sends(format: &str, port: u16, lines: &[String]) {
    let mut python = Command::new("python3");
    python.args([SCRIPT, "send", format, "127.0.0.1", &port.to_string()]);
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    assert_eq!(String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap(), "ok\n");
}

/// The format by its name in Python, and by the stage's settings.
const FORMATS: [(&str, [(&str, &str); 2]); 4] = [
    ("host", [("format", "dimmon"), ("order", "host")]),
    ("little", [("format", "dimmon"), ("order", "little")]),
    ("big", [("format", "dimmon"), ("order", "big")]),
    ("triples", [("format", "triples"), ("order", "host")]),
];

#[test]
fn what_python_writes_the_stage_reads() {
    if !has("python3", "what_python_writes_the_stage_reads") {
        return;
    }
    for (format, settings) in FORMATS {
        let (port, mut sent) = (port(), messages(300));
        let listen = format!("127.0.0.1:{port}");
        let own = [("listen", listen.as_str()), ("from", "127.0.0.1"), settings[0], settings[1]];
        let mut stage = Tried::new("udp_receive", &own);
        stage.graph.runtime.order(Order::Link(end("wire", "out"), end("values", "in")), 0).unwrap();
        python_sends(format, port, &sent);
        stage.until("all were counted", |stage| stage.count(ids::MESSAGES) == 300);
        // A message without values is none.
        sent.retain(|line| !line.is_empty());
        assert_eq!(*stage.values.borrow(), sent, "{format}");
        assert_eq!((stage.count(ids::MALFORMED), stage.count(ids::REFUSED)), (0, 0));
    }
}

#[test]
fn what_is_no_datagram_or_comes_from_elsewhere_is_counted_and_nothing_more() {
    if !has("python3", "what_is_no_datagram_or_comes_from_elsewhere_is_counted_and_nothing_more") {
        return;
    }
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let own = [("listen", listen.as_str()), ("from", "127.0.0.1, 127.9.0.0/16"), ("order", "little")];
    let mut stage = Tried::new("udp_receive", &own);
    stage.graph.runtime.order(Order::Link(end("wire", "out"), end("values", "in")), 0).unwrap();
    let bad = [
        // Nothing; half a head; no end mark; half an end mark.
        "",
        "0100",
        "010000000400000063000000",
        "01000000040000006300000000000000",
        // A value that is cut, and one of 2^32 - 1 bytes.
        "010000000400000063",
        "01000000ffffffff630000000000000000000000",
        // The other byte order.
        "0000000100000004000000630000000000000000",
        // Something behind the end mark, and an end mark that is a value.
        "000000000000000001",
        "0000000004000000630000000000000000000000",
    ];
    let mut lines: Vec<String> = bad.iter().map(|bytes| format!("raw {bytes}")).collect();
    lines.push(format!("raw {}", "00".repeat(9_001)));
    lines.extend(["from 127.0.0.2 1:63".into(), "from 127.8.255.255 1:64".into()]);
    lines.extend(["from 127.9.1.1 2:65".into(), "1:66".into()]);
    python_sends("little", port, &lines);
    stage.until("the last one has come", |stage| stage.count(ids::MESSAGES) == 2);
    assert_eq!(*stage.values.borrow(), ["2:65", "1:66"]);
    assert_eq!((stage.count(ids::MALFORMED), stage.count(ids::REFUSED)), (bad.len() as u64 + 1, 2));
    assert_eq!(stage.count(ids::LOST), 0);
}

#[test]
fn what_the_stage_writes_python_reads() {
    if !has("python3", "what_the_stage_writes_python_reads") {
        return;
    }
    for (format, settings) in FORMATS {
        let mut sent = messages(200);
        sent.retain(|line| !line.is_empty());
        let mut python = Command::new("python3");
        python.args([SCRIPT, "receive", format, &sent.len().to_string()]);
        let mut python = python.stdout(Stdio::piped()).spawn().unwrap();
        let (mut heard, mut first) = (BufReader::new(python.stdout.take().unwrap()), String::new());
        heard.read_line(&mut first).unwrap();
        let to = format!("127.0.0.1:{}", first.trim());
        let mut stage = Tried::new("udp_send", &[("to", &to), settings[0], settings[1]]);
        // What says the values is another stage, which has them from elsewhere.
        let port = port();
        let listen = format!("127.0.0.1:{port}");
        let create = Order::Create { type_name: "udp_receive".into(), name: Some("source".into()) };
        stage.graph.runtime.order(create, 0).unwrap();
        for (key, value) in [("format", "triples"), ("from", "127.0.0.1"), ("listen", &listen)] {
            let word = Word::Set { key: key.into(), value: value.into() };
            stage.graph.runtime.order(Order::Tell(Who::from("source"), word), 0).unwrap();
        }
        stage.graph.runtime.order(Order::Link(end("source", "out"), end("wire", "in")), 0).unwrap();
        python_sends("triples", port, &sent);
        stage.until("all have left", |stage| stage.count(ids::MESSAGES) == sent.len() as u64);
        let mut read = String::new();
        heard.read_to_string(&mut read).unwrap();
        assert!(python.wait().unwrap().success());
        let mut all = String::new();
        sent.iter().for_each(|line| writeln!(all, "{line}").unwrap());
        assert_eq!(read, all, "{format}");
    }
}

#[test]
fn settings_that_are_wrong_are_refused_in_words() {
    let mut graph = Graph::new().unwrap();
    for of in ["udp_receive", "udp_send"] {
        let create = Order::Create { type_name: of.into(), name: Some(of.into()) };
        graph.runtime.order(create, 0).unwrap();
    }
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let in_use = holder.local_addr().unwrap().to_string();
    for (of, key, value, why) in [
        ("udp_receive", "listen", "somewhere", "an address and a port"),
        ("udp_receive", "listen", &in_use, "cannot listen at"),
        ("udp_receive", "from", "10.0.0.1/24", "ends in zeros"),
        ("udp_receive", "buffer", "0", "bytes, from 1 to"),
        ("udp_receive", "ids", "0=cpu", "from 1 on"),
        ("udp_receive", "format", "xml", "`dimmon` or `triples`"),
        ("udp_receive", "order", "middle", "`host`, `little` or `big`"),
        ("udp_receive", "to", "127.0.0.1:1", "has no setting `to`: it has `listen`, `from`, `buffer`"),
        ("udp_send", "to", "127.0.0.1", "an address and a port"),
        ("udp_send", "listen", "127.0.0.1:1", "has no setting `listen`: it has `to`"),
    ] {
        let word = Word::Set { key: key.into(), value: value.into() };
        let refusal = graph.runtime.order(Order::Tell(Who::from(of), word), 0).unwrap_err().to_string();
        assert!(refusal.contains(why), "{of} {key} = {value}: {refusal}");
    }
}
