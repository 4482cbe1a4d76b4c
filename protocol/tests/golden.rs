//! The bytes of `docs/protocol.md`: each example there stands in `tests/golden/wire-v1/NAME.hex` too, and is
//! what this version packs. The packets are made here by a stranger, who has Noise and BLAKE3 from libraries
//! and all else from that page; the real scheduler's side must understand them.
//!
//! After a deliberate change: `STARFARM_WRITE_GOLDEN=1 cargo test -p starfarm-protocol --test golden`, then
//! put the new bytes into the page. A change of what is on the wire needs a new version beside it.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use snow::HandshakeState;
use starfarm_protocol::bulk::{self, Chunk};
use starfarm_protocol::devices::{DeviceFacts, DeviceKind, DeviceState, SlotKind};
use starfarm_protocol::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId, PublicKey, to_hex};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::path::{self, Cutter, Heard};
use starfarm_protocol::resources::Resources;
use starfarm_protocol::seal::{
    EpochProofs, Hints, KeyStore, Mode, Reply, Request, Responder, Role, Secret, SessionTable, StaticKey,
    stream,
};
use starfarm_protocol::wire::{
    Cancel, Card, CardFigures, CommandUnit, Devices, Doorbell, Facts, FailReason, Feedback, Heartbeat,
    HeartbeatAnswer, Held, Hello, HitEntry, Load, Offer, Outcome, Outputs, Pace, Packer, ResultEntry, Revoke,
    Stream, TimeLeft, Welcome,
};
use starfarm_protocol::{admin, limits};

const FARM: FarmId = FarmId([0x66; 16]);
const EPOCH: Epoch = Epoch(3);
const BOOT: u64 = 0x1122_3344_5566_7788;
const SPEC: ContentHash = ContentHash([0xaa; 32]);
const SCHEDULER_PRIVATE: [u8; 32] = [0x11; 32];
const WORKER_PRIVATE: [u8; 32] = [0x22; 32];
const JOIN_SECRET: [u8; 32] = [0x55; 32];
const WORKER_INDEX: u32 = 0x0403_0201;
const SCHEDULER_INDEX: u32 = 0x0807_0605;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(top().join("docs/protocol.md")).unwrap()
}

/// 16 bytes a line, as in the page.
fn hex_lines(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let pairs: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", pairs.join(" ")).unwrap();
    }
    text
}

/// Compares `bytes` with the file of that name, and the file with the page.
#[track_caller]
fn golden(name: &str, bytes: &[u8]) {
    let path = top().join("tests/golden/wire-v1").join(format!("{name}.hex"));
    let text = hex_lines(bytes);
    if std::env::var_os("STARFARM_WRITE_GOLDEN").is_some() {
        return fs::write(path, text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), text, "{name}: the bytes on the wire have changed");
    assert!(page().contains(&format!("```text\n{text}```")), "{name}: docs/protocol.md shows other bytes");
}

fn packed(pack: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new();
    pack(&mut packer);
    let mut datagrams = packer.finish();
    assert_eq!(datagrams.len(), 1);
    datagrams.remove(0)
}

fn first_datagram() -> Vec<u8> {
    packed(|p| {
        p.hello(&Hello {
            version: limits::PROTOCOL_VERSION,
            boot: Boot(BOOT),
            slots: 2,
            queue_tasks_max: 4_096,
            receive_datagrams_max: 92,
            known_epoch: Epoch(2),
            known_proof: EpochProofs::new(&scheduler_key(), FARM, [1, 2, 3, 4, 5, 6, 7, 8]).of(Epoch(2)),
            died_running: vec![],
        });
        p.feedback(&Feedback { speed_ups: 0, slow_downs: 0 });
        p.heartbeat(&Heartbeat { number: 1, ..Heartbeat::default() });
    })
}

