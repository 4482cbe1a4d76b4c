//! Links over real sockets of this machine, by a clock of the test's own.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use starfarm_overlay::{Children, End, Happening, LinkId, Reactor, Watch};
use starfarm_overlay_core::lanes::Lane;
use starfarm_overlay_core::sending::Sending;
use starfarm_protocol::ids::{Boot, Epoch, FarmId};
use starfarm_protocol::link::{Attach, DEAD_US, Data, LINK, Message, Stream as Values};
use starfarm_protocol::orders::PostId;
use starfarm_protocol::seal::line::read_frame;
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::stream::{Stream, answer};
use starfarm_protocol::seal::{Introduction, Responder, Secret, StaticKey, Vouchers, pair_secret, post_name};

const FARM: FarmId = FarmId([6; 16]);
const POST: u64 = 7;

fn key(byte: u8) -> StaticKey {
    StaticKey::from_secret(Secret([byte; 32]))
}

/// A post that calls, the one that it calls, and what they know of each other.
struct Pair {
    caller: StaticKey,
    called: StaticKey,
    secret: Secret,
    vouchers: Vouchers,
    listener: TcpListener,
}

impl Pair {
    fn new() -> Self {
        let (caller, called) = (key(1), key(2));
        let secret = pair_secret(&key(3), &caller.public(), &called.public());
        let mut vouchers = Vouchers::default();
        vouchers.add(secret.clone(), POST, caller.public());
        Self { caller, called, secret, vouchers, listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn call(&self, reactor: &mut Reactor, now_us: u64) -> LinkId {
        let who = Introduction {
            key: &self.caller,
            scheduler: &self.called.public(),
            join_secret: &self.secret,
            name: &post_name(POST),
            boot: Boot(0),
            mode: Mode { stream: true, ..Mode::default() },
        };
        reactor.call(self.address(), &who, FARM, now_us).unwrap()
    }

    /// Answers the handshake of the next caller, as the scheduler does; the stream if it is let in.
    fn take(&mut self) -> Option<(TcpStream, Stream, Vec<u8>)> {
        let (mut socket, _) = self.listener.accept().unwrap();
        let mode = Mode { stream: true, ..Mode::default() };
        let mut responder = Responder::new(key(2), FARM, Epoch(1), mode, [9; 32]);
        let mut frame = Vec::new();
        read_frame(&mut socket, &mut frame).unwrap();
        let (reply, pending) = answer(&mut responder, &self.vouchers, &frame, b"", 0).ok()?;
        socket.write_all(&reply).unwrap();
        let pending = pending.ok()?;
        read_frame(&mut socket, &mut frame).unwrap();
        let mut first = Vec::new();
        let (stream, peer, _) = pending.confirm(&mut self.vouchers, &frame, &mut first, 0).unwrap();
        assert_eq!(peer.claim.name, post_name(POST));
        Some((socket, stream, first))
    }
}

/// A reactor with a clock that only the test moves.
struct Node {
    reactor: Reactor,
    now_us: Cell<u64>,
    seen: Vec<Happening>,
}

impl Node {
    fn new() -> Self {
        Self { reactor: Reactor::new().unwrap(), now_us: Cell::new(1_000_000), seen: Vec::new() }
    }

    fn turn(&mut self) {
        let clock = || self.now_us.get();
        self.reactor.turn(Duration::from_millis(1), clock, &mut self.seen).unwrap();
    }

    /// Turns until something of what has happened is right.
    fn until(&mut self, what: &str, is_right: impl Fn(&[Happening]) -> bool) {
        for _ in 0..20_000 {
            if is_right(&self.seen) {
                return;
            }
            self.turn();
        }
        panic!("{what} never happened: {:?}", self.seen);
    }

    fn why_gone(&self) -> Option<String> {
        self.seen.iter().find_map(|happening| match happening {
            Happening::Gone(_, why) => Some(why.to_string()),
            _ => None,
        })
    }
}

fn attach(level: u8) -> Attach {
    Attach { post: PostId(POST), level, dropped: 0, sequences: [0; 4] }
}

impl Node {
    /// Says who it is, once the link that it has called is up.
    fn greet(&mut self, link: LinkId) {
        self.until("the link is up", |seen| matches!(seen, [Happening::Up(_)]));
        self.reactor.open(link, Lane::Control, &Message::Attach(attach(0)), self.now_us.get());
        self.turn();
    }
}

/// Two nodes with a link that is up.
fn linked() -> (Pair, (Node, LinkId), (Node, LinkId)) {
    let (mut pair, mut below, mut above) = (Pair::new(), Node::new(), Node::new());
    let up = pair.call(&mut below.reactor, 1_000_000);
    below.turn();
    let taken = std::thread::scope(|scope| {
        let taking = scope.spawn(|| pair.take());
        below.greet(up);
        taking.join().unwrap()
    });
    let (socket, stream, first) = taken.unwrap();
    assert_eq!(first[0], LINK);
    assert_eq!(Message::read(&first[1..]), Ok(Some(Message::Attach(attach(0)))));
    let down = above.reactor.adopt(socket, stream, 1_000_000).unwrap();
    below.seen.clear();
    (pair, (below, up), (above, down))
}

fn data(sequence: u32, triples: &[u8]) -> Message<'_> {
    Message::Data(Data { stream: Values::Job, origin: PostId(POST), sequence, at_us: 1_000_000, triples })
}

fn sequences(seen: &[Happening]) -> Vec<u32> {
    let of = |happening: &Happening| match happening {
        Happening::Record(_, record) => match Message::read(record).unwrap() {
            Some(Message::Data(data)) => Some(data.sequence),
            _ => None,
        },
        _ => None,
    };
    seen.iter().filter_map(of).collect()
}

#[test]
fn what_is_said_arrives_whole_and_in_order_both_ways() {
    let (_pair, (mut below, up), (mut above, down)) = linked();
    for number in 0..300 {
        below.reactor.send(up, Lane::Data, &data(number, &[number as u8; 1_000]), 1_000_000);
    }
    above.reactor.send(down, Lane::Control, &Message::Welcome { now_us: 5 }, 1_000_000);
    for _ in 0..2_000 {
        below.turn();
        above.turn();
        if sequences(&above.seen).len() == 300 {
            break;
        }
    }
    assert_eq!(sequences(&above.seen), (0..300).collect::<Vec<_>>());
    let welcomed = |seen: &[Happening]| {
        seen.iter().any(|happening| match happening {
            Happening::Record(_, record) => Message::read(record) == Ok(Some(Message::Welcome { now_us: 5 })),
            _ => false,
        })
    };
    below.until("the welcome", welcomed);
}

#[test]
fn a_neighbour_that_hangs_up_is_gone_at_once_and_one_that_is_silent_after_five_seconds() {
    let (_pair, (mut below, up), (mut above, down)) = linked();
    above.now_us.set(1_000_000 + DEAD_US - 1);
    above.turn();
    assert_eq!(above.why_gone(), None);
    above.now_us.set(1_000_000 + DEAD_US + 250_000);
    above.until("it is missed", |seen| matches!(seen, [.., Happening::Gone(_, End::Silent)]));
    // The one above has dropped the socket.
    below.until("it hangs up", |seen| seen.iter().any(|happening| matches!(happening, Happening::Gone(..))));
    for (node, link) in [(&mut below, up), (&mut above, down)] {
        node.seen.clear();
        node.reactor.send(link, Lane::Data, &data(0, &[]), 0);
        node.turn();
        assert!(node.seen.is_empty(), "a link that has gone is not there any more");
    }
}

#[test]
fn links_that_have_nothing_to_say_beat() {
    let (_pair, (mut below, up), (mut above, _)) = linked();
    below.reactor.send(up, Lane::Data, &data(0, &[]), 1_000_000);
    for step in 1..40 {
        for node in [&mut below, &mut above] {
            node.now_us.set(1_000_000 + step * 500_000);
            node.turn();
        }
        // What was sent has time to arrive.
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!((below.why_gone(), above.why_gone()), (None, None));
    let beats = below.seen.iter().filter(|happening| {
        matches!(happening, Happening::Record(_, record) if matches!(Message::read(record), Ok(Some(Message::Beat { heard: 1 }))))
    });
    assert!(beats.count() >= 14, "it is said how much data has come: {:?}", below.seen);
}

/// Whoever only lets a byte through now and then keeps no link alive by that.
#[test]
fn what_is_no_whole_record_is_no_sign_of_life() {
    let (mut pair, mut below) = (Pair::new(), Node::new());
    let up = pair.call(&mut below.reactor, 1_000_000);
    below.turn();
    let mut taken = std::thread::scope(|scope| {
        let taking = scope.spawn(|| pair.take());
        below.greet(up);
        taking.join().unwrap().unwrap()
    });
    let mut frame = Vec::new();
    taken.1.sealer.seal(&[5; 9], &mut frame).unwrap();
    for second in 0..6 {
        taken.0.write_all(&frame[second..=second]).unwrap();
        below.now_us.set(1_000_000 + second as u64 * 1_000_000);
        // What was sent has time to arrive.
        std::thread::sleep(Duration::from_millis(2));
        below.turn();
    }
    assert_eq!(below.why_gone(), Some(End::Silent.to_string()));
}

#[test]
fn a_caller_that_nobody_vouched_for_gets_no_link() {
    for stranger in [
        // It has another key than the one that was named.
        Pair { caller: key(8), ..Pair::new() },
        // Nobody told it the secret.
        Pair { secret: Secret([8; 32]), ..Pair::new() },
        // The voucher was taken back.
        Pair { vouchers: Vouchers::default(), ..Pair::new() },
        // It is somebody else who answers.
        Pair { called: key(9), ..Pair::new() },
    ] {
        let (mut pair, mut below) = (stranger, Node::new());
        pair.call(&mut below.reactor, 1_000_000);
        below.turn();
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| pair.take().is_some());
            below.until("the link ends", |seen| matches!(seen, [Happening::Gone(..)]));
            assert!(!taking.join().unwrap());
        });
    }
}

