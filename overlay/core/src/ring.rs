//! The ring of the front, the communication processes and the second root: each watches the one before it by a link of its
//! own, whatever the tree looks like. One that is silent, or that cannot be called, is a suspicion, which goes round the ring
//! and up the tree; whoever watched it watches the one before it as well, until it is back.
//!
//! Who watches whom the front says, see `front::watches`. What becomes of a suspicion is for the owner.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use starfarm_protocol::link::{DEAD_US, LINK, Message};
use starfarm_protocol::orders::{Ancestor, Descendant, PostId};

use crate::lanes::Lane;
use crate::pipe::{End, LinkId, Links};

/// A call that failed is made again so much later, and each time twice that, up to the longest pause, which is also that of
/// one that is silent.
const RETRY_US: u64 = 100_000;
const RETRY_US_MAX: u64 = 10_000_000;
/// Whoever answers each call for so long by hanging up cannot be reached, though its machine may live: a firewall says no.
const REFUSES_US: u64 = 2 * DEAD_US;
/// After so many failures in a row the one before is watched as well: after one the process may just begin anew.
const FAILURES: u32 = 2;
/// A suspicion is passed on again after so long; of so many posts that is remembered.
const SEEN_US: u64 = 10_000_000;
const SEEN_MAX: usize = 256;

/// A post's end of the ring's links. All times are by the clock of its process, in microseconds.
#[derive(Debug)]
pub struct Ring {
    post: PostId,
    scheduler: Option<SocketAddr>,
    /// Whom it watches, the nearest first.
    watched: Vec<Watched>,
    /// Who may watch it, and who does.
    may: BTreeSet<PostId>,
    watchers: BTreeMap<LinkId, PostId>,
    /// When suspicions were passed on last.
    seen: BTreeMap<PostId, u64>,
}

/// One that is to be watched.
#[derive(Debug)]
struct Watched {
    who: Ancestor,
    link: Option<LinkId>,
    is_up: bool,
    /// It was heard by this link.
    is_heard: bool,
    /// Which of its addresses is called next.
    next: usize,
    failures: u32,
    is_silent: bool,
    /// Since when all calls have failed.
    failing_us: Option<u64>,
    retry_us: u64,
    again_us: u64,
}

impl Watched {
    fn new(who: Ancestor) -> Self {
        let (link, is_up, is_heard, next) = (None, false, false, 0);
        let (failures, is_silent, failing_us, retry_us, again_us) = (0, false, None, RETRY_US, 0);
        Self { who, link, is_up, is_heard, next, failures, is_silent, failing_us, retry_us, again_us }
    }

    /// Somebody else is to be watched as well.
    fn is_passed_over(&self) -> bool {
        !self.is_heard && (self.is_silent || self.failures >= FAILURES)
    }

    fn hear(&mut self) {
        (self.is_heard, self.is_silent, self.failures) = (true, false, 0);
        (self.failing_us, self.retry_us) = (None, RETRY_US);
    }

    /// Its link has ended, or there was none to be had: whether it is under suspicion.
    fn fail(&mut self, is_silent: bool, now_us: u64) -> bool {
        let was_up = self.is_up;
        (self.link, self.is_up, self.is_heard) = (None, false, false);
        if is_silent {
            // One whose other addresses were not called may be reached by these.
            if !was_up && self.next < self.who.addresses.len() {
                self.again_us = now_us;
                return false;
            }
            (self.is_silent, self.again_us) = (true, now_us + RETRY_US_MAX);
            return true;
        }
        self.failures = self.failures.saturating_add(1);
        self.again_us = now_us + self.retry_us;
        self.retry_us = (self.retry_us * 2).min(RETRY_US_MAX);
        !was_up && now_us >= *self.failing_us.get_or_insert(now_us) + REFUSES_US
    }

    fn address(&mut self, scheduler: Option<SocketAddr>) -> Option<SocketAddr> {
        if self.who.addresses.is_empty() {
            return scheduler;
        }
        self.next = if self.next < self.who.addresses.len() { self.next + 1 } else { 1 };
        Some(self.who.addresses[self.next - 1])
    }
}

