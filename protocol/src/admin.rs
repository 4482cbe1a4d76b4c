//! What an admin command asks and what the scheduler answers: JSON values, one request and one answer at a
//! time, over the local socket or the sealed TCP channel. Units are decimal strings; everything else that counts is a
//! number. The command line prints these very values as JSON. Contents alone go as raw bytes: their [`pieces`].

mod alarms;
pub mod explain;
pub mod frames;
mod graph;
pub mod lines;
mod merge;
mod node;
mod output;
pub mod pieces;
mod results;
mod status;
mod trace;
mod tree;
mod usage;

use serde::{Deserialize, Serialize};

use crate::ids::{ContentHash, JobId};
use crate::job::{JobState, MaxFailures, Sizing};
use crate::journal::record::JobTotals;
use crate::reason::Distrust;
use crate::resources::{Resource, Resources, cards};
use crate::seal::Role;
use crate::terms::{Limit, Terms};
use crate::trust::{Share, TrustChecks};
use crate::units::Units;
use crate::word::words;
pub use alarms::{AlarmChange, AlarmInfo, AlarmLine, AlarmPage, AlarmPath, AlarmsInfo};
pub use explain::{Explanation, Fact, FactValue, Reason, Rule, SizeInfo, Subject};
pub use graph::{EdgeInfo, GraphInfo, GraphLosses, GraphTimer, StageInfo};
pub use lines::EventLine;
pub use merge::{MergeInfo, MergeOutcome, MergeState, MergedFile};
pub use node::{DeviceInfo, DevicesInfo, NetworkInfo, NodeInfo, RateInfo};
pub use output::{ArchiveInfo, OutputInfo, OutputLoss, StreamInfo};
pub use results::{FailedInfo, HitInfo, LostOutputs, ResultsPage};
pub use status::StatusInfo;
pub use trace::{TraceLine, TracePage};
pub use tree::{
    MonitorScope, MonitorWish, OwnTree, PlaceCps, PostInfo, PostLoss, TreeInfo, TreeState, TreeSummary,
};
pub use usage::{JobTotalUsage, JobUsage, NodeUsage, Spread, UsageLine, UsageSpan};

/// Version of the JSON that the command line prints: the value of `schema` in each document is
/// `starfarm/NAME/VERSION`.
pub const SCHEMA_VERSION: u32 = 1;

