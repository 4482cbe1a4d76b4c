//! Alarms: what somebody must know of a node, said until whoever should know it says that it does.

use crate::bytes::{Malformed, Reader};
use crate::field::Field;
use crate::orders::PostId;
use crate::word::words;

/// Bytes of a sensor's name, at most.
pub const SENSOR_BYTES_MAX: usize = 64;
/// The same of a node's name, and of an alarm's text.
const NODE_BYTES_MAX: usize = 256;
/// See [`NODE_BYTES_MAX`].
const TEXT_BYTES_MAX: usize = 512;
/// Alarms, or answers to them, of one message, at most: those that are as long as they may be fit into a record.
pub const ALARMS_A_MESSAGE: usize = 32;

words! {
    /// How bad it is. The numbers are on the wire: append only.
    AlarmLevel {
        /// Somebody should look at it.
        Warning = 1 => "warning",
        /// Somebody must.
        Critical = 2 => "critical",
    }
}

/// What an alarm is about. A post has one of a sensor at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlarmKey {
    /// The post that raised it.
    pub origin: PostId,
    /// What it saw it with.
    pub sensor: String,
}

/// An alarm as it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Alarm {
    /// What it is about.
    pub key: AlarmKey,
    /// When it was raised, by the farm's clock, in microseconds: what is raised again later is another episode.
    pub episode: u64,
    /// How often it has changed, or been said again to show that it stands: the higher is the newer.
    pub version: u32,
    /// How bad it is; none: it is over.
    pub level: Option<AlarmLevel>,
    /// Whether its node is to get no more tasks.
    pub drains: bool,
    /// A program has been run for it.
    pub reacted: bool,
    /// Its node was told to get no more tasks.
    pub drained: bool,
    /// The process that raised it knew of no episode before it: to whoever knows of one that stands it is the same alarm.
    pub is_first: bool,
    /// The figure that is too high or too low, where it is one.
    pub value: Option<f64>,
    /// The node.
    pub node: String,
    /// What is wrong, for a person.
    pub text: String,
}

impl Alarm {
    /// Its name, the same wherever it is shown: no other alarm has it.
    pub fn id(&self) -> String {
        format!("{}-{}-{}", self.key.origin, self.key.sensor, self.episode)
    }
}

/// Who has heard of an alarm, says this of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlarmAck {
    /// Which alarm.
    pub key: AlarmKey,
    /// Which episode of it.
    pub episode: u64,
    /// Up to which version.
    pub version: u32,
    /// A program has been run for it.
    pub reacted: bool,
    /// Its node was told to get no more tasks.
    pub drained: bool,
}

const RAISED: u8 = 1;
const DRAINS: u8 = 2;
const REACTED: u8 = 4;
const HAS_VALUE: u8 = 8;
const FIRST: u8 = 16;
const DRAINED: u8 = 32;
/// Of an answer.
const HAS_REACTED: u8 = 1;
const HAS_DRAINED: u8 = 2;

fn flag(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

fn put_text(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let text = &text[..text.floor_char_boundary(bytes_max)];
    (text.len() as u16).put(out);
    out.extend_from_slice(text.as_bytes());
}

fn read_text(rest: &mut Reader<'_>, bytes_max: usize) -> Result<String, Malformed> {
    let length = usize::from(rest.u16()?);
    if length > bytes_max {
        return Err(Malformed);
    }
    let text = std::str::from_utf8(rest.bytes(length)?).map_err(|_| Malformed)?;
    // It is shown to people as it is.
    if text.chars().any(char::is_control) { Err(Malformed) } else { Ok(text.to_owned()) }
}

impl Field for AlarmKey {
    fn put(&self, out: &mut Vec<u8>) {
        self.origin.0.put(out);
        put_text(out, &self.sensor, SENSOR_BYTES_MAX);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { origin: PostId(rest.u64()?), sensor: read_text(rest, SENSOR_BYTES_MAX)? })
    }
}

