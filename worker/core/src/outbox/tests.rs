//! Numbering, packing, credit and repetition, each alone.

use starfarm_protocol::ids::{Attempt, ContentHash, JobId};
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::wire::{Message, Outcome, messages};

use super::*;

fn result(n: u64, body: usize) -> Kept {
    let part = Part {
        job: JobId(1),
        spec: ContentHash([7; 32]),
        attempt: Attempt(n),
        lo: u128::from(n),
        units: 1,
        duration_us: 1,
        outcome: Outcome::Done,
        body: vec![1; body],
    };
    Kept { part, ended_us: None }
}

/// An outbox with that credit and that many results.
fn outbox(credit: u16, results: u64, body: usize) -> Outbox {
    let mut outbox = Outbox::new();
    outbox.set_credit(credit);
    (0..results).for_each(|n| outbox.push(result(n, body)));
    outbox
}

/// The sequences in each datagram that leaves at `now_us`.
fn sent(outbox: &mut Outbox, now_us: u64) -> Vec<Vec<u64>> {
    let mut packer = Packer::new();
    outbox.send(now_us, &mut packer);
    let sequences =
        |datagram: &Vec<u8>| entries(datagram).into_iter().map(|(sequence, _)| sequence).collect();
    packer.finish().iter().map(sequences).collect()
}

/// The sequences in a datagram, and how old a reader takes each result for.
fn entries(datagram: &[u8]) -> Vec<(u64, u64)> {
    let (mut ages, mut entries) = (Vec::new(), Vec::new());
    for message in messages(datagram) {
        match message.unwrap() {
            Message::Ages(said) => ages = said.collect(),
            Message::Results(results) => entries.extend(results.map(|result| {
                let sequence = result.unwrap().sequence;
                let age = ages.iter().rev().find(|(from, _)| *from <= sequence);
                (sequence, age.map_or(0, |(_, age_us)| *age_us))
            })),
            other => panic!("{other:?}"),
        }
    }
    entries
}

#[test]
fn datagrams_are_as_many_as_flights_whatever_the_mix_of_jobs_and_sizes() {
    let mut random = starfarm_protocol::random::SplitMix64(3);
    for _ in 0..200 {
        let mut outbox = outbox(10_000, 0, 0);
        for n in 0..random.below(200) {
            let mut one = result(n, random.below(RESULT_BODY_BYTES_MAX as u64 + 1) as usize);
            if random.below(2) == 0 {
                one.part.body.clear();
            }
            one.part.job = JobId(random.below(3) / 2);
            outbox.push(one);
        }
        let datagrams = sent(&mut outbox, 0);
        assert_eq!(datagrams.len(), outbox.flights.len());
        for (datagram, flight) in datagrams.iter().zip(&outbox.flights) {
            assert_eq!((datagram[0], datagram[datagram.len() - 1]), (flight.first, flight.last));
        }
        assert_eq!(outbox.unsent_bytes, 0);
    }
}

#[test]
fn fresh_results_have_no_ages_and_late_ones_have() {
    let mut outbox = outbox(8, 0, 0);
    for ended_us in [None, Some(0), Some(5_000), Some(900_000), Some(960_000), Some(1_000_000)] {
        outbox.push(Kept { ended_us, ..result(1, 0) });
    }
    let mut packer = Packer::new();
    outbox.send(1_000_000, &mut packer);
    let ages = [(1, 0), (2, 1_000_000), (3, 1_000_000), (4, 100_000), (5, 40_000), (6, 0)];
    assert_eq!(entries(&packer.finish().concat()), ages);
    outbox.acknowledge(1, 6, 1_000_100);
    outbox.push(Kept { ended_us: Some(1_950_000), ..result(1, 0) });
    outbox.send(2_000_000, &mut packer);
    let datagram = packer.finish().concat();
    assert!(messages(&datagram).all(|message| matches!(message, Ok(Message::Results(_)))));
}

#[test]
fn a_datagram_stays_one_when_it_is_repeated_and_its_results_have_grown_old() {
    let mut random = starfarm_protocol::random::SplitMix64(4);
    for _ in 0..300 {
        let mut outbox = outbox(10_000, 0, 0);
        let (mut now_us, pace_us) = (0, 1 << random.below(18));
        for n in 0..random.below(100) {
            now_us += random.below(pace_us);
            let body = random.below(RESULT_BODY_BYTES_MAX as u64 + 1) as usize / 100 * 100;
            let ended_us = Some(now_us).filter(|_| n > 3);
            outbox.push(Kept { ended_us, ..result(n, body >> random.below(12)) });
        }
        now_us += random.below(pace_us);
        assert_eq!(sent(&mut outbox, now_us).len(), outbox.flights.len(), "nor was it two");
        now_us += random.below(3_000_000);
        for flight in &outbox.flights {
            let mut packer = Packer::new();
            pack(&outbox.kept, outbox.base, flight, (now_us, FRESH_US), &mut packer);
            let datagrams = packer.finish();
            assert_eq!(datagrams.len(), 1);
            for (sequence, age_us) in entries(&datagrams[0]) {
                let kept = outbox.kept[(sequence - outbox.base) as usize].as_ref().unwrap();
                let really_us = kept.ended_us.map_or(0, |ended_us| now_us - ended_us);
                assert!(age_us.abs_diff(really_us) <= FRESH_US, "{age_us} for {really_us}");
            }
        }
    }
}