#[test]
fn nobody_at_the_address_is_a_link_that_ends() {
    let (pair, mut below) = (Pair::new(), Node::new());
    let Pair { listener, .. } = pair;
    let gone = Pair { listener: TcpListener::bind("127.0.0.1:0").unwrap(), ..Pair::new() };
    let address = listener.local_addr().unwrap();
    drop(listener);
    let who = Introduction {
        key: &gone.caller,
        scheduler: &gone.called.public(),
        join_secret: &gone.secret,
        name: "post-7",
        boot: Boot(0),
        mode: Mode { stream: true, ..Mode::default() },
    };
    below.reactor.call(address, &who, FARM, 1_000_000).unwrap();
    below.until("it is refused", |seen| matches!(seen, [Happening::Gone(..)]));
}

#[test]
fn where_a_neighbour_does_not_read_the_oldest_values_go_and_are_counted() {
    let (mut pair, mut below) = (Pair::new(), Node::new());
    let up = pair.call(&mut below.reactor, 1_000_000);
    below.turn();
    let mut taken = std::thread::scope(|scope| {
        let taking = scope.spawn(|| pair.take());
        below.greet(up);
        taking.join().unwrap().unwrap()
    });
    let (total, mut sending) = (2_000_u32, Sending::default());
    sending.begin();
    for _ in 0..total {
        sending.put(PostId(POST), Values::Job, 1_000_000, &[7; 10_000]);
        below.reactor.send_data(up, &mut sending, 1_000_000);
        below.turn();
    }
    let (made, dropped) = sending.counts();
    assert!(made == u64::from(total) && dropped > 100, "{dropped} dropped");
    // It reads after all: what was not dropped arrives, in order, and the newest is among it.
    taken.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (mut frame, mut record, mut read) = (Vec::new(), Vec::new(), Vec::new());
    while read.last() != Some(&(total - 1)) {
        below.reactor.send_data(up, &mut sending, 1_000_000);
        below.turn();
        read_frame(&mut Turning(&mut taken.0, &mut below), &mut frame).unwrap();
        taken.1.opener.open(&frame, &mut record).unwrap();
        if let Ok(Some(Message::Data(data))) = Message::read(&record) {
            read.push(data.sequence);
        }
    }
    assert!(read.is_sorted());
    let gone = u64::from(total) - read.len() as u64;
    assert!(gone > 0 && gone <= dropped, "{gone} never arrived, {dropped} are counted");
}

