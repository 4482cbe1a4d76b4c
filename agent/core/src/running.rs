//! What the units of each job use on a node, from one look at the worker's file `running` to the next: rates of what only
//! grows, and memory as it is. The file says which slot computes which unit, and where; how much the process or thread there has
//! used, the caller says. Files and processes are read elsewhere.
//!
//! What counts is a slot: a unit that runs is one of its slot, and units that are shorter than the time between two looks are
//! one together. So the sum is right however short units are, and least and greatest are those of units where these last.
//! Of a slot that worked for a job in a part of the time only, the figure is smaller by as much.

use starfarm_protocol::bytes::Malformed;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::running::{Runs, Slot};

use crate::summary::Summary;

/// A slot's record, as it was read: none where it has computed nothing yet, an error where it says nothing.
pub type Record = Result<Option<Slot>, Malformed>;

/// Jobs of a slot that are remembered.
const JOBS_MAX: usize = 16;

/// What a unit that runs has used since its start, where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// CPU time of its process and descendants, in microseconds; or of the thread it is computed in, since the thread's start.
    pub cpu_us: Option<u64>,
    /// Memory that it has at this moment, in bytes.
    pub memory_bytes: Option<u64>,
    /// What it has read from disks and written to them, in bytes.
    pub io_bytes: Option<u64>,
}

/// What the units of a job use on this node. A summary is of slots; one that is not known is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The job.
    pub job: JobId,
    /// Units that run at this moment.
    pub units: u64,
    /// CPU time: microseconds a second.
    pub cpu: Option<Summary>,
    /// Memory: bytes.
    pub memory: Option<Summary>,
    /// Read from disks and written to them: bytes a second.
    pub io: Option<Summary>,
}

/// So much in so many microseconds, as an amount in a second. `us` is at least 1.
pub fn a_second(amount: u64, us: u64) -> u64 {
    u64::try_from(u128::from(amount) * 1_000_000 / u128::from(us.max(1))).unwrap_or(u64::MAX)
}

/// What was seen of all slots of a node.
#[derive(Default)]
pub struct Accounts {
    slots: Vec<Account>,
    looked_us: Option<u64>,
    usages: Usages,
}

impl Accounts {
    /// Looks at all slots, at this time of the farm's clock: what each job used since the last look, by job. The first look
    /// knows of no CPU time and of no reads and writes. `used` is asked for each unit that runs.
    pub fn look(
        &mut self,
        records: &[Record],
        now_us: u64,
        mut used: impl FnMut(usize, &Slot) -> Used,
    ) -> &[Usage] {
        self.usages.0.clear();
        // A slot whose record has not been there had computed nothing then.
        let new = Account { looked_us: self.looked_us, ..Account::default() };
        self.slots.resize(records.len(), new);
        for ((n, record), account) in records.iter().enumerate().zip(&mut self.slots) {
            match record {
                Ok(Some(slot)) => {
                    let used = if slot.runs == Runs::Nothing { Used::default() } else { used(n, slot) };
                    account.look(slot, used, now_us, &mut self.usages);
                }
                Ok(None) => *account = Account { looked_us: Some(now_us), ..Account::default() },
                // The next look that sees something covers the time of both.
                Err(Malformed) => {}
            }
        }
        self.looked_us = Some(now_us);
        &self.usages.0
    }
}

/// What was seen of a slot.
#[derive(Clone, Default)]
struct Account {
    /// When its record was read.
    looked_us: Option<u64>,
    /// Its last jobs, the latest first, and the CPU time of their units, as the record counts it: that may wrap.
    jobs: Vec<(JobId, u64)>,
    all_ms: u32,
    /// The unit that it computed, and what that had read and written, where that was known.
    io: Option<((JobId, u128, Runs), Option<u64>)>,
}

