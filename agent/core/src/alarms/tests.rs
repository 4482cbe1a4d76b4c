//! Alarms from post to post.

use super::*;

const SECOND_US: u64 = 1_000_000;
const BE: PostId = PostId(9);
const CP: PostId = PostId(5);

fn disk(level: Option<AlarmLevel>) -> Seen {
    Seen { sensor: "disk".into(), level, value: Some(0.99), text: "it is full".into(), drains: false }
}

fn critical(alarms: &mut Alarms, now_us: u64) {
    alarms.see((BE, "n1"), disk(Some(AlarmLevel::Critical)), now_us);
}

/// What one says goes to the other, whose answer comes back.
fn pass(from: &mut Alarms, hearer: Hearer, to: (&mut Alarms, PostId), now_us: u64) -> usize {
    let messages = from.due(hearer, now_us);
    let count = messages.iter().map(Vec::len).sum();
    for message in messages {
        let acks = to.0.take(to.1, message, now_us);
        from.on_acks(hearer, acks);
    }
    count
}

#[test]
fn an_alarm_is_said_until_it_is_known_and_again_to_whoever_is_new() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    critical(&mut be, SECOND_US);
    critical(&mut be, 2 * SECOND_US);
    let first = be.due(Hearer::Parent, 2 * SECOND_US);
    assert_eq!((first.len(), first[0][0].version, first[0][0].episode), (1, 1, SECOND_US));
    assert!(be.due(Hearer::Parent, 2 * SECOND_US + 1).is_empty(), "it is on its way");
    assert_eq!(be.due_us(&[Hearer::Parent]), Some(3 * SECOND_US));
    assert_eq!(pass(&mut be, Hearer::Parent, (&mut front, BE), 3 * SECOND_US), 1, "nobody has answered");
    assert_eq!(pass(&mut be, Hearer::Parent, (&mut front, BE), 9 * SECOND_US), 0);
    assert_eq!(front.standing().map(|one| one.since_us).collect::<Vec<_>>(), [SECOND_US]);
    be.anew(Hearer::Parent);
    let mut other = Alarms::default();
    assert_eq!(pass(&mut be, Hearer::Parent, (&mut other, BE), 9 * SECOND_US), 1);
    be.see((BE, "n1"), disk(None), 10 * SECOND_US);
    for front in [&mut front, &mut other] {
        be.anew(Hearer::Parent);
        assert_eq!(pass(&mut be, Hearer::Parent, (front, BE), 11 * SECOND_US), 1);
        assert_eq!(front.standing().count(), 0);
    }
}

#[test]
fn what_a_lost_post_had_acknowledged_comes_again_from_its_origin() {
    let (mut be, mut cp, mut front) = (Alarms::default(), Alarms::default(), Alarms::default());
    critical(&mut be, SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut cp, BE), SECOND_US);
    assert!(!be.has_news(Hearer::Parent) && cp.has_news(Hearer::Parent));
    drop(cp);
    be.anew(Hearer::Parent);
    pass(&mut be, Hearer::Parent, (&mut front, BE), SECOND_US);
    assert_eq!(front.standing().count(), 1);
}

#[test]
fn a_program_runs_once_whatever_ways_an_alarm_comes_by() {
    let mut be = Alarms::default();
    let (mut cp, mut front, mut second) = (Alarms::default(), Alarms::default(), Alarms::default());
    let mut reactor = Alarms::default();
    critical(&mut be, SECOND_US);
    pass(&mut be, Hearer::Second, (&mut second, BE), SECOND_US);
    pass(&mut second, Hearer::Reactor, (&mut reactor, PostId(3)), SECOND_US);
    assert_eq!(reactor.take_for_reaction().len(), 1);
    pass(&mut be, Hearer::Parent, (&mut cp, BE), SECOND_US);
    pass(&mut cp, Hearer::Parent, (&mut front, CP), SECOND_US);
    pass(&mut front, Hearer::Reactor, (&mut reactor, PostId::FRONT), SECOND_US);
    pass(&mut second, Hearer::Parent, (&mut front, PostId(3)), SECOND_US);
    assert_eq!(reactor.take_for_reaction(), []);
    assert!(front.standing().all(|one| one.alarm.reacted && one.from == [CP, PostId(3)]));
    // One that forgot it all hears that it was done.
    let mut next = Alarms::default();
    front.anew(Hearer::Reactor);
    pass(&mut front, Hearer::Reactor, (&mut next, PostId::FRONT), 2 * SECOND_US);
    assert_eq!(next.take_for_reaction(), []);
    // It is over, and later it is bad again.
    be.see((BE, "n1"), disk(None), 5 * SECOND_US);
    critical(&mut be, 7 * SECOND_US);
    pass(&mut be, Hearer::Second, (&mut second, BE), 7 * SECOND_US);
    pass(&mut second, Hearer::Reactor, (&mut reactor, PostId(3)), 7 * SECOND_US);
    assert_eq!(reactor.take_for_reaction().len(), 1);
}

