//! Tests of the codec: everything comes back, nothing is too long, garbage never panics.

use super::*;

fn one(pack: impl FnOnce(&mut Packer)) -> Vec<u8> {
    let mut packer = Packer::new();
    pack(&mut packer);
    let mut datagrams = packer.finish();
    assert_eq!(datagrams.len(), 1);
    datagrams.remove(0)
}

fn offer(attempt: u64) -> Offer {
    Offer {
        job: JobId(7),
        spec: ContentHash([3; 32]),
        attempt: Attempt(attempt),
        lo: u128::from(attempt) << 70,
        units: 5,
    }
}

fn result(sequence: u64, body: &[u8]) -> ResultEntry<'_> {
    ResultEntry {
        job: JobId(7),
        spec: ContentHash([3; 32]),
        sequence,
        attempt: Attempt(sequence),
        lo: u128::from(sequence),
        units: 1,
        duration_us: 9,
        outcome: Outcome::Done,
        body,
    }
}

fn sample() -> Vec<u8> {
    one(|p| {
        p.hello(&Hello {
            version: 1,
            boot: Boot(2),
            slots: 3,
            queue_tasks_max: 4,
            receive_datagrams_max: 5,
            known_epoch: Epoch(6),
            known_proof: [7; 16],
            died_running: vec![(JobId(1), 1 << 100)],
        });
        p.task_ack(&[(1, 2), (5, 5)]);
        p.result(&result(1, b"one"));
        p.result(&result(2, b""));
        p.feedback(&Feedback { speed_ups: 1, slow_downs: 2 });
        p.heartbeat(&Heartbeat {
            number: 9,
            part: 0,
            parts: 1,
            queued_tasks: 4,
            draining: true,
            running: vec![(JobId(1), 2)],
            held: vec![Held { job: JobId(1), lo: 2, units: 3 }],
        });
        p.welcome(&Welcome {
            farm: FarmId([1; 16]),
            epoch: Epoch(2),
            heartbeat_ms: 1000,
            credit: 8,
            version: 1,
            proof: [9; 16],
        });
        p.offer(&offer(10));
        p.offer(&offer(11));
        p.result_ack(8, &[(1, 1)]);
        p.heartbeat_answer(&HeartbeatAnswer { number: 9, credit: 8, epoch: Epoch(2) });
        p.withdraw(&Withdraw { job: JobId(1), letting: Letting::Kill, before: Attempt(12) });
        p.bye();
    })
}

#[test]
fn every_message_comes_back_as_it_was() {
    let datagram = sample();
    let read: Vec<_> = messages(&datagram).map(Result::unwrap).collect();
    let kinds: Vec<_> =
        read.iter().map(|m| format!("{m:?}").split(['(', ' ']).next().unwrap().to_owned()).collect();
    assert_eq!(
        kinds.join(" "),
        "Hello TaskAck Results Feedback Heartbeat Welcome Offers ResultAck HeartbeatAnswer Withdraw Bye"
    );
    let Message::Results(results) = read[2].clone() else { panic!("{:?}", read[2]) };
    assert_eq!(results.map(Result::unwrap).collect::<Vec<_>>(), [result(1, b"one"), result(2, b"")]);
    let Message::Offers(offers) = read[6].clone() else { panic!("{:?}", read[6]) };
    assert_eq!(offers.map(Result::unwrap).collect::<Vec<_>>(), [offer(10), offer(11)]);
    let Message::TaskAck(ranges) = read[1].clone() else { panic!("{:?}", read[1]) };
    assert_eq!(ranges.collect::<Vec<_>>(), [(1, 2), (5, 5)]);
}

#[test]
fn offers_with_a_gap_in_their_attempts_do_not_share_a_head() {
    let datagram = one(|p| [1, 2, 9].map(|a| p.offer(&offer(a))).into_iter().collect());
    let attempts: Vec<_> = messages(&datagram)
        .flat_map(|m| match m.unwrap() {
            Message::Offers(offers) => offers.map(|o| o.unwrap().attempt.0).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(attempts, [1, 2, 9]);
}

#[test]
fn no_datagram_is_too_long_and_none_is_lost() {
    let mut packer = Packer::new();
    (0..1000).for_each(|a| packer.offer(&offer(a)));
    let body = [7; crate::limits::RESULT_BODY_BYTES_MAX];
    (0..10).for_each(|s| packer.result(&result(s, &body)));
    let held = (0..500).map(|i| Held { job: JobId(1), lo: i * 10, units: 1 }).collect();
    packer.heartbeat(&Heartbeat { number: 1, held, ..Heartbeat::default() });
    let (mut offers, mut results, mut held) = (0, 0, 0);
    for datagram in packer.finish() {
        assert!(datagram.len() <= crate::limits::PLAIN_BYTES_MAX);
        for message in messages(&datagram) {
            match message.unwrap() {
                Message::Offers(o) => offers += o.count(),
                Message::Results(r) => results += r.count(),
                Message::Heartbeat(h) => held += h.held.len(),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((offers, results, held), (1000, 10, 500));
}

#[test]
fn cut_or_garbled_datagrams_are_malformed_and_never_panic() {
    let whole = sample();
    for length in 0..whole.len() {
        walk(&whole[..length]);
    }
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut garbled = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % garbled.len();
            garbled[at] = (state >> 20) as u8;
        }
        walk(&garbled);
    }
}

fn walk(datagram: &[u8]) {
    for message in messages(datagram) {
        match message {
            Ok(Message::Results(results)) => results.for_each(|r| {
                if let Ok(entry) = r {
                    assert!(entry.units > 0 && entry.lo.checked_add(u128::from(entry.units)).is_some());
                    let _ = (HitEntry::read_all(entry.body), CommandUnit::read_all(entry.body));
                }
            }),
            Ok(Message::Offers(offers)) => offers.for_each(drop),
            Ok(Message::TaskAck(ranges)) => ranges.for_each(|(first, last)| assert!(first <= last)),
            _ => {}
        }
    }
}

#[test]
fn unknown_kinds_are_skipped() {
    let mut datagram = vec![200, 2, 0, 1, 2];
    datagram.extend(one(|p| p.bye()));
    assert_eq!(messages(&datagram).collect::<Vec<_>>(), [Ok(Message::Bye)]);
}

#[test]
fn outputs_come_back_as_they_were() {
    let units = [
        CommandUnit {
            failed: None,
            code: 0,
            duration_us: 5,
            outputs: Outputs { stdout: Stream::Inline(b"hi".into()), stderr: Stream::Inline(vec![]) },
        },
        CommandUnit {
            failed: Some(FailReason::Signal),
            code: 9,
            duration_us: 6,
            outputs: Outputs {
                stdout: Stream::Uploaded { hash: ContentHash([1; 32]), kept: 600, total: 1 << 40 },
                stderr: Stream::Inline(b"x".into()),
            },
        },
    ];
    let mut body = Vec::new();
    units.iter().for_each(|u| u.write(&mut body));
    assert_eq!(CommandUnit::read_all(&body).unwrap(), units);
}
