//! The settings of a farm: what a person may choose, within which range, and what follows where nobody does. One table
//! that the scheduler's flags, its `config.toml`, the simulator, `status` and the documentation go by. The paper calls
//! its values usual; they are defaults here, not laws. What has no place here is a limit: see [`crate::limits`].

use crate::wire::Pace;

/// What a farm goes by. Made by [`Given::settle`] alone, so that the values fit each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Tasks by which a speed-up or a slow-down moves a node's window, per slot.
    pub speed_step: u16,
    /// How often a worker says that it lives, and what it holds.
    pub heartbeat_us: u64,
    /// A node unheard for this long gets no new tasks.
    pub suspect_us: u64,
    /// A node unheard for this long gives its tasks back.
    pub lost_us: u64,
    /// An idle worker that heard nothing for this long takes it that the network is cut.
    pub idle_us: u64,
    /// Longest pause between two tries of a worker to reach the scheduler again.
    pub reconnect_us: u64,
    /// A task that a live node no longer lists is given to another after this many target times (T_retry / T_target).
    pub retry_targets: u64,
    /// The dispatcher's period: of ratings, of the figures that are shown, and the net below the events.
    pub period_us: u64,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key in `config.toml` and in JSON.
    pub key: &'static str,
    /// The flag of the command line, without the dashes before it.
    pub flag: &'static str,
    /// `tasks`, `seconds` or `target times`.
    pub unit: &'static str,
    /// Least value.
    pub least: f64,
    /// Greatest value.
    pub most: f64,
    /// What holds where nobody says, in words.
    pub default: &'static str,
    /// What it is, for `--help`.
    pub about: &'static str,
}

/// The rows: key and flag, range and unit, default, and what it is.
macro_rules! rows {
    ($($key:literal $flag:literal: $least:literal to $most:literal $unit:literal, else $default:literal; $about:literal;)*) => {
        [$(Setting {
            key: $key,
            flag: $flag,
            unit: $unit,
            least: $least,
            most: $most,
            default: $default,
            about: $about,
        }),*]
    };
}

/// All settings, in the order of [`Settings::values`].
pub const SETTINGS: [Setting; 8] = rows! {
    "speed_step" "speed-step": 1.0 to 64.0 "tasks", else "1";
        "Tasks by which a speed-up or slow-down of a worker moves its window, per slot";
    "heartbeat_seconds" "heartbeat-seconds": 0.1 to 60.0 "seconds", else "1";
        "How often workers send a heartbeat";
    "suspect_seconds" "suspect-seconds": 0.2 to 600.0 "seconds", else "5 heartbeats, at least 5";
        "A node unheard for this long gets no new tasks";
    "lost_seconds" "lost-seconds": 0.3 to 3_600.0 "seconds", else "3 times suspect";
        "A node unheard for this long is lost: its tasks go to others";
    "idle_seconds" "idle-seconds": 1.0 to 3_600.0 "seconds", else "2 heartbeats, at least 60";
        "An idle worker that heard nothing for this long shakes hands anew";
    "reconnect_seconds" "reconnect-seconds": 1.0 to 600.0 "seconds", else "30";
        "Longest pause between two handshakes of a worker that gets no answer";
    "retry_targets" "retry-targets": 4.0 to 1_000.0 "target times", else "10";
        "T_retry / T_target: a task that its node no longer lists goes to another after so many target times";
    "period_seconds" "period-seconds": 1.0 to 60.0 "seconds", else "10";
        "Period of ratings and of the figures that are shown";
};

/// Places in the table of what goes over the wire.
const HEARTBEAT: usize = 1;
const IDLE: usize = 4;
const RECONNECT: usize = 5;
const PERIOD: usize = 7;
/// A node is suspect after so many heartbeats: one lost datagram in ten still suspects nobody within a year.
const SUSPECT_HEARTBEATS: u64 = 5;
/// A suspect node is lost after so many times that.
const LOST_SUSPECTS: u64 = 3;
/// A silence is no sign before so many heartbeats.
const SILENT_HEARTBEATS: u64 = 2;
/// A task that a live node no longer lists is not given to another before so many heartbeats, one of which may have
/// been lost, however short the tasks are.
const RETRY_HEARTBEATS: u64 = 3;
const SECOND_US: u64 = 1_000_000;

impl Settings {
    /// What holds where nobody says anything.
    pub const DEFAULT: Self = Self {
        speed_step: 1,
        heartbeat_us: SECOND_US,
        suspect_us: SUSPECT_HEARTBEATS * SECOND_US,
        lost_us: LOST_SUSPECTS * SUSPECT_HEARTBEATS * SECOND_US,
        idle_us: 60 * SECOND_US,
        reconnect_us: 30 * SECOND_US,
        retry_targets: 10,
        period_us: 10 * SECOND_US,
    };

