//! Sentences of `docs/protocol.md` about datagrams, each tried on a real scheduler by a worker that says what the test
//! tells it to say. Those about keys and streams are in `page_streams`.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::Value;
use starfarm_e2e::Farm;
use starfarm_protocol::ids::{Attempt, Boot, JobId};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::seal::StaticKey;
use starfarm_protocol::wire::{Cancel, Heartbeat, Held, Message, Packer, ResultEntry};
use starfarm_wicked::{Hand, entry, packed, passed};

/// What does not come within this does not come: an answer takes milliseconds, and may be repeated after 50.
const NEVER: Duration = Duration::from_millis(800);

fn join_file(farm: &Farm) -> JoinFile {
    let text = std::fs::read_to_string(farm.state().join("worker.join")).unwrap();
    JoinFile::from_text(&text).unwrap()
}

fn node(farm: &Farm, name: &str) -> Value {
    farm.ask(&["node", "show", name])["nodes"][0].take()
}

/// A job of so many programs in tasks of ten.
fn tens(farm: &Farm, units: u32) -> String {
    farm.submit(&["--range", &format!("0..{units}"), "--units-per-task", "10", "--", "true"])
}

/// One that holds two tasks at most.
fn small(farm: &Farm, name: &str) -> Hand {
    Hand::join(&join_file(farm), name, |hello| (hello.slots, hello.queue_tasks_max) = (1, 2))
}

/// Numbers of the heartbeats that were answered, in order.
fn answered(hand: &Hand) -> Vec<u32> {
    hand.seen(|_, message| match message {
        Message::HeartbeatAnswer(answer) => Some(answer.number),
        _ => None,
    })
}

fn beat(number: u32) -> impl FnOnce(&mut Packer) {
    move |packer| packer.heartbeat(&Heartbeat { number, parts: 1, ..Heartbeat::default() })
}

fn wait_answer(hand: &mut Hand, number: u32) {
    hand.wait("an answer to a heartbeat", |_, message| {
        matches!(message, Message::HeartbeatAnswer(answer) if answer.number == number).then_some(())
    });
}

