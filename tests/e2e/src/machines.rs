//! Machines, as far as programs can tell: network namespaces on one bridge, whose programs share no memory with those of others.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// Machines with cables to one switch; removed when dropped.
pub struct Machines {
    switch: String,
    names: Vec<String>,
    net: u8,
}

/// Networks of this process so far.
static NETS: AtomicU8 = AtomicU8::new(0);

impl Machines {
    /// So many, at most 200.
    ///
    /// # Errors
    /// This process may not make namespaces; what was in the way, in words.
    pub fn lay(count: u8) -> Result<Self, String> {
        let (process, net) = (std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
        let of = |part: &str| format!("sf{process}n{net}{part}");
        let names = (1..=count).map(|at| of(&at.to_string())).collect();
        let machines = Self { switch: of("s"), names, net };
        let switch = machines.switch.as_str();
        ip(&["netns", "add", switch])?;
        // `exec` needs more rights than `add`: try it here, where a skip is still possible.
        ip(&["netns", "exec", switch, "true"])?;
        ip(&["-n", switch, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", switch, "link", "set", "switch", "up"])?;
        for (at, name) in machines.names.iter().enumerate() {
            let port = format!("port{at}");
            ip(&["netns", "add", name])?;
            ip(&[
                "-n", name, "link", "add", "cable", "type", "veth", "peer", "name", &port, "netns", switch,
            ])?;
            ip(&["-n", switch, "link", "set", &port, "master", "switch"])?;
            ip(&["-n", switch, "link", "set", &port, "up"])?;
            let address = format!("{}/24", machines.address(at, 0).ip());
            ip(&["-n", name, "address", "add", &address, "dev", "cable"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", "cable", "up"])?;
        }
        Ok(machines)
    }

    /// The namespace of a machine, from 0.
    pub fn name(&self, machine: usize) -> &str {
        &self.names[machine]
    }

    /// Its address, with that port.
    pub fn address(&self, machine: usize, port: u16) -> SocketAddr {
        let host = u8::try_from(machine + 1).expect("there are at most 200");
        (Ipv4Addr::new(10, 97, self.net, host), port).into()
    }

    /// From now on so many in a hundred datagrams and segments that come by the cable are lost.
    pub fn lose(&self, machine: usize, percent: u8) {
        self.filter(machine, &format!("iifname cable numgen random mod 100 < {percent} drop"));
    }

    /// From now on nobody can connect to a machine; it can to others.
    pub fn close(&self, machine: usize) {
        self.filter(machine, "iifname cable tcp flags & (syn|ack) == syn drop");
        self.filter(machine, "iifname cable ct state new udp dport 1-65535 drop");
    }

    fn filter(&self, machine: usize, rule: &str) {
        let rules = format!(
            "add table ip f\nadd chain ip f in {{ type filter hook input priority 0; }}\nadd rule ip f in {rule}"
        );
        run(&["ip", "netns", "exec", self.name(machine), "nft", &rules]).expect("the system can filter");
    }

    /// The namespace of a machine behind that one, which translates its address: nobody reaches it, and it reaches all.
    ///
    /// # Errors
    /// The system cannot translate addresses, in words.
    pub fn behind(&mut self, machine: usize) -> Result<String, String> {
        let (outer, inner) = (self.name(machine).to_owned(), format!("{}b", self.name(machine)));
        ip(&["netns", "add", &inner])?;
        self.names.push(inner.clone());
        ip(&[
            "-n", &inner, "link", "add", "cable", "type", "veth", "peer", "name", "inner", "netns", &outer,
        ])?;
        for (side, name, host) in [(&inner, "cable", 2), (&outer, "inner", 1)] {
            let address = format!("192.168.{}.{host}/24", self.net);
            ip(&["-n", side, "address", "add", &address, "dev", name])?;
            ip(&["-n", side, "link", "set", name, "up"])?;
        }
        ip(&["-n", &inner, "link", "set", "lo", "up"])?;
        ip(&["-n", &inner, "route", "add", "default", "via", &format!("192.168.{}.1", self.net)])?;
        ip(&["netns", "exec", &outer, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        let rules = "add table ip n\nadd chain ip n out { type nat hook postrouting priority 100; }\n\
                     add rule ip n out oifname cable masquerade";
        run(&["ip", "netns", "exec", &outer, "nft", rules])?;
        Ok(inner)
    }

    /// Pulls the cable of a machine, or puts it back.
    pub fn cable(&self, machine: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        let port = format!("port{machine}");
        ip(&["-n", &self.switch, "link", "set", &port, state]).expect("the port is there");
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.switch]) {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    run(&[&["ip"], args].concat())
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}
