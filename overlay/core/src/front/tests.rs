//! A front and the reports of its nodes.

use std::collections::BTreeSet;

use starfarm_protocol::admin::TreeState;
use starfarm_protocol::link::Counts;
use starfarm_protocol::orders::{Ancestor, Host, PostOrder, PostState};
use starfarm_protocol::seal::{Door, Secret, StaticKey};

use super::known::NUMBER_BITS;
use super::*;
use crate::plan::Features;

const NOW_US: u64 = 1_000_000;
const SECOND_US: u64 = 1_000_000;

pub(crate) fn key(byte: u64) -> StaticKey {
    let mut bytes = [7; 32];
    bytes[8..16].copy_from_slice(&byte.to_le_bytes());
    StaticKey::from_secret(Secret(bytes))
}

pub(crate) fn node(n: u64) -> PublicKey {
    key(1_000_000 + n).public()
}

/// Nodes that do what they are told: each on a machine of its own, or `on` that many.
struct Farm {
    front: Front,
    now_us: u64,
    machines: u64,
    nodes: BTreeMap<u64, Vec<PostOrder>>,
    /// Processes that were started so far: each has another key.
    started: u64,
    keys: BTreeMap<PostId, u64>,
    /// Nodes that nobody can link with, and those that have a program for alarms.
    closed: BTreeSet<u64>,
    react: BTreeSet<u64>,
}

impl Farm {
    fn new(epoch: u64, fanout: u32) -> Self {
        let mut front = Front::new(key(7), epoch, Host::default());
        front.settings.fanout = fanout;
        let (nodes, keys, closed, react) = Default::default();
        Self { front, now_us: NOW_US, machines: u64::MAX, nodes, started: 1_000, keys, closed, react }
    }

    /// So many nodes join, and what comes of that comes.
    fn join(&mut self, nodes: std::ops::Range<u64>) -> &mut Self {
        nodes.for_each(|n| drop(self.nodes.insert(n, Vec::new())));
        self.go_on(SECOND_US)
    }

    fn report(&self, n: u64) -> Report {
        let host = n % self.machines;
        let links = !self.closed.contains(&n);
        let posts = self.nodes[&n].iter().map(|order| {
            let key = self.keys.get(&order.post).map(|number| key(*number).public());
            let addresses = key.filter(|_| links).map(|_| "10.0.0.1:1".parse().unwrap());
            PostReport {
                post: order.post,
                kind: order.kind,
                level: order.level,
                job: order.job,
                state: PostState::Reported,
                parent: order.lineage.first().map(|parent| parent.post),
                key,
                addresses: addresses.into_iter().collect(),
                pid: Some(1),
            }
        });
        let (reacts, posts) = (self.react.contains(&n), posts.collect());
        let host = Host { name: format!("host-{host}"), id: host };
        Report { reacts, heard: 0, host, links, own_trees: true, posts }
    }

    fn call(&mut self, n: u64) {
        let orders = self.front.on_report(node(n), &format!("node-{n}"), &self.report(n), self.now_us);
        for order in &orders.posts {
            if !self.keys.contains_key(&order.post) {
                self.started += 1;
                self.keys.insert(order.post, self.started);
            }
        }
        self.nodes.insert(n, orders.posts);
    }

    /// Everybody calls until nothing changes, and says how it stands.
    fn go_on(&mut self, us: u64) -> &mut Self {
        for _ in 0..8 {
            self.now_us += us / 8;
            self.nodes.keys().copied().collect::<Vec<_>>().into_iter().for_each(|n| self.call(n));
            self.front.settle(self.now_us);
        }
        let all: Vec<_> = self.nodes.values().flatten().cloned().collect();
        for order in all {
            let Some(parent) = order.lineage.first() else { continue };
            self.stands(order.post, parent.post, order.level);
        }
        self
    }

    fn stands(&mut self, post: PostId, parent: PostId, level: u8) {
        let standing = Standing { post, parent, level, children: 0, counts: Counts::default() };
        self.front.on_standing(standing, self.now_us);
    }

    /// Children of each parent, by level of these; the front's last.
    fn fans(&self) -> Vec<(u8, usize)> {
        let mut fans = BTreeMap::<PostId, usize>::new();
        self.front.posts().for_each(|(_, post)| *fans.entry(post.parent.unwrap()).or_default() += 1);
        let level = |post| self.front.post(post).map_or(FRONT_LEVEL, |post| post.level);
        let mut fans: Vec<_> = fans.into_iter().map(|(post, children)| (level(post), children)).collect();
        fans.sort_unstable();
        fans
    }