#[test]
fn a_lone_result_leaves_at_once_and_a_stream_waits_two_milliseconds() {
    let mut outbox = outbox(8, 1, 0);
    assert_eq!(sent(&mut outbox, 10_000), [[1]]);
    outbox.push(result(1, 0));
    assert_eq!(sent(&mut outbox, 11_000), Vec::<Vec<u64>>::new());
    assert_eq!(outbox.deadline(), 12_000);
    outbox.push(result(2, 0));
    assert_eq!(sent(&mut outbox, 12_000), [[2, 3]]);
}

#[test]
fn a_full_datagram_does_not_wait_and_the_rest_does() {
    let mut outbox = outbox(8, 1, 0);
    sent(&mut outbox, 10_000);
    (1..40).for_each(|n| outbox.push(result(n, 0)));
    assert_eq!(outbox.deadline(), 0);
    let datagrams = sent(&mut outbox, 10_001);
    assert_eq!(datagrams.len(), 1);
    assert!(outbox.unsent_bytes > 0 && outbox.deadline() == 12_001);
}

#[test]
fn never_more_datagrams_in_flight_than_the_credit() {
    let mut outbox = outbox(3, 10, 1_000);
    assert_eq!(sent(&mut outbox, 0), [[1], [2], [3]]);
    assert_eq!(sent(&mut outbox, 5_000), Vec::<Vec<u64>>::new());
    outbox.acknowledge(2, 2, 6_000);
    assert_eq!(sent(&mut outbox, 6_000), [[4]]);
    outbox.set_credit(0);
    outbox.acknowledge(1, 4, 7_000);
    assert_eq!(sent(&mut outbox, 9_000), Vec::<Vec<u64>>::new());
    assert_eq!(outbox.deadline(), u64::MAX);
}

#[test]
fn what_is_not_acknowledged_is_repeated_and_the_wait_doubles() {
    let mut outbox = outbox(8, 20, 0);
    sent(&mut outbox, 0);
    outbox.acknowledge(2, 20, 1_000);
    let mut times = Vec::new();
    for _ in 0..4 {
        times.push(outbox.deadline());
        let again = sent(&mut outbox, times[times.len() - 1]);
        let all: Vec<u64> = again.into_iter().flatten().collect();
        assert_eq!(all, [1]);
    }
    let waits: Vec<_> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(waits, [2_000_000; 3], "the first wait is 1 s, later ones are at the limit");
    outbox.acknowledge(1, 20, 9_000_000);
    assert!(outbox.is_empty() && outbox.deadline() == u64::MAX);
}

#[test]
fn a_silent_scheduler_is_asked_with_one_datagram_and_overtaken_ones_are_all_repeated() {
    let mut outbox = outbox(8, 8, 1_000);
    assert_eq!(sent(&mut outbox, 0).len(), 8);
    assert_eq!(sent(&mut outbox, 1_000_000), [[1]], "it may be busy: no storm of repeats");
    outbox.acknowledge(1, 1, 1_000_100);
    let at = outbox.deadline();
    assert_eq!(sent(&mut outbox, at), [[2], [3], [4], [5], [6], [7], [8]]);
}

#[test]
fn a_repeated_datagram_teaches_no_round_trip() {
    let mut outbox = outbox(8, 1, 0);
    sent(&mut outbox, 0);
    sent(&mut outbox, 1_000_000);
    outbox.acknowledge(1, 1, 1_000_100);
    assert_eq!(outbox.rto.wait_us(0), 1_000_000, "as before any sample");
    outbox.push(result(2, 0));
    sent(&mut outbox, 2_000_000);
    outbox.acknowledge(2, 2, 2_001_000);
    assert_eq!(outbox.rto.wait_us(0), 50_000);
}

#[test]
fn a_new_session_sends_all_that_is_left_anew() {
    let mut outbox = outbox(2, 5, 1_000);
    sent(&mut outbox, 0);
    outbox.acknowledge(1, 1, 1_000);
    outbox.rewind();
    assert_eq!(sent(&mut outbox, 2_000), [[2], [3]]);
    outbox.acknowledge(5, 5, 3_000);
    outbox.acknowledge(2, 3, 3_000);
    assert_eq!(sent(&mut outbox, 5_000), [[4]]);
    outbox.acknowledge(4, 4, 6_000);
    assert!(outbox.is_empty() && outbox.unsent_bytes == 0);
}

#[test]
fn acknowledgements_of_anything_are_survived() {
    let mut random = starfarm_protocol::random::SplitMix64(9);
    for _ in 0..100 {
        let mut outbox = outbox(3, 50, 300);
        for step in 0..60 {
            sent(&mut outbox, step * 3_000);
            let first = random.below(70);
            let last = if random.below(9) == 0 { u64::MAX } else { first + random.below(4) };
            outbox.acknowledge(first, last, step * 3_000 + 1);
            if random.below(10) == 0 {
                outbox.rewind();
            }
            let kept: usize = outbox.iter().count();
            assert_eq!(kept, outbox.len());
            assert!(outbox.flights.len() <= 3);
        }
    }
}
