//! Sentences of `docs/protocol.md` about keys, streams and specifications, each tried on a real scheduler. Those about
//! datagrams are in `page`.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::Value;
use starfarm_e2e::{BulkClient, Farm, stdouts};
use starfarm_protocol::admin::frames::frame;
use starfarm_protocol::admin::{Place, Request, Response, Submit};
use starfarm_protocol::bulk::{BULK, Reply, Request as Ask};
use starfarm_protocol::ids::{Boot, ContentHash};
use starfarm_protocol::job::{MaxFailures, Sizing};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::{Initiator, Introduction, Mode, Outcome, StaticKey};
use starfarm_protocol::terms::Terms;
use starfarm_protocol::trust::TrustChecks;
use starfarm_wicked::Hand;

fn join_file(farm: &Farm) -> JoinFile {
    let text = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    JoinFile::from_text(&text).unwrap()
}

fn node(farm: &Farm, name: &str) -> Value {
    farm.ask(&["node", "show", name])["nodes"][0].take()
}

/// "A worker's key keeps the name that it is enrolled under ... A name passes to another key only after the first one is
/// revoked; the scheduler then treats the new key as the same node ..."
#[test]
fn a_key_keeps_its_name_and_a_name_its_key_until_that_is_revoked() {
    let farm = Farm::start();
    let join = join_file(&farm);
    let [key, other] = [(); 2].map(|()| StaticKey::generate().unwrap());
    let refusal = |key: &StaticKey, name: &str| match Hand::shake(&join, key, name) {
        Err(why) => why.to_string(),
        Ok(_) => String::new(),
    };
    let mut hand = Hand::shake(&join, &key, "west").unwrap();
    hand.greet();
    let before = node(&farm, "west")["id"].clone();
    let why = refusal(&key, "east");
    assert!(why.contains("west"), "{why}");
    let why = refusal(&other, "west");
    assert!(why.contains("another key"), "{why}");
    farm.cli(&["key", "revoke", "west"]).exits(0);
    let why = refusal(&key, "west");
    assert!(why.contains("revoked"), "{why}");
    let mut hand = Hand::shake(&join, &other, "west").unwrap();
    hand.greet();
    assert_eq!(node(&farm, "west")["id"], before, "it is the same node");
}

/// "The first record of a stream enrols a key as well, but makes no node of it: only a data packet does."
#[test]
fn a_stream_alone_enrols_a_key_and_makes_no_node_of_it() {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--", "true"]);
    let spec: ContentHash = serde_json::from_value(farm.job("1")["spec"].clone()).unwrap();
    let mut stream = BulkClient::open(farm.address(), &farm.state().join("worker.join"), "quiet");
    stream.get(spec, 0);
    assert!(stream.reply().unwrap().starts_with("Found"), "it has what a worker has");
    let keys = farm.ask(&["key", "list"])["keys"].take();
    let is_there =
        keys.as_array().unwrap().iter().any(|key| key["name"] == "quiet" && key["kind"] == "enrolled");
    assert!(is_there, "{keys}");
    assert_eq!(farm.node_state("quiet"), "");
}

/// "A get from the end of the content or behind it is answered by found alone."
#[test]
fn a_get_behind_the_end_is_answered_by_found_alone() {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--", "true"]);
    let spec: ContentHash = serde_json::from_value(farm.job("1")["spec"].clone()).unwrap();
    let mut stream = BulkClient::open(farm.address(), &farm.state().join("worker.join"), "quiet");
    stream.get(spec, 0);
    let found = stream.reply().unwrap();
    let total: u64 =
        found.strip_prefix("Found { total: ").unwrap().strip_suffix(" }").unwrap().parse().unwrap();
    assert!(stream.reply().unwrap().starts_with("Chunk"));
    // Were a chunk behind the first found, the second found would come later.
    for offset in [total, total + 1, u64::MAX] {
        stream.get(spec, offset);
        assert_eq!(stream.reply().unwrap(), found);
    }
    stream.get(ContentHash([9; 32]), 0);
    assert!(stream.reply().unwrap().starts_with("Refused"));
}

