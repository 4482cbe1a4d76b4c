//! The life of an agent: a process that holds a post, runs its graph, and tells its worker how far it is. It ends when its
//! worker does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use starfarm_agent_core::up::Values;
use starfarm_agent_core::{Order, Runtime, Who, Word};
use starfarm_overlay::{Happening, Reactor, Watch};
use starfarm_overlay_core::member::{self, Deed, Member};
use starfarm_protocol::ids::{Boot, Epoch};
use starfarm_protocol::orders::PostId;
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::{Introduction, Responder, StaticKey, post_name, post_of};

use crate::graph::{self, Doors};
use crate::wishes::Wishes;
use crate::words::{Begin, FromAgent, ToAgent, line};

/// How much nicer than others it is.
const NICE: i32 = 10;
/// Longest pause of the loop.
const PAUSE_US: u64 = 1_000_000;
/// Bytes of a line of the worker, at most.
const LINE_BYTES_MAX: usize = 64 << 20;

const STDIN: Watch = Watch(0);

/// Lives as an agent whose worker is heard by standard input, and told by `output`.
///
/// # Errors
/// The system's.
pub fn serve(output: File) -> io::Result<()> {
    // An agent that is not nice measures all the same.
    let _ = rustix::process::nice(NICE);
    let mut worker = Worker { output, heard: Vec::new() };
    let stdin = io::stdin();
    // What it is for comes first, and is waited for.
    let Some(begin) = worker.first()? else { return Ok(()) };
    rustix::fs::fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
    let reactor = Reactor::new()?;
    reactor.watch(stdin.as_raw_fd(), STDIN)?;
    Agent::new(begin, reactor, worker)?.run()
}

struct Agent {
    start: Instant,
    begin: Begin,
    key: StaticKey,
    reactor: Reactor,
    runtime: Runtime,
    worker: Worker,
    doors: Doors,
    wishes: Wishes,
    member: Member,
}

/// The worker's end of the pipes.
struct Worker {
    output: File,
    heard: Vec<u8>,
}

impl Worker {
    fn tell(&mut self, word: &FromAgent) -> io::Result<()> {
        self.output.write_all(&line(word))
    }

