//! The alarms' own way.

use starfarm_protocol::orders::{PostKind, SECOND_LEVEL};

use super::*;

/// The node of the second root, and that of the post that reacts.
fn roots(farm: &Farm) -> (Option<u64>, Option<u64>) {
    let node_of = |post: Option<PostId>| post.map(|post| farm.node_of(post));
    (node_of(farm.front.second()), node_of(farm.front.reactor()))
}

/// So much of a roll: who is there, and who computes nothing.
fn roll(farm: &mut Farm, nodes: std::ops::Range<u64>, carries_only: Option<u64>) {
    let facts = |n| NodeFacts { is_up: true, carries_only: carries_only == Some(n), ..NodeFacts::default() };
    let roll = nodes.map(|n| (format!("node-{n}"), facts(n))).collect();
    (0..ROLLS_MISSING).for_each(|_| farm.front.on_roll(&roll));
}

#[test]
fn the_second_root_is_told_who_may_call_it_and_back_ends_where_it_is() {
    let mut farm = Farm::new(1, 4);
    farm.react.insert(3);
    farm.join(0..12).go_on(SECOND_US).check();
    let (second, reactor) = roots(&farm);
    assert_eq!(reactor, Some(3));
    let (post, reacts) = (farm.front.second().unwrap(), farm.front.reactor().unwrap());
    let order = farm.nodes[&second.unwrap()].iter().find(|order| order.post == post).unwrap();
    assert_eq!((order.kind, order.level, order.below.len()), (PostKind::Fe, SECOND_LEVEL, 13));
    assert_eq!((order.lineage.len(), order.reactor), (1, Some(reacts)));
    for order in farm.nodes.values().flatten() {
        let calls = matches!(order.kind, PostKind::Be | PostKind::Ap);
        assert_eq!(order.second.as_ref().map(|second| second.post), calls.then_some(post), "{order:?}");
    }
    assert_eq!(farm.front.state(), TreeState::Live);
}

#[test]
fn it_stands_where_nothing_computes_and_never_on_the_machine_of_the_front() {
    let mut farm = Farm::new(1, 4);
    farm.front = Front::new(key(7), 2, Host { name: "host-2".into(), id: 2 });
    farm.nodes = (0..3).map(|n| (n, Vec::new())).collect();
    (0..3).for_each(|n| farm.call(n));
    roll(&mut farm, 0..3, Some(1));
    farm.go_on(SECOND_US).go_on(SECOND_US).check();
    assert_eq!(roots(&farm), (Some(1), None));
    // All are on one machine.
    let mut alone = Farm::new(1, 4);
    alone.machines = 1;
    alone.front = Front::new(key(7), 1, Host { name: "host-0".into(), id: 0 });
    alone.react.insert(0);
    alone.join(0..3).go_on(SECOND_US).check();
    assert_eq!(roots(&alone), (None, Some(0)));
}

#[test]
fn both_go_elsewhere_when_their_nodes_are_lost_and_stay_otherwise() {
    let mut farm = Farm::new(1, 4);
    farm.react.extend([0, 2]);
    farm.join(0..4).go_on(SECOND_US);
    roll(&mut farm, 0..4, None);
    let before = roots(&farm);
    assert_eq!(before, (Some(0), Some(0)));
    farm.go_on(60 * SECOND_US);
    assert_eq!(roots(&farm), before);
    farm.nodes.remove(&0);
    roll(&mut farm, 1..4, None);
    farm.go_on(2 * SECOND_US).go_on(2 * SECOND_US);
    assert_eq!(roots(&farm), (Some(1), Some(2)));
    // The first one is back: nobody moves for it.
    farm.nodes.insert(0, Vec::new());
    roll(&mut farm, 0..4, None);
    farm.go_on(2 * SECOND_US);
    assert_eq!(roots(&farm), (Some(1), Some(2)));
}

