//! The worker's end of the bulk channel: one thread, one sealed TCP stream, one order after another. An
//! order that breaks off goes on where it was once the scheduler is back. A stream that is not needed is closed.
//! What is kept of the contents lives in `contents`, how well the channel does in `health`.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use starfarm_protocol::bulk::{BULK, BulkError, Incoming, Reply, Request, chunks};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::seal::stream::{
    FRAME_HEADER_BYTES, Stream, StreamInitiator, StreamOutcome, frame_bytes,
};

use crate::exec::CancelFlag;
use crate::health::Health;
use crate::sessions::Identity;

/// How long the scheduler may take to answer before the stream is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for its word on a whole content: a slow link still has much of it on the way.
const PATIENCE_STORED: Duration = Duration::from_secs(60);
/// A stream on which nothing was asked for this long is closed.
const IDLE: Duration = Duration::from_secs(30);
/// Wait between two attempts: it doubles from the first ...
const RETRY_MIN: Duration = Duration::from_millis(100);
/// ... to this.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Where the scheduler has no room for an output it is asked again after this, one output at a time.
const NO_ROOM_WAIT: Duration = Duration::from_secs(1);
/// How long a slot that was told to stop waits for its output to be taken.
const TRIMMED_PATIENCE: Duration = Duration::from_secs(5);
/// How often a waiting slot looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Why a content did not come or go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FetchError {
    /// The task that wanted it is not wanted any more.
    Cancelled,
    /// The scheduler has no such content, or does not take it; why, in words.
    Refused(String),
}

enum Work {
    /// See whether the channel can be had at all.
    Probe,
    Get {
        incoming: Incoming,
        reply: Sender<Result<Vec<u8>, FetchError>>,
    },
    Put {
        hash: ContentHash,
        content: Vec<u8>,
        reply: Sender<Result<(), FetchError>>,
    },
}

struct Order {
    work: Work,
    /// Gone when nobody waits for the order any more.
    wanted: Weak<()>,
}

/// Gives orders to the bulk thread.
#[derive(Clone)]
pub(crate) struct Bulk {
    orders: Sender<Order>,
    health: Arc<Mutex<Health>>,
    /// Lets probes go on while this is here.
    wanted: Arc<()>,
}

