//! One enum of what can happen on a farm, its form, and its one-line text for a person.

use std::fmt;

use starfarm_protocol::admin::{AlarmChange, KeyKind, PostLoss};
use starfarm_protocol::devices::DeviceKind;
use starfarm_protocol::ids::{Boot, ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::link::AlarmLevel;
use starfarm_protocol::orders::PostKind;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::seal::Role;
use starfarm_protocol::state::{Completion, IdleReason, NodeState, Outcome};
use starfarm_protocol::wire::FailReason;

use crate::field::{Entry, Field, Fields, Form, FormError, Name, Value};

use crate::status::{JobUsage, Sample};
use crate::words::{after, became, counted, or_none, usual};

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobChange {
    /// It is in that state.
    To(JobState),
    /// A person had it forgotten.
    Deleted,
}

impl JobChange {
    const DELETED: &str = "deleted";

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::To(state) => state.word(),
            Self::Deleted => Self::DELETED,
        }
    }
}

impl serde::Serialize for JobChange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl Field for JobChange {
    fn value(&self) -> Option<Value<'_>> {
        Some(Value::Text(self.word()))
    }
    fn read(text: Option<&str>) -> Option<Self> {
        if text == Some(Self::DELETED) { Some(Self::Deleted) } else { Field::read(text).map(Self::To) }
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $kind:literal {
        $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)?
    } $(=> ($($text:tt)*))?)*; $($(#[$wdoc:meta])* $wrap:ident($inner:ty))*) => {
        /// Something happened. Nodes go by name, jobs by number; units are those of [lo, hi).
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs, reason = "most fields are what their names say")]
        pub enum Event {
            $($(#[$doc])* $variant { $($(#[$fdoc])* $field: $type,)* },)*
            $($(#[$wdoc])* $wrap($inner),)*
        }

        impl Event {
            /// Each kind with the names of its fields.
            pub const KINDS: &'static [(&'static str, &'static [&'static str])] =
                &[$(($kind, &[$(stringify!($field)),*]),)* $((<$inner>::KIND, <$inner>::FIELDS)),*];

            /// From its kind and its fields.
            ///
            /// # Errors
            /// No such kind, or a field is absent or makes no sense.
            pub fn read(kind: &str, fields: &(impl Fields + ?Sized)) -> Result<Self, FormError> {
                match kind {
                    $($kind => Ok(Self::$variant {
                        $($field: crate::field::read(fields, $kind, stringify!($field))?,)*
                    }),)*
                    $(_ if kind == <$inner>::KIND => Ok(Self::$wrap(<$inner>::read(fields)?)),)*
                    _ => Err(FormError::Kind(kind.to_owned())),
                }
            }
        }

        impl Form for Event {
            fn kind(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $kind,)* $(Self::$wrap(inner) => inner.kind(),)* }
            }

            fn each<'a>(&'a self, show: &mut dyn FnMut(&'static str, Value<'a>)) {
                match self {
                    $(Self::$variant { $($field,)* } => {
                        $(if let Some(value) = Field::value($field) {
                            show(stringify!($field), value);
                        })*
                    })*
                    $(Self::$wrap(inner) => inner.each(show),)*
                }
            }
        }

        impl fmt::Display for Event {
            #[allow(unused_variables, reason = "no text tells all fields")]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant { $($field,)* } => text!(self, f $(, $($text)*)?),)*
                    $(Self::$wrap(_) => text!(self, f),)*
                }
            }
        }
    };
}

/// An event's text; of one that is for pictures, all that it holds.
macro_rules! text {
    ($event:expr, $f:expr) => {
        $event.fmt_form($f)
    };
    ($event:expr, $f:expr, $($text:tt)*) => {
        write!($f, $($text)*)
    };
}

