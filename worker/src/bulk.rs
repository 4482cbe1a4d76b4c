//! The worker's end of the bulk channel: a thread that does with one sealed TCP stream what the protocol's [`Client`]
//! decides, and the slots that wait for what comes of it. What is kept of the contents lives in `contents`.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use starfarm_protocol::bulk::{
    BULK, Client, Deed, Health, Incoming, Located, PATIENCE_US, Reply, Source, Work,
};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::seal::{Line, NoLine};

use crate::sessions::Identity;
use starfarm_exec::CancelFlag;

/// How often a waiting slot looks whether it is still wanted.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FetchError {
    /// The task that wanted it is not wanted any more.
    Cancelled,
    /// The scheduler has no such content, or does not take it; why, in words.
    Refused(String),
    /// The disk has no room now; in words.
    NoRoom(String),
    /// The whole disk is too small; in words.
    TooLarge(String),
}

impl FetchError {
    /// Why a task cannot be run; none where it is not wanted any more.
    pub(crate) fn refusal(self) -> Option<String> {
        match self {
            Self::Cancelled => None,
            Self::Refused(why) | Self::NoRoom(why) | Self::TooLarge(why) => Some(why),
        }
    }

    /// What an error of the disk means, which `why` tells of.
    pub(crate) fn of_disk(error: &io::Error, why: String) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoRoom(why),
            _ => Self::Refused(why),
        }
    }
}

struct Ticket {
    reply: Sender<Result<Vec<u8>, String>>,
    /// Gone when nobody waits for the order any more.
    wanted: Weak<()>,
}

/// What the bulk thread was asked for. Who drops it wants it no more.
pub(crate) struct Order {
    answer: Receiver<Result<Vec<u8>, String>>,
    _wanted: Arc<()>,
    patience_us: u64,
    /// When its task was seen to be wanted no more.
    trimmed_us: Option<u64>,
    /// What came of it.
    outcome: Option<Result<Vec<u8>, FetchError>>,
}

enum Wish {
    /// See whether the channel can be had at all.
    Probe,
    Order(Work, Ticket),
}

/// Gives orders to the bulk thread.
#[derive(Clone)]
pub(crate) struct Bulk {
    wishes: Sender<Wish>,
    health: Arc<Mutex<Health>>,
    start: Instant,
}

impl Bulk {
    /// Nothing comes of its orders.
    #[cfg(test)]
    pub(crate) fn without_thread() -> Self {
        Self { wishes: unbounded().0, health: Arc::default(), start: Instant::now() }
    }

