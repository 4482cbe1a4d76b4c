//! Who speaks for whom.

use super::*;

/// A tree with two CPs; a back end below the first, and one below the second.
fn tree() -> (Farm, [PostId; 2], [PostId; 2]) {
    let mut farm = Farm::new(1, 4);
    farm.react.insert(3);
    farm.join(0..8).go_on(SECOND_US).check();
    let cps = [farm.cps()[0], farm.cps()[1]];
    let below = |cp| farm.parents().into_iter().find(|(_, parent)| *parent == Some(cp)).unwrap().0;
    let back_ends = cps.map(below);
    (farm, cps, back_ends)
}

#[test]
fn a_post_speaks_for_itself_and_a_cp_for_those_below_it() {
    let (farm, cps, back_ends) = tree();
    let may = |child, about| farm.front.may_speak(child, about, farm.now_us);
    for n in 0..2 {
        assert!(may(cps[n], cps[n]) && may(back_ends[n], back_ends[n]) && may(cps[n], back_ends[n]));
        assert!(!may(cps[n], back_ends[1 - n]) && !may(cps[n], cps[1 - n]));
        assert!(!may(back_ends[n], cps[n]) && !may(back_ends[n], back_ends[1 - n]));
    }
    let (second, reactor) = (farm.front.second().unwrap(), farm.front.reactor().unwrap());
    for child in [cps[0], back_ends[0], second, reactor, PostId::FRONT] {
        assert!(!may(child, PostId::FRONT), "nobody else is the front");
    }
    assert!(!may(second, back_ends[0]) && !may(reactor, back_ends[0]));
    assert!(!may(cps[0], PostId(77)), "nobody knows it");
}

#[test]
fn what_a_post_told_by_its_way_of_before_counts_for_two_minutes() {
    let (mut farm, cps, [moved, _]) = tree();
    // It does not reach its CP any more, and hangs below the other.
    for _ in 0..35 {
        farm.now_us += SECOND_US;
        farm.stands(moved, PostId::FRONT, 0);
        farm.front.settle(farm.now_us);
    }
    let since_us = farm.now_us;
    assert_eq!(farm.front.post(moved).unwrap().parent, Some(cps[1]));
    farm.go_on(SECOND_US);
    let may = |farm: &Farm, cp| farm.front.may_speak(cp, moved, farm.now_us);
    assert!(may(&farm, cps[0]) && may(&farm, cps[1]));
    farm.now_us = since_us + 121 * SECOND_US;
    assert!(!may(&farm, cps[0]) && may(&farm, cps[1]));
}

#[test]
fn a_cp_that_was_taken_away_speaks_for_those_who_were_below_it_for_a_while() {
    let (mut farm, cps, back_ends) = tree();
    farm.front.form(Settings { fanout: 8, ..Settings::default() }, farm.now_us);
    farm.go_on(SECOND_US);
    assert!(farm.cps().iter().all(|cp| !cps.contains(cp)));
    assert!(farm.front.may_speak(cps[0], back_ends[0], farm.now_us));
    assert!(!farm.front.may_speak(cps[0], back_ends[1], farm.now_us));
    // One more plan shows that the time is over, and nothing of it is kept.
    farm.now_us += 130 * SECOND_US;
    assert!(!farm.front.may_speak(cps[0], back_ends[0], farm.now_us));
}

#[test]
fn alarms_are_of_back_ends_and_come_by_the_second_root_as_well() {
    let (farm, cps, back_ends) = tree();
    let may = |child, about| farm.front.may_alarm(child, about, farm.now_us);
    let (second, reactor) = (farm.front.second().unwrap(), farm.front.reactor().unwrap());
    assert!(may(back_ends[0], back_ends[0]) && may(cps[0], back_ends[0]));
    assert!(!may(cps[0], back_ends[1]) && !may(back_ends[1], back_ends[0]) && !may(cps[0], cps[0]));
    assert!(back_ends.iter().all(|post| may(second, *post)) && may(second, second));
    assert!(!may(second, cps[0]) && !may(second, PostId::FRONT) && !may(reactor, back_ends[0]));
}

#[test]
fn the_ring_tells_of_its_members_and_back_ends_of_nobody() {
    let (farm, cps, back_ends) = tree();
    let may = |child, about| farm.front.may_suspect(child, about, farm.now_us);
    let second = farm.front.second().unwrap();
    assert!(may(cps[0], cps[1]) && may(cps[0], second) && may(second, cps[1]));
    assert!(may(cps[0], back_ends[0]) && !may(cps[0], back_ends[1]));
    assert!(!may(back_ends[0], back_ends[1]) && !may(back_ends[0], second) && !may(back_ends[0], cps[1]));
}
