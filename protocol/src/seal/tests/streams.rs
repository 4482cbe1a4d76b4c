//! The seal over a byte stream.

use super::super::packet::Mode;
use super::super::stream::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, RECORD_PLAIN_MAX, Stream, answer, call, frame_bytes,
};
use super::super::testing::{ADMINS, Farm, Node, WORKERS};
use super::super::{Outcome, Pending, Refusal, Role, SealError};

fn farm() -> Farm {
    Farm::with_mode(Mode { stream: true, ..Mode::default() })
}

fn admin() -> Node {
    Node { secret: ADMINS, ..Node::new("ann@laptop") }
}

/// The body of the one frame in `bytes`.
fn body(bytes: &[u8]) -> &[u8] {
    let (header, body) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().unwrap();
    assert_eq!(frame_bytes(*header), Ok(body.len()));
    body
}

fn connect(farm: &mut Farm, node: &Node) -> (Stream, Pending) {
    let scheduler = farm.scheduler.public();
    let (mut initiator, first) = call(&node.introduction(&scheduler)).unwrap();
    let (frame, stream) = answer(&mut farm.responder, &farm.keys, body(&first), b"", 0).unwrap();
    let stream = stream.unwrap_or_else(|_| panic!("was not accepted"));
    assert!(frame.len() < first.len());
    match initiator.read_response(body(&frame)).unwrap() {
        Outcome::Accepted(accepted) => (accepted.into_stream(), stream),
        Outcome::Refused { reason, .. } => panic!("refused: {reason}"),
    }
}

fn record(stream: &mut Stream, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    stream.sealer.seal(plain, &mut out).unwrap();
    body(&out).to_vec()
}

fn open(stream: &mut Stream, record: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut out = vec![9; 3];
    stream.opener.open(record, &mut out).map(|()| out)
}

fn confirmed(farm: &mut Farm, node: &Node) -> (Stream, Stream) {
    let (mut client, server) = connect(farm, node);
    let first = record(&mut client, b"first");
    let mut out = Vec::new();
    let (server, peer, _) = server.confirm(&mut farm.keys, &first, &mut out, 99).unwrap();
    assert_eq!((out.as_slice(), &peer.claim.key), (&b"first"[..], &node.key.public()));
    (client, server)
}

#[test]
fn an_admin_enrols_by_its_first_record_and_both_sides_talk() {
    let (mut farm, node) = (farm(), admin());
    let (mut client, server) = connect(&mut farm, &node);
    assert_eq!(farm.keys.keys().count(), 0);
    let first = record(&mut client, b"first");
    let (mut server, peer, changed) = server.confirm(&mut farm.keys, &first, &mut Vec::new(), 99).unwrap();
    assert_eq!((peer.role, changed), (Role::Admin, true));
    assert_eq!(farm.keys.key(&node.key.public()).unwrap().added_unix, 99);
    for bytes in [0, 1, 1000, RECORD_PLAIN_MAX] {
        let message = vec![bytes as u8; bytes];
        let there = record(&mut client, &message);
        assert_eq!(open(&mut server, &there), Ok(message.clone()));
        let back = record(&mut server, &message);
        assert_eq!(open(&mut client, &back), Ok(message));
    }
    let mut out = vec![1];
    let refused = client.sealer.seal(&vec![0; RECORD_PLAIN_MAX + 1], &mut out);
    assert_eq!((refused, out), (Err(SealError::TooLarge { max: RECORD_PLAIN_MAX }), vec![1]));
}

#[test]
fn a_wrong_join_secret_or_a_changed_first_record_enrols_nobody() {
    let (mut farm, node) = (farm(), admin());
    let (mut client, server) = connect(&mut farm, &node);
    let mut first = record(&mut client, b"first");
    first[0] ^= 1;
    let refused = server.confirm(&mut farm.keys, &first, &mut Vec::new(), 0).map(drop);
    assert_eq!(refused, Err(SealError::Forged));
    assert_eq!(farm.keys.keys().count(), 0);
}