    /// The values, in the order of [`SETTINGS`] and in its units.
    pub fn values(&self) -> [f64; SETTINGS.len()] {
        let seconds = |us: u64| us as f64 / SECOND_US as f64;
        [
            f64::from(self.speed_step),
            seconds(self.heartbeat_us),
            seconds(self.suspect_us),
            seconds(self.lost_us),
            seconds(self.idle_us),
            seconds(self.reconnect_us),
            self.retry_targets as f64,
            seconds(self.period_us),
        ]
    }

    /// T_retry of tasks that should take `target_us`: one that a live node no longer lists goes to another after this.
    pub fn retry_us(&self, target_us: u64) -> u64 {
        target_us.saturating_mul(self.retry_targets).max(RETRY_HEARTBEATS * self.heartbeat_us)
    }

    /// What workers are told of them beside the heartbeat.
    pub const fn pace(&self) -> Pace {
        // The longest of them is an hour.
        Pace {
            idle_ms: (self.idle_us / 1_000) as u32,
            reconnect_ms: (self.reconnect_us / 1_000) as u32,
            period_ms: (self.period_us / 1_000) as u32,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Microseconds between two heartbeats where a welcome wants one every `ms`: within the range, whatever it says.
pub fn heartbeat_us(ms: u32) -> u64 {
    within(HEARTBEAT, ms)
}

fn within(place: usize, ms: u32) -> u64 {
    let Setting { least, most, .. } = SETTINGS[place];
    ((f64::from(ms) / 1e3).clamp(least, most) * 1e6) as u64
}

/// What a worker makes of it: within the ranges, whatever the wire says.
impl Pace {
    /// The pace of a farm whose scheduler names none.
    pub const DEFAULT: Self = Settings::DEFAULT.pace();

    /// An idle worker that heard nothing for so many microseconds takes it that the network is cut.
    pub fn idle_us(&self) -> u64 {
        within(IDLE, self.idle_ms)
    }

    /// Longest pause between two handshakes, in microseconds.
    pub fn reconnect_us(&self) -> u64 {
        within(RECONNECT, self.reconnect_ms)
    }

    /// The farm's period, in microseconds.
    pub fn period_us(&self) -> u64 {
        within(PERIOD, self.period_ms)
    }
}

/// What a person has set; the rest follows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Given([Option<f64>; SETTINGS.len()]);

impl Given {
    /// Sets `key`, in the unit of its row.
    ///
    /// # Errors
    /// There is no such key, or the value is out of its range; the sentence says what there is.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), String> {
        let place = place(key)?;
        self.0[place] = Some(SETTINGS[place].check(value)?);
        Ok(())
    }

    /// What is set here, and else what is set in `other`.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|place| self.0[place].or(other.0[place])))
    }

    /// All settings.
    ///
    /// # Errors
    /// Values that do not fit each other; the sentence says what would.
    pub fn settle(&self) -> Result<Settings, String> {
        let usual = Settings::DEFAULT;
        let us = |value: f64| (value * 1e3).round() as u64 * 1_000;
        let [step, heartbeat, suspect, lost, idle, reconnect, retry, period] = self.0;
        let heartbeat_us = heartbeat.map_or(usual.heartbeat_us, us);
        let suspect_us = suspect.map_or(usual.suspect_us.max(SUSPECT_HEARTBEATS * heartbeat_us), us);
        let settings = Settings {
            speed_step: step.map_or(usual.speed_step, |step| step as u16),
            heartbeat_us,
            suspect_us,
            lost_us: lost.map_or(LOST_SUSPECTS * suspect_us, us),
            idle_us: idle.map_or(usual.idle_us.max(SILENT_HEARTBEATS * heartbeat_us), us),
            reconnect_us: reconnect.map_or(usual.reconnect_us, us),
            retry_targets: retry.map_or(usual.retry_targets, |targets| targets as u64),
            period_us: period.map_or(usual.period_us, us),
        };
        settings.check().map(|()| settings)
    }
}

/// The row of `key` in the table.
///
/// # Errors
/// There is no such key; the sentence says which there are.
pub fn place(key: &str) -> Result<usize, String> {
    SETTINGS.iter().position(|setting| setting.key == key).ok_or_else(|| {
        let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        format!("there is no setting {key:?}; there are {}", keys.join(", "))
    })
}

impl Setting {
    /// Whether it is counted: no fraction then.
    fn is_whole(&self) -> bool {
        self.unit != "seconds"
    }