impl Account {
    fn look(&mut self, slot: &Slot, used: Used, now_us: u64, usages: &mut Usages) {
        let runs = slot.runs != Runs::Nothing;
        if runs {
            let usage = usages.of(slot.job);
            usage.units += 1;
            add(&mut usage.memory, used.memory_bytes);
        }
        if matches!(slot.runs, Runs::Thread(_)) && used.cpu_us.is_none() {
            // It had used something before the unit, so nothing is known but with what it has used by now.
            return;
        }
        let past_us = self.looked_us.replace(now_us).map_or(0, |then_us| now_us.saturating_sub(then_us));
        let [before, grown] = self.cpu(slot, used.cpu_us.unwrap_or(0), past_us);
        let io = self.io(slot, used);
        if past_us == 0 {
            return;
        }
        if let Some((job, _)) = slot.before
            && before > 0
        {
            add(&mut usages.of(job).cpu, a_second(before, past_us));
        }
        // Where nobody knows what the unit uses, and none has ended, nothing is known.
        if grown > 0 || runs && used.cpu_us.is_some() {
            add(&mut usages.of(slot.job).cpu, a_second(grown, past_us));
        }
        if let Some(io) = io {
            add(&mut usages.of(slot.job).io, a_second(io, past_us));
        }
    }

    /// By how much the CPU time of the job before and of the job has grown since the last look, in microseconds.
    fn cpu(&mut self, slot: &Slot, used_us: u64, past_us: u64) -> [u64; 2] {
        // Both ends were rounded down to milliseconds.
        let mut ended_us = (u64::from(slot.all_ms.wrapping_sub(self.all_ms)) + 1) * 1_000;
        self.all_ms = slot.all_ms;
        let latest = [0, 1].map(|n| self.jobs.get(n).map(|(job, _)| *job));
        let mut grown = |job, total_us, running_us: u64| {
            let most_us = ended_us.saturating_add(running_us);
            let grown_us = self.grown(job, total_us, most_us, latest.contains(&Some(job)));
            ended_us = ended_us.saturating_sub(grown_us.saturating_sub(running_us));
            grown_us
        };
        let before_us = slot.before.map_or(0, |(job, total_us)| grown(job, total_us, 0));
        let running_us = if matches!(slot.runs, Runs::Thread(_)) { past_us } else { used_us };
        [before_us, grown(slot.job, slot.ended_us.wrapping_add(used_us), running_us)]
    }

    /// By how much the CPU time of a job's units has grown, `most_us` at most where that of the last look is not known.
    /// `is_latest`: the record was about the job then.
    fn grown(&mut self, job: JobId, total_us: u64, most_us: u64, is_latest: bool) -> u64 {
        let known = self.jobs.iter().position(|(known, _)| *known == job);
        let then_us = known.map(|at| self.jobs.remove(at).1);
        self.jobs.insert(0, (job, total_us));
        self.jobs.truncate(JOBS_MAX);
        let all_us = (total_us as i64).max(0).cast_unsigned();
        let Some(then_us) = then_us else { return all_us.min(most_us) };
        let grown_us = total_us.wrapping_sub(then_us) as i64;
        if grown_us >= 0 {
            grown_us.cast_unsigned()
        } else if is_latest {
            // What the system says of a process or thread that runs may be a little behind, or count a process that the
            // worker does not.
            0
        } else {
            // The worker had forgotten the job, and has begun anew.
            all_us.min(most_us)
        }
    }

    /// By how much the unit has read and written more than at the last look.
    fn io(&mut self, slot: &Slot, used: Used) -> Option<u64> {
        let key = (slot.job, slot.unit, slot.runs);
        let then = match self.io {
            Some((known, then)) if known == key => then,
            // It is younger than the last look.
            _ => Some(0),
        };
        // A process that was not found has not been there yet when processes were looked at.
        let now = if used.cpu_us.is_some() { used.io_bytes } else { Some(0) };
        self.io = Some((key, now));
        Some(now?.saturating_sub(then?)).filter(|_| used.io_bytes.is_some())
    }
}

/// By job.
#[derive(Default)]
struct Usages(Vec<Usage>);

impl Usages {
    fn of(&mut self, job: JobId) -> &mut Usage {
        let at = self.0.binary_search_by_key(&job, |usage| usage.job);
        let at = at.unwrap_or_else(|at| {
            self.0.insert(at, Usage { job, units: 0, cpu: None, memory: None, io: None });
            at
        });
        &mut self.0[at]
    }
}

