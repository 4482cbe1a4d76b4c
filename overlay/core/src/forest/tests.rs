//! All trees of a scheduler, and the reports of its nodes.

use starfarm_protocol::admin::{PostLoss, TreeState};
use starfarm_protocol::link::Counts;
use starfarm_protocol::orders::{Host, PostKind, PostOrder, PostReport, PostState};

use super::*;
use crate::front::tests::{key, node};

const SECOND_US: u64 = 1_000_000;
const JOB: JobId = JobId(7);

/// A forest, and nodes that do what they are told, each on a machine of its own.
struct World {
    forest: Forest,
    now_us: u64,
    nodes: BTreeMap<u64, Vec<PostOrder>>,
    /// The number of the orders that each heard last.
    heard: BTreeMap<u64, u64>,
    wanted: BTreeMap<JobId, BTreeSet<String>>,
    /// Nodes of an earlier release, and those that carry posts alone.
    old: BTreeSet<u64>,
    carry: BTreeSet<u64>,
}

fn new_forest(epoch: u64, fanout: u32) -> Forest {
    let front = Front::new(key(7), epoch, Host::default());
    Forest::new(front.with(Settings { fanout, ..Settings::default() }))
}

impl World {
    fn new(nodes: u64, fanout: u32) -> Self {
        let (forest, now_us) = (new_forest(1, fanout), 1_000 * SECOND_US);
        let nodes = (0..nodes).map(|n| (n, Vec::new())).collect();
        let (heard, wanted, old, carry) = Default::default();
        Self { forest, now_us, nodes, heard, wanted, old, carry }
    }

    fn report(&self, n: u64) -> Report {
        let post = |order: &PostOrder| PostReport {
            post: order.post,
            kind: order.kind,
            level: order.level,
            job: order.job,
            state: if order.lineage.is_empty() { PostState::Reported } else { PostState::Joined },
            parent: order.lineage.first().map(|parent| parent.post),
            key: Some(key(order.post.0).public()),
            addresses: vec!["10.0.0.1:1".parse().unwrap()],
            pid: Some(1),
        };
        let host = Host { name: format!("host-{n}"), id: n };
        let (own_trees, posts) = (!self.old.contains(&n), self.nodes[&n].iter().map(post).collect());
        Report { heard: 0, host, links: true, reacts: false, own_trees, posts }
    }

    fn call(&mut self, n: u64) {
        let orders = self.forest.on_report(node(n), &name(n), &self.report(n), self.now_us);
        self.heard.insert(n, orders.newest);
        self.nodes.insert(n, orders.posts);
    }

    /// All call, at first and whenever they are rung, and say how they stand; the farm says what is wanted.
    fn go_on(&mut self, us: u64) -> &mut Self {
        for _ in 0..20 {
            self.now_us += us / 20;
            let facts = |n| {
                let carries_only = self.carry.contains(n);
                (name(*n), NodeFacts { is_up: true, carries_only, ..NodeFacts::default() })
            };
            self.forest.on_roll(&self.nodes.keys().map(facts).collect());
            self.forest.want(&self.wanted, self.now_us);
            self.forest.settle(self.now_us);
            let rung: BTreeMap<_, _> = self.forest.take_bells().into_iter().collect();
            for n in self.nodes.keys().copied().collect::<Vec<_>>() {
                if self
                    .heard
                    .get(&n)
                    .is_none_or(|heard| rung.get(&name(n)).is_some_and(|newest| newest != heard))
                {
                    self.call(n);
                    let said = self.report(n);
                    self.forest.on_report(node(n), &name(n), &said, self.now_us);
                }
            }
            self.stand();
        }
        self
    }

    fn stand(&mut self) {
        let all: Vec<_> = self.nodes.values().flatten().cloned().collect();
        for order in all {
            let Some(parent) = order.lineage.first() else { continue };
            let (post, parent, level) = (order.post, parent.post, order.level);
            let standing = Standing { post, parent, level, children: 0, counts: Counts::default() };
            if self.forest.may_speak(post, post, self.now_us) {
                self.forest.on_standing(standing, self.now_us);
            }
        }
    }

    fn want(&mut self, job: JobId, nodes: &[u64]) -> &mut Self {
        self.wanted.insert(job, nodes.iter().map(|n| name(*n)).collect());
        self
    }

    /// Of each node the kinds of its posts, with the job whose tree they are in; without the second root.
    fn posts(&self) -> Vec<Vec<(PostKind, Option<JobId>)>> {
        let of = |posts: &Vec<PostOrder>| {
            let of_trees = posts.iter().filter(|post| post.kind != PostKind::Fe);
            of_trees.map(|post| (post.kind, post.job)).collect()
        };
        self.nodes.values().map(of).collect()
    }