impl Bulk {
    /// Starts the thread. It ends when the last clone of this is gone.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(who: Arc<Identity>) -> io::Result<Self> {
        let (orders, to_do) = unbounded();
        let health = Arc::new(Mutex::new(Health::default()));
        let client = Client { who, health: Arc::clone(&health), open: None };
        std::thread::Builder::new().name("bulk".into()).spawn(move || client.run(&to_do))?;
        Ok(Self { orders, health, wanted: Arc::new(()) })
    }

    /// A session is up: the scheduler is there. In a new one the channel is tried at once, before any task needs it.
    pub(crate) fn set_scheduler(&self, address: SocketAddr, new: bool) {
        lock(&self.health).set_scheduler(address, Instant::now());
        if new {
            self.probe();
        }
    }

    fn probe(&self) {
        // Without the thread there is no worker either.
        let _ = self.orders.send(Order { work: Work::Probe, wanted: Arc::downgrade(&self.wanted) });
    }

    /// The scheduler was heard over UDP.
    pub(crate) fn heard(&self) {
        lock(&self.health).heard(Instant::now());
    }

    /// How often it worked again after it was given up: what was refused meanwhile can be run now.
    pub(crate) fn recoveries(&self) -> u32 {
        lock(&self.health).recoveries()
    }

    /// What a person should read of it now.
    pub(crate) fn take_news(&self) -> Option<String> {
        lock(&self.health).take_news()
    }

    /// Fetches a content and waits for it, while the task is wanted.
    ///
    /// # Errors
    /// Each [`FetchError`].
    pub(crate) fn get(&self, hash: ContentHash, cancel: &CancelFlag) -> Result<Vec<u8>, FetchError> {
        let (reply, answer) = bounded(1);
        let incoming = Incoming::new(hash);
        let give_up = || if cancel.is_raised() { Some(FetchError::Cancelled) } else { self.hopeless() };
        self.order(Work::Get { incoming, reply }, &answer, give_up)
    }

    /// Stores a content and waits until the scheduler has it. A graceful cancel ends the waiting only after
    /// [`TRIMMED_PATIENCE`]: what was computed is worth some time, but a worker that must leave while the
    /// scheduler is away cannot wait for ever, nor can one that TCP no longer reaches. The unit is then computed again.
    ///
    /// # Errors
    /// Each [`FetchError`].
    pub(crate) fn put(&self, content: Vec<u8>, cancel: &CancelFlag) -> Result<ContentHash, FetchError> {
        let (reply, answer) = bounded(1);
        let hash = ContentHash::of(&content);
        let mut raised_at = None;
        let cancelled = || {
            let waited = |since: &mut Instant| since.elapsed() >= TRIMMED_PATIENCE;
            let over = cancel.is_forced()
                || cancel.is_raised() && waited(raised_at.get_or_insert_with(Instant::now));
            if over { Some(FetchError::Cancelled) } else { self.hopeless() }
        };
        self.order(Work::Put { hash, content, reply }, &answer, cancelled)?;
        Ok(hash)
    }

    /// Why there is no use in waiting. The channel is tried on all the same, or nobody would know when it works again.
    fn hopeless(&self) -> Option<FetchError> {
        let why = lock(&self.health).hopeless(Instant::now())?;
        self.probe();
        Some(FetchError::Refused(why))
    }

    fn order<T>(
        &self,
        work: Work,
        answer: &Receiver<Result<T, FetchError>>,
        mut give_up: impl FnMut() -> Option<FetchError>,
    ) -> Result<T, FetchError> {
        let wanted = Arc::new(());
        if self.orders.send(Order { work, wanted: Arc::downgrade(&wanted) }).is_err() {
            return Err(FetchError::Cancelled);
        }
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(FetchError::Cancelled),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(miss) = give_up() {
                        return Err(miss);
                    }
                }
            }
        }
    }
}

/// Why an attempt did not finish an order.
enum Trouble {
    /// The stream broke: try again. Why, where it could not even be had.
    Broken(String),
    /// It is no use.
    Refused(String),
    /// The scheduler has no room for it now: try again, but let others go first.
    NoRoom,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Broken(error.to_string())
    }
}

impl From<BulkError> for Trouble {
    fn from(error: BulkError) -> Self {
        Trouble::Broken(error.to_string())
    }
}

/// A reply that fits no question: the stream has lost count.
fn unasked() -> Trouble {
    Trouble::Broken("the scheduler answered another question than was asked".into())
}

struct Client {
    who: Arc<Identity>,
    health: Arc<Mutex<Health>>,
    open: Option<Channel>,
}

impl Client {
    fn run(mut self, orders: &Receiver<Order>) {
        // Those for which the scheduler had no room.
        let mut waiting: VecDeque<Order> = VecDeque::new();
        loop {
            let patience = if waiting.is_empty() { IDLE } else { NO_ROOM_WAIT };
            let mut order = match (orders.recv_timeout(patience), waiting.is_empty()) {
                (Ok(order), _) => order,
                (Err(RecvTimeoutError::Timeout), true) => {
                    self.open = None;
                    continue;
                }
                (Err(RecvTimeoutError::Timeout), false) => waiting.pop_front().expect("it is not empty"),
                (Err(RecvTimeoutError::Disconnected), _) => return,
            };
            let mut wait = RETRY_MIN;
            while order.wanted.upgrade().is_some() {
                match self.attempt(&mut order.work) {
                    Attempt::Settled => break,
                    Attempt::NoRoom => {
                        waiting.push_back(order);
                        break;
                    }
                    Attempt::Broken => {
                        self.open = None;
                        std::thread::sleep(wait);
                        wait = (wait * 2).min(RETRY_MAX);
                    }
                }
            }
        }
    }

