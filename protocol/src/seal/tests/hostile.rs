//! Packets of strangers and enemies: an error, never a panic, never an answer.

use super::super::SealError;
use super::super::handshake::Reply;
use super::super::packet::{INITIATION_BYTES, INITIATION_HEADER_BYTES, MAC_BYTES, index, kind};
use super::super::testing::{Chance, Farm, Node, Pair, open_one, seal_one};

#[test]
fn twenty_thousand_random_datagrams_get_no_answer() {
    let mut farm = Farm::new();
    farm.responder.set_load_limit(u32::MAX);
    let node = Node::new("node-1");
    let mut session = farm.join(&node);
    let (mut initiator, genuine) = node.start(&farm);
    let mut chance = Chance::new(1);
    for round in 0..20_000 {
        let length = match chance.below(4) {
            0 => INITIATION_BYTES as u64,
            1 => chance.below(64),
            _ => chance.below(1500),
        };
        let mut datagram = chance.bytes(length as usize);
        // Half of them look like ours as far as that can be had for nothing.
        if chance.below(2) == 0 && !datagram.is_empty() {
            datagram[0] = 1 + chance.below(4) as u8;
            let clear = datagram.len().min(INITIATION_HEADER_BYTES);
            if datagram[0] == 1 {
                datagram[1..clear].copy_from_slice(&genuine[1..clear]);
            }
        }
        assert!(farm.answer(&datagram).is_err(), "round {round}");
        assert!(farm.open(&datagram).is_err(), "round {round}");
        assert!(initiator.read_response(&datagram).is_err(), "round {round}");
        assert!(initiator.read_cookie(&datagram, 0).is_err(), "round {round}");
        assert!(open_one(&mut session, &datagram).is_err(), "round {round}");
        let _ = (kind(&datagram), index(&datagram));
    }
    assert_eq!(farm.table.len(), 1);
    farm.open(&seal_one(&session, b"still here")).unwrap();
}

#[test]
fn truncation_at_every_length_is_an_error() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (mut initiator, initiation) = node.start(&farm);
    for length in 0..initiation.len() {
        assert!(farm.answer(&initiation[..length]).is_err(), "{length}");
    }
    let response = farm.admit(&initiation);
    for length in 0..response.len() {
        assert!(initiator.read_response(&response[..length]).is_err(), "{length}");
    }
    let session = node.accepted(&mut initiator, &response, 0);
    let data = seal_one(&session, &[7; 100]);
    for length in 0..data.len() {
        assert!(farm.open(&data[..length]).is_err(), "{length}");
    }
    farm.open(&data).unwrap();
    for mut longer in [initiation, data] {
        longer.push(0);
        assert!(farm.answer(&longer).is_err() && farm.open(&longer).is_err());
    }
}

#[test]
fn a_changed_bit_in_any_byte_of_an_initiation_is_an_error() {
    let mut farm = Farm::new();
    farm.responder.set_load_limit(u32::MAX);
    let (_, initiation) = Node::new("node-1").start(&farm);
    for at in 0..initiation.len() - MAC_BYTES {
        for bit in 0..8 {
            let mut changed = initiation.clone();
            changed[at] ^= 1 << bit;
            assert!(farm.answer(&changed).is_err(), "byte {at}, bit {bit}");
        }
    }
    // The mac proves an address, under load only: without load it is not looked at, with load a changed
    // one is as good as none.
    let mut changed = initiation.clone();
    changed[INITIATION_BYTES - 1] ^= 1;
    assert!(matches!(farm.answer(&changed), Ok(Reply::Accepted { .. })));
    farm.responder.set_load_limit(0);
    assert!(matches!(farm.answer(&changed), Ok(Reply::Cookie { .. })));
}

#[test]
fn a_changed_bit_in_any_byte_of_a_data_packet_is_an_error() {
    let mut farm = Farm::new();
    let session = farm.join(&Node::new("node-1"));
    let data = seal_one(&session, &[7; 60]);
    for at in 0..data.len() {
        for bit in 0..8 {
            let mut changed = data.clone();
            changed[at] ^= 1 << bit;
            assert!(farm.open(&changed).is_err(), "byte {at}, bit {bit}");
        }
    }
    farm.open(&data).unwrap();
}

#[test]
fn a_packet_of_one_session_opens_in_no_other() {
    let mut farm = Farm::new();
    let (one, two) = (farm.join(&Node::new("one")), farm.join(&Node::new("two")));
    let mut moved = seal_one(&one, b"results");
    moved[4..8].copy_from_slice(&seal_one(&two, b"")[4..8]);
    assert_eq!(farm.open(&moved).map(drop), Err(SealError::Forged));
    let mut nowhere = seal_one(&one, b"results");
    nowhere[4..8].copy_from_slice(&77_u32.to_le_bytes());
    assert_eq!(farm.open(&nowhere).map(drop), Err(SealError::UnknownSession));
}

#[test]
fn a_packet_cannot_be_sent_back_to_where_it_came_from() {
    let mut pair = Pair::sealed();
    let mut reflected = seal_one(&pair.a, b"hello");
    reflected[4..8].copy_from_slice(&seal_one(&pair.b, b"")[4..8]);
    assert_eq!(open_one(&mut pair.a, &reflected), Err(SealError::Forged));
}

#[test]
fn a_packet_of_one_kind_is_nothing_as_another() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (mut initiator, initiation) = node.start(&farm);
    let response = farm.admit(&initiation);
    let session = node.accepted(&mut initiator, &response, 0);
    let data = seal_one(&session, &[7; INITIATION_BYTES - 32]);
    let (mut second, _) = node.start(&farm);
    for packet in [&initiation, &response, &data] {
        for kind in [0, 1, 2, 3, 4, 5, 255] {
            if packet[0] == kind {
                continue;
            }
            let mut disguised = packet.clone();
            disguised[0] = kind;
            assert!(farm.answer(&disguised).is_err() && farm.open(&disguised).is_err());
            assert!(second.read_response(&disguised).is_err() && second.read_cookie(&disguised, 0).is_err());
        }
    }
}

#[test]
fn a_response_to_another_handshake_is_refused() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (_, first) = node.start(&farm);
    let (mut second, _) = node.start(&farm);
    let response = farm.admit(&first);
    assert_eq!(second.read_response(&response).map(drop), Err(SealError::Forged));
}

#[test]
fn a_replayed_initiation_leaves_a_pending_session_and_disturbs_nobody() {
    let mut farm = Farm::new();
    let node = Node::new("node-1");
    let (mut initiator, initiation) = node.start(&farm);
    let response = farm.admit(&initiation);
    let session = node.accepted(&mut initiator, &response, 0);
    farm.open(&seal_one(&session, b"hello")).unwrap();
    let local = farm.table.sealer(&node.key.public()).unwrap().local_index();
    for _ in 0..100 {
        farm.admit(&initiation);
        farm.open(&seal_one(&session, b"going on")).unwrap();
    }
    assert_eq!(farm.table.sealer(&node.key.public()).unwrap().local_index(), local);
    assert!(farm.table.len() <= super::super::table::PER_KEY_MAX);
}