    /// Jobs of whose units the back end of the farm's tree on a node does not tell. Those of their own trees do, and of no others.
    fn apart(&self, n: u64) -> Vec<JobId> {
        let of = |job: Option<JobId>| {
            let posts =
                self.nodes[&n].iter().filter(move |post| post.job == job && post.kind == PostKind::Be);
            posts.flat_map(|post| post.apart.clone()).collect::<Vec<_>>()
        };
        let told: BTreeSet<_> = self.nodes[&n].iter().filter_map(|post| post.job).collect();
        let own: Vec<_> = told.into_iter().flat_map(|job| of(Some(job))).collect();
        assert!(of(None) == own || own.is_empty(), "{:?} and {own:?}", of(None));
        of(None)
    }
}

fn name(n: u64) -> String {
    format!("node-{n}")
}

const FARMS: (PostKind, Option<JobId>) = (PostKind::Be, None);
const OWN: (PostKind, Option<JobId>) = (PostKind::Be, Some(JOB));

#[test]
fn a_job_has_a_tree_over_its_nodes_until_it_ends() {
    let mut world = World::new(3, 32);
    world.go_on(3 * SECOND_US);
    assert_eq!(world.posts(), vec![vec![FARMS]; 3]);
    world.want(JOB, &[0, 2]).go_on(3 * SECOND_US);
    assert_eq!(world.posts(), [vec![FARMS, OWN], vec![FARMS], vec![FARMS, OWN]]);
    assert_eq!([0, 1, 2].map(|n| world.apart(n)), [vec![JOB], vec![], vec![JOB]]);
    let states: Vec<_> = world.forest.own().map(|(job, front)| (job, front.state())).collect();
    assert_eq!(states, [(JOB, TreeState::Live)]);
    // Where one runs it no more it stays; where another begins to, one joins.
    world.want(JOB, &[1]).go_on(3 * SECOND_US);
    assert_eq!(world.posts(), vec![vec![FARMS, OWN]; 3]);
    drop(world.forest.take_news(world.now_us));
    world.wanted.clear();
    world.go_on(2 * SECOND_US);
    assert_eq!(world.posts(), vec![vec![FARMS, OWN]; 3], "its last units are heard of");
    world.go_on(3 * SECOND_US);
    assert_eq!(world.posts(), vec![vec![FARMS]; 3]);
    assert_eq!([0, 1, 2].map(|n| world.apart(n)), [const { Vec::new() }; 3]);
    let (news, _) = world.forest.take_news(world.now_us);
    let lost = |news: &PostNews| matches!(news, PostNews::Lost { why: PostLoss::JobEnded, .. });
    assert_eq!(news.iter().filter(|news| lost(news)).count(), 3, "{news:?}");
    assert_eq!(world.forest.own().count(), 0);
}

#[test]
fn nodes_that_only_carry_take_its_cps_and_hear_when_it_goes() {
    let mut world = World::new(6, 2);
    world.carry.extend([4, 5]);
    world.want(JOB, &[0, 1, 2, 3]).go_on(4 * SECOND_US);
    let cps: Vec<_> = world.forest.own().flat_map(|(_, front)| front.posts()).collect();
    let cps: Vec<_> = cps.iter().filter(|(_, post)| post.level > 0).map(|(_, post)| post.node).collect();
    assert!(cps.len() == 2 && cps.iter().all(|of| [node(4), node(5)].contains(of)), "{cps:?}");
    let own = |world: &World| world.nodes.values().flatten().filter(|post| post.job.is_some()).count();
    assert_eq!(own(&world), 6);
    world.wanted.clear();
    world.go_on(5 * SECOND_US);
    assert_eq!(own(&world), 0);
}

