//! The monitoring tree as the scheduler's threads share it: the front, and what it has heard. All of it is soft, so that a
//! fault here costs a picture and never a unit. Its links are on the tree thread.

mod alarms;
mod asks;
mod desk;
mod info;
mod load;
mod seen;
mod stages;
mod story;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use starfarm_agent_core::named::{Amount, Amounts};
use starfarm_agent_core::trace::Traces;
use starfarm_agent_core::{Figures, Picture, Summary, Triples, without_others};
use starfarm_overlay::Waker;
use starfarm_overlay_core::forest::Forest;
use starfarm_overlay_core::front::{Front, Neighbours, NodeFacts, Settings};
use starfarm_overlay_core::plan::Features;
use starfarm_overlay_core::plan::topology::Topology;
use starfarm_protocol::admin::{MonitorWish, NodeInfo, NodeUsage, Spread, Subject, TracePage};
use starfarm_protocol::ids::{JoinKeyId, PublicKey};
use starfarm_protocol::link::{self, Answer, Asked, Counts, Data, Standing, Table};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::{Orders, PostId, Report};
use starfarm_protocol::seal::Vouchers;
use starfarm_protocol::seal::stream::Stream;
use starfarm_scheduler_core::OnRoll;
use tokio::sync::oneshot;

use crate::guard::caught;
pub(crate) use asks::Ask;
use asks::Asks;
use desk::AlarmDesk;
pub(crate) use stages::Stages;
use wishes::Wishes;

/// A link that has shaken hands, on its way to the tree thread.
pub(crate) struct Arrival {
    pub(crate) socket: TcpStream,
    pub(crate) stream: Box<Stream>,
    /// What the link's secret is for, and with which key the caller shook hands.
    pub(crate) post: PostId,
    pub(crate) key: PublicKey,
    /// Its first record.
    pub(crate) first: Vec<u8>,
}

/// The tree.
pub(crate) struct Tree {
    known: Mutex<Known>,
    arrivals: Sender<Arrival>,
    waker: Arc<Waker>,
    asks: Mutex<Asks>,
    stages: Mutex<Arc<Stages>>,
}

struct Known {
    forest: Forest,
    picture: Picture,
    /// Children of the front, and what it has heard of them.
    of_front: (u32, Counts),
    wishes: Wishes,
    alarms: AlarmDesk,
    traces: Traces,
}

impl Tree {
    pub(crate) fn new(front: Front, arrivals: Sender<Arrival>, waker: Arc<Waker>) -> Self {
        let (picture, of_front) = (Picture::default(), Default::default());
        let alarms = AlarmDesk::new(front.host().name.clone());
        let (wishes, traces) = (Wishes::default(), Traces::default());
        let forest = Forest::new(front);
        let known = Known { forest, picture, of_front, wishes, alarms, traces };
        let stages = Mutex::new(Arc::new(Stages::new(String::new(), 0)));
        Self { known: Mutex::new(known), arrivals, waker, asks: Mutex::default(), stages }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What a panic left half done is said again by those who live.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with what is known. A fault in that costs the picture, which comes back, and nothing else: none then.
    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let mut known = self.known();
        let outcome = caught(|| act(&mut known));
        let why = match outcome {
            Ok(done) => return Some(done),
            Err(why) => why,
        };
        known.forest.renew();
        (known.picture, known.of_front) = (Picture::default(), Default::default());
        // Who follows goes on behind what was told.
        known.alarms = known.alarms.anew();
        drop(known);
        starfarm_net::say(&format!("the monitor forgets all and begins anew, the farm goes on: {why}"));
        None
    }

    /// A node says what it has, and hears what it should have; nothing after a fault, so that it asks again.
    pub(crate) fn report(&self, node: PublicKey, name: &str, report: &Report, now_us: u64) -> Option<Orders> {
        let orders = self.with(|known| known.forest.on_report(node, name, report, now_us));
        // Others may have to hear of it.
        let _ = self.waker.wake();
        orders
    }

    /// Does what is to be done by now: whom to ring, and for which orders.
    pub(crate) fn settle(&self, now_us: u64) -> BTreeMap<String, u64> {
        let settled = self.with(|known| {
            known.forest.settle(now_us);
            known.forest.take_bells().into_iter().collect()
        });
        settled.unwrap_or_default()
    }