    /// Tries once.
    fn attempt(&mut self, work: &mut Work) -> Attempt {
        match work {
            Work::Probe => match self.channel() {
                Err(Trouble::Broken(_)) => Attempt::Broken,
                _ => Attempt::Settled,
            },
            Work::Get { incoming, reply } => {
                let result = self.get(incoming);
                settle(reply, result)
            }
            Work::Put { hash, content, reply } => {
                let result = self.put(*hash, content);
                settle(reply, result)
            }
        }
    }

    fn get(&mut self, incoming: &mut Incoming) -> Result<Vec<u8>, Trouble> {
        let channel = self.channel()?;
        let (hash, offset) = (incoming.hash(), incoming.offset());
        channel.send(&Request::Get { hash, offset }.to_bytes())?;
        let total = match Reply::read(channel.receive()?)? {
            Reply::Found { total } => total,
            Reply::Refused(why) => return Err(Trouble::Refused(why)),
            _ => return Err(unasked()),
        };
        while incoming.offset() < total {
            match Reply::read(channel.receive()?)? {
                Reply::Chunk(chunk) => incoming.take(&chunk, total)?,
                Reply::Refused(why) => return Err(Trouble::Refused(why)),
                _ => return Err(unasked()),
            }
        }
        // What does not have its hash is fetched from the start.
        let whole = std::mem::replace(incoming, Incoming::new(hash));
        Ok(whole.finish()?)
    }

    fn put(&mut self, hash: ContentHash, content: &[u8]) -> Result<(), Trouble> {
        let channel = self.channel()?;
        let total = content.len() as u64;
        channel.send(&Request::Put { hash, total }.to_bytes())?;
        let have = match Reply::read(channel.receive()?)? {
            Reply::Have { bytes } if bytes == total => return Ok(()),
            Reply::Have { bytes } if bytes < total => bytes,
            Reply::Refused(why) => return Err(Trouble::Refused(why)),
            Reply::NoRoom(_) => return Err(Trouble::NoRoom),
            _ => return Err(unasked()),
        };
        for chunk in chunks(content, have) {
            channel.send(&Request::Chunk(chunk).to_bytes())?;
        }
        channel.socket.set_read_timeout(Some(PATIENCE_STORED))?;
        let stored = channel.receive().map(|_| ());
        channel.socket.set_read_timeout(Some(PATIENCE))?;
        stored?;
        match Reply::read(&channel.record)? {
            Reply::Stored => Ok(()),
            Reply::Refused(why) => Err(Trouble::Refused(why)),
            Reply::NoRoom(_) => Err(Trouble::NoRoom),
            _ => Err(unasked()),
        }
    }

    /// The stream for the next question. One that has anything to say before it is asked answers an earlier
    /// question, or has been closed: it is given up, lest its word is taken for the answer.
    fn channel(&mut self) -> Result<&mut Channel, Trouble> {
        self.open.take_if(|channel| !channel.is_quiet());
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let address = lock(&self.health).scheduler();
                let address = address.ok_or_else(|| Trouble::Broken("it was not heard yet".into()))?;
                let begun = Instant::now();
                let opened = Channel::connect(&self.who, address);
                let failed = match &opened {
                    Ok(_) => None,
                    Err(Trouble::Broken(why) | Trouble::Refused(why)) => Some(why.as_str()),
                    Err(Trouble::NoRoom) => None,
                };
                lock(&self.health).tried(failed, begun, Instant::now());
                opened?
            }
        };
        Ok(self.open.insert(open))
    }
}

fn lock(health: &Mutex<Health>) -> MutexGuard<'_, Health> {
    health.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of an order.
