//! The life of an agent: a process that holds a post, runs its graph, and tells its worker how far it is. It ends when its
//! worker does.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use starfarm_agent_core::Runtime;
use starfarm_overlay::{Happening, LinkId, Reactor, Watch};
use starfarm_overlay_core::lanes::Lane;
use starfarm_protocol::ids::{Boot, FarmId};
use starfarm_protocol::link::{Data, LINK, Message, Stream};
use starfarm_protocol::orders::{Ancestor, PostOrder, PostState};
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::{Introduction, StaticKey, post_name};

use crate::graph;
use crate::up::Leaving;
use crate::words::{FromAgent, ToAgent, line};

/// How much nicer than others it is.
const NICE: i32 = 10;
/// Longest pause of the loop.
const PAUSE_US: u64 = 1_000_000;
/// After a link was lost it is tried again this soon, and each time half as often, up to the longest pause.
const RETRY_US: u64 = 100_000;
const RETRY_US_MAX: u64 = 5_000_000;
/// Bytes of a line of the worker, at most.
const LINE_BYTES_MAX: usize = 1 << 20;

const STDIN: Watch = Watch(0);

/// Lives as an agent whose worker is heard by standard input, and told by `output`.
///
/// # Errors
/// The system's.
pub fn serve(output: File) -> io::Result<()> {
    // An agent that is not nice measures all the same.
    let _ = rustix::process::nice(NICE);
    let stdin = io::stdin();
    rustix::fs::fcntl_setfl(&stdin, OFlags::NONBLOCK)?;
    let reactor = Reactor::new()?;
    reactor.watch(stdin.as_raw_fd(), STDIN)?;
    let key = StaticKey::generate().map_err(|error| io::Error::other(error.to_string()))?;
    let leaving = Leaving::default();
    let (start, link) = (Instant::now(), None);
    let (runtime, worker) = (Runtime::new(&graph::modules()), Worker { output, heard: Vec::new() });
    let sent = [0; Stream::ALL.len()];
    let mut agent = Agent {
        start,
        key,
        reactor,
        runtime,
        worker,
        leaving,
        begun: None,
        place: None,
        link,
        ahead_us: 0,
        sent,
    };
    agent.worker.tell(&FromAgent::Key(agent.key.public()))?;
    agent.run()
}

struct Agent {
    start: Instant,
    key: StaticKey,
    reactor: Reactor,
    runtime: Runtime,
    worker: Worker,
    leaving: Leaving,
    begun: Option<(FarmId, PathBuf)>,
    place: Option<Place>,
    link: Option<Up>,
    /// So far the farm's clock is ahead of this process's, in microseconds.
    ahead_us: u64,
    /// Messages of each stream so far.
    sent: [u32; Stream::ALL.len()],
}

/// Where the post is in the tree.
struct Place {
    order: PostOrder,
    scheduler: SocketAddr,
    /// Who of the lineage, and at which address, is tried next.
    next: usize,
    retry_us: u64,
    again_us: u64,
}

/// The link to the parent.
struct Up {
    link: LinkId,
    joined: bool,
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

impl Agent {
    fn run(&mut self) -> io::Result<()> {
        let mut happenings = Vec::new();
        loop {
            let start = self.start;
            let clock = || start.elapsed().as_micros() as u64;
            let patience = Duration::from_micros(self.due_us().saturating_sub(clock()).min(PAUSE_US));
            self.reactor.turn(patience, clock, &mut happenings)?;
            for happening in happenings.drain(..).collect::<VecDeque<_>>() {
                match happening {
                    Happening::Readable(_) => match self.worker.hear()? {
                        Some(words) => words.into_iter().try_for_each(|word| self.hear(word))?,
                        None => return Ok(()),
                    },
                    Happening::Up(_) => {}
                    Happening::Record(link, record) => self.on_record(link, &record)?,
                    Happening::Gone(link, _) => self.on_gone(link)?,
                }
            }
            self.link_up()?;
            self.measure();
        }
    }

    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn farm_us(&self) -> u64 {
        self.now_us() + self.ahead_us
    }

    fn is_joined(&self) -> bool {
        self.link.as_ref().is_some_and(|up| up.joined)
    }

    /// When something is to be done.
    fn due_us(&self) -> u64 {
        let timer = self.runtime.next_due_us().map(|due_us| due_us.saturating_sub(self.ahead_us));
        let retry = self.place.as_ref().filter(|_| self.link.is_none()).map(|place| place.again_us);
        timer.into_iter().filter(|_| self.is_joined()).chain(retry).min().unwrap_or(u64::MAX)
    }

