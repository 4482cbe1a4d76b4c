//! What a front knows: its nodes, their posts, and what it wants of them.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use starfarm_protocol::admin::{PostLoss, TreeState};
use starfarm_protocol::ids::{JobId, PublicKey};
use starfarm_protocol::link::Standing;
use starfarm_protocol::orders::{
    ADDRESSES_MAX, Ancestor, Descendant, FARM_POSTS_MAX, Host, OWN_POSTS_MAX, PostId, PostKind, PostOrder,
    PostReport, PostState, Report, SECOND_LEVEL,
};
use starfarm_protocol::seal::{PairKey, StaticKey, Vouchers};

use super::keys::Keys;
use super::news::{News, PostNews};
use super::numbers::Numbers;
use super::voices::Voices;
use crate::plan::topology::Topology;
use crate::plan::{Features, Strategy};

/// Posts that a front can number: so many bits are left for them beside its incarnation.
pub(super) const NUMBER_BITS: u32 = 24;
/// So long after the last news of a node a tree is planned for the first time, and so long after the first at most.
pub(super) const QUIET_US: u64 = 200_000;
/// The same where a tree stands already, which the front before this one has planned: all of it is to be heard of first.
pub(super) const STANDING_QUIET_US: u64 = 5_000_000;
pub(super) const STANDING_COLLECT_US: u64 = 20_000_000;
pub(super) const COLLECT_US: u64 = 2_000_000;

/// How a tree is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How CPs are dealt.
    pub strategy: Strategy,
    /// Children of a post, at most, unless it takes in those of a lost one.
    pub fanout: u32,
    /// Where CPs stand, and whose children they are, if a person has said that.
    pub topology: Option<Topology>,
}

/// What a front wants of a tree's shape unless somebody says otherwise.
pub const FANOUT: u32 = 32;

impl Default for Settings {
    fn default() -> Self {
        Self { strategy: Strategy::Average, fanout: FANOUT, topology: None }
    }
}

/// A post, as the front knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The node that has it.
    pub node: PublicKey,
    /// What it is for.
    pub kind: PostKind,
    /// Its level: 0 of back ends.
    pub level: u8,
    /// Whose child it should be; none where that is not decided yet.
    pub parent: Option<PostId>,
    /// How far it is, as its node told last.
    pub state: PostState,
    /// Its process, where it has one.
    pub pid: Option<u32>,
    /// How it stands, as it told last by its link, and when that was.
    pub standing: Option<(Standing, u64)>,
    /// What it links with, once it has told, and where others reach it.
    pub(super) key: Option<PublicKey>,
    pub(super) addresses: Vec<SocketAddr>,
    /// When it was wanted, its node first told of it, or its key was heard: it has so long to do what is next.
    pub(super) since_us: u64,
    /// Its node has told of it.
    pub(super) is_told: bool,
    /// When its parent was decided.
    pub(super) parent_us: u64,
    /// Nodes whose CPs it does not reach, and until when none of these is its parent.
    pub(super) avoids: Vec<(PublicKey, u64)>,
}

impl Post {
    pub(super) fn new(node: PublicKey, (kind, level): (PostKind, u8), now_us: u64) -> Self {
        let (parent, state, addresses) = (None, PostState::Starting, Vec::new());
        Self {
            node,
            kind,
            level,
            parent,
            state,
            pid: None,
            standing: None,
            key: None,
            addresses,
            since_us: now_us,
            is_told: false,
            parent_us: now_us,
            avoids: Vec::new(),
        }
    }

    pub(super) fn avoids(&self, node: &PublicKey) -> bool {
        self.avoids.iter().any(|(of, _)| of == node)
    }

    /// Its node tells of it; whether it links with another key now, or elsewhere, and whether it was linked with another key
    /// until now.
    pub(super) fn hear(&mut self, told: &PostReport, now_us: u64) -> (bool, bool) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.since_us = now_us;
        }
        (self.state, self.pid) = (told.state, told.pid);
        let addresses = &told.addresses[..told.addresses.len().min(ADDRESSES_MAX)];
        let (is_other, is_elsewhere) = (self.key != told.key, self.addresses != addresses);
        let mut was_linked = false;
        if is_other || is_elsewhere {
            (self.key, self.since_us) = (told.key, now_us);
            was_linked = self.standing.take().is_some() && is_other;
            self.addresses = addresses.to_vec();
        }
        (is_other || is_elsewhere, was_linked)
    }

    /// Whose child it is, as far as that is known.
    pub fn parent_now(&self) -> Option<PostId> {
        self.standing.map(|(standing, _)| standing.parent)
    }
}

