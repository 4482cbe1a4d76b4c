//! What became of alarms: those that stand are compared with those that stood when it was looked last. An alarm whose agent starts
//! again, or that is only told again, is the one before; so is one that another version of it told less bad and worse in between.

use std::collections::{BTreeMap, VecDeque};

use starfarm_agent_core::alarms::Standing;
use starfarm_protocol::admin::{AlarmChange, AlarmLine, AlarmPage};
use starfarm_protocol::link::{AlarmKey, AlarmLevel};
use starfarm_protocol::orders::PostId;

/// Lines that are kept for those who follow.
const KEPT_MAX: usize = 1_000;
/// It is looked so often, at most, in microseconds.
const LOOK_US: u64 = 100_000;
/// Of the alarms of one post so much is told in a second, and the rest later, as it stands then: a log takes all of it.
const A_SECOND: u32 = 20;
const SECOND_US: u64 = 1_000_000;

/// The story of all alarms.
#[derive(Default)]
pub(super) struct Story {
    stood: BTreeMap<AlarmKey, Told>,
    looked_us: u64,
    last: u64,
    kept: VecDeque<AlarmLine>,
    /// Which second it is, and how much was told in it of alarms of each post.
    second: u64,
    told: BTreeMap<PostId, u32>,
}

/// What was told of an alarm last.
struct Told {
    id: String,
    since_us: u64,
    node: String,
    level: AlarmLevel,
    value: Option<f64>,
    text: String,
}

impl Told {
    fn of(standing: &Standing<'_>) -> Self {
        let Standing { alarm, since_us, .. } = standing;
        Self {
            id: alarm.id(),
            since_us: *since_us,
            node: alarm.node.clone(),
            level: alarm.level.expect("it stands"),
            value: alarm.value,
            text: alarm.text.clone(),
        }
    }
}

impl Story {
    /// Looks at those that stand now: what became of which, and who had raised them.
    pub(super) fn tell<'a>(
        &mut self,
        standing: impl Iterator<Item = Standing<'a>>,
        now_us: u64,
    ) -> Vec<(PostId, AlarmLine)> {
        if now_us.abs_diff(self.looked_us) < LOOK_US {
            return Vec::new();
        }
        self.looked_us = now_us;
        if self.second != now_us / SECOND_US {
            (self.second, self.told) = (now_us / SECOND_US, BTreeMap::new());
        }
        let mut stood = std::mem::take(&mut self.stood);
        let mut lines = Vec::new();
        for of in standing {
            let (key, mut now) = (of.alarm.key.clone(), Told::of(&of));
            let before = stood.remove(&key);
            let is_news = before.as_ref().is_none_or(|before| !before.is_as(&now));
            if is_news && !self.may_tell(key.origin) {
                self.stood.extend(before.map(|before| (key, before)));
                continue;
            }
            let (before, over) = match before {
                Some(before) if before.since_us == now.since_us => (Some(before), None),
                other => (None, other),
            };
            lines.extend(over.map(|over| (key.clone(), AlarmChange::Over, over.line(&key))));
            let change = if before.is_some() { AlarmChange::Changed } else { AlarmChange::Begun };
            if let Some(before) = before {
                now.id = before.id;
            }
            lines.extend(is_news.then(|| (key.clone(), change, now.line(&key))));
            self.stood.insert(key, now);
        }
        for (key, told) in stood {
            if self.may_tell(key.origin) {
                let line = told.line(&key);
                lines.push((key, AlarmChange::Over, line));
            } else {
                self.stood.insert(key, told);
            }
        }
        lines.into_iter().map(|(key, change, line)| (key.origin, self.keep(change, line, now_us))).collect()
    }

    /// One more may be told of this post's now.
    fn may_tell(&mut self, post: PostId) -> bool {
        let told = self.told.entry(post).or_default();
        *told = told.saturating_add(1);
        *told <= A_SECOND
    }

    fn keep(&mut self, change: AlarmChange, line: AlarmLine, at_us: u64) -> AlarmLine {
        self.last += 1;
        let line = AlarmLine { number: self.last, at_us, change, ..line };
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(line.clone());
        line
    }

    /// What is kept behind number `after`.
    pub(super) fn page(&self, after: u64) -> AlarmPage {
        let first = self.kept.front().map_or(self.last + 1, |line| line.number);
        let lines = self.kept.iter().filter(|line| line.number > after).cloned().collect();
        AlarmPage { lines, missed: first.saturating_sub(after.saturating_add(1)) }
    }
}

impl Told {
    /// There is nothing to tell of what it is now.
    fn is_as(&self, now: &Self) -> bool {
        (self.since_us, self.level, &self.text) == (now.since_us, now.level, &now.text)
    }