#[test]
fn a_key_revoked_before_its_first_record_is_refused() {
    let (mut farm, node) = (farm(), admin());
    confirmed(&mut farm, &node);
    let (mut client, server) = connect(&mut farm, &node);
    farm.keys.revoke_key(&node.key.public()).unwrap();
    let first = record(&mut client, b"first");
    let refused = server.confirm(&mut farm.keys, &first, &mut Vec::new(), 0).map(drop);
    assert_eq!(refused, Err(SealError::Refused(Refusal::KeyRevoked)));
}

#[test]
fn a_record_changed_repeated_left_out_moved_or_cut_breaks_the_stream() {
    let mut farm = farm();
    type Harm = fn(&[Vec<u8>]) -> Vec<u8>;
    let harms: [Harm; 5] = [
        |records| records[0].iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == 5)).collect(),
        |records| records[1].clone(),
        |records| records[0][..records[0].len() - 1].to_vec(),
        |records| records[0][..3].to_vec(),
        |_| Vec::new(),
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        let (mut client, mut server) = confirmed(&mut farm, &admin_named(number));
        let records = [b"one".as_slice(), b"two"].map(|plain| record(&mut client, plain));
        assert_eq!(open(&mut server, &harm(&records)), Err(SealError::Forged), "harm {number}");
        assert_eq!(open(&mut server, &records[0]), Err(SealError::Broken), "harm {number}");
    }
    let (mut client, mut server) = confirmed(&mut farm, &admin_named(9));
    let once = record(&mut client, b"once");
    open(&mut server, &once).unwrap();
    assert_eq!(open(&mut server, &once), Err(SealError::Forged), "repeated");
    let (mut client, _) = confirmed(&mut farm, &admin_named(10));
    let own = record(&mut client, b"own");
    assert_eq!(open(&mut client, &own), Err(SealError::Forged), "sent back");
}

fn admin_named(number: usize) -> Node {
    Node { name: format!("admin{number}"), ..admin() }
}

#[test]
fn a_refusal_comes_in_words() {
    let mut farm = farm();
    farm.keys.revoke_join_key(&WORKERS.join_key_id()).unwrap();
    let scheduler = farm.scheduler.public();
    let node = Node::new("late");
    let (mut initiator, first) = call(&node.introduction(&scheduler)).unwrap();
    let (frame, stream) = answer(&mut farm.responder, &farm.keys, body(&first), b"", 0).unwrap();
    assert_eq!(stream.err(), Some(Refusal::JoinKeyRevoked));
    assert!(frame.len() < first.len());
    let Ok(Outcome::Refused { reason, .. }) = initiator.read_response(body(&frame)) else {
        panic!("was not refused")
    };
    assert!(reason.contains("ask the farm's admin"), "{reason}");
}

#[test]
fn an_initiation_for_datagrams_is_nothing_on_a_stream_and_the_other_way_round() {
    let (mut streams, mut datagrams) = (farm(), Farm::new());
    let node = Node::new("node-1");
    let (_, datagram) = node.start(&streams);
    let refused = Err(SealError::Malformed("an initiation for another transport"));
    assert_eq!(answer(&mut streams.responder, &streams.keys, &datagram, b"", 0).map(drop), refused);
    let mut flipped = datagram;
    flipped[2] ^= 1;
    let forged = answer(&mut streams.responder, &streams.keys, &flipped, b"", 0).map(drop);
    assert_eq!(forged, Err(SealError::Forged), "the flags are in the prologue");
    let scheduler = datagrams.scheduler.public();
    let (_, first) = call(&node.introduction(&scheduler)).unwrap();
    assert_eq!(datagrams.answer(body(&first)).map(drop), refused);
}

#[test]
fn lengths_of_frames_are_bounded_before_memory_is_taken() {
    for bytes in [0, 15, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
        assert!(frame_bytes(bytes.to_le_bytes()).is_err(), "{bytes}");
    }
    for bytes in [16, FRAME_BYTES_MAX as u32] {
        assert_eq!(frame_bytes(bytes.to_le_bytes()), Ok(bytes as usize));
    }
}
