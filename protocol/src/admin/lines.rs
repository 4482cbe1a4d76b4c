//! What happened lately, as lines for a screen. The XML log has all of it; these are for who looks on.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventLine {
    /// Counts from 1 at the scheduler's start.
    pub number: u64,
    /// When, in microseconds of the farm's clock: since 1970.
    pub at_us: u64,
    /// Which kind of event, as in the XML log.
    pub kind: String,
    /// What a person reads.
    pub text: String,
    /// The node that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The job that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}