    /// The farm says which nodes there are; with what each has to offer, as far as that is known, it is heeded.
    pub(crate) fn on_roll(&self, roll: Vec<OnRoll>, now_us: u64) -> BTreeMap<String, NodeFacts> {
        let heeded = self.with(|known| {
            let by_name: BTreeMap<_, _> =
                known.forest.farm().back_ends().map(|(post, name)| (name.to_owned(), post)).collect();
            let facts = |of: OnRoll| {
                let machine = by_name.get(&*of.name).and_then(|post| known.picture.machine(*post, now_us));
                let features = features(&of, machine.map(|(figures, _)| figures));
                let carries_only = of.is_there && !of.computes;
                (of.name.to_string(), NodeFacts { is_up: of.is_there, carries_only, features })
            };
            let roll = roll.into_iter().map(facts).collect();
            known.forest.on_roll(&roll);
            roll
        });
        heeded.unwrap_or_default()
    }

    /// The first process of a topology file for which there is no place, and why.
    pub(crate) fn cannot_follow(&self, topology: &Topology) -> Option<(usize, String)> {
        self.known().forest.farm().cannot_follow(topology)
    }

    /// The tree is to be so from now on.
    pub(crate) fn form(&self, settings: Settings, now_us: u64) {
        self.with(|known| known.forest.form(settings, now_us));
        let _ = self.waker.wake();
    }

    /// Whom the front watches, and who watches it.
    pub(crate) fn watches(&self) -> Arc<Neighbours> {
        Arc::clone(self.known().forest.farm().watches())
    }

    /// Whether a child may say so of a post.
    pub(crate) fn may_suspect(&self, child: PostId, post: PostId, now_us: u64) -> bool {
        self.known().forest.may_suspect(child, post, now_us)
    }

    /// A post is silent, or cannot be called; `is_linked`: it has its link with the front.
    pub(crate) fn on_suspect(&self, post: PostId, is_linked: bool, now_us: u64) {
        self.with(|known| known.forest.farm_mut().on_suspect(post, is_linked, now_us));
    }

    /// A child tells how it, or one below it, stands; whether it may.
    pub(crate) fn on_standing(&self, child: PostId, standing: Standing, now_us: u64) -> bool {
        let taken = self.with(|known| {
            let may_speak = known.forest.may_speak(child, standing.post, now_us);
            if may_speak {
                known.forest.on_standing(standing, now_us);
            }
            may_speak
        });
        taken.unwrap_or(false)
    }

    /// So the front itself stands.
    pub(crate) fn stands(&self, children: u32, counts: Counts) {
        self.known().of_front = (children, counts);
    }

    /// A child has gone: what a communication process told of jobs those tell who were below it.
    pub(crate) fn on_gone(&self, post: PostId) {
        let mut known = self.known();
        if known.forest.tells_for_others(post) {
            known.picture.forget_child(post);
        }
    }

    /// The name of the node that has a post.
    pub(crate) fn node_of(&self, post: PostId) -> Option<String> {
        self.known().forest.node_of(post).map(|(_, name)| name.to_owned())
    }

    /// Whom it vouches for by the secret of that id.
    pub(crate) fn vouched(&self, id: &JoinKeyId) -> Option<Vouchers> {
        self.known().forest.vouched(id)
    }

