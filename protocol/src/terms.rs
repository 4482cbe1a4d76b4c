//! What holds of a job beside its units and its work: which jobs it starts after, its labels, how many nodes may
//! work for it at once, and how much it may store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::metric::{Metric, PERIODS_US};

/// Jobs that one job may start after, of each kind.
pub const AFTER_MAX: usize = 100;
/// Labels of a job.
pub const LABELS_MAX: usize = 32;
/// Characters of a label's key, and of its value.
const LABEL_CHARS_MAX: [usize; 2] = [63, 200];

/// The terms of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// It starts when these have finished, and is cancelled when one of them has failed or was cancelled.
    pub after: Vec<JobId>,
    /// It starts when these have ended, in whatever way.
    pub after_any: Vec<JobId>,
    /// A user's labels.
    pub labels: BTreeMap<String, String>,
    /// At most so many nodes have tasks of it at once, 1 or more; none: any number.
    pub max_nodes: Option<u32>,
    /// It is paused when its outputs take so many bytes, 1 or more; none: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_limit: Option<u64>,
    /// What is measured of it; none: what is of all jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<Monitored>,
}

impl Terms {
    /// It has a tree of its own, by which its figures come.
    pub fn own_tree(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.own_tree)
    }
}

/// What is measured of a job, and how often, until a person says otherwise while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Monitored {
    /// How often, in microseconds: one of [`PERIODS_US`], or 0 for never.
    pub period_us: u64,
    /// Which metrics; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// By a tree of its own, and not by the farm's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own_tree: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_false(is: &bool) -> bool {
    !is
}

/// A limit of a job that a person changes, as it is from then on; none: it has no such limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// [`Terms::max_nodes`].
    MaxNodes(Option<u32>),
    /// [`Terms::storage_limit`], in bytes.
    StorageLimit(Option<u64>),
}

impl Limit {
    /// Whether a job may have this limit.
    ///
    /// # Errors
    /// It may not; the sentence says what to change.
    pub fn check(self) -> Result<(), String> {
        let mut terms = Terms::default();
        terms.set(self);
        terms.check()
    }
}

impl Terms {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All jobs that it starts after.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.after.iter().chain(&self.after_any).copied()
    }

    /// It has to wait for other jobs before it starts.
    pub fn waits(&self) -> bool {
        self.jobs().next().is_some()
    }

    /// Whether a job may have these terms, whatever other jobs there are.
    ///
    /// # Errors
    /// It may not; the sentence says what to change.
    pub fn check(&self) -> Result<(), String> {
        for (key, jobs) in [("after", &self.after), ("after_any", &self.after_any)] {
            if jobs.len() > AFTER_MAX {
                let count = jobs.len();
                return Err(format!("`{key}` names {count} jobs: name {AFTER_MAX} at most"));
            }
        }
        if self.max_nodes == Some(0) {
            return Err("max_nodes is 1 or more: change it, or leave it out".to_owned());
        }
        if self.storage_limit == Some(0) {
            return Err("storage_limit is 1 byte or more: change it, or leave it out".to_owned());
        }
        let period_us = self.monitor.as_ref().map_or(0, |monitor| monitor.period_us);
        if period_us > 0 && !PERIODS_US.contains(&period_us) {
            return Err("`period` of [monitor] is 0.1 to 3600 seconds, or 0 for never: change it".to_owned());
        }
        if self.labels.len() > LABELS_MAX {
            return Err(format!("a job has {LABELS_MAX} labels at most, not {}", self.labels.len()));
        }
        self.labels.iter().try_for_each(|(key, value)| check_label(key, value))
    }

    /// One of the limits is another from now on.
    pub fn set(&mut self, limit: Limit) {
        match limit {
            Limit::MaxNodes(nodes) => self.max_nodes = nodes,
            Limit::StorageLimit(bytes) => self.storage_limit = bytes,
        }
    }

    /// It has all of these labels.
    pub fn has_labels(&self, labels: &[(String, String)]) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

