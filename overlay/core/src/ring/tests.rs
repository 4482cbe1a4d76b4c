//! A post of the ring, told by what it says on its links.

use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::seal::Secret;

use super::*;
use crate::sending::Sending;

const SECOND_US: u64 = 1_000_000;

/// Links whose other ends remember what was said, and which were closed.
#[derive(Default)]
struct Said(Vec<(u64, String)>, Vec<u64>);

impl Links for Said {
    fn send(&mut self, link: LinkId, _: Lane, message: &Message<'_>, _: u64) {
        self.0.push((link.0, format!("{message:?}")));
    }

    fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        self.send(link, lane, message, now_us);
    }

    fn send_data(&mut self, _: LinkId, _: &mut Sending, _: u64) {}

    fn refuse(&mut self, link: LinkId, why: String, now_us: u64) {
        self.send(link, Lane::Control, &Message::Refuse { why }, now_us);
    }

    fn close(&mut self, link: LinkId) {
        self.1.push(link.0);
    }
}

fn who(post: u64, addresses: u16) -> Ancestor {
    let addresses = (0..addresses).map(|n| SocketAddr::from(([10, 0, 0, post as u8], n))).collect();
    Ancestor { post: PostId(post), addresses, key: PublicKey([post as u8; 32]), secret: Secret([1; 32]) }
}

fn by(post: u64) -> Descendant {
    let (key, secret) = (PublicKey([post as u8; 32]), Secret([1; 32]));
    Descendant { post: PostId(post), parent: PostId::FRONT, level: 1, key, secret }
}

/// Post 5 of a ring of the front and posts 1 to 9.
struct Five {
    ring: Ring,
    said: Said,
    links: u64,
}

impl Five {
    fn new() -> Self {
        let mut five = Self { ring: Ring::default(), said: Said::default(), links: 0 };
        five.place(&[who(4, 1), who(3, 2), who(0, 0)]);
        five
    }

    fn place(&mut self, watched: &[Ancestor]) {
        let scheduler = SocketAddr::from(([10, 0, 0, 99], 7));
        let who = (PostId(5), Some(scheduler));
        self.ring.place(&mut self.said, who, watched, &[by(6), by(7)]);
    }

    /// Calls whoever is to be called; posts, and the ports.
    fn calls(&mut self, now_us: u64) -> Vec<(u64, u16)> {
        let mut called = Vec::new();
        while let Some((who, at)) = self.ring.next_call(now_us) {
            self.links += 1;
            self.ring.on_calling(LinkId(self.links), &who);
            called.push((who.post.0, at.port()));
        }
        called
    }

    fn ends(&mut self, link: u64, end: &End, now_us: u64) -> Option<u64> {
        self.ring.on_end(&mut self.said, (LinkId(link), end), now_us).unwrap().map(|post| post.0)
    }

    fn hears(&mut self, link: u64, message: &Message<'_>, now_us: u64) -> Option<Option<PostId>> {
        let mut record = Vec::new();
        message.write(&mut record);
        self.ring.on_record(&mut self.said, LinkId(link), &record, now_us)
    }

    /// The next call is answered.
    fn up(&mut self, now_us: u64) -> u64 {
        assert_eq!(self.calls(now_us).len(), 1);
        assert!(self.ring.on_up(&mut self.said, LinkId(self.links), now_us));
        assert_eq!(self.hears(self.links, &Message::Beat { heard: 0 }, now_us), Some(None));
        self.links
    }

    /// Another post watches it by that link.
    fn watches(&mut self, link: u64, post: u64, claims: u64) -> bool {
        let mut first = vec![LINK];
        Message::Watch(PostId(claims)).write(&mut first);
        self.ring.on_called(&mut self.said, LinkId(link), PostId(post), &first)
    }

    fn suspicions(&mut self) -> Vec<u64> {
        let suspects = |said: &String| said.starts_with("Suspect");
        std::mem::take(&mut self.said.0)
            .into_iter()
            .filter(|(_, said)| suspects(said))
            .map(|(link, _)| link)
            .collect()
    }
}

