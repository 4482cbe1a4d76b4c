//! What programs of units tell one by one, in order: how a line of theirs is read, how many a node may tell, how it is passed on
//! unchanged, and what the front keeps of it for those who follow. Nothing of it is summed up, and nothing is on a disk.

use std::collections::{BTreeMap, VecDeque};

use starfarm_protocol::admin::{TraceLine, TracePage};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::orders::PostId;
use starfarm_protocol::units::Units;

use crate::group::AHEAD_US;
use crate::ids;
use crate::values::{Message, Triples};

/// The word that a line begins with that tells something.
const WORD: &str = "event";
/// Bytes of a text, at most; what is longer is cut.
pub const TEXT_BYTES_MAX: usize = 1_000;
/// A node tells so many a second, at most.
pub const A_SECOND: u32 = 1_000;
/// So many the front keeps, and so many bytes of text.
const KEPT_MAX: usize = 10_000;
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Lines of a page, at most.
const PAGE_MAX: usize = 1_000;
/// Posts that have told something, as far as they are remembered.
const ORIGINS_MAX: usize = 100_000;

/// What a line tells, where it begins with the word `event`: one line of text without control characters. An error where it
/// tells nothing.
pub fn text(line: &[u8]) -> Option<Result<String, ()>> {
    let rest = line.trim_ascii_start().strip_prefix(WORD.as_bytes())?;
    if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
        return None;
    }
    // What is cut off is not looked at; letters may become longer, and are cut again then.
    let rest = rest.trim_ascii();
    let text = clean(&String::from_utf8_lossy(&rest[..rest.len().min(TEXT_BYTES_MAX + 3)]));
    Some(if text.is_empty() { Err(()) } else { Ok(text) })
}

/// Text that does nothing to a terminal, and is not too long.
fn clean(text: &str) -> String {
    let plain: String = text.chars().map(|of| if of.is_control() { ' ' } else { of }).collect();
    plain[..plain.floor_char_boundary(TEXT_BYTES_MAX)].trim().to_owned()
}

/// How many more may be told in this second.
#[derive(Default, Debug)]
pub struct Limit {
    second: u64,
    told: u32,
}

impl Limit {
    /// One more is to be told: whether it may.
    pub fn admits(&mut self, now_us: u64) -> bool {
        let second = now_us / 1_000_000;
        if second != self.second {
            (self.second, self.told) = (second, 0);
        }
        self.told += u32::from(self.told <= A_SECOND);
        self.told <= A_SECOND
    }
}

/// Something that a program has told, on its way.
pub struct Told<'a> {
    /// When it was heard, by the farm's clock, in microseconds.
    pub at_us: u64,
    /// The program's job.
    pub job: JobId,
    /// Its unit, if that is known.
    pub unit: Option<u128>,
    /// Which one of its node's it is, from 0.
    pub sequence: u64,
    /// What it says.
    pub text: &'a str,
}

impl Told<'_> {
    /// Writes it.
    pub fn put(&self, message: &mut Message<'_>) {
        message.put_number(ids::AT, self.at_us);
        message.put_number(ids::JOB, self.job.0);
        if let Some(unit) = self.unit {
            message.put(ids::UNIT, &unit.to_le_bytes());
        }
        message.put_number(ids::SEQUENCE, self.sequence);
        message.put(ids::EVENT, self.text.as_bytes());
    }
}

/// Writes what a child has told as it came: its time first, and then the post that told it, if that was not said.
pub(crate) fn pass_on(child: PostId, at_us: u64, triples: Triples<'_>, message: &mut Message<'_>) {
    message.put_number(ids::AT, at_us);
    if triples.find(ids::POST).is_none() {
        message.put_number(ids::POST, child.0);
    }
    let others = triples.into_iter().filter(|triple| triple.id != ids::AT);
    others.for_each(|triple| message.put(triple.id, triple.value));
}

/// What the front keeps for those who follow.
#[derive(Default, Debug)]
pub struct Traces {
    kept: VecDeque<TraceLine>,
    bytes: usize,
    /// The number of the newest: they count from 1.
    last: u64,
    /// Of each post, when and as which one it told last.
    origins: BTreeMap<PostId, (u64, u64)>,
}