events! {
    /// A worker said hello.
    NodeJoined = "node_joined" { node: Name, boot: Boot, slots: u16 }
        => ("node {node} joined: {}, boot {:016x}", counted(*slots, "slot"), boot.0)
    /// A node told what it is made of.
    NodeFacts = "node_facts" {
        node: Name, system: String, cpu: String, cores: u32, memory_bytes: u64,
        /// Model and number of its accelerators; empty for none.
        accelerators: String,
    }
    /// A node told of devices that are alike, and run tasks beside its cores, or one of them failed or can be used again.
    NodeDevices = "node_devices" {
        node: Name,
        /// The number of their kind in their node.
        kind: u64,
        model: String, device: DeviceKind, driver: String, memory_bytes: u64, compute_units: u32,
        /// How many there are.
        devices: u64,
        /// Of these, how many failed and are tried again later.
        sick: u64,
    } => (
        "node {node} has {} {model} ({device}){}",
        counted(*devices, "device"),
        if *sick == 0 { String::new() } else { format!(", {sick} of them sick: tried again later") }
    )
    /// A node told that it leaves by itself, and when: a batch system ends it.
    NodeTimeLeft = "node_time_left" { node: Name, time_left_us: u64 }
        => ("node {node} leaves by itself in {:.0} s", *time_left_us as f64 / 1e6)
    /// A node's state changed. Pictures go by this alone.
    NodeState = "node_state" { node: Name, state: NodeState, why: Option<String> }
    /// A node has nothing to do.
    NodeIdle = "node_idle" { node: Name, reason: IdleReason }
    /// A node that had nothing to do has tasks again.
    NodeBusy = "node_busy" { node: Name }
    /// How a node does, where anything changed: every sixth period, which is a minute by default, on a large farm every
    /// sixtieth at most.
    NodeLoad = "node_load" {
        node: Name,
        /// Tasks of dq that it has.
        tasks: u64,
        /// Tasks in its own queue.
        queued: u64,
        /// Standard tasks a period.
        power: f64,
        /// Load of each slot since the last report, in thousandths.
        load: Vec<u64>,
        /// The same of each device, kind by kind.
        devices: Vec<u64>,
        /// How long no slot has run anything.
        idle_us: u64,
        tasks_done: u64, units_done: u128, speed_ups: u64, slow_downs: u64,
    }
    /// A node was not heard for a while; it gets no new tasks.
    NodeSuspect = "node_suspect" { node: Name } => ("node {node} suspect: no heartbeat")
    /// A node was not heard for long; its tasks went back to gq.
    NodeLost = "node_lost" { node: Name, tasks: u64 }
        => ("node {node} lost: {} back to gq", counted(*tasks, "task"))
    /// A suspect or lost node is heard again.
    NodeBack = "node_back" { node: Name } => ("node {node} is back")
    /// A node takes no new tasks, by command or because its worker stops.
    NodeDraining = "node_draining" { node: Name } => ("node {node} draining")
    /// A person lifted a drain or a quarantine.
    NodeResumed = "node_resumed" { node: Name } => ("node {node} resumed")
    /// A worker said goodbye.
    NodeLeft = "node_left" { node: Name } => ("node {node} left")
    /// A person dropped a lost node from the list.
    NodeForgotten = "node_forgotten" { node: Name } => ("node {node} forgotten")
    /// A node cannot run a job.
    NodeRefused = "node_refused" { node: Name, job: JobId, why: String }
        => ("node {node} refused job {}: {why}", job.0)
    /// A node fails what others pass: it gets a task now and then.
    NodeQuarantined = "node_quarantined" { node: Name, why: String } => ("node {node} quarantined: {why}")
    /// A node speaks another version of the protocol.
    VersionSkew = "version_skew" { node: Name, version: u16 }
        => ("node {node} speaks protocol version {version}: update the older side")
    /// A worker knows of a later incarnation of the scheduler.
    Superseded = "superseded" { node: Name, epoch: u64 }
        => ("node {node} knows epoch {epoch} of this farm: a later scheduler was started")
    /// A job came into jq.
    JobSubmitted = "job_submitted" { job: JobId, name: String, user: String, spec: ContentHash, units: u128 }
        => ("job {} submitted: {}", job.0, counted(*units, "unit"))
    /// The program that names the units of a job named more: it has so many now.
    JobGrown = "job_grown" { job: JobId, units: u128 }
    /// A job changed its state.
    JobState = "job_state" {
        job: JobId, state: JobChange,
        /// Why, where the farm did it.
        why: Option<String>,
    } => ("job {} {}", job.0, state.word())
    /// A person moved a job in jq.
    JobMoved = "job_moved" {
        job: JobId,
        /// Its place there from now on, counted from 1.
        place: u64,
    } => ("job {} is number {place} in jq", job.0)
    /// A person changed a limit of a job; these are its limits from now on.
    JobLimited = "job_limited" {
        job: JobId,
        /// Nodes that may have tasks of it at once.
        max_nodes: Option<u64>,
        /// Bytes that its outputs may take.
        storage_limit: Option<u64>,
    } => ("limits of job {}: max_nodes {}, storage_limit {}",
        job.0, or_none(*max_nodes), or_none(*storage_limit))
    /// How a job does: with each sample, where anything changed.
    JobProgress = "job_progress" {
        job: JobId, done: u128, failed: u128,
        /// Units at nodes.
        out: u128,
        pending: u128,
        /// Units that nobody wants any more.
        abandoned: u128,
        units_per_s: f64,
    }
    /// A job has ended: its completion certificate, as its scheduler sees it.
    Certificate = "certificate" {
        job: JobId,
        verdict: Completion,
        state: JobState, spec: ContentHash, units: u128,
        /// Units done, once each.
        done: u128,
        failed: u128,
        /// Units that nobody wants any more.
        abandoned: u128,
        /// Hash of the intervals, as in the audit's certificate.
        intervals_hash: ContentHash,
        hits: u64,
        /// Hash of the hits, as in the audit's certificate.
        hits_hash: ContentHash,
        /// Units of results that had been counted before.
        duplicate: u128,
        dispatched: u64,
        /// Tasks that went back to gq.
        resent: u64,
        /// Copies given to idle nodes.
        copied: u64,
        /// Results that differ from what was counted.
        conflicts: u64,
        /// The scheduler's incarnation at its end.
        epoch: u64,
        /// Nodes that computed units of it in that incarnation.
        nodes: u64,
    } => ("job {} is {verdict}: {done} of {} done, once each", job.0, counted(*units, "unit"))
    /// Results of a node for units that lie side by side, of one job, with one outcome. Sums of small ones:
    /// a second's work may be one of these.
    Tasks = "tasks" {
        node: Name, job: JobId, lo: u128, hi: u128,
        /// Results: one a task, but for tasks that came in parts.
        results: u64,
        outcome: Outcome,
        /// When the first of them was given out; none where that is not known any more.
        given_us: Option<u64>,
        /// When the first of them was begun, on the scheduler's clock.
        begun_us: u64,
        /// When the last of them was over, on the scheduler's clock.
        ended_us: u64,
        /// Computing time of all.
        busy_us: u64,
    }
    /// Offers were repeated because no acknowledgement came.
    OffersRepeated = "offers_repeated" { node: Name, tasks: u64 }
        => ("offered {} again to node {node}", counted(*tasks, "task"))
    /// A task that its node no longer lists went back to gq.
    TaskExpired = "task_expired" { job: JobId, lo: u128, hi: u128, node: Name }
        => ("task [{lo}, {hi}) of job {} expired on node {node}", job.0)
    /// A slot has run one unit for far longer than its task takes: it hangs, as far as one can tell.
    RunHangs = "run_hangs" {
        node: Name, job: JobId,
        /// The unit that it runs, or of a search the first that it did not report.
        unit: u128,
        for_us: u64,
        /// What such a task takes there; 0 where no unit of the job has ended yet.
        usual_us: u64,
    } => ("unit {unit} of job {} hangs on node {node}: it runs for {:.0} s, {}",
        job.0, *for_us as f64 / 1e6, usual(*usual_us))
    /// A node got a copy of what another still computes.
    TaskCopied = "task_copied" { job: JobId, lo: u128, hi: u128, node: Name }
        => ("copy of [{lo}, {hi}) of job {} to node {node}", job.0)
    /// A target was found.
    Hit = "hit" { job: JobId, unit: u128, target: u32 }
        => ("hit in job {}: unit {unit}, target {target}", job.0)
    /// A unit failed for good.
    UnitFailed = "unit_failed" {
        job: JobId, unit: u128,
        reason: FailReason,
        /// The node that it failed on last; absent for poison.
        node: Option<Name>,
        /// Exit code or signal, where there is one and it is not negative.
        code: Option<u32>,
    } => ("unit {unit} of job {} failed{}: {reason}{}",
        job.0, after(" on node ", node), after(" ", code))
    /// A result differs from the one that was counted first. The `untrue` event beside it says which node is not trusted any
    /// more.
    Conflict = "conflict" {
        job: JobId, lo: u128, hi: u128,
        /// Node whose result came second.
        node: Name,
    } => ("conflict in job {}: node {node}'s result for units [{lo}, {hi}) differs from the one that was counted first", job.0)
    /// A search asks for trust checks.
    TrustChecks = "trust_checks" {
        job: JobId,
        /// The share of its units that is computed twice, on different nodes.
        check: f64,
        /// Answers that only the scheduler knows.
        planted: u64,
    } => ("job {} has trust checks: a share of {check} of its units is computed twice, {} planted",
        job.0, if *planted == 1 { "1 answer is".to_owned() } else { format!("{planted} answers are") })
    /// What came of a search's trust checks, at its end.
    TrustChecked = "trust_checked" {
        job: JobId,
        /// Units that a second node computed with the same result.
        checked: u128,
        /// Planted answers that were found.
        planted_found: u64,
        /// Results that were untrue.
        untrue: u64,
    } => ("trust checks of job {}: {} computed twice with the same result, {} found, {} untrue",
        job.0, counted(*checked, "unit"), counted(*planted_found, "planted answer"), counted(*untrue, "result"))
    /// A result was untrue; its node is not trusted any more.
    Untrue = "untrue" {
        job: JobId,
        /// The unit at which it was.
        unit: u128,
        /// Absent where it was forgotten long ago.
        node: Option<Name>,
        /// What was untrue.
        why: Distrust,
        /// The node that said otherwise; none where the scheduler knew by itself.
        believed: Option<Name>,
    } => ("untrue result in job {}{}, unit {unit}: {}{}",
        job.0, after(": node ", node), why.words(), after("; believed is the result of node ", believed))
    /// A node whose results are not trusted computed a part of a job that had ended before that was known.
    Doubtful = "doubtful" {
        job: JobId,
        /// Units that it computed.
        units: u128,
        /// Absent where it was forgotten long ago.
        node: Option<Name>,
    } => ("doubtful: {} of job {}, done by {}, which was distrusted after the job had ended: submit the job again",
        counted(*units, "unit"), job.0,
        node.as_ref().map_or_else(|| "a forgotten node".to_owned(), |node| format!("node {node}")))
    /// A key may join from now on: one that a person added, or that of a machine that came with it.
    KeyAdded = "key_added" {
        key_kind: KeyKind,
        /// The key's id, or the public key itself.
        key: String,
        role: Role,
        /// The machine's name, where it is one's own.
        name: Option<String>,
    } => ("key {key} added: {key_kind}, {role}{}", after(", ", name))
    /// A key may not join any more.
    KeyRevoked = "key_revoked" {
        /// The key, or the name that a person gave for it.
        key: String,
    } => ("key {key} revoked")
    /// A checkpoint was saved; `record` is the last one in it.
    Checkpointed = "checkpointed" { record: u64, bytes: u64, took_us: u64 }
    /// The scheduler was held up: by its disk, or because its machine or process slept.
    Stalled = "stalled" { for_us: u64 }
        => ("held up for {:.1} s: by the disk, or the process slept", *for_us as f64 / 1e6)
    /// Units of a job wait although a node that could run them has an idle slot: a fault of the scheduler.
    Standstill = "standstill" {
        job: JobId,
        /// A node that could run them.
        node: Name,
        for_us: u64,
    } => ("job {} stands still: its units wait and node {node} idles, for {} s: please report this fault with \
        what `starfarm job explain {}` says",
            job.0, for_us / 1_000_000, job.0)
    /// A post of the monitoring tree has a parent, for the first time since its process started.
    TreePost = "tree_post" {
        /// Its number.
        post: u64,
        post_kind: PostKind,
        node: Name,
        /// Whose child it is: 0 is the front.
        parent: u64,
    }
    /// A post of the tree, or its process, is not there any more.
    TreeLost = "tree_lost" { post: u64, post_kind: PostKind, node: Name, why: PostLoss }
    /// A post has another parent than before: it was taken in, has gone back to its own, or was moved.
    TreeAdopted = "tree_adopted" {
        post: u64,
        post_kind: PostKind,
        node: Name,
        /// Whose child it is now.
        parent: u64,
    }
    /// Something that somebody must know of a machine began, changed or is over.
    Alarm = "alarm" {
        /// The alarm's name when it began: another time it has another.
        id: String,
        /// Absent where it is the scheduler's machine.
        node: Option<Name>,
        /// What it was seen with.
        sensor: String,
        change: AlarmChange,
        /// Of one that is over, how bad it was.
        level: AlarmLevel,
        /// The figure that is too high or too low; absent where it is none.
        value: Option<f64>,
        text: String,
    } => ("alarm `{sensor}`{}{}: {text}", after(" of node ", node), became(*change, *level))
    /// Watching was slower than what happened, or the disk was full: so many events are missing here.
    EventsDropped = "events_dropped" { events: u64 }
        => ("{} missing: watching was too slow for them, or the disk was full",
            if *events == 1 { "1 event is".to_owned() } else { format!("{events} events are") })
    ;
    /// The farm's figures, every 10 s.
    Sampled(Sample)
    /// What the units of a job used, each minute, and once it has ended.
    JobUsage(JobUsage)
}

