//! The posts of this node: agents, each a child process, started again when it ends. Which there are to be, and where in the
//! tree, comes in from `orders`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::Sender;
use starfarm_agent::words::{Begin, FromAgent, ToAgent};
use starfarm_overlay_core::posts::{self, Deed, News, ProcessId};
use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::orders::{PostKind, PostOrder};

use crate::agent::AgentProcess;
use crate::metrics::Metrics;
use crate::options::{Agents, Options};
use crate::state::State;

/// What an agent's thread tells, of which process.
pub(crate) struct FromPost(pub(crate) ProcessId, pub(crate) News);

/// What holds for all posts of this node.
pub(crate) struct Ways {
    pub(crate) farm: FarmId,
    pub(crate) running: PathBuf,
    /// Others may link with its posts, at these ports if they are named.
    pub(crate) links: bool,
    pub(crate) ports: Option<(u16, u16)>,
    /// Where programs tell figures of their own; none where no program runs.
    pub(crate) metrics: Option<PathBuf>,
    /// The node's name.
    pub(crate) node: String,
    pub(crate) agents: Agents,
}

impl Ways {
    pub(crate) fn of(options: &Options, agents: Agents, (farm, node): (FarmId, &str), state: &State) -> Self {
        Self {
            farm,
            running: state.farm_path("running"),
            metrics: (options.slots() > 0).then(|| Metrics::folder(&state.path(""))),
            links: !options.no_peers,
            ports: options.link_ports,
            node: node.to_owned(),
            agents,
        }
    }
}

impl Ways {
    /// What an agent of that kind and level is told first: what touches the node is for those of the farm's tree alone.
    fn begin(&self, kind: PostKind, level: u8, job: Option<JobId>) -> Begin {
        let is = |of| kind == of && job.is_none();
        Begin {
            farm: self.farm,
            kind,
            level,
            job,
            running: self.running.clone(),
            ports: self.ports,
            metrics: self.metrics.clone().filter(|_| is(PostKind::Be)),
            node: self.node.clone(),
            on_alarm: self.agents.on_alarm.clone().filter(|_| is(PostKind::Ap)),
            drains: self.agents.drains,
            file: self.agents.file.clone().filter(|_| is(PostKind::Be)),
            cpus: self.agents.cpus.clone(),
        }
    }
}

/// What an agent has said; nothing at its end.
fn news(word: Option<FromAgent>) -> News {
    match word {
        Some(FromAgent::Ready { key, port }) => News::Ready(key, port),
        Some(FromAgent::State(state, parent)) => News::State(state, parent),
        None => News::Ended,
    }
}

/// All posts.
pub(crate) struct Posts<T> {
    ways: Ways,
    pub(crate) core: posts::Posts,
    /// Those that run.
    agents: BTreeMap<ProcessId, AgentProcess>,
    tell: Sender<T>,
    /// Nobody wants to hear of them any more.
    is_over: Arc<AtomicBool>,
    of_post: fn(FromPost) -> T,
}

impl<T: Send + 'static> Posts<T> {
    /// None so far. What they say is told as `of_post` makes of it.
    pub(crate) fn new(
        ways: Ways,
        (tell, is_over): (Sender<T>, Arc<AtomicBool>),
        of_post: fn(FromPost) -> T,
    ) -> Self {
        let reacts = ways.agents.on_alarm.is_some();
        let core = posts::Posts::new(starfarm_agent::this_host(), (ways.links, reacts));
        Self { ways, core, agents: BTreeMap::new(), tell, is_over, of_post }
    }

    /// These are to be there and no others. The scheduler is there, and is called from this address.
    pub(crate) fn want(&mut self, orders: Vec<PostOrder>, ways: (SocketAddr, IpAddr), now_us: u64) {
        let mut deeds = Vec::new();
        self.core.want(orders, ways, now_us, &mut deeds);
        self.perform(deeds);
    }

    /// Starts the processes whose time has come.
    pub(crate) fn start_due(&mut self, now_us: u64) {
        let mut deeds = Vec::new();
        self.core.start_due(now_us, &mut deeds);
        self.perform(deeds);
    }

    /// Something was told of a post; whether the scheduler must know.
    pub(crate) fn hear(&mut self, FromPost(id, news): FromPost, now_us: u64) -> bool {
        if news == News::Ended {
            self.agents.remove(&id);
        }
        self.core.hear(id, news, now_us)
    }

    fn perform(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Start(_, id, (kind, level), job) => {
                    let (tell, of_post) = (self.tell.clone(), self.of_post);
                    let is_over = Arc::clone(&self.is_over);
                    let say = move |word| {
                        !is_over.load(Ordering::Acquire)
                            && tell.send(of_post(FromPost(id, news(word)))).is_ok()
                    };
                    let started = AgentProcess::start(self.ways.begin(kind, level, job), say).ok();
                    self.core.on_started(id, started.as_ref().map(AgentProcess::pid));
                    self.agents.extend(started.map(|agent| (id, agent)));
                }
                Deed::Close(id) => drop(self.agents.get_mut(&id).map(|agent| agent.tell(ToAgent::Close))),
                Deed::End(id) => drop(self.agents.remove(&id)),
                Deed::Place(id, order, scheduler) => {
                    let word = ToAgent::Place { order: *order, scheduler };
                    // One that does not hear it has ended, and is told after its next start.
                    let _ = self.agents.get_mut(&id).map(|agent| agent.tell(word));
                }
            }
        }
    }
}
