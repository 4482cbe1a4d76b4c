//! `starfarm bench udp`: what a datagram costs an agent that takes it, and how many of them are lost. A process of its own sends;
//! this one is the agent.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use starfarm_agent::measure::{Received, UdpStage};
use starfarm_agent_core::ValueId;
use starfarm_agent_core::dimmon::{ByteOrder, datagram};

use crate::cli::Udp;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::interrupt::Signals;
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};

/// The sender sends what is due so often.
const TICK: Duration = Duration::from_millis(1);
/// Datagrams of one call, at most: one that has fallen behind does not send all at once.
const BURST_MAX: u64 = 2_048;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Report {
    /// Datagrams a second that were asked for.
    pub(crate) rate: u32,
    /// The time for which the sender has sent.
    pub(crate) seconds: f64,
    /// Datagrams that it has sent.
    pub(crate) offered: u64,
    /// Datagrams that the stage has taken.
    pub(crate) received: u64,
    /// The others.
    pub(crate) lost: u64,
    /// Those of the others that were counted as lost, refused or malformed.
    pub(crate) lost_counted: u64,
    /// Processor time of the stage's thread for each one taken, in microseconds.
    pub(crate) cpu_us_per_packet: f64,
    /// Processor time of that thread, in parts of a core.
    pub(crate) cpu_cores: f64,
    /// Values that a mean was made of; 0 without `--mean`.
    pub(crate) values_summed: u64,
}

/// What the sender says at its end.
struct Sent {
    datagrams: u64,
    seconds: f64,
}

pub(crate) fn run(context: &mut Context, udp: &Udp) -> Result<(), Failure> {
    if let Some(to) = udp.to {
        let sent = send(udp, to).map_err(|error| failure("cannot send", &error))?;
        return context.printer.line(&format!("{} {}", sent.datagrams, sent.seconds));
    }
    let report = measure(udp, &Signals::count()?)?;
    context.printer.document(&report)
}

fn failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{what}: {error}"))
}

fn measure(udp: &Udp, signals: &Signals) -> Result<Report, Failure> {
    let buffer = udp.buffer.map(|bytes| bytes as usize);
    let ids = if udp.mean { udp.values.into() } else { 0 };
    let stage = UdpStage::new(buffer, ids).map_err(|error| failure("cannot receive", &error))?;
    let mut sender = Sender::start(udp, stage.address())?;
    let received = stage.run(|| signals.check().is_err() || sender.has_ended());
    let received = received.map_err(|error| failure("cannot receive", &error))?;
    signals.check()?;
    Ok(report(udp, &sender.sent()?, &received))
}

fn report(udp: &Udp, sent: &Sent, received: &Received) -> Report {
    let Received { messages, refused, malformed, lost, values, cpu_seconds, seconds, .. } = *received;
    Report {
        rate: udp.rate,
        seconds: sent.seconds,
        offered: sent.datagrams,
        received: messages,
        lost: sent.datagrams.saturating_sub(messages),
        lost_counted: lost + refused + malformed,
        cpu_us_per_packet: cpu_seconds * 1e6 / messages.max(1) as f64,
        cpu_cores: cpu_seconds / seconds,
        values_summed: values,
    }
}

/// The process that sends. It is gone when the value is.
struct Sender(Child);

impl Sender {
    fn start(udp: &Udp, to: SocketAddr) -> Result<Self, Failure> {
        let numbers = [
            ("--rate", udp.rate.to_string()),
            ("--seconds", udp.seconds.to_string()),
            ("--senders", udp.senders.to_string()),
            ("--values", udp.values.to_string()),
            ("--to", to.to_string()),
        ];
        let mut command = std::env::current_exe().map(Command::new);
        if let Ok(command) = &mut command {
            command.args(["bench", "udp"]).args(numbers.iter().flat_map(|(flag, value)| [*flag, value]));
            command.stdin(Stdio::null()).stdout(Stdio::piped());
        }
        let child = command.and_then(|mut command| command.spawn());
        child.map(Self).map_err(|error| failure("cannot start the process that sends", &error))
    }

