//! Alarms of an agent: what its sensors see and what posts below tell goes to the parent and, by a link that is there only while
//! there is something to say, to the second root. The second root takes such calls, and tells the post that runs a program.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use starfarm_agent_core::alarms::{Alarms, Hearer, Seen};
use starfarm_overlay::{LinkId, Reactor};
use starfarm_overlay_core::lanes::Lane;
use starfarm_protocol::ids::FarmId;
use starfarm_protocol::link::{Alarm, AlarmAck, AlarmLevel, DEAD_US, LINK, Message};
use starfarm_protocol::orders::{Ancestor, PostId, PostKind, PostOrder};
use starfarm_protocol::seal::{StaticKey, post_name};

use crate::door::introduction;
use crate::raise::Seeing;
use crate::reaction::Reaction;

/// A call of the second root that failed is made again so much later, and each time twice that, up to the longest pause.
const RETRY_US: u64 = 200_000;
const RETRY_US_MAX: u64 = 10_000_000;
/// A link on which there is nothing more to say is kept for so long.
const KEEP_US: u64 = 5_000_000;
/// How often alarms are looked through, for those that are over.
const TIDY_US: u64 = 5_000_000;

/// This moment, by the process's clock and by the farm's, in microseconds.
pub(crate) type Now = (u64, u64);

/// Who this post is, and how it calls.
pub(crate) struct Who<'a> {
    pub(crate) key: &'a StaticKey,
    pub(crate) farm: FarmId,
    pub(crate) node: &'a str,
}

/// All that a post has to do with alarms.
pub(crate) struct Desk {
    alarms: Alarms,
    seeing: Seeing,
    second: Option<Second>,
    /// Of a second root: who has called.
    callers: BTreeMap<LinkId, PostId>,
    reaction: Option<Reaction>,
    /// Since when a second root has not had the front.
    alone_us: Option<u64>,
    tidied_us: u64,
}

/// The way to the second root.
struct Second {
    root: Ancestor,
    link: Option<(LinkId, bool)>,
    /// Which of its addresses is called next.
    next: usize,
    retry_us: u64,
    again_us: u64,
    /// When there was something to say last.
    busy_us: u64,
}

impl Second {
    fn new(root: Ancestor) -> Self {
        Self { root, link: None, next: 0, retry_us: RETRY_US, again_us: 0, busy_us: 0 }
    }

    fn lost(&mut self, now_us: u64) {
        (self.link, self.again_us) = (None, now_us + self.retry_us);
        self.retry_us = (self.retry_us * 2).min(RETRY_US_MAX);
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let address = self.root.addresses.get(self.next % self.root.addresses.len().max(1)).copied();
        self.next += 1;
        address
    }
}

/// What a post tells of itself.
fn own(post: PostId, mut alarms: Vec<Alarm>) -> Vec<Alarm> {
    alarms.retain(|alarm| alarm.key.origin == post);
    alarms
}

impl Desk {
    pub(crate) fn new(seeing: Seeing, reaction: Option<Reaction>) -> Self {
        Self {
            alarms: Alarms::default(),
            seeing,
            second: None,
            callers: BTreeMap::new(),
            reaction,
            alone_us: None,
            tidied_us: 0,
        }
    }

    /// The post's place has changed.
    pub(crate) fn place(&mut self, order: &PostOrder, reactor: &mut Reactor) {
        if self.second.as_ref().map(|second| &second.root) != order.second.as_ref() {
            let before = std::mem::replace(&mut self.second, order.second.clone().map(Second::new));
            before.and_then(|second| second.link).into_iter().for_each(|(link, _)| reactor.close(link));
            self.alarms.anew(Hearer::Second);
        }
        let is_below = |post: &PostId| order.below.iter().any(|below| below.post == *post);
        if order.kind == PostKind::Fe {
            self.callers.retain(|link, post| {
                let stays = is_below(post);
                if !stays {
                    reactor.close(*link);
                }
                stays
            });
        }
    }

    /// Somebody has called with something that is an alarm: whether it has.
    pub(crate) fn on_called(
        &mut self,
        (link, post): (LinkId, PostId),
        first: &[u8],
        reactor: &mut Reactor,
        (order, now): (&PostOrder, Now),
    ) -> bool {
        let Some((&LINK, record)) = first.split_first() else { return false };
        let Ok(Some(Message::Alarms(alarms))) = Message::read(record) else { return false };
        if order.kind != PostKind::Fe {
            reactor.close(link);
            return true;
        }
        // One that calls again has lost the link before.
        self.callers.retain(|older, of| {
            let stays = *of != post;
            if !stays {
                reactor.close(*older);
            }
            stays
        });
        self.callers.insert(link, post);
        if order.reactor == Some(post) {
            self.alarms.anew(Hearer::Reactor);
        }
        self.take((link, post), own(post, alarms), reactor, now);
        true
    }

