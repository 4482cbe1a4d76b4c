//! What strangers pour into the monitor's ports: it costs nobody anything.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use starfarm_chaos::Random;
use starfarm_e2e::{Farm, Signal, connect_from, each_done_once, resident_kib, send, until, until_some};

/// Memory of an agent, at most, in KiB, whatever comes.
const RESIDENT_KIB: u64 = 64 << 10;
/// Strangers that call, and those of them that stay.
const CALLERS: usize = 10_000;
const STAY: usize = 2_000;

fn post(tree: &Value, kind: &str) -> Value {
    tree["posts"].as_array().unwrap().iter().find(|post| post["kind"] == kind).unwrap().clone()
}

/// Where a process takes connections.
fn port_of(pid: u32) -> u16 {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = links.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets: BTreeSet<_> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tables =
        ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap());
    let listens = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let is_its = fields.get(3) == Some(&"0A") && sockets.contains(*fields.get(9)?);
        let port = fields.get(1)?.rsplit(':').next()?;
        is_its.then(|| u16::from_str_radix(port, 16).unwrap())
    };
    tables.iter().flat_map(|table| table.lines()).find_map(listens).expect("it listens somewhere")
}

#[test]
fn a_communication_process_serves_its_children_whatever_strangers_do_at_its_port() {
    let mut farm = Farm::start();
    for n in 0..4 {
        farm.add_worker(&format!("w{n}"), &["--slots", "1"]);
    }
    farm.until_nodes_up(4);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let id =
        farm.submit(&["--range", "0..4", "--", "sh", "-c", &farm.gated(&farm.temp().path().join("ran"), 0)]);
    let live = || {
        let (tree, usage) = (farm.ask(&["tree"]), farm.job(&id)["usage"].clone());
        (tree["tree"]["state"] == "live" && usage["from"] == 4 && usage["units"] == 4).then_some(tree)
    };
    let tree = until_some("the tree is live", live);
    let carrier = post(&tree, "ibe");
    let pid = carrier["pid"].as_u64().unwrap() as u32;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(pid)));
    let mut random = Random::new(9);
    let mut there: Vec<TcpStream> = Vec::new();
    for n in 0..CALLERS {
        // Some say nothing, some anything, and most are gone at once.
        let from = [127, 0, (n / 250 % 40) as u8, 2 + (n % 250) as u8];
        let Ok(mut socket) = connect_from(from.into(), address) else { continue };
        let _ = socket.set_write_timeout(Some(Duration::from_secs(1)));
        let bytes: Vec<u8> = (0..random.bits() % 400).map(|_| random.bits() as u8).collect();
        let _ = socket.write_all(&bytes);
        if n % (CALLERS / STAY) == 0 {
            there.push(socket);
        }
        if n == CALLERS / 2 {
            // One of its children comes anew amid them.
            let is_below = |post: &&Value| post["parent"] == carrier["post"];
            let child = tree["posts"].as_array().unwrap().iter().find(is_below).unwrap();
            send(Signal::KILL, child["pid"].as_u64().unwrap() as u32);
        }
    }
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(fds < 400, "it has {fds} files open");
    assert!(resident_kib(pid) < RESIDENT_KIB, "{} KiB", resident_kib(pid));
    let after = until_some("all are where they were", live);
    assert_eq!(post(&after, "ibe")["pid"], carrier["pid"], "the same process");
    let parents = |tree: &Value| -> Vec<_> {
        tree["posts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|post| (post["post"].clone(), post["parent"].clone()))
            .collect()
    };
    assert_eq!(parents(&after), parents(&tree));
    drop(there);
    farm.open_gate();
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 4);
}