fn add(to: &mut Option<Summary>, number: impl Into<Option<u64>>) {
    if let Some(number) = number.into().map(Summary::of) {
        *to = Some(to.map_or(number, |sum| sum.and(number)));
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::running::Tally;

    use super::*;

    const SECOND: u64 = 1_000_000;

    /// CPU and I/O of the process or thread that each slot's unit runs in, in milliseconds and bytes.
    type Now<'a> = &'a [(Option<u64>, Option<u64>)];

    fn look(accounts: &mut Accounts, tallies: &[&Tally], second: u64, now: Now<'_>) -> Vec<String> {
        let records: Vec<Record> = tallies.iter().map(|tally| Ok(tally.slot())).collect();
        let used = |n: usize, _: &Slot| {
            let (cpu_ms, io_bytes) = now.get(n).copied().unwrap_or_default();
            let memory_bytes = cpu_ms.map(|_| 4_096);
            Used { cpu_us: cpu_ms.map(|ms| ms * 1_000), memory_bytes, io_bytes }
        };
        accounts.look(&records, second * SECOND, used).iter().map(said).collect()
    }

    /// Job, units, and the sums of CPU in thousandths of a core, memory and I/O.
    fn said(usage: &Usage) -> String {
        let sum = |summary: Option<Summary>, unit| {
            summary.map_or("?".to_owned(), |of| format!("{}/{}", of.sum / unit, of.count))
        };
        let Usage { job, units, cpu, memory, io } = usage;
        let (cpu, memory, io) = (sum(*cpu, 1_000), sum(*memory, 1), sum(*io, 1));
        format!("{}: {units} units, cpu {cpu}, memory {memory}, io {io}", job.0)
    }

    fn run(tally: &mut Tally, job: u64, unit: u128, process: u32) {
        tally.computes(JobId(job), unit);
        tally.in_process(process);
    }

    #[test]
    fn a_long_unit_tells_rates_from_the_second_look_on() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        let first = look(&mut accounts, &[&tally], 10, &[(Some(90_000), Some(700))]);
        assert_eq!(first, ["1: 1 units, cpu ?, memory 4096/1, io ?"]);
        let second = look(&mut accounts, &[&tally], 12, &[(Some(91_000), Some(1_700))]);
        assert_eq!(second, ["1: 1 units, cpu 500/1, memory 4096/1, io 500/1"]);
        // Its end: what it used after the last look is in what the worker says, and no read or write is known.
        tally.ended(91_600_000);
        assert_eq!(look(&mut accounts, &[&tally], 13, &[]), ["1: 0 units, cpu 600/1, memory ?, io ?"]);
        assert_eq!(look(&mut accounts, &[&tally], 14, &[]), [] as [&str; 0]);
    }

    #[test]
    fn short_units_are_not_lost() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        assert_eq!(look(&mut accounts, &[&tally], 1, &[]), [] as [&str; 0]);
        for unit in 0..1_000 {
            run(&mut tally, 3, unit, 100 + unit as u32);
            tally.ended(400);
        }
        tally.computes(JobId(3), 1_000);
        assert_eq!(look(&mut accounts, &[&tally], 2, &[]), ["3: 1 units, cpu 400/1, memory ?, io ?"]);
        // One whose use nobody knows, and none that ended: nothing is known.
        assert_eq!(look(&mut accounts, &[&tally], 3, &[]), ["3: 1 units, cpu ?, memory ?, io ?"]);
    }

    /// The worker waits for a process before it writes that it has ended.
    #[test]
    fn a_process_that_is_gone_before_its_record_is_counted_once() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 1, &[(Some(100), None)]);
        assert_eq!(
            look(&mut accounts, &[&tally], 2, &[(Some(100), None)]),
            ["1: 1 units, cpu 0/1, memory 4096/1, io ?"]
        );
        tally.ended(130_000);
        run(&mut tally, 1, 6, 71);
        let next = look(&mut accounts, &[&tally], 3, &[(Some(5), None)]);
        assert_eq!(next, ["1: 1 units, cpu 35/1, memory 4096/1, io ?"]);
    }

    #[test]
    fn a_slot_that_goes_from_job_to_job_loses_nothing() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 1, &[(Some(0), None)]);
        // Three jobs take turns within a second.
        for _ in 0..3 {
            for (job, cpu_us) in [(1, 10_000), (2, 20_000), (3, 40_000)] {
                run(&mut tally, job, 5, 71);
                tally.ended(cpu_us);
            }
        }
        let told = look(&mut accounts, &[&tally], 2, &[]);
        assert_eq!(
            told,
            ["2: 0 units, cpu 60/1, memory ?, io ?", "3: 0 units, cpu 120/1, memory ?, io ?"],
            "the first is told of when it comes again"
        );
        run(&mut tally, 1, 6, 72);
        tally.ended(5_000);
        assert_eq!(look(&mut accounts, &[&tally], 3, &[]), ["1: 0 units, cpu 35/1, memory ?, io ?"]);
    }

    /// A slot has worked for job 1 for hours, an agent starts, and the job comes back: no hours are told of.
    #[test]
    fn a_job_from_before_the_first_look_brings_no_more_than_the_slot_has_used() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        for job in [1, 2, 3] {
            run(&mut tally, job, 0, 70);
            tally.ended(3_600 * SECOND);
        }
        look(&mut accounts, &[&tally], 1, &[]);
        run(&mut tally, 1, 1, 71);
        tally.ended(50_000);
        run(&mut tally, 1, 2, 72);
        let told = look(&mut accounts, &[&tally], 2, &[(Some(100), None)]);
        assert_eq!(told, ["1: 1 units, cpu 151/1, memory 4096/1, io ?"], "and a millisecond of rounding");
    }

    /// Two such jobs at once, and one whose unit runs in a thread.
    #[test]
    fn what_the_slot_has_used_is_told_once() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        for job in [1, 2, 3, 4] {
            run(&mut tally, job, 0, 70);
            tally.ended(3_600 * SECOND);
        }
        look(&mut accounts, &[&tally], 1, &[]);
        for job in [1, 2] {
            run(&mut tally, job, 1, 71);
            tally.ended(25_000);
        }
        let told = look(&mut accounts, &[&tally], 2, &[]);
        assert_eq!(told, ["1: 0 units, cpu 51/1, memory ?, io ?"]);
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        for job in [1, 2, 3] {
            run(&mut tally, job, 0, 70);
            tally.ended(3_600 * SECOND);
        }
        look(&mut accounts, &[&tally], 1, &[]);
        tally.computes(JobId(1), 1);
        tally.in_thread(9, 50 * SECOND);
        let told = look(&mut accounts, &[&tally], 2, &[(Some(50_700), None)]);
        assert_eq!(told, ["1: 1 units, cpu 1001/1, memory 4096/1, io ?"], "no more than one thread can");
    }

    /// The sensor has seen a daemon compute that the worker does not count.
    #[test]
    fn less_than_was_seen_is_no_growth() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 1, &[(Some(0), None)]);
        look(&mut accounts, &[&tally], 2, &[(Some(10_000), None)]);
        tally.ended(1_000_000);
        assert_eq!(look(&mut accounts, &[&tally], 3, &[]), [] as [&str; 0]);
        run(&mut tally, 1, 6, 71);
        let told = look(&mut accounts, &[&tally], 4, &[(Some(30), None)]);
        assert_eq!(told, ["1: 1 units, cpu 30/1, memory 4096/1, io ?"]);
    }

    #[test]
    fn a_job_that_the_worker_had_forgotten_begins_anew() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        let mut ends = |accounts: &mut Accounts, job, cpu_us, second: Option<u64>| {
            run(&mut tally, job, 0, 70);
            tally.ended(cpu_us);
            second.map_or(Vec::new(), |second| look(accounts, &[&tally], second, &[]))
        };
        ends(&mut accounts, 1, 5_000_000, Some(1));
        (2..30).for_each(|job| drop(ends(&mut accounts, job, 0, None)));
        ends(&mut accounts, 30, 0, Some(2));
        let told = ends(&mut accounts, 1, 700_000, Some(3));
        assert_eq!(told, ["1: 0 units, cpu 700/1, memory ?, io ?"]);
    }

    #[test]
    fn what_a_unit_reads_and_writes_begins_at_nothing() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 1, &[(Some(0), Some(3_000))]);
        tally.ended(0);
        run(&mut tally, 1, 6, 71);
        let told = look(&mut accounts, &[&tally], 2, &[(Some(0), Some(1_000))]);
        assert_eq!(told, ["1: 1 units, cpu 0/1, memory 4096/1, io 1000/1"]);
        // It cannot be read for a while: what it does meanwhile is not told, as nobody knows when that was.
        look(&mut accounts, &[&tally], 3, &[(Some(0), None)]);
        let told = look(&mut accounts, &[&tally], 4, &[(Some(0), Some(5_000))]);
        assert_eq!(told, ["1: 1 units, cpu 0/1, memory 4096/1, io ?"]);
    }

    #[test]
    fn a_thread_has_used_something_before_its_unit() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        let looked = |accounts: &mut Accounts, tally: &Tally, second, thread_ms| {
            look(accounts, &[tally], second, &[(Some(thread_ms), None)])[0].clone()
        };
        tally.computes(JobId(1), 0);
        tally.in_thread(9, 50_000_000);
        // The system is a little behind.
        assert!(looked(&mut accounts, &tally, 1, 49_999).contains("cpu ?"));
        assert!(looked(&mut accounts, &tally, 2, 50_500).contains("cpu 501/1"));
        tally.ended(700_000);
        tally.computes(JobId(2), 0);
        tally.in_thread(9, 50_700_000);
        let told = look(&mut accounts, &[&tally], 3, &[(Some(51_000), None)]);
        let [one, two] = &told[..] else { panic!("{told:?}") };
        assert!(
            one.starts_with("1: 0 units, cpu 200/1") && two.starts_with("2: 1 units, cpu 300/1"),
            "{told:?}"
        );
        // A moment of which nothing is known changes nothing.
        assert!(look(&mut accounts, &[&tally], 4, &[])[0].contains("cpu ?"));
        assert!(looked(&mut accounts, &tally, 5, 52_000).contains("cpu 500/1"));
    }

    #[test]
    fn a_record_that_says_nothing_is_made_up_for_at_the_next_look() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 1, &[(Some(0), Some(0))]);
        assert_eq!(accounts.look(&[Err(Malformed)], 2 * SECOND, |_, _| Used::default()), []);
        let told = look(&mut accounts, &[&tally], 3, &[(Some(800), Some(2_000))]);
        assert_eq!(told, ["1: 1 units, cpu 400/1, memory 4096/1, io 1000/1"]);
    }

    #[test]
    fn least_and_greatest_are_those_of_slots() {
        let mut accounts = Accounts::default();
        let mut tallies = [Tally::default(), Tally::default(), Tally::default()];
        for (n, tally) in (0..).zip(&mut tallies) {
            run(tally, 4, n, 70);
        }
        let all: Vec<&Tally> = tallies.iter().collect();
        let at = |cpu_ms: [u64; 3]| cpu_ms.map(|ms| (Some(ms), Some(0)));
        look(&mut accounts, &all, 1, &at([0, 0, 0]));
        look(&mut accounts, &all, 2, &at([100, 900, 500]));
        let cpu = accounts.usages.0[0].cpu.unwrap();
        assert_eq!(cpu, Summary { count: 3, sum: 1_500_000, min: 100_000, max: 900_000 });
        // A slot more, whose first unit began after the last look.
        let mut more = Tally::default();
        run(&mut more, 4, 3, 73);
        let all = [&all[..], &[&more]].concat();
        let now = [&at([100, 900, 500])[..], &[(Some(40), Some(7_000))]].concat();
        assert_eq!(look(&mut accounts, &all, 3, &now), ["4: 4 units, cpu 40/4, memory 16384/4, io 7000/4"]);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_makes_no_rate() {
        let (mut accounts, mut tally) = (Accounts::default(), Tally::default());
        run(&mut tally, 1, 5, 70);
        look(&mut accounts, &[&tally], 9, &[(Some(0), Some(0))]);
        for second in [9, 8] {
            let told = look(&mut accounts, &[&tally], second, &[(Some(500), Some(10))]);
            assert_eq!(told, ["1: 1 units, cpu ?, memory 4096/1, io ?"]);
        }
        assert_eq!(a_second(u64::MAX, 1), u64::MAX);
        assert_eq!((a_second(3, 2_000_000), a_second(1, 0)), (1, 1_000_000));
    }
}
