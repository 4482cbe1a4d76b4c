//! Handshakes between honest programs, and every refusal in words.

use super::super::handshake::{Initiator, Outcome, Reply};
use super::super::packet::{INITIATION_BYTES, Mode};
use super::super::testing::{ADMINS, Farm, Node, open_one, seal_one};
use super::super::{Action, Refusal, Role, SEAL_VERSION, SealError, Secret, StaticKey};
use crate::ids::{Boot, Epoch, FarmId};

#[test]
fn a_worker_joins_and_is_enrolled_by_its_first_message() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (mut initiator, initiation) = node.start(&farm);
    let response = farm.admit(&initiation);
    let Ok(Outcome::Accepted(accepted)) = initiator.read_response(&response) else { panic!("refused") };
    assert_eq!((accepted.farm, accepted.epoch, accepted.role), (FarmId([4; 16]), Epoch(5), Role::Worker));
    let mut session = accepted.into_session(0);
    assert_eq!(farm.keys.key(&node.key.public()), None, "not before its first message");
    assert!(farm.table.sealer(&node.key.public()).is_none());

    let (message, opened) = farm.open(&seal_one(&session, b"hello")).unwrap();
    assert_eq!(message, b"hello");
    assert_eq!((opened.peer.claim.name.as_str(), opened.peer.claim.boot), ("node-1", Boot(11)));
    let confirmed = opened.confirmed.unwrap();
    assert!(confirmed.store_changed);
    let entry = farm.keys.key(&node.key.public()).unwrap();
    assert_eq!((entry.name.as_str(), entry.role, entry.added_unix), ("node-1", Role::Worker, 1_700_000_000));

    let mut out = [0; 64];
    let bytes = confirmed.sealer.unwrap().seal(b"task", &mut out).unwrap();
    assert_eq!(open_one(&mut session, &out[..bytes]), Ok(b"task".to_vec()));
    let (_, opened) = farm.open(&seal_one(&session, b"again")).unwrap();
    assert!(opened.confirmed.is_none());
}

#[test]
fn an_enrolled_worker_comes_back_without_changing_the_store() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    farm.join(&node);
    let session = farm.half_join(&node);
    let (_, opened) = farm.open(&seal_one(&session, b"hello")).unwrap();
    assert!(!opened.confirmed.unwrap().store_changed);
}

#[test]
fn the_role_is_that_of_the_join_key() {
    let mut farm = Farm::new();
    let admin = Node { secret: ADMINS, ..Node::new("ann@laptop") };
    let session = farm.half_join(&admin);
    let (_, opened) = farm.open(&seal_one(&session, b"hello")).unwrap();
    assert!(opened.peer.role.may(Action::Govern) && !opened.peer.role.may(Action::Work));
}

#[test]
fn a_revoked_key_hears_so() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    farm.join(&node);
    farm.keys.revoke_key(&node.key.public()).unwrap();
    let (refusal, words) = farm.refusal(&node);
    assert_eq!(refusal, Refusal::KeyRevoked);
    assert!(words.contains("revoked") && words.contains("state"), "{words}");
}

#[test]
fn a_revoked_join_key_admits_its_own_and_refuses_the_rest_in_words() {
    let mut farm = Farm::new();
    let old = Node::new("old");
    farm.join(&old);
    farm.keys.revoke_join_key(&old.secret.join_key_id()).unwrap();
    farm.join(&old);
    let (refusal, words) = farm.refusal(&Node::new("new"));
    assert_eq!(refusal, Refusal::JoinKeyRevoked);
    assert!(words.contains("ask the farm's admin"), "{words}");
}

#[test]
fn a_name_held_by_another_key_is_refused_in_words() {
    let mut farm = Farm::new();
    farm.join(&Node::new("node-1"));
    let (refusal, words) = farm.refusal(&Node::new("node-1"));
    assert_eq!(refusal, Refusal::NameTaken);
    assert!(words.contains("`node-1`") && words.contains("--name"), "{words}");
}

#[test]
fn of_two_new_nodes_with_one_name_the_first_to_speak_gets_it() {
    let mut farm = Farm::new();
    let (one, two) = (Node::new("twin"), Node::new("twin"));
    let first = farm.half_join(&one);
    let second = farm.half_join(&two);
    farm.open(&seal_one(&second, b"hello")).unwrap();
    let late = farm.open(&seal_one(&first, b"hello")).map(drop);
    assert_eq!(late, Err(SealError::Refused(Refusal::NameTaken)));
    assert_eq!(farm.keys.holder("twin"), Some(two.key.public()));
    assert_eq!(farm.open(&seal_one(&first, b"hello")).map(drop), Err(SealError::UnknownSession));
    assert_eq!(farm.refusal(&one).0, Refusal::NameTaken);
}

#[test]
fn a_worker_with_an_admin_join_file_stays_no_admin() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    farm.join(&node);
    let (refusal, words) = farm.refusal(&Node { secret: ADMINS, ..node });
    assert_eq!(refusal, Refusal::RoleMismatch);
    assert!(words.contains("worker"), "{words}");
}

#[test]
fn another_version_is_answered_in_words() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let scheduler = farm.scheduler.public();
    let who = node.introduction(&scheduler);
    let (mut initiator, initiation) = Initiator::start_as(SEAL_VERSION + 1, &who, 1, None).unwrap();
    let reply = farm.answer(&initiation).unwrap();
    let Ok(Outcome::Refused { refusal, reason }) = initiator.read_response(reply.bytes()) else {
        panic!("accepted another version")
    };
    assert_eq!(refusal, Some(Refusal::VersionSkew));
    assert!(reason.contains("version 1") && reason.contains("version 2"), "{reason}");
}