    /// Hands a link to the tree thread.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        // A thread that is gone takes none: its node tries again.
        if self.arrivals.try_send(arrival).is_ok() {
            let _ = self.waker.wake();
        }
    }

    /// A child has said something; whether any of it was news, and none of it was for others to say, which is not taken.
    pub(crate) fn take(&self, child: PostId, data: &Data<'_>, now_us: u64) -> bool {
        let Ok(triples) = Triples::read(data.triples) else { return false };
        let taken = self.with(|known| {
            let own = without_others(triples, |about| known.forest.may_speak(child, about, now_us));
            let triples = own.as_deref().map_or(Ok(triples), Triples::read).expect("it was read before");
            let is_news = match data.stream {
                link::Stream::Trace => {
                    let node_of = |post| known.forest.node_of(post).map(|(_, name)| name.to_owned());
                    known.traces.take((child, data.at_us), triples, node_of, now_us)
                }
                _ => known.picture.take(child, data.at_us, triples, now_us),
            };
            is_news && own.is_none()
        });
        taken.unwrap_or(false)
    }

    /// What programs have told behind number `after`, where it is said of this job or node alone.
    pub(crate) fn trace(&self, after: u64, take: u64, about: Option<&Subject>) -> TracePage {
        self.known().traces.page(after, take, |line| match about {
            None => true,
            Some(Subject::Job(job)) => line.job == Some(*job),
            Some(Subject::Node(name)) => line.node.as_ref() == Some(name),
        })
    }

    /// The nodes that have posts.
    pub(crate) fn nodes(&self) -> BTreeSet<PublicKey> {
        let known = self.known();
        known.forest.nodes()
    }

    /// Of these nodes, those that have not called since the tree knows of anything.
    pub(crate) fn strangers(&self, roll: &BTreeMap<String, NodeFacts>) -> Vec<String> {
        let there = roll.iter().filter(|(_, facts)| facts.is_up).map(|(name, _)| name.as_str());
        self.known().forest.farm().strangers(there).into_iter().map(str::to_owned).collect()
    }

    /// Drops what is of no use any more: old figures, and the posts of nodes that are not there, and of these.
    pub(crate) fn tidy(&self, mut gone: Vec<PublicKey>, now_us: u64) -> Vec<PostId> {
        let tidied = self.with(|known| {
            known.picture.tidy(now_us);
            gone.extend(known.forest.gone());
            gone.sort_unstable();
            gone.dedup();
            let mut posts: Vec<_> = gone.iter().flat_map(|node| known.forest.forget(node)).collect();
            posts.extend(known.forest.take_ended(now_us));
            for post in &posts {
                known.picture.forget(*post);
                known.alarms.forget(*post);
                known.traces.forget(*post);
            }
            posts
        });
        tidied.unwrap_or_default()
    }

    /// It is to be measured so from now on; false where too much was wished already.
    pub(crate) fn wish(&self, wish: MonitorWish) -> bool {
        let taken = self.with(|known| {
            let is_taken = wish.period_us.is_none() || known.wishes.has_room();
            if is_taken {
                known.wishes.set(wish);
                known.wishes.renew(known.forest.farm(), &mut known.picture);
            }
            is_taken
        });
        let _ = self.waker.wake();
        taken.unwrap_or(false)
    }

    /// What all posts are to measure.
    pub(crate) fn table(&self) -> Table {
        self.known().wishes.table().clone()
    }

    /// Asks the agent of a node; none where the node has no back end, and where too much is asked already.
    pub(crate) fn ask(&self, name: &str, what: (Asked, &str)) -> Option<Option<oneshot::Receiver<Vec<u8>>>> {
        let known = self.known();
        let post = known.forest.farm().back_end_of(name)?;
        let answer = self.asks().ask(post, what);
        let _ = self.waker.wake();
        Some(answer)
    }

    fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom to ask now, by which number.
    pub(crate) fn asked(&self) -> Vec<Ask> {
        self.asks().take_waiting()
    }

    /// An agent answers, by way of a child.
    pub(crate) fn on_answer(&self, child: PostId, answer: &Answer<'_>, now_us: u64) {
        if self.known().forest.may_speak(child, answer.post, now_us) {
            self.asks().on_answer(answer);
        }
    }

    /// A node of that name has posts.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        let known = self.known();
        known.forest.farm().back_end_of(name).is_some()
    }

    /// Says of each node what its machine uses; their keys must be there.
    pub(crate) fn fill_nodes(&self, nodes: &mut [NodeInfo], now_us: u64) {
        let known = self.known();
        let back_ends = known.forest.farm().posts().filter(|(_, of)| of.level == 0);
        let by_node: BTreeMap<_, _> = back_ends.map(|(post, of)| (of.node, post)).collect();
        for node in nodes {
            let post = node.key.and_then(|key| by_node.get(&key));
            let machine = post.and_then(|post| known.picture.machine(*post, now_us));
            node.usage = machine.map(|(figures, age_us)| {
                let named = post.and_then(|post| known.picture.named(*post));
                NodeUsage { named: named.map(sums).unwrap_or_default(), ..node_usage(figures, age_us) }
            });
            node.alarm = post.and_then(|post| known.alarms.worst_of(*post));
        }
    }
}

