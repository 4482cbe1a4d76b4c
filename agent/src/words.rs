//! What a worker and an agent say to each other: a line of JSON each. When the worker has gone, so has the agent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use starfarm_protocol::ids::{FarmId, JobId, PublicKey};
use starfarm_protocol::orders::{PostId, PostKind, PostOrder, PostState};

/// What the worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// First of all: which post it is, and what it is to watch.
    Begin(Begin),
    /// Its place in the tree, each time that changes.
    Place {
        /// The post, who is above it and who below.
        order: PostOrder,
        /// Where the worker reaches the scheduler, which has the front.
        scheduler: SocketAddr,
    },
    /// Nobody wants it any more: it is to say what it still knows, and to end.
    Close,
}

/// What an agent is for, as long as it lives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The farm.
    pub farm: FarmId,
    /// What it is for.
    pub kind: PostKind,
    /// Its level.
    pub level: u8,
    /// The job whose own tree it is in: it tells of nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The worker's file that says which slot runs which unit.
    pub running: PathBuf,
    /// The first and the last port that it may take links at; none: any that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// The folder for sockets by which programs of units tell figures of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<PathBuf>,
    /// The node's name.
    pub node: String,
    /// The program that the post runs when there is an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_alarm: Option<PathBuf>,
    /// The node gets no more tasks when it has a critical alarm.
    #[serde(default)]
    pub drains: bool,
    /// The node's own file, of a back end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<OwnFile>,
    /// The processors that it runs on alone; none: on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
}

/// A node's own file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OwnFile {
    /// Where it was. Paths in it are relative to its folder.
    pub path: PathBuf,
    /// What was in it.
    pub text: String,
}

impl Begin {
    /// A post of which nothing is said but what it is.
    pub fn new(farm: FarmId, kind: PostKind, level: u8, running: PathBuf) -> Self {
        let (ports, metrics, node, on_alarm) = (None, None, String::new(), None);
        let (job, drains, file, cpus) = (None, false, None, Vec::new());
        Self { farm, kind, level, job, running, ports, metrics, node, on_alarm, drains, file, cpus }
    }

    /// The folder of what the worker keeps for this farm.
    pub(crate) fn folder(&self) -> &Path {
        self.running.parent().unwrap_or(Path::new("/"))
    }

    /// The worker's file that says how its cards do.
    pub(crate) fn cards(&self) -> PathBuf {
        self.folder().join(starfarm_protocol::gauges::FILE)
    }
}

/// What the agent says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// It is there.
    Ready {
        /// What it links with: made at its start, and kept in its memory only.
        key: PublicKey,
        /// Where it takes links, if it does.
        port: Option<u16>,
    },
    /// How far it is, and whose child.
    State(PostState, Option<PostId>),
}

/// What an agent says beside that, so that its worker knows that it does not hang.
pub const ALIVE: &str = "alive";
/// How often it says so, in microseconds.
pub const ALIVE_US: u64 = 2_000_000;

/// A line's bytes.
pub fn line(word: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(word).expect("numbers, words and keys are always JSON");
    line.push(b'\n');
    line
}