#[test]
fn a_front_that_starts_again_takes_over_both() {
    let mut farm = Farm::new(1, 4);
    farm.react.insert(1);
    farm.join(0..3).go_on(SECOND_US);
    let before = (farm.front.second(), farm.front.reactor());
    assert!(before.0.is_some() && before.1.is_some());
    farm.front = Front::new(key(7), 2, Host::default());
    farm.go_on(SECOND_US).go_on(8 * SECOND_US);
    assert_eq!((farm.front.second(), farm.front.reactor()), before);
}

#[test]
fn nothing_of_a_node_is_kept_that_is_forgotten() {
    let mut farm = Farm::new(1, 32);
    farm.join(0..1);
    let (post, second) = (farm.nodes[&0][0].post, farm.front.second().unwrap());
    assert_eq!(farm.front.forget(&node(0)), [post, second]);
    farm.front.settle(farm.now_us + SECOND_US);
    assert!(farm.front.posts().chain(farm.front.roots()).next().is_none());
    assert!(farm.front.node_of(post).is_none());
    assert!(farm.front.forget(&node(0)).is_empty());
}

/// The ring says that nobody can call the second root, at these times of a story.
fn doubt(farm: &mut Farm, is_linked: bool, after_us: &[u64]) {
    for us in after_us {
        farm.go_on(*us);
        let post = farm.front.second().unwrap();
        farm.front.on_suspect(post, is_linked, farm.now_us);
    }
    farm.go_on(2 * SECOND_US);
}

#[test]
fn a_second_root_that_nobody_can_call_goes_to_another_node() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..3).go_on(2 * SECOND_US).go_on(2 * SECOND_US);
    drop(farm.front.take_news(farm.now_us));
    assert_eq!(roots(&farm).0, Some(0));
    doubt(&mut farm, true, &[SECOND_US, 9 * SECOND_US]);
    assert_eq!(roots(&farm).0, Some(0), "not for long enough");
    doubt(&mut farm, true, &[4 * SECOND_US]);
    farm.check();
    assert_eq!(roots(&farm).0, Some(1));
    let (news, _) = farm.front.take_news(farm.now_us);
    let lost = |news: &PostNews| matches!(news, PostNews::Lost { why: PostLoss::OutOfReach, .. });
    assert_eq!(news.iter().filter(|news| lost(news)).count(), 1, "{news:?}");
    // The node carries CPs all the same.
    assert!(farm.front.nodes[&node(0)].takes_cps(1_000, farm.now_us));
    doubt(&mut farm, true, &[5 * SECOND_US, 15 * SECOND_US]);
    assert_eq!(roots(&farm).0, Some(2));
    // Nobody else could take it.
    doubt(&mut farm, true, &[5 * SECOND_US, 15 * SECOND_US, 15 * SECOND_US]);
    assert_eq!(roots(&farm).0, Some(2));
}

#[test]
fn one_that_is_lost_itself_or_was_cut_off_now_and_then_stays() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..3).go_on(2 * SECOND_US).go_on(2 * SECOND_US);
    doubt(&mut farm, false, &[SECOND_US, 15 * SECOND_US, 15 * SECOND_US]);
    doubt(&mut farm, true, &[15 * SECOND_US]);
    farm.go_on(20 * SECOND_US).go_on(20 * SECOND_US);
    doubt(&mut farm, true, &[SECOND_US]);
    // One that the front could not hear says nothing of a time before it could.
    farm.go_on(40 * SECOND_US);
    doubt(&mut farm, true, &[SECOND_US]);
    assert_eq!(roots(&farm).0, Some(0));
    let other = farm.nodes[&0].iter().find(|order| order.level == 0).unwrap().post;
    farm.front.on_suspect(other, true, farm.now_us);
    farm.front.on_suspect(other, true, farm.now_us + 20 * SECOND_US);
    farm.go_on(20 * SECOND_US);
    assert_eq!(roots(&farm).0, Some(0));
}
