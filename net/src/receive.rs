//! Receiving up to a batch of datagrams by one recvmmsg.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use rustix::net::SocketAddrAny;

use crate::{BATCH, BUFFER_BYTES};

/// Room for one control message with a u32: the overflow counter.
const CONTROL_BYTES: usize = 64;

/// Receives in batches. The buffers are its own and are used again.
pub struct Receiver {
    socket: UdpSocket,
    buffers: Vec<[u8; BUFFER_BYTES]>,
    controls: Vec<[u64; CONTROL_BYTES / 8]>,
    names: Vec<libc::sockaddr_storage>,
    lengths: Vec<usize>,
    received: usize,
    dropped: u32,
}

impl Receiver {
    /// Receives on `socket`.
    pub fn new(socket: UdpSocket) -> Self {
        // SAFETY: all zeros is a valid sockaddr_storage.
        let name: libc::sockaddr_storage = unsafe { zeroed() };
        Self {
            socket,
            buffers: vec![[0; BUFFER_BYTES]; BATCH],
            controls: vec![[0; CONTROL_BYTES / 8]; BATCH],
            names: vec![name; BATCH],
            lengths: vec![0; BATCH],
            received: 0,
            dropped: 0,
        }
    }

    /// Waits for datagrams, takes what is there, and says how many. 0 where none came in time.
    ///
    /// # Errors
    /// As the system says. That a peer's port is closed (ECONNREFUSED) is no error of ours.
    pub fn receive(&mut self) -> io::Result<usize> {
        self.received = 0;
        // SAFETY: all zeros is a valid mmsghdr and a valid iovec: null pointers with length 0.
        let (mut headers, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        for (i, (header, part)) in headers.iter_mut().zip(&mut parts).enumerate() {
            part.iov_base = self.buffers[i].as_mut_ptr().cast();
            part.iov_len = BUFFER_BYTES;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut self.names[i]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_control = self.controls[i].as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: every pointer in the headers is to a buffer of `self` or of this frame that outlives the
        // call, with its true length.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as _,
                libc::MSG_WAITFORONE as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionRefused => Ok(0),
                _ => Err(error),
            };
        }
        self.received = count as usize;
        for (i, header) in headers[..self.received].iter().enumerate() {
            self.lengths[i] = (header.msg_len as usize).min(BUFFER_BYTES);
            if let Some(dropped) = overflow(&header.msg_hdr) {
                self.dropped = dropped;
            }
        }
        Ok(self.received)
    }

    /// The datagrams of the last batch, and who sent them.
    pub fn datagrams(&self) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        (0..self.received).filter_map(|i| Some((&self.buffers[i][..self.lengths[i]], self.from(i)?)))
    }

    /// Who sent it, by IPv4 or IPv6.
    fn from(&self, i: usize) -> Option<SocketAddr> {
        let length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: the storage is as long as that, and holds zeros or an address that the kernel wrote.
        let address = unsafe { SocketAddrAny::read((&raw const self.names[i]).cast(), length) };
        address.try_into().ok()
    }

    /// Datagrams that the socket's buffer had no room for, since it was opened (the counter wraps).
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

fn overflow(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel has filled the header's control buffer and its length; the CMSG functions stay
    // within both, and the data of an SO_RXQ_OVFL message is a u32, read without alignment.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_SOCKET && (*message).cmsg_type == libc::SO_RXQ_OVFL {
                return Some(libc::CMSG_DATA(message).cast::<u32>().read_unaligned());
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}