#[test]
fn a_session_begins() {
    golden("first-datagram", &first_datagram());
    let welcome = packed(|p| {
        let proof = EpochProofs::new(&scheduler_key(), FARM, [1, 2, 3, 4, 5, 6, 7, 8]).of(EPOCH);
        p.welcome(&Welcome { farm: FARM, epoch: EPOCH, heartbeat_ms: 1_000, credit: 46, version: 1, proof });
        p.heartbeat_answer(&HeartbeatAnswer { number: 1, credit: 46, epoch: EPOCH });
    });
    golden("welcome", &welcome);
    golden("pace", &packed(|p| p.pace(&Pace::DEFAULT)));
    golden("doorbell", &packed(|p| p.doorbell(&Doorbell { newest: 258 })));
    golden("has", &packed(|p| p.has(&Resources::new(0, 64 << 30))));
    let facts = DeviceFacts {
        platform: "Some CL".into(),
        name: "Some GPU".into(),
        driver: "1.2.3".into(),
        kind: DeviceKind::Gpu,
        version: (3, 0),
        memory_bytes: 24 << 30,
        compute_units: 128,
        width: 1,
    };
    let devices = Devices {
        kind: SlotKind(1),
        facts,
        takes_card: true,
        queued_tasks: 2,
        feedback: Feedback { speed_ups: 3, slow_downs: 0 },
        slots: vec![(DeviceState::Ready, 987), (DeviceState::Sick, 0)],
    };
    golden("devices", &packed(|p| p.devices(&devices)));
    let figures = CardFigures {
        model: "Some GPU".into(),
        load: Some(870),
        memory_bytes: Some(16 << 30),
        temperature_c: Some(64),
        ..CardFigures::default()
    };
    golden("card", &packed(|p| p.card(&Card { number: 1, count: 2, figures })));
    let held = vec![Held { job: JobId(7), lo: 2_000, units: 1_000 }];
    let beat = Heartbeat { number: 1, queued_tasks: 1, ..Heartbeat::default() };
    golden("heartbeat-of-devices", &packed(|p| p.heartbeat_of(&beat, &[(SlotKind(1), held)])));
}

#[test]
fn tasks_come_and_go() {
    let offer =
        |attempt, lo, units| Offer { job: JobId(7), spec: SPEC, attempt: Attempt(attempt), lo, units };
    golden(
        "offers",
        &packed(|p| {
            p.offer(&offer(100, 0, 1_000));
            p.offer(&offer(101, 1_000, 500));
        }),
    );
    let run = Resources::new(4, 2 << 30);
    golden("needs", &packed(|p| p.offer_of(&offer(100, 0, 1_000), run, SlotKind::CORES)));
    golden(
        "offers-of-devices",
        &packed(|p| p.offer_of(&offer(100, 0, 1_000), Resources::ONE_SLOT, SlotKind(1))),
    );
    golden("result-ack", &packed(|p| p.result_ack(46, &[(1, 3)])));
    let revoke = Revoke { job: JobId(7), cancel: Cancel::Graceful, before: Attempt(102) };
    golden("revoke", &packed(|p| p.revoke(&revoke)));
    golden("bye", &packed(Packer::bye));
}

#[test]
fn a_search_answers() {
    let mut hits = Vec::new();
    HitEntry { offset: 42, target: 1 }.write(&mut hits);
    let done = ResultEntry {
        job: JobId(7),
        spec: SPEC,
        sequence: 1,
        attempt: Attempt(100),
        lo: 0,
        units: 1_000,
        duration_us: 250_000,
        outcome: Outcome::Done,
        body: &hits,
    };
    let returned = ResultEntry {
        sequence: 2,
        attempt: Attempt(101),
        lo: 1_000,
        units: 500,
        duration_us: 0,
        outcome: Outcome::Returned,
        body: &[],
        ..done
    };
    let datagram = packed(|p| {
        p.result(&done);
        p.result(&returned);
        p.task_ack(&[(100, 101)]);
    });
    golden("results-search", &datagram);
}

#[test]
fn a_command_answers() {
    let unit = CommandUnit {
        units: 1,
        failed: Some(FailReason::Exit),
        code: 3,
        duration_us: 1_500,
        outputs: Outputs {
            files: None,
            stdout: Stream::Inline(b"hi\n".to_vec()),
            stderr: Stream::Uploaded { hash: ContentHash([0xbb; 32]), kept: 600, total: 600 },
        },
    };
    let mut body = Vec::new();
    unit.write(&mut body);
    let result = ResultEntry {
        job: JobId(8),
        spec: SPEC,
        sequence: 3,
        attempt: Attempt(102),
        lo: 5,
        units: 1,
        duration_us: 1_500,
        outcome: Outcome::Done,
        body: &body,
    };
    golden("results-command", &packed(|p| p.result(&result)));
}

#[test]
fn a_heartbeat_lists_what_is_held() {
    let beat = Heartbeat {
        number: 9,
        queued_tasks: 3,
        draining: true,
        running: vec![(JobId(7), 1_200)],
        held: vec![Held { job: JobId(7), lo: 1_000, units: 500 }],
        ..Heartbeat::default()
    };
    golden("heartbeat", &packed(|p| p.heartbeat(&beat)));
}