/// "No record carries an index, so both indexes of a stream's handshake mean nothing: the scheduler's is 0, and it gives
/// back the worker's, whatever that is."
#[test]
fn another_index_than_zero_on_a_stream_is_given_back_and_says_nothing() {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--", "true"]);
    let spec: ContentHash = serde_json::from_value(farm.job("1")["spec"].clone()).unwrap();
    for index in [0, 5] {
        let (join, key) = (join_file(&farm), StaticKey::generate().unwrap());
        let who = Introduction {
            key: &key,
            scheduler: &join.scheduler_key,
            join_secret: &join.join_secret,
            name: &format!("by-{index}"),
            boot: Boot(1),
            mode: Mode { stream: true, ..Mode::default() },
        };
        let (mut initiator, initiation) = Initiator::start(&who, index, None).unwrap();
        let mut socket = TcpStream::connect(farm.address()).unwrap();
        let read = |socket: &mut TcpStream| {
            let mut length = [0; 4];
            socket.read_exact(&mut length).unwrap();
            let mut body = vec![0; u32::from_le_bytes(length) as usize];
            socket.read_exact(&mut body).unwrap();
            body
        };
        socket.write_all(&[&(initiation.len() as u32).to_le_bytes()[..], &initiation].concat()).unwrap();
        let response = read(&mut socket);
        assert_eq!(response[4..8], index.to_le_bytes());
        let Ok(Outcome::Accepted(accepted)) = initiator.read_response(&response) else {
            panic!("not accepted")
        };
        let (mut stream, mut out) = (accepted.into_stream(), Vec::new());
        stream.sealer.seal(&[BULK], &mut out).unwrap();
        stream.sealer.seal(&Ask::Get { hash: spec, offset: 0 }.to_bytes(), &mut out).unwrap();
        socket.write_all(&out).unwrap();
        let mut record = Vec::new();
        stream.opener.open(&read(&mut socket), &mut record).unwrap();
        assert!(matches!(Reply::read(&record), Ok(Reply::Found { .. })));
    }
}

