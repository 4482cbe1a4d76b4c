//! The proxy: one UDP port for all workers, a socket towards the scheduler for each, and one thread that
//! waits for all of them and for the next datagram that is due. TCP connections to the same port are the
//! matter of `stream`.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::faults::{Counters, Faults};
use crate::lane::{Delivery, Lane};
use crate::stream::{Streams, Tcp, Valve};

/// The longest wait, so that the end is noticed.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Larger than any datagram.
const BUFFER_BYTES: usize = 65_536;
/// Datagrams that are read from one socket before the others have their turn.
const BATCH: usize = 64;
/// Ports that are tried until one is free for UDP and TCP.
const PORT_TRIES: u32 = 16;

/// Which way a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a worker to the scheduler.
    Up,
    /// From the scheduler to a worker.
    Down,
}

impl Direction {
    fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// Who is shown each datagram as it comes in, before anything goes wrong with it, with the worker's address.
type Tap = Box<dyn FnMut(Direction, SocketAddr, &[u8]) + Send>;

/// What the proxy's owner can change while it runs, and look at.
#[derive(Default)]
struct Control {
    faults: [Faults; 2],
    cut: [bool; 2],
    counters: [Counters; 2],
    tap: Option<Tap>,
    cut_streams: bool,
    stop: bool,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { faults, cut, counters, .. } = self;
        f.debug_struct("Control")
            .field("faults", faults)
            .field("cut", cut)
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Mutex<Control>>,
    valve: Arc<Valve>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy on a free loopback port in front of `scheduler`. It does no harm until it is told to
    /// by [`Proxy::set_faults`]; the harm follows from `seed` and the order in which datagrams come in.
    ///
    /// # Errors
    /// The system gives no socket or thread.
    pub fn start(scheduler: SocketAddr, seed: u64) -> io::Result<Self> {
        Self::listen("127.0.0.1:0".parse().map_err(io::Error::other)?, scheduler, seed)
    }

    /// As [`Proxy::start`], on an address of one's own choice.
    ///
    /// # Errors
    /// The address is in use, or as [`Proxy::start`].
    pub fn listen(address: SocketAddr, scheduler: SocketAddr, seed: u64) -> io::Result<Self> {
        let (front, listener) = bind(address)?;
        front.set_nonblocking(true)?;
        listener.set_nonblocking(true)?;
        let address = front.local_addr()?;
        let control = Arc::new(Mutex::new(Control::default()));
        let valve = Arc::new(Valve::default());
        let mover = Mover {
            front,
            listener,
            scheduler,
            seed,
            peers: Vec::new(),
            due: BTreeMap::new(),
            next: 0,
            start: Instant::now(),
            control: Arc::clone(&control),
            streams: Streams::new(scheduler, Arc::clone(&valve)),
            valve: Arc::clone(&valve),
        };
        let thread = std::thread::Builder::new().name("chaos".into()).spawn(move || mover.run())?;
        Ok(Self { address, control, valve, thread: Some(thread) })
    }

    /// Where workers find it, UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this goes wrong in that direction.
    pub fn set_faults(&self, direction: Direction, faults: Faults) {
        lock(&self.control).faults[direction.index()] = faults;
    }

    /// From now on this goes wrong in both directions.
    pub fn set_all_faults(&self, faults: Faults) {
        lock(&self.control).faults = [faults; 2];
    }

    /// Cuts a direction, or mends it.
    pub fn set_cut(&self, direction: Direction, cut: bool) {
        lock(&self.control).cut[direction.index()] = cut;
    }

    /// Shows each datagram, as it comes in and with the worker's address, to `tap`, which must be quick.
    pub fn set_tap(&self, tap: impl FnMut(Direction, SocketAddr, &[u8]) + Send + 'static) {
        lock(&self.control).tap = Some(Box::new(tap));
    }

    /// From now on this becomes of TCP.
    pub fn set_tcp(&self, tcp: Tcp) {
        self.valve.set(tcp);
    }

    /// Closes all TCP connections, in the middle of whatever they do.
    pub fn cut_streams(&self) {
        lock(&self.control).cut_streams = true;
    }

    /// TCP connections that were refused or cut, and bytes that passed.
    pub fn tcp_counters(&self) -> (u64, u64) {
        (self.valve.cut.load(Ordering::Relaxed), self.valve.passed.load(Ordering::Relaxed))
    }

    /// What has happened in that direction so far, all workers together.
    pub fn counters(&self, direction: Direction) -> Counters {
        lock(&self.control).counters[direction.index()]
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.control).stop = true;
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been printed already.
            let _ = thread.join();
        }
    }
}