    /// What it says first; none where it has gone.
    fn first(&mut self) -> io::Result<Option<Begin>> {
        let mut byte = [0];
        while !self.heard.ends_with(b"\n") {
            if io::stdin().read(&mut byte)? == 0 {
                return Ok(None);
            }
            self.heard.push(byte[0]);
        }
        match serde_json::from_slice(&std::mem::take(&mut self.heard)) {
            Ok(ToAgent::Begin(begin)) => Ok(Some(begin)),
            Ok(_) => Err(io::Error::other("the worker begins with something else")),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// What it has said since it was asked last; none where it has gone.
    fn hear(&mut self) -> io::Result<Option<Vec<ToAgent>>> {
        let mut piece = [0; 16 * 1024];
        loop {
            match io::stdin().read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.heard.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = self.heard.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        if self.heard.len() - end > LINE_BYTES_MAX {
            return Err(io::Error::other("a line of the worker has no end"));
        }
        let lines: Vec<u8> = self.heard.drain(..end).collect();
        let words = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        words
            .map(|line| serde_json::from_slice(line).map_err(io::Error::other))
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

/// A socket at a port that is free, of those that may be taken.
fn listen(ports: Option<(u16, u16)>) -> io::Result<TcpListener> {
    let at = |port| TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
    let Some((first, last)) = ports else { return at(0) };
    let mut all = (first..=last).map(at);
    let taken = || Err(io::Error::other(format!("no port from {first} to {last} is free")));
    all.find(Result::is_ok).unwrap_or_else(taken)
}

impl Agent {
    fn new(begin: Begin, mut reactor: Reactor, mut worker: Worker) -> io::Result<Self> {
        let random = |error: starfarm_protocol::seal::SealError| io::Error::other(error.to_string());
        let key = StaticKey::generate().map_err(random)?;
        let mut port = None;
        if begin.level > 0 {
            let (listener, mode) = (listen(begin.ports)?, Mode { stream: true, ..Mode::default() });
            port = Some(listener.local_addr()?.port());
            let secret = StaticKey::generate().map_err(random)?.private().0;
            reactor.listen(listener, Responder::new(key.clone(), begin.farm, Epoch(0), mode, secret))?;
        }
        let (mut runtime, doors) = (Runtime::new(&graph::modules()), Doors::default());
        graph::build(&mut runtime, &begin, &doors)
            .map_err(|refusal| io::Error::other(refusal.to_string()))?;
        worker.tell(&FromAgent::Ready { key: key.public(), port })?;
        Ok(Self {
            start: Instant::now(),
            member: Member::new(begin.level),
            begin,
            key,
            reactor,
            runtime,
            worker,
            doors,
            wishes: Wishes::default(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut happenings = Vec::new();
        loop {
            let start = self.start;
            let clock = || start.elapsed().as_micros() as u64;
            let patience = Duration::from_micros(self.due_us().saturating_sub(clock()).min(PAUSE_US));
            self.reactor.turn(patience, clock, &mut happenings)?;
            for happening in std::mem::take(&mut happenings) {
                match happening {
                    Happening::Readable(_) => match self.worker.hear()? {
                        Some(words) => words.into_iter().try_for_each(|word| self.hear(word))?,
                        None => return Ok(()),
                    },
                    other => self.on_link(other)?,
                }
            }
            self.link_up();
            self.measure();
            self.say();
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// When something is to be done.
    fn due_us(&self) -> u64 {
        let timer = self.runtime.next_due_us().and_then(|due_us| self.member.at_us(due_us));
        [timer, self.member.due_us()].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    fn hear(&mut self, word: ToAgent) -> io::Result<()> {
        let ToAgent::Place { order, scheduler } = word else {
            return Err(io::Error::other("the worker begins twice"));
        };
        self.reactor.vouch(member::vouchers(&order));
        let mut deeds = Vec::new();
        self.member.on_place(&mut self.reactor, (order, scheduler), &mut deeds);
        self.perform(deeds)
    }

    /// Something has happened to a link.
    fn on_link(&mut self, happening: Happening) -> io::Result<()> {
        let (now_us, mut deeds) = (self.now_us(), Vec::new());
        let Self { member, reactor, .. } = self;
        match happening {
            Happening::Up(link) => member.on_up(reactor, link, now_us),
            Happening::Called(link, claim, first) => match post_of(&claim.name) {
                Some(post) => member.on_called(reactor, link, (PostId(post), claim.key), &first, now_us),
                None => reactor.close(link),
            },
            Happening::Record(link, record) => member.on_record(reactor, link, &record, now_us, &mut deeds),
            Happening::Gone(link, _) => member.on_gone(link, now_us, &mut deeds),
            Happening::Readable(_) => {}
        }
        self.perform(deeds)
    }

    fn perform(&mut self, deeds: Vec<Deed>) -> io::Result<()> {
        let farm_us = self.member.farm_us(self.now_us()).unwrap_or_default();
        for deed in deeds {
            match deed {
                Deed::Take(child, stream, at_us, triples) => {
                    let values = Values { stream, at_us, triples };
                    self.doors.coming.borrow_mut().push_back((child, values));
                }
                Deed::Forget(post) => self.tell_gather("gone", post.to_string(), farm_us),
                Deed::BeginAnew => self.tell_gather("anew", String::new(), farm_us),
                Deed::Heed => self.heed(farm_us),
                Deed::Tell(state, parent) => self.worker.tell(&FromAgent::State(state, parent))?,
            }
        }
        Ok(())
    }

    fn tell_gather(&mut self, key: &str, value: String, farm_us: u64) {
        if self.begin.level > 0 {
            let word = Word::Set { key: key.to_owned(), value };
            let told = self.runtime.order(Order::Tell(Who::from(graph::GATHER), word), farm_us);
            debug_assert!(told.is_ok(), "the stage is there, and knows the setting");
        }
    }

    /// Calls the next one of the lineage, where there is no parent, or not the right one, and it is time.
    fn link_up(&mut self) {
        let now_us = self.now_us();
        let Some((ancestor, address)) = self.member.next_call(now_us) else { return };
        let post = self.member.post().expect("who calls has a place");
        let who = Introduction {
            key: &self.key,
            scheduler: &ancestor.key,
            join_secret: &ancestor.secret,
            name: &post_name(post.0),
            boot: Boot(0),
            mode: Mode { stream: true, ..Mode::default() },
        };
        // Without a socket it is tried again like without a parent.
        if let Ok(link) = self.reactor.call(address, &who, self.begin.farm, now_us) {
            self.member.on_calling(link, &ancestor);
        }
    }

    /// Does what the table says, by the farm's clock.
    fn heed(&mut self, farm_us: u64) {
        let Some(post) = self.member.post() else { return };
        self.wishes.take(self.member.table().clone());
        // What cannot be had, as where there are too many wishes, is left as it is.
        let _ = self.wishes.apply(&mut self.runtime, (&self.begin, post), &self.doors, farm_us);
    }

    /// Fires what is due, and takes in what children have told.
    fn measure(&mut self) {
        let Some(farm_us) = self.member.farm_us(self.now_us()) else { return };
        if self.runtime.next_due_us().is_some_and(|due_us| due_us <= farm_us) {
            self.runtime.on_time(farm_us);
        }
        if !self.doors.coming.borrow().is_empty() {
            let ready = self.runtime.order(Order::Tell(Who::from(graph::DOWN), Word::Ready), farm_us);
            debug_assert!(ready.is_ok(), "who has children has the stage");
            self.doors.coming.borrow_mut().clear();
        }
        let leaving = Rc::clone(&self.doors.leaving);
        for Values { stream, at_us, triples } in leaving.borrow_mut().drain(..) {
            self.member.put(stream, at_us, &triples);
        }
    }

    /// Sends what waits, as far as the link takes it, and how this post stands.
    fn say(&mut self) {
        let now_us = self.now_us();
        self.member.say(&mut self.reactor, self.doors.late.get(), now_us);
    }
}
