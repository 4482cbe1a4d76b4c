//! A front and the reports of its nodes.

use starfarm_protocol::seal::{Door, Secret};

use super::*;

const NOW_US: u64 = 1_000_000;

fn key(byte: u8) -> StaticKey {
    StaticKey::from_secret(Secret([byte; 32]))
}

fn front(epoch: u64) -> Front {
    Front::new(key(7), epoch)
}

fn node(byte: u8) -> PublicKey {
    key(100 + byte).public()
}

fn reported(post: PostId, link: u8) -> Report {
    let key = Some(key(link).public());
    let post = PostReport { post, state: PostState::Reported, key, addresses: Vec::new(), pid: Some(1) };
    Report { heard: 0, posts: vec![post] }
}

/// The number of the only post in these orders.
fn only(orders: &Orders) -> PostId {
    assert_eq!(orders.posts.len(), 1, "{orders:?}");
    orders.posts[0].post
}

#[test]
fn a_node_gets_a_back_end_and_its_place_once_its_key_is_known() {
    let mut front = front(3);
    let first = front.on_report(node(1), "a", &Report::default(), NOW_US);
    let post = only(&first);
    assert_eq!((first.posts[0].kind, first.posts[0].lineage.len()), (PostKind::Be, 0));
    let placed = front.on_report(node(1), "a", &reported(post, 9), NOW_US);
    assert!(placed.newest > first.newest);
    let parent = &placed.posts[0].lineage[0];
    assert_eq!((parent.post, parent.key), (PostId::FRONT, key(7).public()));
    assert_eq!(parent.secret, pair_secret(&key(7), &key(9).public(), &key(7).public()));
    assert!(front.vouchers().has(&parent.secret.join_key_id()));
    assert_eq!(front.node_of(post), Some((node(1), "a")));
    let again = front.on_report(node(1), "a", &reported(post, 9), NOW_US + 5);
    assert_eq!(again, placed, "what is as it should be changes nothing");
}

#[test]
fn a_post_that_starts_again_has_another_key_and_the_old_one_opens_nothing() {
    let mut front = front(3);
    let post = only(&front.on_report(node(1), "a", &Report::default(), NOW_US));
    let before = front.on_report(node(1), "a", &reported(post, 9), NOW_US).posts[0].lineage[0].clone();
    let after = front.on_report(node(1), "a", &reported(post, 10), NOW_US).posts[0].lineage[0].clone();
    assert_ne!(before.secret, after.secret);
    assert!(front.vouchers().secret(&before.secret.join_key_id()).is_none());
    assert!(front.vouchers().secret(&after.secret.join_key_id()).is_some());
}

#[test]
fn nodes_have_different_posts_and_a_node_cannot_have_that_of_another() {
    let mut front = front(3);
    let first = only(&front.on_report(node(1), "a", &Report::default(), NOW_US));
    let second = only(&front.on_report(node(2), "b", &reported(first, 9), NOW_US));
    assert_ne!(first, second);
    assert_eq!(front.node_of(first), Some((node(1), "a")));
    assert_eq!(only(&front.on_report(node(3), "c", &reported(PostId::FRONT, 9), NOW_US)).0, second.0 + 1);
}

#[test]
fn a_front_that_starts_again_adopts_the_posts_that_live() {
    let mut before = front(3);
    let post = only(&before.on_report(node(1), "a", &Report::default(), NOW_US));
    let placed = before.on_report(node(1), "a", &reported(post, 9), NOW_US);
    let mut after = front(4);
    let adopted = after.on_report(node(1), "a", &reported(post, 9), NOW_US);
    assert_eq!(adopted.posts, placed.posts, "the same number, the same secret");
    let other = only(&after.on_report(node(2), "b", &Report::default(), NOW_US));
    assert_ne!(other, post);
}

#[test]
fn a_node_that_is_forgotten_links_no_more_and_comes_back_as_a_new_one() {
    let mut front = front(3);
    let post = only(&front.on_report(node(1), "a", &Report::default(), NOW_US));
    let secret = front.on_report(node(1), "a", &reported(post, 9), NOW_US).posts[0].lineage[0].secret.clone();
    assert_eq!(front.forget(&node(1)), [post]);
    assert!(!front.vouchers().has(&secret.join_key_id()));
    assert_eq!((front.node_of(post), front.posts().count()), (None, 0));
    assert_eq!(only(&front.on_report(node(1), "a", &reported(post, 9), NOW_US)), post);
}

#[test]
fn a_report_of_a_thousand_posts_makes_one() {
    let mut front = front(3);
    let posts = (1..1_000).map(|post| reported(PostId(post), 9).posts[0].clone()).collect();
    front.on_report(node(1), "a", &Report { heard: 0, posts }, NOW_US);
    assert_eq!(front.posts().count(), 1);
}
