//! The posts of a node, as its worker knows them: which there are to be, how far their processes are, and when one that has
//! ended is started again. Processes and pipes are for the owner, who performs the [`Deed`]s.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::orders::{Host, PostId, PostKind, PostOrder, PostReport, PostState, Report};

use crate::closing::CLOSE_US;

/// After a process ended the next one comes so much later, in microseconds, and each time twice that, up to the longest pause.
const PAUSE_US: u64 = 100_000;
const PAUSE_US_MAX: u64 = 30_000_000;
/// A process that lived for so long, in microseconds, has not ended because of its start.
const LASTS_US: u64 = 60_000_000;

/// A process of a post: no later one of the node has its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(pub u64);

/// What the owner is to do, in this order.
#[derive(Clone, PartialEq, Debug)]
pub enum Deed {
    /// Start a process for a post of that kind and level, in the tree of that job, or the farm's.
    Start(PostId, ProcessId, (PostKind, u8), Option<JobId>),
    /// Have one say what it still knows, and end by itself.
    Close(ProcessId),
    /// End one.
    End(ProcessId),
    /// Tell one its place, and where the scheduler is. One that does not hear it has ended, and is told after its next start.
    Place(ProcessId, Box<PostOrder>, SocketAddr),
}

/// What a process tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// It runs: with what it links, and the port at which it takes links, if it does.
    Ready(PublicKey, Option<u16>),
    /// How far it is, and whose child.
    State(PostState, Option<PostId>),
    /// It has ended.
    Ended,
}

/// All posts of a node. Times are by the worker's clock, in microseconds.
pub struct Posts {
    host: Host,
    /// Others may link with its posts.
    links: bool,
    /// It has a program for alarms.
    reacts: bool,
    /// Where others reach this node: what it calls the scheduler from.
    address: Option<IpAddr>,
    posts: BTreeMap<PostId, Post>,
    /// Those that nobody wants any more, while they say what they still know, and until when they may.
    closing: Vec<(PostId, Post, u64)>,
    started: u64,
}

struct Post {
    order: PostOrder,
    /// The place that the process was told.
    placed: Option<(PostOrder, SocketAddr)>,
    process: Option<Process>,
    /// When the next process is started, if there is none, and the pause after that.
    again_us: u64,
    pause_us: u64,
}

struct Process {
    id: ProcessId,
    pid: Option<u32>,
    since_us: u64,
    key: Option<PublicKey>,
    port: Option<u16>,
    state: PostState,
    parent: Option<PostId>,
}

impl Posts {
    /// None so far, on that machine: whether others may link with them, and whether there is a program for alarms.
    pub fn new(host: Host, (links, reacts): (bool, bool)) -> Self {
        let (posts, closing) = (BTreeMap::new(), Vec::new());
        Self { host, links, reacts, address: None, posts, closing, started: 0 }
    }

    /// These are to be there and no others. The scheduler is there, and is called from this address.
    pub fn want(
        &mut self,
        orders: Vec<PostOrder>,
        (scheduler, from): (SocketAddr, IpAddr),
        now_us: u64,
        deeds: &mut Vec<Deed>,
    ) {
        self.address = Some(from);
        let is_wanted = |id: &PostId| orders.iter().any(|order| order.post == *id);
        for (id, mut post) in self.posts.extract_if(.., |id, _| !is_wanted(id)) {
            let Some(process) = &mut post.process else { continue };
            if post.placed.is_none() {
                // It knows nothing, and nobody to say it to.
                deeds.push(Deed::End(process.id));
                continue;
            }
            process.state = PostState::Closing;
            deeds.push(Deed::Close(process.id));
            self.closing.push((id, post, now_us + CLOSE_US));
        }
        for order in orders {
            match self.posts.get_mut(&order.post) {
                Some(post) => post.order = order,
                None => drop(self.posts.insert(order.post, Post::new(order, now_us))),
            }
        }
        self.start_due(now_us, deeds);
        self.posts.values_mut().for_each(|post| post.place(scheduler, deeds));
    }

    /// Starts the processes whose time has come, and ends those that take too long to end.
    pub fn start_due(&mut self, now_us: u64, deeds: &mut Vec<Deed>) {
        let late = self.closing.extract_if(.., |(.., until_us)| *until_us <= now_us);
        deeds.extend(late.filter_map(|(_, post, _)| post.process).map(|process| Deed::End(process.id)));
        for (id, post) in &mut self.posts {
            if post.process.is_some() || post.again_us > now_us {
                continue;
            }
            self.started += 1;
            let process = Process::new(ProcessId(self.started), now_us);
            let PostOrder { kind, level, job, .. } = post.order;
            deeds.push(Deed::Start(*id, process.id, (kind, level), job));
            (post.process, post.placed) = (Some(process), None);
            post.again_us = now_us + post.pause_us;
            post.pause_us = (post.pause_us * 2).min(PAUSE_US_MAX);
        }
    }

