//! The monitoring tree, as people see it.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::metric::Metric;
use crate::orders::{PostId, PostKind, PostState};
use crate::word::words;

words! {
    /// How communication processes are dealt to hosts.
    PlaceCps {
        /// Evenly, by the number of processes.
        Average => "average",
        /// By what the hosts are good for.
        Fuzzy => "fuzzy",
        /// As a topology file says.
        Topology => "topology",
    }
}

words! {
    /// How far a tree is.
    TreeState {
        /// Nodes say what they have.
        Collecting => "collecting",
        /// Communication processes start.
        Building => "building",
        /// Posts link with their parents.
        Attaching => "attaching",
        /// All are linked.
        Live => "live",
    }
}

words! {
    /// Why a post is not what it was.
    PostLoss {
        /// Its process has ended, or lost its memory: its node starts another.
        ProcessEnded => "process_ended",
        /// Its node is lost, left, or was revoked.
        NodeGone => "node_gone",
        /// Its process did not come up in time; another node gets such a post.
        NotStarted => "not_started",
        /// None of its children reaches it; another node gets such a post.
        OutOfReach => "out_of_reach",
        /// The tree was planned anew.
        Replanned => "replanned",
        /// There were more communication processes than there need to be.
        Spare => "spare",
        /// It was in a tree of a job's own, and the job has ended.
        JobEnded => "job_ended",
    }
}

/// The tree in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TreeSummary {
    /// How far it is.
    pub state: TreeState,
    /// How communication processes are dealt.
    pub strategy: PlaceCps,
    /// Children of a post, at most, unless it has taken in those of a lost one.
    pub fanout: u32,
    /// Levels of posts below the front.
    pub depth: u32,
    /// Posts, the front among them.
    pub posts: u64,
    /// Posts that were taken away since the scheduler started: their nodes were lost, or others took their place.
    pub lost: u64,
    /// Messages that posts had no room for, of those that are there.
    pub dropped: u64,
}

/// The tree, post by post.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TreeInfo {
    /// In short.
    pub tree: TreeSummary,
    /// All posts: the front first, and each behind its parent; those of the farm's tree before others.
    pub posts: Vec<PostInfo>,
    /// Trees that jobs have of their own, in short.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_trees: Vec<OwnTree>,
}

/// A tree of a job's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OwnTree {
    /// Whose.
    pub job: JobId,
    /// How far it is.
    pub state: TreeState,
    /// Levels of posts below the front.
    pub depth: u32,
    /// Its posts, without the front.
    pub posts: u64,
}

/// A post. What it counts is messages since the start of its process; nothing where it has told nothing yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PostInfo {
    /// Its number.
    pub post: PostId,
    /// What it is for.
    pub kind: PostKind,
    /// The node that has it; none of the front.
    pub node: Option<String>,
    /// The name of its machine.
    pub host: String,
    /// Whose child it is now.
    pub parent: Option<PostId>,
    /// The job whose own tree it is in; none: it is in the farm's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// How many posts there are between it and the front, and one; 0 of the front.
    pub depth: u32,
    /// How far it is.
    pub state: PostState,
    /// Its children.
    pub children: Option<u32>,
    /// Its process.
    pub pid: Option<u32>,
    /// Made for its parent.
    pub sent: Option<u64>,
    /// Come from its children in time.
    pub received: Option<u64>,
    /// Made, and dropped for want of room, or of a parent.
    pub dropped: Option<u64>,
    /// Come from its children too late for their wave.
    pub late: Option<u64>,
    /// Sent by its children, not dropped by them, and never come.
    pub gaps: Option<u64>,
}

/// What is to be measured of something, from now on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MonitorWish {
    /// Of what.
    pub scope: MonitorScope,
    /// How often, in microseconds; 0: never. None: as if nobody had asked.
    pub period_us: Option<u64>,
    /// Which; none: all.
    pub metrics: Vec<Metric>,
}

/// What a wish is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorScope {
    /// All jobs and nodes.
    All,
    /// A job's units.
    Job(JobId),
    /// The machine of a node, by its name, and the units on it.
    Node(String),
}
