//! Whether there is memory: what is available of all, and for which share of the last ten seconds all processes that could run
//! waited for some.

use std::path::Path;

use starfarm_protocol::link::AlarmLevel;

use super::super::source::Source;
use super::super::text::{lines, value};
use super::found::{Found, Look, by_less};

const SHARES: [f64; 2] = [0.05, 0.02];
/// Percent of the time.
const WAITING: [f64; 2] = [20.0, 60.0];

pub(super) struct Memory {
    meminfo: Source,
    pressure: Source,
}

impl Memory {
    pub(super) fn new(proc: &Path) -> Self {
        let at = |name| Source::new(proc, name);
        Self { meminfo: at("meminfo"), pressure: at("pressure/memory") }
    }
}

/// What is available, and all.
fn available(text: &[u8]) -> Option<(u64, u64)> {
    let of = |key| lines(text).find_map(|line| value(line, key));
    Some((of("MemAvailable")?, of("MemTotal").filter(|all| *all > 0)?))
}

/// Percent of the last ten seconds in which nobody could go on.
fn waiting(text: &[u8]) -> Option<f64> {
    let full = std::str::from_utf8(text).ok()?.lines().find_map(|line| line.strip_prefix("full "))?;
    full.split(' ').find_map(|word| word.strip_prefix("avg10=")).and_then(|percent| percent.parse().ok())
}

fn by_waiting(percent: f64, was: Option<AlarmLevel>) -> Option<AlarmLevel> {
    // Less is worse there, so it is the time in which somebody could go on, of which it was too little.
    let [warning, critical] = WAITING.map(|percent| percent / 100.0);
    let is_beyond = |level: f64, of| percent / 100.0 >= if was >= Some(of) { level / 2.0 } else { level };
    if is_beyond(critical, AlarmLevel::Critical) {
        Some(AlarmLevel::Critical)
    } else {
        is_beyond(warning, AlarmLevel::Warning).then_some(AlarmLevel::Warning)
    }
}

impl Look for Memory {
    fn sensor(&self) -> &'static str {
        "memory"
    }

    fn look(&mut self, was: Option<AlarmLevel>, _: u64) -> Option<Found> {
        let (available, all) = available(self.meminfo.read()?)?;
        let share = available as f64 / all as f64;
        let room = by_less(share, SHARES, was);
        let percent = self.pressure.read().and_then(waiting);
        let pressed = percent.and_then(|percent| by_waiting(percent, was));
        let Some(level) = room.max(pressed) else { return Some(Found::well()) };
        Some(match percent {
            Some(percent) if pressed > room => Found::bad(
                level,
                percent / 100.0,
                format!("all processes wait for memory {percent:.0} % of the time"),
            ),
            _ => Found::bad(level, share, format!("{} MiB of memory are available", available / 1_024)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_where_little_is_there_or_all_wait_for_it() {
        assert_eq!(available(b"MemTotal: 100 kB\nMemAvailable: 7 kB\n"), Some((7, 100)));
        assert_eq!(available(b"MemTotal: 100 kB\n"), None);
        let text =
            b"some avg10=70.00 avg60=1.00 avg300=0.10 total=5\nfull avg10=25.50 avg60=1.0 avg300=0 total=3\n";
        assert_eq!(waiting(text), Some(25.5));
        assert_eq!(waiting(b"some avg10=70.00\n"), None);
        use AlarmLevel::{Critical, Warning};
        assert_eq!(
            [5.0, 25.5, 80.0].map(|percent| by_waiting(percent, None)),
            [None, Some(Warning), Some(Critical)]
        );
        assert_eq!([9.0, 12.0].map(|percent| by_waiting(percent, Some(Warning))), [None, Some(Warning)]);
    }
}
