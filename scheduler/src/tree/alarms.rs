//! Alarms at the front: what posts tell, what the front sees of the second root, and who is to do something about it.

use std::collections::BTreeSet;

use starfarm_agent_core::alarms::{Alarms, Hearer, Seen, Standing};
use starfarm_overlay_core::front::Front;
use starfarm_protocol::admin::{AlarmInfo, AlarmPath, AlarmsInfo};
use starfarm_protocol::link::{Alarm, AlarmAck, AlarmKey, AlarmLevel, DEAD_US};
use starfarm_protocol::orders::PostId;

use super::{Tree, info};

/// Nodes that were drained for an alarm, as far as they are remembered.
const DRAINED_MAX: usize = 10_000;

/// So long a second root that nobody has seen may take until it is there.
const COMES_US: u64 = 20_000_000;

/// What the front knows of alarms.
#[derive(Default)]
pub(super) struct Desk {
    alarms: Alarms,
    /// For which alarms nodes were drained.
    drained: BTreeSet<(AlarmKey, u64)>,
    /// The second root is there; it was; and since when there should be one that is not.
    has_second: bool,
    had_second: bool,
    alone_us: Option<u64>,
}

impl Desk {
    pub(super) fn forget(&mut self, post: PostId) {
        self.alarms.forget(post);
    }

    fn path(&self) -> AlarmPath {
        if self.has_second { AlarmPath::Double } else { AlarmPath::Single }
    }

    /// Whether a second root is wanted, and is a child now: it is an alarm if it is not for a while.
    fn watch_the_second(&mut self, is_wanted: bool, is_there: bool, now_us: u64) {
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
            self.alarms.see((PostId::FRONT, &info::hostname()), seen, now_us);
        }
    }

    /// All that stand, the worst and then the oldest first.
    fn info(&self, front: &Front, now_us: u64) -> Vec<AlarmInfo> {
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

impl Tree {
    /// A child tells of alarms: what it is answered.
    pub(crate) fn take_alarms(&self, child: PostId, alarms: Vec<Alarm>, now_us: u64) -> Vec<AlarmAck> {
        self.with(|known| known.alarms.alarms.take(child, alarms, now_us)).unwrap_or_default()
    }

    /// A child says which alarms it knows: it matters of the post that runs the program.
    pub(crate) fn on_alarm_acks(&self, child: PostId, acks: Vec<AlarmAck>) {
        self.with(|known| {
            if known.front.reactor() == Some(child) {
                known.alarms.alarms.on_acks(Hearer::Reactor, acks);
            }
        });
    }

    /// A child has come: if it runs the program, it is told everything.
    pub(crate) fn on_arrived(&self, post: PostId) {
        self.with(|known| {
            if known.front.reactor() == Some(post) {
                known.alarms.alarms.anew(Hearer::Reactor);
            }
        });
    }

    /// Does what is due, where these are the children now: what to tell the post that runs the program.
    pub(crate) fn alarms_due(
        &self,
        is_child: impl Fn(PostId) -> bool,
        now_us: u64,
    ) -> Option<(PostId, Vec<Vec<Alarm>>)> {
        self.with(|known| {
            let (second, desk) = (known.front.second(), &mut known.alarms);
            desk.watch_the_second(second.is_some(), second.is_some_and(&is_child), now_us);
            let reactor = known.front.reactor().filter(|post| is_child(*post))?;
            Some((reactor, desk.alarms.due(Hearer::Reactor, now_us)))
        })?
    }

    /// Drops what is over; nodes that are to get no more tasks, each once for an alarm.
    pub(crate) fn tidy_alarms(&self, now_us: u64) -> Vec<String> {
        let drain = self.with(|known| {
            let Desk { alarms, drained, .. } = &mut known.alarms;
            alarms.tidy(PostId::FRONT, now_us);
            let standing = || alarms.standing().map(|standing| standing.alarm);
            let all: BTreeSet<_> = standing().map(|alarm| (alarm.key.clone(), alarm.episode)).collect();
            drained.retain(|of| all.contains(of));
            let mut nodes = Vec::new();
            for alarm in standing().filter(|alarm| alarm.drains) {
                let node = known.front.node_of(alarm.key.origin);
                if let Some((_, name)) = node
                    && drained.len() < DRAINED_MAX
                    && drained.insert((alarm.key.clone(), alarm.episode))
                {
                    nodes.push(name.to_owned());
                }
            }
            nodes
        });
        drain.unwrap_or_default()
    }

    /// All alarms that stand.
    pub(crate) fn alarms(&self, now_us: u64) -> AlarmsInfo {
        let known = self.known();
        let reactor = known.front.reactor().and_then(|post| known.front.node_of(post));
        AlarmsInfo {
            path: known.alarms.path(),
            reacts: reactor.map(|(_, name)| name.to_owned()),
            alarms: known.alarms.info(&known.front, now_us),
        }
    }
}