#[test]
fn a_worker_tells_of_itself() {
    let facts = Facts {
        system: "lab-7, Linux 6.1.0".into(),
        cpu: "Some CPU".into(),
        cores: 16,
        memory_bytes: 1 << 34,
        accelerators: "2 x Some GPU".into(),
    };
    golden("facts", &packed(|p| p.facts(&facts)));
    golden("load", &packed(|p| p.load(&Load { idle_us: 0, slots: vec![1_000, 250] })));
    let late = ResultEntry {
        job: JobId(7),
        spec: SPEC,
        sequence: 4,
        attempt: Attempt(103),
        lo: 1_500,
        units: 10,
        duration_us: 2_500,
        outcome: Outcome::Done,
        body: &[],
    };
    let datagram = packed(|p| {
        p.ages(&[(4, 3_000_000)]);
        p.result(&late);
        p.result(&ResultEntry { sequence: 5, attempt: Attempt(104), lo: 1_510, ..late });
    });
    golden("results-late", &datagram);
}

#[test]
fn a_worker_is_able_again_and_datagrams_find_their_way() {
    golden("able", &packed(|p| p.able(1)));
    golden(
        "time-left",
        &packed(|p| p.time_left(&TimeLeft { left_us: 5_400_000_000, work_us: 5_370_000_000 })),
    );
    let mut cutter = Cutter::default();
    cutter.set_bytes(548);
    let mut pieces = Vec::new();
    // One byte more than fits into one datagram.
    cutter.cut(&[0xab; 548 - limits::SEAL_BYTES + 1], |piece| pieces.push(piece.to_vec()));
    let [_, last] = &pieces[..] else { panic!("{} pieces", pieces.len()) };
    golden("piece", last);
    let (mut here, mut there) = (path::Path::default(), path::Path::default());
    let probe = here.probe(0).unwrap();
    assert!(probe.len() == 548 - limits::SEAL_BYTES && probe[3..].iter().all(|&byte| byte == 0));
    golden("probe-head", &probe[..16]);
    let Heard::Probe(answer) = there.hear(&probe, 0) else { panic!("a probe is answered") };
    golden("probe-answer", &answer);
}

#[test]
fn contents_and_admin_requests_travel() {
    let hash = ContentHash::of(b"hi\n");
    golden("bulk-get", &bulk::Request::Get { hash, offset: 0 }.to_bytes());
    golden("bulk-put", &bulk::Request::Put { hash, total: 3 }.to_bytes());
    golden("bulk-chunk", &bulk::Request::Chunk(Chunk { offset: 0, bytes: b"hi\n" }).to_bytes());
    golden("bulk-locate", &bulk::Request::Locate { job: JobId(7), unit: 1_500 }.to_bytes());
    let mut few = Vec::new();
    assert!(bulk::Few::add(&mut few, b"hi\n") && bulk::Few::add(&mut few, b"ho\n"));
    golden("bulk-put-all", &bulk::Request::PutAll(bulk::Few::new(&few)).to_bytes());
    let located = bulk::Located { hash, first: 1_000, units: 600 };
    golden("bulk-located", &bulk::Reply::Located(located).to_bytes());
    golden("bulk-found", &bulk::Reply::Found { total: 3 }.to_bytes());
    golden("admin-status", &admin::frames::frame(&admin::Request::Status).unwrap());
    let put = admin::frames::frame(&admin::Request::Put { hash, bytes: 3 }).unwrap();
    golden("admin-put", &[put, admin::pieces::frames(b"hi\n").flatten().collect()].concat());
}

#[test]
fn the_page_shows_a_join_file_that_can_be_read() {
    let page = page();
    let text = page.split("```json\n").find(|block| block.contains("\"join_secret\"")).unwrap();
    let join = JoinFile::from_text(text.split("```").next().unwrap()).unwrap();
    assert_eq!(join.join_secret, Secret(JOIN_SECRET));
    assert_eq!(join.join_key().0, join_key_id());
    assert_eq!(join.scheduler_key, scheduler_key().public());
    assert_eq!((join.farm, join.role), (FARM, Role::Worker));
}

// From here on: a worker that knows the page alone, and a Noise library.

fn scheduler_key() -> StaticKey {
    StaticKey::from_secret(Secret(SCHEDULER_PRIVATE))
}

