//! The worker's end of the orders channel: a thread that tells the scheduler what this node has beside tasks, hears what it
//! should have, and sees to that. It calls in each new session, when the doorbell rings, and when there is news of a post.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use starfarm_overlay_core::calls::Calls;
use starfarm_overlay_core::posts::keys;
use starfarm_protocol::orders::{self, Incoming, ORDERS};
use starfarm_protocol::seal::{Line, NoLine};

pub(crate) use crate::posts::Ways;
use crate::posts::{FromPost, Posts};
use crate::sessions::Identity;

/// So long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A line on which there is nothing more to say is kept for so long.
const KEEP: Duration = Duration::from_secs(2);
/// The longest wait for a word.
const WAIT: Duration = Duration::from_secs(30);

enum Word {
    /// A session is up with a scheduler that may know nothing of this node.
    Session(SocketAddr),
    /// The number of the newest orders.
    Bell(u64),
    Post(FromPost),
}

/// Tells the thread what happens.
pub(crate) struct Orders {
    words: Sender<Word>,
    bell: u64,
    /// The worker ends, and all that it has started with it.
    is_over: Arc<AtomicBool>,
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

impl Orders {
    /// Starts the thread.
    pub(crate) fn start(who: Arc<Identity>, ways: Ways) -> io::Result<Self> {
        let (words, heard) = unbounded();
        let is_over = Arc::<AtomicBool>::default();
        let posts = Posts::new(ways, (words.clone(), Arc::clone(&is_over)), Word::Post);
        let caller = Caller { who, posts, calls: Calls::default(), start: Instant::now(), line: None };
        std::thread::Builder::new().name("orders".into()).spawn(move || caller.run(&heard))?;
        Ok(Self { words, bell: 0, is_over })
    }

    /// A scheduler has welcomed this worker in a new session.
    pub(crate) fn on_session(&self, scheduler: SocketAddr) {
        // Without the thread nobody sees what this node does, and it works all the same.
        let _ = self.words.send(Word::Session(scheduler));
    }

    /// The scheduler's newest orders have this number.
    pub(crate) fn on_bell(&mut self, newest: u64) {
        if newest > 0 && newest != self.bell {
            self.bell = newest;
            let _ = self.words.send(Word::Bell(newest));
        }
    }
}

/// The thread.
struct Caller {
    who: Arc<Identity>,
    posts: Posts<Word>,
    calls: Calls,
    /// Its clock counts from here.
    start: Instant,
    line: Option<(Line<TcpStream>, Instant)>,
}

impl Caller {
    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn run(mut self, words: &Receiver<Word>) {
        loop {
            let hang_up = self.line.as_ref().map(|(_, since)| *since + KEEP);
            let due_us = [self.calls.due_us(), self.posts.core.due_us()].into_iter().flatten().min();
            let due = due_us.map(|due_us| self.start + Duration::from_micros(due_us));
            let due = [due, hang_up].into_iter().flatten().min();
            let wait = due.map_or(WAIT, |due| due.saturating_duration_since(Instant::now()));
            match words.recv_timeout(wait) {
                Ok(word) => std::iter::once(word).chain(words.try_iter()).for_each(|word| self.hear(word)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_us = self.now_us();
            self.posts.start_due(now_us);
            self.line.take_if(|(_, since)| since.elapsed() >= KEEP);
            if self.calls.take_due(self.posts.core.is_adrift(), now_us) && self.call().is_err() {
                self.line = None;
                self.calls.on_failure(self.now_us());
            }
        }
    }

    fn hear(&mut self, word: Word) {
        let now_us = self.now_us();
        match word {
            Word::Session(scheduler) => {
                self.line = None;
                self.calls.on_session(scheduler, now_us);
            }
            Word::Bell(newest) => self.calls.on_bell(newest, now_us),
            Word::Post(news) => {
                // How far a post is goes with the next call; with what it links must be known.
                if self.posts.hear(news, now_us) {
                    self.calls.on_news(now_us);
                }
            }
        }
    }

    /// Says what there is, hears what there should be, and again where that changed something.
    fn call(&mut self) -> Result<(), NoLine> {
        let Some(scheduler) = self.calls.scheduler() else { return Ok(()) };
        loop {
            let report = self.posts.core.report(self.calls.newest());
            let records = orders::write(&report);
            let line = self.line(scheduler)?;
            records.iter().try_for_each(|record| line.send(record))?;
            let mut incoming = Incoming::orders();
            let orders: orders::Orders = loop {
                if let Some(orders) = incoming.take(line.receive()?).map_err(io::Error::other)? {
                    break orders;
                }
            };
            let from = line.io().local_addr()?.ip();
            self.calls.on_orders(orders.newest);
            self.posts.want(orders.posts, (scheduler, from), self.now_us());
            if keys(&report) == keys(&self.posts.core.report(self.calls.newest())) {
                return Ok(());
            }
        }
    }

    fn line(&mut self, scheduler: SocketAddr) -> Result<&mut Line<TcpStream>, NoLine> {
        if self.line.is_none() {
            let socket = TcpStream::connect_timeout(&scheduler, PATIENCE)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.set_nodelay(true)?;
            starfarm_net::keep_alive(&socket);
            let line = Line::open(socket, &self.who.introduction(true), self.who.join.farm, &[ORDERS])?;
            self.line = Some((line, Instant::now()));
        }
        let (line, since) = self.line.as_mut().expect("it was put there");
        *since = Instant::now();
        Ok(line)
    }
}
