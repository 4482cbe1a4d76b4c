//! Every byte of a batch flipped; batches of others; batches of releases before.

use super::*;
use crate::ids::ContentHash;
use crate::wire::{FailReason, Outputs};

const OF: (Attempt, NodeId) = (Attempt(7), NodeId(3));

fn owner() -> Owner {
    Owner::new(FarmId([6; 16]), JobId(1))
}

fn units() -> Vec<(u128, CommandUnit)> {
    let unit = |unit: u128| {
        let stderr = Stream::Uploaded { hash: ContentHash([5; 32]), kept: 6, total: 7 };
        let stdout = Stream::Inline(vec![unit as u8; unit as usize * 9]);
        let failed = (unit == 2).then_some(FailReason::Exit);
        (
            unit,
            CommandUnit {
                units: 1,
                failed,
                code: 0,
                duration_us: 1,
                outputs: Outputs { files: None, stdout, stderr },
            },
        )
    };
    (0..5).map(unit).collect()
}

fn batch(owner: &Owner) -> Batch {
    owner.batch(&owner.label(12, Kind::Outputs, 5, 5)).unwrap()
}

fn whole(pieces: &[Piece]) -> Vec<u128> {
    let unit = |piece: &Piece| match piece {
        Piece::Whole(stored) => Some(stored.unit),
        Piece::Damaged(_) => None,
    };
    pieces.iter().filter_map(unit).collect()
}

#[test]
fn outputs_come_back_as_they_were() {
    let (body, cut) = owner().body(12, OF, &units());
    let pieces = owner().outputs(&batch(&owner()), &body, true);
    let stored = |(unit, outcome)| Piece::Whole(Stored { unit, attempt: OF.0, node: OF.1, outcome });
    assert_eq!((pieces, cut), (units().into_iter().map(stored).collect(), 5));
    for kind in [Kind::Again, Kind::Vain] {
        let batch = owner().batch(&owner().label(9, kind, 0, 0)).unwrap();
        assert_eq!((batch.kind, batch.sequence), (kind, 9));
    }
    assert_eq!(intervals(&intervals_body(&[(1, 2), (5, u128::MAX)])), [(1, 2), (5, u128::MAX)]);
}

#[test]
fn a_flipped_bit_costs_the_output_that_it_is_in_and_no_other() {
    let (body, _) = owner().body(12, OF, &units());
    let mut named = 0;
    for bit in 0..body.len() * 8 {
        let mut damaged = body.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let pieces = owner().outputs(&batch(&owner()), &damaged, false);
        assert_eq!((pieces.len(), whole(&pieces).len()), (5, 4), "bit {bit}");
        named += pieces.iter().filter(|piece| matches!(piece, Piece::Damaged(Some(0..5)))).count();
    }
    assert!(named > body.len() * 7, "mostly it can be said which one it is: {named}");
}

#[test]
fn a_batch_that_is_cut_or_has_pieces_of_itself_swapped_keeps_what_is_whole() {
    let (body, _) = owner().body(12, OF, &units());
    for end in 0..body.len() {
        let pieces = owner().outputs(&batch(&owner()), &body[..end], false);
        assert!(whole(&pieces).iter().copied().eq(0..whole(&pieces).len() as u128), "{end}");
    }
    let other = owner().body(13, OF, &units()).0;
    assert!(whole(&owner().outputs(&batch(&owner()), &other, true)).is_empty(), "of another record");
}

#[test]
fn a_batch_of_another_job_or_farm_is_none() {
    let others = [Owner::new(FarmId([6; 16]), JobId(2)), Owner::new(FarmId([7; 16]), JobId(1))];
    for other in others {
        assert_eq!(owner().batch(&other.label(12, Kind::Outputs, 5, 0)), None);
        // As if the label alone had been mended.
        let (body, _) = other.body(12, OF, &units());
        assert!(whole(&owner().outputs(&batch(&owner()), &body, true)).is_empty());
    }
    let mut label = owner().label(12, Kind::Outputs, 5, 0);
    label[24] = 6;
    assert_eq!(owner().batch(&label), None, "a kind of a newer release");
}

#[test]
fn what_a_release_before_wrote_is_read_where_its_checksum_fits() {
    let mut body = Vec::new();
    for (unit, outcome) in units() {
        let mut bytes = unit.to_le_bytes().to_vec();
        bytes.extend_from_slice(&OF.0.0.to_le_bytes());
        bytes.extend_from_slice(&OF.1.0.to_le_bytes());
        outcome.write(&mut bytes);
        body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        body.extend_from_slice(&bytes);
    }
    for (mark, is_ours) in [(0, true), (2, true), (3, false)] {
        let words = [12, 5, 0, mark << 8].map(u64::to_le_bytes);
        let label: Label = words.concat().try_into().unwrap();
        let batch = owner().batch(&label);
        assert_eq!(batch.is_some(), is_ours, "{mark}");
        let Some(batch) = batch else { continue };
        assert_eq!(whole(&owner().outputs(&batch, &body, true)), [0, 1, 2, 3, 4]);
        assert_eq!(owner().outputs(&batch, &body, false), vec![Piece::Damaged(None); 5]);
    }
}
