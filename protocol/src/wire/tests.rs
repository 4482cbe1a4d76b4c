//! Tests of the codec: everything comes back, nothing is too long, garbage never panics.

use super::read::kind;
use super::*;
use crate::devices::{DeviceFacts, DeviceState};
use crate::resources::GPUS_MAX;

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
        p.revoke(&Revoke { job: JobId(1), cancel: Cancel::Forced, before: Attempt(12) });
        p.facts(&facts());
        p.load(&load());
        p.ages(&[(1, 60_000), (5, 0)]);
        p.bye();
        p.pace(&Pace { idle_ms: 1, reconnect_ms: 2, period_ms: 3 });
        p.time_left(&TimeLeft { left_us: 9, work_us: 8 });
        p.has(&Resources::new(0, 7));
        p.offer_of(&offer(12), Resources::new(2, 5), SlotKind::CORES);
        p.devices(&devices());
        p.offer_of(&offer(13), Resources::ONE_SLOT, SlotKind(2));
        p.card(&card());
        p.doorbell(&Doorbell { newest: 1 << 40 });
    })
}

fn facts() -> Facts {
    Facts {
        system: "lab-7, Debian GNU/Linux 12, Linux 6.1.0".into(),
        cpu: "Some CPU @ 2.00GHz".into(),
        cores: 16,
        memory_bytes: 1 << 34,
        accelerators: "2 x Some GPU".into(),
    }
}

fn devices() -> Devices {
    Devices {
        kind: SlotKind(2),
        facts: DeviceFacts { name: "Some GPU".into(), version: (3, 0), ..DeviceFacts::default() },
        takes_card: true,
        queued_tasks: 3,
        feedback: Feedback { speed_ups: 1, slow_downs: 2 },
        slots: vec![(DeviceState::Ready, 900), (DeviceState::Sick, 0)],
    }
}

fn card() -> Card {
    let figures = CardFigures {
        model: "Some GPU".into(),
        load: Some(0),
        memory_bytes: Some(1 << 34),
        ..Default::default()
    };
    Card { number: 1, count: 2, figures }
}

fn load() -> Load {
    Load { idle_us: 7, slots: vec![1_000, 0, 250] }
}

#[test]
fn every_message_comes_back_as_it_was() {
    let datagram = sample();
    let read: Vec<_> = messages(&datagram).map(Result::unwrap).collect();
    let kinds: Vec<_> =
        read.iter().map(|m| format!("{m:?}").split(['(', ' ']).next().unwrap().to_owned()).collect();
    assert_eq!(
        kinds.join(" "),
        "Hello TaskAck Results Feedback Heartbeat Welcome Offers ResultAck HeartbeatAnswer Revoke \
         Facts Load Ages Bye Pace TimeLeft Has Needs Offers Devices SlotKind Offers Card \
         Doorbell"
    );
    assert_eq!(read[22..], [Message::Card(card()), Message::Doorbell(Doorbell { newest: 1 << 40 })]);
    assert_eq!(read[19..21], [Message::Devices(devices()), Message::SlotKind(SlotKind(2))]);
    assert_eq!(read[16], Message::Has(Resources::new(0, 7)));
    assert_eq!(read[17], Message::Needs(Needs { job: JobId(7), run: Resources::new(2, 5) }));
    assert_eq!(read[15], Message::TimeLeft(TimeLeft { left_us: 9, work_us: 8 }));
    assert_eq!(read[14], Message::Pace(Pace { idle_ms: 1, reconnect_ms: 2, period_ms: 3 }));
    assert_eq!(read[10..12], [Message::Facts(facts()), Message::Load(load())]);
    let Message::Ages(ages) = read[12].clone() else { panic!("{:?}", read[12]) };
    assert_eq!(ages.collect::<Vec<_>>(), [(1, 60_000), (5, 0)]);
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
            Ok(Message::Facts(facts)) => assert!(facts.system.len() <= FACT_BYTES_MAX),
            Ok(Message::Load(load)) => {
                assert!(load.slots.len() <= LOAD_SLOTS_MAX && load.slots.iter().all(|&slot| slot <= 1_000));
            }
            Ok(Message::Ages(ages)) => ages.for_each(drop),
            Ok(Message::TaskAck(ranges)) => ranges.for_each(|(first, last)| assert!(first <= last)),
            _ => {}
        }
    }
}

