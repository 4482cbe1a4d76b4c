//! `starfarm bench tree`: how long a tree of agents takes to form, and to say and sum up something together. All of it is real:
//! processes as workers start them, handshakes, sealed links. This process is the front, and all workers at once.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use starfarm_agent::words::{Begin, FromAgent, ToAgent};
use starfarm_overlay::{Children, Happening, Reactor, Said};
use starfarm_overlay_core::parts::Parts;
use starfarm_protocol::ids::{Epoch, FarmId, PublicKey};
use starfarm_protocol::link::Part;
use starfarm_protocol::orders::{Ancestor, Descendant, FRONT_LEVEL, PostId, PostKind, PostOrder, PostState};
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::{PairKey, Responder, StaticKey, Vouchers, post_of};
use starfarm_worker::AgentProcess;

use crate::cli::{Shape, TreeBench};
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::interrupt::Signals;
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};

/// Where nothing happens for so long, something has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause of the loop.
const LOOK: Duration = Duration::from_millis(50);
/// Rounds on their way at one time, where they go side by side.
const SIDE_BY_SIDE: usize = 64;
/// What back ends say.
const VALUE: u64 = 1_000_003;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) shape: String,
    /// Processes, with the front.
    pub(crate) posts: usize,
    /// From the start of the first process until the last one is linked with its parent.
    pub(crate) form_ms: f64,
    /// Median of the time from a broadcast until the sum of all back ends is there.
    pub(crate) round_trip_ms: f64,
    /// Such rounds a second, with several on their way.
    pub(crate) reductions_per_s: f64,
}

pub(crate) fn run(context: &mut Context, bench: &TreeBench) -> Result<(), Failure> {
    let report = measure(bench, &Signals::count()?)?;
    context.printer.document(&report)
}

fn measure(bench: &TreeBench, signals: &Signals) -> Result<Report, Failure> {
    let start = Instant::now();
    let mut tree = Tree::start(&bench.shape, signals)?;
    tree.form()?;
    let form = start.elapsed();
    let mut times = Vec::new();
    for round in 0..bench.rounds {
        let begun = Instant::now();
        tree.rounds(round, 1, 1)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let (begun, many) = (Instant::now(), bench.rounds.saturating_mul(10));
    tree.rounds(bench.rounds, many, SIDE_BY_SIDE)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Report {
        shape: words(&bench.shape),
        posts: tree.posts.len() + 1,
        form_ms: ms(form),
        round_trip_ms: ms(times[times.len() / 2]),
        reductions_per_s: f64::from(many) / begun.elapsed().as_secs_f64(),
    })
}

fn words(shape: &Shape) -> String {
    let below = shape.0.iter().map(|level| format!("x{level}"));
    format!("1{}", below.collect::<String>())
}

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::UnitsFailed, format!("the tree cannot be measured: {what}"))
}

/// A process of the tree.
struct Post {
    kind: PostKind,
    level: u8,
    /// None: the front.
    parent: Option<PostId>,
    process: AgentProcess,
    key: Option<PublicKey>,
    port: Option<u16>,
    is_joined: bool,
}

/// The tree, and this process's end of it: the front's links, and what workers say to agents.
struct Tree<'a> {
    signals: &'a Signals,
    start: Instant,
    /// When something has happened last.
    heard: Instant,
    key: StaticKey,
    pairs: PairKey,
    front: SocketAddr,
    reactor: Reactor,
    children: Children,
    parts: Parts,
    posts: BTreeMap<PostId, Post>,
    told: Receiver<(PostId, Option<FromAgent>)>,
}