fn join_key_id() -> [u8; 8] {
    let derived = blake3::derive_key("starfarm 2026 join key id v1", &JOIN_SECRET);
    derived[..8].try_into().unwrap()
}

fn initiation_header(flags: u8) -> Vec<u8> {
    [&[1, 1, flags, 0][..], &WORKER_INDEX.to_le_bytes(), &join_key_id()].concat()
}

fn noise<'a>(prologue: &'a [u8], private: &'a [u8; 32]) -> snow::Builder<'a> {
    let builder = snow::Builder::new("Noise_IKpsk2_25519_AESGCM_SHA256".parse().unwrap());
    let builder = builder.prologue(prologue).unwrap().local_private_key(private).unwrap();
    builder.psk(2, &JOIN_SECRET).unwrap()
}

/// The worker's state and its initiation, with the cookie that it was given, if any.
fn initiate(flags: u8, cookie: Option<&[u8; 32]>) -> (HandshakeState, Vec<u8>) {
    let header = initiation_header(flags);
    let prologue = [b"starfarm/1", &header[..]].concat();
    let scheduler = scheduler_key().public();
    let builder = noise(&prologue, &WORKER_PRIVATE).remote_public_key(&scheduler.0).unwrap();
    let mut state = builder.fixed_ephemeral_key_for_testing_only(&[0x33; 32]).build_initiator().unwrap();
    let mut greeting = [0; 256];
    greeting[..8].copy_from_slice(&BOOT.to_le_bytes());
    greeting[8] = 6;
    greeting[9..15].copy_from_slice(b"node-1");
    let mut message = [0; 352];
    assert_eq!(state.write_message(&greeting, &mut message).unwrap(), 352);
    let mut packet = [&header[..], &message].concat();
    let mac = cookie.map_or([0; 16], |cookie| first_half(blake3::keyed_hash(cookie, &packet)));
    packet.extend(mac);
    (state, packet)
}

fn first_half(hash: blake3::Hash) -> [u8; 16] {
    hash.as_bytes()[..16].try_into().unwrap()
}

fn seal(state: &snow::StatelessTransportState, to: u32, counter: u64, plain: &[u8]) -> Vec<u8> {
    let mut sealed = vec![0; plain.len() + 16];
    state.write_message(counter, plain, &mut sealed).unwrap();
    [&[4, 0, 0, 0][..], &to.to_le_bytes(), &counter.to_le_bytes(), &sealed].concat()
}

fn responder(stream: bool) -> (Responder, KeyStore) {
    let mut keys = KeyStore::default();
    keys.add_join_key(Secret(JOIN_SECRET), Role::Worker);
    let mode = Mode { stream, plain: false };
    (Responder::new(scheduler_key(), FARM, EPOCH, mode, [7; 32]), keys)
}

fn request(datagram: &[u8]) -> Request<'_> {
    Request { datagram, source: b"192.0.2.7:9000", index: SCHEDULER_INDEX, now_us: 1 }
}

/// The worker reads a response: its payload is checked, the scheduler's index returned.
fn read_response(state: &mut HandshakeState, response: &[u8]) -> u32 {
    assert_eq!(response[..8], [&[2, 1, response[2], 0][..], &WORKER_INDEX.to_le_bytes()].concat());
    let mut answer = [0; 256];
    assert_eq!(state.read_message(&response[8..], &mut answer).unwrap(), 256);
    assert_eq!(answer[..4], [0, 1, 1, 0], "accepted, as a worker, seal version 1, no reason");
    assert_eq!(answer[8..16], EPOCH.0.to_le_bytes());
    assert_eq!(answer[16..32], FARM.0);
    u32::from_le_bytes(answer[4..8].try_into().unwrap())
}

#[test]
fn the_scheduler_understands_a_stranger() {
    let (mut responder, mut keys) = responder(false);
    let (mut state, initiation) = initiate(0, None);
    let Reply::Accepted { bytes, pending } = responder.answer(&keys, &request(&initiation)).unwrap() else {
        panic!("not accepted")
    };
    let mut table = SessionTable::default();
    table.admit(pending, 1);
    let index = read_response(&mut state, &bytes);
    assert_eq!(index, SCHEDULER_INDEX);
    let transport = state.into_stateless_transport_mode().unwrap();
    let datagram = seal(&transport, index, 0, &first_datagram());
    let mut out = vec![0; datagram.len()];
    let opened = table.open(&mut keys, &datagram, &mut out, 2, 0).unwrap();
    assert_eq!(out[..opened.bytes], first_datagram());
    assert_eq!(opened.peer.claim.name, "node-1");

    let mut back = [0; 64];
    let sealer = opened.confirmed.unwrap().sealer.unwrap();
    let bytes = sealer.seal(b"hello", &mut back).unwrap();
    assert_eq!(back[..8], [&[4, 0, 0, 0][..], &WORKER_INDEX.to_le_bytes()].concat());
    let mut plain = [0; 64];
    assert_eq!(transport.read_message(0, &back[16..bytes], &mut plain).unwrap(), 5);
}

