//! Ids of values. The metrics come first, by their numbers; what says whose values follow comes behind them; names that
//! programs give their own figures are dealt from [`NAMED_FIRST`] on.

use starfarm_protocol::metric::Metric;

use crate::values::ValueId;

/// The job that the values of this message are about: its number.
pub const JOB: ValueId = ValueId(1_000);
/// The number of units that the values are about: a figure as others are, so "none any more" can be said alone.
pub const UNITS: ValueId = ValueId(1_001);
/// The post that measured: its number.
pub const POST: ValueId = ValueId(1_002);
/// The wave: the farm's clock at the measurement, divided by the period.
pub const WAVE: ValueId = ValueId(1_003);
/// Which of a sender's messages it is, from 0.
pub const SEQUENCE: ValueId = ValueId(1_004);
/// When the values were measured: the farm's clock, in microseconds.
pub const AT: ValueId = ValueId(1_005);
/// The unit that the values of this message are about: its number, 128 bits.
pub const UNIT: ValueId = ValueId(1_006);
/// The number of nodes whose units the values are about, and of those that are known to run any: figures as [`UNITS`] is one.
pub const FROM: ValueId = ValueId(1_014);
/// See [`FROM`].
pub const OF: ValueId = ValueId(1_015);
/// Processor time of each core since the start of the machine: an array of numbers of 64 bits, in microseconds.
pub const CPU_TIMES: ValueId = ValueId(1_010);

/// A figure is beyond its level now: the figure's id. Its value follows.
pub const ALARM_RAISED: ValueId = ValueId(1_011);
/// A figure is not beyond its level any more: the figure's id. Its value follows, unless nobody looks at it any more.
pub const ALARM_CLEARED: ValueId = ValueId(1_012);
/// Messages that a stage has taken since its start.
pub const MESSAGES: ValueId = ValueId(1_013);
/// Datagrams that the system had no room for, before a stage could take them or on their way out, since its start.
pub const LOST: ValueId = ValueId(1_020);
/// Datagrams that a stage has not taken, for nobody has said that they may come from there.
pub const REFUSED: ValueId = ValueId(1_021);
/// Datagrams that a stage could not read.
pub const MALFORMED: ValueId = ValueId(1_022);

/// What a program of a unit tells: text of one line.
pub const EVENT: ValueId = ValueId(1_023);

/// What an alarm was seen with: text. What follows is about it.
pub const SENSOR: ValueId = ValueId(1_016);
/// How bad it is: the number of an [`starfarm_protocol::link::AlarmLevel`], or 0 where all is well.
pub const ALARM_LEVEL: ValueId = ValueId(1_017);
/// The figure that is too high or too low: the bits of a floating point number of 64 bits.
pub const ALARM_VALUE: ValueId = ValueId(1_018);
/// What is wrong, for a person: text.
pub const ALARM_TEXT: ValueId = ValueId(1_019);

/// Ids that have names, beside the metrics.
const NAMES: [(&str, ValueId); 21] = [
    ("job", JOB),
    ("units", UNITS),
    ("post", POST),
    ("wave", WAVE),
    ("sequence", SEQUENCE),
    ("at", AT),
    ("unit", UNIT),
    ("event", EVENT),
    ("cpu-times", CPU_TIMES),
    ("alarm-raised", ALARM_RAISED),
    ("alarm-cleared", ALARM_CLEARED),
    ("messages", MESSAGES),
    ("lost", LOST),
    ("refused", REFUSED),
    ("malformed", MALFORMED),
    ("from", FROM),
    ("of", OF),
    ("sensor", SENSOR),
    ("alarm-level", ALARM_LEVEL),
    ("alarm-value", ALARM_VALUE),
    ("alarm-text", ALARM_TEXT),
];

pub use crate::named::NAMED_FIRST;

/// The id of a metric.
pub fn of(metric: Metric) -> ValueId {
    ValueId(u32::from(metric as u8))
}

/// The metric of an id, if it is one that this release knows.
pub fn metric(id: ValueId) -> Option<Metric> {
    u8::try_from(id.0).ok().and_then(Metric::from_number)
}

/// Whether it says whose values follow. It holds for the values behind it in a message, until another of its id comes.
pub fn says_whose(id: ValueId) -> bool {
    id != UNITS && (JOB..CPU_TIMES).contains(&id)
}

/// The id of that name: that of a metric, of another constant of this file, or one that programs give. The last have a dot.
pub fn named(name: &str) -> Option<ValueId> {
    let other = || NAMES.iter().find(|(known, _)| *known == name).map(|(_, id)| *id);
    let of_program = || name.contains('.').then(|| crate::named::id(name));
    Metric::from_word(name).map(of).or_else(other).or_else(of_program)
}

/// The name of an id, if it has one.
pub fn name(id: ValueId) -> Option<&'static str> {
    let other = || NAMES.iter().find(|(_, known)| *known == id).map(|(name, _)| *name);
    metric(id).map(Metric::word).or_else(other)
}

/// All names that [`named`] knows, but those that programs give.
pub fn names() -> impl Iterator<Item = &'static str> {
    Metric::ALL.iter().map(|metric| metric.word()).chain(NAMES.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_an_id_of_its_own() {
        let ids: std::collections::BTreeSet<_> = names().map(|name| named(name).unwrap()).collect();
        assert_eq!(ids.len(), names().count());
        assert_eq!((named("gpu"), named("job"), named("colour")), (Some(ValueId(3)), Some(JOB), None));
        assert_eq!(metric(ValueId(3)), Some(Metric::Gpu));
        assert!(named("switch.temperature").is_some_and(|id| id.0 >= NAMED_FIRST));
    }

    #[test]
    fn what_says_whose_values_follow_is_no_figure() {
        let says: Vec<_> = names().filter(|name| says_whose(named(name).unwrap())).collect();
        assert_eq!(says, ["job", "post", "wave", "sequence", "at", "unit"]);
    }
}
