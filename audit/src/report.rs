//! What an audit says: values that are printed as they are, as JSON or as a table.

use serde::Serialize;
use starfarm_protocol::admin::OutputLoss;
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::state::Completion;
use starfarm_protocol::units::Units;

use crate::certificate::Certificate;

/// Violations of one job that are told in words; more are counted.
const TOLD_MAX: usize = 20;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// The job it is about; none where it is about the journal as a whole.
    pub job: Option<JobId>,
    /// First unit it is about.
    pub lo: Option<Units>,
    /// End of the units it is about, exclusive.
    pub hi: Option<Units>,
    /// What is wrong.
    pub what: String,
}

/// The first violations, and how many more there are.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub(crate) told: Vec<Violation>,
    pub(crate) untold: u64,
}

impl Violations {
    /// One more: of a job, or of the journal as a whole.
    pub(crate) fn add(&mut self, job: Option<JobId>, units: Option<(u128, u128)>, what: String) {
        if self.told.len() < TOLD_MAX {
            let (lo, hi) = units.map(|(lo, hi)| (Units(lo), Units(hi))).unzip();
            self.told.push(Violation { job, lo, hi, what });
        } else {
            self.untold += 1;
        }
    }

    /// Those of a job: they were chosen there already.
    pub(crate) fn join(&mut self, of_job: Self) {
        self.told.extend(of_job.told);
        self.untold += of_job.untold;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty() && self.untold == 0
    }
}

/// A job, as its records tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[allow(missing_docs, reason = "most fields are what their names say")]
pub struct JobReport {
    pub id: JobId,
    pub name: String,
    pub state: JobState,
    /// What its records come to.
    pub verdict: Completion,
    pub units_total: Units,
    pub units_done: Units,
    pub units_failed: Units,
    pub units_abandoned: Units,
    /// Different hits.
    pub hits: u64,
    /// Where the job has ended and nothing is wrong with it.
    pub certificate: Option<Certificate>,
    /// BLAKE3 of the certificate's canonical JSON.
    pub certificate_hash: Option<ContentHash>,
}

/// Units whose outputs must be on the disk and are not, or not as they were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LostOutput {
    /// The job.
    pub job: JobId,
    /// First unit.
    pub lo: Units,
    /// End, exclusive.
    pub hi: Units,
    /// What is wrong with them.
    pub what: OutputLoss,
}

/// A content that is not on the disk, or not what its hash says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LostContent {
    /// BLAKE3 of what it should be.
    pub hash: ContentHash,
    /// The job whose specification it is, or a piece of its list; none for another content.
    pub job: Option<JobId>,
    /// What is wrong with it.
    pub what: OutputLoss,
}

/// A merged result, or a file that the merging program made, that is not on the disk, or not what its hash says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LostMerged {
    /// The job.
    pub job: JobId,
    /// The file's path; of the result empty.
    pub name: String,
    /// What is wrong with it.
    pub what: OutputLoss,
}

/// What came of looking at outputs and contents.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Outputs {
    /// Units whose outputs must be there.
    pub units: Units,
    /// Outputs that are in the journal only, so far: the scheduler writes them when it starts.
    pub in_journal: Units,
    /// What is missing or damaged, by job and unit.
    pub lost: Vec<LostOutput>,
    /// Contents that are missing or damaged. Those of long outputs are among `lost` as well, by unit.
    pub contents: Vec<LostContent>,
    /// Merged results that are missing or damaged.
    pub merged: Vec<LostMerged>,
    /// Damaged contents that nothing names which counts; not looked for where the audit is of some jobs.
    pub idle_damaged: u64,
}

impl Outputs {
    pub(crate) fn are_whole(&self) -> bool {
        self.lost.is_empty() && self.contents.is_empty() && self.merged.is_empty()
    }
}

/// What the audit of a farm comes to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// The farm's identity.
    pub farm: String,
    /// Nothing is wrong.
    pub holds: bool,
    /// Records read.
    pub records: u64,
    /// Sequence of the last one.
    pub last_sequence: u64,
    /// The last epoch.
    pub epoch: u64,
    /// The jobs, by number.
    pub jobs: Vec<JobReport>,
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// Violations beyond those.
    pub violations_left_out: u64,
    /// The outputs, where they were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// What a person should know and what is not wrong.
    pub notes: Vec<String>,
}

impl Report {
    /// Leaves jobs out that are not among `ids`, with what is wrong with them. What is wrong with the
    /// journal stays: it is under every job. Outputs stay as they are: an audit looks only at those it is asked for.
    ///
    /// # Errors
    /// The first of `ids` that the records do not know.
    pub fn only(mut self, ids: &[JobId]) -> Result<Self, JobId> {
        if ids.is_empty() {
            return Ok(self);
        }
        let known = |id: &JobId| {
            self.jobs.iter().any(|job| job.id == *id) || self.violations.iter().any(|v| v.job == Some(*id))
        };
        if let Some(&missing) = ids.iter().find(|&id| !known(id)) {
            return Err(missing);
        }
        self.jobs.retain(|job| ids.contains(&job.id));
        self.violations.retain(|violation| violation.job.is_none_or(|job| ids.contains(&job)));
        let broken = self.jobs.iter().any(|job| job.verdict == Completion::Broken);
        let are_whole = self.outputs.as_ref().is_none_or(Outputs::are_whole);
        self.holds = self.violations.is_empty() && !broken && are_whole;
        Ok(self)
    }
}