impl Event {
    /// It is for pictures and for the record; no line on a screen tells of it.
    pub fn dense(&self) -> bool {
        matches!(
            self,
            Event::Tasks { .. }
                | Event::NodeFacts { .. }
                | Event::NodeLoad { .. }
                | Event::NodeState { .. }
                | Event::NodeIdle { .. }
                | Event::NodeBusy { .. }
                | Event::JobGrown { .. }
                | Event::JobProgress { .. }
                | Event::Certificate { .. }
                | Event::Checkpointed { .. }
                | Event::TreePost { .. }
                | Event::TreeLost { .. }
                | Event::TreeAdopted { .. }
                | Event::JobUsage(_)
                | Event::Sampled(_)
        )
    }

    /// The node that it is about.
    pub fn node(&self) -> Option<&Name> {
        self.find(|value| if let Value::Node(name) = value { Some(name) } else { None })
    }

    /// The job that it is about.
    pub fn job(&self) -> Option<JobId> {
        self.find(|value| if let Value::Job(id) = value { Some(id) } else { None })
    }

    /// The first field that is what is looked for.
    fn find<'a, T>(&'a self, is_it: impl Fn(Value<'a>) -> Option<T>) -> Option<T> {
        let mut found = None;
        self.each(&mut |_, value| found = found.take().or_else(|| is_it(value)));
        found
    }

    /// Its kind and its fields.
    fn fmt_form(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        let mut outcome = Ok(());
        self.each(&mut |name, value| outcome = outcome.and_then(|()| write!(f, " {name}={value}")));
        outcome
    }
}