/// Without links, and with a blank for each gap.
fn plain(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap().replace('[', "");
    for part in parts {
        plain.push_str(&part.split_once(')').unwrap().1.replace('[', ""));
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_the_comments_of_tests_quote_stands_on_the_page() {
    let page = plain(include_str!("../../../docs/protocol.md"));
    let sources = [include_str!("page.rs"), include_str!("page_streams.rs")];
    let mut quoted = 0;
    for source in sources {
        let comments =
            source.split("\n\n").filter_map(|item| item.split_once("\n#[test]")?.0.strip_prefix("/// "));
        for comment in comments {
            let quotes = plain(&comment.replace("\n/// ", " "));
            let quotes = quotes.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            for quote in quotes.split("\" \"").flat_map(|quote| quote.split("...")) {
                assert!(page.contains(quote.trim()), "the page does not say: {quote}");
            }
            quoted += 1;
        }
    }
    assert_eq!(quoted, 17, "each test but this one quotes");
}

/// "Units that a node was never given do not count from it, and those of the same entry that it was given do."
#[test]
fn of_an_entry_that_reaches_beyond_what_was_given_the_given_units_count() {
    let farm = Farm::start();
    let mut hand = small(&farm, "hand");
    let id = tens(&farm, 60);
    let first = hand.wait_offers(1)[0];
    hand.listen(NEVER);
    let given: u64 = hand.offers().iter().map(|offer| offer.units).sum();
    assert!(first.lo == 0 && given < 60, "{given} units were given");
    // It even ends beyond the job's space.
    hand.done(1, &first, (0, 63));
    hand.wait_ack(1);
    assert_eq!(farm.job(&id)["units_done"], given.to_string());
    assert_eq!(farm.job(&id)["units_failed"], "0");
    assert_eq!(node(&farm, "hand")["results_worthless"], 1);
}

/// "A reader skips a message of an unknown kind by its length." "Then the rest of the datagram is dropped; the messages
/// before are valid." "The scheduler counts what is malformed, messages that only a scheduler sends, and lists that it
/// does not read; `starfarm node show` shows the sum as `malformed`."
#[test]
fn a_malformed_body_ends_its_datagram_and_is_counted_and_an_unknown_kind_is_skipped() {
    let farm = Farm::start();
    let mut hand = Hand::join(&join_file(&farm), "hand", |_| {});
    hand.beats = false;
    let unknown = [200, 2, 0, 1, 1];
    let datagram = [packed(beat(1_000)).concat(), unknown.to_vec(), packed(beat(1_001)).concat()].concat();
    hand.member.say(&[datagram]);
    wait_answer(&mut hand, 1_001);
    assert_eq!(node(&farm, "hand")["malformed"], 0);
    // Too short, too long.
    for (number, body) in [(2_000, &[1, 0][..]), (3_000, &[0; 9])] {
        let feedback = [&[4, body.len() as u8, 0], body].concat();
        let datagram = [packed(beat(number)).concat(), feedback, packed(beat(number + 1)).concat()].concat();
        hand.member.say(&[datagram]);
        wait_answer(&mut hand, number);
    }
    hand.listen(NEVER);
    let answered = answered(&hand);
    assert!(!answered.contains(&2_001) && !answered.contains(&3_001), "{answered:?}");
    assert_eq!(node(&farm, "hand")["malformed"], 2);
    // A heartbeat answer, and a heartbeat of too many parts: both are dropped alone.
    let answer = [&[36, 14, 0][..], &[0; 14]].concat();
    let parts = heartbeat(&Heartbeat { number: 4_000, parts: 1_025, ..Heartbeat::default() });
    hand.member.say(&[[answer, parts, packed(beat(4_001)).concat()].concat()]);
    wait_answer(&mut hand, 4_001);
    assert_eq!(node(&farm, "hand")["malformed"], 4);
}

/// "In offers and results, the entries before a malformed entry are valid, and the rest of that message is dropped, but
/// not the messages behind it."
#[test]
fn results_before_a_malformed_one_count_and_those_behind_it_in_the_message_do_not() {
    let farm = Farm::start();
    let mut hand = small(&farm, "hand");
    let id = tens(&farm, 20);
    let first = hand.wait_offers(1)[0];
    hand.beats = false;
    let body = passed(2);
    hand.say(|packer| {
        for (sequence, at) in [(1, (0, 2)), (2, (2, 0)), (3, (2, 2))] {
            packer.result(&ResultEntry { body: &body, ..entry(sequence, &first, at) });
        }
        beat(1_000)(packer);
    });
    hand.wait_ack(1);
    wait_answer(&mut hand, 1_000);
    assert_eq!(farm.job(&id)["units_done"], "2");
    assert_eq!(node(&farm, "hand")["malformed"], 1);
}

/// "All other limits bind the sender: a number outside its range counts as the nearest one in it ..."
#[test]
fn slots_outside_their_range_count_as_the_nearest_number_in_it() {
    let farm = Farm::start();
    let _many = Hand::join(&join_file(&farm), "many", |hello| hello.slots = 5_000);
    let _none = Hand::join(&join_file(&farm), "none", |hello| hello.slots = 0);
    assert_eq!(
        (node(&farm, "many")["slots"].as_u64(), node(&farm, "none")["slots"].as_u64()),
        (Some(1_024), Some(0))
    );
    assert_eq!(node(&farm, "many")["malformed"], 0);
}

/// "The scheduler sends in the old session until a data packet of the new one opens, then in the new one alone, and there
/// nothing but probes before its hello. It takes what comes by the old session for 60 s more, results and acknowledgements
/// too, and answers in the new one."
#[test]
fn results_may_come_by_the_session_before_and_are_acknowledged_in_the_new_one_after_its_hello() {
    let farm = Farm::start();
    let mut hand = small(&farm, "hand");
    let id = tens(&farm, 20);
    let first = hand.wait_offers(1)[0];
    hand.beats = false;
    let done = |sequence, lo| {
        let body = passed(1);
        move |packer: &mut Packer| {
            packer.result(&ResultEntry { body: &body, ..entry(sequence, &first, (lo, 1)) })
        }
    };
    hand.member.shake_hands(Boot(7)).unwrap();
    // Nothing has come by the new session yet.
    hand.say_by(0, done(1, 0));
    assert_eq!(hand.wait_ack(1), 0);
    // Its first packet ends the other one's time, but it is no hello.
    hand.say(beat(1_000));
    hand.say_by(0, done(2, 1));
    hand.heard.clear();
    hand.listen(NEVER);
    assert!(hand.seen(|_, _| Some(())).is_empty(), "nothing but probes comes before the hello");
    assert_eq!(farm.job(&id)["units_done"], "2", "it was taken all the same");
    hand.greet();
    assert_eq!(hand.wait_ack(2), 1);
}

/// "The scheduler refuses a datagram with a hello of another boot than the greeting of its session, and a late datagram by
/// a session of another boot than the newest session's; `starfarm status` counts both as refused."
#[test]
fn a_hello_of_another_boot_than_the_greetings_and_late_words_of_the_boot_before_are_refused() {
    let farm = Farm::start();
    let key = StaticKey::generate().unwrap();
    let mut hand = Hand::shake(&join_file(&farm), &key, "hand").unwrap();
    let refused = || farm.status()["datagrams_refused"].as_u64().unwrap();
    let before = refused();
    hand.hello.boot = Boot(8);
    let hello = hand.hello.clone();
    hand.say(|packer| packer.hello(&hello));
    hand.listen(NEVER);
    assert!(hand.seen(|_, _| Some(())).is_empty(), "no welcome");
    // Its data packet alone makes it a node that has not said hello yet.
    assert_eq!((farm.node_state("hand").as_str(), refused() - before), ("suspect", 1));
    hand.hello.boot = Boot(7);
    hand.greet();
    hand.member.shake_hands(Boot(9)).unwrap();
    hand.hello.boot = Boot(9);
    hand.greet();
    hand.say_by(0, beat(1_000));
    hand.say(beat(1_001));
    wait_answer(&mut hand, 1_001);
    assert!(!answered(&hand).contains(&1_000));
    assert_eq!(refused() - before, 2);
}

/// "The scheduler has as many offers under way as half of these datagrams hold, and at least one datagram of them." "... and
/// a list or body that is too long is read all the same."
#[test]
fn offers_under_way_fill_half_of_the_buffer_that_the_hello_tells_of() {
    let farm = Farm::start();
    let mut hand = Hand::join(&join_file(&farm), "hand", |hello| {
        (hello.slots, hello.queue_tasks_max, hello.receive_datagrams_max) = (200, 4_096, 5);
    });
    hand.acknowledges = false;
    farm.submit(&["--range", "0..2000", "--units-per-task", "1", "--", "true"]);
    hand.wait_offers(108);
    hand.listen(NEVER);
    assert_eq!(hand.offers().len(), 2 * 54, "half of five datagrams, 54 offers each");
    let ranges: Vec<_> = hand.offers().iter().map(|offer| (offer.attempt.0, offer.attempt.0)).collect();
    // More than 64 ranges in a message.
    let body: Vec<u8> =
        ranges.iter().flat_map(|(first, last)| [first.to_le_bytes(), last.to_le_bytes()].concat()).collect();
    for ranges in body.chunks(80 * 16) {
        hand.member.say(&[[&[2][..], &(ranges.len() as u16).to_le_bytes(), ranges].concat()]);
    }
    hand.wait_offers(109);
}

/// "What a part lists is taken as held at once. What is missing is noticed when the list is whole: when each of its parts
/// has come, be it of different heartbeats with as many parts ..."
#[test]
fn a_list_is_whole_when_each_part_has_come_be_it_of_different_heartbeats() {
    let mut farm = Farm::start();
    // Nothing comes back because its time is over.
    std::fs::write(farm.state().join("config.toml"), "lost_seconds = 600\n").unwrap();
    let mut hand = small(&farm, "hand");
    tens(&farm, 40);
    let [first, second, ..] = hand.wait_offers(2)[..] else { unreachable!("these are two") };
    hand.beats = false;
    farm.kill_scheduler();
    farm.restart_scheduler();
    hand.member.shake_hands(Boot(7)).unwrap();
    hand.greet();
    let mut other = Hand::join(&join_file(&farm), "other", |_| {});
    let part = |number, part, held| Heartbeat { number, part, parts: 3, held, ..Heartbeat::default() };
    let held = vec![Held { job: first.job, lo: first.lo, units: first.units }];
    let say = |hand: &mut Hand, number, place, held: &[Held]| {
        let body = heartbeat(&part(number, place, held.to_vec()));
        hand.member.say(&[body]);
        wait_answer(hand, number);
    };
    say(&mut hand, 11, 0, &held);
    say(&mut hand, 11, 2, &[]);
    say(&mut hand, 12, 0, &held);
    other.listen(NEVER);
    let has = |other: &Hand| other.offers().iter().any(|offer| offer.lo == second.lo);
    assert!(!has(&other), "the list is not whole: it may still name that");
    say(&mut hand, 13, 1, &[]);
    let count = other.offers().len();
    other.wait_offers(count + 1);
    assert!(has(&other) && other.offers().iter().all(|offer| offer.lo != first.lo), "{:?}", other.offers());
}

/// A part of a heartbeat as bytes: the packer makes parts of its own.
fn heartbeat(beat: &Heartbeat) -> Vec<u8> {
    let mut body = beat.number.to_le_bytes().to_vec();
    body.extend([beat.part.to_le_bytes(), beat.parts.to_le_bytes()].concat());
    body.extend([0; 6]);
    for held in &beat.held {
        body.extend(held.job.0.to_le_bytes());
        body.extend(held.lo.to_le_bytes());
        body.extend(held.units.to_le_bytes());
    }
    [&[5][..], &(body.len() as u16).to_le_bytes(), &body].concat()
}

/// "If a heartbeat lists units of a job that the scheduler does not know, because it was deleted, all of that job is
/// revoked: forced, before 2^64 - 1. Results of such a job are acknowledged and have no other effect."
#[test]
fn what_a_heartbeat_lists_of_an_unknown_job_is_revoked_and_results_of_it_are_acknowledged() {
    let farm = Farm::start();
    let mut hand = small(&farm, "hand");
    tens(&farm, 20);
    let first = hand.wait_offers(1)[0];
    let unknown = JobId(77);
    hand.held = vec![Held { job: unknown, lo: 5, units: 5 }];
    let revoke = hand.wait("a revoke", |_, message| match message {
        Message::Revoke(revoke) => Some(*revoke),
        _ => None,
    });
    assert_eq!((revoke.job, revoke.cancel, revoke.before), (unknown, Cancel::Forced, Attempt(u64::MAX)));
    hand.done(1, &starfarm_protocol::wire::Offer { job: unknown, ..first }, (0, 2));
    hand.wait_ack(1);
    assert_eq!(node(&farm, "hand")["results_worthless"], 0);
}

/// "Before a worker's first hello the scheduler drops its other messages, and counts only those that are malformed."
#[test]
fn what_comes_before_the_first_hello_is_dropped() {
    let farm = Farm::start();
    let key = StaticKey::generate().unwrap();
    let mut hand = Hand::shake(&join_file(&farm), &key, "hand").unwrap();
    let hello = hand.hello.clone();
    hand.say(|packer| {
        beat(1_000)(packer);
        packer.hello(&hello);
    });
    hand.wait("a welcome", |_, message| matches!(message, Message::Welcome(_)).then_some(()));
    hand.say(beat(1_001));
    wait_answer(&mut hand, 1_001);
    assert_eq!(answered(&hand), [1_001]);
    assert_eq!(node(&farm, "hand")["malformed"], 0);
}