    /// `value`, where it is in the range.
    ///
    /// # Errors
    /// It is not; the sentence says what is.
    pub fn check(&self, value: f64) -> Result<f64, String> {
        let whole = if self.is_whole() { "a whole number from " } else { "" };
        if (self.least..=self.most).contains(&value) && !(self.is_whole() && value.fract() != 0.0) {
            return Ok(value);
        }
        Err(format!("{} = {value}: it is {whole}{} to {} {}", self.key, self.least, self.most, self.unit))
    }
}

impl Settings {
    /// What single ranges do not say.
    fn check(&self) -> Result<(), String> {
        let [_, heartbeat, suspect, lost, idle, ..] = self.values();
        let least_us = SILENT_HEARTBEATS * self.heartbeat_us;
        let least = least_us as f64 / SECOND_US as f64;
        for (key, value_us, value) in
            [("suspect_seconds", self.suspect_us, suspect), ("idle_seconds", self.idle_us, idle)]
        {
            if value_us < least_us {
                return Err(format!(
                    "{key} = {value}: with a heartbeat every {heartbeat} s it is {least} or more, or one lost datagram \
                     would be taken for silence"
                ));
            }
        }
        if self.lost_us <= self.suspect_us {
            return Err(format!(
                "lost_seconds = {lost}: it is more than suspect_seconds, which is {suspect}; a node is suspect before \
                 it is lost"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(given: &[(&str, f64)]) -> Result<Settings, String> {
        let mut all = Given::default();
        for &(key, value) in given {
            all.set(key, value)?;
        }
        all.settle()
    }

    #[test]
    fn nothing_given_is_what_the_paper_calls_usual() {
        assert_eq!(settled(&[]), Ok(Settings::DEFAULT));
        for (setting, value) in SETTINGS.iter().zip(Settings::DEFAULT.values()) {
            assert_eq!(setting.check(value), Ok(value));
            assert_eq!(setting.flag, setting.key.replace('_', "-"));
            assert!(setting.about.len() < 110 && !setting.about.ends_with('.'), "{}", setting.key);
        }
    }

    #[test]
    fn every_setting_arrives_at_its_place() {
        let given = [3.0, 2.0, 9.0, 30.0, 70.0, 5.0, 12.0, 4.0];
        let keys = SETTINGS.iter().map(|setting| setting.key);
        let settings = settled(&keys.zip(given).collect::<Vec<_>>()).unwrap();
        assert_eq!(settings.values(), given);
        assert_eq!(settings.pace(), Pace { idle_ms: 70_000, reconnect_ms: 5_000, period_ms: 4_000 });
    }

    #[test]
    fn silence_follows_a_slow_heartbeat() {
        let seconds = |heartbeat| {
            let settings = settled(&[("heartbeat_seconds", heartbeat)]).unwrap();
            [settings.suspect_us, settings.lost_us, settings.idle_us].map(|us| us / SECOND_US)
        };
        assert_eq!(seconds(0.1), [5, 15, 60]);
        assert_eq!(seconds(10.0), [50, 150, 60]);
        assert_eq!(seconds(60.0), [300, 900, 120]);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words_with_what_can() {
        let refused = |given: &[(&str, f64)]| settled(given).unwrap_err();
        assert!(refused(&[("heart_beat", 1.0)]).contains("there are speed_step, heartbeat_seconds, "));
        assert_eq!(
            refused(&[("heartbeat_seconds", 0.05)]),
            "heartbeat_seconds = 0.05: it is 0.1 to 60 seconds"
        );
        assert!(refused(&[("speed_step", 1.5)]).contains("a whole number from 1 to 64 tasks"));
        assert!(refused(&[("speed_step", f64::NAN)]).contains("speed_step"));
        assert!(refused(&[("retry_targets", 3.0)]).contains("4 to 1000 target times"));
        assert!(
            refused(&[("suspect_seconds", 1.5)]).contains("with a heartbeat every 1 s it is 2 or more"),
            "one lost datagram"
        );
        assert!(refused(&[("heartbeat_seconds", 40.0), ("idle_seconds", 60.0)]).contains("80 or more"));
        assert!(refused(&[("lost_seconds", 5.0)]).contains("more than suspect_seconds, which is 5"));
    }

    #[test]
    fn a_worker_keeps_to_the_ranges_whatever_the_wire_says() {
        assert_eq!(
            (heartbeat_us(0), heartbeat_us(2_500), heartbeat_us(u32::MAX)),
            (100_000, 2_500_000, 60_000_000)
        );
        let [none, all] = [0, u32::MAX].map(|ms| Pace { idle_ms: ms, reconnect_ms: ms, period_ms: ms });
        assert_eq!(
            (none.idle_us(), none.reconnect_us(), none.period_us()),
            (1_000_000, 1_000_000, 1_000_000)
        );
        assert_eq!(
            (all.idle_us(), all.reconnect_us(), all.period_us()),
            (3_600_000_000, 600_000_000, 60_000_000)
        );
        for (place, key) in [
            (HEARTBEAT, "heartbeat_seconds"),
            (IDLE, "idle_seconds"),
            (RECONNECT, "reconnect_seconds"),
            (PERIOD, "period_seconds"),
        ] {
            assert_eq!(SETTINGS[place].key, key);
        }
    }

    #[test]
    fn a_flag_stands_over_the_file() {
        let (mut flags, mut file) = (Given::default(), Given::default());
        flags.set("heartbeat_seconds", 2.0).unwrap();
        file.set("heartbeat_seconds", 3.0).unwrap();
        file.set("speed_step", 6.0).unwrap();
        let settings = flags.over(&file).settle().unwrap();
        assert_eq!((settings.heartbeat_us, settings.speed_step), (2_000_000, 6));
    }
}