/// A question or a command.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "a request's own lines say what its fields are")]
pub enum Request {
    /// Which of these contents the farm does not have, asked before a submission that needs them; answered with `Lacking`.
    /// The others stay for an hour, whether a job comes to need them or not.
    Lacking { hashes: Vec<ContentHash> },
    /// A content of a submission: a list's chunk, a part of an input, of so many bytes. Its [`pieces`] follow. Sent before
    /// [`Request::Submit`]; answered with `Done` when all pieces have come. After an error amid them the scheduler closes
    /// the connection.
    Put { hash: ContentHash, bytes: u64 },
    /// A new job.
    Submit(Submit),
    /// The jobs with these numbers; of none: all jobs.
    Jobs { ids: Vec<JobId> },
    /// What a user does to a job.
    Job { id: JobId, command: JobCommand },
    /// Answered when the job has ended, when it is paused and was not at first, or with the job as it is after
    /// `timeout_ms`.
    Wait { id: JobId, timeout_ms: u64 },
    /// All nodes.
    Nodes,
    /// What a user does to the node of this name.
    Node { name: String, command: NodeCommand },
    /// A page of a job's results: behind the first `skip` hits, failed units and outputs, at most `take` of each.
    Results { id: JobId, skip: u64, take: u64 },
    /// The results of a job are merged again.
    Merge { id: JobId },
    /// What came of merging a job's results, or with `file` a file that a program made of them, from `offset` on, in
    /// pieces; answered with `Bytes`.
    Merged { id: JobId, file: Option<String>, offset: u64 },
    /// Which outputs of a job are missing or damaged on the scheduler's disk: behind the first `skip` intervals of units,
    /// at most `take`, and with `all` also those of runs that do not count; answered with `LostOutputs`.
    LostOutputs { id: JobId, all: bool, skip: u64, take: u64 },
    /// The units of a job whose outputs are missing or damaged are wanted again; answered with `Rerun`.
    Rerun { id: JobId },
    /// Why a job or a node is as it is; answered with `Explanation`.
    Explain(Subject),
    /// The farm's online figures.
    Status,
    /// What happened lately: the newest `take` lines behind number `after`, the last one that the caller has; answered
    /// with `Events`.
    Events { after: u64, take: u64 },
    /// What went to nodes and came back lately, task by task: the newest `take` lines behind number `after`; answered with
    /// `Events`. Told for some seconds after each such request, on a farm where more goes and comes than a person can
    /// read only in part: the rest is among those that are missed.
    TaskEvents { after: u64, take: u64 },
    /// The monitoring tree, post by post; answered with `Tree`.
    Tree,
    /// Alarms that stand; answered with `Alarms`.
    Alarms,
    /// What became of alarms lately: the oldest that are kept behind number `after`; answered with `AlarmPage`.
    AlarmsAfter { after: u64 },
    /// What programs of units have told: the oldest that are kept behind number `after`, at most `take` and a thousand, where
    /// it is said of a job or a node those alone; answered with `TracePage`.
    Trace { after: u64, take: u64, about: Option<Subject> },
    /// All back ends are to have these stages beside their own: the text of a farm's file.
    LoadStages { text: String },
    /// The graph of a node's agent; answered with `Graph`.
    Graph { node: String },
    /// The agent of a node is to carry out an order, as `monitor control` describes them.
    OrderStages { node: String, order: String },
    /// What a job or a node used in the last two minutes; answered with `UsageLine`, an empty one where nothing is known.
    UsageLine(Subject),
    /// The tree is planned anew, and is to be so from now on: by a strategy, or as the text of a topology file says.
    FormTree { strategy: PlaceCps, fanout: u32, topology: Option<String> },
    /// What is to be measured, and how often.
    Monitor(MonitorWish),
    /// All keys.
    Keys,
    /// A new join key for those of a role; answered with a join file's text.
    AddKey { role: Role },
    /// A key is not welcome any more: a node's by its name, a public key, or a join key by its id; answered with `Keys`,
    /// that key as it is then.
    RevokeKey { key: String },
    /// A blob by its hash from `offset` on, in pieces; answered with `Bytes`, or with `Lost`.
    Fetch { hash: ContentHash, offset: u64 },
}

/// What a user does to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobCommand {
    /// End it; keep what is done.
    Cancel,
    /// Give out nothing more of it; running tasks stop at a unit's end.
    Pause,
    /// Go on.
    Resume,
    /// Put it at the head of jq: it is next.
    Front,
    /// Run it at once; the running job goes to the head of jq.
    Switch,
    /// Forget it. It must have ended.
    Delete,
    /// What failed is wanted again.
    Retry,
    /// One of its limits is another from now on. It must not have ended.
    Limit(Limit),
}

/// What a user does to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeCommand {
    /// No new tasks; what it has is finished.
    Drain,
    /// Tasks again.
    Resume,
    /// Drop it from the list. It must be lost.
    Forget,
}

/// Where in jq a new job goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The tail.
    #[default]
    Tail,
    /// The head: it is next.
    Front,
    /// At once: the running job goes to the head of jq.
    Now,
}

