//! `health`: what is wrong with the machine. Whenever its timer fires, and when the kernel tells of its devices or of pressure on
//! memory, it looks at the file system of the worker's state, at
//! memory, at what memory, fans and network interfaces report of errors, and at temperatures. For each it says how bad it is: at
//! first if it is bad, and whenever that changes. What cannot be read is not bad.
//!
//! | sensor | warning | critical | read from |
//! | --- | --- | --- | --- |
//! | `disk` | 5 % or 1 GiB is free, whichever is less | 1 % or 256 MiB | `statvfs` |
//! | `memory` | 5 % is available, or all processes wait for it 20 % of the time, or one of two seconds | 2 %, or 60 % | `/proc/meminfo`, `/proc/pressure/memory` |
//! | `memory-errors` | some were corrected in the last 10 minutes | some were not | `/sys/devices/system/edac` |
//! | `temperature` | a part is at its greatest | it is at its critical one | `/sys/class/hwmon` |
//! | `fan` | one stands still or is at fault | | `/sys/class/hwmon` |
//! | `card-temperature` | a card slows down of heat | it is about to stop | the driver's library (NVIDIA) |
//! | `card-errors` | errors of a card's memory were corrected in the last 10 minutes | some were not, or the driver told of a fault | the driver's library (NVIDIA) |
//! | `link-errors` | an interface has 10 or more in two looks | | `/proc/net/dev` |
//!
//! What is bad is over only when it is clearly better: a quarter more is free than where it began, it is 3 K cooler, and so on.

mod cards;
mod disk;
mod errors;
mod found;
mod hwmon;
mod memory;
mod wake;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use starfarm_agent_core::{Context, Hook, Module, Stage, Type, Word, ids};
use starfarm_protocol::link::AlarmLevel;

use self::found::{Found, Look};
use super::measure::{Measure, OUT, PROC, Sensor};

const SYS: &str = "/sys";
/// What it looks at wherever it is, beside the disk.
const LOOKS: usize = 5;

/// This sensor.
pub const MODULE: Module = Module {
    name: Health::NAME,
    types: &[Type { name: Health::NAME, new: &|| stage(Path::new(PROC), Path::new(SYS)) }],
};

/// One that reads below these folders as if they were /proc and /sys.
pub fn stage(proc: &Path, sys: &Path) -> Box<dyn Stage> {
    let looks: [Box<dyn Look>; LOOKS] = [
        Box::new(memory::Memory::new(proc)),
        Box::new(errors::MemoryErrors::new(sys)),
        Box::new(hwmon::Temperature::new(sys)),
        Box::new(hwmon::Fan::new(sys)),
        Box::new(errors::LinkErrors::new(proc)),
    ];
    let (disk, looks, said) = (disk::Disk::default(), looks.into(), BTreeMap::new());
    let (proc, wakers) = (proc.to_owned(), wake::Wakers::default());
    Box::new(Woken { sensor: Sensor(Health { disk, looks, said }), proc, wakers })
}

/// It looks when it is time, and when it is woken.
struct Woken {
    sensor: Sensor<Health>,
    proc: PathBuf,
    wakers: wake::Wakers,
}

impl Stage for Woken {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        self.sensor.edge_made(hook)
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Ready => {
                if self.wakers.wake(context.now_us()) {
                    self.sensor.0.measure(context);
                }
                return Ok(());
            }
            // Whoever says where that is has made it for this machine.
            Word::Set { key, .. } if key == "disk" => self.wakers.open(&self.proc, context),
            Word::Set { key, value } if key == "cards" => {
                Path::new(value)
                    .parent()
                    .into_iter()
                    .for_each(|folder| self.wakers.open_folder(folder, context));
            }
            _ => {}
        }
        self.sensor.told(word, context)
    }
}

struct Health {
    disk: disk::Disk,
    looks: Vec<Box<dyn Look>>,
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
            "cards" if self.looks.len() == LOOKS => {
                let cards = cards::Cards::of(PathBuf::from(value));
                self.looks.push(Box::new(cards::CardTemperature(cards.clone())));
                self.looks.push(Box::new(cards::CardErrors::of(cards)));
                Ok(())
            }
            "cards" => Err("`cards` of `health` is set already".to_owned()),
            _ => Err(format!("`health` has no setting `{key}`, but `disk`, a folder of the disk to look at")),
        }
    }
}
