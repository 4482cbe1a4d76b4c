//! Addresses that no other process is given, so that a scheduler that was killed finds its port free again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};

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
