//! What a worker and a slot host say to each other: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use starfarm_kernels::Hit;
use starfarm_protocol::devices::DeviceFacts;
use starfarm_protocol::ids::HexBytes;
use starfarm_protocol::report::Report;
use starfarm_protocol::spec::JobSpec;
use starfarm_protocol::units::Units;

/// What a child is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostWork {
    /// To list devices.
    List,
    /// To run on device number so-and-so.
    Device(usize),
    /// To tell how cards do.
    Watch,
    /// To hold a post of the monitoring tree.
    Agent,
    /// To check the file of this node's agent, whose modules run then.
    AgentFile,
}

impl HostWork {
    /// `list`, `watch`, `agent`, `agent-file`, or a number.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "list" => Some(Self::List),
            "watch" => Some(Self::Watch),
            "agent" => Some(Self::Agent),
            "agent-file" => Some(Self::AgentFile),
            _ => text.parse().map(Self::Device).ok(),
        }
    }

    /// The word that [`HostWork::parse`] reads.
    pub(super) fn word(self) -> String {
        match self {
            Self::List => "list".to_owned(),
            Self::Device(number) => number.to_string(),
            Self::Watch => "watch".to_owned(),
            Self::Agent => "agent".to_owned(),
            Self::AgentFile => "agent-file".to_owned(),
        }
    }
}

/// A device as its driver listed it.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Listed {
    pub(crate) facts: DeviceFacts,
    /// Its address on the PCI bus, as the system writes it, where the driver tells.
    pub(crate) place: Option<String>,
    /// So many devices that look like this one came before it.
    pub(crate) before: usize,
}

/// What the worker asks for.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// First of all: be the host of that device, and keep compiled programs in that folder.
    Open { device: Listed, cache: Option<PathBuf> },
    /// Run a program of ours: that the device works at all.
    Check,
    /// Scans from now on are of this job.
    Prepare(Box<JobSpec>),
    /// Compute these units.
    Scan {
        /// Counts the scans of this host.
        number: u64,
        lo: Units,
        hi: Units,
        /// Most units of a launch of a user's kernel, where that matters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<u64>,
    },
    /// End the scan of that number.
    Stop(u64),
}

/// What the host says.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// The job can be run.
    Prepared,
    /// The device works.
    Works,
    /// The job cannot be run on this device, in words.
    Refused(String),
    /// It still keeps what it compiled before: another host has the job ready sooner.
    Occupied,
    /// The device is made ready, or compiles: said twice a second.
    Busy,
    /// What was compiled for a launch runs now, or goes on.
    Runs,
    /// Units up to `reached` were scanned, in so many microseconds since the part before.
    Part { reached: Units, hits: Vec<Found>, us: u64 },
    /// A launch of a user's kernel begins, over the units up to there.
    Begins(Units),
    /// Units up to `reached` were computed by a user's kernel, in so many microseconds.
    Ran { reached: Units, us: u64, left: Left },
    /// The scan is over, or was stopped.
    Over,
    /// What a person should know, in words.
    Note(String),
    /// The device failed, in words.
    Failed(String),
}

/// What units left.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Left {
    /// Their blocks.
    Blocks(HexBytes),
    /// Hits and counters.
    Report(Report),
}

/// A hit.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
pub(super) struct Found {
    unit: Units,
    target: u32,
}

impl From<Hit> for Found {
    fn from(Hit { unit, target }: Hit) -> Self {
        Self { unit: Units(unit), target }
    }
}

impl From<Found> for Hit {
    fn from(Found { unit, target }: Found) -> Self {
        Self { unit: unit.0, target }
    }
}