    fn hear(&mut self, word: ToAgent) -> io::Result<()> {
        match word {
            ToAgent::Begin { farm, running } => {
                graph::build(&mut self.runtime, &running, farm, &self.leaving)
                    .map_err(|refusal| io::Error::other(refusal.to_string()))?;
                self.begun = Some((farm, running));
            }
            ToAgent::Place { order, scheduler } => {
                // The link to where it was before ends: it may be to somebody who is no parent of it any more.
                self.link.take().into_iter().for_each(|up| self.reactor.close(up.link));
                self.place = Some(Place { order, scheduler, next: 0, retry_us: RETRY_US, again_us: 0 });
                self.worker.tell(&FromAgent::State(PostState::Linking))?;
            }
        }
        Ok(())
    }

    /// Calls the next one of the lineage, where there is no link and it is time.
    fn link_up(&mut self) -> io::Result<()> {
        let now_us = self.now_us();
        let (Some((farm, _)), Some(place), None) = (&self.begun, &mut self.place, &self.link) else {
            return Ok(());
        };
        if place.again_us > now_us {
            return Ok(());
        }
        place.again_us = now_us + place.retry_us;
        place.retry_us = (place.retry_us * 2).min(RETRY_US_MAX);
        let (post, mut first) = (place.order.post, vec![LINK]);
        let Some((ancestor, address)) = place.next() else { return Ok(()) };
        Message::Attach { post }.write(&mut first);
        let who = Introduction {
            key: &self.key,
            scheduler: &ancestor.key,
            join_secret: &ancestor.secret,
            name: &post_name(post.0),
            boot: Boot(0),
            mode: Mode { stream: true, ..Mode::default() },
        };
        // Without a socket it is tried again like without a parent.
        let link = self.reactor.call(address, &who, *farm, first, now_us).ok();
        self.link = link.map(|link| Up { link, joined: false });
        Ok(())
    }

    fn on_record(&mut self, link: LinkId, record: &[u8]) -> io::Result<()> {
        let now_us = self.now_us();
        let Some(up) = self.link.as_mut().filter(|up| up.link == link) else { return Ok(()) };
        match Message::read(record) {
            Ok(Some(Message::Welcome { now_us: farm_us })) if !up.joined => {
                up.joined = true;
                self.ahead_us = farm_us.saturating_sub(now_us);
                if let Some(place) = &mut self.place {
                    place.retry_us = RETRY_US;
                }
                // The clock may be another scheduler's.
                graph::set_timers(&mut self.runtime, farm_us)
                    .map_err(|why| io::Error::other(why.to_string()))?;
                self.worker.tell(&FromAgent::State(PostState::Joined))
            }
            Ok(Some(Message::Beat) | None) => Ok(()),
            // A refusal, or what no parent says.
            _ => {
                self.reactor.close(link);
                self.on_gone(link)
            }
        }
    }

    fn on_gone(&mut self, link: LinkId) -> io::Result<()> {
        let Some(up) = self.link.take_if(|up| up.link == link) else { return Ok(()) };
        if up.joined {
            self.worker.tell(&FromAgent::State(PostState::Orphan))?;
        }
        Ok(())
    }

    /// Fires what is due, and sends what came of it.
    fn measure(&mut self) {
        if !self.is_joined() {
            return;
        }
        let farm_us = self.farm_us();
        if self.runtime.next_due_us().is_some_and(|due_us| due_us <= farm_us) {
            self.runtime.on_time(farm_us);
        }
        let now_us = self.now_us();
        let leaving = Rc::clone(&self.leaving);
        for (stream, triples) in leaving.borrow_mut().drain(..) {
            let sequence = &mut self.sent[stream as usize - 1];
            let (Some(up), Some(place)) = (&self.link, &self.place) else { return };
            let data = Data { stream, origin: place.order.post, sequence: *sequence, triples: &triples };
            *sequence = sequence.wrapping_add(1);
            self.reactor.send(up.link, Lane::Data, &Message::Data(data), now_us);
        }
    }
}

impl Place {
    /// Whom to call next, and where: each of the lineage by each of its addresses, and again from the start.
    fn next(&mut self) -> Option<(&Ancestor, SocketAddr)> {
        let scheduler = self.scheduler;
        let all = self.order.lineage.iter().flat_map(|ancestor| {
            let front = ancestor.addresses.is_empty().then_some(scheduler);
            ancestor.addresses.iter().copied().chain(front).map(move |address| (ancestor, address))
        });
        let (all, nth): (Vec<_>, _) = (all.collect(), self.next);
        self.next = nth.wrapping_add(1);
        (!all.is_empty()).then(|| all[nth % all.len()])
    }
}
