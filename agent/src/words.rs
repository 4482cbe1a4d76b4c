//! What a worker and an agent say to each other: a line of JSON each. When the worker has gone, so has the agent.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use starfarm_protocol::ids::{FarmId, PublicKey};
use starfarm_protocol::orders::{PostOrder, PostState};

/// What the worker says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// First of all: which post it is, and what it is to watch.
    Begin {
        /// The farm.
        farm: FarmId,
        /// The worker's file that says which slot runs which unit.
        running: PathBuf,
    },
    /// Its place in the tree, each time that changes.
    Place {
        /// The post, and who is above it.
        order: PostOrder,
        /// Where the worker reaches the scheduler, which has the front.
        scheduler: SocketAddr,
    },
}

/// What the agent says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// What it links with: made at its start, and kept in its memory only.
    Key(PublicKey),
    /// How far it is.
    State(PostState),
}

/// A line's bytes.
pub fn line(word: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(word).expect("numbers, words and keys are always JSON");
    line.push(b'\n');
    line
}