/// What the farm knows of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFacts {
    /// It is there.
    pub is_up: bool,
    /// It computes nothing, and carries posts alone.
    pub carries_only: bool,
    /// What it has to offer.
    pub features: Features,
}

#[derive(Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(super) host: Host,
    pub(super) links: bool,
    /// It has a program for alarms.
    pub(super) reacts: bool,
    /// It can be in trees that jobs have of their own.
    pub(crate) own_trees: bool,
    pub(crate) facts: Option<NodeFacts>,
    /// The number of its newest orders, and what they say; 0: none were made. And the number that it was rung for last.
    pub(crate) newest: u64,
    pub(super) rung: u64,
    pub(super) told: Vec<PostOrder>,
    pub(super) posts: Vec<PostId>,
    /// So many rolls in a row did not name it.
    pub(super) missing: u32,
    /// No CP is put here before this time: one did not come up, or nobody reached it.
    pub(super) not_before_us: u64,
    /// And no second root: nobody could call it.
    pub(super) is_shut_until_us: u64,
}

impl Node {
    /// What it said last of itself, and nothing of its posts.
    pub(crate) fn report(&self) -> Report {
        let Self { host, links, reacts, own_trees, .. } = self;
        let (host, links, reacts, own_trees) = (host.clone(), *links, *reacts, *own_trees);
        Report { heard: 0, host, links, reacts, own_trees, posts: Vec::new() }
    }

    /// A CP may be put here, of a tree that has so many posts of a node at most.
    pub(super) fn takes_cps(&self, posts_max: usize, now_us: u64) -> bool {
        self.links && self.is_up() && self.not_before_us <= now_us && self.posts.len() < posts_max
    }

    pub(crate) fn is_up(&self) -> bool {
        self.facts.as_ref().is_none_or(|facts| facts.is_up)
    }
}

/// Whom a member of the ring watches, the nearest first, and who may link with it to watch it.
pub type Neighbours = (Vec<Ancestor>, Vec<Descendant>);

/// A machine and its nodes.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) nodes: Vec<PublicKey>,
}

/// What a post of the alarms' own way is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Role {
    /// The second root.
    Second,
    /// The post that runs a program.
    Reactor,
}

impl Role {
    pub(super) const ALL: [Self; 2] = [Self::Second, Self::Reactor];

    pub(super) fn kind(self) -> (PostKind, u8) {
        match self {
            Self::Second => (PostKind::Fe, SECOND_LEVEL),
            Self::Reactor => (PostKind::Ap, 0),
        }
    }

    pub(super) fn of(kind: PostKind, level: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.kind() == (kind, level))
    }
}

/// The posts of the alarms' own way.
#[derive(Default)]
pub(super) struct Roots(pub(super) BTreeMap<Role, (PostId, Post)>);

impl Roots {
    pub(super) fn get(&self, post: PostId) -> Option<&Post> {
        self.iter().find(|(id, _)| *id == post).map(|(_, post)| post)
    }

    pub(super) fn get_mut(&mut self, post: PostId) -> Option<&mut Post> {
        self.0.values_mut().find(|(id, _)| *id == post).map(|(_, post)| post)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PostId, &Post)> {
        self.0.values().map(|(id, post)| (*id, post))
    }

    pub(super) fn role(&self, role: Role) -> Option<(PostId, &Post)> {
        self.0.get(&role).map(|(id, post)| (*id, post))
    }

    /// Those of a node are not wanted any more: which these were.
    pub(super) fn forget(&mut self, node: &PublicKey) -> Vec<PostId> {
        let gone: Vec<_> = self.iter().filter(|(_, post)| post.node == *node).map(|(id, _)| id).collect();
        self.0.retain(|_, (_, post)| post.node != *node);
        gone
    }
}