    /// One that does with each order what `answer` says.
    #[cfg(test)]
    pub(crate) fn answered_by(
        mut answer: impl FnMut(Work) -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Self {
        let (wishes, to_do) = unbounded();
        std::thread::spawn(move || {
            for wish in to_do {
                let Wish::Order(work, ticket) = wish else { continue };
                drop(ticket.reply.send(answer(work)));
            }
        });
        Self { wishes, health: Arc::default(), start: Instant::now() }
    }

    /// Starts the thread. It ends when the last clone of this is gone.
    pub(crate) fn start(who: Arc<Identity>) -> io::Result<Self> {
        let (wishes, to_do) = unbounded();
        let (health, start) = (Arc::new(Mutex::new(Health::default())), Instant::now());
        let hand = Hand { who, health: Arc::clone(&health), client: Client::default(), line: None, start };
        std::thread::Builder::new().name("bulk".into()).spawn(move || hand.run(&to_do))?;
        Ok(Self { wishes, health, start })
    }

    /// A session is up: the scheduler is there. In a new one the channel is tried at once, before any task needs it.
    pub(crate) fn set_scheduler(&self, address: SocketAddr, new: bool) {
        locked(&self.health).set_scheduler(address, us_since(self.start));
        if new {
            self.probe();
        }
    }

    fn probe(&self) {
        // Without the thread there is no worker either.
        let _ = self.wishes.send(Wish::Probe);
    }

    pub(crate) fn heard(&self) {
        locked(&self.health).heard(us_since(self.start));
    }

    /// How often it worked again after it was given up: what was refused meanwhile can be run now.
    pub(crate) fn recoveries(&self) -> u32 {
        locked(&self.health).recoveries()
    }

    /// What a person should read of it now.
    pub(crate) fn take_news(&self) -> Option<String> {
        locked(&self.health).take_news()
    }

    /// Fetches a content and waits for it, while the task is wanted.
    pub(crate) fn get(&self, hash: ContentHash, cancel: &CancelFlag) -> Result<Vec<u8>, FetchError> {
        self.wait(&mut self.begin(Work::Get(Incoming::new(hash))), cancel)
    }

    /// Begins to store a content. Where TCP no longer reaches the scheduler, the unit is computed again.
    pub(crate) fn begin_put(&self, hash: ContentHash, content: Box<dyn Source>) -> Order {
        self.begin(Work::Put { hash, content })
    }

    /// The same for contents that [`Few::add`](starfarm_protocol::bulk::Few::add) put together.
    pub(crate) fn begin_put_all(&self, contents: Vec<u8>) -> Order {
        self.begin(Work::PutAll(contents))
    }

    /// Asks which content has the value of a unit, and waits for it, while the task is wanted.
    pub(crate) fn locate(&self, job: JobId, unit: u128, cancel: &CancelFlag) -> Result<Located, FetchError> {
        let reply = self.wait(&mut self.begin(Work::Locate { job, unit }), cancel)?;
        match Reply::read(&reply) {
            Ok(Reply::Located(located)) => Ok(located),
            _ => unreachable!("the client settles such an order with such a reply"),
        }
    }

    fn begin(&self, work: Work) -> Order {
        let patience_us = work.trimmed_patience_us();
        let ((reply, answer), wanted) = (bounded(1), Arc::new(()));
        let ticket = Ticket { reply, wanted: Arc::downgrade(&wanted) };
        // Without the thread there is no worker either: nobody answers.
        let _ = self.wishes.send(Wish::Order(work, ticket));
        Order { answer, _wanted: wanted, patience_us, trimmed_us: None, outcome: None }
    }

    /// Waits for what comes of an order, while its task is wanted. Asked again, it says the same.
    pub(crate) fn wait(&self, order: &mut Order, cancel: &CancelFlag) -> Result<Vec<u8>, FetchError> {
        while !self.is_settled(order, cancel, LOOK) {}
        order.outcome.clone().unwrap_or(Err(FetchError::Cancelled))
    }

    /// Waits up to `patience` for what comes of an order; whether that is known.
    pub(crate) fn is_settled(&self, order: &mut Order, cancel: &CancelFlag, patience: Duration) -> bool {
        if order.outcome.is_none() {
            order.outcome = match order.answer.recv_timeout(patience) {
                Ok(result) => Some(result.map_err(FetchError::Refused)),
                Err(RecvTimeoutError::Disconnected) => Some(Err(FetchError::Cancelled)),
                Err(RecvTimeoutError::Timeout) => self.why_give_up(order, cancel).map(Err),
            };
        }
        order.outcome.is_some()
    }

    /// Why an order is waited for no longer, if it is not.
    fn why_give_up(&self, order: &mut Order, cancel: &CancelFlag) -> Option<FetchError> {
        let now_us = us_since(self.start);
        if cancel.is_raised() {
            let since_us = *order.trimmed_us.get_or_insert(now_us);
            // What was computed is delivered while it gets through, however long that takes.
            let goes_on = order.patience_us > 0
                && locked(&self.health).is_worth_waiting(since_us, order.patience_us, now_us);
            if !goes_on || cancel.is_forced() {
                return Some(FetchError::Cancelled);
            }
        }
        let why = locked(&self.health).hopeless(now_us)?;
        // The channel is tried on all the same, or nobody would know when it works again.
        self.probe();
        Some(FetchError::Refused(why))
    }
}

/// The thread: it has the socket.
struct Hand {
    who: Arc<Identity>,
    health: Arc<Mutex<Health>>,
    client: Client<Ticket>,
    line: Option<Line<TcpStream>>,
    start: Instant,
}

impl Hand {
    fn run(mut self, wishes: &Receiver<Wish>) {
        loop {
            let now_us = us_since(self.start);
            let deed = self.client.next(now_us, |ticket| ticket.wanted.upgrade().is_some());
            locked(&self.health).moves(self.client.moves_until_us());
            match deed {
                Deed::Rest(until_us) => {
                    match wishes.recv_timeout(Duration::from_micros(until_us.saturating_sub(now_us))) {
                        Ok(Wish::Probe) => self.client.probe(),
                        Ok(Wish::Order(work, ticket)) => self.client.order(work, ticket),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
                Deed::Connect => {
                    let opened = self.connect();
                    self.client.on_opened(opened, us_since(self.start));
                }
                Deed::Look => {
                    let silent = self.line.as_ref().is_some_and(|line| is_silent(line.io()));
                    self.client.on_looked(silent, now_us);
                }
                Deed::Send(record) => {
                    if self.line.as_mut().is_none_or(|line| line.send(&record).is_err()) {
                        self.client.on_broken(us_since(self.start));
                    }
                }
                Deed::Receive(patience_us) => {
                    let received = self.line.as_mut().map(|line| receive(line, patience_us));
                    let now_us = us_since(self.start);
                    match received {
                        Some(Ok(record)) => self.client.on_record(record, now_us),
                        _ => self.client.on_broken(now_us),
                    }
                }
                Deed::Close => self.line = None,
                // It may be that nobody waits for it any more.
                Deed::Settle(ticket, result) => drop(ticket.reply.send(result)),
            }
        }
    }

    fn connect(&mut self) -> Result<(), Option<String>> {
        let address = locked(&self.health).scheduler().ok_or(None)?;
        let begun_us = us_since(self.start);
        let opened = dial(&self.who, address);
        let failed = opened.as_ref().err().map(ToString::to_string);
        locked(&self.health).tried(failed.as_deref(), begun_us, us_since(self.start));
        self.line = Some(opened.map_err(|no_line| match no_line {
            NoLine::Broken(_) => None,
            NoLine::Refused(why) => Some(why),
        })?);
        Ok(())
    }
}

fn locked(health: &Mutex<Health>) -> MutexGuard<'_, Health> {
    health.lock().expect("a panic ends the process")
}

fn dial(who: &Identity, address: SocketAddr) -> Result<Line<TcpStream>, NoLine> {
    let patience = Duration::from_micros(PATIENCE_US);
    let socket = TcpStream::connect_timeout(&address, patience)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_nodelay(true)?;
    starfarm_net::keep_alive(&socket);
    Line::open(socket, &who.introduction(true), who.join.farm, &[BULK])
}

fn receive(line: &mut Line<TcpStream>, patience_us: u64) -> io::Result<&[u8]> {
    line.io().set_read_timeout(Some(Duration::from_micros(patience_us)))?;
    line.receive()
}

fn is_silent(socket: &TcpStream) -> bool {
    let peek = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut [0]));
    let silent = peek.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    silent && socket.set_nonblocking(false).is_ok()
}