#[test]
fn a_process_that_starts_again_goes_on_with_the_alarm_of_the_one_before() {
    let mut front = Alarms::default();
    for start in [1, 5] {
        let mut be = Alarms::default();
        critical(&mut be, start * SECOND_US);
        pass(&mut be, Hearer::Parent, (&mut front, BE), start * SECOND_US);
        assert_eq!(front.take_for_reaction().len(), usize::from(start == 1));
        assert_eq!(front.standing().map(|one| one.since_us).collect::<Vec<_>>(), [SECOND_US]);
    }
}

#[test]
fn one_that_gets_worse_is_told_again_and_one_that_moves_is_not() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    be.see((BE, "n1"), disk(Some(AlarmLevel::Warning)), SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), SECOND_US);
    be.see((BE, "n1"), Seen { value: Some(0.97), ..disk(Some(AlarmLevel::Warning)) }, 3 * SECOND_US);
    assert!(!be.has_news(Hearer::Parent));
    critical(&mut be, 5 * SECOND_US);
    assert_eq!(pass(&mut be, Hearer::Parent, (&mut front, BE), 5 * SECOND_US), 1);
    assert!(front.standing().all(|one| one.alarm.level == Some(AlarmLevel::Critical)));
    // An older message that was long on its way changes nothing.
    let old = Alarm {
        version: 1,
        level: Some(AlarmLevel::Warning),
        ..front.standing().next().unwrap().alarm.clone()
    };
    front.take(CP, vec![old], 6 * SECOND_US);
    assert!(front.standing().all(|one| one.alarm.level == Some(AlarmLevel::Critical)));
}

#[test]
fn what_nobody_says_again_is_forgotten_and_what_stands_is_said_again() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    critical(&mut be, SECOND_US);
    for minute in 0..10 {
        let now_us = minute * 30 * SECOND_US + 2 * SECOND_US;
        be.tidy(BE, now_us);
        pass(&mut be, Hearer::Parent, (&mut front, BE), now_us);
        front.tidy(PostId::FRONT, now_us);
        assert_eq!(front.standing().count(), 1, "{minute}");
    }
    front.tidy(PostId::FRONT, 400 * SECOND_US);
    assert_eq!(front.standing().count(), 0, "its post says nothing any more");
    be.see((BE, "n1"), disk(None), 1_000 * SECOND_US);
    be.tidy(BE, 1_100 * SECOND_US);
    assert!(be.entries.is_empty());
}

#[test]
fn there_is_room_for_so_many_and_others_come_again() {
    let mut front = Alarms::default();
    let mut be = Alarms::default();
    for n in 0..=ALARMS_MAX {
        be.entries.clear();
        be.see((PostId(n as u64), "n"), disk(Some(AlarmLevel::Warning)), SECOND_US);
        pass(&mut be, Hearer::Parent, (&mut front, PostId(1)), SECOND_US);
    }
    assert_eq!((front.standing().count(), front.refused()), (ALARMS_MAX, 1));
    assert!(be.has_news(Hearer::Parent));
    front.forget(PostId(3));
    assert_eq!(pass(&mut be, Hearer::Parent, (&mut front, PostId(1)), 3 * SECOND_US), 1);
    assert_eq!(front.standing().count(), ALARMS_MAX);
}