/// The root of a tree.
pub struct Front {
    pub(super) key: StaticKey,
    /// The job whose own tree it is; none: the farm's.
    pub(super) job: Option<JobId>,
    /// The nodes that have a back end in it; none: all that call.
    pub(crate) members: Option<BTreeSet<String>>,
    pub(super) numbers: Numbers,
    /// Of nodes, the jobs of whose units a post of their own tree tells; and whether nodes are to hear of that.
    pub(super) apart: BTreeMap<PublicKey, Vec<JobId>>,
    pub(super) tells_anew: bool,
    pub(super) settings: Settings,
    pub(crate) nodes: BTreeMap<PublicKey, Node>,
    pub(super) posts: BTreeMap<PostId, Post>,
    pub(super) roots: Roots,
    /// Its own machine.
    pub(super) host: Host,
    pub(super) vouchers: Vouchers,
    pub(super) keys: Keys,
    pub(super) voices: Voices,
    /// Whom the front itself watches, and who watches it.
    pub(super) watches: Arc<Neighbours>,
    /// A second root of which nothing was heard, and when that was said first and last while it had its link with the front.
    pub(super) doubted: Option<(PostId, u64, u64)>,
    /// What the secrets of pairs follow from.
    pub(super) pairs: PairKey,
    pub(super) public: PublicKey,
    /// The first number of its own.
    pub(super) first: u64,
    /// When the first and the last news came since nothing was planned; none where it was.
    pub(super) collecting: Option<(u64, u64)>,
    /// Some post is of a front before this one.
    pub(super) is_heir: bool,
    /// When it was looked at last what fails, and since when nobody was blamed for a pause of this front's own.
    pub(super) looked_us: u64,
    pub(super) blames_from_us: u64,
    /// The posts of the topology's processes, as far as these can stand.
    pub(super) places: Vec<Option<PostId>>,
    /// Something has changed since the last plan.
    pub(super) dirty: bool,
    /// When that was.
    pub(super) planned_us: u64,
    /// Since when there are more CPs than there need to be.
    pub(super) too_many_us: Option<u64>,
    /// When it is looked at again where CPs may stand, where there are fewer than there are to be.
    pub(super) lacks_us: Option<u64>,
    /// Posts that were taken away, in all.
    pub(super) lost: u64,
    /// What became of posts, for who looks on.
    pub(super) news: News,
}

impl Front {
    /// A front that knows nobody, on that machine. `key` is the scheduler's, and `epoch` its incarnation, or what else the low 40
    /// bits tell an incarnation of that number: posts of others have other numbers.
    pub fn new(key: StaticKey, epoch: u64, host: Host) -> Self {
        let first = (epoch << NUMBER_BITS) + 1;
        Self {
            pairs: PairKey::of(&key),
            public: key.public(),
            key,
            job: None,
            members: None,
            numbers: Numbers::from(first),
            apart: BTreeMap::new(),
            tells_anew: false,
            first,
            is_heir: false,
            looked_us: 0,
            blames_from_us: 0,
            settings: Settings::default(),
            nodes: BTreeMap::new(),
            posts: BTreeMap::new(),
            roots: Roots::default(),
            host,
            vouchers: Vouchers::default(),
            keys: Keys::default(),
            voices: Voices::default(),
            watches: Arc::default(),
            doubted: None,
            collecting: Some((0, 0)),
            places: Vec::new(),
            dirty: true,
            planned_us: 0,
            too_many_us: None,
            lacks_us: None,
            lost: 0,
            news: News::default(),
        }
    }

    /// The same, of a tree that is to be so as long as nobody says otherwise.
    #[must_use]
    pub fn with(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// The front of a tree of a job's own, of the same scheduler, which nobody is in yet. By no secret of it can anybody link who is
    /// in another.
    pub fn of_job(&self, job: JobId) -> Self {
        let settings = Settings { topology: None, ..self.settings.clone() };
        let (numbers, first, pairs) = (self.numbers.clone(), self.first, PairKey::of_job(&self.key, job.0));
        let new = Self::new(self.key.clone(), 0, self.host.clone());
        Self { job: Some(job), members: Some(BTreeSet::new()), numbers, first, pairs, settings, ..new }
    }

    /// Forgets all that it knows, but for how the tree is to be and which numbers were given.
    pub fn renew(&mut self) {
        let (numbers, settings, host) = (self.numbers.clone(), self.settings.clone(), self.host.clone());
        // All posts are of the one before.
        let first = numbers.next().0;
        *self = Self { numbers, first, settings, ..Self::new(self.key.clone(), 0, host) };
    }

    /// The job whose own tree it is; none: the farm's.
    pub fn job(&self) -> Option<JobId> {
        self.job
    }

    /// Whose turn it is to tell of which job's units, once all nodes were told that; none until then.
    pub(crate) fn apart_as_told(&self) -> Option<&BTreeMap<PublicKey, Vec<JobId>>> {
        (!self.tells_anew).then_some(&self.apart)
    }

    /// A node of that name has a back end here.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        self.members.as_ref().is_none_or(|members| members.contains(name))
    }

