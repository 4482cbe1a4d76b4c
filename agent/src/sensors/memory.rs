//! `memory`: how much memory of the node is in use, out of /proc/meminfo: what programs could not have if they wanted it. What
//! the system keeps of files until somebody needs the room is not in it.

use std::path::Path;

use starfarm_agent_core::{Context, Module, Stage, Type, ids};
use starfarm_protocol::metric::Metric;

use super::measure::{Measure, OUT, PROC, Sensor};
use super::source::Source;
use super::text::{lines, value};

/// This sensor.
pub const MODULE: Module =
    Module { name: Memory::NAME, types: &[Type { name: Memory::NAME, new: &|| stage(Path::new(PROC)) }] };

/// One that reads below this folder as if it were /proc.
pub fn stage(proc: &Path) -> Box<dyn Stage> {
    Box::new(Sensor(Memory(Source::new(proc, "meminfo"))))
}

struct Memory(Source);

/// What is looked for: all and free, of memory and of swap space.
const KEYS: [&str; 4] = ["MemTotal", "MemAvailable", "SwapTotal", "SwapFree"];

/// Memory and swap space in use, in bytes.
fn in_use(text: &[u8]) -> [Option<u64>; 2] {
    let mut kib = [None; 4];
    for line in lines(text) {
        for (key, kib) in KEYS.iter().zip(&mut kib) {
            *kib = kib.or_else(|| value(line, key));
        }
        if kib.iter().all(Option::is_some) {
            break;
        }
    }
    let used = |all: Option<u64>, free: Option<u64>| all?.checked_sub(free?)?.checked_mul(1_024);
    [used(kib[0], kib[1]), used(kib[2], kib[3])]
}

impl Measure for Memory {
    const NAME: &'static str = "memory";

    fn measure(&mut self, context: &mut Context<'_>) {
        let [memory, swap] = self.0.read().map_or([None; 2], in_use);
        context.emit(OUT, |message| {
            memory.into_iter().for_each(|bytes| message.put_number(ids::of(Metric::Memory), bytes));
            swap.into_iter().for_each(|bytes| message.put_number(ids::of(Metric::Swap), bytes));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_not_known() {
        let all =
            "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 50 kB\n";
        assert_eq!(in_use(all.as_bytes()), [Some(600 * 1_024), Some(0)]);
        let old = all.replace("MemAvailable", "Cached");
        assert_eq!(in_use(old.as_bytes()), [None, Some(0)]);
        assert_eq!(in_use(b"MemTotal: 1 kB\nMemAvailable: 2 kB\n"), [None, None]);
        assert_eq!(in_use(b""), [None, None]);
    }
}
