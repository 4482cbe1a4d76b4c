//! Why something waits, idles or got this size: a question about one job or node, and what the scheduler found out, as
//! data. The command line makes the sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::devices::{DeviceFacts, DeviceNeeds};
use crate::ids::JobId;
use crate::job::JobState;
use crate::reason::{Distrust, HoldReason, QuarantineReason};
use crate::resources::Resource;
use crate::units::Units;
use crate::word::words;

/// What is to be explained.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// The job of this number.
    Job(JobId),
    /// The node of this name.
    Node(String),
}

/// Why a job or a node is as it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// What was asked about.
    pub subject: Subject,
    /// All that plays a part, what matters most first.
    pub reasons: Vec<Reason>,
    /// Place in `reasons` of the one that decides, from 0 on.
    pub verdict: usize,
    /// Size of the next task, for each node of the job or each job of the node.
    pub sizes: Vec<SizeInfo>,
    /// What else is true of it.
    pub facts: Vec<Fact>,
}

/// Something that plays a part.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Why the job waits, or that it does not.
    Job(JobReason),
    /// Where something of the job is.
    Place(PlaceReason),
    /// What befell units of the job, or of a job on the node.
    Unit(UnitReason),
    /// Why the node is kept out.
    KeptOut(NodeReason),
    /// What the node does.
    Work(WorkReason),
    /// What this job has for the node.
    Offer(JobId, OfferReason),
    /// Programs wait: the scheduler's disk has no room for what they write.
    NoDisk,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum JobReason {
    /// The farm paused it, and why; or a person did.
    Paused { why: Option<HoldReason> },
    /// `units` may be at nodes known before the restart; in `release_us` those that no node reports go back to gq.
    Restart { units: Units, release_us: u64 },
    /// No node takes tasks: how many there are, by state (`left` and `no_hello` too), and whether one gets probes.
    NoNode { states: BTreeMap<String, u64>, probed: bool },
    /// All nodes that take tasks have refused it.
    RefusedByAll,
    /// A run of it takes more of something than any node has that takes tasks.
    FitsNowhere { needs: Vec<(Resource, u64)> },
    /// All that is left are units that some nodes' disks have no room for, and this is the first.
    WaitsForRoom { unit: Units },
    /// A run of it does not fit on `node`.
    TooSmall { node: String, lack: Lack },
    /// Nor on so many more nodes.
    TooSmallMore { nodes: u64 },
    /// It runs on devices like that, and no node that takes tasks has one.
    NoDeviceAnywhere { needs: DeviceNeeds },
    /// It runs on devices like that, and `node` has these alone.
    NoDevice { node: String, needs: DeviceNeeds, has: Vec<DeviceFacts> },
    /// Nodes take tasks, and all that have not refused it leave by themselves before one of it would be over.
    NoTime,
    /// `node` refused it in these words, and is asked again in `again_us`.
    Refused { node: String, why: String, again_us: u64 },
    /// So many more nodes refused it.
    RefusedByMore { nodes: u64 },
    /// It is number `place` of `of` in jq. Before it go `units` of `job` and `other_units` of `other_jobs`.
    Behind { place: u64, of: u64, job: JobId, units: Units, other_jobs: u64, other_units: Units },
    /// Nodes that could take it hold all that they may, with `tasks` of other jobs.
    NoRoom { tasks: u64 },
    /// It may be given out up to unit `durable`; a record on its way to the disk moves that to `mark`.
    Lease { durable: Units, mark: Units },
    /// Its decomposer has named `units` so far, and none of them waits.
    Decomposer { units: Units },
    /// The `units` that are left are at nodes. Idle nodes get copies of late ones or not; none where it is paused.
    AllOut { units: Units, copies: Option<bool> },
    /// So many nodes have tasks of it, and so many take tasks.
    Runs { nodes: u64, taking: u64 },
    /// It has ended, with so many units in each class, and `ago_us` if that is known.
    Ended { state: JobState, ago_us: Option<u64>, of: Units, done: Units, failed: Units, abandoned: Units },
    /// Units failed for good.
    FailedUnits,
    /// It starts when these jobs have ended; what is left of them.
    After { jobs: Vec<JobId> },
    /// It was to start after this job, which did not end well.
    AfterFailed { job: JobId, state: JobState },
    /// So many nodes have tasks of it, as many as it may have at once.
    MaxNodes { nodes: u32 },
}