    /// It is of a front before this one.
    pub(crate) fn is_of_earlier(&self, post: PostId) -> bool {
        post.0 < self.first
    }

    /// Posts of a node, at most.
    pub(super) fn posts_max(&self) -> usize {
        self.job.map_or(FARM_POSTS_MAX, |_| OWN_POSTS_MAX)
    }

    pub(super) fn add(&mut self, node: PublicKey, kind: (PostKind, u8), now_us: u64) -> PostId {
        let post = self.numbers.take();
        self.nodes.entry(node).or_default().posts.push(post);
        self.posts.insert(post, Post::new(node, kind, now_us));
        self.dirty = true;
        post
    }

    pub(super) fn remove(&mut self, post: PostId, why: PostLoss) {
        self.tell_lost(post, why);
        let gone = self.posts.remove(&post).expect("a post is taken away once");
        self.nodes.entry(gone.node).and_modify(|node| node.posts.retain(|of| *of != post));
        (self.dirty, self.lost) = (true, self.lost + 1);
    }

    /// A post, or its process, is lost; it is still among the posts.
    pub(super) fn tell_lost(&mut self, post: PostId, why: PostLoss) {
        let kind = self.post(post).expect("it is still there").kind;
        let node = self.name_of(post);
        self.news.push(PostNews::Lost { post, kind, node, why });
    }

    /// The name of the node that has a post.
    pub(super) fn name_of(&self, post: PostId) -> String {
        self.node_of(post).map(|(_, name)| name.to_owned()).unwrap_or_default()
    }

    /// How the tree is to be.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How far it is.
    pub fn state(&self) -> TreeState {
        let all = |is: fn(&Post) -> bool| self.posts.values().all(is);
        if self.collecting.is_some() {
            TreeState::Collecting
        } else if !all(|post| post.level == 0 || post.key.is_some()) {
            TreeState::Building
        } else if !all(|post| post.parent.is_some() && post.parent_now() == post.parent) {
            TreeState::Attaching
        } else {
            TreeState::Live
        }
    }

    /// Nodes that may take one more CP.
    pub fn nodes_with_room(&self, now_us: u64) -> usize {
        self.nodes.values().filter(|node| node.takes_cps(self.posts_max(), now_us)).count()
    }

    /// Whose links it takes.
    pub fn vouchers(&self) -> &Vouchers {
        &self.vouchers
    }

    /// The node of a post, and its name.
    pub fn node_of(&self, post: PostId) -> Option<(PublicKey, &str)> {
        let node = self.post(post)?.node;
        Some((node, self.nodes.get(&node)?.name.as_str()))
    }

    /// The front's own machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The machine of a post.
    pub fn host_of(&self, post: PostId) -> Option<&Host> {
        Some(&self.nodes.get(&self.post(post)?.node)?.host)
    }

    /// A post.
    pub fn post(&self, post: PostId) -> Option<&Post> {
        self.posts.get(&post).or_else(|| self.roots.get(post))
    }

    /// All posts of the tree, by number.
    pub fn posts(&self) -> impl Iterator<Item = (PostId, &Post)> {
        self.posts.iter().map(|(post, known)| (*post, known))
    }

    /// Back ends, each with the name of its node.
    pub fn back_ends(&self) -> impl Iterator<Item = (PostId, &str)> {
        let back_ends = self.posts().filter(|(_, post)| post.level == 0);
        back_ends.filter_map(|(id, post)| Some((id, self.nodes.get(&post.node)?.name.as_str())))
    }

    /// That of the node of that name.
    pub fn back_end_of(&self, name: &str) -> Option<PostId> {
        self.back_ends().find(|(_, of)| *of == name).map(|(id, _)| id)
    }

    /// Posts that were taken away, in all.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Posts between a back end and the front, at most.
    pub fn depth(&self) -> usize {
        let levels: BTreeSet<_> = self.posts.values().map(|post| post.level).collect();
        levels.len()
    }
}
