//! The table of sessions: bounds, keys made anew, revocation, time.

use super::super::table::{GRACE_US, PENDING_US, PER_KEY_MAX, SILENT_US};
use super::super::testing::{Farm, Node, open_one, seal_one};
use super::super::{Refusal, SealError, Session};

fn say(farm: &mut Farm, session: &Session) -> Result<(), SealError> {
    farm.open(&seal_one(session, b"hello")).map(drop)
}

/// Opens in `session` what the scheduler sends to `node`.
fn hears(farm: &Farm, node: &Node, session: &mut Session) -> Result<(), SealError> {
    let mut out = [0; 64];
    let bytes = farm.table.sealer(&node.key.public()).unwrap().seal(b"task", &mut out).unwrap();
    open_one(session, &out[..bytes]).map(drop)
}

#[test]
fn pending_sessions_are_bounded_and_the_oldest_goes_first() {
    let mut farm = Farm::new();
    let known = farm.join(&Node::new("known"));
    let sessions: Vec<_> = (0..20).map(|i| farm.half_join(&Node::new(&format!("n{i}")))).collect();
    assert_eq!((farm.table.pending_len(), farm.table.len()), (8, 9));
    say(&mut farm, &known).unwrap();
    assert_eq!(say(&mut farm, &sessions[11]), Err(SealError::UnknownSession));
    say(&mut farm, &sessions[12]).unwrap();
    assert_eq!(farm.table.pending_len(), 7);
}

#[test]
fn sessions_of_one_key_are_bounded_and_the_current_one_stays() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let mut current = farm.join(&node);
    let pending: Vec<_> = (0..PER_KEY_MAX).map(|_| farm.half_join(&node)).collect();
    assert_eq!(farm.table.len(), PER_KEY_MAX);
    hears(&farm, &node, &mut current).unwrap();
    assert_eq!(say(&mut farm, &pending[0]), Err(SealError::UnknownSession));
    say(&mut farm, &pending[1]).unwrap();
}

#[test]
fn new_keys_are_made_beside_the_old_session() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let mut old = farm.join(&node);
    let mut new = farm.half_join(&Node { index: 901, ..node.clone() });
    say(&mut farm, &old).unwrap();
    hears(&farm, &node, &mut old).unwrap();
    say(&mut farm, &new).unwrap();
    hears(&farm, &node, &mut new).unwrap();
    assert_eq!(hears(&farm, &node, &mut old), Err(SealError::UnknownSession), "sent with the new keys");
    farm.now_us += GRACE_US - 1;
    say(&mut farm, &old).unwrap();
    farm.now_us += 1;
    assert_eq!(say(&mut farm, &old), Err(SealError::UnknownSession));
    say(&mut farm, &new).unwrap();
    assert_eq!(farm.table.len(), 1);
}

#[test]
fn a_late_first_message_of_an_older_session_does_not_turn_the_sender_back() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let old = farm.half_join(&node);
    let mut new = farm.half_join(&Node { index: 901, ..node.clone() });
    say(&mut farm, &new).unwrap();
    let (_, opened) = farm.open(&seal_one(&old, b"late")).unwrap();
    assert!(opened.confirmed.unwrap().sealer.is_none());
    hears(&farm, &node, &mut new).unwrap();
}

#[test]
fn a_key_revoked_in_mid_session_is_out_at_once() {
    let mut farm = Farm::new();
    let (node, other) = (Node::new("node-1"), Node::new("node-2"));
    let session = farm.join(&node);
    let pending = farm.half_join(&node);
    let bystander = farm.join(&other);
    farm.keys.revoke_key(&node.key.public()).unwrap();
    assert_eq!(farm.table.revoke(&node.key.public()), 2);
    assert_eq!(say(&mut farm, &session), Err(SealError::UnknownSession));
    assert_eq!(say(&mut farm, &pending), Err(SealError::UnknownSession));
    assert!(farm.table.sealer(&node.key.public()).is_none());
    assert_eq!(farm.refusal(&node).0, Refusal::KeyRevoked);
    say(&mut farm, &bystander).unwrap();
    assert_eq!(farm.table.revoke(&node.key.public()), 0);
}

#[test]
fn a_key_revoked_between_handshake_and_first_message_is_not_admitted() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    farm.join(&node);
    let pending = farm.half_join(&node);
    farm.keys.revoke_key(&node.key.public()).unwrap();
    assert_eq!(say(&mut farm, &pending), Err(SealError::Refused(Refusal::KeyRevoked)));
}

#[test]
fn sessions_run_out_in_time_and_are_swept() {
    let mut farm = Farm::new();
    let (known, slow) = (Node::new("known"), Node::new("slow"));
    let session = farm.join(&known);
    let pending = farm.half_join(&slow);
    farm.now_us = PENDING_US;
    assert_eq!(say(&mut farm, &pending), Err(SealError::UnknownSession));
    farm.half_join(&slow);
    farm.now_us += PENDING_US;
    farm.table.expire(farm.now_us);
    assert_eq!((farm.table.len(), farm.table.pending_len()), (1, 0));
    say(&mut farm, &session).unwrap();
    farm.now_us += SILENT_US - 1;
    farm.table.expire(farm.now_us);
    assert_eq!(farm.table.len(), 1);
    farm.now_us += 1;
    farm.table.expire(farm.now_us);
    assert!(farm.table.is_empty());
    assert!(farm.table.sealer(&known.key.public()).is_none());
}

#[test]
fn a_free_index_is_free() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    farm.join(&node);
    let taken = farm.table.sealer(&node.key.public()).unwrap().local_index();
    assert_eq!(farm.table.free_index(taken), taken + 1);
    assert_eq!(farm.table.free_index(taken - 1), taken - 1);
}

#[test]
fn a_forged_first_message_enrols_nobody() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let session = farm.half_join(&node);
    let mut forged = seal_one(&session, b"hello");
    forged[20] ^= 1;
    assert_eq!(farm.open(&forged).map(drop), Err(SealError::Forged));
    assert_eq!(farm.keys.keys().count(), 0);
    assert_eq!(farm.table.pending_len(), 1);
}
