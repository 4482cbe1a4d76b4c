//! Moments worth a mark in a picture. There may be millions of hits and one lost node: each kind has room of its
//! own, and where room is short the rarer kinds come first.

use std::collections::BTreeMap;

use starfarm_events::{Event, Form, JobChange};
use starfarm_protocol::link::AlarmLevel;

/// Marks of a report at most.
pub(crate) const MARKS_MAX: usize = 2_000;
/// Longest text of a mark, in bytes.
const TEXT_BYTES_MAX: usize = 300;

/// The kind of marks that tell of a scheduler's start.
const EPOCH: &str = "epoch";

/// Something that happened at a moment.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Mark {
    /// When, microseconds of the farm's clock.
    pub at_us: u64,
    /// The event's kind, or `epoch`.
    pub kind: &'static str,
    /// The node that it is about.
    pub node: Option<String>,
    /// The job that it is about.
    pub job: Option<u64>,
    /// In words.
    pub text: String,
    /// It tells how a run went: schedulers, jobs' ends, losses.
    #[serde(skip)]
    pub is_telling: bool,
    /// Its place among all that happened: those of one moment stay in the order of the log.
    #[serde(skip)]
    order: u64,
}

/// Marks of one kind, thinned evenly where there are too many.
#[derive(Debug)]
struct Kind {
    marks: Vec<Mark>,
    /// Every so many is kept.
    stride: u64,
    /// How many there were.
    seen: u64,
}

/// All marks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    kinds: BTreeMap<&'static str, Kind>,
    /// How many there were.
    seen: u64,
}

impl Marks {
    /// Something happened; dense events make no mark.
    pub(crate) fn see(&mut self, at_us: u64, event: &Event) {
        if event.dense() {
            return;
        }
        self.add(event.kind(), |order| Mark {
            order,
            at_us,
            kind: event.kind(),
            node: event.node().map(|name| (**name).to_owned()),
            job: event.job().map(|job| job.0),
            text: cut(event.to_string()),
            is_telling: is_telling(event),
        });
    }

    /// A scheduler was started.
    pub(crate) fn epoch(&mut self, at_us: u64, epoch: u64) {
        let text = format!("a scheduler started: epoch {epoch}");
        let (node, job) = (None, None);
        self.add(EPOCH, |order| Mark { at_us, kind: EPOCH, node, job, text, is_telling: true, order });
    }

    fn add(&mut self, kind: &'static str, mark: impl FnOnce(u64) -> Mark) {
        self.seen += 1;
        let kind = self.kinds.entry(kind).or_insert_with(|| Kind { marks: Vec::new(), stride: 1, seen: 0 });
        kind.seen += 1;
        if !(kind.seen - 1).is_multiple_of(kind.stride) {
            return;
        }
        if kind.marks.len() == MARKS_MAX {
            thin(&mut kind.marks);
            kind.stride *= 2;
            if !(kind.seen - 1).is_multiple_of(kind.stride) {
                return;
            }
        }
        kind.marks.push(mark(self.seen));
    }

    /// The marks to show, by time, and how many are left out.
    pub(crate) fn finish(self) -> (Vec<Mark>, u64) {
        let mut kinds: Vec<Vec<Mark>> = self.kinds.into_values().map(|kind| kind.marks).collect();
        kinds.sort_by_key(Vec::len);
        let (mut all, count) = (Vec::new(), kinds.len());
        for (at, mut marks) in kinds.into_iter().enumerate() {
            // What rarer kinds do not need is there for the others.
            let room = (MARKS_MAX - all.len()) / (count - at);
            while marks.len() > room {
                thin(&mut marks);
            }
            all.append(&mut marks);
        }
        all.sort_by_key(|mark| mark.order);
        let left_out = self.seen - all.len() as u64;
        (all, left_out)
    }
}

/// Keeps every second, the first among them.
fn thin(marks: &mut Vec<Mark>) {
    let mut keep = false;
    marks.retain(|_| {
        keep = !keep;
        keep
    });
}

