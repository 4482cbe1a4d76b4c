//! What comes by the links and orders of the monitoring tree, what programs of units tell, and files of its stages.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};

use starfarm_agent::lines::Lines;
use starfarm_agent::{OwnFile, check_farm_file};
use starfarm_agent_core::{Guests, Order, PURE, Runtime, When, trace};
use starfarm_fuzz::show;
use starfarm_overlay_core::posts::Posts;
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::link::{
    Alarm, AlarmAck, AlarmKey, AlarmLevel, Answer, Attach, Control, Counts, Data, Message, Part, PartOp,
    Piece, Pieces, Scope, Standing, Stream, Table, Wish,
};
use starfarm_protocol::orders::{
    self, Ancestor, Descendant, Host, Incoming, Orders, PostId, PostKind, PostOrder, PostReport, PostState,
    Report,
};
use starfarm_protocol::seal::Secret;

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(&mut out);
    out
}

fn records() -> Vec<Vec<u8>> {
    let piece = Piece { number: 3, nth: 1, of: 2, bytes: b"ab" };
    let key = AlarmKey { origin: PostId(7), sensor: "disk".into() };
    let (level, value, text) = (Some(AlarmLevel::Warning), Some(0.5), "half of it is free".to_owned());
    let ack = AlarmAck { key: key.clone(), episode: 5, version: 2, reacted: true, drained: false };
    let (node, drains, is_first, done) = ("n1".to_owned(), false, true, false);
    let (reacted, drained) = (done, done);
    let alarm =
        Alarm { key, episode: 5, version: 2, level, drains, reacted, drained, is_first, value, node, text };
    let of = |scope| Wish { scope, period_us: 100_000, metrics: 6 };
    let wishes = [Scope::All, Scope::Job(JobId(7)), Scope::Post(PostId(8))].map(of).to_vec();
    let counts = Counts { sent: 1, received: 2, dropped: 3, late: 4, gaps: u64::MAX };
    let data = Data { stream: Stream::Job, origin: PostId(9), sequence: 9, at_us: 5, triples: &[1, 1, 7] };
    let (post, parent) = (PostId(8), PostId::FRONT);
    [
        Message::Attach(Attach { post, level: 2, dropped: 3, sequences: [4, 5, 6, u32::MAX] }),
        Message::Welcome { now_us: u64::MAX },
        Message::Refuse { why: "no".into() },
        Message::Beat { heard: 3 },
        Message::Data(data),
        Message::Alarms(vec![alarm.clone(), alarm]),
        Message::AlarmAcks(vec![ack]),
        Message::Control(Control { post, asked: 1, piece }),
        Message::Answer(Answer { post, piece }),
        Message::Standing(Standing { post, parent, level: 1, children: 32, counts }),
        Message::Table(Table { version: 9, wishes }),
        Message::Part(Part { op: PartOp::Up, round: 5, from: 16, value: u64::MAX }),
        Message::Suspect(post),
        Message::Watch(post),
    ]
    .iter()
    .map(written)
    .collect()
}

#[test]
fn records_of_links() {
    let pieces = RefCell::new(Pieces::default());
    show("link", &records(), 60_000, |bytes| {
        let Ok(Some(message)) = Message::read(bytes) else { return };
        let again = written(&message);
        let read = Message::read(&again);
        // Floats that are no numbers are not equal to themselves: their bytes are.
        assert!(read.is_ok_and(|read| read.is_some_and(|read| written(&read) == again)), "{message:?}");
        if let Message::Control(Control { piece, .. }) | Message::Answer(Answer { piece, .. }) = &message {
            drop(pieces.borrow_mut().take(piece));
        }
    });
}

fn report() -> Report {
    let post = PostReport {
        post: PostId(7),
        kind: PostKind::Ibe,
        level: 1,
        job: Some(JobId(9)),
        state: PostState::Joined,
        parent: Some(PostId::FRONT),
        key: Some(PublicKey([3; 32])),
        addresses: vec!["10.0.0.1:4000".parse().unwrap()],
        pid: Some(99),
    };
    let host = Host { name: "a".into(), id: u64::MAX };
    Report { heard: 5, host, links: true, reacts: true, own_trees: true, posts: vec![post] }
}