fn hung_up() -> End {
    End::Broken("it has hung up".into())
}

#[test]
fn the_nearest_is_watched_and_nobody_else() {
    let mut five = Five::new();
    assert_eq!(five.ring.due_us(), Some(0));
    let link = five.up(0);
    assert_eq!(five.said.0, [(link, "Watch(PostId(5))".to_owned())]);
    assert_eq!((five.ring.hears(), five.ring.due_us()), (Some(PostId(4)), None));
    assert!(five.calls(100 * SECOND_US).is_empty());
    // Orders that have changed elsewhere.
    five.place(&[who(4, 1), who(2, 1)]);
    assert_eq!((five.ring.hears(), five.said.1.len()), (Some(PostId(4)), 0));
    five.place(&[who(8, 1)]);
    assert_eq!((five.ring.hears(), five.said.1.as_slice()), (None, &[link][..]));
    assert_eq!(five.calls(0), [(8, 0)]);
}

#[test]
fn one_that_is_silent_is_under_suspicion_and_the_one_before_it_is_watched_until_it_is_back() {
    let mut five = Five::new();
    let link = five.up(0);
    assert_eq!(five.ends(link, &End::Silent, 5 * SECOND_US), Some(4));
    let next = five.up(5 * SECOND_US);
    assert_eq!((five.ring.hears(), five.ring.nearest()), (Some(PostId(3)), Some(PostId(4))));
    // It is tried again, in vain: that is said again.
    assert_eq!(five.ring.due_us(), Some(15 * SECOND_US));
    assert_eq!((five.calls(14 * SECOND_US), five.calls(15 * SECOND_US)), (vec![], vec![(4, 0)]));
    five.suspicions();
    assert_eq!(five.ends(five.links, &End::Silent, 20 * SECOND_US), Some(4));
    assert_eq!(five.suspicions(), [next], "the one that is watched instead hears of it");
    // It is back: the one before it is for others to watch.
    five.up(30 * SECOND_US);
    assert_eq!((five.ring.hears(), five.said.1.as_slice()), (Some(PostId(4)), &[next][..]));
    assert_eq!(five.ring.due_us(), None);
}

#[test]
fn all_addresses_are_called_before_one_is_under_suspicion() {
    let mut five = Five::new();
    five.place(&[who(3, 2), who(0, 0)]);
    assert_eq!(five.calls(0), [(3, 0)]);
    assert_eq!((five.ends(1, &End::Silent, 5 * SECOND_US), five.calls(5 * SECOND_US)), (None, vec![(3, 1)]));
    assert_eq!(five.ends(2, &End::Silent, 10 * SECOND_US), Some(3));
    assert_eq!(five.calls(10 * SECOND_US), [(0, 7)], "the front is where the scheduler is");
    assert_eq!(five.calls(20 * SECOND_US), [(3, 0)]);
}

#[test]
fn one_whose_process_has_ended_is_tried_again_soon_and_is_under_no_suspicion() {
    let mut five = Five::new();
    let link = five.up(0);
    assert_eq!(five.ends(link, &hung_up(), SECOND_US), None);
    assert_eq!(five.calls(SECOND_US), []);
    assert_eq!(five.calls(SECOND_US + RETRY_US), [(4, 0)]);
    assert_eq!(five.ends(2, &hung_up(), SECOND_US + RETRY_US), None);
    // After that the one before it is watched as well, and the pause is twice as long.
    assert_eq!(five.calls(SECOND_US + 2 * RETRY_US), [(3, 0)]);
    assert_eq!(five.calls(SECOND_US + 3 * RETRY_US), [(4, 0)]);
    assert!(five.ring.on_up(&mut five.said, LinkId(4), 2 * SECOND_US));
    five.hears(4, &Message::Beat { heard: 0 }, 2 * SECOND_US);
    assert_eq!(five.said.1, [3]);
}

