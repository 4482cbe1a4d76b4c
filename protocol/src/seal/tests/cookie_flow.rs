//! The cookie from end to end: asked for, read, brought along, refused where it is not one's own.

use super::super::cookie::{COOKIE_LIFE_US, INITIATIONS_PER_SECOND};
use super::super::handshake::{Initiator, Reply, Request};
use super::super::testing::{Farm, Node, SOURCE};
use super::super::{Cookie, SealError};

fn cookie_answer(farm: &mut Farm, initiation: &[u8]) -> Vec<u8> {
    match farm.answer(initiation) {
        Ok(Reply::Cookie { bytes }) => bytes,
        _ => panic!("no cookie was asked for"),
    }
}

fn start_with(node: &Node, farm: &Farm, cookie: &Cookie) -> Vec<u8> {
    let scheduler = farm.scheduler.public();
    Initiator::start(&node.introduction(&scheduler), 7, Some(cookie)).unwrap().1
}

#[test]
fn under_load_a_cookie_lets_one_in() {
    let mut farm = Farm::new();
    farm.responder.set_load_limit(0);
    let node = Node::new("node-1");
    let (initiator, initiation) = node.start(&farm);
    let answer = cookie_answer(&mut farm, &initiation);
    assert!(answer.len() < initiation.len());
    let cookie = initiator.read_cookie(&answer, farm.now_us).unwrap();
    let again = start_with(&node, &farm, &cookie);
    assert!(matches!(farm.answer(&again), Ok(Reply::Accepted { .. })));

    let elsewhere = Request { datagram: &again, source: b"198.51.100.1:9000", index: 1, now_us: farm.now_us };
    assert_ne!(elsewhere.source, SOURCE);
    let reply = farm.responder.answer(&farm.keys, &elsewhere);
    assert!(matches!(reply, Ok(Reply::Cookie { .. })), "another address must show itself anew");
    farm.now_us = 2 * COOKIE_LIFE_US;
    assert!(matches!(farm.answer(&again), Ok(Reply::Cookie { .. })), "an old cookie is none");
}

#[test]
fn a_busy_second_asks_for_cookies_and_the_next_does_not() {
    let mut farm = Farm::new();
    let (_, initiation) = Node::new("node-1").start(&farm);
    for _ in 0..INITIATIONS_PER_SECOND {
        assert!(matches!(farm.answer(&initiation), Ok(Reply::Accepted { .. })));
    }
    assert!(matches!(farm.answer(&initiation), Ok(Reply::Cookie { .. })));
    farm.now_us += 1_000_000;
    assert!(matches!(farm.answer(&initiation), Ok(Reply::Accepted { .. })));
}

#[test]
fn a_stranger_without_a_join_key_gets_not_even_a_cookie() {
    let mut farm = Farm::new();
    farm.responder.set_load_limit(0);
    let (_, mut initiation) = Node::new("node-1").start(&farm);
    initiation[8] ^= 1;
    assert_eq!(farm.answer(&initiation).map(drop), Err(SealError::UnknownJoinKey));
}

#[test]
fn a_cookie_answer_that_is_changed_cut_or_not_ours_is_refused() {
    let mut farm = Farm::new();
    farm.responder.set_load_limit(0);
    let node = Node::new("node-1");
    let (initiator, initiation) = node.start(&farm);
    let answer = cookie_answer(&mut farm, &initiation);
    for at in 0..answer.len() {
        for bit in 0..8 {
            let mut changed = answer.clone();
            changed[at] ^= 1 << bit;
            assert!(initiator.read_cookie(&changed, 0).is_err(), "byte {at}, bit {bit}");
        }
        assert!(initiator.read_cookie(&answer[..at], 0).is_err(), "cut to {at}");
    }
    let (other, _) = node.start(&farm);
    assert_eq!(other.read_cookie(&answer, 0).map(drop), Err(SealError::Forged), "planted");
    assert!(initiator.read_cookie(&answer, 0).is_ok());
}
