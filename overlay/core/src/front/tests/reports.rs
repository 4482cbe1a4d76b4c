//! Reports of nodes that say what is not so.

use starfarm_protocol::orders::{ADDRESSES_MAX, HOST_BYTES_MAX};

use super::*;

/// A front that starts again while nodes report.
fn collecting() -> Farm {
    let mut farm = Farm::new(1, 4);
    farm.join(0..3).go_on(SECOND_US);
    farm.front = Front::new(key(7), 2, Host::default());
    farm
}

fn told(post: u64, (kind, level): (PostKind, u8), key: Option<PublicKey>) -> PostReport {
    PostReport {
        post: PostId(post),
        kind,
        level,
        job: None,
        state: PostState::Reported,
        parent: Some(PostId::FRONT),
        key,
        addresses: vec!["10.0.0.1:1".parse().unwrap()],
        pid: None,
    }
}

fn report(farm: &mut Farm, n: u64, links: bool, posts: Vec<PostReport>) -> Orders {
    let host = Host { name: format!("host-{n}"), id: n };
    let report = Report { heard: 0, host, links, reacts: false, own_trees: true, posts };
    farm.front.on_report(node(n), &format!("node-{n}"), &report, farm.now_us)
}

#[test]
fn a_number_that_is_told_for_two_posts_is_that_of_the_first() {
    let second = (PostKind::Fe, 254);
    for other in [(PostKind::Ibe, 1), (PostKind::Be, 0), (PostKind::Ap, 0)] {
        for is_turned in [false, true] {
            let mut farm = collecting();
            let mut posts = vec![told(5, second, Some(key(500).public())), told(5, other, None)];
            if is_turned {
                posts.reverse();
            }
            report(&mut farm, 9, true, posts);
            let is_root = farm.front.roots().any(|(id, _)| id == PostId(5));
            assert!(!(is_root && farm.front.posts().any(|(id, _)| id == PostId(5))));
            farm.go_on(SECOND_US).go_on(8 * SECOND_US);
        }
    }
}

#[test]
fn a_number_of_another_node_or_for_something_else_changes_nothing() {
    let mut farm = collecting();
    let second = (PostKind::Fe, 254);
    report(&mut farm, 9, true, vec![told(5, second, Some(key(500).public()))]);
    report(&mut farm, 8, true, vec![told(5, second, Some(key(600).public()))]);
    let known = |farm: &Farm| farm.front.post(PostId(5)).map(|post| (post.node, post.kind, post.key));
    let first = Some((node(9), PostKind::Fe, Some(key(500).public())));
    assert_eq!(known(&farm), first);
    report(&mut farm, 9, true, vec![told(5, (PostKind::Ibe, 1), Some(key(700).public()))]);
    assert_eq!(known(&farm), first);
}

#[test]
fn a_node_that_may_not_have_a_root_has_none() {
    let mut farm = collecting();
    report(&mut farm, 9, false, vec![told(5, (PostKind::Fe, 254), None)]);
    report(&mut farm, 8, true, vec![told(6, (PostKind::Ap, 0), None)]);
    assert_eq!((farm.front.second(), farm.front.reactor()), (None, None));
}

#[test]
fn a_link_key_that_another_post_has_is_not_taken() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8).go_on(SECOND_US).check();
    let (victim, thief) = (farm.nodes[&0][0].post, farm.nodes[&1][0].post);
    let before = farm.keys[&thief];
    farm.keys.insert(thief, farm.keys[&victim]);
    farm.go_on(SECOND_US);
    assert_eq!(farm.front.post(victim).unwrap().key, Some(key(farm.keys[&victim]).public()));
    assert_eq!(farm.front.post(thief).unwrap().key, Some(key(before).public()), "as it was");
    farm.keys.insert(thief, before);
    farm.go_on(SECOND_US).check();
    // Once the other has a new one, it is nobody's.
    let old = farm.keys.insert(victim, 900).unwrap();
    farm.go_on(SECOND_US);
    farm.keys.insert(thief, old);
    farm.go_on(SECOND_US).check();
    // That of the front is the front's.
    farm.keys.insert(thief, 7);
    farm.go_on(SECOND_US);
    assert_eq!(farm.front.post(thief).unwrap().key, Some(key(old).public()));
}

#[test]
fn names_of_machines_and_addresses_are_bounded() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..2);
    let mut long = farm.report(0);
    long.host.name = "ä".repeat(5_000);
    long.posts[0].addresses = (0..5_000).map(|n| format!("10.0.0.1:{n}").parse().unwrap()).collect();
    farm.front.on_report(node(0), "node-0", &long, farm.now_us);
    let post = farm.front.post(long.posts[0].post).unwrap();
    assert_eq!(post.addresses.len(), ADDRESSES_MAX);
    assert_eq!(farm.front.host_of(long.posts[0].post).unwrap().name.len(), HOST_BYTES_MAX - 1);
}

#[test]
fn what_befalls_a_post_over_and_over_is_told_so_often_and_then_once_a_second() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..8).go_on(SECOND_US);
    farm.front.take_news(farm.now_us);
    farm.now_us += 60 * SECOND_US;
    let post = farm.front.posts().find(|(_, post)| post.level == 0).unwrap().0;
    let cp = farm.front.post(post).unwrap().parent.unwrap();
    let mut counts = (0, 0);
    for _ in 0..100 {
        farm.now_us += SECOND_US / 10;
        for parent in [PostId::FRONT, cp] {
            farm.stands(post, parent, 0);
        }
        let (news, missed) = farm.front.take_news(farm.now_us);
        counts = (counts.0 + news.len() as u64, counts.1 + missed);
    }
    // 30 at once, and one in each of the ten seconds, or nine where the last has not begun.
    assert_eq!(counts.0 + counts.1, 200);
    assert!((39..=40).contains(&counts.0), "{counts:?}");
}

#[test]
fn a_post_that_is_on_its_way_to_its_end_is_not_taken_over() {
    for (state, is_taken) in [(PostState::Joined, true), (PostState::Closing, false)] {
        let mut farm = collecting();
        let be = PostReport { state, ..told(5, (PostKind::Be, 0), Some(key(500).public())) };
        let orders = report(&mut farm, 9, true, vec![be]);
        assert_eq!(farm.front.post(PostId(5)).is_some(), is_taken, "{state}");
        assert_eq!(orders.posts.iter().any(|order| order.post == PostId(5)), is_taken, "{state}");
        assert_eq!(orders.posts.len(), 1, "the node has a back end all the same");
    }
}
