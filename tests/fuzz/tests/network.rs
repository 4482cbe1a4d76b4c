//! What comes by the network: packets of strangers, messages that opened, and what both cores make of these.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::Path;

use starfarm_agent_core::dimmon::{ByteOrder, Datagram, IdTable, datagram};
use starfarm_agent_core::{Triples, ValueId};
use starfarm_fuzz::{hex_file, show};
use starfarm_protocol::admin::frames::{FrameReader, frame};
use starfarm_protocol::admin::pieces::{PIECE_BYTES_MAX, Pieces, frames};
use starfarm_protocol::admin::{self, Request, Response};
use starfarm_protocol::bulk;
use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId, NodeId};
use starfarm_protocol::path;
use starfarm_protocol::seal::handshake::Introduction;
use starfarm_protocol::seal::stream::{self, Stream};
use starfarm_protocol::seal::{
    Hints, Initiator, KeyStore, Mode, Outcome, Reply, Responder, Role, Secret, SessionTable, StaticKey,
};
use starfarm_protocol::wire::{CommandUnit, HitEntry, Message, Packer, messages};
use starfarm_scheduler_core::{
    Config, Deeds, Farm, MaxFailures, NewJob, Place, Sizing, Terms, Trust, WorkFacts,
};
use starfarm_worker_core as worker;

const SECOND_US: u64 = 1_000_000;
const SECRET: Secret = Secret([0x55; 32]);
const FARM: FarmId = FarmId([0x66; 16]);

fn golden(names: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/wire-v1");
    names.iter().map(|name| hex_file(&folder.join(format!("{name}.hex")))).collect()
}

fn datagrams() -> Vec<Vec<u8>> {
    golden(&[
        "able",
        "bye",
        "doorbell",
        "facts",
        "first-datagram",
        "has",
        "heartbeat",
        "load",
        "needs",
        "offers",
        "pace",
        "piece",
        "probe-head",
        "probe-answer",
        "result-ack",
        "results-command",
        "results-late",
        "results-search",
        "revoke",
        "welcome",
    ])
}

/// Packs what was read again; none of a message whose writer would leave something out.
fn packed(message: &Message<'_>) -> Option<Vec<u8>> {
    let mut packer = Packer::new();
    match message {
        Message::Hello(hello) => packer.hello(hello),
        Message::Feedback(feedback) => packer.feedback(feedback),
        Message::Facts(facts) => packer.facts(facts),
        Message::Load(load) => packer.load(load),
        Message::Able(times) => packer.able(*times),
        Message::TimeLeft(left) => packer.time_left(left),
        Message::Welcome(welcome) => packer.welcome(welcome),
        Message::HeartbeatAnswer(answer) => packer.heartbeat_answer(answer),
        Message::Revoke(revoke) => packer.revoke(revoke),
        Message::Pace(pace) => packer.pace(pace),
        Message::Doorbell(bell) => packer.doorbell(bell),
        Message::Has(has) => packer.has(has),
        Message::Bye => packer.bye(),
        _ => return None,
    }
    packer.finish().pop()
}

#[test]
fn triples_of_measured_values() {
    let good = [vec![1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 1, 2, 9, 9], vec![5, 0, 7, 1, 3]];
    show("triples", &good, 20_000, |bytes| {
        let Ok(triples) = Triples::read(bytes) else { return };
        let values: usize = triples.into_iter().map(|triple| triple.value.len() + 2).sum();
        assert!(values <= bytes.len() && triples.bytes() == bytes);
    });
}

#[test]
fn datagrams_of_other_agents() {
    let word = |number: u32| number.to_le_bytes();
    let good = [7, 4, 99, 8, 12, 1, 2, 3, 9, 0, 0, 0].map(word).concat();
    let table = IdTable::parse("7=cpu:u32, 8=memory").unwrap();
    show("dimmon", &[good, vec![0; 8]], 40_000, |bytes| {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let Ok(read) = Datagram::read(bytes, order) else { continue };
            let (mut values, mut room) = (Vec::new(), Vec::new());
            for value in read {
                values.push((ValueId(value.0), value.1));
                table.ours(value, order, &mut room);
            }
            assert_eq!(datagram(values.into_iter(), order), bytes);
        }
    });
}

