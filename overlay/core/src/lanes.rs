//! What waits to leave by a link, in four lanes. A more urgent lane goes first, and each is bounded.

use std::collections::VecDeque;

/// A lane, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// What somebody must know: 64 KiB. What does not fit is said again by who raised it.
    Alarm,
    /// What keeps the tree up: 256 KiB. A neighbour that lets so much wait does not read: the link is of no use.
    Control,
    /// What all wait for together: 4 MiB. Who would send more waits.
    Collective,
    /// Values: 1 MiB. What has no room waits with who has measured it.
    Data,
}

const LANES: usize = 4;
/// Bytes that a lane holds, at most; one record fits into an empty lane whatever its length.
const ROOM: [usize; LANES] = [64 << 10, 256 << 10, 4 << 20, 1 << 20];

/// There is no room in the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// All four lanes of a link.
#[derive(Default, Debug)]
pub struct Lanes {
    lanes: [VecDeque<Vec<u8>>; LANES],
    bytes: [usize; LANES],
}

impl Lanes {
    /// Puts a record at the end of a lane.
    ///
    /// # Errors
    /// It has no room.
    pub fn put(&mut self, lane: Lane, record: Vec<u8>) -> Result<(), Full> {
        let at = lane as usize;
        if record.len() > self.room(lane) {
            return Err(Full);
        }
        self.bytes[at] += record.len();
        self.lanes[at].push_back(record);
        Ok(())
    }

    /// Bytes of the longest record that a lane has room for.
    pub fn room(&self, lane: Lane) -> usize {
        let at = lane as usize;
        if self.lanes[at].is_empty() { usize::MAX } else { ROOM[at].saturating_sub(self.bytes[at]) }
    }

    /// Takes the record that goes next.
    pub fn take_next(&mut self) -> Option<Vec<u8>> {
        (0..LANES).find_map(|at| self.take(at))
    }

    fn take(&mut self, at: usize) -> Option<Vec<u8>> {
        let record = self.lanes[at].pop_front()?;
        self.bytes[at] -= record.len();
        Some(record)
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_urgent_goes_first_and_each_lane_keeps_its_order() {
        let mut lanes = Lanes::default();
        for (lane, what) in [
            (Lane::Data, "d1"),
            (Lane::Collective, "c1"),
            (Lane::Data, "d2"),
            (Lane::Control, "b1"),
            (Lane::Alarm, "a1"),
            (Lane::Alarm, "a2"),
        ] {
            lanes.put(lane, what.into()).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| lanes.take_next())
            .map(|record| String::from_utf8(record).unwrap())
            .collect();
        assert_eq!(order, ["a1", "a2", "b1", "c1", "d1", "d2"]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn lanes_refuse_what_does_not_fit() {
        let rooms = [64 << 10, 256 << 10, 4 << 20, 1 << 20];
        let lanes = [Lane::Alarm, Lane::Control, Lane::Collective, Lane::Data];
        for (lane, room) in lanes.into_iter().zip(rooms) {
            let mut lanes = Lanes::default();
            lanes.put(lane, vec![0; room - 1]).unwrap();
            assert_eq!(lanes.put(lane, vec![0; 2]), Err(Full), "{lane:?}");
            assert_eq!(lanes.put(lane, vec![0; 1]), Ok(()), "{lane:?}");
            assert_eq!(lanes.take_next().unwrap().len(), room - 1);
            assert_eq!(lanes.put(lane, vec![0; 2]), Ok(()));
            lanes.take_next();
            lanes.take_next();
            assert_eq!(
                (lanes.room(lane), lanes.put(lane, vec![0; 2 * room])),
                (usize::MAX, Ok(())),
                "one goes alone"
            );
        }
    }
}