/// A node has too little of something for a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lack {
    /// Of what.
    pub resource: Resource,
    /// How much of it a run takes.
    pub needs: u64,
    /// How much of it the node has.
    pub has: u64,
}

/// Where something of a job is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum PlaceReason {
    /// `node` has had the units from `lo` up to `hi` for `for_us`. Another one may have a copy since `copy.1` microseconds.
    AtNode { node: String, lo: Units, hi: Units, for_us: u64, offer: OfferState, copy: Option<(String, u64)> },
    /// So many more tasks are at nodes, none of them older.
    MoreAtNodes { tasks: u64 },
    /// No node has reported the units from `lo` up to `hi` since the restart.
    Unclaimed { lo: Units, hi: Units },
    /// Nor `units` in so many more ranges.
    MoreUnclaimed { ranges: u64, units: Units },
}

/// What is known of a task that a node has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferState {
    /// It was not sent yet.
    Assigned,
    /// It was sent, and is not acknowledged yet.
    Offered,
    /// The node confirmed it so many microseconds ago.
    Held(u64),
}

/// What befell units that are not given up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum UnitReason {
    /// A unit has run for `for_us` where such a task takes `usual_us`, 0 where that is not known. Its job allows copies or
    /// not, and its units are programs or not.
    Hangs { job: JobId, unit: Units, node: String, for_us: u64, usual_us: u64, copies: bool, program: bool },
    /// A unit may have been running when workers died, so many `times`, on these nodes (one that is forgotten has no name) and
    /// `more`; at `most` it is poison.
    SuspectUnit { unit: Units, times: u64, on: Vec<Option<String>>, more: u64, most: u64 },
    /// A unit failed so many `times`, on these nodes and `more`, likewise, and is tried again.
    TriedAgain { unit: Units, times: u64, on: Vec<Option<String>>, more: u64 },
    /// The disks of these nodes and `more`, likewise, have no room for a unit's files.
    LacksRoom { unit: Units, on: Vec<Option<String>>, more: u64 },
    /// So many other units are like the last one, whose reason has that code.
    Others { code: String, units: u64 },
}

/// Why a node is kept out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum NodeReason {
    /// Its key was revoked.
    Revoked,
    /// Its worker said goodbye.
    Left { silence: Silence },
    /// It was silent for more than `lost_us`; `units` of it went back to gq.
    Lost { silence: Silence, lost_us: u64, units: Units },
    /// It opened its first session, or another one, and has not said hello in it.
    NoHello { again: bool },
    /// It was silent for more than `suspect_us`; after `lost_us` it is lost with its tasks.
    Suspect { silence: Silence, suspect_us: u64, lost_us: u64, tasks: u64 },
    /// A person drains it; it may be lost as well.
    Drained { lost: bool },
    /// Its worker stops.
    Stopping,
    /// Its results are not trusted.
    Distrusted { why: Distrust },
    /// It gets a probe in `probe.0` microseconds and another one no sooner than `probe.1` later, unless it is drained as
    /// well. No `why`: it let tasks vanish.
    Quarantined { why: Option<QuarantineReason>, probe: Option<(u64, u64)> },
    /// It said of the units from `lo` up to `hi` what others did not.
    Conflict { job: JobId, lo: Units, hi: Units },
}

/// For how long a node was not heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// For so many microseconds.
    For(u64),
    /// Since before the scheduler's start so many microseconds ago.
    SinceBefore(u64),
}

/// What a node does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum WorkReason {
    /// It has `tasks` of a job, or `ranges` of units that a heartbeat joined, the oldest for `for_us`.
    Busy { job: JobId, tasks: u64, ranges: bool, units: Units, for_us: u64 },
    /// Its last heartbeat named these units as running, and so many more.
    Running { units: Vec<(JobId, Units)>, more: u64 },
    /// It has `held` tasks and may hold `tasks`: `a_slot` for each slot, changed by `steps`; its own queue takes `queue`.
    Window { held: u64, tasks: u64, a_slot: u64, slots: u16, ahead: AheadInfo, steps: i64, queue: u32 },
    /// It idles: there is no unfinished job.
    NoJob,
    /// It idles: jobs are paused.
    Paused,
    /// It idles: it refused the jobs.
    Refused,
    /// It idles: all that is left is at others.
    NothingLeft,
    /// It idles: no run of what waits fits there.
    TooSmall,
    /// It idles: the jobs wait for other jobs to end.
    After,
    /// It idles: the jobs have as many nodes as they may have.
    MaxNodes,
    /// It idles: it leaves in `left_us`, before a task of what waits would be over.
    NoTime { left_us: u64 },
    /// It gets a task in a moment.
    Waiting,
}

