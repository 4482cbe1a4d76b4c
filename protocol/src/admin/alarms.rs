//! Alarms of the farm's machines, as people see them.

use serde::{Deserialize, Serialize};

use crate::link::AlarmLevel;
use crate::word::words;

words! {
    /// Whether an alarm has more than one way.
    AlarmPath {
        /// Through the scheduler alone: there is no second root, or it is not there.
        Single => "single",
        /// Also through a second root on another machine than the scheduler's.
        Double => "double",
    }
}

words! {
    /// What became of an alarm.
    AlarmChange {
        /// It was raised.
        Begun => "begun",
        /// It is worse or less bad than before, or something else is wrong.
        Changed => "changed",
        /// It is over.
        Over => "over",
    }
}

/// What became of an alarm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlarmLine {
    /// Counts from 1 at the scheduler's start.
    pub number: u64,
    /// When the scheduler saw it, in microseconds of the farm's clock: since 1970.
    pub at_us: u64,
    /// What became of it.
    pub change: AlarmChange,
    /// The alarm's name when it began.
    pub id: String,
    /// The node, or the machine of the scheduler.
    pub node: String,
    /// What it was seen with, such as `disk`.
    pub sensor: String,
    /// How bad it is; of one that is over, how bad it was.
    pub level: AlarmLevel,
    /// The figure that is too high or too low; none where it is no figure.
    pub value: Option<f64>,
    /// What is wrong; of one that is over, what was.
    pub text: String,
}

/// What became of alarms lately, oldest first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlarmPage {
    /// The lines.
    pub lines: Vec<AlarmLine>,
    /// So many behind the one that was asked for are not kept any more.
    pub missed: u64,
}

/// All alarms that stand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlarmsInfo {
    /// The ways that there are.
    pub path: AlarmPath,
    /// The node whose program runs when there is one; none where no node has a program.
    pub reacts: Option<String>,
    /// The alarms, the worst first.
    pub alarms: Vec<AlarmInfo>,
}

/// An alarm that stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlarmInfo {
    /// Its name; another time it has another.
    pub id: String,
    /// The node, or the machine of the scheduler.
    pub node: String,
    /// What it was seen with, such as `disk`.
    pub sensor: String,
    /// How bad it is.
    pub level: AlarmLevel,
    /// The figure that is too high or too low, when it became so; none where it is no figure.
    pub value: Option<f64>,
    /// What is wrong.
    pub text: String,
    /// For how long it stands.
    pub since_seconds: f64,
    /// By how many ways it came: 1 or 2.
    pub paths: u32,
    /// A program has been run for it.
    pub reacted: bool,
}
