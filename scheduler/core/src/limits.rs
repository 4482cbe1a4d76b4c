//! Limits and periods of the scheduler alone, with their arithmetic. Those that both sides of the wire
//! know are in `protocol::limits`, those that a person may choose in `protocol::settings`.

use starfarm_protocol::limits::{NODE_TASKS_MAX, PLAIN_BYTES_MAX, RTO_MIN_US};
use starfarm_protocol::settings::Settings;
use starfarm_protocol::wire::AGE_BYTES;

use crate::hits::HitsKept;

/// Periods that a rating looks back over (the paper: 640 s).
pub const RATING_PERIODS: usize = 64;
/// Least T_retry / T_target that a person may set.
const RETRY_TARGETS_MIN: u64 = 4;
/// What runs for less than this is not said to hang, however short its task: machines sleep and swap.
pub const HANG_MIN_US: u64 = 60_000_000;
/// A program whose job has no unit yet that ended is said to hang after this: nobody knows how long its units take.
pub const HANG_UNKNOWN_US: u64 = 3_600_000_000;
/// Of runs that hang a node looks at so many for one to copy.
pub const HUNG_LOOKS: usize = 16;
/// Bound of task sizes around the target (the paper's lambda).
pub const LAMBDA: u64 = 3;
/// Work that a node holds ahead, per slot: a scheduler away for a minute stops nobody.
pub const PREFETCH_US: u64 = 60_000_000;
/// A job that was seen for a shorter time is shown as fast as its results say.
pub const SEEN_US: u64 = 10_000_000;
/// The work ahead when so little is left that what one node holds ahead others miss: enough for the network.
pub const PREFETCH_SCARCE_US: u64 = 250_000;
/// Of a job whose units a program names, so much work is known ahead, about ...
pub const BACKLOG_US: u64 = 4 * PREFETCH_US;
/// ... or so many tasks a slot, if that is more ...
pub const BACKLOG_TASKS: u64 = 8;
/// ... but so many units at least, which is the least that the program is asked for ...
pub const BACKLOG_UNITS_MIN: u128 = 1_000;
/// ... and so many at most.
pub const BACKLOG_UNITS_MAX: u128 = 1 << 20;
/// Units that a program is asked for at one time, at most.
pub const BATCH_UNITS_MAX: u32 = 65_536;
/// Tasks that a slot has at least, so that it never waits for the network.
pub const PREFETCH_TASKS_MIN: u64 = 2;
/// How far one measured size may lead to a larger one.
pub const GROWTH_MAX: u64 = 16;
/// Units that one run computes together, and of which one may be what it failed of, go out again in so many tasks.
pub const NARROWED_TO: u128 = 8;
/// After a restart a node is believed to hold what an earlier scheduler may have given it: so many times the work that it
/// was to hold ahead, measurements being as old as the last checkpoint ...
pub const CLAIM_TIMES: f64 = 8.0;
/// ... and so many of the largest tasks a slot that could come next.
pub const CLAIM_TASKS: u64 = 4;
/// A node that was not measured may be so many times faster than the others.
pub const CLAIM_SPREAD: f64 = 64.0;
/// Likewise, where only cores were measured: devices may be so many times as fast.
pub const CLAIM_DEVICES: f64 = 8_192.0;
/// Near the end of a job a task gets this share of what a slot would have to do ...
pub const TAIL_SHARE: u128 = 2;
/// ... but not less than this much work, so that the end is not dust.
pub const TAIL_FLOOR_US: u64 = 100_000;
/// Tasks of a job that wait in gq at most beside what came back: it is a place of passage.
pub const GQ_TASKS_MAX: usize = 2 * NODE_TASKS_MAX as usize;
/// Tasks that one turn gives out, about; it takes half as many back: what is left is for the next, so that other
/// things have their turn meanwhile. At a microsecond a task that is a few hundredths of a second.
pub const TASKS_A_TURN: u64 = 16_384;
/// A unit that killed its worker this often is poison.
pub const POISON_DEATHS: usize = 3;
/// A unit that should go to another node waits so long for one; doubled for each death of a worker that ran it.
pub const PATIENCE_US: u64 = 10_000_000;
/// Of what waits in gq, a node looks at so many of each kind for one that it should have: what is behind them has its turn
/// when these have waited long enough to go to any node. So many pieces that it gave back side by side are one look.
pub const LOOKS: usize = 64;
/// What a node has no room for goes there again after [`RETURN_PAUSE_MIN_US`], doubled each time, up to this, where no other node
/// is left: as the question whether it can run a job. So long at most it waits for another.
pub const ROOM_PAUSE_MAX_US: u64 = PROBE_MAX_US;
/// A node that has said so of this many units of a job which still wait has no room for the job: it refuses that, as it does by
/// itself after 256 in a row. So many are remembered one by one.
pub const ROOMLESS_UNITS_MAX: usize = 1_024;
/// What a node gave back unasked goes to the same node again after this; doubled each time, up to
/// [`RETURN_PAUSE_MAX_US`].
pub const RETURN_PAUSE_MIN_US: u64 = 1_000_000;
/// See [`RETURN_PAUSE_MIN_US`].
pub const RETURN_PAUSE_MAX_US: u64 = 32_000_000;
/// What another node is to compute again goes to the same one after this, or after two tasks where these are longer: the
/// others may all be busy, or gone.
pub const CHECK_PATIENCE_US: u64 = 30_000_000;
/// Where the others have it, or had it, and do not get on with it, the same one may have it after so many times that.
pub const CHECK_OTHERS_TIMES: u64 = 4;
/// Intervals of a job that wait to be computed again, or are out for that, at most.
pub const CHECKS_OUT_MAX: usize = 4_096;
/// Units wait and a node that could run them has an idle slot, for so long, and for [`STANDSTILL_PERIODS`]: dispatch has
/// forgotten them.
pub const STANDSTILL_US: u64 = 60_000_000;
/// See [`STANDSTILL_US`]: the net below the events is drawn once a period.
pub const STANDSTILL_PERIODS: u64 = 3;
/// So many units are charged with a death that no heartbeat had named as running: alone, they are tried one by one.
pub const DEATH_UNITS_MAX: usize = 256;
/// Units that a node fails, and others pass, before it is taken for sick.
pub const SICK_FAILURES: u32 = 5;
/// So many nodes and more, and more than are left, that die within about this time, were killed by no unit.
pub const MASS_DEATHS: usize = 4;
/// See [`MASS_DEATHS`].
pub const MASS_DEATH_US: u64 = 1_000_000;
/// For so many times [`MASS_DEATH_US`] it is remembered who died when: nodes come back one after another.
pub const MASS_DEATHS_KEPT: u64 = 600;
/// Places of a job's space in which it fails before that, where nobody else has tried its units.
pub const SICK_PLACES: usize = 3;
/// Outcomes of a job's units that are remembered for each node; then all count half.
pub const OUTCOMES_KEPT: u32 = 64;
/// A job pauses when its first units, so many, all failed ...
pub const FIRST_FAILURES_MAX: u128 = 20;
/// ... or when more than half failed of so many or more.
pub const HALF_FAILURES_OF: u128 = 100;
/// Conflicts of a job that are named; more are counted.
pub const CONFLICTS_KEPT: usize = 100;
/// An idle node gets a copy of a task where it would be done in this share of the time that is left ...
pub const COPY_GAIN: f64 = 1.5;
/// ... and sooner by this much at least: sending a copy has its cost.
pub const COPY_GAIN_US: f64 = 500_000.0;
/// With more tasks out than this no copies are made: the end is not near.
pub const COPY_TASKS_MAX: usize = 4_096;
/// A task that lasts so many times what it should is trimmed where others idle; that doubles each time that it is, or grows
/// by as much where its node does not run it ...
pub const TRIM_TARGETS: u64 = 4;
/// ... and it is so often: a revoke may be lost. What is kept after that, and as long again, is taken.
pub const TRIMS_MAX: u8 = 3;
/// Of the nodes that idle so many are asked whether they would gain.
pub const HUNGRY_LOOKS: usize = 64;
/// Tasks that a node did, for each of its slots, which in sum are as good as a large one: what it may get grows by them.
pub const LEARNT_TASKS: u64 = GROWTH_MAX;
/// A task of less than this share of the size that it should have counts as a piece: by its units ...
pub const PIECE_SHARE: u64 = 8;
/// ... in so many parts of a whole one.
pub const WHOLE: u64 = NODE_TASKS_MAX as u64;
/// What is given back out of the midst of a task cuts it in two, and each of these again, so often: then the rest behind it
/// comes back as well. A worker gives back the rest of a task, never its midst.
pub const SPLITS_MAX: u8 = 4;
/// What a node gives back unasked weighs so much, and each of its results takes one off ...
pub const GIVEN_BACK_WEIGHT: u32 = 4;
/// ... and with so many of these it is probed.
pub const GIVEN_BACK_MAX: u32 = 64;
/// Once it did a task again, so many more are enough.
pub const GIVEN_BACK_AGAIN: u32 = 8;
/// Tasks that the first lease of a job reaches ahead. It doubles whenever tasks had to wait for a lease ...
pub const LEASE_TASKS_MIN: u128 = 64;
/// ... up to so many: at a million tasks a second, an eighth of a second.
pub const LEASE_TASKS_MAX: u128 = 131_072;
/// Jobs that get their first leases together with that of the job before them.
pub const LEASES_A_COMMIT: usize = 256;
/// Incarnations of a node that are taken at once, and then each second: a worker that dies at once is started anew once a
/// second or so.
pub const INCARNATIONS_MAX: u64 = 32;
/// See [`INCARNATIONS_MAX`].
pub const INCARNATIONS_A_SECOND: u64 = 1;
/// Changes of a node's facts that are told at once, and then each second: a machine changes seldom.
pub const FACTS_MAX: u64 = 4;
/// See [`FACTS_MAX`].
pub const FACTS_A_SECOND: u64 = 1;
/// First pause of a node at power zero before it is probed again; doubles up to [`PROBE_MAX_US`].
pub const PROBE_MIN_US: u64 = 10_000_000;
/// Longest pause between probes.
pub const PROBE_MAX_US: u64 = 64 * PROBE_MIN_US;
/// Wait for the acknowledgement of a node's first offer, before any round trip was measured. A worker
/// answers within [`starfarm_protocol::limits::RIDE_US`], so RFC 6298's second would be long.
pub const RTO_INITIAL_US: u64 = 4 * RTO_MIN_US;
/// Result datagrams that a node may have under way, at least and at most.
pub const CREDIT_MIN: u16 = 2;
/// See [`CREDIT_MIN`].
pub const CREDIT_MAX: u16 = 256;
/// Acknowledgements that do not wait for a ride any longer.
pub const ACKS_PROMPT: usize = 64;
/// Ages of results that one datagram may tell: more do not fit.
pub const AGES_MAX: usize = PLAIN_BYTES_MAX / AGE_BYTES;
/// Nodes that a farm may know.
pub const NODES_MAX: usize = 65_536;
/// Numbers of nodes that may lie between those of two nodes on record: of some that had a session, and never said hello.
/// A table by number holds 8 MiB of nothing for that many.
pub const NODE_NUMBERS_SKIPPED_MAX: u32 = 1 << 20;
/// Room for this share of them is kept free where nodes have gone: 256, more than a turn has sessions.
pub const NODES_SPARE_SHARE: usize = 256;
/// Forgotten nodes whose numbers are kept for their names: some 500 KiB of a checkpoint.
pub const NODES_FORGOTTEN_MAX: usize = 4_096;
/// Hits of a job in memory: some 4 MiB as long as it runs, and as much again at most for units that are computed again; what
/// has ended is asked for seldom, and stays for long.
pub const HITS_KEPT: HitsKept = HitsKept { running: 65_536, ended: 1_024 };
/// Pieces that one node may leave in the midst of what it had of a job, with gaps between them: some 10 MiB.
pub const PIECES_MAX: u32 = 65_536;
/// Unfinished and finished jobs that a farm may know.
pub const JOBS_MAX: usize = 100_000;
/// Parts of a heartbeat. A node holds [`NODE_TASKS_MAX`] tasks, and results of about as many that are not acknowledged:
/// that is a quarter of this at 42 intervals each.
pub const BEAT_PARTS_MAX: u16 = 1_024;
/// Tasks and intervals that are looked at for what a node says, each second and at one time. Its heartbeats list what it
/// holds, and all of that is looked at three times: enough for a full node that sends ten of them a second.
pub const HELD_LOOKS_A_SECOND: u64 = 64 * NODE_TASKS_MAX as u64;
/// What one message took beyond that is owed, for so long at most.
pub const DEBT_SECONDS: u64 = 10;
/// Revokes that answer what a node lists: of so many jobs a second. What it goes on listing is told later.
pub const WITHDRAWALS_A_SECOND: u64 = 256;
/// A node that became able to run what it had refused is believed that again after this.
pub const ABLE_AGAIN_US: u64 = 60_000_000;
/// Units that are charged with the deaths of one node's workers, each second: more often no worker starts and dies ...
pub const CHARGES_A_SECOND: u64 = 1;
/// ... and at one time.
pub const CHARGES_MAX: u64 = DEATH_UNITS_MAX as u64;
/// Speed-ups of a node that are believed each second, and slow-downs: a worker counts ten of each.
pub const FEEDBACK_A_SECOND: u64 = 10;
/// The same at one time: totals tell what was not heard as well.
pub const FEEDBACK_MAX: u64 = 1_024;
/// Lines of the log about results of a node by which nothing was counted, each second: of units that it gave back, that had
/// been counted before, or that cannot count ...
pub const IDLE_LINES_A_SECOND: u64 = 10;
/// ... and at one time: all that a node holds may come back, and once more what nobody acknowledged.
pub const IDLE_LINES_MAX: u64 = NODE_TASKS_MAX as u64;
/// Intervals in one record of a checkpoint, or of what is wanted again.
pub const PIECES_A_RECORD: usize = 4_096;
/// Bytes in one record that say which targets were hit: 64 such are a frame's body at most.
pub const TARGETS_BYTES_A_RECORD: usize = 1 << 20;

const _: () = assert!(
    PROBE_MIN_US > Settings::DEFAULT.heartbeat_us,
    "a probe is heard of before the next one goes out"
);
const _: () = assert!(STANDSTILL_US > PATIENCE_US, "what waits for another node does not stand still");
const _: () = assert!(STANDSTILL_US > RETURN_PAUSE_MAX_US, "nor does what its node gave back");
const _: () = assert!(STANDSTILL_US > CHECK_PATIENCE_US, "nor does what another node is to compute");
const _: () = assert!(
    PIECES_MAX >= 4 * NODE_TASKS_MAX,
    "a good node's results lie apart only where they overtake each other: those of the tasks that it holds"
);
const _: () = assert!(RETRY_TARGETS_MIN > LAMBDA, "the longest task by the law ends before it is resent");