/// How much work a node is to have ahead.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AheadInfo {
    /// Nothing: a run of this job computes a whole task, and what starting takes is still being learnt, or little is left.
    Nothing(JobId),
    /// The least: how long its tasks take is still being learnt.
    Learning,
    /// So many microseconds: little of this job is left.
    Scarce(JobId, u64),
    /// So many microseconds.
    Full(u64),
}

/// What a job has for a node that idles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a reason's own line says what its numbers are")]
pub enum OfferReason {
    /// Nothing while it is paused.
    Paused { why: Option<HoldReason> },
    /// The node refused it in these words, and is asked again in `again_us`.
    Refused { why: String, again_us: u64 },
    /// A run of it does not fit there.
    TooSmall { lack: Lack },
    /// It runs on devices like that, and the node has these alone.
    NoDevice { needs: DeviceNeeds, has: Vec<DeviceFacts> },
    /// The last `units` are at others; the node gets a copy of a late one, or not.
    AllOut { units: Units, copies: bool },
    /// The node failed its last units of it, and gets one at a time.
    Doubted,
    /// Nothing before these jobs have ended.
    After { jobs: Vec<JobId> },
    /// So many other nodes have tasks of it, as many as it may have at once.
    MaxNodes { nodes: u32 },
    /// More once a record is on the disk.
    Lease,
    /// The node leaves before a task of it would be over.
    NoTime,
    /// So many units wait.
    Waits { units: Units },
}

/// Something that is true.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, always the same.
    pub name: String,
    /// Its value.
    pub value: FactValue,
}

/// The value of a fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactValue {
    /// A state.
    Word(String),
    /// A count.
    Count(Units),
    /// Amounts of resources.
    Amounts(Vec<(Resource, u64)>),
    /// A place, and of how many.
    Place(u64, u64),
    /// A time in microseconds.
    Lasts(u64),
    /// So many microseconds ago.
    Ago(u64),
    /// When it was heard last.
    Silence(Silence),
}

words! {
    /// What decided the size of a task.
    Rule {
        /// The user named the units.
        Fixed => "fixed",
        /// Nothing was measured yet: a small first task tells.
        First => "first",
        /// The target time.
        Target => "target",
        /// Sizes grow by steps.
        Growth => "growth",
        /// Little is left of the job.
        Tail => "tail",
        /// The node leaves by itself soon.
        TimeLeft => "time_left",
    }
}

/// The size of the next task of a job on a node, and what it was chosen from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SizeInfo {
    /// The job.
    pub job: JobId,
    /// The node.
    pub node: String,
    /// The model of the devices there that it is for; none for its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Units of the task.
    pub units: Units,
    /// What decided.
    pub rule: Rule,
    /// Measured units per second of a slot there, or the mean of the other nodes; 0 where nothing was measured.
    pub units_per_s: f64,
    /// That speed was measured on this node.
    pub measured: bool,
    /// What a program takes to start there, learnt from runs of unlike sizes; none where one run is of one unit, or nobody
    /// knows yet.
    #[serde(default)]
    pub start_seconds: Option<f64>,
    /// Computing time that a task should take: the job's, or four starts if these are longer; none with fixed units.
    pub target_seconds: Option<f64>,
    /// Units that take so long at that speed; none where there is no speed or no target.
    pub target_units: Option<Units>,
    /// Sizes grow by steps: no larger than this yet; likewise.
    pub growth_units_max: Option<Units>,
    /// Near the end tasks shrink: no larger than this; none with fixed units.
    pub tail_units_max: Option<Units>,
    /// A task that lies in gq already is given whole up to this size, else cut.
    pub units_max: Units,
}
