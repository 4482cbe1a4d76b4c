//! The life of a post, told by what it says on its links.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use starfarm_overlay_core::closing::{CLOSE_US, Closing};
use starfarm_overlay_core::lanes::{Lane, Lanes};
use starfarm_overlay_core::member::{Deed, Member, vouchers};
use starfarm_overlay_core::pipe::{End, LinkId, Links};
use starfarm_overlay_core::sending::Sending;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::link::{
    Alarm, AlarmKey, Answer, Attach, Counts, LINK, Message, Piece, Standing, Stream,
};
use starfarm_protocol::orders::{Ancestor, Descendant, PostId, PostKind, PostOrder, PostState};
use starfarm_protocol::seal::Secret;

const SECOND_US: u64 = 1_000_000;
const FARM_US: u64 = 1_000 * SECOND_US;
const UP: LinkId = LinkId(1);
const DOWN: LinkId = LinkId(2);

/// Links whose other ends remember what was said, those that were closed, and what waits on each.
#[derive(Default)]
struct Said(Vec<(LinkId, String)>, Vec<LinkId>, BTreeMap<LinkId, Lanes>);

impl Links for Said {
    fn send(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, _: u64) {
        self.0.push((link, format!("{message:?}")));
        self.2.entry(link).or_default().put(lane, bytes(message)).unwrap();
    }

    fn open(&mut self, link: LinkId, lane: Lane, message: &Message<'_>, now_us: u64) {
        self.send(link, lane, message, now_us);
    }

    fn send_data(&mut self, _: LinkId, waiting: &mut Sending, _: u64) {
        while waiting.next_record(usize::MAX).is_some() {}
    }

    fn refuse(&mut self, link: LinkId, why: String, now_us: u64) {
        self.send(link, Lane::Control, &Message::Refuse { why }, now_us);
    }

    fn close(&mut self, link: LinkId) {
        self.1.push(link);
    }
}

/// A CP below the front, with one post below it.
struct Cp {
    member: Member,
    said: Said,
    deeds: Vec<Deed>,
}

fn bytes(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.write(&mut out);
    out
}

impl Cp {
    fn new() -> Self {
        let secret = Secret([1; 32]);
        let front = Ancestor {
            post: PostId::FRONT,
            addresses: Vec::new(),
            key: PublicKey([9; 32]),
            secret: secret.clone(),
        };
        let (key, parent) = (PublicKey([3; 32]), PostId(2));
        let below = Descendant { post: PostId(3), parent, level: 0, key, secret };
        let (lineage, below) = (vec![front], vec![below]);
        let none = PostOrder::new(PostId(2), (PostKind::Ibe, 1));
        let order = PostOrder { lineage, below, children_max: 4, ..none };
        let mut cp = Self { member: Member::new(1), said: Said::default(), deeds: Vec::new() };
        let scheduler: SocketAddr = "10.0.0.9:7".parse().unwrap();
        cp.member.on_place(&mut cp.said, (order, scheduler), &mut cp.deeds);
        let (ancestor, at) = cp.member.next_call(0).unwrap();
        assert_eq!((ancestor.post, at), (PostId::FRONT, scheduler));
        cp.member.on_calling(UP, &ancestor);
        cp.member.on_up(&mut cp.said, UP, 0);
        cp.hears(UP, &Message::Welcome { now_us: FARM_US }, 0);
        let attach = Attach { post: PostId(3), level: 0, dropped: 0, sequences: [0; 4] };
        let first = [&[LINK][..], &bytes(&Message::Attach(attach))].concat();
        cp.member.on_called(
            &mut cp.said,
            DOWN,
            (PostId(3), PublicKey([3; 32])),
            &first,
            SECOND_US,
            &mut cp.deeds,
        );
        assert_eq!(cp.take().0.last(), Some(&Deed::Arrived(DOWN)));
        cp
    }

    fn hears(&mut self, link: LinkId, message: &Message<'_>, now_us: u64) {
        self.member.on_record(&mut self.said, link, &bytes(message), now_us, &mut self.deeds);
    }

