//! The worker's end of the orders channel: a thread that tells the scheduler what this node has beside tasks, hears what it
//! should have, and sees to that. It calls in each new session, when the doorbell rings, and when there is news of a post.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::orders::{self, Incoming, ORDERS, PostId, Report};
use starfarm_protocol::seal::{Line, NoLine};

pub(crate) use crate::posts::Ways;
use crate::posts::{FromPost, Posts};
use crate::sessions::Identity;

/// So long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A line on which there is nothing more to say is kept for so long.
const KEEP: Duration = Duration::from_secs(2);
/// A call that failed is made again this much later, and each time twice that, up to the longest pause.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// So often it calls while a post of it has no parent.
const ADRIFT: Duration = Duration::from_secs(10);

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
}

impl Orders {
    /// Starts the thread.
    pub(crate) fn start(who: Arc<Identity>, ways: Ways) -> io::Result<Self> {
        let (words, heard) = unbounded();
        let posts = Posts::new(ways, words.clone(), Word::Post);
        let caller = Caller { who, posts, scheduler: None, newest: 0, line: None, wants: None, pause: PAUSE };
        std::thread::Builder::new().name("orders".into()).spawn(move || caller.run(&heard))?;
        Ok(Self { words, bell: 0 })
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
    scheduler: Option<SocketAddr>,
    /// The number of the orders that were heard last.
    newest: u64,
    line: Option<(Line<TcpStream>, Instant)>,
    /// When the next call is to be made, if one is.
    wants: Option<Instant>,
    pause: Duration,
}

impl Caller {
    fn run(mut self, words: &Receiver<Word>) {
        loop {
            let now = Instant::now();
            let hang_up = self.line.as_ref().map(|(_, since)| *since + KEEP);
            let due = [self.wants, self.posts.due(), hang_up].into_iter().flatten().min();
            let wait = due.map_or(PAUSE_MAX, |due| due.saturating_duration_since(now));
            match words.recv_timeout(wait) {
                Ok(word) => std::iter::once(word).chain(words.try_iter()).for_each(|word| self.hear(word)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.posts.start_due();
            let now = Instant::now();
            if self.wants.is_none() && self.scheduler.is_some() && self.posts.is_adrift() {
                self.wants = Some(now + ADRIFT);
            }
            self.line.take_if(|(_, since)| *since + KEEP <= now);
            if self.wants.take_if(|at| *at <= now).is_some() && self.call().is_err() {
                self.line = None;
                self.wants = Some(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Session(scheduler) => {
                (self.scheduler, self.newest, self.line) = (Some(scheduler), 0, None);
            }
            Word::Bell(newest) if newest == self.newest => return,
            Word::Bell(_) => {}
            Word::Post(news) => {
                let before = self.posts.report(self.newest);
                self.posts.hear(news);
                // How far a post is goes with the next call; with what it links must be known.
                if keys(&before) == keys(&self.posts.report(self.newest)) {
                    return;
                }
            }
        }
        (self.wants, self.pause) = (Some(Instant::now()), PAUSE);
    }

    /// Says what there is, hears what there should be, and again where that changed something.
    fn call(&mut self) -> Result<(), NoLine> {
        let Some(scheduler) = self.scheduler else { return Ok(()) };
        loop {
            let report = self.posts.report(self.newest);
            let records = orders::write(&report);
            let line = self.line(scheduler)?;
            records.iter().try_for_each(|record| line.send(record))?;
            let mut incoming = Incoming::default();
            let orders: orders::Orders = loop {
                if let Some(orders) = incoming.take(line.receive()?).map_err(io::Error::other)? {
                    break orders;
                }
            };
            let from = line.io().local_addr()?.ip();
            self.pause = PAUSE;
            self.newest = orders.newest;
            self.posts.want(orders.posts, scheduler, from);
            if keys(&report) == keys(&self.posts.report(self.newest)) {
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

/// The posts of a report, with what each links and where.
fn keys(report: &Report) -> Vec<Keyed<'_>> {
    report.posts.iter().map(|post| (post.post, post.key, post.addresses.as_slice())).collect()
}

type Keyed<'a> = (PostId, Option<PublicKey>, &'a [SocketAddr]);