#[test]
fn messages_of_an_opened_datagram() {
    show("messages", &datagrams(), 40_000, |bytes| {
        for message in messages(bytes).flatten() {
            match message.clone() {
                Message::TaskAck(ranges) | Message::ResultAck(_, ranges) => {
                    assert!(ranges.count() <= bytes.len());
                }
                Message::Offers(offers) => assert!(offers.count() <= bytes.len()),
                Message::Ages(ages) => assert!(ages.count() <= bytes.len()),
                Message::Results(results) => {
                    for entry in results.flatten() {
                        let _ = HitEntry::read_all(entry.body);
                        let units = CommandUnit::read_all(entry.body).unwrap_or_default();
                        let mut again = Vec::new();
                        units.iter().for_each(|unit| unit.write(&mut again));
                        assert!(units.is_empty() || CommandUnit::read_all(&again).as_ref() == Ok(&units));
                    }
                }
                _ => {}
            }
            if let Some(again) = packed(&message) {
                let read: Vec<_> = messages(&again).collect();
                match (&message, read.as_slice()) {
                    // The number of units that died running is bounded where it is written.
                    (Message::Hello(hello), _) if hello.died_running.len() > 32 => {}
                    (_, [Ok(read)]) => assert_eq!(*read, message),
                    (_, read) => panic!("{message:?} came back as {read:?}"),
                }
            }
        }
    });
}

#[test]
fn pieces_and_probes() {
    show("pieces", &datagrams(), 20_000, |bytes| {
        let mut path = path::Path::default();
        for now in 0..3 {
            path.hear(bytes, now * SECOND_US);
            path.probe(now * SECOND_US);
        }
        assert!((548..=1_400).contains(&path.bytes()));
    });
}

/// The scheduler's core hears them from a node that has tasks.
#[test]
fn the_schedulers_core() {
    let mut farm = Farm::new(Config::new(FARM, Epoch(1)), 0);
    // The good ones are about jobs 7 and 8; the last one is at the head of the queue.
    for _ in 1..=8 {
        let new = NewJob {
            name: "a".into(),
            user: "ada".into(),
            spec: ContentHash([0xaa; 32]),
            units: 2_000,
            work: WorkFacts::NOTHING,
            sizing: Sizing::Units(100),
            max_failures: MaxFailures::Usual,
            speculative: false,
            trust: Trust::default(),
            terms: Terms::default(),
            place: Place::Front,
        };
        farm.submit(new, 0, &mut Deeds::default()).unwrap();
    }
    let farm = RefCell::new((0, farm));
    let mut good = datagrams();
    good.sort_by_key(|datagram| datagram.first() != Some(&1));
    show("scheduler", &good, 10_000, |bytes| {
        let (now_us, farm) = &mut *farm.borrow_mut();
        let mut deeds = Deeds::default();
        *now_us += SECOND_US / 100;
        farm.on_session(NodeId(1), "fuzz", *now_us);
        farm.on_datagram(NodeId(1), &good[0], *now_us, &mut deeds);
        farm.on_datagram(NodeId(1), bytes, *now_us, &mut deeds);
        farm.on_tick(*now_us, &mut deeds);
        farm.turn(*now_us, &mut deeds);
        farm.check_counters().unwrap();
        if *now_us % SECOND_US == 0 {
            farm.check_all().unwrap();
        }
    });
}

#[test]
fn the_workers_core() {
    let config = || worker::Config {
        devices: Vec::new(),
        boot: Boot(1),
        slots: 2,
        memory_bytes: 0,
        gpus: 0,
        queue_tasks_max: 8,
        receive_datagrams_max: 92,
        heartbeat_us: SECOND_US,
        seed: 1,
        died_running: Vec::new(),
        farm: FARM,
        known: worker::Known::NONE,
        facts: None,
        limits: worker::Limits::default(),
    };
    let welcome = golden(&["welcome"]).remove(0);
    show("worker", &datagrams(), 10_000, |bytes| {
        let (mut core, mut deeds) = (worker::Worker::new(config(), 0), Vec::new());
        core.on_session(0, &mut deeds);
        core.on_datagram(&welcome, Epoch(3), 1, &mut deeds);
        core.on_datagram(bytes, Epoch(3), 2, &mut deeds);
        core.on_tick(SECOND_US, &mut deeds);
        assert!(core.queued_tasks() <= 8);
    });
}

