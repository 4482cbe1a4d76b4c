//! Datagrams from one end to the other: cut to what is known of the path, onto the network, opened.

use starfarm_protocol::limits::SEAL_BYTES;
use starfarm_protocol::path::Heard;

use crate::agenda::{Letter, MachineId, Session, What};
use crate::narrow::HEADER_BYTES;
use crate::network::Way;
use crate::sim::Sim;

impl Sim {
    /// A datagram goes onto the network.
    fn post(&mut self, machine: MachineId, way: Way, session: Session, bytes: Vec<u8>) {
        self.tally.datagrams[way as usize] += 1;
        let size = bytes.len() + SEAL_BYTES + HEADER_BYTES;
        self.tally.bytes[way as usize] += size as u64;
        self.log.word(self.now_us ^ u64::from(machine) << 48);
        self.log.bytes(&bytes);
        if self.paths.swallows(machine, size) {
            return;
        }
        let mut bytes = Some(bytes);
        let delays = self.network.fate(machine, way);
        let copies = delays.iter().flatten().count();
        for (sent, delay_us) in (1..).zip(delays.into_iter().flatten()) {
            let copy = if sent == copies { bytes.take() } else { bytes.clone() };
            let parcel = self.agenda.post(Letter { bytes: copy.unwrap_or_default(), session });
            let what = match way {
                Way::Up => What::Arrive(machine, parcel),
                Way::Down => What::Deliver(machine, parcel),
            };
            self.agenda.at(self.now_us + delay_us, what);
        }
    }

    /// Sends a datagram, in pieces where it is too long for what its end knows of the path.
    pub(crate) fn send(&mut self, machine: MachineId, way: Way, to: Session, bytes: Vec<u8>) {
        let Some(path) = self.paths.end(machine, way) else { return self.post(machine, way, to, bytes) };
        let mut pieces = Vec::new();
        path.cut(&bytes, |piece| pieces.push(piece.to_vec()));
        pieces.into_iter().for_each(|piece| self.post(machine, way, to, piece));
    }

    /// What was opened at the end that sends by `way`: messages, or nothing but the path's own business. While the
    /// other end is heard it is asked about the path.
    pub(crate) fn opened(
        &mut self,
        machine: MachineId,
        way: Way,
        to: Session,
        bytes: Vec<u8>,
        now_us: u64,
    ) -> Option<Vec<u8>> {
        let Some(path) = self.paths.end(machine, way) else { return Some(bytes) };
        let (heard, probe) = (path.hear(&bytes, now_us), path.probe(now_us));
        let (messages, answer) = match heard {
            Heard::Messages => (Some(bytes), None),
            Heard::Whole(whole) => (Some(whole), None),
            Heard::Probe(answer) => (None, Some(answer)),
            Heard::Nothing => (None, None),
        };
        answer.into_iter().chain(probe).for_each(|bytes| self.post(machine, way, to, bytes));
        messages
    }
}
