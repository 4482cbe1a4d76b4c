//! What a run counted, the law of task sizes, and the report for a person.

use std::collections::BTreeSet;
use std::fmt;

use crate::expect::Law;
use crate::job::Job;
use crate::plan::us;
use crate::slot::Lasted;

/// Bound of task sizes around the target: the paper's lambda.
const LAMBDA: f64 = 3.0;

/// Durations of whole tasks over their target, for those that the law is about.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tasks.
    pub tasks: u64,
    /// Smallest share.
    pub min: f64,
    /// Largest share.
    pub max: f64,
    /// Mean share.
    pub mean: f64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { tasks: 0, min: f64::INFINITY, max: 0.0, mean: 0.0 }
    }
}

impl Sizes {
    /// A task ran whole. `fresh`: nobody had its units before, so it was cut for this node.
    pub(crate) fn add(&mut self, law: &Law, lasted: &Lasted, job: &Job, booted_us: u64, fresh: bool) {
        let Some(target_us) = job.target_us().filter(|_| fresh) else { return };
        let begins = us(law.from_s).max(booted_us + us(law.settle_s));
        if !(begins..=us(law.to_s)).contains(&lasted.started_us) {
            return;
        }
        let share = lasted.computed_us as f64 / target_us as f64;
        self.tasks += 1;
        self.mean += (share - self.mean) / self.tasks as f64;
        (self.min, self.max) = (self.min.min(share), self.max.max(share));
    }

    /// The law: min > target / lambda, max < lambda x target.
    pub(crate) fn lawful(&self) -> bool {
        self.tasks > 0 && self.min > 1.0 / LAMBDA && self.max < LAMBDA
    }
}

/// Counters of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Virtual time of the run, in microseconds.
    pub simulated_us: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Datagrams sent, up and down.
    pub datagrams: [u64; 2],
    /// Bytes in these, with seal, UDP and IP headers.
    pub bytes: [u64; 2],
    /// Copies of datagrams that arrived.
    pub arrived: u64,
    /// Datagrams that a full receive buffer dropped, at the scheduler and at workers.
    pub overflowed: [u64; 2],
    /// Tasks given out.
    pub dispatched: u64,
    /// Tasks that went back to gq.
    pub resent: u64,
    /// Offers repeated.
    pub offers_repeated: u64,
    /// Result datagrams repeated.
    pub results_repeated: u64,
    /// Units computed more than once.
    pub duplicate_units: u128,
    /// Offers that workers refused.
    pub refused_offers: u64,
    /// Batches of units that came too late, or once more.
    pub vain_batches: u64,
    /// Handshakes.
    pub handshakes: u64,
    /// Starts of the scheduler beside the first.
    pub restarts: u64,
    /// Schedulers that learnt that a later one has been.
    pub superseded: u64,
    /// Records written.
    pub records: u64,
    /// Copies of tasks that idle nodes were given.
    pub copies: u64,
    /// Parts of whole-task runs that are on record.
    pub parts: u64,
    /// Results of whole tasks that passed and count for nothing.
    pub in_vain: u64,
    /// Runs that were told to hang.
    pub hangs: u64,
    /// Nodes that were quarantined.
    pub named: BTreeSet<String>,
    /// Stalls that the scheduler noticed.
    pub stalls: u64,
    /// Inputs of the largest batch.
    pub batch_max: usize,
    /// Datagrams that came in a session after it was replaced.
    pub late: u64,
    /// Tasks that nodes refused.
    pub refusals: u64,
    /// Crashes, pauses, partitions and the like.
    pub faults: u64,
    /// Most tasks in gq and in dq.
    pub queues_max: [usize; 2],
    /// Share of the slots' time that was spent computing.
    pub utilisation: f64,
    /// Time that slots were there for work until the last job ended, in microseconds: card hours.
    pub slots_us: u64,
    /// Sizes of tasks.
    pub sizes: Sizes,
    /// Second and number of nodes that are up.
    pub up: Vec<(u64, usize)>,
    /// Digest of everything that happened, in order.
    pub log: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated_us as f64 / 3.6e9;
        writeln!(f, "simulated time   {hours:.2} h in {} events, {} faults", self.events, self.faults)?;
        let [up, down] = self.datagrams;
        let [at_farm, at_workers] = self.overflowed;
        writeln!(f, "datagrams        {up} up, {down} down, {} arrived", self.arrived)?;
        // The fuller direction of a link that carries a gigabit a second each way.
        let per_s = |bytes: u64| bytes as f64 * 1e6 / self.simulated_us.max(1) as f64;
        let [bytes_up, bytes_down] = self.bytes.map(per_s);
        let load = bytes_up.max(bytes_down) * 8.0 / 1e9 * 100.0;
        writeln!(
            f,
            "network load     {bytes_up:.0} bytes/s up, {bytes_down:.0} down: {load:.4} % of 1 Gbit/s"
        )?;
        writeln!(f, "buffers dropped  {at_farm} at the scheduler, {at_workers} at workers")?;
        let (resent, duplicate) = (self.resent, self.duplicate_units);
        writeln!(f, "tasks            {} dispatched, {resent} resent", self.dispatched)?;
        writeln!(f, "duplicate units  {duplicate}")?;
        let (offers, results) = (self.offers_repeated, self.results_repeated);
        writeln!(f, "repeated         {offers} offers, {results} result datagrams")?;
        let (refused, handshakes, vain) = (self.refused_offers, self.handshakes, self.vain_batches);
        writeln!(f, "offers refused   {refused}; handshakes {handshakes}; batches of units in vain {vain}")?;
        let (restarts, superseded) = (self.restarts, self.superseded);
        writeln!(
            f,
            "scheduler        {restarts} restarts, {superseded} superseded, {} records",
            self.records
        )?;
        writeln!(f, "copies of tasks  {}; runs told to hang {}", self.copies, self.hangs)?;
        writeln!(f, "runs over tasks  {} parts of them; {} in vain", self.parts, self.in_vain)?;
        let (stalls, late) = (self.stalls, self.late);
        writeln!(
            f,
            "turns            {} inputs at most, {stalls} stalls, {late} late datagrams",
            self.batch_max
        )?;
        writeln!(f, "tasks refused    {}", self.refusals)?;
        writeln!(f, "queues at most   gq {}, dq {}", self.queues_max[0], self.queues_max[1])?;
        let card_hours = self.slots_us as f64 / 3.6e9;
        writeln!(f, "utilisation      {:.2} % of {card_hours:.0} card hours", self.utilisation * 100.0)?;
        if self.sizes.tasks > 0 {
            let Sizes { tasks, min, max, mean } = self.sizes;
            writeln!(
                f,
                "law of sizes     {min:.3} .. {max:.3} of the target, mean {mean:.3}, {tasks} tasks"
            )?;
        }
        let most = self.up.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0).max(1);
        for (second, nodes) in &self.up {
            writeln!(f, "up at {second:>7} s  {nodes:>5}  {}", "#".repeat(nodes * 60 / most))?;
        }
        write!(f, "log              {:016x}", self.log)
    }
}

/// Folds everything that happens into one number: two runs of one seed must give the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogHash(pub(crate) u64);

impl LogHash {
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| self.word(u64::from(byte)));
    }
}
