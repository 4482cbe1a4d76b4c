//! Sockets as we want them: a large receive buffer, and word of what it had no room for.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Receive buffer that we ask for, in bytes; the kernel gives up to `net.core.rmem_max`.
const RECEIVE_BUFFER_BYTES: libc::c_int = 4 << 20;
/// What the kernel charges a datagram of our full size for, in bytes (measured: 4 MiB hold 3 640).
const DATAGRAM_CHARGE_BYTES: u32 = 2_304;

/// Binds a UDP socket. A receive on it waits at most `wait` at a time.
///
/// # Errors
/// As the system says: the address is in use, or not ours.
pub fn bind(address: SocketAddr, wait: Duration) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // A small buffer is slow, not wrong: credits follow what the kernel gave.
    let _ = set(&socket, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES);
    let _ = set(&socket, libc::SO_SNDBUF, RECEIVE_BUFFER_BYTES);
    set(&socket, libc::SO_RXQ_OVFL, 1)?;
    socket.set_read_timeout(Some(wait))?;
    Ok(socket)
}

/// Datagrams of our full size that the socket's receive buffer holds, 1 or more.
pub fn receive_buffer_datagrams(socket: &UdpSocket) -> u32 {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and both pointers are to live values of the sizes that are named.
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            std::ptr::from_mut(&mut bytes).cast(),
            &raw mut length,
        )
    };
    let bytes = if result == 0 { bytes.unsigned_abs() } else { 0 };
    (bytes / DATAGRAM_CHARGE_BYTES).max(1)
}

/// Has the system look after a TCP connection: one whose other end is silent is asked after 15 s, and broken when
/// nothing was heard for 30 s. So half of a connection does not stay for ever.
pub fn keep_alive(socket: &impl AsRawFd) {
    let ours = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 15),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 30_000),
    ];
    for (level, option, value) in ours {
        // A system that does not take one keeps its own.
        let _ = set_at(socket, level, option, value);
    }
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_at(socket, libc::SOL_SOCKET, option, value)
}

fn set_at(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the pointer is to a live int of the size that is named.
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn option(socket: &TcpStream, level: libc::c_int, option: libc::c_int) -> libc::c_int {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        let out = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the descriptor is open; both pointers are to live values, the length is that of the value.
        #[allow(unsafe_code)]
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, out, &raw mut length) };
        assert_eq!(result, 0);
        value
    }

    #[test]
    fn a_connection_whose_other_end_has_gone_is_noticed_within_half_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 0);
        keep_alive(&socket);
        assert_ne!(option(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE), 0);
        let tcp = |name| option(&socket, libc::IPPROTO_TCP, name);
        // The other end is asked so late, and then so often at such intervals.
        assert_eq!(tcp(libc::TCP_KEEPIDLE) + tcp(libc::TCP_KEEPINTVL) * tcp(libc::TCP_KEEPCNT), 30);
        assert_eq!(tcp(libc::TCP_USER_TIMEOUT), 30_000);
    }
}
