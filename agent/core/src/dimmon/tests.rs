//! Datagrams there and back, and what is none.

use super::*;
use crate::ids;
use crate::values::{Triple, Triples};

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn read(bytes: &[u8]) -> Result<Vec<(u32, Vec<u8>)>, Fault> {
    let datagram = Datagram::read(bytes, ByteOrder::Host)?;
    Ok(datagram.into_iter().map(|(id, value)| (id, value.to_vec())).collect())
}

#[test]
fn scalars_vectors_and_ids_that_nobody_knows_are_read() {
    let written = bytes(&[7, 4, 99, 70_000, 12, 1, 2, 3, 8, 0, 0, 0]);
    let values = read(&written).unwrap();
    assert_eq!(values, [(7, bytes(&[99])), (70_000, bytes(&[1, 2, 3])), (8, vec![])]);
    let values = values.iter().map(|(id, value)| (ValueId(*id), &value[..]));
    assert_eq!(datagram(values, ByteOrder::Host), written);
    assert_eq!(read(&bytes(&[0, 0])), Ok(vec![]), "no values");
}

#[test]
fn what_is_no_datagram_is_refused_as_a_whole() {
    let good = bytes(&[7, 4, 99, 8, 4, 1, 0, 0]);
    for cut in 0..good.len() {
        let fault = read(&good[..cut]).unwrap_err();
        assert!(matches!(fault, Fault::Cut | Fault::NoEnd), "{cut}: {fault:?}");
    }
    assert_eq!(read(&good[..24]), Err(Fault::NoEnd));
    assert_eq!(read(&bytes(&[7, u32::MAX, 99, 0, 0])), Err(Fault::Cut));
    assert_eq!(read(&bytes(&[7, 4, 99, 0, 4, 5, 0, 0])), Err(Fault::Zero));
    assert_eq!(read(&bytes(&[7, 4, 99, 0, 0, 0])), Err(Fault::Behind));
    assert_eq!(read(&[&good[..], &[0]].concat()), Err(Fault::Behind));
    let many = |count: usize| bytes(&[[7, 0].repeat(count), vec![0, 0]].concat());
    assert_eq!(read(&many(TRIPLES_MAX)).map(|values| values.len()), Ok(TRIPLES_MAX));
    assert_eq!(read(&many(TRIPLES_MAX + 1)), Err(Fault::TooMany));
}

#[test]
fn the_other_byte_order_is_told_apart_and_read_where_it_is_said() {
    let values = [(ValueId(7), &[1, 2, 3, 4][..]), (ValueId(8), &[5; 12][..])];
    for (order, other) in [(ByteOrder::Little, ByteOrder::Big), (ByteOrder::Big, ByteOrder::Little)] {
        let written = datagram(values.into_iter(), order);
        let read: Vec<_> = Datagram::read(&written, order).unwrap().into_iter().collect();
        assert_eq!(read, values.map(|(id, value)| (id.0, value)));
        assert_eq!(Datagram::read(&written, other), Err(Fault::OtherOrder));
        assert!(order.is_foreign() != other.is_foreign());
    }
}

