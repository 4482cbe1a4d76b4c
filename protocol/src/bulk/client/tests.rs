//! The worker's half, deed by deed.

use super::*;

const WANTED: fn(&u8) -> bool = |_| true;
const HASH: ContentHash = ContentHash([7; 32]);

/// A stream that is open and silent.
fn connected(client: &mut Client<u8>, now_us: u64) {
    assert!(matches!(client.next(now_us, WANTED), Deed::Connect));
    client.on_opened(Ok(()), now_us);
}

fn get() -> Work {
    Work::Get(Incoming::new(HASH))
}

fn say(client: &mut Client<u8>, reply: Reply<'_>, now_us: u64) {
    assert!(matches!(client.next(now_us, WANTED), Deed::Receive(_)));
    client.on_record(&reply.to_bytes(), now_us);
}

fn sent(deed: Deed<u8>) -> Vec<u8> {
    match deed {
        Deed::Send(record) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn waits_between_attempts_double_up_to_five_seconds_and_begin_anew_with_each_order() {
    let mut client = Client::default();
    client.order(get(), 1);
    let (mut now_us, mut waits) = (0, Vec::new());
    for _ in 0..8 {
        assert!(matches!(client.next(now_us, WANTED), Deed::Connect));
        client.on_opened(Err(None), now_us);
        assert!(matches!(client.next(now_us, WANTED), Deed::Close));
        let Deed::Rest(until_us) = client.next(now_us, WANTED) else { panic!("it waits") };
        waits.push((until_us - now_us) / 1_000);
        now_us = until_us;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    client.on_opened(Err(None), now_us);
    client.order(get(), 2);
    assert!(matches!(client.next(now_us, WANTED), Deed::Close));
    assert!(matches!(client.next(now_us, |ticket| *ticket == 2), Deed::Connect), "1 is not wanted any more");
}

#[test]
fn where_there_is_no_room_others_go_first_and_it_is_asked_again_after_a_second() {
    let mut client = Client::default();
    client.order(Work::Put { hash: HASH, content: Box::new(vec![1; 9]) }, 1);
    connected(&mut client, 0);
    sent(client.next(0, WANTED));
    say(&mut client, Reply::NoRoom("full".into()), 0);
    assert!(matches!(client.next(0, WANTED), Deed::Rest(NO_ROOM_WAIT_US)));
    client.order(get(), 2);
    assert!(matches!(client.next(5, WANTED), Deed::Look));
    client.on_looked(true, 5);
    let question = sent(client.next(5, WANTED));
    assert!(matches!(Request::read(&question), Ok(Request::Get { .. })));
    say(&mut client, Reply::Refused("gone".into()), 5);
    assert!(matches!(client.next(5, WANTED), Deed::Settle(2, Err(_))));
    assert!(matches!(client.next(6, WANTED), Deed::Rest(NO_ROOM_WAIT_US)));
    assert!(matches!(client.next(NO_ROOM_WAIT_US, WANTED), Deed::Look));
    client.on_looked(true, NO_ROOM_WAIT_US);
    let question = sent(client.next(NO_ROOM_WAIT_US, WANTED));
    assert_eq!(Request::read(&question), Ok(Request::Put { hash: HASH, total: 9 }));
}

/// Slots that ran on kept the stream busy, and an output that waited was asked for only where it had been silent for a second.
#[test]
fn outputs_that_found_no_room_do_not_wait_for_a_silent_stream_and_follow_one_another_once_there_is_some() {
    let mut client = Client::default();
    let put = |byte| Work::Put { hash: ContentHash([byte; 32]), content: Box::new(vec![byte; 9]) };
    (1..=3).for_each(|ticket| client.order(put(ticket), ticket));
    connected(&mut client, 0);
    for at in 0..3 {
        if at > 0 {
            assert!(matches!(client.next(at, WANTED), Deed::Look));
            client.on_looked(true, at);
        }
        sent(client.next(at, WANTED));
        say(&mut client, Reply::NoRoom("full".into()), at);
    }
    // Another order each tenth of a second, and each is answered: there is room again.
    let (mut now_us, mut stored) = (0_u64, Vec::new());
    while stored.len() < 14 {
        if now_us.is_multiple_of(100_000) {
            client.order(get(), 9);
        }
        now_us += 10_000;
        match client.next(now_us, WANTED) {
            Deed::Look => client.on_looked(true, now_us),
            Deed::Send(record) => match Request::read(&record).unwrap() {
                Request::Get { .. } => say(&mut client, Reply::Refused("gone".into()), now_us),
                Request::Put { total, .. } => say(&mut client, Reply::Have { bytes: total }, now_us),
                other => panic!("{other:?}"),
            },
            Deed::Settle(ticket, _) => stored.push(ticket),
            Deed::Rest(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let first = stored.iter().position(|ticket| *ticket == 1).unwrap();
    assert_eq!(stored[first..first + 3], [1, 2, 3], "{stored:?}");
}

/// Five seconds were all that a trimmed task's output had, however large it was: the unit ran again elsewhere.
#[test]
fn an_output_is_on_its_way_while_its_parts_get_through_and_not_while_nothing_does() {
    let mut client = Client::default();
    client.order(Work::Put { hash: HASH, content: Box::new(vec![1; 3 * CHUNK_BYTES]) }, 1);
    connected(&mut client, 0);
    sent(client.next(0, WANTED));
    assert_eq!(client.moves_until_us(), 0, "nobody knows yet whether there is room for it");
    say(&mut client, Reply::Have { bytes: 0 }, 0);
    for second in [8, 16, 24] {
        sent(client.next(second * 1_000_000, WANTED));
        assert!(client.moves_until_us() > (second + 8) * 1_000_000);
    }
    let now_us = 32_000_000;
    assert!(matches!(client.next(now_us, WANTED), Deed::Receive(_)));
    assert_eq!(client.moves_until_us(), now_us + PATIENCE_STORED_US);
    client.on_broken(now_us);
    assert_eq!(client.moves_until_us(), now_us + TRIMMED_PATIENCE_US);
    client.on_broken(now_us + 90_000_000);
    assert_eq!(client.moves_until_us(), now_us + TRIMMED_PATIENCE_US, "the scheduler is away");
}

#[test]
fn a_stream_that_speaks_unasked_or_answers_another_question_is_given_up() {
    let mut client = Client::default();
    client.probe();
    connected(&mut client, 0);
    assert!(matches!(client.next(0, WANTED), Deed::Rest(IDLE_US)));
    client.order(get(), 1);
    assert!(matches!(client.next(1, WANTED), Deed::Look));
    client.on_looked(false, 1);
    assert!(matches!(client.next(1, WANTED), Deed::Close));
    connected(&mut client, 1);
    sent(client.next(1, WANTED));
    say(&mut client, Reply::Stored, 1);
    assert!(matches!(client.next(1, WANTED), Deed::Close));
    assert!(matches!(client.next(1, WANTED), Deed::Rest(until_us) if until_us == 1 + RETRY_MIN_US));
}

#[test]
fn a_stream_on_which_nothing_is_asked_is_closed_and_nothing_more_is_done() {
    let mut client = Client::default();
    client.probe();
    connected(&mut client, 0);
    assert!(matches!(client.next(0, WANTED), Deed::Rest(IDLE_US)));
    assert!(matches!(client.next(IDLE_US, WANTED), Deed::Close));
    assert!(matches!(client.next(IDLE_US, WANTED), Deed::Rest(u64::MAX)));
}

#[test]
fn a_probe_goes_on_until_the_channel_is_had_or_refused() {
    let mut client = Client::default();
    for opened in [Ok(()), Err(Some("no".into()))] {
        client.probe();
        let Deed::Connect = client.next(0, WANTED) else { panic!("it tries") };
        client.on_opened(Err(None), 0);
        client.probe();
        assert!(matches!(client.next(0, WANTED), Deed::Close));
        assert!(matches!(client.next(0, WANTED), Deed::Rest(RETRY_MIN_US)));
        assert!(matches!(client.next(RETRY_MIN_US, WANTED), Deed::Connect));
        client.on_opened(opened, RETRY_MIN_US);
        assert!(matches!(client.next(RETRY_MIN_US, WANTED), Deed::Rest(_)));
        client.next(RETRY_MIN_US + IDLE_US, WANTED);
    }
}

#[test]
fn what_does_not_have_its_hash_is_fetched_from_the_start() {
    let mut client = Client::default();
    client.order(get(), 1);
    connected(&mut client, 0);
    sent(client.next(0, WANTED));
    say(&mut client, Reply::Found { total: 3 }, 0);
    say(&mut client, Reply::Chunk(crate::bulk::Chunk { offset: 0, bytes: b"bad" }), 0);
    assert!(matches!(client.next(0, WANTED), Deed::Close));
    connected(&mut client, RETRY_MIN_US);
    let question = sent(client.next(RETRY_MIN_US, WANTED));
    assert_eq!(Request::read(&question), Ok(Request::Get { hash: HASH, offset: 0 }));
}
