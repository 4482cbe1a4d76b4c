//! Whether there is memory: what is available of all, and for which share of the last ten seconds all processes that could run
//! waited for some.

use std::path::Path;

use starfarm_protocol::link::AlarmLevel;

use super::super::source::Source;
use super::super::text::{lines, value};
use super::found::{Found, Look, by_less};

const SHARES: [f64; 2] = [0.05, 0.02];
/// Bursts are looked for over no less, in microseconds.
const BURST_US: u64 = 1_000_000;
/// Percent of the time.
const WAITING: [f64; 2] = [20.0, 60.0];

pub(super) struct Memory {
    meminfo: Source,
    pressure: Source,
    /// The time in which nobody could go on, in microseconds, and when it was so much.
    waited: Option<(u64, u64)>,
}

impl Memory {
    pub(super) fn new(proc: &Path) -> Self {
        let at = |name| Source::new(proc, name);
        Self { meminfo: at("meminfo"), pressure: at("pressure/memory"), waited: None }
    }
}

/// What is available, and all.
fn available(text: &[u8]) -> Option<(u64, u64)> {
    let of = |key| lines(text).find_map(|line| value(line, key));
    Some((of("MemAvailable")?, of("MemTotal").filter(|all| *all > 0)?))
}

/// What is said of the time in which nobody could go on.
fn waiting<T: std::str::FromStr>(text: &[u8], name: &str) -> Option<T> {
    let full = std::str::from_utf8(text).ok()?.lines().find_map(|line| line.strip_prefix("full "))?;
    full.split(' ').find_map(|word| word.strip_prefix(name)).and_then(|number| number.parse().ok())
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

impl Memory {
    /// Percent of the last ten seconds in which nobody could go on, and whether that was half of the time since the last look.
    fn waiting(&mut self, now_us: u64) -> (Option<f64>, bool) {
        let Some(text) = self.pressure.read() else { return (None, false) };
        let (percent, waited_us) = (waiting(text, "avg10="), waiting::<u64>(text, "total="));
        let since = self.waited.filter(|(_, looked_us)| *looked_us <= now_us);
        if since.is_some_and(|(_, looked_us)| now_us - looked_us < BURST_US) {
            return (percent, false);
        }
        let more = waited_us.zip(since).and_then(|(now, (before, at))| Some((now.checked_sub(before)?, at)));
        self.waited = waited_us.map(|waited_us| (waited_us, now_us));
        (percent, more.is_some_and(|(more_us, looked_us)| more_us >= (now_us - looked_us) / 2))
    }
}

impl Look for Memory {
    fn sensor(&self) -> &'static str {
        "memory"
    }

    fn look(&mut self, was: Option<AlarmLevel>, now_us: u64) -> Option<Found> {
        let (available, all) = available(self.meminfo.read()?)?;
        let share = available as f64 / all as f64;
        let room = by_less(share, SHARES, was);
        let (percent, is_burst) = self.waiting(now_us);
        let waits = percent.and_then(|percent| by_waiting(percent, was));
        let pressed = waits.max(is_burst.then_some(AlarmLevel::Warning));
        let Some(level) = room.max(pressed) else { return Some(Found::well()) };
        Some(match percent {
            Some(percent) if waits > room => Found::bad(
                level,
                percent / 100.0,
                format!("all processes wait for memory {percent:.0} % of the time"),
            ),
            Some(percent) if pressed > room => Found::bad(
                level,
                percent / 100.0,
                "all processes waited for memory for half of the last seconds".to_owned(),
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
        assert_eq!((waiting(text, "avg10="), waiting(text, "total=")), (Some(25.5), Some(3_u64)));
        assert_eq!(waiting::<f64>(b"some avg10=70.00\n", "avg10="), None);
        use AlarmLevel::{Critical, Warning};
        assert_eq!(
            [5.0, 25.5, 80.0].map(|percent| by_waiting(percent, None)),
            [None, Some(Warning), Some(Critical)]
        );
        assert_eq!([9.0, 12.0].map(|percent| by_waiting(percent, Some(Warning))), [None, Some(Warning)]);
    }
}