#[test]
fn a_cookie_lets_a_stranger_in_under_load() {
    let (mut responder, keys) = responder(false);
    responder.set_load_limit(0);
    let (_, initiation) = initiate(0, None);
    let Reply::Cookie { bytes } = responder.answer(&keys, &request(&initiation)).unwrap() else {
        panic!("no cookie was asked for")
    };
    golden("cookie-answer", &bytes);
    let key = blake3::derive_key("starfarm 2026 cookie answer v1", &scheduler_key().public().0);
    let binding = blake3::hash(&initiation);
    let tag = blake3::keyed_hash(&key, &[binding.as_bytes(), &bytes[..40]].concat());
    assert_eq!(bytes[40..], first_half(tag));
    let mut cookie: [u8; 32] = bytes[8..40].try_into().unwrap();
    let mask = blake3::keyed_hash(&key, binding.as_bytes());
    cookie.iter_mut().zip(mask.as_bytes()).for_each(|(byte, mask)| *byte ^= mask);
    let (_, again) = initiate(0, Some(&cookie));
    assert!(matches!(responder.answer(&keys, &request(&again)), Ok(Reply::Accepted { .. })));
}

#[test]
fn a_stranger_opens_a_stream() {
    let (mut responder, mut keys) = responder(true);
    let (mut state, initiation) = initiate(1, None);
    let (frame, stream) = stream::answer(&mut responder, &keys, &initiation, b"", 1).unwrap();
    let Ok(stream) = stream else { panic!("not accepted") };
    assert_eq!(frame[..4], 312_u32.to_le_bytes());
    read_response(&mut state, &frame[4..]);
    let transport = state.into_stateless_transport_mode().unwrap();
    let mut record = [0; 17];
    transport.write_message(0, &[bulk::BULK], &mut record).unwrap();
    let mut first = Vec::new();
    stream.confirm(&mut keys, &record, &mut first, 0).unwrap();
    assert_eq!(first, [bulk::BULK]);
}

/// All keys fixed, on both sides, so that another implementation can compare byte by byte.
#[test]
fn a_handshake_to_compare_with() {
    let (mut state, initiation) = initiate(0, None);
    golden("initiation", &initiation);
    let prologue = [b"starfarm/1", &initiation[..16]].concat();
    let builder = noise(&prologue, &SCHEDULER_PRIVATE);
    let mut scheduler = builder.fixed_ephemeral_key_for_testing_only(&[0x44; 32]).build_responder().unwrap();
    scheduler.read_message(&initiation[16..368], &mut [0; 256]).unwrap();
    let mut answer = [0; 256];
    answer[..4].copy_from_slice(&[0, 1, 1, 0]);
    answer[4..8].copy_from_slice(&SCHEDULER_INDEX.to_le_bytes());
    answer[8..16].copy_from_slice(&EPOCH.0.to_le_bytes());
    answer[16..32].copy_from_slice(&FARM.0);
    let mut response = [&[2, 1, 0, 0][..], &WORKER_INDEX.to_le_bytes(), &[0; 304]].concat();
    scheduler.write_message(&answer, &mut response[8..]).unwrap();
    golden("response", &response);
    let index = read_response(&mut state, &response);
    assert_eq!(index, SCHEDULER_INDEX);
    let transport = state.into_stateless_transport_mode().unwrap();
    let data = seal(&transport, index, 0, &first_datagram());
    golden("data", &data);
    let hint = Hints::default().answer(&data, 0).unwrap();
    assert_eq!((hint[0], &hint[1..]), (5, &data[1..16]));
    golden("no-session", &hint);
    let publics = [scheduler_key(), StaticKey::from_secret(Secret(WORKER_PRIVATE))].map(|key| key.public());
    let page = page();
    for PublicKey(public) in publics {
        assert!(page.contains(&to_hex(&public)), "{} is not in docs/protocol.md", to_hex(&public));
    }
}
