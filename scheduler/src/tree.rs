//! The monitoring tree as the scheduler's threads share it: the front, and what it has heard. All of it is soft, so that a
//! fault here costs a picture and never a unit. Its links are on the tree thread.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use starfarm_agent_core::{Figures, JobFigures, Picture, Summary, Triples};
use starfarm_overlay::Waker;
use starfarm_overlay_core::front::Front;
use starfarm_protocol::admin::{JobInfo, JobUsage, NodeInfo, NodeUsage, Spread};
use starfarm_protocol::ids::{JoinKeyId, PublicKey};
use starfarm_protocol::link::Data;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::{Orders, PostId, Report};
use starfarm_protocol::seal::Vouchers;
use starfarm_protocol::seal::stream::Stream;

/// A link that has shaken hands, on its way to the tree thread.
pub(crate) struct Arrival {
    pub(crate) socket: TcpStream,
    pub(crate) stream: Box<Stream>,
    /// What the link's secret is for.
    pub(crate) post: PostId,
    /// Its first record.
    pub(crate) first: Vec<u8>,
}

/// The tree.
pub(crate) struct Tree {
    known: Mutex<Known>,
    arrivals: Sender<Arrival>,
    waker: Arc<Waker>,
}

struct Known {
    front: Front,
    picture: Picture,
}

impl Tree {
    pub(crate) fn new(front: Front, arrivals: Sender<Arrival>, waker: Arc<Waker>) -> Self {
        Self { known: Mutex::new(Known { front, picture: Picture::default() }), arrivals, waker }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic left half done is said again by those who live.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node says what it has, and hears what it should have.
    pub(crate) fn report(&self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> Orders {
        self.known().front.on_report(node, name, report, now_us)
    }

    /// Whom it vouches for by the secret of that id.
    pub(crate) fn vouched(&self, id: &JoinKeyId) -> Option<Vouchers> {
        self.known().front.vouchers().only(id)
    }

    /// Hands a link to the tree thread.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        // A thread that is gone takes none: its node tries again.
        if self.arrivals.try_send(arrival).is_ok() {
            let _ = self.waker.wake();
        }
    }

    /// A post has said something.
    pub(crate) fn take(&self, data: &Data<'_>, now_us: u64) {
        if let Ok(triples) = Triples::read(data.triples) {
            self.known().picture.take(data.origin, triples, now_us);
        }
    }

    /// Drops what is of no use any more: old figures, and the posts of nodes for which that holds.
    pub(crate) fn tidy(&self, is_gone: impl Fn(&PublicKey) -> bool, now_us: u64) -> Vec<PostId> {
        let mut known = self.known();
        known.picture.tidy(now_us);
        let mut gone: Vec<_> = known.front.posts().map(|(_, post)| post.node).filter(is_gone).collect();
        gone.dedup();
        let posts: Vec<_> = gone.iter().flat_map(|node| known.front.forget(node)).collect();
        posts.iter().for_each(|post| known.picture.forget(*post));
        posts
    }

    /// Says of each job what its units use.
    pub(crate) fn fill_jobs(&self, jobs: &mut [JobInfo], now_us: u64) {
        let all = self.known().picture.jobs(now_us);
        for job in jobs {
            job.usage = all.get(&job.id).map(job_usage);
        }
    }

    /// Says of each node what its machine uses; their keys must be there.
    pub(crate) fn fill_nodes(&self, nodes: &mut [NodeInfo], now_us: u64) {
        let known = self.known();
        let by_node: std::collections::BTreeMap<_, _> =
            known.front.posts().map(|(post, of)| (of.node, post)).collect();
        for node in nodes {
            let post = node.key.and_then(|key| by_node.get(&key));
            let machine = post.and_then(|post| known.picture.machine(*post, now_us));
            node.usage = machine.map(|(figures, age_us)| node_usage(figures, age_us));
        }
    }
}

/// Millionths, as the wire has loads.
const MILLIONTHS: f64 = 1e6;

fn spread(figures: &Figures, metric: Metric, unit: f64) -> Option<Spread> {
    let Summary { count, sum, min, max } = *figures.get(&metric)?;
    let (min, max, sum) = (min as f64 / unit, max as f64 / unit, sum as f64 / unit);
    Some(Spread { min, avg: sum / count as f64, max, sum })
}

fn job_usage(job: &JobFigures) -> JobUsage {
    let of = |metric, unit| spread(&job.figures, metric, unit);
    JobUsage {
        cpu_cores: of(Metric::Cpu, MILLIONTHS),
        memory_bytes: of(Metric::Memory, 1.0),
        gpu: of(Metric::Gpu, MILLIONTHS),
        io_bytes_per_s: of(Metric::Io, 1.0),
        units: job.units,
        from: job.from,
        of: job.of,
        age_seconds: job.age_us as f64 / 1e6,
    }
}

fn node_usage(figures: &Figures, age_us: u64) -> NodeUsage {
    let of = |metric, unit| spread(figures, metric, unit).map(|spread| spread.sum);
    NodeUsage {
        cpu_cores: of(Metric::Cpu, MILLIONTHS),
        memory_bytes: of(Metric::Memory, 1.0),
        gpu: of(Metric::Gpu, MILLIONTHS),
        io_bytes_per_s: of(Metric::Io, 1.0),
        received_bytes_per_s: of(Metric::NetworkReceived, 1.0),
        sent_bytes_per_s: of(Metric::NetworkSent, 1.0),
        age_seconds: age_us as f64 / 1e6,
    }
}
