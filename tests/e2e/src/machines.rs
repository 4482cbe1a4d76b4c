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
    let output = Command::new("ip").args(args).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}