fn us_since(start: Instant) -> u64 {
    start.elapsed().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large output needs more than the five seconds that a trimmed task had for it: its unit ran again elsewhere.
    #[test]
    fn an_output_that_gets_through_is_waited_for_after_its_task_was_trimmed() {
        let (wishes, to_do) = unbounded();
        let health = Arc::new(Mutex::new(Health::default()));
        let bulk = Bulk { wishes, health, start: Instant::now() };
        let cancel = CancelFlag::new().unwrap();
        cancel.raise(starfarm_protocol::wire::Cancel::Graceful);
        let theirs = bulk.clone();
        let slow = std::thread::spawn(move || {
            let Ok(Wish::Order(_, ticket)) = to_do.recv() else { panic!("an output is to be stored") };
            // As the thread with the socket tells while parts of it get through.
            for _ in 0..70 {
                locked(&theirs.health).moves(us_since(theirs.start) + PATIENCE_US);
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = ticket.reply.send(Ok(Vec::new()));
        });
        let put = |bulk: &Bulk| {
            let mut order = bulk.begin_put(ContentHash([1; 32]), Box::new(vec![1; 1_000]));
            bulk.wait(&mut order, &cancel)
        };
        assert_eq!(put(&bulk), Ok(Vec::new()));
        slow.join().unwrap();
        // Where nothing gets through it is given up in the end.
        locked(&bulk.health).moves(0);
        let (wishes, _kept) = unbounded();
        let bulk = Bulk { wishes, ..bulk };
        assert_eq!(put(&bulk), Err(FetchError::Cancelled));
    }

    /// A firewall that shuts in the middle of a job: the unit waited for ever, at a node that was busy to all appearance.
    #[test]
    fn an_output_that_tcp_does_not_take_is_given_up_and_the_channel_tried_on() {
        let (wishes, to_do) = unbounded();
        let health = Arc::new(Mutex::new(Health::default()));
        let bulk =
            Bulk { wishes, health, start: Instant::now().checked_sub(Duration::from_secs(70)).unwrap() };
        bulk.set_scheduler("10.0.0.1:7117".parse().unwrap(), false);
        locked(&bulk.health).tried(Some("timed out"), 0, 70_000_000);
        let cancel = CancelFlag::new().unwrap();
        let late = cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            late.raise(starfarm_protocol::wire::Cancel::Forced);
        });
        let mut order = bulk.begin_put(ContentHash([1; 32]), Box::new(vec![1; 1_000]));
        let missed = bulk.wait(&mut order, &cancel);
        drop(order);
        assert!(
            matches!(&missed, Err(FetchError::Refused(why)) if why.contains("open port 7117/tcp")),
            "{missed:?}"
        );
        let asked: Vec<Wish> = to_do.try_iter().collect();
        assert!(
            matches!(&asked[..], [Wish::Order(_, ticket), Wish::Probe] if ticket.wanted.upgrade().is_none())
        );
    }
}
