//! A thread that sends lines somewhere, over TCP or UDP, and what waits for it: so much and no more, the oldest goes first.
//! Nobody waits for the network but this thread. It ends soon after its [`Outlet`] is dropped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::RecvFlags;

/// After a connection that failed the next one is tried so much later, and each time after twice that, up to the longest pause.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// So long a connection may take to be made, and to take anything.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are sent at one time, and those of a datagram, which no network parts.
const BATCH_BYTES: usize = 64 << 10;
const DATAGRAM_BYTES: usize = 1_400;

/// Where lines go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    Tcp(SocketAddr),
    Udp(SocketAddr),
}

/// What has become of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// The system has taken them.
    pub(super) sent: u64,
    /// There was no room for them, or the system did not take them.
    pub(super) lost: u64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    counts: Counts,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next lines, as many as come to so many bytes, once there are some; none where it is over.
    fn next(&self, bytes_max: usize) -> Option<Vec<String>> {
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return None;
            }
            if !queue.lines.is_empty() {
                break;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(line) = queue.lines.front()
            && (batch.is_empty() || bytes + line.len() <= bytes_max)
        {
            bytes += line.len();
            batch.extend(queue.lines.pop_front());
        }
        queue.bytes -= bytes;
        Some(batch)
    }

    /// Waits so long; false where it is over.
    fn pause(&self, pause: Duration) -> bool {
        let queue = self.queue();
        let waited = self.changed.wait_timeout_while(queue, pause, |queue| !queue.is_over);
        waited.is_ok_and(|(queue, _)| !queue.is_over)
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.queue().counts);
    }
}

/// The way out.
pub(super) struct Outlet(Arc<Shared>);

impl Outlet {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is none to be had.
    pub(super) fn start(to: To) -> io::Result<Self> {
        Self::pausing(to, PAUSE)
    }

    pub(super) fn pausing(to: To, pause: Duration) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of = Arc::clone(&shared);
        let send = move || match to {
            To::Tcp(to) => by_tcp(&of, to, pause),
            To::Udp(to) => by_udp(&of, to),
        };
        std::thread::Builder::new().name("line".into()).spawn(send)?;
        Ok(Self(shared))
    }

    /// Has a line sent. If more than so many bytes wait, the oldest are lost.
    pub(super) fn put(&self, line: String, bytes_max: usize) {
        let mut queue = self.0.queue();
        queue.bytes += line.len();
        queue.lines.push_back(line);
        while queue.bytes > bytes_max
            && let Some(oldest) = queue.lines.pop_front()
        {
            queue.bytes -= oldest.len();
            queue.counts.lost += 1;
        }
        self.0.changed.notify_one();
    }

    pub(super) fn counts(&self) -> Counts {
        self.0.queue().counts
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.0.queue().is_over = true;
        self.0.changed.notify_all();
    }
}

/// Lines that were on their way when a connection ended are sent again by the next one.
fn by_tcp(shared: &Shared, to: SocketAddr, pause_min: Duration) {
    let (mut pause, mut connection) = (pause_min, None);
    while let Some(batch) = shared.next(BATCH_BYTES) {
        let bytes = batch.concat();
        loop {
            match send(&mut connection, to, bytes.as_bytes()) {
                Ok(()) => break,
                Err(error) => {
                    connection = None;
                    if pause == pause_min {
                        starfarm_net::say(&format!("starfarm-agent: no lines go to {to}: {error}"));
                    }
                    if !shared.pause(pause) {
                        return;
                    }
                    pause = (pause * 2).min(PAUSE_MAX.max(pause_min));
                }
            }
        }
        pause = pause_min;
        shared.count(|counts| counts.sent += batch.len() as u64);
    }
}

fn send(connection: &mut Option<TcpStream>, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    if connection.as_ref().is_some_and(|stream| !is_open(stream)) {
        *connection = None;
    }
    let stream = match connection {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            connection.insert(stream)
        }
    };
    stream.write_all(bytes)
}