/// What a machine has to offer: what it has, less what is used as far as that is known.
fn features(of: &OnRoll, figures: Option<&Figures>) -> Features {
    let used =
        |metric| figures.and_then(|figures| figures.get(&metric)).map_or(0, |summary: &Summary| summary.sum);
    Features::of_machine((of.cores, of.memory_bytes), (used(Metric::Cpu), used(Metric::Memory)))
}

/// Millionths, as the wire has loads.
const MILLIONTHS: f64 = 1e6;

fn spread(figures: &Figures, metric: Metric, unit: f64) -> Option<Spread> {
    let Summary { count, sum, min, max } = *figures.get(&metric)?;
    let (min, max, sum) = (min as f64 / unit, max as f64 / unit, sum as f64 / unit);
    Some(Spread { min, avg: sum / count as f64, max, sum })
}

fn spread_of(Amount { count, sum, min, max }: Amount) -> Spread {
    Spread { min, avg: sum / count as f64, max, sum }
}

fn sums(named: &Amounts) -> BTreeMap<String, f64> {
    named.iter().map(|(name, amount)| (name.to_owned(), amount.sum)).collect()
}

fn node_usage(figures: &Figures, age_us: u64) -> NodeUsage {
    let of = |metric, unit| spread(figures, metric, unit).map(|spread| spread.sum);
    NodeUsage {
        cpu_cores: of(Metric::Cpu, MILLIONTHS),
        memory_bytes: of(Metric::Memory, 1.0),
        gpu: of(Metric::Gpu, MILLIONTHS),
        gpu_memory_bytes: of(Metric::GpuMemory, 1.0),
        io_bytes_per_s: of(Metric::Io, 1.0),
        received_bytes_per_s: of(Metric::NetworkReceived, 1.0),
        sent_bytes_per_s: of(Metric::NetworkSent, 1.0),
        age_seconds: age_us as f64 / 1e6,
        named: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use starfarm_overlay::Reactor;
    use starfarm_protocol::orders::Host;
    use starfarm_protocol::seal::{Secret, StaticKey};

    use super::*;

    #[test]
    fn a_machine_offers_what_nobody_uses() {
        let of = OnRoll { name: "a".into(), is_there: true, computes: true, cores: 4, memory_bytes: 8 << 30 };
        let used =
            Figures::from([(Metric::Cpu, Summary::of(1_500_000)), (Metric::Memory, Summary::of(2 << 30))]);
        let idle = features(&of, None);
        assert_eq!((idle.free_cores, idle.idle, idle.free_memory), (4_000, 1_000, 8_000));
        let busy = features(&of, Some(&used));
        assert_eq!((busy.free_cores, busy.idle, busy.free_memory), (2_500, 625, 6_000));
        let unknown = features(&OnRoll { cores: 0, memory_bytes: 0, ..of }, Some(&used));
        assert_eq!((unknown.free_cores, unknown.idle, unknown.free_memory), (0, 0, 0));
    }

    #[test]
    fn a_fault_costs_the_picture_and_it_comes_back() {
        let front = Front::new(StaticKey::from_secret(Secret([7; 32])), 1, Host::default());
        let waker = Reactor::new().unwrap().waker();
        let tree = Tree::new(front, crossbeam_channel::bounded(1).0, waker);
        let (node, report) = (PublicKey([1; 32]), Report::default());
        let posts =
            |orders: Option<Orders>| orders.unwrap().posts.iter().map(|post| post.post).collect::<Vec<_>>();
        let first = posts(tree.report(node, "a", &report, 1));
        assert_eq!(tree.with(|_| panic!("a bug")), None::<()>);
        let second = posts(tree.report(node, "a", &report, 2));
        assert!(first.len() == 1 && second.len() == 1 && first != second, "{first:?} {second:?}");
    }
}