enum Attempt {
    /// One way or the other.
    Settled,
    /// Try again.
    Broken,
    /// See [`Trouble::NoRoom`].
    NoRoom,
}

/// Answers whoever waits, if anybody does.
fn settle<T>(reply: &Sender<Result<T, FetchError>>, result: Result<T, Trouble>) -> Attempt {
    let answer = match result {
        Ok(value) => Ok(value),
        Err(Trouble::Refused(why)) => Err(FetchError::Refused(why)),
        Err(Trouble::Broken(_)) => return Attempt::Broken,
        Err(Trouble::NoRoom) => return Attempt::NoRoom,
    };
    let _ = reply.send(answer);
    Attempt::Settled
}

/// A sealed stream, driven by a blocking socket.
struct Channel {
    socket: TcpStream,
    stream: Stream,
    frame: Vec<u8>,
    record: Vec<u8>,
}

impl Channel {
    fn connect(who: &Identity, address: SocketAddr) -> Result<Self, Trouble> {
        let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        starfarm_net::keep_alive(&socket);
        let (initiator, hello) =
            StreamInitiator::start(&who.introduction(true)).map_err(|e| Trouble::Refused(e.to_string()))?;
        socket.write_all(&hello)?;
        let mut frame = Vec::new();
        read_frame(&mut socket, &mut frame)?;
        match initiator.finish(&frame) {
            Ok(StreamOutcome::Accepted { stream, .. }) => {
                let mut channel = Self { socket, stream, frame, record: Vec::new() };
                channel.send(&[BULK])?;
                Ok(channel)
            }
            Ok(StreamOutcome::Refused { reason, .. }) => Err(Trouble::Refused(reason)),
            Err(error) => Err(Trouble::Broken(error.to_string())),
        }
    }

    /// Nothing waits to be read.
    fn is_quiet(&self) -> bool {
        let peek = self.socket.set_nonblocking(true).and_then(|()| self.socket.peek(&mut [0]));
        let quiet = peek.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        quiet && self.socket.set_nonblocking(false).is_ok()
    }

    fn send(&mut self, record: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.stream.sealer.seal(record, &mut self.frame).map_err(io::Error::other)?;
        self.socket.write_all(&self.frame)
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        read_frame(&mut self.socket, &mut self.frame)?;
        self.stream.opener.open(&self.frame, &mut self.record).map_err(io::Error::other)?;
        Ok(&self.record)
    }
}

/// Reads the body of a frame.
fn read_frame(socket: &mut TcpStream, frame: &mut Vec<u8>) -> io::Result<()> {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header)?;
    frame.resize(frame_bytes(header).map_err(io::Error::other)?, 0);
    socket.read_exact(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A firewall that shuts in the middle of a job: the unit waited for ever, at a node that was busy to all appearance.
    #[test]
    fn an_output_that_tcp_does_not_take_is_given_up_and_the_channel_tried_on() {
        let (orders, to_do) = unbounded();
        let health = Arc::new(Mutex::new(Health::default()));
        let bulk = Bulk { orders, health, wanted: Arc::new(()) };
        bulk.set_scheduler("10.0.0.1:7117".parse().unwrap(), false);
        let now = Instant::now();
        lock(&bulk.health).tried(Some("timed out"), now.checked_sub(Duration::from_secs(70)).unwrap(), now);
        let cancel = CancelFlag::new().unwrap();
        let late = cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            late.raise(starfarm_protocol::wire::Cancel::Forced);
        });
        let missed = bulk.put(vec![1; 1_000], &cancel);
        assert!(
            matches!(&missed, Err(FetchError::Refused(why)) if why.contains("open port 7117/tcp")),
            "{missed:?}"
        );
        let asked: Vec<Order> = to_do.try_iter().collect();
        assert!(matches!(asked.last().unwrap().work, Work::Probe));
        assert!(asked.last().unwrap().wanted.upgrade().is_some() && asked[0].wanted.upgrade().is_none());
    }
}