fn ask(farm: &Farm, request: &Request) -> Response {
    let mut socket = UnixStream::connect(farm.state().join("admin.sock")).unwrap();
    socket.write_all(&frame(request).unwrap()).unwrap();
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut json = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// "`command` and `nothing` go with every space, `search` with `chars` alone, `opencl` with `range`, `frames`, `grid` and
/// `chars` of one length; the scheduler accepts no other job." "A candidate of a search has at most 55 bytes, of `ntlm`
/// at most 27."
#[test]
fn programs_and_nothing_go_with_every_space_and_a_search_with_characters_alone() {
    let farm = Farm::with_workers(1, 1);
    let submit = |space: &str, work: &str| {
        let submit = Submit {
            name: "page".into(),
            user: "ada".into(),
            spec: format!("{{\"space\":{space},\"work\":{work}}}"),
            sizing: Sizing::default(),
            max_failures: MaxFailures::Usual,
            speculative: None,
            trust: TrustChecks::default(),
            terms: Terms::default(),
            once: false,
            place: Place::Tail,
        };
        ask(&farm, &Request::Submit(submit))
    };
    let lines = farm.state().join("lines");
    std::fs::write(&lines, "x\ny\n").unwrap();
    farm.wait(&farm.submit(&["--lines", &lines.to_string_lossy(), "--", "true"])).exits(0);
    let piece = serde_json::to_string(&ContentHash::of(b"x\ny\n")).unwrap();
    let list = &format!(r#"{{"list":{{"chunks":[{{"hash":{piece},"units":2}}]}}}}"#);
    let chars = r#"{"chars":{"positions":["616263"],"min":1}}"#;
    let grid = r#"{"grid":{"axes":[{"name":"size","values":["1","2"]}]}}"#;
    let range = r#"{"range":{"from":0,"to":2,"step":1}}"#;
    let frames = r#"{"frames":{"first":1,"last":2}}"#;
    let command = r#"{"command":{"program":["echo","{}"],"env":{},"timeout_ms":null,"retries":0}}"#;
    let search =
        r#"{"search":{"algorithm":"md5","targets":["00000000000000000000000000000000"],"stop":"never"}}"#;
    for space in [chars, grid, range, frames, list] {
        for work in [command, "\"nothing\""] {
            let response = submit(space, work);
            let Response::Submitted(id) = response else { panic!("{space} {work}: {response:?}") };
            farm.wait(&id.0.to_string()).exits(0);
        }
    }
    assert_eq!(stdouts(&farm.results("2")).into_values().collect::<Vec<_>>(), ["a\n", "b\n", "c\n"]);
    for space in [grid, range, frames, list] {
        let Response::Error(error) = submit(space, search) else { panic!("{space}") };
        assert!(error.message.contains("a search needs a `chars` space"), "{}", error.message);
    }
    let kernel = r#"{"opencl":{"source":"kernel void k() {}","file":"k.cl","kernel":"k","block_bytes":8,"retries":0}}"#;
    let lengths = r#"{"chars":{"positions":["61","62"],"min":1}}"#;
    for space in [range, frames, grid, chars] {
        let response = submit(space, kernel);
        assert!(matches!(response, Response::Submitted(_)), "{space}: {response:?}");
    }
    for space in [list, lengths] {
        let response = submit(space, kernel);
        let Response::Error(error) = response else { panic!("{space}: {response:?}") };
        assert!(error.message.contains("a kernel runs over"), "{}", error.message);
    }
    let Response::Submitted(id) = submit(chars, search) else { panic!("a search in its space") };
    farm.wait(&id.0.to_string()).exits(0);
    for (algorithm, most) in [("md5", 55), ("ntlm", 27)] {
        let search = search.replace("md5", algorithm);
        let long = |bytes: usize| {
            let positions = vec!["\"61\""; bytes].join(",");
            submit(&format!(r#"{{"chars":{{"positions":[{positions}],"min":{bytes}}}}}"#), &search)
        };
        assert!(matches!(long(most), Response::Submitted(_)), "{algorithm}");
        assert!(matches!(long(most + 1), Response::Error(_)), "{algorithm}");
    }
}

/// "... by a mark of its own that it sets as `STARFARM_UNIT`, whatever the job's `env` says."
#[test]
fn a_program_finds_the_workers_own_mark_whatever_the_job_says() {
    let farm = Farm::with_workers(1, 1);
    let script = "echo $STARFARM_UNIT; echo $STARFARM_UNIT_INDEX";
    let id = farm.submit(&[
        "--range",
        "3..5",
        "--env",
        "STARFARM_UNIT=mine",
        "--env",
        "STARFARM_UNIT_INDEX=mine",
        "--",
        "sh",
        "-c",
        script,
    ]);
    farm.wait(&id).exits(0);
    let mut marks = Vec::new();
    for (unit, text) in stdouts(&farm.results(&id)) {
        let (mark, index) = text.trim_end().split_once('\n').unwrap();
        assert_eq!(index, unit.to_string());
        let (process, number) = mark.rsplit_once('-').unwrap();
        assert!(process.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<u64>().is_ok(), "{mark}");
        marks.push(mark.to_owned());
    }
    assert_ne!(marks[0], marks[1], "each unit has its own");
}

/// "... the worker keeps its first and its last half, the odd byte in the first, with nothing between, and always stores it,
/// so that `total` tells how much is missing. If the limit has `"strict":true`, a unit that would have passed fails ..."
#[test]
fn of_output_beyond_the_limit_both_halves_are_kept_with_nothing_between() {
    let farm = Farm::with_workers(1, 1);
    let script = "seq -s '' 100 | head -c 150; printf e >&2";
    let submit = |limit: &str, script: &str| {
        let id = farm.submit(&["--range", "0..1", "--output-limit", limit, "--", "sh", "-c", script]);
        farm.wait(&id);
        id
    };
    let whole: String = (1..=100).map(|number: u32| number.to_string()).collect();
    let whole = &whole[..150];
    let stdout = farm.results(&submit("101", script))["outputs"][0]["stdout"].take();
    assert_eq!(stdout["text"], format!("{}{}", &whole[..51], &whole[100..]));
    assert_eq!((stdout["kept"].as_u64(), stdout["total"].as_u64()), (Some(101), Some(150)));
    // A strict limit fails what would have passed, with a reason of its own.
    let reason = |script: &str| farm.results(&submit("strict:101", script))["failed"][0]["reason"].take();
    assert_eq!(reason(script), "output");
    assert_eq!(reason(&format!("{script}; exit 3")), "exit");
}