    fn cps(&self) -> Vec<PostId> {
        self.front.posts().filter(|(_, post)| post.level > 0).map(|(id, _)| id).collect()
    }

    fn node_of(&self, post: PostId) -> u64 {
        let holds = |orders: &Vec<PostOrder>| orders.iter().any(|order| order.post == post);
        self.nodes.iter().find(|(_, orders)| holds(orders)).map(|(n, _)| *n).unwrap()
    }

    fn parents(&self) -> BTreeMap<PostId, Option<PostId>> {
        self.front.posts().map(|(id, post)| (id, post.parent)).collect()
    }

    /// Whatever has a parent is vouched for by it and by all above, and by nobody else; and nobody is above itself.
    fn check(&self) {
        let orders: BTreeMap<_, _> = self.nodes.values().flatten().map(|order| (order.post, order)).collect();
        watches::check(self, &orders);
        let mut vouched = 0;
        for order in orders.values() {
            let mut level = order.level;
            for Ancestor { post, secret, key: called, .. } in order.lineage.iter().chain(&order.second) {
                let Some(above) = orders.get(post) else {
                    assert_eq!((*post, *called), (PostId::FRONT, key(7).public()));
                    assert!(self.front.vouchers().secret(&secret.join_key_id()).is_some());
                    continue;
                };
                assert!(above.level > level, "{above:?} is above {order:?}");
                level = above.level;
                let known = above.below.iter().find(|below| below.post == order.post).unwrap();
                assert_eq!((&known.secret, known.key), (secret, key(self.keys[&order.post]).public()));
                vouched += 1;
            }
        }
        assert_eq!(vouched, orders.values().map(|order| order.below.len()).sum::<usize>());
    }
}

#[test]
fn a_node_gets_a_back_end_and_its_place_once_its_key_is_known() {
    let mut farm = Farm::new(3, 32);
    farm.nodes.insert(1, Vec::new());
    farm.call(1);
    let first = farm.nodes[&1].clone();
    assert_eq!((first.len(), first[0].kind, first[0].lineage.len()), (1, PostKind::Be, 0));
    assert!(first[0].post.0 > 3 << NUMBER_BITS);
    farm.call(1);
    let parent = farm.nodes[&1][0].lineage[0].clone();
    assert_eq!((parent.post, parent.key, parent.addresses), (PostId::FRONT, key(7).public(), Vec::new()));
    farm.go_on(SECOND_US).check();
    assert_eq!((farm.front.state(), farm.fans()), (TreeState::Live, vec![(FRONT_LEVEL, 1)]));
    assert_eq!(farm.front.node_of(first[0].post), Some((node(1), "node-1")));
}

#[test]
fn orders_have_another_number_only_where_they_are_others() {
    let mut farm = Farm::new(1, 32);
    farm.join(0..2);
    assert_eq!(farm.front.take_bells().len(), 2);
    farm.go_on(SECOND_US);
    assert_eq!(farm.front.take_bells(), []);
    // An agent has started again.
    let post = farm.nodes[&1][0].post;
    farm.keys.insert(post, 77);
    farm.go_on(SECOND_US).check();
    let bells = farm.front.take_bells();
    // That of the second root hears who may call it.
    assert_eq!(bells.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["node-0", "node-1"]);
    farm.go_on(SECOND_US);
    assert_eq!(farm.front.take_bells(), []);
}

#[test]
fn beyond_the_fan_out_there_are_cps_and_nobody_has_more_children() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..40).check();
    // 40 back ends, 10 IBEs, 3 CPs.
    let fans = farm.fans();
    assert_eq!(fans.iter().filter(|(level, _)| *level == 1).count(), 10, "{fans:?}");
    assert_eq!(fans.iter().filter(|(level, _)| *level == 2).count(), 3, "{fans:?}");
    assert!(fans.iter().all(|(_, children)| *children <= 4), "{fans:?}");
    assert_eq!((farm.front.state(), farm.front.depth()), (TreeState::Live, 3));
    let kinds: BTreeSet<_> = farm.front.posts().map(|(_, post)| (post.level, post.kind)).collect();
    assert_eq!(kinds, BTreeSet::from([(0, PostKind::Be), (1, PostKind::Ibe), (2, PostKind::Cp)]));
}