/// The handshakes of callers are answered by the reactor itself.
fn host(pair: &Pair) -> (Node, SocketAddr) {
    let mut node = Node::new();
    let mode = Mode { stream: true, ..Mode::default() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    node.reactor.listen(listener, Responder::new(key(2), FARM, Epoch(0), mode, [9; 32])).unwrap();
    node.reactor.vouch(pair.vouchers.clone());
    (node, address)
}

fn call(pair: &Pair, address: SocketAddr, below: &mut Node) -> LinkId {
    let who = Introduction {
        key: &pair.caller,
        scheduler: &pair.called.public(),
        join_secret: &pair.secret,
        name: &post_name(POST),
        boot: Boot(0),
        mode: Mode { stream: true, ..Mode::default() },
    };
    below.reactor.call(address, &who, FARM, 1_000_000).unwrap()
}

/// Both have turns until this is so.
fn both(below: &mut Node, above: &mut Node, what: &str, is_right: impl Fn(&Node, &Node) -> bool) {
    for _ in 0..20_000 {
        if is_right(below, above) {
            return;
        }
        below.turn();
        above.turn();
    }
    panic!("{what} never happened: {:?}, {:?}", below.seen, above.seen);
}

/// A child of a post of level 1 that has called, and says that it is of this level; what it hears, how many children there are
/// then, and whether the link has ended two seconds later.
fn answer_to(level: u8) -> (Message<'static>, usize, bool) {
    let (pair, mut below) = (Pair::new(), Node::new());
    let (mut above, address) = host(&pair);
    let mut children = Children::of(1);
    let up = call(&pair, address, &mut below);
    both(&mut below, &mut above, "the link is up", |below, _| matches!(&below.seen[..], [Happening::Up(_)]));
    below.reactor.open(up, Lane::Control, &Message::Attach(attach(level)), 1_000_000);
    both(&mut below, &mut above, "it calls", |_, above| !above.seen.is_empty());
    let Happening::Called(link, claim, first) = above.seen.remove(0) else { panic!() };
    assert_eq!((claim.name.as_str(), claim.key), ("post-7", pair.caller.public()));
    children.arrive(&mut above.reactor, link, (PostId(POST), claim.key), &first, (1_000_000, 77));
    let heard = |below: &Node| below.seen.iter().any(|seen| matches!(seen, Happening::Record(..)));
    both(&mut below, &mut above, "it is answered", |below, _| heard(below));
    let answer = below.seen.iter().find_map(|seen| match seen {
        Happening::Record(_, record) => Message::read(record).unwrap(),
        _ => None,
    });
    let answer = match answer.unwrap() {
        Message::Welcome { now_us } => Message::Welcome { now_us },
        Message::Refuse { why } => Message::Refuse { why },
        other => panic!("{other:?}"),
    };
    for node in [&mut above, &mut below] {
        node.now_us.set(3_000_000);
        node.turn();
    }
    (answer, children.count(), above.why_gone().is_some_and(|why| why == "it was refused"))
}

#[test]
fn a_child_of_a_lower_level_is_taken_in_and_told_the_farms_clock() {
    assert_eq!(answer_to(0), (Message::Welcome { now_us: 77 }, 1, false));
}

/// Or else two posts could be above each other.
#[test]
fn a_child_of_no_lower_level_is_refused() {
    for level in [1, 2] {
        let (Message::Refuse { why }, 0, true) = answer_to(level) else { panic!("it was taken in") };
        assert!(why.contains(&format!("of level {level} is not below one of level 1")), "{why}");
    }
}

#[test]
fn callers_that_nobody_vouched_for_are_hung_up_on_and_leave_nothing() {
    let pair = Pair { vouchers: Vouchers::default(), ..Pair::new() };
    let (mut above, address) = host(&pair);
    let mut below = Node::new();
    call(&pair, address, &mut below);
    both(&mut below, &mut above, "it ends", |below, _| matches!(&below.seen[..], [Happening::Gone(..)]));
    assert!(above.seen.is_empty(), "nobody hears of it: {:?}", above.seen);
    // Those who say nothing, or anything.
    let connect = |_| {
        let socket = TcpStream::connect(address).unwrap();
        above.turn();
        socket
    };
    let mut sockets: Vec<_> = (0..300).map(connect).collect();
    for socket in sockets.iter_mut().step_by(2) {
        let _ = socket.write_all(&[0xA5; 3_000]);
    }
    (0..50).for_each(|_| above.turn());
    above.now_us.set(1_000_000 + 2 * DEAD_US);
    (0..50).for_each(|_| above.turn());
    assert!(above.seen.is_empty(), "{:?}", above.seen);
    for socket in &mut sockets {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // A reset is an end, too.
        assert!(!matches!(socket.read(&mut [0; 8]), Ok(1..)), "nobody is answered");
    }
    // A true peer is let in all the same.
    let pair = Pair::new();
    above.reactor.vouch(pair.vouchers.clone());
    below.seen.clear();
    call(&pair, address, &mut below);
    both(&mut below, &mut above, "it is up", |below, _| matches!(&below.seen[..], [Happening::Up(_)]));
}

/// Reads from a socket while the other end has its turns.
struct Turning<'a>(&'a mut TcpStream, &'a mut Node);

impl Read for Turning<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1.turn();
        self.0.read(buffer)
    }
}

#[test]
fn a_watched_file_is_told_of() {
    let mut node = Node::new();
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    node.reactor.watch(std::os::fd::AsRawFd::as_raw_fd(&read), Watch(3)).unwrap();
    rustix::io::write(&write, b"x").unwrap();
    node.until("the file can be read", |seen| matches!(seen, [Happening::Readable(Watch(3))]));
}

/// As one of the kernel's that tells of pressure: it can always be read.
#[test]
fn a_file_that_is_watched_for_what_is_urgent_tells_nothing_else() {
    let mut node = Node::new();
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    let ((urgent, to_urgent), (read, write)) = (pipe(), pipe());
    rustix::io::write(&to_urgent, b"x").unwrap();
    node.reactor.watch_urgent(std::os::fd::AsRawFd::as_raw_fd(&urgent), Watch(4)).unwrap();
    node.reactor.watch(std::os::fd::AsRawFd::as_raw_fd(&read), Watch(3)).unwrap();
    rustix::io::write(&write, b"x").unwrap();
    node.until("only the other can be read", |seen| matches!(seen, [Happening::Readable(Watch(3))]));
}
