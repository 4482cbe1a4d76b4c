//! Sockets as we want them: a large receive buffer, and word of what it had no room for.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::net::sockopt;

/// Receive buffer that we ask for, in bytes; the kernel gives up to `net.core.rmem_max`.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// What the kernel charges a datagram of our full size for, in bytes (measured: 4 MiB hold 3 640).
const DATAGRAM_CHARGE_BYTES: usize = 2_304;

/// Binds a UDP socket. A receive on it waits at most `wait` at a time.
///
/// # Errors
/// As the system says: the address is in use, or not ours.
pub fn bind(address: SocketAddr, wait: Duration) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // A small buffer is slow, not wrong: credits follow what the kernel gave.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
    let _ = sockopt::set_socket_send_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
    count_overflow(&socket)?;
    socket.set_read_timeout(Some(wait))?;
    Ok(socket)
}

/// Datagrams of our full size that the socket's receive buffer holds, 1 or more.
pub fn receive_buffer_datagrams(socket: &UdpSocket) -> u32 {
    let bytes = sockopt::socket_recv_buffer_size(socket).unwrap_or(0);
    u32::try_from(bytes / DATAGRAM_CHARGE_BYTES).unwrap_or(u32::MAX).max(1)
}

/// Has the system look after a TCP connection: one whose other end is silent is asked after 15 s, and broken when
/// nothing was heard for 30 s. So half of a connection does not stay for ever.
pub fn keep_alive(socket: &impl AsFd) {
    // A system that does not take one keeps its own.
    let _ = [
        sockopt::set_socket_keepalive(socket, true),
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(15)),
        sockopt::set_tcp_keepintvl(socket, Duration::from_secs(5)),
        sockopt::set_tcp_keepcnt(socket, 3),
        sockopt::set_tcp_user_timeout(socket, 30_000),
    ];
}

/// Has the system tell with each datagram how many the socket's buffer had no room for; rustix does not know that one.
fn count_overflow(socket: &UdpSocket) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the pointer is to a live int of the size that is named.
    #[allow(unsafe_code)]
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RXQ_OVFL,
            std::ptr::from_ref(&yes).cast(),
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

    /// docs/protocol.md, "1, hello".
    #[test]
    fn a_receive_buffer_holds_about_as_many_datagrams_as_is_said() {
        let socket = bind("127.0.0.1:0".parse().unwrap(), Duration::from_millis(100)).unwrap();
        let (to, said) = (socket.local_addr().unwrap(), receive_buffer_datagrams(&socket));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2 * said {
            sender.send_to(&[0; 1_400], to).unwrap();
        }
        let held = std::iter::from_fn(|| socket.recv(&mut [0; 1_400]).ok()).count();
        assert!((said as usize..=said as usize * 9 / 8).contains(&held), "{said} are said, {held} are held");
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
