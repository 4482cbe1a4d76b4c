//! The farm: everything that is true on the scheduling node, in rooms that own their state. One owner calls it; time comes
//! in as `now_us`, microseconds of a monotonic clock; what is to be done comes out as deeds. What may happen to it lies in
//! the files of its stages: `door` is where datagrams enter, `turn` makes the beats, `apply` changes what is durable.

use std::sync::Arc;

use starfarm_protocol::ids::{Attempt, Epoch, FarmId};
use starfarm_protocol::seal::EpochProofs;
use starfarm_protocol::settings::Settings;

use crate::agenda::Agenda;
use crate::commits::Commits;
use crate::evidence::Evidence;
use crate::hits::HitsKept;
use crate::jobs::Jobs;
use crate::limits::{HITS_KEPT, NODES_MAX, PIECES_MAX, TASKS_A_TURN};
use crate::nodes::Nodes;
use crate::queues::Queues;
use crate::reconnect::Reconnect;
use crate::told::Telemetry;

/// What a farm is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The farm.
    pub farm: FarmId,
    /// This incarnation of the scheduler.
    pub epoch: Epoch,
    /// What a person chose.
    pub settings: Settings,
    /// Proofs of epochs, for workers to keep, and to tell a later epoch that a worker knows of from a lie;
    /// none where nothing is sealed.
    pub proofs: Option<EpochProofs>,
    /// Datagrams that our receive buffer holds.
    pub receive_datagrams: u32,
    /// Tasks that one turn gives out, about; it takes half as many back. 1 or more.
    pub tasks_a_turn: u64,
    /// Nodes that it may know, 2 or more: those that have gone make room for those that come.
    pub nodes_max: usize,
    /// Hits of a job that are in memory: the others are in the journal alone.
    pub hits_kept: HitsKept,
    /// Pieces that one node may leave in the midst of what it had of a job.
    pub pieces_max: u32,
    /// Who looks whether what results say of hits and outputs is so; without one they are believed.
    pub evidence: Option<Arc<dyn Evidence>>,
    /// What nobody else knows, so that nobody can guess which results are checked.
    pub secret: [u8; 32],
    /// Somebody watches: tell what pictures are made of, too.
    pub watch: bool,
}

impl Config {
    /// The defaults for `farm` in `epoch`.
    pub fn new(farm: FarmId, epoch: Epoch) -> Self {
        Self {
            farm,
            epoch,
            settings: Settings::DEFAULT,
            proofs: None,
            receive_datagrams: 3_640,
            tasks_a_turn: TASKS_A_TURN,
            nodes_max: NODES_MAX,
            hits_kept: HITS_KEPT,
            pieces_max: PIECES_MAX,
            evidence: None,
            secret: [0; 32],
            watch: false,
        }
    }
}

/// Everything that is true on the scheduling node.
#[derive(Debug)]
pub struct Farm {
    pub(crate) config: Config,
    /// gq, dq and what each node has.
    pub(crate) queues: Queues,
    /// The jobs and jq.
    pub(crate) jobs: Jobs,
    pub(crate) nodes: Nodes,
    /// Records on their way to the disk, and what waits for them.
    pub(crate) commits: Commits,
    /// What was before the scheduler's start.
    pub(crate) reconnect: Reconnect,
    /// What later turns are to do.
    pub(crate) agenda: Agenda,
    pub(crate) telemetry: Telemetry,
}

impl Farm {
    /// A farm without jobs and nodes.
    pub fn new(config: Config, now_us: u64) -> Self {
        assert!(config.tasks_a_turn > 0 && config.nodes_max > 1, "a farm does and knows something");
        let first = Attempt(Attempt::before_epoch(config.epoch).0 + 1);
        Self {
            queues: Queues::new(first),
            jobs: Jobs::default(),
            nodes: Nodes::default(),
            commits: Commits::after(0),
            reconnect: Reconnect::none(config.settings.lost_us),
            agenda: Agenda { period_us: now_us + config.settings.period_us, ..Agenda::default() },
            telemetry: Telemetry::default(),
            config,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// Sequence of the last record; everything is durable once this is.
    pub fn last_sequence(&self) -> u64 {
        self.commits.last_sequence()
    }

    /// There is something to give out that was not there before: the nodes that have room are looked at.
    pub(crate) fn work_came(&mut self) {
        self.agenda.work_came = true;
        self.jobs.renew();
    }

    /// There is a new order, or a period is over: every node is looked at.
    pub(crate) fn look_at_all(&mut self) {
        self.work_came();
        self.nodes.mark_all();
    }
}
