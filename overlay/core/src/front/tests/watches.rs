//! The ring: who watches whom.

use super::*;

/// A member's machine; the front's is none of its own nodes'.
fn machine(farm: &Farm, post: PostId) -> Host {
    farm.front.host_of(post).unwrap_or(&farm.front.host).clone()
}

/// Each member watches somebody and is watched, from another machine where there is one; and both ends know of each other.
pub(super) fn check(farm: &Farm, orders: &BTreeMap<PostId, &PostOrder>) {
    let (watched, watchers) = &**farm.front.watches();
    let mut all = vec![(PostId::FRONT, watched, watchers)];
    all.extend(orders.values().map(|order| (order.post, &order.watched, &order.watchers)));
    let of = |post: PostId| *all.iter().find(|(of, ..)| *of == post).unwrap();
    let key = |post| if post == PostId::FRONT { key(7) } else { key(farm.keys[&post]) };
    let mut pairs = [0, 0];
    for (post, watched, watchers) in &all {
        pairs = [pairs[0] + watched.len(), pairs[1] + watchers.len()];
        for Ancestor { post: called, key: public, secret, addresses } in *watched {
            let known = of(*called).2.iter().find(|by| by.post == *post).unwrap();
            assert_eq!(
                (&known.secret, known.key, *public),
                (secret, key(*post).public(), key(*called).public())
            );
            assert_eq!(addresses.is_empty(), *called == PostId::FRONT);
            let vouched = || farm.front.vouchers().secret(&secret.join_key_id()).is_some();
            assert!(*called != PostId::FRONT || vouched());
        }
    }
    assert_eq!(pairs[0], pairs[1]);
    let members: Vec<_> = all.iter().filter(|(_, watched, _)| !watched.is_empty()).collect();
    let levels = orders.values().filter(|order| order.level > 0).count();
    assert_eq!(members.len(), if levels == 0 { 0 } else { levels + 1 }, "all but back ends");
    let machines: BTreeSet<_> = members.iter().map(|(post, ..)| machine(farm, *post)).collect();
    let is_watched = |post: PostId| {
        let mut by = members.iter().filter(|(_, watched, _)| watched[0].post == post);
        by.any(|(by, ..)| machine(farm, *by) != machine(farm, post))
    };
    for on in machines.iter().filter(|_| machines.len() > 1) {
        let mut here = members.iter().filter(|(post, ..)| machine(farm, *post) == *on);
        assert!(here.any(|(post, ..)| is_watched(*post)), "{on:?}");
    }
    assert!(farm.front.second().is_none_or(|post| !farm.keys.contains_key(&post) || is_watched(post)));
}

#[test]
fn each_member_is_watched_from_another_machine_and_knows_three_before_it() {
    let mut farm = Farm::new(1, 4);
    farm.join(0..40).go_on(SECOND_US).check();
    let orders: Vec<_> = farm.nodes.values().flatten().filter(|order| order.level > 0).collect();
    assert_eq!(orders.len(), 14);
    // The second root has its machine in common with CPs, which pass it over.
    assert!(orders.iter().all(|order| order.watched.len() == 3 && (1..=5).contains(&order.watchers.len())));
    assert_eq!(farm.front.watches().0.len(), 3);
    let nearest: BTreeSet<_> = orders.iter().map(|order| order.watched[0].post).collect();
    assert_eq!(nearest.len(), 14, "one watches each, and the front is one of them");
}

#[test]
fn members_of_one_machine_follow_each_other_only_where_there_are_no_others() {
    for machines in [1, 2, 3, 5] {
        let mut farm = Farm::new(1, 2);
        farm.machines = machines;
        farm.join(0..30).go_on(SECOND_US).check();
    }
    // The scheduler is on the only machine: they watch each other all the same.
    let mut alone = Farm::new(1, 2);
    alone.machines = 1;
    alone.front = Front::new(key(7), 1, Host { name: "host-0".into(), id: 0 });
    alone.front.settings.fanout = 2;
    alone.join(0..5).go_on(SECOND_US).check();
    assert!(alone.front.second().is_none() && !alone.front.watches().0.is_empty());
}

#[test]
fn a_front_without_others_watches_nobody() {
    let mut farm = Farm::new(1, 4);
    farm.closed.extend(0..3);
    farm.join(0..3).go_on(SECOND_US).check();
    assert_eq!(**farm.front.watches(), Neighbours::default());
}