fn orders() -> Orders {
    let (key, secret) = (PublicKey([4; 32]), Secret([5; 32]));
    let addresses = vec!["10.0.0.1:4000".parse().unwrap()];
    let parent = Ancestor { post: PostId::FRONT, addresses, key, secret: secret.clone() };
    let child = Descendant { post: PostId(8), parent: PostId(7), level: 0, key, secret };
    let (lineage, watched) = (vec![parent.clone()], vec![parent]);
    let (below, watchers) = (vec![child.clone()], vec![child]);
    let none = PostOrder::new(PostId(7), (PostKind::Ibe, 1));
    Orders {
        newest: 6,
        posts: vec![PostOrder { lineage, below, children_max: 64, watched, watchers, ..none }],
    }
}

#[test]
fn orders_and_reports() {
    let good = [orders::write(&report()), orders::write(&orders())].concat();
    let scheduler = "10.0.0.9:7117".parse().unwrap();
    show("orders", &good, 40_000, |bytes| {
        let _ = Incoming::report().take::<Report>(bytes);
        if let Ok(Some(orders)) = Incoming::orders().take::<Orders>(bytes) {
            let mut posts = Posts::new(Host::default(), (true, false));
            posts.want(orders.posts, (scheduler, scheduler.ip()), 1, &mut Vec::new());
            assert!(posts.report(orders.newest).posts.len() <= 64 || bytes.len() > 64);
        }
    });
}

#[test]
fn lines_of_programs() {
    let good = [&b"temperature 3.2\nevent started\n"[..], b"a 1e308\n\nb -0 \n"].map(<[u8]>::to_vec);
    show("lines", &good, 40_000, |bytes| {
        let mut heard = 0;
        let bad = Lines::default().read(bytes, |name, value| {
            assert!(!name.is_empty() && value.is_finite());
            heard += 1;
        });
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        assert!(heard + bad <= lines);
        let text = bytes.split(|byte| *byte == b'\n').find_map(trace::text);
        assert!(text.is_none_or(|text| text.is_err() || text.is_ok_and(|text| !text.contains('\n'))));
    });
}

#[test]
fn orders_for_stages() {
    let good = [
        &b"create a rate"[..],
        b"set a every 10",
        b"link own.out a.in",
        b"unlink own.out a.in",
        b"link a.out own.in",
        b"timer t every 0.1",
        b"subscribe t a",
        b"end-timer t",
        b"name a b",
        b"end a",
        b"end own",
        b"timer own after 1e3",
    ]
    .map(<[u8]>::to_vec);
    let mut runtime = Runtime::new(&PURE);
    runtime.open_to(Guests { types: &["rate", "control"], is_reserved: |name| name == "own-7" });
    let create = Order::Create { type_name: "wavebuf".to_owned(), name: Some("own".to_owned()) };
    let own = runtime.order(create, 0).unwrap().unwrap();
    runtime.order(Order::Timer("own".to_owned(), When::Every(1_000_000)), 0).unwrap();
    let (runtime, carried_out) = (RefCell::new(runtime), Cell::new(0));
    show("orders for stages", &good, 40_000, |bytes| {
        let Some(order) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<Order>().ok()) else {
            return;
        };
        let mut runtime = runtime.borrow_mut();
        carried_out.set(carried_out.get() + u64::from(runtime.order(order.as_guest(), 0).is_ok()));
        let stages = runtime.stages();
        assert_eq!((stages[0].0, stages[0].1), (own, Some("own")), "a guest has changed what is not its own");
        assert!(
            runtime.timers().iter().any(|timer| timer.name == "own" && timer.period_us == Some(1_000_000))
        );
    });
    assert!(carried_out.get() > 100, "{carried_out:?}");
}

const FILE: &str = "modules = [\"cpuload\"]\nstart = \"config\"\n[[stage]]\nname = \"cpu\"\ntype = \"cpuload\"\n\
    [[stage]]\nname = \"mean\"\ntype = \"aggregate\"\nset = { op = \"mean\" }\n[[edge]]\nfrom = \"cpu.out\"\n\
    to = \"mean.in\"\n[[timer]]\nname = \"second\"\nevery = 1.0\nsubscribers = [\"cpu\"]\n";

#[test]
fn files_of_stages() {
    let service = "[[service]]\nname = \"switch\"\nprogram = [\"./read_switch.sh\"]\n";
    let good = [FILE, service].map(|text| text.as_bytes().to_vec());
    show("stages", &good, 800, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        // Whatever is wrong is said with its place.
        let place = |why: String| assert!(why.starts_with("monitor.toml:"), "{why}");
        let _ = check_farm_file("monitor.toml", text).map_err(|why| place(why.to_string()));
        let own = OwnFile { path: "/nowhere/monitor.toml".into(), text: text.to_owned() };
        // Modules that are files would run.
        if own.libraries().is_empty() {
            let _ = own.check();
        }
    });
}