/// A panic elsewhere leaves plain numbers behind, which are still good.
fn lock(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A worker as the proxy sees it: an address, and a socket that the scheduler takes for it.
struct Peer {
    address: SocketAddr,
    back: UdpSocket,
    lanes: [Lane; 2],
}

/// The thread's state.
struct Mover {
    front: UdpSocket,
    listener: TcpListener,
    scheduler: SocketAddr,
    seed: u64,
    peers: Vec<Peer>,
    /// What goes out, by time and then by order.
    due: BTreeMap<(u64, u64), (usize, Direction, Vec<u8>)>,
    next: u64,
    start: Instant,
    control: Arc<Mutex<Control>>,
    valve: Arc<Valve>,
    streams: Streams,
}

impl Mover {
    fn run(mut self) {
        let mut buffer = vec![0; BUFFER_BYTES];
        while !lock(&self.control).stop {
            self.wait();
            self.read_front(&mut buffer);
            (0..self.peers.len()).for_each(|peer| self.read_back(peer, &mut buffer));
            self.streams.accept(&self.listener);
            self.cut_streams();
            self.send_due();
            self.publish();
        }
        // A stalled stream would never see that it is closed.
        self.valve.set(Tcp::Pass);
        self.streams.cut();
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Until a socket has something, or the next datagram is due.
    fn wait(&self) {
        let next_us = self.due.first_key_value().map(|((due_us, _), _)| *due_us);
        let until = next_us.map(|due_us| Duration::from_micros(due_us.saturating_sub(self.now_us())));
        let wait = until.unwrap_or(WAIT_MAX).min(WAIT_MAX);
        let mut fds =
            vec![PollFd::new(&self.front, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.peers.iter().map(|peer| PollFd::new(&peer.back, PollFlags::IN)));
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        // Interrupted or not, all sockets are looked at next.
        let _ = poll(&mut fds, Some(&wait));
    }

    fn read_front(&mut self, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let Ok((bytes, from)) = self.front.recv_from(buffer) else { return };
            if let Ok(peer) = self.peer(from) {
                self.pass(peer, Direction::Up, &buffer[..bytes]);
            }
        }
    }

    fn read_back(&mut self, peer: usize, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            match self.peers[peer].back.recv(buffer) {
                Ok(bytes) => self.pass(peer, Direction::Down, &buffer[..bytes]),
                // The scheduler is not there now; workers see silence, as on a real network.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    }

    fn peer(&mut self, address: SocketAddr) -> io::Result<usize> {
        if let Some(known) = self.peers.iter().position(|peer| peer.address == address) {
            return Ok(known);
        }
        let back = UdpSocket::bind(SocketAddr::new(self.front.local_addr()?.ip(), 0))?;
        back.connect(self.scheduler)?;
        back.set_nonblocking(true)?;
        let seed = self.seed.wrapping_add(2 * self.peers.len() as u64);
        self.peers.push(Peer { address, back, lanes: [Lane::new(seed), Lane::new(seed.wrapping_add(1))] });
        Ok(self.peers.len() - 1)
    }

    fn pass(&mut self, peer: usize, direction: Direction, datagram: &[u8]) {
        let now_us = self.now_us();
        let (faults, cut) = {
            let mut control = lock(&self.control);
            if let Some(tap) = &mut control.tap {
                tap(direction, self.peers[peer].address, datagram);
            }
            (control.faults[direction.index()], control.cut[direction.index()])
        };
        let mut out = Vec::new();
        self.peers[peer].lanes[direction.index()].pass(datagram, &faults, cut, now_us, &mut out);
        for Delivery { due_us, bytes } in out {
            self.due.insert((due_us, self.next), (peer, direction, bytes));
            self.next += 1;
        }
    }

    fn send_due(&mut self) {
        let now_us = self.now_us();
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > now_us {
                return;
            }
            let (peer, direction, bytes) = entry.remove();
            let peer = &self.peers[peer];
            // What cannot be sent is lost, as on a real network.
            let _ = match direction {
                Direction::Up => peer.back.send(&bytes),
                Direction::Down => self.front.send_to(&bytes, peer.address),
            };
        }
    }

    fn cut_streams(&mut self) {
        if std::mem::take(&mut lock(&self.control).cut_streams) {
            self.streams.cut();
        }
    }

    fn publish(&self) {
        let mut counters = [Counters::default(); 2];
        for peer in &self.peers {
            counters.iter_mut().zip(&peer.lanes).for_each(|(sum, lane)| sum.add(&lane.counters()));
        }
        lock(&self.control).counters = counters;
    }
}

/// The same port for UDP and TCP. With port 0, others are tried until one is free for both.
fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..tries {
        let socket = UdpSocket::bind(address)?;
        match TcpListener::bind(socket.local_addr()?) {
            Ok(listener) => return Ok((socket, listener)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    use super::*;

    const GUARD: Duration = Duration::from_secs(30);

    /// A server that echoes datagrams, and a client connected to the proxy before it.
    fn echo() -> (Proxy, UdpSocket, UdpSocket) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap(), 1).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(proxy.address()).unwrap();
        server.set_read_timeout(Some(GUARD)).unwrap();
        client.set_read_timeout(Some(GUARD)).unwrap();
        (proxy, server, client)
    }

    fn there_and_back(server: &UdpSocket, client: &UdpSocket, word: &[u8]) {
        let mut buffer = [0; 64];
        client.send(word).unwrap();
        let (bytes, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], word);
        server.send_to(word, from).unwrap();
        let bytes = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], word);
    }

    /// The counters of a direction once so many have come in.
    fn after(proxy: &Proxy, direction: Direction, received: u64) -> Counters {
        let start = Instant::now();
        loop {
            let counters = proxy.counters(direction);
            if counters.received >= received {
                return counters;
            }
            assert!(start.elapsed() < GUARD, "{counters}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn datagrams_go_there_and_back() {
        let (proxy, server, client) = echo();
        there_and_back(&server, &client, b"one");
        there_and_back(&server, &client, b"two");
        assert_eq!(after(&proxy, Direction::Up, 2).delivered, 2);
        assert_eq!(after(&proxy, Direction::Down, 2).delivered, 2);
    }

    #[test]
    fn a_cut_direction_is_silent_until_it_is_mended() {
        let (proxy, server, client) = echo();
        proxy.set_cut(Direction::Up, true);
        client.send(b"lost").unwrap();
        assert_eq!(after(&proxy, Direction::Up, 1).cut, 1);
        proxy.set_cut(Direction::Up, false);
        there_and_back(&server, &client, b"found");
    }

    #[test]
    fn a_tap_is_shown_what_comes_in_though_it_is_lost() {
        let (proxy, _server, client) = echo();
        let (shown, seen) = std::sync::mpsc::channel();
        proxy.set_tap(move |direction, from, bytes| {
            let _ = shown.send((direction, from, bytes.to_vec()));
        });
        proxy.set_all_faults(Faults { loss: 1.0, ..Faults::NONE });
        client.send(b"x").unwrap();
        let expected = (Direction::Up, client.local_addr().unwrap(), b"x".to_vec());
        assert_eq!(seen.recv_timeout(GUARD).unwrap(), expected);
    }

    #[test]
    fn a_duplicated_datagram_arrives_twice() {
        let (proxy, server, client) = echo();
        proxy.set_faults(Direction::Up, Faults { duplication: 1.0, delay_us: 1_000, ..Faults::NONE });
        client.send(b"x").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(server.recv(&mut buffer).unwrap(), 1);
        assert_eq!(server.recv(&mut buffer).unwrap(), 1);
        assert_eq!(after(&proxy, Direction::Up, 1).duplicated, 1);
    }

    /// A TCP server behind the proxy, and a client connected to it.
    fn streams() -> (Proxy, TcpListener, TcpStream, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap(), 1).unwrap();
        let client = TcpStream::connect(proxy.address()).unwrap();
        let (end, _) = server.accept().unwrap();
        (proxy, server, client, end)
    }

    #[test]
    fn tcp_passes_unharmed() {
        let (proxy, _server, mut client, mut end) = streams();
        proxy.set_all_faults(Faults { loss: 1.0, ..Faults::NONE });
        client.write_all(b"hello").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        end.write_all(b"back").unwrap();
        drop(end);
        text.clear();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "back");
    }

    #[test]
    fn a_cut_stream_ends_on_both_sides_and_the_next_one_passes() {
        let (proxy, server, mut client, mut end) = streams();
        client.write_all(b"half of").unwrap();
        end.read_exact(&mut [0; 7]).unwrap();
        proxy.cut_streams();
        let mut rest = Vec::new();
        assert!(matches!(end.read_to_end(&mut rest), Ok(0) | Err(_)));
        assert!(matches!(client.read_to_end(&mut rest), Ok(0) | Err(_)));
        assert_eq!(proxy.tcp_counters(), (1, 7));
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        let (mut end, _) = server.accept().unwrap();
        client.write_all(b"again").unwrap();
        end.read_exact(&mut [0; 5]).unwrap();
    }

    #[test]
    fn a_refused_connection_is_closed_and_a_stalled_one_waits() {
        let (proxy, _server, mut client, mut end) = streams();
        proxy.set_tcp(Tcp::Refuse);
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert!(matches!(refused.read(&mut [0; 1]), Ok(0) | Err(_)));
        proxy.set_tcp(Tcp::Stall);
        client.write_all(b"late").unwrap();
        end.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(end.read(&mut [0; 4]).is_err(), "nothing passes");
        proxy.set_tcp(Tcp::Pass);
        end.set_read_timeout(Some(GUARD)).unwrap();
        end.read_exact(&mut [0; 4]).unwrap();
    }
}