#[test]
fn one_that_refuses_each_call_for_long_is_under_suspicion_but_not_one_that_hangs_up_later() {
    let (mut five, mut now_us, mut suspect_us) = (Five::new(), 0, None);
    five.place(&[who(4, 1)]);
    while suspect_us.is_none() {
        now_us = five.ring.due_us().unwrap();
        assert_eq!(five.calls(now_us).len(), 1);
        suspect_us = five.ends(five.links, &hung_up(), now_us).map(|_| now_us);
    }
    assert!((REFUSES_US..2 * REFUSES_US).contains(&now_us), "{now_us}");
    let mut old = Five::new();
    old.place(&[who(4, 1)]);
    while now_us < 100 * SECOND_US {
        now_us = old.ring.due_us().unwrap().max(now_us);
        assert_eq!(old.calls(now_us).len(), 1);
        old.ring.on_up(&mut old.said, LinkId(old.links), now_us);
        assert_eq!(old.ends(old.links, &hung_up(), now_us), None, "it can be called");
    }
    assert!(old.links < 30, "and not without a pause");
    // There is no way to it at all.
    let mut none = Five::new();
    let (called, _) = none.ring.next_call(0).unwrap();
    assert_eq!(none.ring.on_no_call(&mut none.said, &called, 0), None);
    assert_eq!(none.ring.on_no_call(&mut none.said, &called, REFUSES_US), Some(PostId(4)));
}

#[test]
fn a_suspicion_goes_round_once() {
    let mut five = Five::new();
    let link = five.up(0);
    assert!(five.watches(60, 6, 6) && five.watches(70, 7, 7));
    five.suspicions();
    let suspect = Message::Suspect(PostId(9));
    assert_eq!(five.hears(60, &suspect, 0), Some(Some(PostId(9))));
    assert_eq!(five.suspicions(), [link, 70]);
    assert_eq!(five.hears(link, &suspect, SEEN_US - 1), Some(None), "it was passed on already");
    assert!(five.suspicions().is_empty());
    assert_eq!(five.hears(link, &suspect, SEEN_US), Some(Some(PostId(9))));
    assert_eq!(five.suspicions(), [60, 70]);
    // What is remembered of them is bounded.
    for post in 100..100 + 2 * SEEN_MAX as u64 {
        five.hears(link, &Message::Suspect(PostId(post)), SEEN_US);
    }
    assert_eq!(five.ring.seen.len(), SEEN_MAX);
    // Its own it says up the tree all the same.
    assert_eq!(five.ends(link, &End::Silent, SEEN_US), Some(4));
    assert_eq!(five.ends(60, &End::Silent, SEEN_US), Some(6), "whoever watches it is heard as well");
    assert_eq!(five.ends(70, &hung_up(), SEEN_US), None);
}

#[test]
fn who_may_watch_is_told_and_a_link_for_that_says_nothing_else() {
    let mut five = Five::new();
    assert!(five.watches(60, 6, 6) && five.said.1.is_empty());
    assert!(five.watches(61, 6, 6), "a later call of the same");
    assert!(five.watches(80, 8, 8) && five.watches(71, 7, 6));
    assert_eq!(five.said.1, [60, 80, 71]);
    assert_eq!(five.ring.watchers().collect::<Vec<_>>(), [PostId(6)]);
    let mut attach = vec![LINK];
    Message::Beat { heard: 0 }.write(&mut attach);
    assert!(!five.ring.on_called(&mut five.said, LinkId(90), PostId(6), &attach), "for the tree");
    assert_eq!(five.hears(90, &Message::Beat { heard: 0 }, 0), None);
    assert!(five.ring.on_end(&mut five.said, (LinkId(90), &End::Silent), 0).is_none());
    assert_eq!(five.hears(61, &Message::Welcome { now_us: 5 }, 0), Some(None));
    assert_eq!((five.said.1.last(), five.ring.watchers().count()), (Some(&61), 0));
    five.watches(62, 6, 6);
    five.ring.place(&mut five.said, (PostId(5), None), &[], &[by(7)]);
    assert_eq!((five.said.1.last(), five.ring.watchers().count()), (Some(&62), 0));
}