    /// A link is up: whether it is one to the second root.
    pub(crate) fn on_up(&mut self, link: LinkId, reactor: &mut Reactor, now_us: u64) -> bool {
        let Some(second) = self.second.as_mut().filter(|of| of.link == Some((link, false))) else {
            return false;
        };
        second.link = Some((link, true));
        (second.retry_us, second.busy_us) = (RETRY_US, now_us);
        let mut due = self.alarms.due(Hearer::Second, now_us).into_iter();
        reactor.open(link, Lane::Alarm, &Message::Alarms(due.next().unwrap_or_default()), now_us);
        due.for_each(|alarms| reactor.send(link, Lane::Alarm, &Message::Alarms(alarms), now_us));
        true
    }

    /// A record has come by a link: whether it was one of these.
    pub(crate) fn on_record(
        &mut self,
        link: LinkId,
        record: &[u8],
        reactor: &mut Reactor,
        (order, now): (&PostOrder, Now),
    ) -> bool {
        let is_second = self.second.as_ref().is_some_and(|second| second.link == Some((link, true)));
        let caller = self.callers.get(&link).copied();
        let (hearer, from) = match (is_second, caller) {
            (true, _) => (Hearer::Second, self.second.as_ref().expect("it was just seen").root.post),
            (false, Some(post)) => (Hearer::Reactor, post),
            (false, None) => return false,
        };
        match Message::read(record) {
            // The second root tells of all, and nobody but the post that runs the program; others call it about themselves.
            Ok(Some(Message::Alarms(alarms))) if is_second && order.kind == PostKind::Ap => {
                self.take((link, from), alarms, reactor, now);
            }
            Ok(Some(Message::Alarms(alarms))) if !is_second => {
                self.take((link, from), own(from, alarms), reactor, now);
            }
            Ok(Some(Message::AlarmAcks(acks))) if is_second || order.reactor == Some(from) => {
                self.alarms.on_acks(hearer, acks);
            }
            Ok(Some(Message::Beat { .. }) | None) => {}
            _ => {
                reactor.close(link);
                self.on_gone(link, now.0);
            }
        }
        true
    }

    /// The farm's clock went back.
    pub(crate) fn begin_anew(&mut self, post: PostId, farm_us: u64) {
        self.alarms.begin_anew(post, farm_us);
    }

    /// A link has ended by itself: whether it was one of these.
    pub(crate) fn on_gone(&mut self, link: LinkId, now_us: u64) -> bool {
        if self.callers.remove(&link).is_some() {
            return true;
        }
        let is_second = |second: &&mut Second| second.link.is_some_and(|(of, _)| of == link);
        let Some(second) = self.second.as_mut().filter(is_second) else { return false };
        second.lost(now_us);
        true
    }

    /// Somebody tells of alarms by a link, and hears what is known of them now.
    pub(crate) fn take(
        &mut self,
        (link, from): (LinkId, PostId),
        alarms: Vec<Alarm>,
        reactor: &mut Reactor,
        (now_us, farm_us): Now,
    ) {
        let keys: Vec<_> = alarms.iter().map(|alarm| alarm.key.clone()).collect();
        let mut acks = self.alarms.take(from, alarms, farm_us);
        if self.react() {
            // It is said right away that the program runs.
            let done = |ack: &mut AlarmAck| ack.reacted |= keys.contains(&ack.key);
            acks.iter_mut().for_each(done);
        }
        if !acks.is_empty() {
            reactor.send(link, Lane::Alarm, &Message::AlarmAcks(acks), now_us);
        }
    }

    /// Runs the program for what is new; whether this post has one.
    fn react(&mut self) -> bool {
        let Some(reaction) = &mut self.reaction else { return false };
        self.alarms.take_for_reaction().into_iter().for_each(|alarm| reaction.run(alarm));
        true
    }

    /// The parent says what it knows.
    pub(crate) fn on_acks(&mut self, acks: Vec<AlarmAck>) {
        self.alarms.on_acks(Hearer::Parent, acks);
    }

    /// The post has another parent.
    pub(crate) fn on_joined(&mut self) {
        self.alarms.anew(Hearer::Parent);
    }

