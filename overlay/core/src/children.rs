//! The children of a post: who is at the other end of which link, and what they have said. Whoever has shaken hands may
//! link, as the scheduler has vouched for it; whether it is taken as a child is decided here.

use std::collections::BTreeMap;

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{Alarm, AlarmAck, Answer, Counts, Data, LINK, Message, Part, PartOp, Standing};
use starfarm_protocol::orders::PostId;

use crate::lanes::Lane;
use crate::pipe::{LinkId, Links};
use crate::receiving::Receiving;

/// Posts below whose way is remembered, at most.
const WAYS_MAX: usize = 100_000;

/// What a child says that its parent has to do with. Whether it may speak of a post other than itself is for the parent to know.
#[derive(Debug, PartialEq)]
pub enum Said<'a> {
    /// Nothing.
    Nothing,
    /// The link has ended: this was a child.
    Gone(PostId),
    /// Values; nobody has seen them before.
    Data(PostId, Data<'a>),
    /// How it, or a post below it, stands.
    Standing(PostId, Standing),
    /// Of alarms, which it is to be answered.
    Alarms(PostId, Vec<Alarm>),
    /// That it knows of alarms.
    AlarmAcks(PostId, Vec<AlarmAck>),
    /// Its part of what all do together.
    Part(PostId, Part),
    /// The agent of it, or of a post below it, answers.
    Answer(PostId, Answer<'a>),
    /// Nothing was heard of another post for a while: that of the second.
    Suspect(PostId, PostId),
}

/// All children of a post.
#[derive(Debug)]
pub struct Children {
    level: u8,
    /// So many, at most; 0: as many as come.
    most: usize,
    links: BTreeMap<LinkId, PostId>,
    by_post: BTreeMap<PostId, (LinkId, u8)>,
    /// Of posts further below, by way of which child they are reached: the one by which they told last how they stand.
    ways: BTreeMap<PostId, PostId>,
    /// Links that were refused last, and are about to end: one of a post.
    refused: BTreeMap<PostId, LinkId>,
    received: Receiving,
}

impl Children {
    /// None yet, below a post of that level.
    pub fn of(level: u8) -> Self {
        Self {
            level,
            most: 0,
            links: BTreeMap::new(),
            by_post: BTreeMap::new(),
            ways: BTreeMap::new(),
            refused: BTreeMap::new(),
            received: Receiving::default(),
        }
    }

    /// So many there may be; 0: as many as come. Those who are there stay.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_post.len()
    }

    /// All of them.
    pub fn posts(&self) -> impl Iterator<Item = PostId> {
        self.by_post.keys().copied()
    }

    /// Whose link that is, if it is a child's.
    pub fn post(&self, link: LinkId) -> Option<PostId> {
        self.links.get(&link).copied()
    }

    /// The link of a child.
    pub fn link(&self, post: PostId) -> Option<LinkId> {
        self.by_post.get(&post).map(|(link, _)| *link)
    }

    /// Says something to all of them.
    pub fn tell(&self, links: &mut impl Links, message: &Message<'_>, now_us: u64) {
        for link in self.links.keys() {
            links.send(*link, Lane::Control, message, now_us);
        }
    }

    /// Begins a part of all of them.
    pub fn begin(&self, links: &mut impl Links, round: u32, value: u64, now_us: u64) {
        let part = Message::Part(Part { op: PartOp::Down, round, from: 0, value });
        for link in self.links.keys() {
            links.send(*link, Lane::Collective, &part, now_us);
        }
    }

    /// A child has told how a post further below stands, and may: that one is reached by way of it.
    pub fn leads(&mut self, child: PostId, to: PostId) {
        if child != to && (self.ways.len() < WAYS_MAX || self.ways.contains_key(&to)) {
            self.ways.insert(to, child);
        }
    }

    /// Says something to a post below, or to who is on the way to it; false where no way is known.
    pub fn send_to(&self, links: &mut impl Links, post: PostId, message: &Message<'_>, now_us: u64) -> bool {
        let child = if self.by_post.contains_key(&post) { Some(&post) } else { self.ways.get(&post) };
        let link = child.and_then(|child| self.by_post.get(child));
        link.map(|(link, _)| links.send(*link, Lane::Collective, message, now_us)).is_some()
    }

    /// A link has shaken hands, for that post and with that key. A post has one: an older one is dead, whether that shows yet
    /// or not. `farm_us` is the farm's clock, which it is told. Says whether it is a child now.
    pub fn arrive(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        (post, key): (PostId, PublicKey),
        first: &[u8],
        (now_us, farm_us): (u64, u64),
    ) -> bool {
        let attach = match first.split_first() {
            Some((&LINK, record)) => match Message::read(record) {
                Ok(Some(Message::Attach(attach))) if attach.post == post => Ok(attach),
                _ => Err("a link begins with the post that it is for".to_owned()),
            },
            _ => Err("a link begins with the post that it is for".to_owned()),
        };
        let fits = attach.and_then(|attach| {
            let is_known = self.by_post.contains_key(&post);
            if attach.level >= self.level {
                Err(format!("a post of level {} is not below one of level {}", attach.level, self.level))
            } else if self.most > 0 && self.count() >= self.most && !is_known {
                Err(format!("there are {} children already", self.most))
            } else {
                Ok(attach)
            }
        });
        match fits {
            Err(why) => {
                links.refuse(link, why, now_us);
                // One that calls again and again has one link all the same.
                self.refused.insert(post, link).into_iter().for_each(|older| links.close(older));
                false
            }
            Ok(attach) => {
                if let Some((older, _)) = self.by_post.insert(post, (link, attach.level)) {
                    self.links.remove(&older);
                    links.close(older);
                }
                self.links.insert(link, post);
                self.received.attach(&attach, key);
                // It takes nothing before that, so that goes before all: alarms may be waiting for it.
                links.send(link, Lane::Alarm, &Message::Welcome { now_us: farm_us }, now_us);
                true
            }
        }
    }

    /// A record has come by a link. One that breaks the rules ends it, as does one of who is no child.
    pub fn hear<'a>(&mut self, links: &mut impl Links, link: LinkId, record: &'a [u8]) -> Said<'a> {
        let Some(post) = self.links.get(&link).copied() else {
            self.refused.retain(|_, refused| *refused != link);
            links.close(link);
            return Said::Nothing;
        };
        match Message::read(record) {
            Ok(Some(Message::Data(data))) if data.origin == post => {
                if self.received.take(post, &data) {
                    Said::Data(post, data)
                } else {
                    Said::Nothing
                }
            }
            Ok(Some(Message::Standing(standing))) => {
                if standing.post == post {
                    self.received.on_dropped(post, standing.counts.dropped);
                }
                Said::Standing(post, standing)
            }
            Ok(Some(Message::Alarms(alarms))) => Said::Alarms(post, alarms),
            Ok(Some(Message::AlarmAcks(acks))) => Said::AlarmAcks(post, acks),
            Ok(Some(Message::Part(part))) if part.op == PartOp::Up => Said::Part(post, part),
            Ok(Some(Message::Answer(answer))) => Said::Answer(post, answer),
            Ok(Some(Message::Suspect(below))) => Said::Suspect(post, below),
            Ok(Some(Message::Beat { .. }) | None) => Said::Nothing,
            _ => {
                links.close(link);
                self.gone(link).map_or(Said::Nothing, Said::Gone)
            }
        }
    }

    /// A link has ended by itself: whose it was, if it was a child's.
    pub fn gone(&mut self, link: LinkId) -> Option<PostId> {
        self.refused.retain(|_, refused| *refused != link);
        let post = self.links.remove(&link)?;
        self.by_post.remove(&post);
        self.ways.retain(|_, child| *child != post);
        self.received.detach(post);
        Some(post)
    }

    /// Nobody wants this post to be a child any more.
    pub fn end(&mut self, links: &mut impl Links, post: PostId) {
        if let Some((link, _)) = self.by_post.get(&post).copied() {
            links.close(link);
            self.gone(link);
        }
    }

    /// So the post stands that has these children, which has sent and dropped so many messages itself; `late` of those that
    /// came were.
    pub fn counts(&self, sent_dropped: (u64, u64), late: u64) -> Counts {
        self.received.counts(sent_dropped, late)
    }
}
