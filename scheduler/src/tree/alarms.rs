//! Alarms at the front: what posts tell, and who is to do something about it.

use std::collections::BTreeSet;

use starfarm_agent_core::alarms::Hearer;
use starfarm_protocol::admin::{AlarmPage, AlarmsInfo};
use starfarm_protocol::link::{Alarm, AlarmAck};
use starfarm_protocol::orders::PostId;

use super::Tree;
use super::desk::{AlarmDesk, DRAINED_MAX};

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
            let AlarmDesk { alarms, drained, .. } = &mut known.alarms;
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

    /// What became of alarms behind number `after`.
    pub(crate) fn alarms_after(&self, after: u64) -> AlarmPage {
        self.known().alarms.story.page(after)
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