    fn take(&mut self) -> (Vec<Deed>, Vec<(LinkId, String)>) {
        (std::mem::take(&mut self.deeds), std::mem::take(&mut self.said.0))
    }
}

#[test]
fn a_post_that_stays_where_it_is_hears_that_the_farms_clock_was_set_back() {
    let mut cp = Cp::new();
    let welcome = |now_us| Message::Welcome { now_us };
    // It was set back by five seconds: another scheduler has the front, which took the post above this one in.
    for (n, now_us) in [(0, 10 * SECOND_US), (1, 15 * SECOND_US)] {
        cp.hears(UP, &welcome(FARM_US + now_us - 5 * SECOND_US), now_us);
        let (deeds, said) = cp.take();
        let farm_us = if n == 0 { FARM_US + now_us } else { FARM_US + now_us - 5 * SECOND_US };
        assert_eq!(said, [(DOWN, format!("{:?}", welcome(farm_us)))]);
        assert_eq!(deeds, if n == 0 { vec![] } else { vec![Deed::BeginAnew, Deed::Heed] });
    }
    assert_eq!(cp.member.farm_us(15 * SECOND_US), Some(FARM_US + 10 * SECOND_US));
    assert!(cp.said.1.is_empty(), "no link has ended");
}

#[test]
fn the_first_that_a_child_hears_is_that_it_is_taken_in_whatever_else_is_urgent() {
    let mut cp = Cp::new();
    cp.said.send(DOWN, Lane::Alarm, &Message::Alarms(Vec::new()), SECOND_US);
    let waiting = cp.said.2.get_mut(&DOWN).unwrap();
    let heard: Vec<_> = std::iter::from_fn(|| waiting.take_next()).collect();
    assert!(matches!(Message::read(&heard[0]), Ok(Some(Message::Welcome { .. }))), "{heard:?}");
    assert!(heard.iter().any(|record| matches!(Message::read(record), Ok(Some(Message::Alarms(_))))));
}

#[test]
fn who_may_watch_a_post_is_no_child_of_it_for_that() {
    let mut cp = Cp::new();
    let mut order = cp.member.order().unwrap().clone();
    let (key, secret) = (PublicKey([8; 32]), Secret([2; 32]));
    let id = secret.join_key_id();
    order.watchers.push(Descendant { post: PostId(8), parent: PostId::FRONT, level: 1, key, secret });
    assert!(vouchers(&order).only(&id).is_some());
    cp.member.on_place(&mut cp.said, (order, "10.0.0.9:7".parse().unwrap()), &mut cp.deeds);
    let attach = Attach { post: PostId(8), level: 0, dropped: 0, sequences: [0; 4] };
    let first = [&[LINK][..], &bytes(&Message::Attach(attach))].concat();
    let who = (PostId(8), PublicKey([8; 32]));
    cp.member.on_called(&mut cp.said, LinkId(7), who, &first, SECOND_US, &mut cp.deeds);
    assert_eq!((cp.said.1.as_slice(), cp.member.children().count()), (&[LinkId(7)][..], 1));
}

/// What a post says of that one: how it stands, what its agent answers, an alarm of it, and that it is silent.
fn sayings(about: PostId) -> [Message<'static>; 4] {
    let standing =
        Standing { post: about, parent: PostId(2), level: 0, children: 0, counts: Counts::default() };
    let alarm = Alarm {
        key: AlarmKey { origin: about, sensor: "disk".into() },
        episode: 1,
        version: 1,
        level: None,
        drains: true,
        reacted: false,
        drained: false,
        is_first: true,
        value: None,
        node: "n".into(),
        text: String::new(),
    };
    let piece = Piece { number: 1, nth: 0, of: 1, bytes: &[] };
    [
        Message::Standing(standing),
        Message::Answer(Answer { post: about, piece }),
        Message::Alarms(vec![alarm]),
        Message::Suspect(about),
    ]
}

