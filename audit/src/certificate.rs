//! The completion certificate of an ended job (R8): what can be said of it from its records, in a form that
//! has one hash wherever and whenever it is derived.

use serde::Serialize;
use serde_json::Value;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::state::Completion;
use starfarm_protocol::units::Units;

use crate::trust::TrustShare;

/// Units of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NodeShare {
    /// Its name.
    pub name: String,
    /// Units that count as done by it.
    pub units: Units,
}

/// The certificate. Numbers of units are decimal strings, so that no reader rounds them; nothing in it
/// depends on how records were packed into segments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Certificate {
    /// The farm's identity.
    pub farm: String,
    /// The job's number.
    pub job: JobId,
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// What its records come to.
    pub verdict: Completion,
    /// The state that it ended in.
    pub state: JobState,
    /// N.
    pub units_total: Units,
    /// Done, once each.
    pub units_done: Units,
    /// Failed for good.
    pub units_failed: Units,
    /// Not wanted any more.
    pub units_abandoned: Units,
    /// BLAKE3 of the intervals: a line `done LO HI`, `failed LO HI` or `abandoned LO HI` for each, ascending,
    /// joined where they touch.
    pub intervals_hash: ContentHash,
    /// Different hits.
    pub hits: u64,
    /// BLAKE3 of the hits: a line `UNIT TARGET` for each, ascending.
    pub hits_hash: ContentHash,
    /// Units of results that were counted before, as its scheduler counted them.
    pub units_duplicate: Units,
    /// Tasks given out, as its scheduler counted them.
    pub tasks_dispatched: u64,
    /// Tasks that went back to the queue, as its scheduler counted them.
    pub tasks_resent: u64,
    /// Copies given to idle nodes near the end, as its scheduler counted them.
    pub tasks_copied: u64,
    /// Results that differ from what was counted.
    pub conflicts: u64,
    /// Units that were done, and computed again: their outputs were lost, their node was not trusted any more, or they were
    /// checked. They are in the shares of nodes as often.
    #[serde(skip_serializing_if = "is_none")]
    pub units_again: Units,
    /// Done by nodes that were not trusted any more after its end.
    #[serde(skip_serializing_if = "is_none")]
    pub units_doubtful: Units,
    /// Of a search that asks for trust checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustShare>,
    /// Incarnations of the scheduler from its submission to its end.
    pub epochs: Vec<u64>,
    /// Who computed how much, by name.
    pub nodes: Vec<NodeShare>,
    /// When it was submitted, UTC, by the clock of its scheduler.
    pub submitted: String,
    /// When its first task was given out.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
}

fn is_none(units: &Units) -> bool {
    *units == 0
}

impl Certificate {
    /// BLAKE3 of its canonical JSON.
    pub fn hash(&self) -> ContentHash {
        let value = serde_json::to_value(self).expect("text keys, and no number but whole ones");
        ContentHash::of(canonical(&value).as_bytes())
    }
}

/// JSON with its keys in order and no blanks, as RFC 8785 has it for values without fractions.
pub fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_has_one_form() {
        let value: Value =
            serde_json::from_str(r#" { "b" : [ 1, null , {"z":"\u00e9\n", "a":true} ], "a": "x" } "#)
                .unwrap();
        assert_eq!(canonical(&value), "{\"a\":\"x\",\"b\":[1,null,{\"a\":true,\"z\":\"é\\n\"}]}");
    }
}