#[test]
fn trees_share_no_number_and_no_secret_and_speak_of_none_of_each_other() {
    let mut world = World::new(5, 2);
    world.want(JOB, &[0, 1, 2, 3, 4]).go_on(5 * SECOND_US);
    let all: Vec<_> = world.nodes.values().flatten().collect();
    let numbers: BTreeSet<_> = all.iter().map(|order| order.post).collect();
    assert_eq!(numbers.len(), all.len());
    let of_tree = |job| all.iter().filter(move |order| order.job == job);
    for (one, other) in [(None, Some(JOB)), (Some(JOB), None)] {
        for cp in of_tree(one).filter(|order| order.kind == PostKind::Ibe) {
            let own = cp.below.iter().all(|below| world.forest.may_speak(cp.post, below.post, world.now_us));
            assert!(own && !cp.below.is_empty());
            let others = of_tree(other).any(|of| world.forest.may_speak(cp.post, of.post, world.now_us));
            assert!(!others, "{cp:?}");
        }
    }
    // Who says in a job's tree that the key of another's post is its own links with nobody in that one's place.
    let farms = of_tree(None).find(|order| order.level == 0).unwrap();
    let farms = PostOrder::clone(farms);
    let mut report = world.report(0);
    let own = report.posts.iter_mut().find(|post| post.job == Some(JOB) && post.level == 0).unwrap();
    let (own, claimed) = (own.post, key(farms.post.0).public());
    report.posts.iter_mut().filter(|post| post.post == own).for_each(|post| post.key = Some(claimed));
    world.forest.on_report(node(0), &name(0), &report, world.now_us);
    let secret = &farms.lineage.last().unwrap().secret;
    let door = world.forest.vouched(&secret.join_key_id()).unwrap();
    let claim = |post: PostId| starfarm_protocol::seal::Claim {
        key: claimed,
        name: starfarm_protocol::seal::post_name(post.0),
        boot: starfarm_protocol::ids::Boot(0),
        join_key: secret.join_key_id(),
    };
    use starfarm_protocol::seal::Door;
    assert!(door.admit(&claim(farms.post), 0).is_ok() && door.admit(&claim(own), 0).is_err());
}

#[test]
fn a_scheduler_that_starts_again_finds_the_trees_that_stand() {
    let mut world = World::new(3, 32);
    let other = JobId(8);
    world.want(JOB, &[0, 1]).want(other, &[2]).go_on(3 * SECOND_US);
    let before = world.nodes.clone();
    world.forest = new_forest(2, 32);
    world.heard.clear();
    let numbers = |orders: &BTreeMap<u64, Vec<PostOrder>>| -> BTreeSet<_> {
        orders.values().flatten().map(|order| (order.post, order.job)).collect()
    };
    (1..3).for_each(|n| world.call(n));
    assert_eq!(numbers(&world.nodes), numbers(&before), "before anybody has said which are wanted");
    // The farm knows its jobs, and not yet who has tasks of them.
    world.wanted = BTreeMap::from([(JOB, BTreeSet::new())]);
    world.forest.want(&world.wanted, world.now_us);
    world.call(0);
    assert_eq!(numbers(&world.nodes), numbers(&before), "nor which node has tasks of which");
    world.forest.settle(world.now_us + LOOK_US);
    (0..2).for_each(|n| world.call(n));
    assert_eq!([0, 1].map(|n| world.apart(n)), [[JOB], [JOB]], "no unit is told of twice meanwhile");
    world.go_on(30 * SECOND_US);
    let kept = numbers(&before).into_iter().filter(|(_, job)| *job != Some(other)).collect();
    assert_eq!(numbers(&world.nodes), kept);
    assert_eq!([0, 1, 2].map(|n| world.apart(n)), [vec![JOB], vec![JOB], vec![]]);
    // From now on nobody's word is taken for it.
    let mut report = world.report(0);
    let told = report.posts.iter_mut().find(|post| post.job.is_some()).unwrap();
    (told.job, told.post) = (Some(other), PostId(3));
    world.forest.on_report(node(0), &name(0), &report, world.now_us);
    assert_eq!(world.forest.own().map(|(job, _)| job).collect::<Vec<_>>(), [JOB]);
}

#[test]
fn there_are_so_many_trees_at_most_and_the_next_job_has_one_when_another_ends() {
    let mut world = World::new(1, 32);
    let jobs: Vec<_> = (1..=OWN_TREES_MAX as u64 + 1).map(JobId).collect();
    for job in &jobs {
        world.want(*job, &[0]);
    }
    world.go_on(3 * SECOND_US);
    let have = |world: &World| world.forest.own().map(|(job, _)| job).collect::<Vec<_>>();
    assert_eq!(have(&world), jobs[..OWN_TREES_MAX]);
    world.wanted.remove(&jobs[0]);
    world.go_on(8 * SECOND_US);
    assert_eq!(have(&world), jobs[1..]);
    assert_eq!(world.apart(0), jobs[1..]);
}

#[test]
fn nodes_of_an_earlier_release_and_those_whose_back_end_is_silent_go_by_the_farms_tree() {
    let mut world = World::new(2, 32);
    world.old.insert(1);
    world.want(JOB, &[0, 1]).go_on(3 * SECOND_US);
    assert_eq!(world.posts(), [vec![FARMS, OWN], vec![FARMS]]);
    assert_eq!([0, 1].map(|n| world.apart(n)), [vec![JOB], vec![]]);
    // Nobody stands any more.
    let quiet_us = world.now_us + DEAD_US + LOOK_US;
    world.forest.settle(quiet_us);
    world.now_us = quiet_us;
    world.call(0);
    assert_eq!(world.apart(0), []);
    // A node that has gone has no posts, and comes back into the tree.
    assert_eq!(world.forest.forget(&node(0)).len(), 3, "the second root among them");
    world.nodes.insert(0, Vec::new());
    world.heard.clear();
    world.go_on(3 * SECOND_US);
    assert_eq!(world.posts(), [vec![FARMS, OWN], vec![FARMS]]);
}