/// A scheduler that has answered the good ones, and a worker that waits for an answer.
#[test]
fn packets_of_strangers() {
    let scheduler = StaticKey::from_secret(Secret([0x11; 32]));
    let public = scheduler.public();
    let mut keys = KeyStore::default();
    keys.add_join_key(SECRET, Role::Worker);
    let mut responder = Responder::new(scheduler, FARM, Epoch(3), Mode::default(), [1; 32]);
    responder.set_load_limit(u32::MAX);
    let state = RefCell::new((keys, responder, SessionTable::default(), Hints::default(), 0_u64));
    let key = StaticKey::from_secret(Secret([0x22; 32]));
    let who = Introduction {
        key: &key,
        scheduler: &public,
        join_secret: &SECRET,
        name: "node-1",
        boot: Boot(1),
        mode: Mode::default(),
    };
    let (initiator, initiation) = Initiator::start(&who, 7, None).unwrap();
    let initiator = RefCell::new(initiator);
    let mut good = golden(&["initiation", "response", "data", "cookie-answer", "no-session"]);
    good.push(initiation);
    show("packets", &good, 3_000, |bytes| {
        let (keys, responder, table, hints, now_us) = &mut *state.borrow_mut();
        *now_us += SECOND_US / 100;
        let index = table.free_index(9);
        let request = starfarm_protocol::seal::Request {
            datagram: bytes,
            source: b"10.0.0.1:7",
            index,
            now_us: *now_us,
        };
        if let Ok(reply) = responder.answer(keys, &request) {
            assert!(reply.bytes().len() <= bytes.len(), "no answer is longer than what it answers");
            if let Reply::Accepted { pending, .. } = reply {
                table.admit(pending, *now_us);
            }
        }
        assert!(table.open(keys, bytes, &mut vec![0; bytes.len()], *now_us, 1).is_err(), "it was not sealed");
        assert!(hints.answer(bytes, *now_us).is_none_or(|hint| hint.len() <= bytes.len()));
        table.expire(*now_us);
        assert!(table.len() <= 1_024);
        let mut initiator = initiator.borrow_mut();
        assert!(!matches!(initiator.read_response(bytes), Ok(Outcome::Accepted(_))), "another made it");
        let _ = initiator.read_cookie(bytes, *now_us);
    });
}

/// A sealed stream: what is said before its handshake is done, and records that were changed.
#[test]
fn streams() {
    let scheduler = StaticKey::from_secret(Secret([0x11; 32]));
    let public = scheduler.public();
    let mut keys = KeyStore::default();
    keys.add_join_key(SECRET, Role::Worker);
    let mode = Mode { stream: true, plain: false };
    let responder = RefCell::new(Responder::new(scheduler, FARM, Epoch(3), mode, [1; 32]));
    let key = StaticKey::from_secret(Secret([0x22; 32]));
    let who = Introduction {
        key: &key,
        scheduler: &public,
        join_secret: &SECRET,
        name: "node-1",
        boot: Boot(1),
        mode,
    };
    let (mut initiator, first) = stream::call(&who).unwrap();
    let (answer, _) = stream::answer(&mut responder.borrow_mut(), &keys, &first[4..], b"", 0).unwrap();
    let Ok(Outcome::Accepted(accepted)) = initiator.read_response(&answer[4..]) else { panic!("refused") };
    let Stream { mut sealer, opener } = accepted.into_stream();
    let opener = RefCell::new(opener);
    let mut record = Vec::new();
    sealer.seal(b"\x01", &mut record).unwrap();
    show("streams", &[first, answer, record], 3_000, |bytes| {
        let Some((header, body)) = bytes.split_first_chunk() else { return };
        let Ok(length) = stream::frame_bytes(*header) else { return };
        let Some(body) = body.get(..length) else { return };
        if let Ok((answer, _)) = stream::answer(&mut responder.borrow_mut(), &keys, body, b"", 0) {
            assert!(answer.len() <= bytes.len());
        }
        assert!(opener.borrow_mut().open(body, &mut Vec::new()).is_err(), "it is the other direction's");
    });
}

