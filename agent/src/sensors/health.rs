//! `health`: what is wrong with the machine. Whenever its timer fires it looks at the file system of the worker's state, at
//! memory, at what memory, fans and network interfaces report of errors, and at temperatures. For each it says how bad it is: at
//! first if it is bad, and whenever that changes. What cannot be read is not bad.
//!
//! | sensor | warning | critical | read from |
//! | --- | --- | --- | --- |
//! | `disk` | 5 % or 1 GiB is free, whichever is less | 1 % or 256 MiB | `statvfs` |
//! | `memory` | 5 % is available, or all processes wait for it 20 % of the time | 2 %, or 60 % | `/proc/meminfo`, `/proc/pressure/memory` |
//! | `memory-errors` | some were corrected in the last 10 minutes | some were not | `/sys/devices/system/edac` |
//! | `temperature` | a part is at its greatest | it is at its critical one | `/sys/class/hwmon` |
//! | `fan` | one stands still or is at fault | | `/sys/class/hwmon` |
//! | `link-errors` | an interface has 10 or more in two looks | | `/sys/class/net` |
//!
//! What is bad is over only when it is clearly better: a quarter more is free than where it began, it is 3 K cooler, and so on.

mod disk;
mod errors;
mod hwmon;
mod memory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use starfarm_agent_core::{Context, Module, Stage, Type, ids};
use starfarm_protocol::link::AlarmLevel;

use super::measure::{Measure, OUT, PROC, Sensor};

const SYS: &str = "/sys";

/// This sensor.
pub const MODULE: Module = Module {
    name: Health::NAME,
    types: &[Type { name: Health::NAME, new: || stage(Path::new(PROC), Path::new(SYS)) }],
};

/// One that reads below these folders as if they were /proc and /sys.
pub fn stage(proc: &Path, sys: &Path) -> Box<dyn Stage> {
    let looks: [Box<dyn Look>; 5] = [
        Box::new(memory::Memory::new(proc)),
        Box::new(errors::MemoryErrors::new(sys)),
        Box::new(hwmon::Temperature::new(sys)),
        Box::new(hwmon::Fan::new(sys)),
        Box::new(errors::LinkErrors::new(sys)),
    ];
    Box::new(Sensor(Health { disk: disk::Disk::default(), looks, said: BTreeMap::new() }))
}

/// What is found by looking at one thing.
#[derive(Clone, PartialEq, Debug)]
struct Found {
    level: Option<AlarmLevel>,
    value: Option<f64>,
    text: String,
}

impl Found {
    /// All is well.
    fn well() -> Self {
        Self { level: None, value: None, text: String::new() }
    }

    fn bad(level: AlarmLevel, value: f64, text: String) -> Self {
        Self { level: Some(level), value: Some(value), text }
    }
}

/// Looks at one thing.
trait Look {
    fn sensor(&self) -> &'static str;

    /// How it is, where it was as bad as that the last time; nothing where that cannot be read.
    fn look(&mut self, was: Option<AlarmLevel>, now_us: u64) -> Option<Found>;
}

struct Health {
    disk: disk::Disk,
    looks: [Box<dyn Look>; 5],
    /// How bad each is, as it was said last.
    said: BTreeMap<&'static str, AlarmLevel>,
}

impl Measure for Health {
    const NAME: &'static str = "health";

    fn measure(&mut self, context: &mut Context<'_>) {
        let Self { disk, looks, said } = self;
        let looks = looks.iter_mut().map(|look| &mut **look as &mut dyn Look);
        for look in [disk as &mut dyn Look].into_iter().chain(looks) {
            let sensor = look.sensor();
            let was = said.get(sensor).copied();
            let Some(Found { level, value, text }) = look.look(was, context.now_us()) else { continue };
            if level == was {
                continue;
            }
            match level {
                Some(level) => drop(said.insert(sensor, level)),
                None => drop(said.remove(sensor)),
            }
            context.emit(OUT, |message| {
                message.put(ids::SENSOR, sensor.as_bytes());
                message.put_number(ids::ALARM_LEVEL, level.map_or(0, |level| level as u64));
                value.into_iter().for_each(|value| message.put_number(ids::ALARM_VALUE, value.to_bits()));
                message.put(ids::ALARM_TEXT, text.as_bytes());
            });
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "disk" => {
                self.disk = disk::Disk::of(PathBuf::from(value));
                Ok(())
            }
            _ => Err(format!("`health` has no setting `{key}`, but `disk`, a folder of the disk to look at")),
        }
    }
}

/// How bad a share is, of which less is worse: as bad as it was until a quarter more than that is there.
fn by_less(share: f64, [warning, critical]: [f64; 2], was: Option<AlarmLevel>) -> Option<AlarmLevel> {
    let is_below = |level: f64, of: AlarmLevel| share < if was >= Some(of) { level * 1.25 } else { level };
    if is_below(critical, AlarmLevel::Critical) {
        Some(AlarmLevel::Critical)
    } else {
        is_below(warning, AlarmLevel::Warning).then_some(AlarmLevel::Warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_is_over_when_it_is_clearly_better() {
        use AlarmLevel::{Critical, Warning};
        let of = |share, was| by_less(share, [0.05, 0.01], was);
        assert_eq!(
            [0.2, 0.05, 0.04, 0.009].map(|share| of(share, None)),
            [None, None, Some(Warning), Some(Critical)]
        );
        assert_eq!(
            [0.06, 0.0624, 0.0626].map(|share| of(share, Some(Warning))),
            [Some(Warning), Some(Warning), None]
        );
        assert_eq!([0.012, 0.013].map(|share| of(share, Some(Critical))), [Some(Critical), Some(Warning)]);
    }
}
