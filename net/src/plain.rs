//! Receiving datagrams of others, which are not sealed: as many as are there, by one recvmmsg for each batch, at once or not at
//! all. Measured: word of lost datagrams with each one (SO_RXQ_OVFL) is not free, and says nothing of those lost last; the
//! socket's own counter (SO_MEMINFO) is the same one, asked when somebody wants to know.
#![allow(unsafe_code)]

use std::io;
use std::mem::{offset_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use rustix::net::sockopt;

use crate::BATCH;

/// Bytes of a datagram, at most: those of a jumbo frame. A longer one is told as such.
const DATAGRAM_BYTES_MAX: usize = 9_000;
/// From one buffer to the next. Not a multiple of a page, or all buffers' first lines would share a few places of the cache.
const STRIDE: usize = DATAGRAM_BYTES_MAX + 152;
/// What the kernel charges the smallest datagram for, in bytes (measured: 8 MiB hold 10 922 of 44 B).
const DATAGRAM_CHARGE_BYTES: usize = 768;

/// Receives in batches, and never waits. The buffers are its own and are used again.
pub struct PlainReceiver {
    socket: UdpSocket,
    buffers: Box<[u8]>,
    names: Box<[libc::sockaddr_in6]>,
    /// Bytes of each datagram that came; none of one that is too long.
    lengths: Vec<Option<usize>>,
}

impl PlainReceiver {
    /// Receives there.
    ///
    /// # Errors
    /// As the system says: the address is in use, or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        // SAFETY: all zeros is a valid sockaddr_in6.
        let name: libc::sockaddr_in6 = unsafe { zeroed() };
        Ok(Self {
            socket,
            buffers: vec![0; STRIDE * BATCH].into(),
            names: vec![name; BATCH].into(),
            lengths: Vec::with_capacity(BATCH),
        })
    }

    /// What the system gives in place of this many bytes of receive buffer: half of them, or less, are for datagrams' own bytes.
    /// Who is root gets what it asks for, others up to `net.core.rmem_max`.
    pub fn set_buffer(&self, bytes: usize) -> usize {
        // The kernel gives twice what is asked for.
        let half = bytes.div_ceil(2);
        if sockopt::set_socket_recv_buffer_size_force(&self.socket, half).is_err() {
            // A small buffer loses more, which is counted.
            let _ = sockopt::set_socket_recv_buffer_size(&self.socket, half);
        }
        self.buffer()
    }

    /// Bytes of its receive buffer, as the kernel counts them.
    pub fn buffer(&self) -> usize {
        sockopt::socket_recv_buffer_size(&self.socket).unwrap_or(0)
    }

    /// Small datagrams that the receive buffer holds, 1 or more.
    pub fn room(&self) -> usize {
        (self.buffer() / DATAGRAM_CHARGE_BYTES).max(1)
    }

    /// Where it receives.
    ///
    /// # Errors
    /// As the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes what is there, a batch at most, and says how many; fewer than [`BATCH`] where no more are there.
    ///
    /// # Errors
    /// As the system says.
    pub fn receive(&mut self) -> io::Result<usize> {
        self.lengths.clear();
        // SAFETY: all zeros is a valid mmsghdr and a valid iovec: null pointers with length 0.
        let (mut headers, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let buffers = self.buffers.chunks_exact_mut(STRIDE).zip(&mut self.names);
        for ((header, part), (buffer, name)) in headers.iter_mut().zip(&mut parts).zip(buffers) {
            part.iov_base = buffer.as_mut_ptr().cast();
            part.iov_len = DATAGRAM_BYTES_MAX;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        }
        // SAFETY: every pointer in the headers is to a buffer of `self` or of this frame that outlives the
        // call, with its true length.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as _,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        self.lengths.extend(headers[..count as usize].iter().map(|header| {
            let is_whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            is_whole.then_some((header.msg_len as usize).min(DATAGRAM_BYTES_MAX))
        }));
        Ok(self.lengths.len())
    }

    /// The datagrams of the last batch, and who sent them; no bytes of one that is too long.
    pub fn datagrams(&self) -> impl Iterator<Item = (Option<&[u8]>, IpAddr)> {
        let all = self.buffers.chunks_exact(STRIDE).zip(&self.names).zip(&self.lengths);
        all.map(|((buffer, name), length)| (length.map(|length| &buffer[..length]), address(name)))
    }

    /// Datagrams that the receive buffer had no room for since the socket was opened. The counter wraps.
    pub fn dropped(&self) -> u32 {
        const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
        let mut counters = [0_u32; DROPS + 1];
        let mut bytes = size_of_val(&counters) as libc::socklen_t;
        // SAFETY: the descriptor is open; both pointers are to live values, and `bytes` is the true size of the first.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                counters.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        // Linux has it since 4.12.
        if result == 0 { counters[DROPS] } else { 0 }
    }
}

