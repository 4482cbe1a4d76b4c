//! The posts of this node: agents, each a child process, started again when it ends. Which there are to be, and where in the
//! tree, comes in from `orders`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::time::Duration;

use crossbeam_channel::Sender;
use starfarm_agent::words::{Begin, FromAgent, ToAgent, line};
use starfarm_overlay_core::posts::{self, Deed, News, ProcessId};
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::orders::{Host, PostOrder};

use crate::devices::{HostWork, Watcher};
use crate::options::Options;

/// A thread that hears an agent looks so often whether that is still wanted.
const LOOK: Duration = Duration::from_secs(3_600);

/// What an agent's thread tells, of which process.
pub(crate) struct FromPost(pub(crate) ProcessId, pub(crate) News);

/// What holds for all posts of this node.
pub(crate) struct Ways {
    pub(crate) farm: FarmId,
    pub(crate) running: PathBuf,
    /// Others may link with its posts, at these ports if they are named.
    pub(crate) links: bool,
    pub(crate) ports: Option<(u16, u16)>,
}

impl Ways {
    pub(crate) fn of(options: &Options, farm: FarmId, running: PathBuf) -> Self {
        Self { farm, running, links: !options.no_peers, ports: options.link_ports }
    }
}

/// All posts.
pub(crate) struct Posts<T> {
    ways: Ways,
    pub(crate) core: posts::Posts,
    /// Those of the processes that run. Without its own a process ends.
    inputs: BTreeMap<ProcessId, ChildStdin>,
    tell: Sender<T>,
    of_post: fn(FromPost) -> T,
}

impl<T: Send + 'static> Posts<T> {
    /// None so far. What they say is told as `of_post` makes of it.
    pub(crate) fn new(ways: Ways, tell: Sender<T>, of_post: fn(FromPost) -> T) -> Self {
        let core = posts::Posts::new(host(), ways.links);
        Self { ways, core, inputs: BTreeMap::new(), tell, of_post }
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
            self.inputs.remove(&id);
        }
        self.core.hear(id, news, now_us)
    }

    fn perform(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Start(_, id, (kind, level)) => {
                    let (tell, of_post) = (self.tell.clone(), self.of_post);
                    let say = move |news| tell.send(of_post(FromPost(id, news))).is_ok();
                    let (farm, running, ports) = (self.ways.farm, self.ways.running.clone(), self.ways.ports);
                    let begin = ToAgent::Begin(Begin { farm, kind, level, running, ports });
                    let started = start(&begin, say).ok();
                    self.core.on_started(id, started.as_ref().map(|(pid, _)| *pid));
                    self.inputs.extend(started.map(|(_, to)| (id, to)));
                }
                Deed::End(id) => drop(self.inputs.remove(&id)),
                Deed::Place(id, order, scheduler) => {
                    let word = ToAgent::Place { order: *order, scheduler };
                    // One that does not hear it has ended, and is told after its next start.
                    let _ = self.inputs.get_mut(&id).map(|to| to.write_all(&line(&word)));
                }
            }
        }
    }
}

/// This machine: its name, and what tells it from others that have the same. Without either it is as if it were alone.
fn host() -> Host {
    let kernel = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, boot) = (kernel("hostname").trim().to_owned(), kernel("random/boot_id"));
    let shared = std::fs::metadata("/dev/shm").map(|folder| folder.dev()).unwrap_or_default();
    let mut hash = DefaultHasher::new();
    (boot, shared).hash(&mut hash);
    Host { name, id: hash.finish() }
}

/// Starts an agent: its number, and its standard input.
fn start(begin: &ToAgent, say: impl Fn(News) -> bool + Send + 'static) -> std::io::Result<(u32, ChildStdin)> {
    let mut watcher = Watcher::start(HostWork::Agent)?;
    let mut to = watcher.take_input();
    to.write_all(&line(begin))?;
    let pid = watcher.pid();
    let hear = move || {
        while let Some(said) = watcher.next(LOOK) {
            let news = match serde_json::from_slice(&said) {
                Ok(FromAgent::Ready { key, port }) => News::Ready(key, port),
                Ok(FromAgent::State(state, parent)) => News::State(state, parent),
                Err(_) => break,
            };
            if !say(news) {
                return;
            }
        }
        say(News::Ended);
    };
    std::thread::Builder::new().name("agent".into()).spawn(hear)?;
    Ok((pid, to))
}