#[test]
fn as_many_as_the_front_takes_hang_below_it_at_once_and_more_wait_for_the_plan() {
    let mut farm = Farm::new(1, 4);
    (0..4).for_each(|n| drop(farm.nodes.insert(n, Vec::new())));
    (0..4).chain(0..4).for_each(|n| farm.call(n));
    assert!(farm.nodes.values().all(|orders| orders[0].lineage.len() == 1), "before anything is planned");
    let mut farm = Farm::new(1, 4);
    (0..40).for_each(|n| drop(farm.nodes.insert(n, Vec::new())));
    (0..40).chain(0..40).for_each(|n| farm.call(n));
    assert!(farm.nodes.values().filter(|orders| orders[0].lineage.is_empty()).count() >= 36);
}

#[test]
fn a_farm_that_grows_gets_cps_and_one_that_shrinks_loses_them_after_a_while() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..4);
    assert!(farm.cps().is_empty());
    farm.join(4..6).go_on(SECOND_US).check();
    assert_eq!(farm.fans(), [(1, 3), (1, 3), (FRONT_LEVEL, 2)]);
    let before = farm.parents();
    farm.join(6..9).go_on(SECOND_US).check();
    let moved = before.iter().filter(|(post, parent)| farm.parents()[post] != **parent).count();
    assert_eq!((farm.fans(), moved), (vec![(1, 3), (1, 3), (1, 3), (FRONT_LEVEL, 3)], 0));
    for n in 3..9 {
        farm.front.forget(&node(n));
        farm.nodes.remove(&n);
    }
    farm.go_on(SECOND_US).check();
    let stay = farm.cps().len();
    farm.go_on(500 * SECOND_US);
    assert_eq!(farm.cps().len(), stay);
    farm.go_on(200 * SECOND_US).check();
    assert_eq!((farm.cps().len(), farm.fans()), (0, vec![(FRONT_LEVEL, 3)]));
}

#[test]
fn the_cps_of_a_lost_node_go_elsewhere_and_others_keep_their_parents() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..16).check();
    let (before, lost) = (farm.parents(), farm.cps()[0]);
    let at = farm.node_of(lost);
    farm.front.forget(&node(at));
    farm.nodes.remove(&at);
    farm.go_on(SECOND_US).check();
    assert_eq!(farm.cps().len(), 4);
    for (post, parent) in farm.parents() {
        if before.get(&post).is_some_and(|before| *before != Some(lost)) {
            assert_eq!(before[&post], parent);
        }
    }
}

#[test]
fn a_cp_that_does_not_come_up_goes_to_another_node() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8);
    let dead = farm.cps()[0];
    let at = farm.node_of(dead);
    farm.keys.remove(&dead);
    // Its node says that there is no process.
    for _ in 0..16 {
        farm.now_us += SECOND_US;
        let report = farm.report(at);
        farm.nodes
            .insert(at, farm.front.on_report(node(at), &format!("node-{at}"), &report, farm.now_us).posts);
    }
    farm.go_on(SECOND_US).check();
    let cps = farm.cps();
    assert!(cps.len() == 2 && !cps.contains(&dead), "{cps:?}");
    assert!(cps.iter().all(|post| farm.node_of(*post) != at));
}

#[test]
fn what_befalls_posts_is_told_once() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8).go_on(SECOND_US);
    let (news, missed) = farm.front.take_news(farm.now_us);
    let came = |news: &[PostNews]| news.iter().filter(|news| matches!(news, PostNews::Up { .. })).count();
    assert_eq!((came(&news), missed), (11, 0), "eight back ends, two CPs, the second root: {news:?}");
    farm.go_on(SECOND_US);
    assert_eq!(farm.front.take_news(farm.now_us), (Vec::new(), 0), "nothing is new");
    // One is taken in by the front, and a CP's process ends.
    let (cp, child) = (farm.cps()[0], farm.front.posts().find(|(_, post)| post.level == 0).unwrap().0);
    farm.stands(child, PostId::FRONT, 0);
    farm.started += 1;
    farm.keys.insert(cp, farm.started);
    farm.call(farm.node_of(cp));
    let (news, _) = farm.front.take_news(farm.now_us);
    assert!(
        matches!(&news[0], PostNews::Adopted { post, parent: PostId::FRONT, .. } if *post == child),
        "{news:?}"
    );
    assert!(
        matches!(&news[1..], [PostNews::Lost { post, why: PostLoss::ProcessEnded, kind: PostKind::Ibe, .. }] if *post == cp),
        "{news:?}"
    );
    let gone = farm.node_of(cp);
    farm.front.forget(&node(gone));
    let lost = farm.front.take_news(farm.now_us).0;
    let of_node = |news: &PostNews| matches!(news, PostNews::Lost { why: PostLoss::NodeGone, node, .. } if *node == format!("node-{gone}"));
    assert!(lost.len() >= 2 && lost.iter().all(of_node), "{lost:?}");
}