impl AsRawFd for PlainReceiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The address that the kernel wrote, of IPv4 or IPv6.
fn address(name: &libc::sockaddr_in6) -> IpAddr {
    const { assert!(size_of::<libc::sockaddr_in>() <= size_of::<libc::sockaddr_in6>()) };
    const { assert!(offset_of!(libc::sockaddr_in, sin_family) == offset_of!(libc::sockaddr_in6, sin6_family)) };
    if i32::from(name.sin6_family) == libc::AF_INET {
        // SAFETY: the memory is at least as long and as aligned, and any bytes are a valid sockaddr_in.
        let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
        Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr)).into()
    } else {
        Ipv6Addr::from(name.sin6_addr.s6_addr).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (PlainReceiver, UdpSocket) {
        let receiver = PlainReceiver::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.address().unwrap()).unwrap();
        (receiver, sender)
    }

    #[test]
    fn what_is_there_comes_in_batches_with_its_senders_address() {
        let (mut receiver, sender) = pair();
        assert_eq!(receiver.receive().unwrap(), 0, "it does not wait");
        for n in 0..BATCH + 3 {
            sender.send(&vec![n as u8; n]).unwrap();
        }
        sender.send(&vec![1; DATAGRAM_BYTES_MAX]).unwrap();
        sender.send(&vec![2; DATAGRAM_BYTES_MAX + 1]).unwrap();
        assert_eq!(receiver.receive().unwrap(), BATCH);
        for (n, (bytes, from)) in receiver.datagrams().enumerate() {
            assert_eq!((bytes, from), (Some(&vec![n as u8; n][..]), IpAddr::from([127, 0, 0, 1])));
        }
        assert_eq!(receiver.receive().unwrap(), 5);
        let lengths: Vec<_> = receiver.datagrams().map(|(bytes, _)| bytes.map(<[u8]>::len)).collect();
        assert_eq!(lengths, [Some(BATCH), Some(BATCH + 1), Some(BATCH + 2), Some(DATAGRAM_BYTES_MAX), None]);
    }

    #[test]
    fn both_families_are_told_apart() {
        let mut receiver = PlainReceiver::bind("[::1]:0".parse().unwrap()).unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(b"x", receiver.address().unwrap()).unwrap();
        assert_eq!(receiver.receive().unwrap(), 1);
        assert_eq!(receiver.datagrams().next(), Some((Some(&b"x"[..]), Ipv6Addr::LOCALHOST.into())));
    }

    /// The last ones of all are lost, and no later one could tell.
    #[test]
    fn what_the_buffer_had_no_room_for_is_counted_at_once() {
        let (mut receiver, sender) = pair();
        receiver.set_buffer(64 * 1_024);
        let (room, count) = (receiver.room(), 1_000);
        assert!(room < count, "{room}");
        for _ in 0..count {
            sender.send(&[0; 44]).unwrap();
        }
        let mut seen = 0;
        loop {
            match receiver.receive().unwrap() {
                0 => break,
                some => seen += some,
            }
        }
        assert_eq!(seen + receiver.dropped() as usize, count);
        assert!((room / 2..=room * 2).contains(&seen), "{room} said, {seen} held");
    }
}
