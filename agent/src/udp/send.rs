//! `udp_send`: values that leave by plain datagrams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use starfarm_agent_core::dimmon::{Counted, DATAGRAM_BYTES_MAX, Datagrams};
use starfarm_agent_core::{Context, Hook, Stage, Triples, Word};

use super::settings::{Format, Wire, unknown};
use crate::counts::Counts;
use crate::settings::address;

/// Any number of inputs. Each message leaves at once as a datagram, or several if it is long; nobody says whether they arrive. The
/// output `counts` says, whenever one of its timers fires, how many have left since its start (`messages`) and how many the
/// system did not take (`lost`). Values that no datagram can have are counted as not taken.
///
/// | setting | means |
/// | --- | --- |
/// | `to` | address and port: `10.0.0.9:3457` |
/// | `format`, `order`, `ids` | as `udp_receive` has them |
#[derive(Default)]
pub(super) struct UdpSend {
    wire: Wire,
    to: Option<(UdpSocket, SocketAddr)>,
    datagrams: Datagrams,
    sent: u64,
    lost: u64,
    counts: Counts,
}

/// A socket that sends there, and never waits.
fn open(to: SocketAddr) -> Result<UdpSocket, String> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.map_err(|error| format!("there is no socket to send to {to}: {error}"))
}

impl UdpSend {
    fn send(&mut self, values: Triples<'_>, context: &mut Context<'_>) {
        let Self { to, wire, datagrams, sent, lost, .. } = self;
        let Some((socket, to)) = to else {
            context.not_taken(values.into_iter().count() as u64);
            return;
        };
        let mut send = |bytes: &[u8]| {
            let count = if socket.send_to(bytes, *to).is_ok() { &mut *sent } else { &mut *lost };
            *count += 1;
        };
        let Counted { left_out, .. } = match wire.format {
            Format::Dimmon => datagrams.write(values, &wire.ids, wire.order, send),
            Format::Triples if values.bytes().len() > DATAGRAM_BYTES_MAX => {
                Counted { left_out: values.into_iter().count() as u64, ..Counted::default() }
            }
            Format::Triples => {
                send(values.bytes());
                Counted::default()
            }
        };
        context.not_taken(left_out);
    }
}

impl Stage for UdpSend {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        self.counts.edge_made("udp_send", hook)
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.counts.edge_gone(hook);
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        self.send(values, context);
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Fired(_) => self.counts.tell((self.sent, self.lost), context),
            Word::Set { key, value } if key == "to" => {
                let to = address(key, value)?;
                self.to = Some((open(to)?, to));
            }
            Word::Set { key, value } if self.wire.set(key, value)? => {}
            Word::Set { key, .. } => return Err(unknown("udp_send", key, "`to`")),
            Word::Ready | Word::WaveIsOver => {}
        }
        Ok(())
    }
}
