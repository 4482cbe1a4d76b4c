//! The monitoring tree as a person wants it: where its communication processes stand, and at which ports they take links.
#![allow(clippy::unwrap_used)]

use std::net::TcpListener;

use serde_json::Value;
use starfarm_e2e::{Farm, until, until_some};

fn posts(tree: &Value, kind: &str) -> Vec<Value> {
    tree["posts"].as_array().unwrap().iter().filter(|post| post["kind"] == kind).cloned().collect()
}

fn live(farm: &Farm, back_ends: usize) -> Option<Value> {
    let tree = farm.ask(&["tree"]);
    let is_whole = tree["tree"]["state"] == "live" && posts(&tree, "be").len() == back_ends;
    is_whole.then_some(tree)
}

#[test]
fn processes_stand_where_a_file_says_and_a_wrong_file_changes_nothing() {
    let mut farm = Farm::start();
    for name in ["w0", "w1", "w2", "w3"] {
        farm.add_worker(name, &["--slots", "1"]);
    }
    let tree = until_some("all four are there", || live(&farm, 4));
    let host = posts(&tree, "be")[0]["host"].as_str().unwrap().to_owned();
    let form = |text: &str| {
        let file = farm.temp().write("tree.top", text);
        farm.cli(&["tree", "form", "--topology", file.to_str().unwrap()])
    };
    form(&format!("front:0 => {host}:0 ; # one above two\n{host}:0 => {host}:1 {host}:2 ;\n")).exits(0);
    let tree = until_some("it is so", || {
        live(&farm, 4).filter(|tree| (posts(tree, "cp").len(), posts(tree, "ibe").len()) == (1, 2))
    });
    let shape = |tree: &Value| {
        let of = |post: &Value| [&post["post"], &post["parent"], &post["node"]].map(ToString::to_string);
        tree["posts"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let top = posts(&tree, "cp")[0]["post"].clone();
    assert!(posts(&tree, "ibe").iter().all(|post| post["parent"] == top), "{tree}");
    for (text, place, why) in [
        (format!("front:0 => {host}:0 ;\nother:0 => {host}:1 ;\n"), "line 2, column 1", "is a second root"),
        (format!("front:0 => {host}:0 ;\n{host}:1 => {host}:2 ;\n{host}:2 => {host}:1 ;\n"), "line 2", ""),
        (
            "front:0 =>\n  nowhere:0 ;\n".to_owned(),
            "line 2, column 3",
            "nowhere:0: no node of the farm is on a host",
        ),
        (format!("front:0 => {host}:0 {host}:0 ;\n"), "line 1", ""),
        (format!("front:0 => {host} ;\n"), "line 1", ""),
    ] {
        let reply = form(&text);
        reply.exits(2);
        let said = &reply.stderr;
        assert!(said.contains("the topology file: ") && said.contains(place), "{text}{said}");
        assert!(said.contains(why), "{text}{said}");
    }
    assert_eq!(shape(&farm.ask(&["tree"])), shape(&tree), "nothing has changed");
}

#[test]
fn a_port_range_that_is_taken_is_said_and_processes_stand_elsewhere() {
    let mut farm = Farm::start();
    let taken = TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let range = format!("{port}-{port}");
    // Four that are free, or were a moment ago.
    let first = (20_000..60_000_u16)
        .step_by(4)
        .find(|first| (*first..first + 4).all(|port| TcpListener::bind(("::", port)).is_ok()))
        .unwrap();
    let free = format!("{first}-{}", first + 3);
    farm.add_worker("taken", &["--slots", "1", "--link-ports", &range]);
    farm.add_worker("shut", &["--slots", "1", "--no-peers"]);
    let tree = until_some("both are there", || live(&farm, 2));
    let host = posts(&tree, "be")[0]["host"].as_str().unwrap().to_owned();
    // The only one where it may stand, and it cannot.
    let file = farm.temp().write("tree.top", format!("front:0 => {host}:0 ;\n"));
    farm.cli(&["tree", "form", "--topology", file.to_str().unwrap()]).exits(0);
    let said = format!("no port from {port} to {port} is free");
    until("it is said", || farm.workers[0].log().contains(&said));
    until("all are measured meanwhile", || {
        let nodes = farm.ask(&["nodes"]);
        nodes["nodes"].as_array().unwrap().iter().all(|node| !node["usage"].is_null())
    });
    farm.add_worker("free", &["--slots", "1", "--link-ports", &free]);
    farm.cli(&["tree", "form", "--topology", file.to_str().unwrap()]).exits(0);
    let stands = || {
        let tree = live(&farm, 3)?;
        posts(&tree, "ibe").iter().all(|post| post["node"] == "free").then_some(tree)
    };
    let tree =
        until_some("it stands where it can", || stands().filter(|tree| !posts(tree, "ibe").is_empty()));
    let used = (first..first + 4).filter(|port| TcpListener::bind(("::", *port)).is_err()).count();
    assert_eq!(used, posts(&tree, "ibe").len(), "it takes links at a port of the range");
}