/// A message of that kind with that body, and a goodbye behind it.
fn with_body(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut datagram = vec![kind];
    datagram.extend((body.len() as u16).to_le_bytes());
    datagram.extend_from_slice(body);
    datagram.extend(one(|p| p.bye()));
    datagram
}

#[test]
fn facts_that_break_the_rules_are_malformed() {
    let body = |texts: &[&[u8]]| {
        let texts = texts.iter().flat_map(|text| [&[text.len() as u8], *text].concat());
        [0; 12].into_iter().chain(texts).collect::<Vec<u8>>()
    };
    let read = |body: &[u8]| messages(&with_body(kind::FACTS, body)).next().unwrap().map(drop);
    assert_eq!(read(&body(&[b"a", &[b'x'; FACT_BYTES_MAX], b""])), Ok(()));
    let lying_count = [&[0; 12][..], &[9], b"short"].concat();
    for bad in [
        body(&[b"a", &[b'x'; FACT_BYTES_MAX + 1], b""]),
        body(&[b"a", b"\xff", b""]),
        body(&[b"a", b"b"]),
        body(&[b"a", b"b", b"", b"more"]),
        lying_count,
    ] {
        assert_eq!(read(&bad), Err(Malformed), "{bad:?}");
    }
}

#[test]
fn a_load_has_few_slots_and_none_is_more_than_busy() {
    let read = |slots: &[u8]| {
        let body = [&[1, 0, 0, 0, 0, 0, 0, 0], slots].concat();
        messages(&with_body(kind::LOAD, &body)).next().unwrap().map(|m| format!("{m:?}"))
    };
    assert_eq!(read(&[0xff, 0xff, 1, 0]).unwrap(), "Load(Load { idle_us: 1, slots: [1000, 1] })");
    assert!(read(&[0; 2 * LOAD_SLOTS_MAX]).is_ok());
    assert_eq!(read(&[0; 2 * LOAD_SLOTS_MAX + 2]), Err(Malformed));
    assert_eq!(read(&[0; 3]), Err(Malformed));
    let ages = with_body(kind::AGES, &[0; AGE_BYTES + 1]);
    assert_eq!(messages(&ages).collect::<Vec<_>>(), [Err(Malformed)]);
}

#[test]
fn long_facts_are_cut_between_characters_and_long_loads_after_64_slots() {
    let long = Facts { cpu: format!("x{}", "ä".repeat(200)), ..facts() };
    let datagram = one(|p| {
        p.facts(&long);
        p.load(&Load { idle_us: 0, slots: vec![5; 1_024] });
    });
    let read: Vec<_> = messages(&datagram).map(Result::unwrap).collect();
    let Message::Facts(cut) = &read[0] else { panic!("{read:?}") };
    assert_eq!(cut.cpu, format!("x{}", "ä".repeat(63)));
    assert_eq!(read[1], Message::Load(Load { idle_us: 0, slots: vec![5; LOAD_SLOTS_MAX] }));
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
            units: 1,
            failed: None,
            code: 0,
            duration_us: 5,
            outputs: Outputs {
                files: None,
                stdout: Stream::Inline(b"hi".into()),
                stderr: Stream::Inline(vec![]),
            },
        },
        CommandUnit {
            units: 1,
            failed: Some(FailReason::Signal),
            code: 9,
            duration_us: 6,
            outputs: Outputs {
                files: None,
                stdout: Stream::Uploaded { hash: ContentHash([1; 32]), kept: 600, total: 1 << 40 },
                stderr: Stream::Inline(b"x".into()),
            },
        },
    ];
    let mut body = Vec::new();
    units.iter().for_each(|u| u.write(&mut body));
    assert_eq!(CommandUnit::read_all(&body).unwrap(), units);
}