#[test]
fn a_back_end_speaks_of_itself_alone_and_a_cp_of_those_below() {
    let mut cp = Cp::new();
    let mut order = cp.member.order().unwrap().clone();
    for (post, level) in [(4, 0), (5, 1)] {
        let (key, secret) = (PublicKey([post as u8; 32]), Secret([post as u8; 32]));
        order.below.push(Descendant { post: PostId(post), parent: PostId(2), level, key, secret });
    }
    cp.member.on_place(&mut cp.said, (order, "10.0.0.9:7".parse().unwrap()), &mut cp.deeds);
    cp.take();
    for said in sayings(PostId(4)) {
        cp.hears(DOWN, &said, 2 * SECOND_US);
    }
    assert_eq!(cp.take(), (vec![Deed::Alarms(DOWN, PostId(3), vec![])], vec![]));
    for said in &sayings(PostId(3))[..3] {
        cp.hears(DOWN, said, 2 * SECOND_US);
    }
    let (deeds, said) = cp.take();
    assert!(matches!(&deeds[..], [Deed::Answer(_), Deed::Alarms(DOWN, PostId(3), own)] if own.len() == 1));
    assert!(matches!(&said[..], [(UP, own)] if own.starts_with("Standing")), "{said:?}");
    let may = |child, about| cp.member.may_speak(PostId(child), PostId(about));
    assert!(may(5, 3) && may(5, 5) && !may(5, 77) && !may(3, 5) && !may(3, 4));
    // Of events a CP below may know more than this post.
    let may = |child, about| cp.member.may_tell(PostId(child), Stream::Trace, PostId(about));
    assert!(may(5, 77) && may(3, 3) && !may(3, 4));
    // Whoever asks for the graph of that one reaches that one.
    assert!(!cp.member.children().send_to(
        &mut cp.said,
        PostId(4),
        &Message::Suspect(PostId(1)),
        3 * SECOND_US
    ));
}

#[test]
fn an_orphan_says_so_and_a_refusal_makes_nobody_its_child() {
    let mut cp = Cp::new();
    cp.member.on_end(&mut cp.said, (UP, &End::Silent), 2 * SECOND_US, &mut cp.deeds);
    assert_eq!(cp.take().0, [Deed::Tell(PostState::Orphan, None)]);
    let (ancestor, _) = cp.member.next_call(3 * SECOND_US).unwrap();
    cp.member.on_calling(LinkId(5), &ancestor);
    cp.member.on_up(&mut cp.said, LinkId(5), 3 * SECOND_US);
    cp.hears(LinkId(5), &Message::Refuse { why: "no".into() }, 3 * SECOND_US);
    assert_eq!((cp.said.1.as_slice(), cp.member.parent()), (&[LinkId(5)][..], None));
    assert!(cp.member.due_us().is_some(), "it tries again");
}

#[test]
fn a_post_that_closes_waits_for_those_below_it_and_for_its_parent_and_not_for_ever() {
    let mut cp = Cp::new();
    let now_us = 2 * SECOND_US;
    cp.member.put(Stream::System, FARM_US + now_us, &[]);
    let closing = Closing::begin(now_us);
    let stands = |cp: &Cp, us| [closing.is_alone(&cp.member, us), closing.is_over(&cp.member, us)];
    assert_eq!(stands(&cp, now_us), [false, false], "one is below it");
    assert_eq!(stands(&cp, closing.due_us(now_us)), [true, false], "it does not wait for that for long");
    let end = End::Broken("it has hung up".into());
    cp.member.on_end(&mut cp.said, (DOWN, &end), now_us, &mut cp.deeds);
    assert_eq!(stands(&cp, now_us), [true, false], "nobody has said that all came");
    let last_us = closing.due_us(closing.due_us(now_us));
    assert_eq!((last_us, stands(&cp, last_us)), (now_us + CLOSE_US, [true, true]));
    cp.member.say(&mut cp.said, 0, now_us);
    assert!(!closing.is_over(&cp.member, now_us), "it has left, and may be on its way");
    cp.hears(UP, &Message::Beat { heard: 1 }, now_us);
    assert_eq!(stands(&cp, now_us), [true, true]);
}
