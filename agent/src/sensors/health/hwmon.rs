//! Temperatures and fans, as the drivers of the machine's parts report them, cards among these.

use std::path::{Path, PathBuf};

use starfarm_protocol::link::AlarmLevel;

use super::errors::{folders, number};
use super::found::{Found, Look};

/// It is over when it is so much cooler, in thousandths of a kelvin.
const COOLER: i64 = 3_000;
/// Inputs of a device, at most.
const INPUTS_MAX: usize = 64;
/// What parts report when they report nothing: below it no limit is one, in thousandths of a degree Celsius.
const LIMIT_MIN: i64 = 20_000;

/// Inputs are looked for anew so often, in microseconds: drivers come and go.
const SEARCH_US: u64 = 60_000_000;

/// Inputs of all devices that have one of these files.
struct Inputs {
    folder: PathBuf,
    kind: &'static str,
    files: &'static [&'static str],
    /// The folder of the device, and `temp3` or the like; and when that was looked for.
    known: Vec<(PathBuf, String)>,
    searched_us: Option<u64>,
}

impl Inputs {
    fn new(sys: &Path, kind: &'static str, files: &'static [&'static str]) -> Self {
        Self { folder: sys.join("class/hwmon"), kind, files, known: Vec::new(), searched_us: None }
    }

    fn all(&mut self, now_us: u64) -> &[(PathBuf, String)] {
        if self.searched_us.is_none_or(|then_us| now_us.abs_diff(then_us) >= SEARCH_US) {
            self.searched_us = Some(now_us);
            self.known.clear();
            for device in folders(&self.folder, "hwmon") {
                let has = |input: &String| {
                    self.files.iter().any(|file| device.join(format!("{input}_{file}")).exists())
                };
                let inputs = (1..=INPUTS_MAX).map(|at| format!("{}{at}", self.kind)).filter(has);
                self.known.extend(inputs.map(|input| (device.clone(), input)));
            }
        }
        &self.known
    }
}

/// The name of a part: that of the input, or of its device.
fn name(device: &Path, input: &str) -> String {
    let text = |file: &str| std::fs::read_to_string(device.join(file)).ok();
    let of = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let (label, chip) = (of(text(&format!("{input}_label"))), of(text("name")));
    [chip, label.or(Some(input.to_owned()))].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

pub(super) struct Temperature(Inputs);

impl Temperature {
    pub(super) fn new(sys: &Path) -> Self {
        Self(Inputs::new(sys, "temp", &["input"]))
    }
}

impl Look for Temperature {
    fn sensor(&self) -> &'static str {
        "temperature"
    }

    fn look(&mut self, was: Option<AlarmLevel>, now_us: u64) -> Option<Found> {
        let mut worst: Option<Found> = None;
        for (device, input) in self.0.all(now_us) {
            let of = |file: &str| number(&device.join(format!("{input}_{file}")));
            let Some(now) = of("input") else { continue };
            let limit = |file: &str| of(file).filter(|limit| *limit >= LIMIT_MIN);
            let is_at = |limit: Option<i64>, level| {
                limit.is_some_and(|limit| now >= if was >= Some(level) { limit - COOLER } else { limit })
            };
            let critical = limit("crit").or(limit("emergency"));
            let level = if is_at(critical, AlarmLevel::Critical) {
                Some(AlarmLevel::Critical)
            } else {
                is_at(limit("max"), AlarmLevel::Warning).then_some(AlarmLevel::Warning)
            };
            let degrees = now as f64 / 1e3;
            let text = || format!("{} is at {degrees:.0} degrees Celsius", name(device, input));
            let found = level.map_or_else(Found::well, |level| Found::bad(level, degrees, text()));
            if worst.as_ref().is_none_or(|worst| worst.level < found.level) {
                worst = Some(found);
            }
        }
        worst
    }
}

pub(super) struct Fan(Inputs);

const FAULTS: [&str; 2] = ["alarm", "fault"];

impl Fan {
    pub(super) fn new(sys: &Path) -> Self {
        Self(Inputs::new(sys, "fan", &FAULTS))
    }
}

impl Look for Fan {
    fn sensor(&self) -> &'static str {
        "fan"
    }

    fn look(&mut self, _: Option<AlarmLevel>, now_us: u64) -> Option<Found> {
        let fans = self.0.all(now_us);
        let is_bad = |(device, input): &&(PathBuf, String)| {
            FAULTS.iter().any(|file| number(&device.join(format!("{input}_{file}"))) == Some(1))
        };
        let found = fans.iter().find(is_bad).map(|(device, input)| {
            let turns = number(&device.join(format!("{input}_input"))).unwrap_or_default();
            let text = format!("{} turns {turns} times a minute", name(device, input));
            Found::bad(AlarmLevel::Warning, turns as f64, text)
        });
        (!fans.is_empty()).then(|| found.unwrap_or_else(Found::well))
    }
}