#[test]
fn bulk_messages() {
    let hash = ContentHash([7; 32]);
    let mut good = golden(&["bulk-get", "bulk-put", "bulk-chunk", "bulk-put-all", "bulk-found"]);
    good.extend([
        bulk::Reply::Have { bytes: 9 }.to_bytes(),
        bulk::Reply::NoRoom("no \u{1b}room".into()).to_bytes(),
        bulk::Reply::Refused("why".into()).to_bytes(),
        bulk::Reply::Stored.to_bytes(),
        bulk::Request::Get { hash, offset: u64::MAX }.to_bytes(),
    ]);
    show("bulk", &good, 40_000, |bytes| {
        if let Ok(request) = bulk::Request::read(bytes) {
            assert_eq!(request.to_bytes(), bytes);
        }
        if let Ok(reply) = bulk::Reply::read(bytes) {
            match reply {
                // Words are read as well as can be, and cut where they are long.
                bulk::Reply::Refused(_) | bulk::Reply::NoRoom(_) => {}
                _ => assert_eq!(reply.to_bytes(), bytes),
            }
        }
    });
}

#[test]
fn admin_frames() {
    let requests = [
        Request::Status,
        Request::Jobs { ids: vec![JobId(7), JobId(8)] },
        Request::Results { id: JobId(7), skip: 3, take: 9 },
        Request::Node { name: "node-1".into(), command: admin::NodeCommand::Drain },
        Request::RevokeKey { key: "node-1".into() },
        Request::Explain(admin::Subject::Node("node-1".into())),
    ];
    let mut good: Vec<Vec<u8>> = requests.iter().map(|request| frame(request).unwrap()).collect();
    let error = admin::Error { code: admin::ErrorCode::Usage, message: "no \u{1b}".into() };
    good.push(frame(&Response::Error(error)).unwrap());
    good.push(frame(&Response::Nodes(vec![admin::NodeInfo::default()])).unwrap());
    show("admin", &good, 20_000, |bytes| {
        let mut reader = FrameReader::default();
        reader.push(bytes);
        while let Ok(Some(request)) = reader.next_message::<Request>() {
            let again = frame(&request).unwrap();
            let mut reader = FrameReader::default();
            reader.push(&again);
            assert_eq!(reader.next_message::<Request>(), Ok(Some(request)));
        }
        let mut reader = FrameReader::default();
        reader.push(bytes);
        while let Ok(Some(_)) = reader.next_message::<Response>() {}
    });
}

/// A content that follows its request: what comes is a start of something, never more than was announced.
#[test]
fn contents_of_a_submission() {
    let content: Vec<u8> = (0..300_u32).map(|i| (i / 7) as u8).collect();
    let put = |content: &[u8]| {
        let request = Request::Put { hash: ContentHash::of(content), bytes: content.len() as u64 };
        frames(content).fold(frame(&request).unwrap(), |sent, piece| [sent, piece].concat())
    };
    let two = [&content[..100], &content[100..]].map(|bytes| frames(bytes).next().unwrap()).concat();
    let good = [put(&content), [put(b""), put(b"abc")].concat(), [put(&content), two].concat()];
    show("contents", &good, 40_000, |bytes| {
        let mut reader = FrameReader::default();
        reader.push(bytes);
        while let Ok(Some(Request::Put { bytes: total, .. })) = reader.next_message::<Request>() {
            let Ok(mut pieces) = Pieces::of(total) else { return };
            let mut come = Vec::new();
            while !pieces.are_whole() {
                let Ok(Some(piece)) = reader.next_bytes(PIECE_BYTES_MAX) else { return };
                assert!(piece.len() <= PIECE_BYTES_MAX);
                let Ok(taken) = pieces.take(&piece) else { return };
                come.extend_from_slice(taken);
                assert!(!taken.is_empty() && come.len() as u64 == pieces.come() && pieces.come() <= total);
            }
            // One piece for each chunk, as they were sent.
            if let Some(first) = frames(&come).next() {
                assert!(first.len() <= bytes.len());
            }
        }
    });
}