impl Traces {
    /// A child has told something, of itself or of a post below it; whether that was new. `node_of` knows the node of a post. No
    /// time is later than now.
    pub fn take(
        &mut self,
        (child, at_us): (PostId, u64),
        triples: Triples<'_>,
        node_of: impl FnOnce(PostId) -> Option<String>,
        now_us: u64,
    ) -> bool {
        let latest_us = now_us.saturating_add(AHEAD_US);
        let at_us = at_us.min(latest_us);
        let number = |id| triples.find(id).and_then(|triple| triple.number());
        let text = triples.find(ids::EVENT).map(|triple| clean(&String::from_utf8_lossy(triple.value)));
        let Some(text) = text.filter(|text| !text.is_empty()) else { return false };
        let origin = number(ids::POST).map_or(child, PostId);
        // What is known to be of a time that has yet to come is of a clock that went back.
        if self.origins.get(&origin).is_some_and(|(known_us, _)| *known_us > latest_us) {
            self.origins.remove(&origin);
        }
        let Some(lost) = self.lost_before(origin, (at_us, number(ids::SEQUENCE).unwrap_or_default())) else {
            return false;
        };
        self.last += 1;
        let unit = triples.find(ids::UNIT).and_then(|triple| triple.value.try_into().ok());
        self.bytes += text.len();
        self.kept.push_back(TraceLine {
            number: self.last,
            at_us,
            node: node_of(origin),
            job: number(ids::JOB).map(JobId),
            unit: unit.map(|bytes| Units(u128::from_le_bytes(bytes))),
            text,
            lost,
        });
        while self.kept.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let first = self.kept.pop_front().expect("there is one that is too much");
            self.bytes -= first.text.len();
        }
        true
    }

    /// How many of a post's were lost before this one; none where it came already. Times of a post never descend, and its
    /// numbers begin anew with its process.
    fn lost_before(&mut self, origin: PostId, (at_us, sequence): (u64, u64)) -> Option<u64> {
        let known = self.origins.get(&origin).copied();
        if known.is_some_and(|known| (at_us, sequence) <= known) {
            return None;
        }
        if known.is_some() || self.origins.len() < ORIGINS_MAX {
            self.origins.insert(origin, (at_us, sequence));
        }
        Some(match known {
            Some((_, before)) if sequence > before => sequence - before - 1,
            Some(_) => sequence,
            None => 0,
        })
    }

    /// The oldest that are kept behind number `after`, at most `take`, and among these no others than `is_asked` says.
    pub fn page(&self, after: u64, take: u64, is_asked: impl Fn(&TraceLine) -> bool) -> TracePage {
        let first = self.kept.front().map_or(self.last + 1, |line| line.number);
        let missed = first.saturating_sub(after.saturating_add(1));
        let skip = usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        let take = usize::try_from(take).unwrap_or(usize::MAX).min(PAGE_MAX);
        let (mut lines, mut last) = (Vec::new(), after.max(first - 1).min(self.last));
        for line in self.kept.iter().skip(skip) {
            if lines.len() == take {
                break;
            }
            last = line.number;
            if is_asked(line) {
                lines.push(line.clone());
            }
        }
        TracePage { lines, missed, last, more: last < self.last }
    }

    /// A post is not there any more.
    pub fn forget(&mut self, post: PostId) {
        self.origins.remove(&post);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn written(put: impl FnOnce(&mut Message<'_>)) -> Vec<u8> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        put(&mut Message::new(&mut out, &mut left_out));
        out
    }

    fn told(traces: &mut Traces, post: u64, (at_us, sequence): (u64, u64), text: &str) -> bool {
        let told = Told { at_us, job: JobId(7), unit: Some(u128::MAX), sequence, text };
        let bytes = written(|message| told.put(message));
        let node_of = |post: PostId| Some(format!("n{}", post.0));
        traces.take((PostId(post), at_us), Triples::read(&bytes).unwrap(), node_of, 1_000 * SECOND_US)
    }

    fn texts(page: &TracePage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_line_tells_something_where_it_begins_with_the_word() {
        let read = |line: &[u8]| text(line).map(|told| told.map_err(|()| "nothing"));
        assert_eq!(read(b"event started"), Some(Ok("started".to_owned())));
        assert_eq!(read(b"  event\tstep 3  of 4\r"), Some(Ok("step 3  of 4".to_owned())));
        assert_eq!(read(b"event a\x1b[2J\0b\x7f \xc2\x9b"), Some(Ok("a [2J b".to_owned())));
        assert_eq!(read(b"event \xff"), Some(Ok("\u{fffd}".to_owned())));
        for none in [&b"event"[..], b"event  ", b"event \x07"] {
            assert_eq!(read(none), Some(Err("nothing")));
        }
        for other in [&b"events 3"[..], b"event.x 3", b"temperature 3", b"", b"an event"] {
            assert_eq!(read(other), None);
        }
        let long = [b"event ", "ä".repeat(600).as_bytes()].concat();
        assert_eq!(read(&long), Some(Ok("ä".repeat(500))));
        let odd = [b"event x", "ä".repeat(600).as_bytes()].concat();
        assert_eq!(read(&odd).unwrap().unwrap().len(), 999);
        let bad = [&b"event "[..], &[0xff; 1_000]].concat();
        assert!(read(&bad).unwrap().unwrap().len() <= TEXT_BYTES_MAX, "letters in its place are longer");
    }

    #[test]
    fn a_node_tells_so_many_a_second() {
        let mut limit = Limit::default();
        let many = |limit: &mut Limit, now_us| (0..3 * A_SECOND).filter(|_| limit.admits(now_us)).count();
        assert_eq!(many(&mut limit, 5 * SECOND_US), A_SECOND as usize);
        assert_eq!(many(&mut limit, 6 * SECOND_US - 1), 0);
        assert_eq!(many(&mut limit, 6 * SECOND_US), A_SECOND as usize);
    }

    /// The page on monitoring has these bytes.
    #[test]
    fn bytes_are_pinned() {
        let told = Told { at_us: 5, job: JobId(7), unit: Some(3), sequence: 258, text: "started" };
        let number = |number: u64| number.to_le_bytes().to_vec();
        let expected = [
            [vec![0xED, 0x07, 8], number(5)],
            [vec![0xE8, 0x07, 8], number(7)],
            [vec![0xEE, 0x07, 16], [number(3), number(0)].concat()],
            [vec![0xEC, 0x07, 8], number(258)],
            [vec![0xFF, 0x07, 7], b"started".to_vec()],
        ];
        assert_eq!(written(|message| told.put(message)), expected.concat().concat());
    }

    #[test]
    fn what_is_passed_on_is_the_same_but_for_who_told_it() {
        let told = Told { at_us: 5, job: JobId(7), unit: None, sequence: 3, text: "x" };
        let own = written(|message| told.put(message));
        let on = written(|message| pass_on(PostId(9), 5, Triples::read(&own).unwrap(), message));
        let again = written(|message| pass_on(PostId(1), 5, Triples::read(&on).unwrap(), message));
        assert_eq!(on, again, "who told it is known");
        let triples = Triples::read(&on).unwrap();
        let ids: Vec<_> = triples.into_iter().map(|triple| ids::name(triple.id).unwrap()).collect();
        assert_eq!(ids, ["at", "post", "job", "sequence", "event"]);
        assert_eq!(triples.find(ids::POST).unwrap().number(), Some(9));
        let mut traces = Traces::default();
        assert!(traces.take((PostId(1), 5), triples, |post| Some(post.0.to_string()), 5));
        assert_eq!(traces.page(0, 9, |_| true).lines[0].node.as_deref(), Some("9"));
    }

    #[test]
    fn who_follows_hears_all_in_order_and_how_many_were_missed() {
        let mut traces = Traces::default();
        for n in 0..KEPT_MAX as u64 + 5 {
            assert!(told(&mut traces, 1, (n, n), &n.to_string()));
        }
        let first = traces.page(2, u64::MAX, |_| true);
        assert_eq!((first.missed, first.lines.len(), first.more), (3, PAGE_MAX, true));
        assert_eq!((first.lines[0].number, texts(&first)[0], first.last), (6, "5", 5 + PAGE_MAX as u64));
        let next = traces.page(first.last, 2, |_| true);
        assert_eq!((next.missed, texts(&next)), (0, vec!["1005", "1006"]));
        let none = traces.page(0, 5, |line| line.job == Some(JobId(8)));
        assert_eq!((none.lines.len(), none.last, none.more), (0, KEPT_MAX as u64 + 5, false));
        let end = traces.page(none.last, 5, |_| true);
        assert_eq!((end.lines.len(), end.missed, end.last), (0, 0, none.last));
        assert_eq!(Traces::default().page(0, 5, |_| true).last, 0);
    }

    #[test]
    fn long_texts_take_no_more_room() {
        let (mut traces, text) = (Traces::default(), "x".repeat(TEXT_BYTES_MAX));
        (0..2 * KEPT_MAX as u64).for_each(|n| assert!(told(&mut traces, 1, (n, n), &text)));
        assert!(traces.kept.len() * TEXT_BYTES_MAX <= KEPT_BYTES_MAX && traces.kept.len() > 4_000);
        assert_eq!(traces.bytes, traces.kept.len() * TEXT_BYTES_MAX);
    }

    #[test]
    fn what_came_already_is_no_news_and_what_was_lost_is_told_by_post() {
        let mut traces = Traces::default();
        assert!(told(&mut traces, 1, (10, 4), "a") && told(&mut traces, 2, (9, 0), "b"));
        assert!(!told(&mut traces, 1, (10, 4), "a"), "by another way");
        assert!(told(&mut traces, 1, (10, 5), "c") && told(&mut traces, 1, (12, 9), "d"));
        assert!(!told(&mut traces, 1, (10, 5), "c"));
        // Another process counts from its own start.
        assert!(told(&mut traces, 1, (20, 2), "e") && told(&mut traces, 2, (9, 1), "f"));
        let page = traces.page(0, 99, |_| true);
        assert_eq!(texts(&page), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(page.lines.iter().map(|line| line.lost).collect::<Vec<_>>(), [0, 0, 0, 3, 2, 0]);
        assert_eq!((page.lines[1].node.as_deref(), page.lines[1].job), (Some("n2"), Some(JobId(7))));
        assert_eq!(page.lines[1].unit, Some(Units(u128::MAX)));
        let empty = written(|message| message.put_number(ids::AT, 1));
        assert!(!traces.take((PostId(1), 99), Triples::read(&empty).unwrap(), |_| None, 99));
    }

    #[test]
    fn no_time_is_later_than_now_and_a_clock_that_went_back_silences_nobody() {
        let mut traces = Traces::default();
        let now_us = 1_000 * SECOND_US;
        assert!(told(&mut traces, 1, (u64::MAX, 3), "a"));
        assert_eq!(traces.page(0, 9, |_| true).lines[0].at_us, now_us + AHEAD_US);
        traces.origins.insert(PostId(1), (2 * now_us, 9));
        assert!(told(&mut traces, 1, (now_us, 0), "b"));
    }
}
