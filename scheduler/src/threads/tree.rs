//! The tree thread: it has the links of the posts below the front, and puts what they say into the picture. It owns
//! nothing that counts: the farm goes on without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use starfarm_overlay::{Happening, LinkId, Reactor};
use starfarm_overlay_core::lanes::Lane;
use starfarm_protocol::link::Message;
use starfarm_protocol::orders::PostId;

use crate::threads::House;
use crate::tree::{Arrival, Tree};

/// Longest pause between two looks at what else there is to do.
const PAUSE: Duration = Duration::from_millis(500);
/// How often what is of no use any more is dropped, in microseconds.
const TIDY_US: u64 = 5_000_000;

/// Why the thread cannot go on is for the caller to say.
///
/// # Errors
/// The system's.
pub(crate) fn run(
    house: &Arc<House>,
    tree: &Arc<Tree>,
    mut reactor: Reactor,
    arrivals: &Receiver<Arrival>,
) -> std::io::Result<()> {
    let mut links = Links::default();
    let (mut happenings, mut tidy_us) = (Vec::new(), 0);
    let clock = || house.shared.now_us();
    while !house.shared.stopping() {
        reactor.turn(PAUSE, clock, &mut happenings)?;
        let now_us = clock();
        for happening in happenings.drain(..) {
            match happening {
                Happening::Record(link, record) => links.hear(&mut reactor, tree, link, &record, now_us),
                Happening::Gone(link, _) => links.forget(link),
                Happening::Up(_) | Happening::Readable(_) => {}
            }
        }
        for arrival in arrivals.try_iter() {
            links.arrive(&mut reactor, arrival, now_us);
        }
        if now_us >= tidy_us {
            tidy_us = now_us + TIDY_US;
            let keys = house.keys.lock().expect("a panic under the lock ends the process");
            let gone = tree.tidy(|node| keys.key(node).is_none_or(|entry| entry.revoked), now_us);
            for link in gone.into_iter().filter_map(|post| links.of(post)).collect::<Vec<_>>() {
                links.end(&mut reactor, link);
            }
        }
    }
    Ok(())
}

/// Who is at the other end of which link.
#[derive(Default)]
struct Links {
    posts: BTreeMap<LinkId, PostId>,
    by_post: BTreeMap<PostId, LinkId>,
}

impl Links {
    fn of(&self, post: PostId) -> Option<LinkId> {
        self.by_post.get(&post).copied()
    }

    /// A link that has shaken hands. A post has one: an older one is dead, whether that shows yet or not.
    fn arrive(&mut self, reactor: &mut Reactor, arrival: Arrival, now_us: u64) {
        let Arrival { socket, stream, post, first } = arrival;
        let attached = Message::read(&first[1..]) == Ok(Some(Message::Attach { post }));
        let Ok(link) = reactor.adopt(socket, *stream, now_us) else { return };
        if !attached {
            let why = "a link begins with the post that it is for".to_owned();
            reactor.send(link, Lane::Control, &Message::Refuse { why }, now_us);
            return;
        }
        self.of(post).into_iter().for_each(|older| self.end(reactor, older));
        self.posts.insert(link, post);
        self.by_post.insert(post, link);
        reactor.send(link, Lane::Control, &Message::Welcome { now_us }, now_us);
    }

    /// What a post says is of itself: nobody is below it today.
    fn hear(&mut self, reactor: &mut Reactor, tree: &Tree, link: LinkId, record: &[u8], now_us: u64) {
        // One that was refused, and goes on speaking.
        let Some(post) = self.posts.get(&link).copied() else { return self.end(reactor, link) };
        match Message::read(record) {
            Ok(Some(Message::Data(data))) if data.origin == post => tree.take(&data, now_us),
            Ok(Some(Message::Beat) | None) => {}
            _ => self.end(reactor, link),
        }
    }

    fn end(&mut self, reactor: &mut Reactor, link: LinkId) {
        reactor.close(link);
        self.forget(link);
    }

    fn forget(&mut self, link: LinkId) {
        let post = self.posts.remove(&link);
        if post.is_some_and(|post| self.of(post) == Some(link)) {
            post.map(|post| self.by_post.remove(&post));
        }
    }
}
