//! What the front knows of alarms: those that posts have told, what it sees of the second root itself, and what became of all.

use starfarm_agent_core::alarms::{Alarms, Seen, Standing};
use starfarm_overlay_core::front::Front;
use starfarm_protocol::admin::{AlarmInfo, AlarmPath};
use starfarm_protocol::link::{AlarmLevel, DEAD_US};
use starfarm_protocol::orders::PostId;

use super::story::Story;

/// So long a second root that nobody has seen may take until it is there.
const COMES_US: u64 = 20_000_000;

/// What the front knows of alarms.
#[derive(Default)]
pub(super) struct AlarmDesk {
    /// This machine's name.
    host: String,
    pub(super) alarms: Alarms,
    /// The second root is there; it was; and since when there should be one that is not.
    has_second: bool,
    had_second: bool,
    alone_us: Option<u64>,
    pub(super) story: Story,
}

impl AlarmDesk {
    /// One that knows of no alarm, on the machine of that name.
    pub(super) fn new(host: String) -> Self {
        Self { host, ..Self::default() }
    }

    /// The same, with what was told of alarms.
    pub(super) fn anew(&mut self) -> Self {
        Self { story: std::mem::take(&mut self.story), ..Self::new(std::mem::take(&mut self.host)) }
    }

    /// How bad the worst is that stands and that this post has raised.
    pub(super) fn worst_of(&self, post: PostId) -> Option<AlarmLevel> {
        let standing = self.alarms.standing().filter(|standing| standing.alarm.key.origin == post);
        standing.filter_map(|standing| standing.alarm.level).max()
    }

    pub(super) fn forget(&mut self, post: PostId) {
        self.alarms.forget(post);
    }

    pub(super) fn path(&self) -> AlarmPath {
        if self.has_second { AlarmPath::Double } else { AlarmPath::Single }
    }

    /// Whether a second root is wanted, and is a child now: it is an alarm if it is not for a while.
    pub(super) fn watch_the_second(&mut self, is_wanted: bool, is_there: bool, now_us: u64) {
        self.has_second = is_there;
        self.had_second |= is_there;
        let lacks = !is_there && (is_wanted || self.had_second);
        self.alone_us = lacks.then(|| self.alone_us.unwrap_or(now_us));
        let patience_us = if self.had_second { DEAD_US } else { COMES_US };
        let is_lost = self.alone_us.is_some_and(|since_us| since_us + patience_us <= now_us);
        if is_lost || is_there {
            let seen = Seen {
                sensor: "second-root".to_owned(),
                level: is_lost.then_some(AlarmLevel::Warning),
                value: None,
                text: "the second root of the alarms is lost: they have one way".to_owned(),
                drains: false,
            };
            self.alarms.see((PostId::FRONT, &self.host), seen, now_us);
        }
    }

    /// All that stand, the worst and then the oldest first.
    pub(super) fn info(&self, front: &Front, now_us: u64) -> Vec<AlarmInfo> {
        let of = |Standing { alarm, since_us, from }: Standing<'_>| {
            let by_second = from.iter().any(|child| Some(*child) == front.second());
            let by_tree = from.iter().any(|child| Some(*child) != front.second());
            AlarmInfo {
                id: alarm.id(),
                node: alarm.node.clone(),
                sensor: alarm.key.sensor.clone(),
                level: alarm.level.expect("it stands"),
                value: alarm.value,
                text: alarm.text.clone(),
                since_seconds: now_us.saturating_sub(since_us) as f64 / 1e6,
                paths: u32::from(by_second) + u32::from(by_tree),
                reacted: alarm.reacted,
            }
        };
        let mut all: Vec<_> = self.alarms.standing().map(of).collect();
        all.sort_by(|a, b| b.level.cmp(&a.level).then(b.since_seconds.total_cmp(&a.since_seconds)));
        all
    }
}
