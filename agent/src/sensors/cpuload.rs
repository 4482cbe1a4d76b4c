//! `cpuload`: how busy the node's processors are, out of /proc/stat and /proc/loadavg.
//!
//! Busy is all time but idle time and time that a core waits for disks: `user`, `nice`, `system`, `irq`, `softirq` and `steal`,
//! where another guest of the same host had the core. What a guest on this machine uses is in `user` and `nice` already. The
//! system counts in ticks, of 10 ms where nobody has changed that.

use std::path::Path;

use starfarm_agent_core::running::a_second;
use starfarm_agent_core::{Context, Module, Stage, Type, ids};
use starfarm_protocol::metric::Metric;

use super::measure::{Measure, OUT, PROC, Sensor};
use super::source::Source;
use super::text::{lines, number, words};

/// This sensor.
pub const MODULE: Module =
    Module { name: CpuLoad::NAME, types: &[Type { name: CpuLoad::NAME, new: &|| stage(Path::new(PROC)) }] };

/// One that reads below this folder as if it were /proc.
pub fn stage(proc: &Path) -> Box<dyn Stage> {
    let (stat, loadavg) = (Source::new(proc, "stat"), Source::new(proc, "loadavg"));
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Box::new(Sensor(CpuLoad { stat, loadavg, tick_us, busy: None, cores: Vec::new() }))
}

/// Cores of a machine, at most: Linux knows no more.
const CORES_MAX: usize = 8_192;
/// Of the columns of /proc/stat, those of busy time.
const BUSY_COLUMNS: [usize; 6] = [0, 1, 2, 5, 6, 7];

struct CpuLoad {
    stat: Source,
    loadavg: Source,
    tick_us: u64,
    /// When the sample before was taken, and the busy time of all cores then.
    busy: Option<(u64, u64)>,
    /// Busy time of each core, as the value is written. A core that is off has used what it had used.
    cores: Vec<u8>,
}

impl CpuLoad {
    /// The busy time of all cores, in microseconds; that of each goes to `cores`.
    fn busy_us(&mut self) -> Option<u64> {
        let mut all = None;
        for line in lines(self.stat.read()?).map_while(|line| line.strip_prefix(b"cpu")) {
            let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let (core, columns) = line.split_at(end);
            let Some(ticks) = busy_ticks(columns) else { continue };
            let busy_us = ticks.saturating_mul(self.tick_us);
            if core.is_empty() {
                all = Some(busy_us);
            } else if let Some(core) = number(core) {
                put_core(&mut self.cores, core, busy_us);
            }
        }
        all
    }
}

/// Busy time in the columns of a line.
fn busy_ticks(columns: &[u8]) -> Option<u64> {
    let (mut busy, mut count) = (0_u64, 0);
    for (column, ticks) in words(columns).enumerate().take(BUSY_COLUMNS[5] + 1) {
        if BUSY_COLUMNS.contains(&column) {
            busy = busy.checked_add(number(ticks)?)?;
        }
        count += 1;
    }
    // Old systems have no more columns than these.
    (count >= 4).then_some(busy)
}

fn put_core(cores: &mut Vec<u8>, core: u64, busy_us: u64) {
    let Some(core) = usize::try_from(core).ok().filter(|core| *core < CORES_MAX) else { return };
    let at = core * 8;
    if cores.len() < at + 8 {
        cores.resize(at + 8, 0);
    }
    cores[at..at + 8].copy_from_slice(&busy_us.to_le_bytes());
}

/// The load of the last minute, in thousandths, out of /proc/loadavg.
fn run_queue(text: &[u8]) -> Option<u64> {
    let word = words(text).next()?;
    let point = word.iter().position(|byte| *byte == b'.')?;
    let (whole, hundredths) = (number(&word[..point])?, number(word.get(point + 1..point + 3)?)?);
    whole.checked_mul(1_000)?.checked_add(hundredths * 10)
}

impl Measure for CpuLoad {
    const NAME: &'static str = "cpuload";

    fn measure(&mut self, context: &mut Context<'_>) {
        let now_us = context.now_us();
        let busy_us = self.busy_us();
        let before = std::mem::replace(&mut self.busy, busy_us.map(|busy_us| (now_us, busy_us)));
        let rate = before.zip(busy_us).and_then(|((then_us, before_us), busy_us)| {
            let past_us = now_us.checked_sub(then_us).filter(|us| *us > 0)?;
            Some(a_second(busy_us.checked_sub(before_us)?, past_us))
        });
        let run_queue = self.loadavg.read().and_then(run_queue);
        context.emit(OUT, |message| {
            rate.into_iter().for_each(|rate| message.put_number(ids::of(Metric::Cpu), rate));
            run_queue.into_iter().for_each(|load| message.put_number(ids::of(Metric::RunQueue), load));
            if busy_us.is_some() && !self.cores.is_empty() {
                message.put(ids::CPU_TIMES, &self.cores);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_time_waits_and_guests() {
        assert_eq!(busy_ticks(b"  1 20 300 4000 50000 600000 7000000 80000000 9 9"), Some(87_600_321));
        assert_eq!(busy_ticks(b" 1 2 3 4"), Some(6), "an old system's");
        for none in [&b""[..], b" 1 2 3", b" 1 x 3 4"] {
            assert_eq!(busy_ticks(none), None, "{}", String::from_utf8_lossy(none));
        }
    }

    #[test]
    fn a_load_has_two_places() {
        assert_eq!(run_queue(b"1.85 1.78 2.05 3/92 20990\n"), Some(1_850));
        assert_eq!(run_queue(b"127.03 1 1"), Some(127_030));
        for none in [&b""[..], b"1 2 3", b"1.", b"1.x5", b"x.00"] {
            assert_eq!(run_queue(none), None, "{}", String::from_utf8_lossy(none));
        }
    }
}