impl<'a> Tree<'a> {
    /// Starts the processes, those nearest to the front first.
    fn start(shape: &Shape, signals: &'a Signals) -> Result<Self, Failure> {
        let (farm, mode) = (FarmId([0x5F; 16]), Mode { stream: true, ..Mode::default() });
        let key = StaticKey::generate().map_err(failed)?;
        let secret = StaticKey::generate().map_err(failed)?.private().0;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let front = listener.local_addr().map_err(failed)?;
        let mut reactor = Reactor::new().map_err(failed)?;
        let responder = Responder::new(key.clone(), farm, Epoch(0), mode, secret);
        reactor.listen(listener, responder).map_err(failed)?;
        let ((tell, told), mut posts) = (channel(), BTreeMap::new());
        let (mut first, mut first_above) = (1, 0);
        for (depth, &count) in shape.0.iter().enumerate() {
            let level = (shape.0.len() - 1 - depth) as u8;
            let above = if depth == 0 { 1 } else { shape.0[depth - 1] };
            for n in 0..count {
                let id = PostId((first + n) as u64);
                let parent = (depth > 0).then(|| PostId((first_above + n * above / count) as u64));
                let kind = match level {
                    0 => PostKind::Be,
                    1 => PostKind::Ibe,
                    _ => PostKind::Cp,
                };
                let (tell, waker) = (tell.clone(), reactor.waker());
                let say = move |word| tell.send((id, word)).is_ok() && waker.wake().is_ok();
                // No unit runs.
                let begin = Begin::new(farm, kind, level, "/dev/null".into());
                let process = AgentProcess::start(begin, say).map_err(failed)?;
                let (key, port, is_joined) = (None, None, false);
                posts.insert(id, Post { kind, level, parent, process, key, port, is_joined });
            }
            (first, first_above) = (first + count, first);
        }
        let (start, heard, pairs) = (Instant::now(), Instant::now(), PairKey::of(&key));
        let (children, parts) = (Children::of(FRONT_LEVEL), Parts::default());
        Ok(Self { signals, start, heard, key, pairs, front, reactor, children, parts, posts, told })
    }

    /// Until all have joined: each is told its place once its parent has.
    fn form(&mut self) -> Result<(), Failure> {
        let mut placed = false;
        while self.posts.values().any(|post| !post.is_joined) {
            self.turn()?;
            let heard: Vec<_> = self.told.try_iter().collect();
            for (id, word) in heard {
                let post = self.posts.get_mut(&id).expect("who says it was started");
                match word {
                    Some(FromAgent::Ready { key, port }) => (post.key, post.port) = (Some(key), port),
                    Some(FromAgent::State(PostState::Joined, _)) => {
                        post.is_joined = true;
                        self.place_below(Some(id))?;
                    }
                    Some(FromAgent::State(..)) => {}
                    None => return Err(failed(format!("the process of post {id} has ended"))),
                }
            }
            if !placed && self.posts.values().all(|post| post.key.is_some()) {
                placed = true;
                let mut vouchers = Vouchers::default();
                for below in self.below(None) {
                    vouchers.add(below.secret, below.post.0, below.key);
                }
                self.reactor.vouch(vouchers);
                self.place_below(None)?;
            }
        }
        Ok(())
    }

    /// Tells the children of a post where they are to be.
    fn place_below(&mut self, parent: Option<PostId>) -> Result<(), Failure> {
        let own = self.posts.iter().filter(|(_, post)| post.parent == parent);
        for id in own.map(|(id, _)| *id).collect::<Vec<_>>() {
            let (lineage, below) = (self.lineage(id), self.below(Some(id)));
            let post = self.posts.get_mut(&id).expect("it is one of these");
            let (kind, level) = (post.kind, post.level);
            let order = PostOrder { lineage, below, ..PostOrder::new(id, (kind, level)) };
            post.process.tell(ToAgent::Place { order, scheduler: self.front }).map_err(failed)?;
        }
        Ok(())
    }

    /// Those above a post, its parent first.
    fn lineage(&self, id: PostId) -> Vec<Ancestor> {
        let (mut lineage, mut at) = (Vec::new(), self.posts[&id].parent);
        let own = self.key_of(Some(id));
        loop {
            let key = self.key_of(at);
            let port = at.and_then(|post| self.posts[&post].port);
            let addresses = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            let post = at.unwrap_or(PostId::FRONT);
            let secret = self.pairs.secret(&own, &key);
            lineage.push(Ancestor { post, addresses: addresses.into_iter().collect(), key, secret });
            let Some(above) = at else { return lineage };
            at = self.posts[&above].parent;
        }
    }