/// Whoever did could speak for that post, and for those below it.
#[test]
fn a_number_of_one_tree_is_nobodys_in_another() {
    let mut world = World::new(5, 2);
    world.go_on(3 * SECOND_US);
    let farms: Vec<_> = world.nodes.values().flatten().map(|order| order.post).collect();
    // The job's front still hears of nodes when one of them lies: in a report of its own, and beside what is true.
    world.want(JOB, &[0, 1]);
    world.forest.want(&world.wanted, world.now_us);
    for post in &farms {
        for (kind, level) in [(PostKind::Ibe, 1), (PostKind::Be, 0), (PostKind::Fe, 254)] {
            let lie =
                PostReport { post: *post, kind, level, job: Some(JOB), ..world.report(0).posts[0].clone() };
            for posts in [vec![lie.clone()], [world.report(0).posts, vec![lie.clone()]].concat()] {
                let report = Report { posts, ..world.report(0) };
                world.forest.on_report(node(0), &name(0), &report, world.now_us);
            }
        }
        let (_, own) = world.forest.own().next().unwrap();
        assert!(own.post(*post).is_none() && world.forest.farm().post(*post).is_some());
    }
    // Nor is it that of posts in two trees.
    world.forest = new_forest(2, 2);
    let lie = |job| PostReport {
        post: PostId(5),
        level: 0,
        kind: PostKind::Be,
        job,
        ..world.report(0).posts[0].clone()
    };
    let posts = vec![lie(Some(JOB)), lie(Some(JobId(8))), lie(None)];
    let report = Report { posts, ..world.report(0) };
    world.forest.on_report(node(0), &name(0), &report, world.now_us);
    let have = world.forest.fronts().filter(|front| front.post(PostId(5)).is_some());
    assert_eq!(have.count(), 1);
    world.heard.clear();
    world.go_on(3 * SECOND_US);
    let own: Vec<_> = world.nodes.values().flatten().filter(|order| order.job.is_some()).cloned().collect();
    for order in &own {
        let lie = PostReport { post: order.post, job: None, ..world.report(4).posts[0].clone() };
        let report = Report { posts: vec![lie], ..world.report(4) };
        world.forest.on_report(node(9), "node-9", &report, world.now_us);
        assert!(world.forest.farm().post(order.post).is_none() && !own.is_empty());
    }
}

#[test]
fn a_node_that_goes_back_to_an_earlier_release_leaves_the_trees_of_jobs() {
    let mut world = World::new(2, 32);
    world.want(JOB, &[0, 1]).go_on(3 * SECOND_US);
    assert_eq!(world.posts(), vec![vec![FARMS, OWN]; 2]);
    world.old.insert(1);
    world.call(1);
    world.go_on(8 * SECOND_US);
    assert_eq!(world.posts(), [vec![FARMS, OWN], vec![FARMS]]);
    assert_eq!([0, 1].map(|n| world.apart(n)), [vec![JOB], vec![]]);
    let posts: Vec<_> = world.forest.own().map(|(_, front)| front.posts().count()).collect();
    assert_eq!(posts, [1]);
}

#[test]
fn posts_of_a_tree_that_is_over_are_named_once_when_they_must_have_ended() {
    let mut world = World::new(2, 32);
    world.want(JOB, &[0, 1]).go_on(3 * SECOND_US);
    world.wanted.clear();
    world.forest.want(&world.wanted, world.now_us);
    let over_us = world.now_us + LINGER_US;
    world.forest.want(&world.wanted, over_us);
    assert_eq!(world.forest.take_ended(over_us + ENDS_US - 1), []);
    assert_eq!(world.forest.take_ended(over_us + ENDS_US).len(), 2);
    assert_eq!(world.forest.take_ended(over_us + ENDS_US), []);
}

#[test]
fn what_a_node_hears_has_the_number_that_it_is_rung_for() {
    let mut world = World::new(2, 32);
    world.want(JOB, &[0]).go_on(5 * SECOND_US);
    drop(world.forest.take_bells());
    world.want(JOB, &[0, 1]);
    world.forest.want(&world.wanted, world.now_us);
    world.forest.settle(world.now_us);
    let rung = world.forest.take_bells();
    assert_eq!(rung.len(), 1, "{rung:?}");
    let said = world.report(1);
    let orders = world.forest.on_report(node(1), &name(1), &said, world.now_us);
    assert_eq!(rung, [(name(1), orders.newest)]);
    assert_eq!(add(u64::MAX, 1), 1, "0 is none");
}
