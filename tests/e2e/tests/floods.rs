//! What strangers and careless programs pour into the monitor: it costs their own figures, and nobody else anything.
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

/// Says more than anybody can hear: lines that are none, names of a megabyte, and a million different names again and again.
const FLOOD: &str = "\
import os, socket, sys
metrics = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def say(what):
    try:
        metrics.sendto(what, socket.MSG_DONTWAIT, os.environ['STARFARM_METRICS'])
    except OSError:
        pass
number = 0
while os.path.isdir(sys.argv[1]) and not os.path.exists(sys.argv[1] + '/gate'):
    say(b'x' * (1 << 20) + b' 1')
    say(b'y' * 100_000 + b' 1')
    say(b'a\\nb 1\\nc\\0d 2\\n\\xff\\xfe 3\\n 4\\n= nan\\ninf inf\\nnan nan\\n' * 100)
    say(b'event ' + b'z' * 100_000)
    for _ in range(100):
        say(b'\\n'.join(b'name%d 1' % ((number + n) % 1_000_000) for n in range(1_000)))
        number += 1_000
        if number % 1_000_000 == 0:
            with open(sys.argv[1] + '/flooded', 'w') as file:
                file.write(str(number))
";

/// Says one figure.
const CALM: &str = "\
import os, socket, sys, time
metrics = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while os.path.isdir(sys.argv[1]) and not os.path.exists(sys.argv[1] + '/gate'):
    try:
        metrics.sendto(b'temperature 7', os.environ['STARFARM_METRICS'])
    except OSError:
        pass
    time.sleep(0.1)
";

#[test]
fn a_program_that_floods_its_socket_costs_its_own_figures_alone() {
    let farm = Farm::with_workers(1, 2);
    let dir = farm.temp().path().display().to_string();
    let start = |script: &str| farm.submit(&["--range", "0..1", "--", "python3", "-c", script, &dir]);
    let (flood, calm) = (start(FLOOD), start(CALM));
    until("a million names were said", || farm.temp().path().join("flooded").exists());
    let named = |id: &str| farm.job(id)["usage"]["named"].as_object().cloned().unwrap_or_default();
    until("the other job is heard", || {
        named(&calm).get("job.temperature").is_some_and(|of| of["min"] == 7.0)
    });
    // Those that were said first, as far as there is room.
    let names = until_some("some are heard", || Some(named(&flood)).filter(|names| !names.is_empty()));
    assert!(names.len() <= 256, "{} names", names.len());
    let is_name = |name: &String| {
        let name = name.strip_prefix("job.").unwrap_or_default();
        name.strip_prefix("name").is_some_and(|number| number.parse::<u32>().is_ok())
            || ["a", "b"].contains(&name)
    };
    let strange: Vec<_> = names.keys().filter(|name| !is_name(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let node = farm.ask(&["nodes"])["nodes"][0].clone();
    assert!(node["usage"]["age_seconds"].as_f64().is_some_and(|age| age < 5.0), "{node}");
    let agent = post(&farm.ask(&["tree"]), "be")["pid"].as_u64().unwrap() as u32;
    assert!(resident_kib(agent) < RESIDENT_KIB, "{} KiB", resident_kib(agent));
    farm.open_gate();
    for id in [&flood, &calm] {
        farm.wait(id).exits(0);
        each_done_once(&farm.job(id), &farm.results(id), 1);
    }
}

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
    let farm = Farm::with_workers(4, 1);
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