    /// The children of a post: nobody else links with it here.
    fn below(&self, parent: Option<PostId>) -> Vec<Descendant> {
        let own = self.key_of(parent);
        let children = self.posts.iter().filter(|(_, post)| post.parent == parent);
        let of = |(id, post): (&PostId, &Post)| {
            let key = self.key_of(Some(*id));
            let secret = self.pairs.secret(&key, &own);
            let (level, parent) = (post.level, parent.unwrap_or(PostId::FRONT));
            Descendant { post: *id, parent, level, key, secret }
        };
        children.map(of).collect()
    }

    fn key_of(&self, post: Option<PostId>) -> PublicKey {
        let key = |post: PostId| self.posts[&post].key.expect("places are told once all keys are there");
        post.map_or_else(|| self.key.public(), key)
    }

    /// Waits for something, and does what the front does: the sums that have come.
    fn turn(&mut self) -> Result<Vec<Part>, Failure> {
        self.signals.check()?;
        if self.heard.elapsed() > PATIENCE {
            return Err(failed(format!("nothing has happened for {} s", PATIENCE.as_secs())));
        }
        let (start, mut happenings, mut sums) = (self.start, Vec::new(), Vec::new());
        let clock = || start.elapsed().as_micros() as u64;
        self.reactor.turn(LOOK, clock, &mut happenings).map_err(failed)?;
        let now_us = clock();
        if !happenings.is_empty() {
            self.heard = Instant::now();
        }
        for happening in happenings {
            match happening {
                Happening::Called(link, claim, first) => {
                    let Some(post) = post_of(&claim.name) else { continue };
                    let who = (PostId(post), claim.key);
                    self.children.arrive(&mut self.reactor, link, who, &first, (now_us, now_us));
                }
                Happening::Record(link, record) => {
                    if let Said::Part(post, part) = self.children.hear(&mut self.reactor, link, &record) {
                        sums.extend(self.parts.up(post, &part));
                    }
                }
                Happening::Gone(..) => return Err(failed("a link has ended")),
                Happening::Up(_) | Happening::Readable(_) => {}
            }
        }
        Ok(sums)
    }

    /// Has so many rounds done, the first of that number, so many at a time.
    fn rounds(&mut self, first: u32, count: u32, at_once: usize) -> Result<(), Failure> {
        let back_ends = self.posts.values().filter(|post| post.level == 0).count();
        let (mut next, mut ended) = (first, 0);
        while ended < count {
            while next - first < count && ((next - first - ended) as usize) < at_once {
                let now_us = self.start.elapsed().as_micros() as u64;
                let sum = self.parts.down(next, None, self.children.posts());
                assert!(sum.is_none(), "the front has children");
                self.children.begin(&mut self.reactor, next, VALUE, now_us);
                next += 1;
            }
            for sum in self.turn()? {
                if (sum.from as usize, sum.value) != (back_ends, back_ends as u64 * VALUE) {
                    return Err(failed(format!("a sum of {} back ends of {back_ends}", sum.from)));
                }
                ended += 1;
            }
        }
        Ok(())
    }
}

impl Document for Report {
    const NAME: &'static str = "bench-tree";

    fn table(&self, style: Style) -> String {
        facts(
            &[
                ("shape", Cell::new(self.shape.clone())),
                ("processes", Cell::new(self.posts.to_string())),
                ("formed in", Cell::new(format!("{:.1} ms", self.form_ms))),
                ("round trip", Cell::new(format!("{:.3} ms", self.round_trip_ms))),
                ("reductions per second", Cell::new(format!("{:.0}", self.reductions_per_s))),
            ],
            style,
        )
    }

    fn quiet(&self) -> String {
        self.form_ms.to_string()
    }
}
