//! `network`: what the node receives from the network and sends there, out of /proc/net/dev. The loopback interface does not
//! count, and neither do those that hand on what another interface of this machine sends or has received.

use std::path::Path;

use starfarm_agent_core::{Context, Module, Stage, Type, ids};
use starfarm_protocol::metric::Metric;

use super::counters::Counters;
use super::measure::{Measure, OUT, PROC, Sensor};
use super::source::Source;
use super::text::{lines, number, words};

/// This sensor.
pub const MODULE: Module =
    Module { name: Network::NAME, types: &[Type { name: Network::NAME, new: &|| stage(Path::new(PROC)) }] };

/// One that reads below this folder as if it were /proc.
pub fn stage(proc: &Path) -> Box<dyn Stage> {
    Box::new(Sensor(Network { dev: Source::new(proc, "net/dev"), counters: Counters::default() }))
}

struct Network {
    dev: Source,
    counters: Counters,
}

/// What the names of interfaces begin with whose packets go through another one too: bridges, bonds, tunnels, and ends of pairs
/// that lead to containers and virtual machines. A container's own interface is named `eth0` as a rule.
const DOUBLES: [&[u8]; 20] = [
    b"bond", b"br-", b"cali", b"cilium", b"cni", b"docker", b"dummy", b"flannel", b"ifb", b"lxc", b"lxd",
    b"podman", b"tap", b"team", b"tun", b"veth", b"virbr", b"vnet", b"vxlan", b"wg",
];

/// The interface counts.
fn counts(name: &[u8]) -> bool {
    let is_bridge = name.strip_prefix(b"br").is_some_and(|rest| number(rest).is_some());
    // `eth0.7` is a network of `eth0`.
    let is_part = name.contains(&b'.');
    name != b"lo" && !is_bridge && !is_part && !DOUBLES.iter().any(|start| name.starts_with(start))
}

/// Interfaces with the bytes that they have received and sent.
fn interfaces(text: &[u8]) -> impl Iterator<Item = (&[u8], [u64; 2])> {
    lines(text).filter_map(|line| {
        let colon = line.iter().rposition(|byte| *byte == b':')?;
        let (name, mut columns) = (line[..colon].trim_ascii(), words(&line[colon + 1..]));
        let bytes = [number(columns.next()?)?, number(columns.nth(7)?)?];
        counts(name).then_some((name, bytes))
    })
}

impl Measure for Network {
    const NAME: &'static str = "network";

    fn measure(&mut self, context: &mut Context<'_>) {
        let now_us = context.now_us();
        let rates = self.dev.read().and_then(|text| self.counters.take(interfaces(text), now_us));
        if let Some([received, sent]) = rates {
            context.emit(OUT, |message| {
                message.put_number(ids::of(Metric::NetworkReceived), received);
                message.put_number(ids::of(Metric::NetworkSent), sent);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_hand_on_do_not_count() {
        for name in ["eth0", "enp3s0f1", "ib0", "wlan0", "bridge", "brcm0", "usb0"] {
            assert!(counts(name.as_bytes()), "{name}");
        }
        for name in ["lo", "br0", "br-12ab", "bond0", "eth0.7", "vethab12", "docker0", "tun0", "wg0"] {
            assert!(!counts(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn lines_without_numbers_are_no_interfaces() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets|bytes\n  eth0: 12 1 0 0 0 0 0 0 34 1 0 0 0 0 0 0\nib0:56 1 0 0 0 0 0 0 78\n eth1: 1 2 3\n";
        let read: Vec<_> = interfaces(text.as_bytes()).collect();
        assert_eq!(read, [(&b"eth0"[..], [12, 34]), (b"ib0", [56, 78])]);
    }
}