/// docs/protocol.md, "Messages": what is malformed, and which limits bind the sender alone.
#[test]
fn what_breaks_a_rule_is_malformed_and_what_is_only_too_long_is_read() {
    let is_malformed = |datagram: &[u8]| {
        let mut all = messages(datagram);
        all.any(|message| match message {
            Ok(Message::Results(results)) => { results }.any(|entry| entry.is_err()),
            Ok(Message::Offers(offers)) => { offers }.any(|offer| offer.is_err()),
            message => message.is_err(),
        })
    };
    let entry = |lo, units| one(|p| p.result(&ResultEntry { lo, units, ..result(1, &[]) }));
    assert!(is_malformed(&entry(0, 0)) && is_malformed(&entry(u128::MAX, 1)));
    assert!(!is_malformed(&entry(u128::MAX - 1, 1)));
    assert!(is_malformed(&one(|p| p.offer(&Offer { units: 0, ..offer(1) }))));
    let mut outcome = entry(0, 1);
    let at = outcome.len() - 3;
    assert_eq!(std::mem::replace(&mut outcome[at], 3), 0, "the outcome stands there");
    assert!(is_malformed(&outcome));
    let cancel = |how: u8| with_body(kind::REVOKE, &[&[0; 8][..], &[how], &[0; 8]].concat());
    assert!(is_malformed(&cancel(2)) && !is_malformed(&cancel(1)));
    let beat = |part: u8, parts: u8, running: u8| {
        let head = [&[0; 4][..], &[part, 0, parts, 0], &[0; 5], &[running]].concat();
        with_body(kind::HEARTBEAT, &[head, vec![0; usize::from(running) * RUNNING_BYTES]].concat())
    };
    assert!(is_malformed(&beat(2, 2, 0)) && is_malformed(&beat(0, 0, 0)) && !is_malformed(&beat(1, 2, 0)));
    // Longer than a sender may make them.
    assert!(!is_malformed(&beat(0, 1, 40)) && !is_malformed(&with_body(kind::TASK_ACK, &[0; 80 * 16])));
    let head = [&[0; RESULT_HEAD_BYTES + 32][..], &1_u64.to_le_bytes(), &[0; 9], &1_250_u16.to_le_bytes()];
    assert!(!is_malformed(&with_body(kind::RESULTS, &[&head.concat()[..], &[0; 1_250]].concat())));
}

#[test]
fn each_hello_of_a_datagram_must_name_the_boot_of_its_session() {
    let hello = |boot| {
        let mut hello = Hello {
            version: 1,
            boot: Boot(boot),
            slots: 1,
            queue_tasks_max: 1,
            receive_datagrams_max: 1,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        };
        hello.died_running.push((JobId(1), 2));
        one(|p| p.hello(&hello))
    };
    let (is, other) = (is_of_boot, one(|p| p.bye()));
    assert!(is(&[], Boot(1)) && is(&other, Boot(1)) && is(&hello(1), Boot(1)) && !is(&hello(1), Boot(2)));
    assert!(is(&[hello(1), other.clone(), hello(1)].concat(), Boot(1)));
    assert!(!is(&[hello(1), other.clone(), hello(2)].concat(), Boot(1)));
    assert!(!is(&[&[200, 1, 0, 9][..], &hello(2)].concat(), Boot(1)), "a kind that nobody knows is skipped");
    let cut = &hello(2)[..11];
    assert!(is(&[&other[..], cut].concat(), Boot(1)), "what is cut is none");
}