#[test]
fn a_post_that_invents_alarms_leaves_room_for_those_of_others() {
    let (mut liar, mut be, mut front) = (Alarms::default(), Alarms::default(), Alarms::default());
    for n in 0..2 * OF_A_POST_MAX {
        let seen = Seen { sensor: format!("s{n}"), ..disk(Some(AlarmLevel::Warning)) };
        liar.see((PostId(7), "liar"), seen, SECOND_US);
    }
    pass(&mut liar, Hearer::Parent, (&mut front, PostId(7)), SECOND_US);
    assert_eq!((front.standing().count(), front.refused()), (OF_A_POST_MAX, OF_A_POST_MAX as u64));
    critical(&mut be, SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), SECOND_US);
    assert_eq!(front.standing().count(), OF_A_POST_MAX + 1);
}

#[test]
fn one_that_was_raised_in_time_to_come_is_not_taken() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    critical(&mut be, SECOND_US + AHEAD_US + 1);
    pass(&mut be, Hearer::Parent, (&mut front, BE), SECOND_US);
    assert!(be.has_news(Hearer::Parent) && front.standing().count() == 0);
    pass(&mut be, Hearer::Parent, (&mut front, BE), 2 * SECOND_US);
    assert!(!be.has_news(Hearer::Parent) && front.standing().count() == 1);
}

#[test]
fn a_clock_that_was_set_back_makes_no_other_alarm_of_one() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    critical(&mut be, 1_000 * SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), 1_000 * SECOND_US);
    assert_eq!(front.take_for_reaction().len(), 1);
    // The front may have started anew since, or not.
    let mut next = Alarms::default();
    be.begin_anew(BE, 10 * SECOND_US);
    for front in [&mut front, &mut next] {
        be.anew(Hearer::Parent);
        pass(&mut be, Hearer::Parent, (front, BE), 10 * SECOND_US);
        assert_eq!(front.standing().map(|one| one.alarm.episode).collect::<Vec<_>>(), [10 * SECOND_US]);
    }
    assert!(!be.has_news(Hearer::Parent) && front.take_for_reaction().is_empty());
}

#[test]
fn a_process_that_starts_again_goes_on_though_its_alarm_has_changed_before_it_was_told() {
    let mut front = Alarms::default();
    for start in [1, 30] {
        let mut be = Alarms::default();
        be.see((BE, "n1"), disk(Some(AlarmLevel::Warning)), start * SECOND_US);
        critical(&mut be, start * SECOND_US + 1);
        pass(&mut be, Hearer::Parent, (&mut front, BE), start * SECOND_US);
        assert_eq!(front.take_for_reaction().len(), usize::from(start == 1));
        assert_eq!(front.standing().map(|one| one.since_us).collect::<Vec<_>>(), [SECOND_US]);
    }
}

#[test]
fn a_node_is_drained_once_for_an_alarm_whoever_starts_again() {
    let drains = || Seen { drains: true, ..disk(Some(AlarmLevel::Critical)) };
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    be.see((BE, "n1"), drains(), SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), SECOND_US);
    assert_eq!((front.take_for_draining(), front.take_for_draining()), (vec![BE], vec![]));
    // A person has it get tasks again. Its agent starts anew, and is told what was done.
    let mut be = Alarms::default();
    be.see((BE, "n1"), drains(), 9 * SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), 9 * SECOND_US);
    assert_eq!(front.take_for_draining(), []);
    // So does the scheduler.
    let mut front = Alarms::default();
    be.anew(Hearer::Parent);
    pass(&mut be, Hearer::Parent, (&mut front, BE), 12 * SECOND_US);
    assert_eq!(front.take_for_draining(), []);
    // It is over, and comes again.
    be.see((BE, "n1"), disk(None), 20 * SECOND_US);
    be.see((BE, "n1"), drains(), 30 * SECOND_US);
    pass(&mut be, Hearer::Parent, (&mut front, BE), 30 * SECOND_US);
    assert_eq!(front.take_for_draining(), [BE]);
}

#[test]
fn that_a_node_is_to_be_drained_counts_from_who_may_say_so_though_another_was_sooner() {
    let (mut be, mut front) = (Alarms::default(), Alarms::default());
    be.see((BE, "n1"), Seen { drains: true, ..disk(Some(AlarmLevel::Critical)) }, SECOND_US);
    let told = be.due(Hearer::Parent, SECOND_US).concat();
    let stripped = told.iter().map(|alarm| Alarm { drains: false, ..alarm.clone() }).collect();
    front.take(PostId(3), stripped, SECOND_US);
    assert_eq!(front.take_for_draining(), []);
    front.take(BE, told, SECOND_US);
    assert_eq!(front.take_for_draining(), [BE]);
}
