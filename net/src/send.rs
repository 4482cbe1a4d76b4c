//! Sending up to a batch of datagrams by one sendmmsg.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::address::to_kernel;
use crate::{BATCH, BUFFER_BYTES};

/// Sends in batches. The buffers are its own and are used again.
pub struct Sender {
    socket: UdpSocket,
    buffers: Vec<[u8; BUFFER_BYTES]>,
    lengths: Vec<usize>,
    names: Vec<(libc::sockaddr_storage, libc::socklen_t)>,
    waiting: usize,
}

impl Sender {
    /// Sends on `socket`.
    pub fn new(socket: UdpSocket) -> Self {
        let nobody = to_kernel(SocketAddr::from(([0, 0, 0, 0], 0)));
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
        self.names[self.waiting] = to_kernel(to);
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
        // SAFETY: all zeros is a valid mmsghdr and a valid iovec: null pointers with length 0.
        let (mut headers, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let waiting = first..self.waiting;
        let count = waiting.len();
        for ((i, header), part) in waiting.zip(&mut headers).zip(&mut parts) {
            part.iov_base = self.buffers[i].as_mut_ptr().cast();
            part.iov_len = self.lengths[i];
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut self.names[i].0).cast();
            header.msg_hdr.msg_namelen = self.names[i].1;
        }
        // SAFETY: every pointer in the headers is to a buffer of `self` or of this frame that outlives the
        // call, with its true length.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count as _, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
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
