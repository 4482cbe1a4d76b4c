//! The posts of this node: agents, each a child process, started again when it ends. Which there are to be, and where in the
//! tree, comes in from `orders`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use starfarm_agent::words::{Begin, FromAgent, ToAgent};
use starfarm_protocol::ids::{FarmId, PublicKey};
use starfarm_protocol::orders::{Host, PostId, PostKind, PostOrder, PostReport, PostState, Report};

use crate::agent::AgentProcess;
use crate::metrics::Metrics;
use crate::options::{Agents, Options};
use crate::state::State;

/// After an agent ended the next one comes so much later, and each time twice that, up to the longest pause.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// An agent that lived for so long has not ended because of its start.
const LASTS: Duration = Duration::from_secs(60);

/// What an agent's thread tells: of which post, of which of its processes, and what; nothing at its end.
pub(crate) struct FromPost(pub(crate) PostId, pub(crate) u64, pub(crate) Option<FromAgent>);

/// What holds for all posts of this node.
pub(crate) struct Ways {
    pub(crate) farm: FarmId,
    pub(crate) running: PathBuf,
    /// Others may link with its posts, at these ports if they are named.
    pub(crate) links: bool,
    pub(crate) ports: Option<(u16, u16)>,
    /// Where programs tell figures of their own.
    pub(crate) metrics: PathBuf,
    /// The node's name.
    pub(crate) node: String,
    pub(crate) agents: Agents,
}

impl Ways {
    pub(crate) fn of(options: &Options, agents: Agents, (farm, node): (FarmId, &str), state: &State) -> Self {
        Self {
            farm,
            running: state.farm_path("running"),
            metrics: Metrics::folder(&state.path("")),
            links: !options.no_peers,
            ports: options.link_ports,
            node: node.to_owned(),
            agents,
        }
    }
}

/// All posts.
pub(crate) struct Posts<T> {
    ways: Ways,
    host: Host,
    /// Where others reach this node: what it calls the scheduler from.
    address: Option<IpAddr>,
    posts: BTreeMap<PostId, Post>,
    started: u64,
    tell: Sender<T>,
    of_post: fn(FromPost) -> T,
}

struct Post {
    order: PostOrder,
    /// The place that the process was told.
    placed: Option<(PostOrder, SocketAddr)>,
    process: Option<Process>,
    /// When the next process is started, if there is none, and the pause after that.
    again_at: Instant,
    pause: Duration,
}

struct Process {
    number: u64,
    agent: AgentProcess,
    since: Instant,
    key: Option<PublicKey>,
    port: Option<u16>,
    state: PostState,
    parent: Option<PostId>,
}

