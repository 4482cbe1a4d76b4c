//! Addresses that no other process is given, so that a scheduler that was killed finds its port free again.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::net::{AddressFamily, SocketType};

/// Below the ports that the system gives to whoever asks for any (`net.ipv4.ip_local_port_range`).
const FIRST_PORT: u16 = 20_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// An address on the loopback, all of whose 127.0.0.0/8 is this machine: of this process alone, by its number of at
/// most 22 bits (`kernel.pid_max`), and each time another port.
pub(crate) fn own_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = FIRST_PORT + NEXT.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from(([127, 64 | high, middle, low], port))
}

/// A TCP connection from an address of this machine, such as 127.0.0.9, to the scheduler at `to`.
///
/// # Errors
/// The system's.
pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}