/// A new job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// The user's name for it.
    pub name: String,
    /// Who submits it.
    pub user: String,
    /// The specification, as [`crate::spec::JobSpec::to_bytes`] writes it.
    pub spec: String,
    /// How large its tasks are.
    #[serde(default)]
    pub sizing: Sizing,
    /// Where in jq.
    pub place: Place,
    /// How many failed units it bears.
    #[serde(default)]
    pub max_failures: MaxFailures,
    /// Near its end idle nodes get copies of what others still compute; none: yes for a search, no for
    /// commands.
    #[serde(default)]
    pub speculative: Option<bool>,
    /// How the results of a search are checked beyond what always is.
    #[serde(default, skip_serializing_if = "TrustChecks::is_off")]
    pub trust: TrustChecks,
    /// Which jobs it starts after, its labels, how many nodes it may have.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub terms: Terms,
    /// Where a job of this name and specification has not ended, that one is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "an answer's own lines say what its fields are")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Response {
    /// Carried out.
    Done,
    /// Contents that the farm does not have whole, in the order of the request.
    Lacking { hashes: Vec<ContentHash> },
    /// The new job's number.
    Submitted(JobId),
    /// Jobs.
    Jobs(Vec<JobInfo>),
    /// Nodes.
    Nodes(Vec<NodeInfo>),
    /// A page of results.
    Results(ResultsPage),
    /// Outputs that are missing or damaged, by unit, and whether more follow.
    LostOutputs { lost: Vec<LostOutputs>, more: bool },
    /// So many units are wanted again.
    Rerun(Units),
    /// Why.
    Explanation(Explanation),
    /// Figures.
    Status(StatusInfo),
    /// What happened, oldest first, and how many lines behind `after` are not among these: gone, or more than were asked
    /// for.
    Events { events: Vec<EventLine>, missed: u64 },
    /// The monitoring tree.
    Tree(TreeInfo),
    /// Alarms.
    Alarms(AlarmsInfo),
    /// What became of alarms.
    AlarmPage(AlarmPage),
    /// What programs have told.
    TracePage(TracePage),
    /// An agent's graph.
    Graph(GraphInfo),
    /// What something used of late.
    UsageLine(UsageLine),
    /// Keys.
    Keys(Vec<KeyInfo>),
    /// Text of a join file.
    JoinFile(String),
    /// The next bytes of a content, so many; none at its end. They follow in [`pieces`].
    Bytes {
        bytes: u64,
        #[serde(skip)]
        content: Vec<u8>,
    },
    /// The blob cannot be had.
    Lost(OutputLoss),
    /// Not carried out.
    Error(Error),
}

impl Response {
    /// The next bytes of a content.
    pub fn of(content: Vec<u8>) -> Self {
        Self::Bytes { bytes: content.len() as u64, content }
    }
}

/// Why a request was not carried out; callers branch on `code`, never on the text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Error {
    /// What kind of error.
    pub code: ErrorCode,
    /// A sentence that says what to do.
    pub message: String,
}

/// Kinds of error; the command line's exit codes follow from these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request makes no sense: exit code 2.
    Usage,
    /// No such job, node or key: 4.
    NotFound,
    /// The caller's role may not do that: 5.
    Refused,
    /// It does not fit the state of things: 6.
    Conflict,
}

/// A job.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobInfo {
    /// Its number.
    pub id: JobId,
    /// The user's name for it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Its state.
    pub state: JobState,
    /// BLAKE3 of its specification.
    pub spec: ContentHash,
    /// Units of the job.
    pub units_total: Units,
    /// More units may follow: a program names them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grows: bool,
    /// Units done.
    pub units_done: Units,
    /// Units failed for good.
    pub units_failed: Units,
    /// Units at nodes.
    pub units_out: Units,
    /// Units that wait, cut or not.
    pub units_pending: Units,
    /// Units that nobody wants any more.
    pub units_abandoned: Units,
    /// Hits found.
    pub hits: u64,
    /// Units per second of all live slots, as results say; no more than were seen to come lately.
    pub units_per_s: f64,
    /// Seconds until its end at that speed; none where unknown.
    pub eta_seconds: Option<f64>,
    /// Seconds since submission.
    pub age_seconds: f64,
    /// Seconds from its first task to its end, or to now.
    pub run_seconds: Option<f64>,
    /// Its counters and times.
    #[serde(flatten)]
    pub totals: JobTotals,
    /// Mean units of the tasks cut from its space.
    pub task_units_mean: f64,
    /// Nodes that cannot run it, and why.
    pub refused_by: Vec<Refusal>,
    /// Why it is paused, where the farm paused it; else empty.
    pub note: String,
    /// Runs of units that wrote more than the job's `output_limit`: head and tail are kept.
    #[serde(default)]
    pub outputs_cut: u64,
    /// Bytes that its outputs take on the scheduler's disk.
    #[serde(default)]
    pub stored_bytes: u64,
    /// The first units that failed for good; only where the job was asked for by its number.
    pub failures: Vec<FailedInfo>,
    /// The first units of which two nodes said different things; likewise.
    pub conflicts: Vec<ConflictInfo>,
    /// What a unit takes, where that is other than one slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<NeedsInfo>,
    /// Which jobs it starts after, its labels, how many nodes it may have.
    #[serde(flatten)]
    pub terms: Terms,
    /// Those of the jobs it starts after that it waits for.
    #[serde(default)]
    pub waits_for: Vec<JobId>,
    /// What became of its results, where they are to be merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeInfo>,
    /// Of a job that asked for trust checks, or that has results which were untrue or are doubtful; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustInfo>,
    /// What its units use that run; null where the monitor knows nothing of it.
    #[serde(default)]
    pub usage: Option<JobUsage>,
    /// What its units have used in all; null where the monitor knows nothing of it, or the scheduler has started since.
    #[serde(default)]
    pub usage_total: Option<JobTotalUsage>,
}

