//! The farm's figures, as `status` shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{NetworkInfo, NodeInfo};

/// The paper's online figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatusInfo {
    /// The farm's identity.
    pub farm: String,
    /// The scheduler's incarnation.
    pub epoch: u64,
    /// Since when it runs.
    #[serde(default)]
    pub up_seconds: f64,
    /// Tasks in the global queue.
    pub gq: u64,
    /// Tasks at nodes.
    pub dq: u64,
    /// Unfinished jobs.
    pub jq: u64,
    /// Those of them that wait for other jobs to end.
    #[serde(default)]
    pub jobs_waiting: u64,
    /// Tasks that went back to gq.
    pub resent: u64,
    /// Offers repeated.
    pub offers_repeated: u64,
    /// Age of the oldest task at a node.
    pub dq_oldest_seconds: f64,
    /// Target computing time of a task of the current job, in seconds; none with fixed units or no job.
    pub granularity_seconds: Option<f64>,
    /// Tasks cut, of all jobs.
    pub tasks_decomposed: u64,
    /// Mean units of these.
    pub task_units_mean: f64,
    /// Speed-ups of the last whole period.
    pub speed_ups: u64,
    /// Slow-downs of the last whole period.
    pub slow_downs: u64,
    /// Mean power of the nodes that are up.
    pub power_mean: f64,
    /// Results counted, wholly or partly.
    pub results_counted: u64,
    /// Results that were counted before.
    pub results_duplicate: u64,
    /// Datagrams that the receive buffer had no room for.
    pub datagrams_dropped: u64,
    /// Datagrams that did not open: forged, replayed, stale or garbled.
    pub datagrams_refused: u64,
    /// Messages of workers that broke the rules of the protocol, and were dropped.
    #[serde(default)]
    pub messages_malformed: u64,
    /// What went between the scheduler and its workers by UDP.
    #[serde(default)]
    pub network: NetworkInfo,
    /// Events that the XML log had no room or no disk for.
    #[serde(default)]
    pub log_events_dropped: u64,
    /// Lines for standard error that could not be written there.
    #[serde(default)]
    pub stderr_lines_dropped: u64,
    /// Bytes that outputs and other contents of all jobs take on the scheduler's disk.
    #[serde(default)]
    pub stored_bytes: u64,
    /// So many may they be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_limit: Option<u64>,
    /// The farm's settings in force, by their keys in `config.toml`; empty from a scheduler that names none.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// The monitoring tree; none where the farm has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<super::TreeSummary>,
    /// Alarms that stand, the worst first; none where the farm has no monitor.
    #[serde(default)]
    pub alarms: Vec<super::AlarmInfo>,
    /// Unsolicited facts a person should know, such as jobs lost by a restart.
    pub notes: Vec<String>,
    /// Per node.
    pub nodes: Vec<NodeInfo>,
}