/// Whether a job may have this label.
///
/// # Errors
/// It may not, in words.
pub fn check_label(key: &str, value: &str) -> Result<(), String> {
    let is_key = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let [key_max, value_max] = LABEL_CHARS_MAX;
    if key.is_empty() || !key.chars().all(is_key) || key.chars().count() > key_max {
        return Err(format!(
            "a label's key is 1 to {key_max} letters, digits, `_`, `-`, `.` or `/`, not {key:?}: change it"
        ));
    }
    if value.contains(char::is_control) || value.chars().count() > value_max {
        return Err(format!(
            "the value of label {key} must be one line of text, of at most {value_max} characters: change it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(key: &str, value: &str) -> Terms {
        Terms { labels: [(key.to_owned(), value.to_owned())].into(), ..Terms::default() }
    }

    #[test]
    fn terms_that_cannot_be_are_refused_in_words() {
        let many = Terms { after_any: vec![JobId(1); AFTER_MAX + 1], ..Terms::default() };
        let none = Terms { max_nodes: Some(0), ..Terms::default() };
        let often = Monitored { period_us: 99_999, metrics: Vec::new(), own_tree: true };
        let often = Terms { monitor: Some(often), ..Terms::default() };
        let nothing = Terms { storage_limit: Some(0), ..Terms::default() };
        for (terms, words) in [
            (often, "`period` of [monitor] is 0.1 to 3600 seconds"),
            (nothing, "storage_limit is 1 byte or more"),
            (many, "`after_any` names 101 jobs"),
            (none, "max_nodes is 1 or more"),
            (labelled("", "x"), "a label's key is 1 to 63"),
            (labelled("a b", "x"), "a label's key is 1 to 63"),
            (labelled("a=b", "x"), "a label's key is 1 to 63"),
            (labelled("a", "x\ny"), "one line of text"),
            (labelled("a", &"x".repeat(201)), "at most 200 characters"),
        ] {
            let why = terms.check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        assert_eq!(labelled("team/größe", "a = b").check(), Ok(()));
        assert_eq!(Terms::default().check(), Ok(()));
    }

    #[test]
    fn a_limit_that_a_person_changes_is_one_that_a_job_could_be_submitted_with() {
        for (limit, words) in [
            (Limit::MaxNodes(Some(0)), "max_nodes is 1 or more"),
            (Limit::StorageLimit(Some(0)), "storage_limit is 1 byte or more"),
        ] {
            assert!(limit.check().is_err_and(|why| why.contains(words)), "{limit:?}");
        }
        let mut terms = labelled("a", "b");
        for limit in [Limit::MaxNodes(Some(2)), Limit::StorageLimit(Some(1)), Limit::MaxNodes(None)] {
            assert_eq!(limit.check(), Ok(()));
            terms.set(limit);
        }
        assert_eq!(terms, Terms { storage_limit: Some(1), ..labelled("a", "b") });
        let json = serde_json::to_string(&[Limit::MaxNodes(None), Limit::StorageLimit(Some(7))]).unwrap();
        assert_eq!(json, r#"[{"max_nodes":null},{"storage_limit":7}]"#);
        assert_eq!(serde_json::from_str::<[Limit; 2]>(&json).unwrap()[0], Limit::MaxNodes(None));
    }

    #[test]
    fn a_job_is_selected_by_all_labels_together() {
        let terms = Terms {
            labels: [("a", "1"), ("b", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..Terms::default()
        };
        let has = |labels: &[(&str, &str)]| {
            let labels: Vec<_> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            terms.has_labels(&labels)
        };
        assert!(has(&[]) && has(&[("a", "1")]) && has(&[("b", "2"), ("a", "1")]));
        assert!(!has(&[("a", "2")]) && !has(&[("a", "1"), ("c", "1")]));
    }
}