#[test]
fn a_cp_that_nobody_reaches_goes_to_another_node() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8);
    let (hidden, children): (_, Vec<_>) = {
        let cp = farm.cps()[0];
        (cp, farm.parents().into_iter().filter(|(_, parent)| *parent == Some(cp)).map(|(id, _)| id).collect())
    };
    for _ in 0..16 {
        farm.now_us += SECOND_US;
        children.iter().for_each(|child| farm.stands(*child, PostId::FRONT, 0));
        farm.front.settle(farm.now_us);
    }
    let at = farm.node_of(hidden);
    farm.go_on(SECOND_US).go_on(SECOND_US).check();
    assert!(!farm.cps().contains(&hidden));
    assert!(farm.cps().iter().all(|post| farm.node_of(*post) != at));
}

#[test]
fn nobody_carries_cps_who_takes_no_links_and_those_who_carry_posts_alone_carry_them_all() {
    let mut farm = Farm::new(1, 4);
    farm.closed.extend(0..7);
    farm.join(0..8).check();
    assert!(farm.cps().iter().all(|post| farm.node_of(*post) == 7));
    let mut farm = Farm::new(1, 4);
    let facts = |n| NodeFacts { is_up: true, carries_only: n == 3, features: Features::default() };
    (0..16).for_each(|n| drop(farm.nodes.insert(n, Vec::new())));
    (0..16).for_each(|n| farm.call(n));
    farm.front.on_roll(&(0..16).map(|n| (format!("node-{n}"), facts(n))).collect());
    farm.go_on(SECOND_US).check();
    assert_eq!(farm.cps().len(), 4);
    assert!(farm.cps().iter().all(|post| farm.node_of(*post) == 3));
    // All nodes alike: who would carry?
    let mut farm = Farm::new(1, 4);
    farm.closed.extend(0..16);
    farm.join(0..16).check();
    assert_eq!(farm.fans(), [(FRONT_LEVEL, 16)]);
}

#[test]
fn nodes_of_a_machine_hang_below_a_cp_of_theirs() {
    let mut farm = Farm::new(1, 4);
    farm.machines = 4;
    farm.join(0..16).check();
    for (id, post) in farm.front.posts().filter(|(_, post)| post.level == 0) {
        assert_eq!(farm.front.host_of(id), farm.front.host_of(post.parent.unwrap()));
    }
}

#[test]
fn a_front_that_starts_again_takes_over_what_stands() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..40);
    let (before, keys) = (farm.parents(), farm.keys.clone());
    farm.front = Front::new(key(7), 2, Host::default());
    farm.front.settings.fanout = 4;
    // They call one after the other, with pauses.
    let nodes: Vec<_> = farm.nodes.keys().copied().collect();
    for n in nodes {
        let posts = farm.nodes[&n].clone();
        farm.call(n);
        let places = |orders: &[PostOrder]| orders.iter().map(|order| order.post).collect::<Vec<_>>();
        assert_eq!(places(&farm.nodes[&n]), places(&posts), "nothing ends");
        for (now, before) in farm.nodes[&n].iter().zip(&posts) {
            assert!(now.lineage.is_empty() || now.lineage[0] == before.lineage[0], "{now:?} {before:?}");
        }
        farm.now_us += SECOND_US / 3;
        farm.front.settle(farm.now_us);
    }
    farm.go_on(SECOND_US).go_on(8 * SECOND_US).check();
    assert_eq!((farm.parents(), &farm.keys), (before, &keys));
    // A CP that nobody planned ends.
    let mut strange = farm.nodes[&0][0].clone();
    (strange.post, strange.kind, strange.level) = (PostId(5), PostKind::Ibe, 1);
    farm.nodes.get_mut(&0).unwrap().push(strange);
    farm.go_on(SECOND_US);
    assert!(farm.nodes[&0].iter().all(|order| order.post != PostId(5)));
}