impl<T: Send + 'static> Posts<T> {
    /// None so far. What they say is told as `of_post` makes of it.
    pub(crate) fn new(ways: Ways, tell: Sender<T>, of_post: fn(FromPost) -> T) -> Self {
        let (posts, host) = (BTreeMap::new(), starfarm_agent::this_host());
        Self { ways, host, address: None, posts, started: 0, tell, of_post }
    }

    /// These are to be there and no others. The scheduler is there, and is called from this address.
    pub(crate) fn want(&mut self, orders: Vec<PostOrder>, scheduler: SocketAddr, from: IpAddr) {
        self.address = Some(from);
        self.posts.retain(|post, _| orders.iter().any(|order| order.post == *post));
        for order in orders {
            match self.posts.get_mut(&order.post) {
                Some(post) => post.order = order,
                None => drop(self.posts.insert(order.post, Post::new(order))),
            }
        }
        self.start_due();
        self.posts.values_mut().for_each(|post| post.place(scheduler));
    }

    /// Starts the processes whose time has come.
    pub(crate) fn start_due(&mut self) {
        let Self { ways, posts, started, tell, of_post, .. } = self;
        for (id, post) in posts.iter_mut().filter(|(_, post)| post.process.is_none()) {
            if post.again_at > Instant::now() {
                continue;
            }
            *started += 1;
            (post.again_at, post.placed) = (Instant::now() + post.pause, None);
            post.pause = (post.pause * 2).min(PAUSE_MAX);
            let (id, number, tell, of_post) = (*id, *started, tell.clone(), *of_post);
            let say = move |word| tell.send(of_post(FromPost(id, number, word))).is_ok();
            let begin = Begin {
                farm: ways.farm,
                kind: post.order.kind,
                level: post.order.level,
                running: ways.running.clone(),
                ports: ways.ports,
                metrics: Some(ways.metrics.clone()).filter(|_| post.order.kind == PostKind::Be),
                node: ways.node.clone(),
                on_alarm: ways.agents.on_alarm.clone().filter(|_| post.order.kind == PostKind::Ap),
                drains: ways.agents.drains,
                file: ways.agents.file.clone().filter(|_| post.order.kind == PostKind::Be),
                cpus: ways.agents.cpus.clone(),
            };
            // One that cannot be started is tried again like one that ended at once.
            post.process = Process::start(number, begin, say).ok();
        }
    }

    /// When [`Posts::start_due`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.posts.values().filter(|post| post.process.is_none()).map(|post| post.again_at).min()
    }

    /// A post that runs has no parent: where it is to be may have changed unheard.
    pub(crate) fn is_adrift(&self) -> bool {
        let mut processes = self.posts.values().filter_map(|post| post.process.as_ref());
        processes.any(|process| process.state != PostState::Joined)
    }

    /// Something was told of a post.
    pub(crate) fn hear(&mut self, FromPost(id, number, word): FromPost) {
        let Some(post) = self.posts.get_mut(&id) else { return };
        let Some(process) = post.process.as_mut().filter(|process| process.number == number) else { return };
        match word {
            Some(FromAgent::Ready { key, port }) => {
                (process.key, process.port, process.state) = (Some(key), port, PostState::Reported);
            }
            Some(FromAgent::State(state, parent)) => (process.state, process.parent) = (state, parent),
            None => {
                if process.since.elapsed() >= LASTS {
                    post.pause = PAUSE;
                }
                post.again_at = Instant::now() + post.pause;
                post.process = None;
            }
        }
    }

    /// What the scheduler is told.
    pub(crate) fn report(&self, heard: u64) -> Report {
        let address = |process: &Process| Some(SocketAddr::new(self.address?, process.port?));
        let of = |(id, post): (&PostId, &Post)| {
            let process = post.process.as_ref();
            PostReport {
                post: *id,
                kind: post.order.kind,
                level: post.order.level,
                state: process.map_or(PostState::Starting, |process| process.state),
                parent: process.and_then(|process| process.parent),
                key: process.and_then(|process| process.key),
                addresses: process.and_then(address).filter(|_| self.ways.links).into_iter().collect(),
                pid: process.map(|process| process.agent.pid()),
            }
        };
        let posts = self.posts.iter().map(of).collect();
        let (host, links, reacts) = (self.host.clone(), self.ways.links, self.ways.agents.on_alarm.is_some());
        Report { heard, host, links, reacts, posts }
    }
}

impl Post {
    fn new(order: PostOrder) -> Self {
        Self { order, placed: None, process: None, again_at: Instant::now(), pause: PAUSE }
    }

    /// Tells the process its place, where it has another or none.
    fn place(&mut self, scheduler: SocketAddr) {
        let Some(process) = &mut self.process else { return };
        let place = (self.order.clone(), scheduler);
        if self.order.lineage.is_empty() || process.key.is_none() || self.placed.as_ref() == Some(&place) {
            return;
        }
        let word = ToAgent::Place { order: place.0.clone(), scheduler };
        // One that does not hear it has ended: it is told after its next start.
        if process.agent.tell(&word).is_ok() {
            self.placed = Some(place);
        }
    }
}

impl Process {
    fn start(
        number: u64,
        begin: Begin,
        say: impl Fn(Option<FromAgent>) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let agent = AgentProcess::start(begin, say)?;
        let (since, state) = (Instant::now(), PostState::Starting);
        Ok(Self { number, agent, since, key: None, port: None, state, parent: None })
    }
}
