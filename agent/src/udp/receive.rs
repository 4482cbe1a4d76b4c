//! `udp_receive`: values that come by plain datagrams.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use starfarm_agent_core::dimmon::Datagram;
use starfarm_agent_core::{Context, Hook, Peers, Side, Stage, Triples, Word, ids};
use starfarm_net::{BATCH, PlainReceiver};

use super::settings::{Format, Wire, unknown};
use crate::settings::{address, refusal};
use crate::watched::{Next, Watched};

/// Bytes of receive buffer, if nothing else is said, and the most that may be said.
const BUFFER_BYTES: usize = 8 << 20;
const BUFFER_BYTES_MAX: usize = 1 << 30;
/// Batches of a turn: then others have theirs.
const BATCHES_MAX: usize = 64;
/// Who finds fewer datagrams than that waits to be woken.
const QUIET: usize = 8;
/// Pauses between two looks while many come. A look costs as much as 50 datagrams, so: seldom; but no wave, which lasts 100 ms at
/// least, is to miss what came in it.
const PAUSE_US_MIN: u64 = 1_000;
const PAUSE_US_MAX: u64 = 50_000;

/// No input. The output `out` has a message for each datagram. The output `counts` says, whenever one of its timers fires, how
/// many datagrams since its start were taken (`messages`), came from elsewhere (`refused`), could not be read (`malformed`), and
/// found no room in the socket's buffer (`lost`): all that were sent to it, together.
///
/// | setting | means |
/// | --- | --- |
/// | `listen` | address and port: `0.0.0.0:3457` |
/// | `from` | addresses and networks of those that may send, with commas between them; nobody, at first |
/// | `buffer` | bytes of receive buffer, as the kernel counts them: 8 MiB, at first |
/// | `format` | `dimmon`, at first; `triples`: as links have them |
/// | `order` | of bytes in DiMMon's numbers: `host`, at first, `little`, `big` |
/// | `ids` | pairs such as `7=cpu, 8=memory:u32`: DiMMon's id, ours, how its numbers are written |
#[derive(Default)]
pub(super) struct UdpReceive {
    wire: Wire,
    peers: Peers,
    /// Who has sent last, and may.
    last: Option<IpAddr>,
    buffer: Option<usize>,
    // In this order they are dropped.
    watched: Option<Watched>,
    receiver: Option<PlainReceiver>,
    /// What sockets had no room for that are closed.
    lost_before: u64,
    taken: u64,
    refused: u64,
    malformed: u64,
    out: Option<usize>,
    counts: Option<usize>,
    pause_us: u64,
    room: Vec<u8>,
}

impl UdpReceive {
    fn hook(&mut self, hook: Hook<'_>) -> Result<&mut Option<usize>, String> {
        match (hook.side, hook.name) {
            (Side::Output, "out") => Ok(&mut self.out),
            (Side::Output, "counts") => Ok(&mut self.counts),
            (Side::Output, _) => Err("`udp_receive` has the outputs `out` and `counts`".into()),
            (Side::Input, _) => Err("`udp_receive` has no input: its values come by the network".into()),
        }
    }

    fn lost(&self) -> u64 {
        self.lost_before + self.receiver.as_ref().map_or(0, |receiver| receiver.dropped().into())
    }

    fn listen(&mut self, value: &str, context: &Context<'_>) -> Result<(), String> {
        let address = address("listen", value)?;
        // The one before may have the port.
        self.lost_before = self.lost();
        (self.watched, self.receiver) = (None, None);
        let receiver =
            PlainReceiver::bind(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
        receiver.set_buffer(self.buffer.unwrap_or(BUFFER_BYTES));
        self.watched = Some(Watched::new(receiver.as_raw_fd(), context.number())?);
        self.receiver = Some(receiver);
        Ok(())
    }

    /// Takes what is there.
    fn look(&mut self, context: &mut Context<'_>) {
        let Some(mut receiver) = self.receiver.take() else { return };
        let (mut came, mut is_all) = (0, false);
        for _ in 0..BATCHES_MAX {
            // An error of the socket, such as no memory, is over after a moment or counted by the system as lost.
            let count = receiver.receive().unwrap_or(0);
            for (bytes, from) in receiver.datagrams() {
                self.take(bytes, from, context);
            }
            came += count;
            if count < BATCH {
                is_all = true;
                break;
            }
        }
        let next = self.next(came, is_all, receiver.room());
        self.watched.iter().for_each(|watched| watched.next(next));
        self.receiver = Some(receiver);
    }

    /// When to look again: while many come, as seldom as the buffer allows.
    fn next(&mut self, came: usize, is_all: bool, room: usize) -> Next {
        if came < QUIET {
            return Next::WhenReadable;
        }
        let pause_us = match came {
            many if many > room / 8 => self.pause_us / 2,
            few if few < room / 16 => self.pause_us * 2,
            _ => self.pause_us,
        };
        self.pause_us = pause_us.clamp(PAUSE_US_MIN, PAUSE_US_MAX);
        Next::After(if is_all { self.pause_us } else { 0 })
    }

    fn take(&mut self, bytes: Option<&[u8]>, from: IpAddr, context: &mut Context<'_>) {
        if self.last != Some(from) {
            if !self.peers.has(from) {
                self.refused += 1;
                return;
            }
            self.last = Some(from);
        }
        let is_read = bytes.is_some_and(|bytes| match self.wire.format {
            Format::Dimmon => self.dimmon(bytes, context),
            Format::Triples => self.triples(bytes, context),
        });
        if is_read {
            self.taken += 1;
        } else {
            self.malformed += 1;
        }
    }

    /// Passes on what DiMMon's datagram says; false where it is none.
    fn dimmon(&mut self, bytes: &[u8], context: &mut Context<'_>) -> bool {
        let Wire { order, ids, .. } = &self.wire;
        let Ok(datagram) = Datagram::read(bytes, *order) else { return false };
        if let Some(out) = self.out {
            let room = &mut self.room;
            context.emit(out, |message| {
                for value in datagram {
                    let (id, value) = ids.ours(value, *order, room);
                    message.put(id, value);
                }
            });
        }
        true
    }

    fn triples(&self, bytes: &[u8], context: &mut Context<'_>) -> bool {
        let Ok(triples) = Triples::read(bytes) else { return false };
        if let Some(out) = self.out {
            context.emit(out, |message| message.put_all(triples));
        }
        true
    }
}

impl Stage for UdpReceive {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        let port = hook.port;
        *self.hook(hook)? = Some(port);
        Ok(())
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        self.hook(hook).into_iter().for_each(|port| *port = None);
    }

    fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
        match word {
            Word::Ready => self.look(context),
            Word::Fired(_) => {
                let said = [
                    (ids::MESSAGES, self.taken),
                    (ids::REFUSED, self.refused),
                    (ids::MALFORMED, self.malformed),
                    (ids::LOST, self.lost()),
                ];
                if let Some(counts) = self.counts {
                    context.emit(counts, |message| {
                        said.into_iter().for_each(|(id, count)| message.put_number(id, count));
                    });
                }
            }
            Word::Set { key, value } => match key.as_str() {
                "listen" => self.listen(value, context)?,
                "from" => (self.peers, self.last) = (Peers::parse(value)?, None),
                "buffer" => {
                    let bytes = value.parse().ok().filter(|bytes| (1..=BUFFER_BYTES_MAX).contains(bytes));
                    let bytes = bytes.ok_or_else(|| refusal(key, value, "bytes, from 1 to 1073741824"))?;
                    self.buffer = Some(bytes);
                    if let Some(receiver) = &self.receiver {
                        receiver.set_buffer(bytes);
                    }
                }
                _ if self.wire.set(key, value)? => {}
                _ => return Err(unknown("udp_receive", key, "`listen`, `from`, `buffer`")),
            },
            Word::WaveIsOver => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use starfarm_agent_core::{Order, Who};

    use super::*;
    use crate::measure::Graph;
    use crate::watched;

    #[test]
    fn who_gets_many_looks_as_seldom_as_the_buffer_allows() {
        let (mut stage, room) = (UdpReceive::default(), 8_000);
        assert_eq!(stage.next(QUIET - 1, true, room), Next::WhenReadable);
        let pauses = [50, 50, 50, 50].map(|came| stage.next(came, true, room));
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000].map(Next::After));
        assert_eq!(stage.next(700, true, room), Next::After(8_000), "as much as it should be");
        assert_eq!(stage.next(1_100, true, room), Next::After(4_000));
        assert_eq!(stage.next(4_096, false, room), Next::After(0), "there is more");
        for _ in 0..9 {
            stage.next(50, true, room);
        }
        assert_eq!(stage.next(50, true, room), Next::After(PAUSE_US_MAX));
        for _ in 0..9 {
            stage.next(4_000, true, room);
        }
        assert_eq!(stage.next(4_000, true, room), Next::After(PAUSE_US_MIN));
    }

    #[test]
    fn a_stage_that_ends_or_listens_elsewhere_gives_its_port_back() {
        let mut graph = Graph::new().unwrap();
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (first, second) = (free(), free());
        let tell = |graph: &mut Graph, key: &str, value: String| {
            let word = Word::Set { key: key.into(), value };
            graph.runtime.order(Order::Tell(Who::from("in"), word), 0).unwrap();
        };
        let create = Order::Create { type_name: "udp_receive".into(), name: Some("in".into()) };
        graph.runtime.order(create, 0).unwrap();
        assert_eq!(watched::due_us(), None, "it listens nowhere");
        tell(&mut graph, "listen", first.to_string());
        assert_eq!(watched::due_us(), Some(0));
        assert!(UdpSocket::bind(first).is_err());
        // Once it has looked it is woken by the socket.
        graph.turn(Duration::ZERO).unwrap();
        assert_eq!(watched::due_us(), None);
        tell(&mut graph, "listen", second.to_string());
        drop(UdpSocket::bind(first).unwrap());
        graph.runtime.order(Order::End(Who::from("in")), 0).unwrap();
        assert_eq!(watched::due_us(), None);
        drop(UdpSocket::bind(second).unwrap());
        graph.turn(Duration::ZERO).unwrap();
    }
}
