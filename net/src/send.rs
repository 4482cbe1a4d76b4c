//! Sending up to a batch of datagrams by one sendmmsg.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};

use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use crate::{BATCH, BUFFER_BYTES};

/// Sends in batches. The buffers are its own and are used again.
pub struct Sender {
    socket: UdpSocket,
    buffers: Vec<[u8; BUFFER_BYTES]>,
    lengths: Vec<usize>,
    names: Vec<SocketAddrAny>,
    waiting: usize,
}

impl Sender {
    /// Sends on `socket`.
    pub fn new(socket: UdpSocket) -> Self {
        let nobody = SocketAddrAny::from(SocketAddr::from(([0, 0, 0, 0], 0)));
        Self {
            socket,
            buffers: vec![[0; BUFFER_BYTES]; BATCH],
            lengths: vec![0; BATCH],
            names: vec![nobody; BATCH],
            waiting: 0,
        }
    }

    /// Adds a datagram for `to`: `write` fills the buffer and says how many bytes; `None` sends nothing.
    /// A full batch goes out at once.
    pub fn push(&mut self, to: SocketAddr, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let Some(length) = write(&mut self.buffers[self.waiting]) else { return };
        self.lengths[self.waiting] = length.min(BUFFER_BYTES);
        self.names[self.waiting] = to.into();
        self.waiting += 1;
        if self.waiting == BATCH {
            self.flush();
        }
    }

    /// Sends what waits. A datagram that the system does not take is lost, as the network loses others:
    /// whoever needs an answer repeats.
    pub fn flush(&mut self) {
        let mut sent = 0;
        while sent < self.waiting {
            match self.send(sent) {
                Ok(count) => sent += count.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // This one cannot be sent (its address is unreachable, say); the others can.
                Err(_) => sent += 1,
            }
        }
        self.waiting = 0;
    }

    fn send(&mut self, first: usize) -> io::Result<usize> {
        let waiting = first..self.waiting;
        let parts: Vec<_> =
            waiting.clone().map(|i| [IoSlice::new(&self.buffers[i][..self.lengths[i]])]).collect();
        let mut controls: Vec<_> = waiting.clone().map(|_| SendAncillaryBuffer::default()).collect();
        let parts = self.names[waiting].iter().zip(&parts).zip(&mut controls);
        let mut messages: Vec<_> =
            parts.map(|((to, part), control)| MMsgHdr::new_with_addr(to, part, control)).collect();
        Ok(sendmmsg(&self.socket, &mut messages, SendFlags::empty())?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Receiver, Sender, bind, receive_buffer_datagrams};

    #[test]
    fn batches_arrive_whole_and_in_order() {
        let local = "127.0.0.1:0".parse().unwrap();
        let (from, to) = (bind(local, Duration::from_secs(5)), bind(local, Duration::from_secs(5)));
        let (from, to) = (from.unwrap(), to.unwrap());
        assert!(receive_buffer_datagrams(&to) >= 64);
        let (address, source) = (to.local_addr().unwrap(), from.local_addr().unwrap());
        let (mut sender, mut receiver) = (Sender::new(from), Receiver::new(to));
        for i in 0..100_u8 {
            sender.push(address, |out| {
                out[..usize::from(i)].fill(i);
                Some(usize::from(i))
            });
        }
        sender.push(address, |_| None);
        sender.flush();
        let mut seen = 0;
        while seen < 100 {
            assert!(receiver.receive().unwrap() > 0, "all of them arrive on loopback");
            for (datagram, from) in receiver.datagrams() {
                assert_eq!((datagram, from), (&vec![seen as u8; seen][..], source));
                seen += 1;
            }
        }
    }

    #[test]
    fn what_the_buffer_has_no_room_for_is_counted() {
        let local = "127.0.0.1:0".parse().unwrap();
        let to = bind(local, Duration::from_secs(5)).unwrap();
        let address = to.local_addr().unwrap();
        let room = receive_buffer_datagrams(&to) as usize;
        let mut sender = Sender::new(bind(local, Duration::from_secs(5)).unwrap());
        for _ in 0..room * 4 {
            sender.push(address, |_| Some(1_400));
        }
        sender.flush();
        let mut receiver = Receiver::new(to);
        let mut seen = 0;
        while receiver.dropped() == 0 {
            seen += receiver.receive().unwrap();
            assert!(seen <= room * 4);
            // The counter rides on datagrams that come after the loss.
            sender.push(address, |_| Some(1));
            sender.flush();
        }
    }
}