fn is_telling(event: &Event) -> bool {
    match event {
        Event::NodeLost { .. }
        | Event::NodeQuarantined { .. }
        | Event::EventsDropped { .. }
        | Event::Standstill { .. }
        | Event::Conflict { .. }
        | Event::Untrue { .. }
        | Event::Doubtful { .. } => true,
        Event::JobState { state: JobChange::To(state), .. } => state.ended(),
        Event::Alarm { level, .. } => *level == AlarmLevel::Critical,
        _ => false,
    }
}

fn cut(text: String) -> String {
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::admin::AlarmChange;
    use starfarm_protocol::ids::JobId;

    use super::*;

    #[test]
    fn a_rare_mark_is_not_crowded_out() {
        let mut marks = Marks::default();
        marks.see(0, &Event::NodeLost { node: "a".into(), tasks: 3 });
        marks.see(0, &Event::NodeBusy { node: "a".into() });
        for unit in 0..100_000 {
            marks.see(unit, &Event::Hit { job: JobId(1), unit: u128::from(unit), target: 0 });
            if unit % 1_000 == 0 {
                marks.see(unit, &Event::OffersRepeated { node: "a".into(), tasks: 1 });
            }
        }
        let (all, left_out) = marks.finish();
        assert!(all.len() <= MARKS_MAX && all.is_sorted_by_key(|mark| mark.at_us));
        assert_eq!(all.len() as u64 + left_out, 100_101);
        let lost: Vec<&Mark> = all.iter().filter(|mark| mark.kind == "node_lost").collect();
        assert_eq!((lost.len(), lost[0].text.as_str()), (1, "node a lost: 3 tasks back to gq"));
        assert_eq!(all.iter().filter(|mark| mark.kind == "offers_repeated").count(), 100);
        let last_hit = all.iter().rfind(|mark| mark.kind == "hit").unwrap();
        assert!(last_hit.at_us > 99_000, "thinned evenly: {}", last_hit.at_us);
    }

    #[test]
    fn an_alarm_says_what_became_of_it() {
        let alarm = |change, node: Option<&str>| Event::Alarm {
            id: "7-disk-5".into(),
            node: node.map(Into::into),
            sensor: "disk".into(),
            change,
            level: AlarmLevel::Critical,
            value: Some(0.01),
            text: "1 % is free".into(),
        };
        let mut marks = Marks::default();
        for change in AlarmChange::ALL {
            marks.see(1, &alarm(*change, Some("a")));
        }
        marks.see(1, &alarm(AlarmChange::Begun, None));
        let (all, _) = marks.finish();
        assert!(all.iter().all(|mark| mark.is_telling));
        let said: Vec<_> = all.iter().map(|mark| (mark.node.as_deref(), mark.text.as_str())).collect();
        assert_eq!(
            said,
            [
                (Some("a"), "alarm `disk` of node a, critical: 1 % is free"),
                (Some("a"), "alarm `disk` of node a is critical now: 1 % is free"),
                (Some("a"), "alarm `disk` of node a is over; it was: 1 % is free"),
                (None, "alarm `disk`, critical: 1 % is free"),
            ]
        );
    }

    #[test]
    fn marks_of_one_moment_are_in_the_order_of_the_log() {
        let mut marks = Marks::default();
        marks.see(1, &Event::NodeDraining { node: "a".into() });
        marks.see(5, &Event::NodeDraining { node: "b".into() });
        marks.see(5, &Event::NodeLeft { node: "b".into() });
        let kinds: Vec<&str> = marks.finish().0.iter().map(|mark| mark.kind).collect();
        assert_eq!(kinds, ["node_draining", "node_draining", "node_left"]);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let mut marks = Marks::default();
        marks.see(0, &Event::NodeQuarantined { node: "ä".into(), why: "ö".repeat(1_000) });
        assert!(marks.finish().0[0].text.len() <= TEXT_BYTES_MAX + 3);
    }
}
