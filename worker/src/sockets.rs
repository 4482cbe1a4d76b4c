//! The UDP sockets, one for each family of addresses that is needed, and the threads that receive on them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crossbeam_channel::Sender as Inbox;
use starfarm_net::{Receiver, Sender, bind, receive_buffer_datagrams};

use crate::event::Event;

/// How long a receive waits before it looks whether anybody still listens.
const WAIT: Duration = Duration::from_millis(500);

pub(crate) struct Sockets {
    inbox: Inbox<Event>,
    loopback: bool,
    v4: Option<Sender>,
    v6: Option<Sender>,
}

impl Sockets {
    /// No socket yet. `loopback`: bind to loopback only.
    pub(crate) fn new(inbox: Inbox<Event>, loopback: bool) -> Self {
        Self { inbox, loopback, v4: None, v6: None }
    }

    /// Datagrams that a receive buffer holds here, for the hello.
    pub(crate) fn receive_datagrams_max(&self) -> io::Result<u16> {
        let socket =
            bind(any(false, self.loopback), WAIT).or_else(|_| bind(any(true, self.loopback), WAIT))?;
        Ok(u16::try_from(receive_buffer_datagrams(&socket)).unwrap_or(u16::MAX))
    }

    /// The sender that reaches `to`, made with its receiving thread when it is first asked for.
    pub(crate) fn to(&mut self, to: SocketAddr) -> io::Result<&mut Sender> {
        let slot = if to.is_ipv6() { &mut self.v6 } else { &mut self.v4 };
        if slot.is_none() {
            let socket = bind(any(to.is_ipv6(), self.loopback), WAIT)?;
            let receiver = Receiver::new(socket.try_clone()?);
            let inbox = self.inbox.clone();
            std::thread::Builder::new().name("receive".into()).spawn(move || receive(receiver, &inbox))?;
            *slot = Some(Sender::new(UdpSocket::try_clone(&socket)?));
        }
        slot.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    pub(crate) fn flush(&mut self) {
        [&mut self.v4, &mut self.v6].into_iter().flatten().for_each(Sender::flush);
    }
}

fn any(v6: bool, loopback: bool) -> SocketAddr {
    match (v6, loopback) {
        (false, false) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        (false, true) => (Ipv4Addr::LOCALHOST, 0).into(),
        (true, false) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        (true, true) => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// Receives until nobody listens any more. An error of the socket is survived: the network may come back.
fn receive(mut receiver: Receiver, inbox: &Inbox<Event>) {
    loop {
        let sent = match receiver.receive() {
            Ok(0) => inbox.send(Event::Nothing),
            Ok(_) => {
                let datagrams = receiver.datagrams().map(|(datagram, from)| (datagram.to_vec(), from));
                inbox.send(Event::Datagrams(datagrams.collect()))
            }
            Err(_) => {
                std::thread::sleep(WAIT);
                inbox.send(Event::Nothing)
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