impl Default for Ring {
    /// That of a post which nobody has told its neighbours.
    fn default() -> Self {
        let (scheduler, watched, may) = (None, Vec::new(), BTreeSet::new());
        let (watchers, seen) = (BTreeMap::new(), BTreeMap::new());
        Self { post: PostId::FRONT, scheduler, watched, may, watchers, seen }
    }
}

impl Ring {
    /// It is that post now, with these neighbours; the front is there. Those that stay keep their links.
    pub fn place(
        &mut self,
        links: &mut impl Links,
        (post, scheduler): (PostId, Option<SocketAddr>),
        watched: &[Ancestor],
        watchers: &[Descendant],
    ) {
        (self.post, self.scheduler) = (post, scheduler);
        let mut before = std::mem::take(&mut self.watched);
        for who in watched {
            let at = before.iter().position(|of| of.who == *who);
            self.watched.push(at.map_or_else(|| Watched::new(who.clone()), |at| before.remove(at)));
        }
        before.into_iter().filter_map(|of| of.link).for_each(|link| links.close(link));
        self.may = watchers.iter().map(|of| of.post).collect();
        let gone: Vec<_> =
            self.watchers.iter().filter(|(_, of)| !self.may.contains(of)).map(|(link, _)| *link).collect();
        for link in gone {
            self.watchers.remove(&link);
            links.close(link);
        }
        self.release(links);
    }

    /// Whom it hears at this moment, the nearest that it can.
    pub fn hears(&self) -> Option<PostId> {
        self.watched.iter().find(|of| of.is_heard).map(|of| of.who.post)
    }

    /// The one that it is to watch.
    pub fn nearest(&self) -> Option<PostId> {
        self.watched.first().map(|of| of.who.post)
    }

    /// Who watches it now.
    pub fn watchers(&self) -> impl Iterator<Item = PostId> {
        self.watchers.values().copied()
    }

    /// How many of those before it are watched, or tried.
    fn reach(&self) -> usize {
        let over = self.watched.iter().take_while(|of| of.is_passed_over()).count();
        (over + 1).min(self.watched.len())
    }

    /// When it calls next.
    pub fn due_us(&self) -> Option<u64> {
        let waiting = self.watched[..self.reach()].iter().filter(|of| of.link.is_none());
        waiting.map(|of| of.again_us).min()
    }

    /// Whom to call now, and where.
    pub fn next_call(&mut self, now_us: u64) -> Option<(Ancestor, SocketAddr)> {
        let (reach, scheduler) = (self.reach(), self.scheduler);
        let is_due = |of: &&mut Watched| of.link.is_none() && of.again_us <= now_us;
        let of = self.watched[..reach].iter_mut().find(is_due)?;
        // Whoever finds no socket is not called again at once.
        of.again_us = now_us + of.retry_us;
        of.address(scheduler).map(|address| (of.who.clone(), address))
    }

    /// That one is called by this link.
    pub fn on_calling(&mut self, link: LinkId, called: &Ancestor) {
        if let Some(of) = self.watched.iter_mut().find(|of| of.who == *called) {
            of.link = Some(link);
        }
    }

    /// That one could not be called: whether it is under suspicion for that, as [`Ring::on_end`].
    pub fn on_no_call(&mut self, links: &mut impl Links, called: &Ancestor, now_us: u64) -> Option<PostId> {
        let of = self.watched.iter_mut().find(|of| of.who == *called)?;
        let (post, is_suspect) = (of.who.post, of.fail(false, now_us));
        self.suspect(links, is_suspect.then_some(post), now_us)
    }

    /// A link has shaken hands: whether it is one of the ring's.
    pub fn on_up(&mut self, links: &mut impl Links, link: LinkId, now_us: u64) -> bool {
        let Some(of) = self.watched.iter_mut().find(|of| of.link == Some(link)) else { return false };
        (of.is_up, of.failing_us) = (true, None);
        links.open(link, Lane::Control, &Message::Watch(self.post), now_us);
        true
    }

