//! Where an agent takes links of others: at a port that is free, of those that may be taken. And as whom it calls others.

use std::io;
use std::net::TcpListener;

use starfarm_overlay::Reactor;
use starfarm_protocol::ids::{Boot, Epoch};
use starfarm_protocol::orders::Ancestor;
use starfarm_protocol::seal::packet::Mode;
use starfarm_protocol::seal::{Introduction, Responder, SealError, StaticKey};

use crate::words::Begin;

/// There are no random numbers.
pub(crate) fn random(error: SealError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Takes links: the port.
///
/// # Errors
/// The system's, or no port is free.
pub(crate) fn listen(reactor: &mut Reactor, begin: &Begin, key: &StaticKey) -> io::Result<u16> {
    let (listener, mode) = (socket(begin.ports)?, Mode { stream: true, ..Mode::default() });
    let port = listener.local_addr()?.port();
    let secret = StaticKey::generate().map_err(random)?.private().0;
    reactor.listen(listener, Responder::new(key.clone(), begin.farm, Epoch(0), mode, secret))?;
    Ok(port)
}

/// As whom a post calls another.
pub(crate) fn introduction<'a>(key: &'a StaticKey, called: &'a Ancestor, name: &'a str) -> Introduction<'a> {
    Introduction {
        key,
        scheduler: &called.key,
        join_secret: &called.secret,
        name,
        boot: Boot(0),
        mode: Mode { stream: true, ..Mode::default() },
    }
}

fn socket(ports: Option<(u16, u16)>) -> io::Result<TcpListener> {
    let at = |port| TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
    let Some((first, last)) = ports else { return at(0) };
    let mut all = (first..=last).map(at);
    let taken = || Err(io::Error::other(format!("no port from {first} to {last} is free")));
    all.find(Result::is_ok).unwrap_or_else(taken)
}