#[test]
fn what_a_run_takes_stands_before_each_head_of_its_job() {
    let run = Resources::new(4, 1 << 30);
    let mut packer = Packer::new();
    (0..200).for_each(|attempt| packer.offer_of(&offer(attempt), run, SlotKind::CORES));
    packer.offer(&Offer { job: JobId(8), ..offer(200) });
    for datagram in packer.finish() {
        assert!(datagram.len() <= PLAIN_BYTES_MAX);
        let mut needs = None;
        for message in messages(&datagram).map(Result::unwrap) {
            match message {
                Message::Needs(said) => needs = Some(said),
                Message::Offers(offers) => {
                    let job = offers.map(Result::unwrap).next().unwrap().job;
                    assert_eq!(needs.take(), (job == JobId(7)).then_some(Needs { job, run }));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn the_kind_of_slots_stands_before_each_head_and_each_part_of_a_heartbeat() {
    let mut packer = Packer::new();
    let held = |n: u128| (0..n).map(|i| Held { job: JobId(1), lo: i * 10, units: 1 }).collect::<Vec<_>>();
    let kinds = [0, 1, 1, 2, 0].map(SlotKind);
    (0..200).for_each(|a| packer.offer_of(&offer(a), Resources::new(2, 5), kinds[a as usize / 40]));
    let beat = Heartbeat { number: 1, held: held(100), ..Heartbeat::default() };
    packer
        .heartbeat_of(&beat, &[(SlotKind(1), held(50)), (SlotKind(2), held(60)), (SlotKind(3), Vec::new())]);
    let (mut offers, mut parts, mut lists) = ([0; 4], Vec::new(), [0; 4]);
    for datagram in packer.finish() {
        assert!(datagram.len() <= PLAIN_BYTES_MAX);
        let mut slots = SlotKind::CORES;
        for message in messages(&datagram).map(Result::unwrap) {
            let of = usize::from(std::mem::take(&mut slots).0);
            match message {
                Message::SlotKind(said) => slots = said,
                Message::Offers(some) => offers[of] += some.count(),
                Message::Heartbeat(part) => {
                    lists[of] += part.held.len();
                    parts.push((part.part, part.parts));
                }
                // What a run takes stands before the kind of its slots.
                Message::Needs(_) => assert_eq!(of, 0),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((offers, lists), ([80, 80, 40, 0], [100, 50, 60, 0]));
    assert_eq!(parts, (0..parts.len() as u16).map(|part| (part, parts.len() as u16)).collect::<Vec<_>>());
}

#[test]
fn devices_that_break_the_rules_are_malformed_and_states_of_later_versions_are_no_room() {
    let read = |devices: &Devices| messages(&one(|p| p.devices(devices))).next().unwrap().map(drop);
    assert!(read(&devices()).is_ok());
    assert_eq!(read(&Devices { kind: SlotKind::CORES, ..devices() }), Err(Malformed));
    assert_eq!(read(&Devices { slots: Vec::new(), ..devices() }), Err(Malformed));
    let mut datagram = one(|p| p.devices(&devices()));
    let at = datagram.len() - 6;
    datagram[at] = 99;
    let Some(Ok(Message::Devices(read))) = messages(&datagram).next() else { panic!("{datagram:?}") };
    assert_eq!((read.slots[0].0, read.usable()), (DeviceState::Sick, 0));
}

#[test]
fn a_card_beyond_their_number_is_malformed() {
    let read = |number, count| {
        messages(&one(|p| p.card(&Card { number, count, ..card() }))).next().unwrap().map(drop)
    };
    let most = GPUS_MAX as u16;
    assert_eq!((read(0, 1), read(most - 1, most)), (Ok(()), Ok(())));
    for (number, count) in [(0, 0), (2, 2), (0, most + 1)] {
        assert_eq!(read(number, count), Err(Malformed));
    }
}

#[test]
fn resources_that_this_version_does_not_know_are_skipped_and_nothing_runs_that_needs_them() {
    let body = |number: u8| [[number].as_slice(), &5_u64.to_le_bytes()].concat();
    let has = [&[kind::HAS, 18, 0][..], &body(200), &body(1)].concat();
    assert_eq!(messages(&has).next(), Some(Ok(Message::Has(Resources::new(0, 5)))));
    let needs = |number: u8| [&[kind::NEEDS, 17, 0][..], &[0; 8], &body(number)].concat();
    assert!(messages(&needs(0)).next().unwrap().is_ok());
    assert_eq!(messages(&needs(200)).next(), Some(Err(Malformed)));
    assert_eq!(messages(&needs(1)).next(), Some(Err(Malformed)), "without a slot nothing runs");
}
