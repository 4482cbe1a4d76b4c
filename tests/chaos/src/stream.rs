//! TCP through the proxy: handed on byte by byte, refused, stalled, or cut in the middle. Bytes are never
//! changed, lost or reordered: TCP has its own remedies for that.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes that are handed on at a time.
const CHUNK_BYTES: usize = 16_384;
/// How often a stalled stream looks whether it may go on.
const STALL_LOOK: Duration = Duration::from_millis(10);

/// What becomes of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tcp {
    /// It passes unharmed.
    #[default]
    Pass,
    /// A new connection is accepted and closed at once; those there are live on.
    Refuse,
    /// Connections stay open, and nothing passes.
    Stall,
}

/// What the streams' threads look at.
#[derive(Debug, Default)]
pub(crate) struct Valve {
    mode: AtomicU8,
    pub(crate) passed: AtomicU64,
    pub(crate) cut: AtomicU64,
}

impl Valve {
    pub(crate) fn set(&self, tcp: Tcp) {
        self.mode.store(tcp as u8, Ordering::Relaxed);
    }

    fn is(&self, tcp: Tcp) -> bool {
        self.mode.load(Ordering::Relaxed) == tcp as u8
    }
}

/// All connections that are handed through now.
#[derive(Debug)]
pub(crate) struct Streams {
    scheduler: SocketAddr,
    valve: Arc<Valve>,
    pairs: Vec<Pair>,
}

/// A connection and its other half; `ended` counts the directions that have come to their end.
#[derive(Debug)]
struct Pair {
    ends: [TcpStream; 2],
    ended: Arc<AtomicU8>,
}

impl Pair {
    fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed) == 2
    }

    fn close(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Streams {
    pub(crate) fn new(scheduler: SocketAddr, valve: Arc<Valve>) -> Self {
        Self { scheduler, valve, pairs: Vec::new() }
    }

    /// Takes what waits at `listener`.
    pub(crate) fn accept(&mut self, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            self.pairs.retain(|pair| !pair.is_over());
            if self.valve.is(Tcp::Refuse) {
                self.valve.cut.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            // A connection that cannot be handed through is closed; its caller tries again.
            if let Ok(pair) = self.hand_through(client) {
                self.pairs.push(pair);
            }
        }
    }

    /// Closes all of them in the middle of whatever they do.
    pub(crate) fn cut(&mut self) {
        for pair in self.pairs.drain(..) {
            if !pair.is_over() {
                self.valve.cut.fetch_add(1, Ordering::Relaxed);
            }
            pair.close();
        }
    }

    /// Two threads that copy until their side ends.
    fn hand_through(&self, client: TcpStream) -> io::Result<Pair> {
        client.set_nonblocking(false)?;
        let server = TcpStream::connect(self.scheduler)?;
        let ended = Arc::new(AtomicU8::new(0));
        for (from, to) in [(&client, &server), (&server, &client)] {
            from.set_nodelay(true)?;
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            let (valve, ended) = (Arc::clone(&self.valve), Arc::clone(&ended));
            let hand_on = move || {
                let _ = copy(&from, &to, &valve);
                let _ = to.shutdown(Shutdown::Write);
                ended.fetch_add(1, Ordering::Relaxed);
            };
            std::thread::Builder::new().name("chaos-tcp".into()).spawn(hand_on)?;
        }
        Ok(Pair { ends: [client, server], ended })
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, valve: &Valve) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let bytes = from.read(&mut chunk)?;
        while valve.is(Tcp::Stall) {
            std::thread::sleep(STALL_LOOK);
        }
        if bytes == 0 {
            return Ok(());
        }
        to.write_all(&chunk[..bytes])?;
        valve.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