/// Whatever comes, nothing panics, and what is read comes to the same bytes again.
#[test]
fn any_bytes_are_read_or_refused() {
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        let mut written = Vec::new();
        for _ in 0..next() % 5 {
            let value: Vec<u8> = (0..next() % 20).map(|_| next() as u8).collect();
            put(&mut written, ByteOrder::Host, next() % 300, &value);
        }
        put_end(&mut written);
        for _ in 0..next() % 3 {
            let at = next() as usize % written.len();
            written[at] = next() as u8;
        }
        let length = written.len();
        written.truncate(if next() % 4 == 0 { next() as usize % (length + 1) } else { length });
        match Datagram::read(&written, ByteOrder::Host) {
            Ok(read) => {
                good += 1;
                assert_eq!(
                    datagram(read.into_iter().map(|(id, v)| (ValueId(id), v)), ByteOrder::Host),
                    written
                );
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 1_000 && bad > 1_000, "{good} {bad}");
}

#[test]
fn ids_and_numbers_are_those_of_the_table_and_others_stay() {
    let table = IdTable::parse("7=cpu, 9 = memory:u32,11=1000001:u64").unwrap();
    let mut room = Vec::new();
    let order = ByteOrder::Little;
    let cores = [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat();
    assert_eq!(table.ours((7, &cores), order, &mut room), (ids::named("cpu").unwrap(), &cores[..]));
    let small = [3_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    let wide = [3_u64.to_le_bytes(), u64::from(u32::MAX).to_le_bytes()].concat();
    assert_eq!(table.ours((9, &small), order, &mut room), (ids::named("memory").unwrap(), &wide[..]));
    assert_eq!(table.ours((9, b"abc"), order, &mut room).1, b"abc");
    assert_eq!(table.ours((4_000_000_000, b"abc"), order, &mut room), (ValueId(4_000_000_000), &b"abc"[..]));
    let memory = ids::named("memory").unwrap();
    assert_eq!(table.theirs((memory, &wide), order, &mut room), Some((9, &small[..])));
    assert_eq!(table.theirs((memory, &(1_u64 << 32).to_le_bytes()), order, &mut room), None);
    assert_eq!(table.theirs((ValueId(0), b""), order, &mut room), None, "that would be the end mark");
    assert_eq!(
        IdTable::parse(" ").unwrap().theirs((ValueId(2), b"x"), order, &mut room),
        Some((2, &b"x"[..]))
    );
    let big = 5_u64.to_be_bytes();
    assert_eq!(table.ours((7, &big), ByteOrder::Big, &mut room).1, 5_u64.to_le_bytes());
    assert_eq!(
        table.theirs((ValueId(1), &5_u64.to_le_bytes()), ByteOrder::Big, &mut room),
        Some((7, &big[..]))
    );
}

#[test]
fn a_table_that_is_none_is_refused_in_words() {
    for (bad, why) in [
        ("7", "`7` is no pair"),
        ("x=cpu", "`x=cpu`: the peer's id is a number from 1 on"),
        ("0=cpu", "from 1 on"),
        ("7=colour", "our id is a number, or one of `cpu`"),
        ("7=cpu:f32", "numbers are `u64` or `u32`"),
        ("7=cpu,7=memory", "has 7 twice"),
        ("7=cpu,8=cpu", "has our id 1 twice"),
        ("7=cpu,", "`` is no pair"),
    ] {
        let refusal = IdTable::parse(bad).unwrap_err();
        assert!(refusal.contains(why), "{bad}: {refusal}");
    }
    let long = "x".repeat(5_000);
    assert!(IdTable::parse(&long).unwrap_err().len() < 200);
}

fn sent(values: &[(u32, Vec<u8>)], table: &IdTable) -> (Vec<Vec<(u32, usize)>>, Counted) {
    let of = |(id, value): &(u32, Vec<u8>)| (ValueId(*id), value.clone());
    let values: Vec<_> = values.iter().map(of).collect();
    let triples = Triples::written(values.iter().map(|(id, value)| Triple { id: *id, value }));
    let (mut all, triples) = (Vec::new(), Triples::read(&triples).unwrap());
    let counted = Datagrams::default().write(triples, table, ByteOrder::Host, |bytes| {
        let read = Datagram::read(bytes, ByteOrder::Host).unwrap().into_iter();
        all.push(read.map(|(id, value)| (id, value.len())).collect());
    });
    (all, counted)
}

#[test]
fn a_long_message_is_parted_and_each_part_says_whose_it_is() {
    let job = (ids::JOB.0, 3_u64.to_le_bytes().to_vec());
    let value = |id: u32, bytes: usize| (id, vec![7; bytes]);
    let (all, counted) =
        sent(&[job.clone(), value(1, 700), value(2, 700), value(3, 8_000)], &IdTable::default());
    let whose = (ids::JOB.0, 8);
    assert_eq!(all, [vec![whose, (1, 700)], vec![whose, (2, 700)], vec![whose, (3, 8_000)]]);
    assert_eq!(counted, Counted { datagrams: 3, left_out: 0 });
    let (all, counted) = sent(&[job.clone(), value(1, 9_000), value(2, 4)], &IdTable::default());
    assert_eq!((all, counted.left_out), (vec![vec![whose, (2, 4)]], 1));
    assert_eq!(sent(&[], &IdTable::default()), (vec![], Counted::default()));
    // A job that the peer cannot be told: what follows would be another's.
    let table = IdTable::parse("5=job:u32").unwrap();
    let huge = (ids::JOB.0, u64::MAX.to_le_bytes().to_vec());
    let (all, counted) = sent(&[value(1, 4), huge, value(2, 4)], &table);
    assert_eq!((all, counted.left_out), (vec![vec![(1, 4)]], 2));
}