    fn has_ended(&mut self) -> bool {
        // Only a child that is not ours could give an error here.
        self.0.try_wait().ok().flatten().is_some()
    }

    fn sent(mut self) -> Result<Sent, Failure> {
        let mut words = String::new();
        let _ = self.0.stdout.take().map(|mut output| output.read_to_string(&mut words));
        let mut numbers = words.split_whitespace();
        let sent = numbers.next().and_then(|count| count.parse().ok());
        let seconds = numbers.next().and_then(|seconds| seconds.parse().ok());
        let sent = sent.zip(seconds).map(|(datagrams, seconds)| Sent { datagrams, seconds });
        sent.ok_or_else(|| {
            Failure::new(Exit::UnitsFailed, "the process that sends has not said how much it sent")
        })
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends, at an even pace. One socket for each address, of 127.1.0.0/16 and behind it.
fn send(udp: &Udp, to: SocketAddr) -> std::io::Result<Sent> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
    let bind = |number: u16| UdpSocket::bind((Ipv4Addr::from(first + u32::from(number)), 0));
    let bytes = payload(udp.values);
    let sockets = (0..udp.senders).map(bind).collect::<Result<Vec<_>, _>>()?;
    let mut batches = starfarm_net::Sender::new(sockets[0].try_clone()?);
    let all = (f64::from(udp.rate) * udp.seconds).round() as u64;
    let (start, mut sent) = (Instant::now(), 0);
    while sent < all {
        let due = ((start.elapsed().as_secs_f64() * f64::from(udp.rate)) as u64).min(all);
        let due = due.min(sent + BURST_MAX);
        if due == sent {
            std::thread::sleep(TICK);
            continue;
        }
        for number in sent..due {
            if let [_] = sockets[..] {
                batches.push(to, |out| {
                    out[..bytes.len()].copy_from_slice(&bytes);
                    Some(bytes.len())
                });
            } else {
                sockets[number as usize % sockets.len()].send_to(&bytes, to)?;
            }
        }
        batches.flush();
        sent = due;
    }
    Ok(Sent { datagrams: sent, seconds: start.elapsed().as_secs_f64() })
}

/// A datagram of values of 32 bits, as DiMMon writes them.
fn payload(values: u16) -> Vec<u8> {
    let values: Vec<_> =
        (1..=u32::from(values)).map(|id| (ValueId(id), (id * 1_000).to_ne_bytes())).collect();
    datagram(values.iter().map(|(id, value)| (*id, &value[..])), ByteOrder::Host)
}

impl Document for Report {
    const NAME: &'static str = "bench-udp";

    fn table(&self, style: Style) -> String {
        facts(
            &[
                ("offered", Cell::new(human::count(self.offered as f64))),
                ("time", Cell::new(human::seconds(self.seconds))),
                ("received", Cell::new(human::count(self.received as f64))),
                ("lost", Cell::new(self.lost.to_string())),
                ("of these counted", Cell::new(self.lost_counted.to_string())),
                ("CPU per packet", Cell::new(format!("{:.3} us", self.cpu_us_per_packet))),
                ("CPU", Cell::new(format!("{:.2} % of a core", self.cpu_cores * 100.0))),
            ],
            style,
        )
    }

    fn quiet(&self) -> String {
        self.cpu_us_per_packet.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_of_three_values_has_44_bytes() {
        assert_eq!(payload(3).len(), 44);
    }

    #[test]
    fn what_is_lost_is_what_was_sent_and_not_taken() {
        let udp = Udp { rate: 9, seconds: 2.0, senders: 1, values: 3, buffer: None, mean: false, to: None };
        let received = Received {
            messages: 10,
            lost: 7,
            malformed: 1,
            cpu_seconds: 1.0,
            seconds: 4.0,
            ..Received::default()
        };
        let report = report(&udp, &Sent { datagrams: 18, seconds: 2.0 }, &received);
        assert_eq!((report.lost, report.lost_counted), (8, 8));
        assert_eq!((report.cpu_us_per_packet, report.cpu_cores), (100_000.0, 0.25));
    }
}