impl Field for Alarm {
    fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        (self.episode, self.version).put(out);
        let flags = flag(self.level.is_some(), RAISED)
            | flag(self.drains, DRAINS)
            | flag(self.reacted, REACTED)
            | flag(self.value.is_some(), HAS_VALUE)
            | flag(self.is_first, FIRST)
            | flag(self.drained, DRAINED);
        (flags, self.level.map_or(0, |level| level as u8)).put(out);
        self.value.unwrap_or_default().to_bits().put(out);
        put_text(out, &self.node, NODE_BYTES_MAX);
        put_text(out, &self.text, TEXT_BYTES_MAX);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (key, (episode, version)) = (AlarmKey::read(rest)?, <(u64, u32)>::read(rest)?);
        let (flags, level) = <(u8, u8)>::read(rest)?;
        // One of a level that a later release knows is bad all the same.
        let level = AlarmLevel::from_number(level).unwrap_or(AlarmLevel::Critical);
        let value = f64::from_bits(rest.u64()?);
        Ok(Self {
            key,
            episode,
            version,
            level: (flags & RAISED != 0).then_some(level),
            drains: flags & DRAINS != 0,
            reacted: flags & REACTED != 0,
            drained: flags & DRAINED != 0,
            is_first: flags & FIRST != 0,
            value: (flags & HAS_VALUE != 0 && value.is_finite()).then_some(value),
            node: read_text(rest, NODE_BYTES_MAX)?,
            text: read_text(rest, TEXT_BYTES_MAX)?,
        })
    }
}

impl Field for AlarmAck {
    fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        let flags = flag(self.reacted, HAS_REACTED) | flag(self.drained, HAS_DRAINED);
        ((self.episode, self.version), flags).put(out);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (key, ((episode, version), flags)) = (AlarmKey::read(rest)?, <((u64, u32), u8)>::read(rest)?);
        let (reacted, drained) = (flags & HAS_REACTED != 0, flags & HAS_DRAINED != 0);
        Ok(Self { key, episode, version, reacted, drained })
    }
}

/// All of a message, up to its end.
pub(super) fn read_all<T: Field>(rest: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
    let all = T::read_all(rest)?;
    if all.len() > ALARMS_A_MESSAGE { Err(Malformed) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::stream::RECORD_PLAIN_MAX;

    fn alarm() -> Alarm {
        Alarm {
            key: AlarmKey { origin: PostId(7), sensor: "disk".into() },
            episode: 5,
            version: 2,
            level: Some(AlarmLevel::Critical),
            drains: true,
            reacted: false,
            drained: false,
            is_first: true,
            value: Some(0.99),
            node: "n1".into(),
            text: "1 % is free".into(),
        }
    }

    fn written(of: &impl Field) -> Vec<u8> {
        let mut out = Vec::new();
        of.put(&mut out);
        out
    }

    #[test]
    fn an_alarm_is_read_as_it_was_written() {
        let over = Alarm { level: None, drains: false, reacted: true, value: None, ..alarm() };
        let drained = Alarm { drained: true, is_first: false, ..alarm() };
        for of in [alarm(), over, drained] {
            let bytes = written(&of);
            assert_eq!(Alarm::read(&mut Reader(&bytes)), Ok(of));
            for cut in 0..bytes.len() {
                assert_eq!(Alarm::read(&mut Reader(&bytes[..cut])), Err(Malformed), "cut at {cut}");
            }
        }
    }

    #[test]
    fn an_answer_says_what_was_done() {
        for (reacted, drained) in [(false, false), (true, false), (false, true), (true, true)] {
            let ack = AlarmAck { key: alarm().key, episode: 5, version: 2, reacted, drained };
            let bytes = written(&ack);
            assert_eq!(bytes.last(), Some(&(u8::from(reacted) + 2 * u8::from(drained))));
            assert_eq!(AlarmAck::read(&mut Reader(&bytes)), Ok(ack));
        }
    }

    #[test]
    fn the_longest_fit_into_a_record_and_longer_ones_are_cut() {
        let long = Alarm {
            key: AlarmKey { origin: PostId(1), sensor: "s".repeat(100) },
            node: "n".repeat(1_000),
            text: "ä".repeat(1_000),
            ..alarm()
        };
        let bytes = written(&long);
        assert!(bytes.len() * ALARMS_A_MESSAGE < RECORD_PLAIN_MAX, "{}", bytes.len());
        let read = Alarm::read(&mut Reader(&bytes)).unwrap();
        assert_eq!((read.key.sensor.len(), read.node.len(), read.text.len()), (64, 256, 512));
    }

    #[test]
    fn what_could_do_something_to_a_terminal_is_malformed() {
        let bytes = written(&Alarm { text: "\x1b[2J".into(), ..alarm() });
        assert_eq!(Alarm::read(&mut Reader(&bytes)), Err(Malformed));
        let bytes = written(&Alarm { value: Some(f64::NAN), ..alarm() });
        assert_eq!(Alarm::read(&mut Reader(&bytes)).map(|alarm| alarm.value), Ok(None));
    }
}