    /// When [`Posts::start_due`] has something to do.
    pub fn due_us(&self) -> Option<u64> {
        let starts = self.posts.values().filter(|post| post.process.is_none()).map(|post| post.again_us);
        starts.chain(self.closing.iter().map(|(.., until_us)| *until_us)).min()
    }

    /// A post that runs has no parent: where it is to be may have changed unheard.
    pub fn is_adrift(&self) -> bool {
        let mut processes = self.posts.values().filter_map(|post| post.process.as_ref());
        processes.any(|process| process.state != PostState::Joined)
    }

    fn of(&mut self, id: ProcessId) -> Option<&mut Post> {
        self.posts.values_mut().find(|post| post.process.as_ref().is_some_and(|process| process.id == id))
    }

    /// A process has started, under that number of the system's; none: it could not be, and is tried again like one that
    /// ended at once.
    pub fn on_started(&mut self, id: ProcessId, pid: Option<u32>) {
        // Nobody wants it any more: it is on its way to its end.
        let Some(post) = self.of(id) else { return };
        match pid {
            Some(_) => post.process.as_mut().expect("it was found by it").pid = pid,
            None => post.process = None,
        }
    }

    /// A process tells something; whether it is of what it links with, so that the scheduler must know.
    pub fn hear(&mut self, id: ProcessId, news: News, now_us: u64) -> bool {
        if news == News::Ended {
            self.closing.retain(|(_, post, _)| post.process.as_ref().is_none_or(|process| process.id != id));
        }
        let Some(post) = self.of(id) else { return false };
        let process = post.process.as_mut().expect("it was found by it");
        let before = (process.key, process.port);
        match news {
            News::Ready(key, port) => {
                (process.key, process.port, process.state) = (Some(key), port, PostState::Reported);
                before != (process.key, process.port)
            }
            News::State(state, parent) => {
                (process.state, process.parent) = (state, parent);
                false
            }
            News::Ended => {
                if now_us.saturating_sub(process.since_us) >= LASTS_US {
                    post.pause_us = PAUSE_US;
                }
                (post.again_us, post.process) = (now_us + post.pause_us, None);
                before != (None, None)
            }
        }
    }

    /// What the scheduler is told, with the number of the orders that were heard last.
    pub fn report(&self, heard: u64) -> Report {
        let address = |process: &Process| Some(SocketAddr::new(self.address?, process.port?));
        let of = |(id, post): (&PostId, &Post)| {
            let process = post.process.as_ref();
            PostReport {
                post: *id,
                kind: post.order.kind,
                level: post.order.level,
                job: post.order.job,
                state: process.map_or(PostState::Starting, |process| process.state),
                parent: process.and_then(|process| process.parent),
                key: process.and_then(|process| process.key),
                addresses: process.and_then(address).filter(|_| self.links).into_iter().collect(),
                pid: process.and_then(|process| process.pid),
            }
        };
        let closing = self.closing.iter().map(|(id, post, _)| (id, post));
        let posts = self.posts.iter().chain(closing).map(of).collect();
        let (host, links, reacts) = (self.host.clone(), self.links, self.reacts);
        Report { heard, host, links, reacts, own_trees: true, posts }
    }
}

impl Post {
    fn new(order: PostOrder, now_us: u64) -> Self {
        Self { order, placed: None, process: None, again_us: now_us, pause_us: PAUSE_US }
    }

    /// Tells the process its place, where it has another or none.
    fn place(&mut self, scheduler: SocketAddr, deeds: &mut Vec<Deed>) {
        // Between two processes there is nobody to tell: the next one is, once it has said its key.
        let Some(process) = &self.process else { return };
        let place = (self.order.clone(), scheduler);
        if self.order.lineage.is_empty() || process.key.is_none() || self.placed.as_ref() == Some(&place) {
            return;
        }
        deeds.push(Deed::Place(process.id, Box::new(place.0.clone()), scheduler));
        self.placed = Some(place);
    }
}

impl Process {
    fn new(id: ProcessId, since_us: u64) -> Self {
        Self { id, pid: None, since_us, key: None, port: None, state: PostState::Starting, parent: None }
    }
}

/// The posts of a report, with what each links and where.
pub fn keys(report: &Report) -> Vec<Keyed<'_>> {
    report.posts.iter().map(|post| (post.post, post.key, post.addresses.as_slice())).collect()
}