#[test]
fn a_seal_turned_off_on_one_side_only_is_refused_in_words() {
    let off = Mode { plain: true, ..Mode::default() };
    let (refusal, _) = Farm::new().refusal(&Node { mode: off, ..Node::new("a") });
    assert_eq!(refusal, Refusal::SealMismatch);
    let (refusal, _) = Farm::with_mode(off).refusal(&Node::new("a"));
    assert_eq!(refusal, Refusal::SealMismatch);
}

#[test]
fn with_the_seal_off_on_both_sides_messages_travel_in_clear() {
    let off = Mode { plain: true, ..Mode::default() };
    let mut farm = Farm::with_mode(off);
    let node = Node { mode: off, ..Node::new("a") };
    let session = farm.join(&node);
    let packet = seal_one(&session, b"in clear");
    assert_eq!(&packet[16..24], b"in clear");
    assert_eq!(farm.open(&packet).unwrap().0, b"in clear");
    assert_eq!(farm.open(&packet).map(drop), Err(SealError::Replayed));
}

#[test]
fn a_bad_name_is_refused_before_anything_is_sent() {
    let farm = Farm::new();
    let node = Node::new("not a name");
    let scheduler = farm.scheduler.public();
    let started = Initiator::start(&node.introduction(&scheduler), 1, None).map(drop);
    assert_eq!(started, Err(SealError::BadName));
}

/// The enemy has overheard the join key id and knows the scheduler's public key, but not the secret.
#[test]
fn without_the_join_secret_nobody_gets_further_than_the_response() {
    let mut farm = Farm::new();
    let node = Node::new("spy");
    let mut keys = serde_json::to_value(&farm.keys).unwrap();
    keys["join_keys"][node.secret.join_key_id().to_string()]["secret"] = "07".repeat(32).into();
    farm.keys = serde_json::from_value(keys).unwrap();
    let (mut initiator, initiation) = node.start(&farm);
    let response = farm.admit(&initiation);
    assert_eq!(initiator.read_response(&response).map(drop), Err(SealError::Forged));
    assert_eq!(farm.keys.keys().count(), 0);
    assert_eq!(farm.table.pending_len(), 1);
}

#[test]
fn a_join_key_of_another_farm_gets_no_answer() {
    let mut farm = Farm::new();
    let (_, initiation) = Node { secret: Secret([9; 32]), ..Node::new("lost") }.start(&farm);
    assert_eq!(farm.answer(&initiation).map(drop), Err(SealError::UnknownJoinKey));
}

#[test]
fn the_wrong_scheduler_key_opens_nothing_and_gets_no_answer() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let stranger = StaticKey::generate().unwrap().public();
    let (_, initiation) = Initiator::start(&node.introduction(&stranger), 1, None).unwrap();
    assert_eq!(farm.answer(&initiation).map(drop), Err(SealError::Forged));
}

#[test]
fn a_forged_response_does_not_end_the_handshake() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (mut initiator, initiation) = node.start(&farm);
    let response = farm.admit(&initiation);
    for at in 0..response.len() {
        let mut forged = response.clone();
        forged[at] ^= 1;
        assert!(initiator.read_response(&forged).is_err(), "byte {at}");
    }
    let session = node.accepted(&mut initiator, &response, 0);
    assert_eq!(initiator.read_response(&response).map(drop), Err(SealError::Finished));
    farm.open(&seal_one(&session, b"hello")).unwrap();
}

#[test]
fn no_answer_is_larger_than_its_cause() {
    let mut farm = Farm::new();
    let (held, revoked) = (Node::new("held"), Node::new("revoked"));
    farm.join(&held);
    farm.join(&revoked);
    farm.keys.revoke_key(&revoked.key.public()).unwrap();
    let off = Mode { plain: true, ..Mode::default() };
    let scheduler = farm.scheduler.public();
    let other = Node::new("other");
    let (_, skewed) = Initiator::start_as(9, &other.introduction(&scheduler), 1, None).unwrap();
    let mut causes: Vec<_> = [
        Node::new("fresh"),
        held.clone(),
        revoked,
        Node::new("held"),
        Node { secret: ADMINS, ..held },
        Node { mode: off, ..Node::new("plain") },
    ]
    .map(|node| node.start(&farm).1)
    .into();
    causes.push(skewed);
    let mut kinds = std::collections::BTreeSet::new();
    for load_limit in [1000, 0] {
        farm.responder.set_load_limit(load_limit);
        for cause in &causes {
            let reply = farm.answer(cause).unwrap();
            assert_eq!(cause.len(), INITIATION_BYTES);
            assert!(reply.bytes().len() < cause.len());
            kinds.insert(match reply {
                Reply::Accepted { .. } => 0,
                Reply::Refused { refusal, .. } => refusal as u8,
                Reply::Cookie { .. } => 100,
            });
        }
    }
    let expected = [
        0,
        Refusal::KeyRevoked as u8,
        Refusal::NameTaken as u8,
        Refusal::VersionSkew as u8,
        Refusal::RoleMismatch as u8,
        Refusal::SealMismatch as u8,
        100,
    ];
    assert_eq!(kinds, expected.into());
}