    /// That post has called and shaken hands: whether it is to watch this one.
    pub fn on_called(&mut self, links: &mut impl Links, link: LinkId, post: PostId, first: &[u8]) -> bool {
        let Some((&LINK, record)) = first.split_first() else { return false };
        let Ok(Some(Message::Watch(who))) = Message::read(record) else { return false };
        if who != post || !self.may.contains(&post) {
            links.close(link);
            return true;
        }
        // One that calls again has lost the link before.
        let older: Vec<_> =
            self.watchers.iter().filter(|(_, of)| **of == post).map(|(link, _)| *link).collect();
        for link in older {
            self.watchers.remove(&link);
            links.close(link);
        }
        self.watchers.insert(link, post);
        true
    }

    /// A record has come: none where that is not by a link of the ring, else the post of which it brings a suspicion, if it does
    /// and that is news.
    pub fn on_record(
        &mut self,
        links: &mut impl Links,
        link: LinkId,
        record: &[u8],
        now_us: u64,
    ) -> Option<Option<PostId>> {
        let watched = self.watched.iter_mut().find(|of| of.link == Some(link));
        if watched.is_none() && !self.watchers.contains_key(&link) {
            return None;
        }
        let is_back = watched.is_some_and(|of| {
            of.hear();
            true
        });
        if is_back {
            self.release(links);
        }
        Some(match Message::read(record) {
            Ok(Some(Message::Suspect(post))) => {
                self.pass_on(links, (post, Some(link)), now_us).then_some(post)
            }
            Ok(Some(Message::Beat { .. }) | None) => None,
            _ => {
                links.close(link);
                let broken = End::against_the_rules();
                self.on_end(links, (link, &broken), now_us).flatten()
            }
        })
    }

    /// A link has ended by itself: as [`Ring::on_record`].
    pub fn on_end(
        &mut self,
        links: &mut impl Links,
        (link, end): (LinkId, &End),
        now_us: u64,
    ) -> Option<Option<PostId>> {
        let is_silent = *end == End::Silent;
        let (post, is_suspect) = match self.watched.iter_mut().find(|of| of.link == Some(link)) {
            Some(of) => (of.who.post, of.fail(is_silent, now_us)),
            None => (self.watchers.remove(&link)?, is_silent),
        };
        Some(self.suspect(links, is_suspect.then_some(post), now_us))
    }

    /// A suspicion of its own, if it has one: it is for the tree however often the ring has heard it.
    fn suspect(&mut self, links: &mut impl Links, post: Option<PostId>, now_us: u64) -> Option<PostId> {
        post.inspect(|post| {
            self.pass_on(links, (*post, None), now_us);
        })
    }

    /// Says to its neighbours that a post is silent, but for the one who has said so; false where that was done not long ago.
    fn pass_on(
        &mut self,
        links: &mut impl Links,
        (post, from): (PostId, Option<LinkId>),
        now_us: u64,
    ) -> bool {
        self.seen.retain(|_, at_us| *at_us + SEEN_US > now_us && *at_us <= now_us);
        if self.seen.contains_key(&post) || self.seen.len() >= SEEN_MAX {
            return false;
        }
        self.seen.insert(post, now_us);
        let up = self.watched.iter().filter(|of| of.is_up).filter_map(|of| of.link);
        for link in up.chain(self.watchers.keys().copied()).filter(|link| Some(*link) != from) {
            links.send(link, Lane::Control, &Message::Suspect(post), now_us);
        }
        true
    }

    /// Ends the links with those who are not to be watched any more, as a nearer one is heard.
    fn release(&mut self, links: &mut impl Links) {
        let reach = self.reach();
        for of in &mut self.watched[reach..] {
            of.link.into_iter().for_each(|link| links.close(link));
            *of = Watched::new(of.who.clone());
        }
    }
}

#[cfg(test)]
mod tests;