/// A post, with what it links, and where.
pub type Keyed<'a> = (PostId, Option<PublicKey>, &'a [SocketAddr]);

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: (SocketAddr, IpAddr) = (
        SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 7),
        IpAddr::V4(core::net::Ipv4Addr::LOCALHOST),
    );
    const KEY: PublicKey = PublicKey([3; 32]);

    fn order(post: u64, lineage: usize) -> PostOrder {
        let secret = starfarm_protocol::seal::Secret([1; 32]);
        let front = starfarm_protocol::orders::Ancestor {
            post: PostId::FRONT,
            addresses: Vec::new(),
            key: KEY,
            secret,
        };
        let (kind, lineage) = (PostKind::Be, vec![front; lineage]);
        PostOrder { lineage, ..PostOrder::new(PostId(post), (kind, 0)) }
    }

    fn want(posts: &mut Posts, orders: &[PostOrder], now_us: u64) -> Vec<Deed> {
        let mut deeds = Vec::new();
        posts.want(orders.to_vec(), WAYS, now_us, &mut deeds);
        deeds
    }

    #[test]
    fn a_process_is_told_its_place_once_it_has_said_its_key() {
        let mut posts = Posts::new(Host::default(), (true, false));
        let deeds = want(&mut posts, &[order(1, 0), order(2, 1)], 0);
        let start = |post, id| Deed::Start(PostId(post), ProcessId(id), (PostKind::Be, 0), None);
        assert_eq!(deeds, [start(1, 1), start(2, 2)]);
        assert!(posts.hear(ProcessId(2), News::Ready(KEY, Some(9)), 1) && posts.is_adrift());
        let place = Deed::Place(ProcessId(2), Box::new(order(2, 1)), WAYS.0);
        assert_eq!(want(&mut posts, &[order(1, 0), order(2, 1)], 2), [place]);
        assert_eq!(want(&mut posts, &[order(1, 0), order(2, 1)], 3), []);
        assert_eq!(posts.report(5).posts[1].addresses, ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(want(&mut posts, &[], 4), [Deed::End(ProcessId(1)), Deed::Close(ProcessId(2))]);
        assert!(!posts.hear(ProcessId(2), News::Ready(KEY, None), 5), "it is no post any more");
    }

    #[test]
    fn one_that_nobody_wants_any_more_says_what_it_knows_and_has_two_seconds_for_that() {
        let mut posts = Posts::new(Host::default(), (true, false));
        want(&mut posts, &[order(1, 1), order(2, 1)], 0);
        for id in [1, 2] {
            posts.hear(ProcessId(id), News::Ready(KEY, None), 1);
        }
        want(&mut posts, &[order(1, 1), order(2, 1)], 2);
        assert_eq!(want(&mut posts, &[], 10), [Deed::Close(ProcessId(1)), Deed::Close(ProcessId(2))]);
        let states: Vec<_> = posts.report(0).posts.iter().map(|post| post.state).collect();
        assert_eq!((states, posts.due_us()), (vec![PostState::Closing; 2], Some(10 + CLOSE_US)));
        assert!(!posts.is_adrift(), "they are where they are to be");
        assert!(!posts.hear(ProcessId(1), News::Ended, 11));
        let mut deeds = Vec::new();
        posts.start_due(9 + CLOSE_US, &mut deeds);
        assert_eq!(deeds, []);
        posts.start_due(10 + CLOSE_US, &mut deeds);
        assert_eq!((deeds, posts.due_us()), (vec![Deed::End(ProcessId(2))], None));
        assert_eq!(posts.report(0).posts, []);
    }

    #[test]
    fn one_that_ends_is_started_again_after_pauses_that_grow() {
        let mut posts = Posts::new(Host::default(), (true, false));
        want(&mut posts, &[order(1, 1)], 0);
        let (mut now_us, mut pauses) = (0, Vec::new());
        for id in 1..=11 {
            assert!(!posts.hear(ProcessId(id), News::Ended, now_us), "nobody knew it");
            let due_us = posts.due_us().unwrap();
            pauses.push((due_us - now_us) / 100_000);
            now_us = due_us;
            let mut deeds = Vec::new();
            posts.start_due(now_us, &mut deeds);
            assert_eq!(deeds.len(), 1);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        posts.hear(ProcessId(12), News::Ready(KEY, None), now_us);
        assert!(posts.hear(ProcessId(12), News::Ended, now_us + LASTS_US));
        assert_eq!(posts.due_us(), Some(now_us + LASTS_US + PAUSE_US));
    }

    #[test]
    fn one_that_cannot_be_started_is_tried_again() {
        let mut posts = Posts::new(Host::default(), (false, false));
        want(&mut posts, &[order(1, 1)], 0);
        posts.on_started(ProcessId(1), None);
        assert_eq!(posts.due_us(), Some(PAUSE_US));
        posts.start_due(PAUSE_US, &mut Vec::new());
        posts.on_started(ProcessId(2), Some(77));
        assert_eq!((posts.due_us(), posts.report(0).posts[0].pid), (None, Some(77)));
    }
}
