//! Whole plans: everybody has a parent, nobody has too many children, and who can be on one host is.

use starfarm_overlay_core::plan::attach::attach;
use starfarm_overlay_core::plan::{Features, Host, Plan, Strategy, Weights, plan};
use starfarm_protocol::orders::PostKind;

fn host(name: &str, backends: u32) -> Host {
    let features =
        Features { free_cores: 4_000, idle: 900, free_memory: 8_000, link: 10_000, accelerators_idle: None };
    Host { name: name.into(), backends, cps_max: u32::MAX, carries_only: false, features }
}

fn farm(backends: &[u32]) -> Vec<Host> {
    backends.iter().enumerate().map(|(at, count)| host(&format!("n{at:05}"), *count)).collect()
}

fn children(plan: &Plan) -> Vec<usize> {
    let mut children = vec![0; plan.posts.len()];
    plan.posts.iter().filter_map(|post| post.parent).for_each(|parent| children[parent] += 1);
    children
}

/// What holds of every plan.
fn check(plan: &Plan, fanout: u32) {
    let children = children(plan);
    for (at, post) in plan.posts.iter().enumerate() {
        match post.parent {
            None => assert_eq!((at, post.kind, post.host), (0, PostKind::Fe, None)),
            Some(parent) => {
                assert!(parent < at, "a parent stands before its children");
                let above = plan.posts[parent].kind;
                let fits = match post.kind {
                    PostKind::Fe | PostKind::Ap => false,
                    PostKind::Cp | PostKind::Ibe => matches!(above, PostKind::Fe | PostKind::Cp),
                    PostKind::Be => {
                        matches!(above, PostKind::Ibe) || (above == PostKind::Fe && plan.cp_levels == 0)
                    }
                };
                assert!(fits, "{:?} below {above:?}", post.kind);
            }
        }
        assert!(children[at] <= fanout as usize, "{:?} has {} children", post.kind, children[at]);
    }
    for (at, host) in plan.hosts.iter().enumerate() {
        let on_it = plan.posts.iter().filter(|post| post.host == Some(at));
        let (bes, cps) = on_it.partition::<Vec<&_>, _>(|post| post.kind == PostKind::Be);
        assert_eq!((bes.len(), cps.len()), (host.backends as usize, host.cps as usize), "{}", host.name);
    }
}

#[test]
fn plans_of_all_sizes_are_trees_within_their_fan_out() {
    for strategy in [Strategy::Average, Strategy::Fuzzy(Weights::default())] {
        for fanout in [2, 3, 4, 32] {
            for hosts in [0, 1, 2, 3, 5, 31, 32, 33, 40, 100, 257] {
                let backends: Vec<u32> = (0..hosts).map(|at| at % 3).collect();
                check(&plan(farm(&backends), &strategy, fanout), fanout);
            }
        }
    }
}

#[test]
fn a_small_farm_needs_no_cps_and_a_larger_one_has_them_beside_its_back_ends() {
    let small = plan(farm(&[1; 32]), &Strategy::Average, 32);
    assert_eq!((small.cp_levels, small.posts.len()), (0, 33));
    let forty = plan(farm(&[1; 40]), &Strategy::Average, 4);
    assert_eq!(forty.cp_levels, 2);
    let same_host = forty.posts.iter().filter(|post| {
        post.kind == PostKind::Be && post.parent.is_some_and(|parent| forty.posts[parent].host == post.host)
    });
    assert_eq!(same_host.count(), 10, "each IBE has the back end of its host");
}

#[test]
fn hosts_that_carry_posts_only_get_all_cps_and_those_that_nobody_reaches_none() {
    let mut hosts = farm(&[1; 40]);
    hosts[7].carries_only = true;
    hosts[9].carries_only = true;
    let apart = plan(hosts.clone(), &Strategy::Average, 8);
    let cps: Vec<u32> = apart.hosts.iter().map(|host| host.cps).collect();
    assert_eq!((cps[7], cps[9], cps.iter().sum::<u32>()), (3, 2, 5));
    // Where nobody can reach these, those that compute carry posts as ever.
    hosts[7].cps_max = 0;
    hosts[9].cps_max = 0;
    let beside = plan(hosts.clone(), &Strategy::Average, 8);
    assert_eq!((beside.hosts[7].cps, beside.hosts[9].cps), (0, 0));
    check(&beside, 8);
    hosts.iter_mut().for_each(|host| host.cps_max = 0);
    let flat = plan(hosts, &Strategy::Average, 8);
    assert_eq!((flat.cp_levels, children(&flat)[0]), (0, 40), "all are attached to the front end");
}

#[test]
fn poor_hosts_get_no_cp() {
    let mut hosts = farm(&[1; 12]);
    hosts[..6].iter_mut().for_each(|host| host.features.idle = 50);
    let plan = plan(hosts, &Strategy::Fuzzy(Weights::default()), 4);
    let cps: Vec<u32> = plan.hosts.iter().map(|host| host.cps).collect();
    assert_eq!(cps, [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0]);
    check(&plan, 4);
}

#[test]
fn the_order_in_which_hosts_are_told_changes_nothing() {
    let hosts = farm(&[3, 0, 2, 9, 1, 1, 4]);
    let mut backwards = hosts.clone();
    backwards.reverse();
    assert_eq!(plan(hosts, &Strategy::Average, 4), plan(backwards, &Strategy::Average, 4));
}

/// Every attachment of small numbers of children and parents on small numbers of hosts.
#[test]
fn every_child_has_a_parent_and_no_parent_more_than_its_share() {
    for parents in 1..4_usize {
        for children in 0..6_usize {
            let places = parents + children;
            for code in 0..3_usize.pow(places as u32) {
                let host = |at: usize| code / 3_usize.pow(at as u32) % 3;
                let above: Vec<usize> = (0..parents).map(host).collect();
                let below: Vec<usize> = (parents..places).map(host).collect();
                check_attached(&below, &above);
            }
        }
    }
}

fn check_attached(children: &[usize], parents: &[usize]) {
    let attached = attach(children, parents);
    let fan = children.len().div_ceil(parents.len());
    let case = format!("{children:?} to {parents:?}: {attached:?}");
    let of = |parent: usize| attached.iter().filter(move |at| **at == parent).count();
    assert_eq!(attached.len(), children.len());
    assert!((0..parents.len()).all(|parent| of(parent) <= fan), "{case}");
    for (child, &parent) in attached.iter().enumerate() {
        let host = children[child];
        let has_room = |other: &usize| {
            let own =
                attached.iter().zip(children).filter(|(at, its)| **at == *other && **its == parents[*other]);
            parents[*other] == host && own.count() < fan
        };
        let missed = parents[parent] != host && (0..parents.len()).any(|other| has_room(&other));
        assert!(!missed, "a parent on the child's host has room: {case}");
    }
}