/// The other end has not closed it. What it says is of no interest, and must not fill the buffers.
fn is_open(stream: &TcpStream) -> bool {
    let mut said = [0; 4_096];
    loop {
        match rustix::net::recv(stream, said.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok(_) => {}
            Err(error) => return error == rustix::io::Errno::WOULDBLOCK,
        }
    }
}

fn by_udp(shared: &Shared, to: SocketAddr) {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let mut socket = None;
    while let Some(batch) = shared.next(DATAGRAM_BYTES) {
        if socket.is_none() {
            socket = UdpSocket::bind((any, 0)).ok();
        }
        let sent =
            socket.as_ref().is_some_and(|socket| socket.send_to(batch.concat().as_bytes(), to).is_ok());
        let lines = batch.len() as u64;
        shared.count(|counts| if sent { counts.sent += lines } else { counts.lost += lines });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    const ROOM: usize = 1 << 20;

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The lines of the next connection.
    fn accepted(listener: &TcpListener) -> impl Iterator<Item = String> + use<> {
        listener.set_nonblocking(true).unwrap();
        let mut stream = None;
        until("somebody connects", || {
            stream = listener.accept().ok().map(|(stream, _)| stream);
            stream.is_some()
        });
        let stream = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        BufReader::new(stream).lines().map(Result::unwrap)
    }

    #[test]
    fn what_waits_is_bounded_and_goes_when_somebody_takes_it() {
        // Nobody listens there for now.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let outlet = Outlet::pausing(To::Tcp(to), Duration::from_millis(20)).unwrap();
        outlet.put("first\n".to_owned(), ROOM);
        until("the first is on its way", || outlet.0.queue().lines.is_empty());
        (0..10).for_each(|n| outlet.put(format!("line {n}\n"), 30));
        assert_eq!(outlet.counts(), Counts { sent: 0, lost: 6 });
        let listener = TcpListener::bind(to).unwrap();
        let mut lines = accepted(&listener);
        assert_eq!(
            lines.by_ref().take(5).collect::<Vec<_>>(),
            ["first", "line 6", "line 7", "line 8", "line 9"]
        );
        until("all are counted", || outlet.counts() == Counts { sent: 5, lost: 6 });
        // The other end goes, and comes again.
        drop(lines);
        std::thread::sleep(Duration::from_millis(50));
        outlet.put("again\n".to_owned(), ROOM);
        let mut lines = accepted(&listener);
        assert_eq!(lines.next().unwrap(), "again");
        let of = Arc::downgrade(&outlet.0);
        drop(outlet);
        until("the thread ends", || of.strong_count() == 0);
        assert!(lines.next().is_none(), "and its connection with it");
    }

    #[test]
    fn a_thread_that_pauses_ends_as_well() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let outlet = Outlet::pausing(To::Tcp(to), Duration::from_secs(1_000)).unwrap();
        outlet.put("first\n".to_owned(), ROOM);
        until("it is on its way", || outlet.0.queue().lines.is_empty());
        let of = Arc::downgrade(&outlet.0);
        drop(outlet);
        until("the thread ends", || of.strong_count() == 0);
    }

    #[test]
    fn datagrams_have_whole_lines() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let outlet = Outlet::start(To::Udp(socket.local_addr().unwrap())).unwrap();
        (0..100).for_each(|n| outlet.put(format!("{n:099}\n"), ROOM));
        let (mut all, mut room) = (Vec::new(), [0; 65_536]);
        while all.len() < 10_000 {
            let count = socket.recv(&mut room).unwrap();
            assert!(count <= DATAGRAM_BYTES && room[count - 1] == b'\n', "{count}");
            all.extend_from_slice(&room[..count]);
        }
        until("all are counted", || outlet.counts() == Counts { sent: 100, lost: 0 });
        let long = "x".repeat(100_000);
        outlet.put(long, ROOM);
        until("one that no datagram takes is lost", || outlet.counts().lost == 1);
    }
}