    fn line(&self, key: &AlarmKey) -> AlarmLine {
        let Self { id, node, level, value, text, .. } = self;
        AlarmLine {
            number: 0,
            at_us: 0,
            change: AlarmChange::Begun,
            id: id.clone(),
            node: node.clone(),
            sensor: key.sensor.clone(),
            level: *level,
            value: *value,
            text: text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_agent_core::alarms::{Alarms, Seen};

    use super::*;

    const NODE: (PostId, &str) = (PostId(7), "n1");

    fn see(alarms: &mut Alarms, level: Option<AlarmLevel>, text: &str, now_us: u64) {
        let seen = Seen {
            sensor: "disk".to_owned(),
            level,
            value: Some(now_us as f64),
            text: text.to_owned(),
            drains: false,
        };
        alarms.see(NODE, seen, now_us);
    }

    fn told(story: &mut Story, alarms: &Alarms, now_us: u64) -> Vec<String> {
        let lines = story.tell(alarms.standing(), now_us);
        assert!(lines.iter().all(|(origin, line)| *origin == NODE.0 && line.at_us == now_us));
        let of = |(_, line): (PostId, AlarmLine)| {
            format!("{} {} {} {} {}", line.number, line.change, line.id, line.level, line.text)
        };
        lines.into_iter().map(of).collect()
    }

    #[test]
    fn an_alarm_begins_changes_and_is_over_each_once() {
        let (mut story, mut alarms) = (Story::default(), Alarms::default());
        let second = |n: u64| n * 1_000_000;
        assert_eq!(told(&mut story, &alarms, second(1)), [] as [&str; 0]);
        see(&mut alarms, Some(AlarmLevel::Warning), "5 % is free", second(2));
        assert_eq!(told(&mut story, &alarms, second(2)), ["1 begun 7-disk-2000000 warning 5 % is free"]);
        // The figure moves, and it is said again that it stands.
        see(&mut alarms, Some(AlarmLevel::Warning), "5 % is free", second(3));
        alarms.tidy(NODE.0, second(30));
        assert_eq!(told(&mut story, &alarms, second(30)), [] as [&str; 0]);
        see(&mut alarms, Some(AlarmLevel::Critical), "1 % is free", second(31));
        assert_eq!(told(&mut story, &alarms, second(31)), ["2 changed 7-disk-2000000 critical 1 % is free"]);
        see(&mut alarms, None, "", second(32));
        assert_eq!(told(&mut story, &alarms, second(31) + 1), [] as [&str; 0], "it was looked just now");
        assert_eq!(told(&mut story, &alarms, second(32)), ["3 over 7-disk-2000000 critical 1 % is free"]);
        // Another episode that came and went while nobody looked, and one that took the place of another.
        see(&mut alarms, Some(AlarmLevel::Warning), "a", second(40));
        assert_eq!(told(&mut story, &alarms, second(40)).len(), 1);
        see(&mut alarms, None, "", second(41));
        see(&mut alarms, Some(AlarmLevel::Warning), "a", second(42));
        let all = ["5 over 7-disk-40000000 warning a", "6 begun 7-disk-42000000 warning a"];
        assert_eq!(told(&mut story, &alarms, second(42)), all);
        let page = story.page(4);
        assert_eq!((page.lines.len(), page.lines[0].number, page.missed), (2, 5, 0));
        assert_eq!(story.page(0).lines.len(), 6);
    }

    #[test]
    fn another_process_of_the_same_agent_tells_of_the_same_alarm() {
        let (mut story, mut front) = (Story::default(), Alarms::default());
        let mut tell = |front: &mut Alarms, at_us| {
            let mut agent = Alarms::default();
            see(&mut agent, Some(AlarmLevel::Warning), "a", at_us);
            let said = agent.standing().map(|standing| standing.alarm.clone()).collect();
            front.take(NODE.0, said, at_us);
            told(&mut story, front, at_us)
        };
        assert_eq!(tell(&mut front, 1_000_000).len(), 1);
        assert_eq!(tell(&mut front, 9_000_000), [] as [&str; 0]);
        see(&mut front, None, "", 10_000_000);
        assert_eq!(told(&mut story, &front, 10_000_000), ["2 over 7-disk-1000000 warning a"]);
    }

    #[test]
    fn a_post_that_tells_of_more_and_more_fills_no_log_and_is_told_in_the_end() {
        let (mut story, mut alarms) = (Story::default(), Alarms::default());
        let mut lines = 0;
        for tenth in 0..100_u64 {
            let at_us = 10 * SECOND_US + tenth * LOOK_US;
            for n in 0..50 {
                let level = (tenth % 2 == 0 || tenth > 90).then_some(AlarmLevel::Warning);
                let (sensor, text) = (format!("s{n}"), format!("{}", tenth.min(91)));
                alarms.see(NODE, Seen { sensor, level, value: None, text, drains: false }, at_us);
            }
            lines += told(&mut story, &alarms, at_us).len();
        }
        assert!((200..=2 * 200).contains(&lines), "{lines} in ten seconds");
        (20..30).for_each(|second| drop(story.tell(alarms.standing(), second * SECOND_US)));
        assert_eq!((story.stood.len(), story.tell(alarms.standing(), 31 * SECOND_US).len()), (50, 0));
    }

    #[test]
    fn who_follows_hears_how_many_are_not_kept_any_more() {
        let (mut story, mut alarms) = (Story::default(), Alarms::default());
        for n in 1..=KEPT_MAX as u64 + 4 {
            let level = (n % 2 == 1).then_some(AlarmLevel::Warning);
            see(&mut alarms, level, "a", n * 1_000_000);
            assert_eq!(told(&mut story, &alarms, n * 1_000_000).len(), 1);
        }
        let page = story.page(1);
        assert_eq!((page.missed, page.lines.len(), page.lines[0].number), (3, KEPT_MAX, 5));
        assert_eq!(story.page(u64::MAX).missed, 0);
    }
}
