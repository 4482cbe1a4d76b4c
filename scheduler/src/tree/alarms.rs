//! Alarms at the front: what posts tell, and who is to do something about it.

use starfarm_agent_core::alarms::Hearer;
use starfarm_protocol::admin::{AlarmPage, AlarmsInfo};
use starfarm_protocol::link::{Alarm, AlarmAck};
use starfarm_protocol::orders::PostId;

use super::Tree;

impl Tree {
    /// A child tells of alarms: what it is answered. Those that are not for it to tell are not taken. What the second root has
    /// heard of others is another way to know it, and no more: it has no node drained, nor says that one was.
    pub(crate) fn take_alarms(&self, child: PostId, mut alarms: Vec<Alarm>, now_us: u64) -> Vec<AlarmAck> {
        let taken = self.with(|known| {
            let front = known.forest.farm();
            alarms.retain(|alarm| front.may_alarm(child, alarm.key.origin, now_us));
            for alarm in &mut alarms {
                let is_its = front.may_speak(child, alarm.key.origin, now_us);
                (alarm.drains, alarm.drained) = (alarm.drains && is_its, alarm.drained && is_its);
            }
            known.alarms.alarms.take(child, alarms, now_us)
        });
        taken.unwrap_or_default()
    }

    /// A child says which alarms it knows: it matters of the post that runs the program.
    pub(crate) fn on_alarm_acks(&self, child: PostId, acks: Vec<AlarmAck>) {
        self.with(|known| {
            if known.forest.farm().reactor() == Some(child) {
                known.alarms.alarms.on_acks(Hearer::Reactor, acks);
            }
        });
    }

    /// A child has come: if it runs the program, it is told everything.
    pub(crate) fn on_arrived(&self, post: PostId) {
        self.with(|known| {
            if known.forest.farm().reactor() == Some(post) {
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
            let (second, desk) = (known.forest.farm().second(), &mut known.alarms);
            desk.watch_the_second(second.is_some(), second.is_some_and(&is_child), now_us);
            let reactor = known.forest.farm().reactor().filter(|post| is_child(*post))?;
            Some((reactor, desk.alarms.due(Hearer::Reactor, now_us)))
        })?
    }

    /// Drops what is over; nodes that are to get no more tasks, each once for an alarm.
    pub(crate) fn tidy_alarms(&self, now_us: u64) -> Vec<String> {
        let drain = self.with(|known| {
            known.alarms.alarms.tidy(PostId::FRONT, now_us);
            let posts = known.alarms.alarms.take_for_draining();
            posts.into_iter().filter_map(|post| Some(known.forest.node_of(post)?.1.to_owned())).collect()
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
        let reactor = known.forest.farm().reactor().and_then(|post| known.forest.node_of(post));
        AlarmsInfo {
            path: known.alarms.path(),
            reacts: reactor.map(|(_, name)| name.to_owned()),
            alarms: known.alarms.info(known.forest.farm(), now_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use starfarm_agent_core::Triples;
    use starfarm_overlay::Reactor;
    use starfarm_overlay_core::front::Front;
    use starfarm_protocol::ids::PublicKey;
    use starfarm_protocol::link::{AlarmKey, AlarmLevel, Counts, Data, Standing, Stream};
    use starfarm_protocol::orders::{FRONT_LEVEL, Host, Report};
    use starfarm_protocol::seal::{Secret, StaticKey};

    use super::*;

    const SECOND_US: u64 = 1_000_000;
    const NOW_US: u64 = 9 * SECOND_US;

    /// A tree of two nodes, `a` and `b`: their back ends, and the second root.
    fn tree() -> (Tree, [PostId; 2], PostId) {
        let front = Front::new(StaticKey::from_secret(Secret([7; 32])), 1, Host::default());
        let tree = Tree::new(front, crossbeam_channel::bounded(1).0, Reactor::new().unwrap().waker());
        let back_ends = [("a", 1), ("b", 2)].map(|(name, id)| {
            let host = Host { name: name.to_owned(), id };
            let report = Report { host, links: true, ..Report::default() };
            let orders = tree.report(PublicKey([id as u8; 32]), name, &report, SECOND_US).unwrap();
            orders.posts[0].post
        });
        (2..5).for_each(|second| drop(tree.settle(second * SECOND_US)));
        let second = tree.known().forest.farm().second().unwrap();
        (tree, back_ends, second)
    }

    fn alarm(origin: PostId) -> Alarm {
        Alarm {
            key: AlarmKey { origin, sensor: "disk".into() },
            episode: NOW_US,
            version: 1,
            level: Some(AlarmLevel::Critical),
            drains: true,
            reacted: false,
            drained: false,
            is_first: true,
            value: None,
            node: "n".into(),
            text: "it is full".into(),
        }
    }

    #[test]
    fn a_node_has_no_other_node_drained() {
        let (tree, [a, b], second) = tree();
        let told = vec![alarm(b), alarm(PostId::FRONT), alarm(second), alarm(PostId(77))];
        assert!(tree.take_alarms(a, told, NOW_US).is_empty() && tree.tidy_alarms(NOW_US).is_empty());
        assert!(tree.alarms(NOW_US).alarms.is_empty());
        // The second root says it as well, which is known and drains nobody.
        assert_eq!(tree.take_alarms(second, vec![alarm(b)], NOW_US).len(), 1);
        assert!(tree.tidy_alarms(NOW_US).is_empty() && tree.alarms(NOW_US).alarms.len() == 1);
        tree.take_alarms(b, vec![alarm(b)], NOW_US);
        assert_eq!((tree.tidy_alarms(NOW_US), tree.tidy_alarms(NOW_US)), (vec!["b".to_owned()], vec![]));
        assert!(tree.take_alarms(b, vec![alarm(b)], NOW_US)[0].drained, "it is told so");
    }

    #[test]
    fn a_node_tells_nothing_of_another_nodes_machine_and_place() {
        let (tree, [a, b], _) = tree();
        let id = |id: starfarm_agent_core::ValueId| id.0;
        let of = |post: PostId| {
            let mut bytes = Vec::new();
            for (id, number) in [(id(starfarm_agent_core::ids::POST), post.0), (2, 4_096)] {
                starfarm_protocol::bytes::put(&mut bytes, id.into());
                bytes.push(8);
                bytes.extend(number.to_le_bytes());
            }
            bytes
        };
        let take = |child, about| {
            let triples = of(about);
            let (stream, sequence) = (Stream::System, 0);
            let data = Data { stream, origin: child, sequence, at_us: NOW_US, triples: &triples };
            Triples::read(&triples).unwrap();
            tree.take(child, &data, NOW_US)
        };
        let knows = |post| tree.known().picture.machine(post, NOW_US).is_some();
        assert!(!take(a, b) && !knows(a) && !knows(b));
        assert!(take(b, b) && knows(b) && take(a, a) && knows(a));
        let standing = |post| {
            let (parent, counts) = (PostId::FRONT, Counts::default());
            Standing { post, parent, level: FRONT_LEVEL, children: 0, counts }
        };
        assert!(!tree.on_standing(a, standing(b), NOW_US) && tree.on_standing(b, standing(b), NOW_US));
        assert!(!tree.may_suspect(a, b, NOW_US));
    }
}