#[test]
fn posts_of_others_are_not_taken() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..2);
    let stolen = farm.nodes[&0][0].clone();
    farm.nodes.get_mut(&1).unwrap().push(PostOrder { post: PostId::FRONT, ..stolen.clone() });
    farm.nodes.get_mut(&1).unwrap().push(stolen.clone());
    farm.go_on(SECOND_US).check();
    assert_eq!((farm.node_of(stolen.post), farm.nodes[&1].len()), (0, 1));
}

#[test]
fn a_tree_is_formed_anew_on_demand() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..16);
    let before = farm.cps();
    farm.front.form(Settings { fanout: 8, ..Settings::default() }, farm.now_us);
    farm.go_on(SECOND_US).go_on(SECOND_US).check();
    assert_eq!(farm.fans(), [(1, 8), (1, 8), (FRONT_LEVEL, 2)]);
    assert!(farm.cps().iter().all(|post| !before.contains(post)));
}

#[test]
fn a_node_that_the_farm_does_not_name_is_gone_after_a_while() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..2);
    let facts = NodeFacts { is_up: true, ..NodeFacts::default() };
    let roll = BTreeMap::from([("node-0".to_owned(), facts)]);
    for _ in 0..ROLLS_MISSING {
        assert_eq!(farm.front.gone().count(), 0);
        farm.front.on_roll(&roll);
    }
    assert_eq!(farm.front.gone().collect::<Vec<_>>(), [node(1)]);
}

#[test]
fn a_front_that_forgets_all_learns_it_again_and_gives_no_number_twice() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8);
    let before = farm.parents();
    farm.front.renew();
    farm.go_on(SECOND_US).go_on(8 * SECOND_US).check();
    assert_eq!(farm.parents(), before);
    farm.join(8..9).check();
    assert!(
        farm.front
            .posts()
            .filter(|(id, _)| !before.contains_key(id))
            .all(|(id, _)| id > *before.keys().max().unwrap())
    );
}

#[test]
fn a_number_that_was_not_given_yet_is_nobodys() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..1);
    let next = farm.front.numbers.next();
    let mut report = farm.report(0);
    report.posts[0].post = next;
    farm.front.on_report(node(7), "node-7", &report, farm.now_us);
    farm.nodes.insert(7, Vec::new());
    farm.go_on(SECOND_US).join(1..4).check();
    farm.front.forget(&node(0));
    farm.nodes.remove(&0);
    farm.go_on(SECOND_US).check();
}

/// A pause of the scheduler's own is nobody's fault, and where all fail at once nobody is barred.
#[test]
fn cps_are_not_blamed_for_what_befell_all_of_them() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..64);
    let before = farm.cps();
    // One is just starting again.
    let at = farm.node_of(before[0]);
    farm.keys.remove(&before[0]);
    let report = farm.report(at);
    farm.nodes.insert(at, farm.front.on_report(node(at), &format!("node-{at}"), &report, farm.now_us).posts);
    farm.front.settle(farm.now_us + 3_600 * SECOND_US);
    assert_eq!(farm.cps(), before);
    farm.go_on(SECOND_US);
    farm.front.form(Settings { fanout: 2, ..Settings::default() }, farm.now_us);
    let wanted = farm.cps().len();
    // Nobody hears of it for a while.
    for _ in 0..30 {
        farm.now_us += SECOND_US;
        farm.front.settle(farm.now_us);
    }
    assert_eq!(farm.cps().len(), wanted);
    assert!(farm.front.nodes.values().all(|node| node.not_before_us == 0));
}

#[test]
fn a_cp_takes_as_many_children_as_it_is_given() {
    let mut farm = Farm::new(1, 2);
    farm.closed.extend(1..40);
    farm.join(0..40).check();
    for order in farm.nodes.values().flatten() {
        let own = order.below.iter().filter(|below| below.parent == order.post).count();
        assert!(own <= order.children_max as usize, "{own} of {}", order.children_max);
    }
}

mod follow;
mod reach;
mod reports;
mod room;
mod roots;
mod speak;
mod watches;