/// What a unit takes of its node while it runs.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NeedsInfo {
    /// Slots.
    pub slots: u64,
    /// Memory that it claims.
    pub memory_bytes: u64,
    /// Cards that it has to itself, or its share of one.
    #[serde(default)]
    pub gpus: f64,
}

impl NeedsInfo {
    /// None where it is one slot.
    pub fn of(run: Resources) -> Option<Self> {
        let (slots, memory_bytes) = (run.of(Resource::Slots), run.of(Resource::Memory));
        let gpus = cards(run.of(Resource::Gpus));
        (run != Resources::ONE_SLOT).then_some(Self { slots, memory_bytes, gpus })
    }
}

/// What came of a job's trust checks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TrustInfo {
    /// The share of its units that is computed twice.
    pub check: Share,
    /// Units that a second node computed, with the same result.
    pub units_checked: Units,
    /// Planted answers.
    pub planted: u64,
    /// Those that were found.
    pub planted_found: u64,
    /// The first results that were untrue.
    pub untrue: Vec<UntrueInfo>,
    /// The first nodes whose results were found to be untrue after the job had ended.
    pub doubtful: Vec<DoubtfulInfo>,
}

/// A node whose results are not trusted computed a part of a job that had ended before that was known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DoubtfulInfo {
    /// Its name; none where it was forgotten long ago.
    pub node: Option<String>,
    /// Units that it computed.
    pub units: Units,
}

/// A result was untrue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UntrueInfo {
    /// The unit at which it was.
    pub unit: Units,
    /// Whose result it was; none where that node was forgotten long ago.
    pub node: Option<String>,
    /// What was untrue.
    pub why: Distrust,
    /// The node that said otherwise and was believed; none where it was forgotten long ago, and where no node said otherwise: the
    /// scheduler knew by itself, or believed what was counted first.
    pub believed: Option<String>,
    /// A node said otherwise and was believed, and was forgotten long ago.
    pub believed_forgotten: bool,
}

/// Two nodes said different things of the same units. `untrue` says which of them is not believed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConflictInfo {
    /// First unit.
    pub lo: Units,
    /// End, exclusive.
    pub hi: Units,
    /// The node whose result came second; none where it was forgotten long ago.
    pub node: Option<String>,
}

/// A node cannot run a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The node's name.
    pub node: String,
    /// Its words.
    pub why: String,
}

words! {
    /// What a key is.
    KeyKind {
        /// That of a machine or a person that has enrolled.
        Enrolled => "enrolled",
        /// One to enrol with.
        Join => "join",
    }
}

/// A key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeyInfo {
    /// What it is.
    pub kind: KeyKind,
    /// The public key, or the join key's id.
    pub id: String,
    /// The node's or person's name; empty for a join key.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// It is not welcome any more.
    pub revoked: bool,
}