    /// Says what is to be said: to the parent, if there is one, to the second root, and to the post that runs a program.
    pub(crate) fn act(
        &mut self,
        who: &Who<'_>,
        order: &PostOrder,
        parent: Option<LinkId>,
        reactor: &mut Reactor,
        (now_us, farm_us): Now,
    ) {
        for seen in self.seeing.borrow_mut().drain(..) {
            self.alarms.see((order.post, who.node), seen, farm_us);
        }
        if order.kind == PostKind::Fe {
            self.watch_the_front((order.post, who.node), parent.is_some(), (now_us, farm_us));
        }
        if now_us >= self.tidied_us + TIDY_US {
            self.tidied_us = now_us;
            self.alarms.tidy(order.post, farm_us);
        }
        let mut say = |alarms: &mut Alarms, hearer, link: Option<LinkId>| {
            let Some(link) = link else { return };
            for due in alarms.due(hearer, now_us) {
                reactor.send(link, Lane::Alarm, &Message::Alarms(due), now_us);
            }
        };
        // What it has come to know of others the post that runs the program keeps to itself.
        if order.kind != PostKind::Ap {
            say(&mut self.alarms, Hearer::Parent, parent);
        }
        let called = |post: PostId| self.callers.iter().find(|(_, of)| **of == post).map(|(link, _)| *link);
        say(&mut self.alarms, Hearer::Reactor, order.reactor.and_then(called));
        self.call_second(who, order, reactor, now_us);
    }

    /// Keeps the link to the second root while there is something to say; the post that runs a program, always.
    fn call_second(&mut self, who: &Who<'_>, order: &PostOrder, reactor: &mut Reactor, now_us: u64) {
        let Some(second) = &mut self.second else { return };
        let has_news = order.kind == PostKind::Be && self.alarms.has_news(Hearer::Second);
        let wants = has_news || order.kind == PostKind::Ap;
        second.busy_us = if wants { now_us } else { second.busy_us };
        match second.link {
            Some((link, true)) => {
                if second.busy_us + KEEP_US <= now_us {
                    reactor.close(link);
                    second.link = None;
                } else if has_news {
                    for due in self.alarms.due(Hearer::Second, now_us) {
                        reactor.send(link, Lane::Alarm, &Message::Alarms(due), now_us);
                    }
                }
            }
            None if wants && second.again_us <= now_us => {
                let Some(address) = second.address() else { return };
                let name = post_name(order.post.0);
                let introduction = introduction(who.key, &second.root, &name);
                match reactor.call(address, &introduction, who.farm, now_us) {
                    Ok(link) => second.link = Some((link, false)),
                    Err(_) => second.lost(now_us),
                }
            }
            _ => {}
        }
    }

    /// The second root sees when the first is lost, as the first sees when the second is.
    fn watch_the_front(&mut self, who: (PostId, &str), is_there: bool, (now_us, farm_us): Now) {
        let alone_us = (!is_there).then(|| self.alone_us.unwrap_or(now_us));
        self.alone_us = alone_us;
        let is_lost = alone_us.is_some_and(|since_us| since_us + DEAD_US <= now_us);
        let seen = Seen {
            sensor: "front".to_owned(),
            level: is_lost.then_some(AlarmLevel::Critical),
            value: None,
            text: "the scheduler's root of the monitoring tree is lost".to_owned(),
            drains: false,
        };
        if is_lost || is_there {
            self.alarms.see(who, seen, farm_us);
        }
    }

    /// When something is to be done.
    pub(crate) fn due_us(&self, parent: bool, kind: PostKind) -> Option<u64> {
        let hearers: &[Hearer] = match kind {
            PostKind::Ap => &[],
            _ if parent => &[Hearer::Parent],
            _ => &[],
        };
        let says = self.alarms.due_us(hearers);
        let second = self.second.as_ref().and_then(|second| match second.link {
            Some((_, true)) => Some(second.busy_us + KEEP_US).filter(|_| kind != PostKind::Ap),
            Some((_, false)) => None,
            None if kind == PostKind::Ap || self.alarms.has_news(Hearer::Second) => Some(second.again_us),
            None => None,
        });
        [says, second].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_protocol::link::AlarmKey;

    use super::*;

    fn alarm(post: u64) -> Alarm {
        Alarm {
            key: AlarmKey { origin: PostId(post), sensor: "disk".into() },
            episode: 5,
            version: 1,
            level: Some(AlarmLevel::Critical),
            drains: false,
            reacted: false,
            drained: false,
            is_first: true,
            value: None,
            node: format!("n{post}"),
            text: "it is full".into(),
        }
    }

    fn record(posts: [u64; 2]) -> Vec<u8> {
        let mut record = Vec::new();
        Message::Alarms(posts.map(alarm).to_vec()).write(&mut record);
        record
    }

    #[test]
    fn who_calls_the_second_root_speaks_of_itself_alone() {
        let (mut desk, mut reactor) = (Desk::new(Seeing::default(), None), Reactor::new().unwrap());
        let order = PostOrder::new(PostId(3), (PostKind::Fe, 254));
        let first = [&[LINK][..], &record([5, 6])].concat();
        assert!(desk.on_called((LinkId(1), PostId(5)), &first, &mut reactor, (&order, (9, 9))));
        assert!(desk.on_record(LinkId(1), &record([7, 5]), &mut reactor, (&order, (9, 9))));
        let known: Vec<_> = desk.alarms.standing().map(|one| one.alarm.key.origin).collect();
        assert_eq!(known, [PostId(5)]);
    }
}
