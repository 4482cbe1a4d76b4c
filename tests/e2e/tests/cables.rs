//! The monitoring tree over machines whose cables are pulled, whose networks lose what they carry, and that not everybody
//! reaches: network namespaces. A job runs through all of it.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use serde_json::Value;
use starfarm_e2e::machines::Machines;
use starfarm_e2e::{Farm, Signal, each_done_once, has, send, skip, until, until_some};

/// Nodes that have a post of such a kind.
fn nodes_with(tree: &Value, kinds: &[&str]) -> Vec<String> {
    let posts = tree["posts"].as_array().unwrap().iter();
    let fits = posts.filter(|post| kinds.contains(&post["kind"].as_str().unwrap()));
    fits.filter_map(|post| post["node"].as_str()).map(str::to_owned).collect()
}

/// Some CP on these nodes has a child that is on another.
fn carry_others(tree: &Value, nodes: &[&str]) -> bool {
    let posts = tree["posts"].as_array().unwrap();
    let is_cp = |post: &&Value| ["ibe", "cp"].iter().any(|kind| post["kind"] == *kind);
    let cps = posts.iter().filter(is_cp).filter(|cp| nodes.iter().any(|name| cp["node"] == *name));
    let mut pairs = cps.flat_map(|cp| posts.iter().map(move |post| (cp, post)));
    pairs.any(|(cp, post)| post["parent"] == cp["post"] && post["node"] != cp["node"])
}

/// The tree, once it is live and has so many back ends.
fn until_live(farm: &Farm, back_ends: usize) -> Value {
    until_some("the tree is live", || {
        let tree = Some(farm.ask(&["tree"])).filter(|tree| tree["tree"]["state"] == "live");
        tree.filter(|tree| nodes_with(tree, &["be"]).len() == back_ends)
    })
}

/// The scheduler alone would wait for ten minutes.
#[test]
fn a_machine_whose_cable_is_pulled_is_lost_by_two_witnesses() {
    let test = "a_machine_whose_cable_is_pulled_is_lost_by_two_witnesses";
    let machines = match Machines::lay(5) {
        Ok(machines) => machines,
        Err(why) => return skip("netns", test, &why),
    };
    let args = ["--lost-seconds", "600"].map(str::to_owned).to_vec();
    let mut farm = Farm::start_so(Some(machines.name(0)), machines.address(0, 7117), args);
    let join = farm.state().join("worker.join");
    for machine in 1..=4 {
        let name = format!("w{machine}");
        farm.add_worker_in(Some(machines.name(machine)), &name, &join, &["--slots", "2"]);
    }
    farm.until_nodes_up(4);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let tree = until_live(&farm, 4);
    let carriers = nodes_with(&tree, &["ibe", "cp"]);
    let id = farm.submit(&["--range", "0..3000", "--", "sleep", "0.02"]);
    // One that carries others, and one that does not if there is one.
    let (mut pulled, all) = (vec![carriers[0].clone()], ["w1", "w2", "w3", "w4"]);
    pulled.extend(all.iter().find(|name| !carriers.iter().any(|of| of == *name)).map(ToString::to_string));
    for name in pulled {
        let machine = name.trim_start_matches('w').parse().unwrap();
        let start = Instant::now();
        machines.cable(machine, false);
        farm.until_node_missed(&name);
        let missed = start.elapsed();
        farm.until_node(&name, "lost");
        println!("{name}: missed after {missed:?}, lost after {:?}", start.elapsed());
        until_live(&farm, 3);
        machines.cable(machine, true);
        farm.until_node(&name, "up");
        until_live(&farm, 4);
    }
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 3000);
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
}

#[test]
fn a_tree_lives_with_loss_a_firewall_and_a_translated_address() {
    let test = "a_tree_lives_with_loss_a_firewall_and_a_translated_address";
    if !has("nft", test) {
        return;
    }
    let laid = Machines::lay(8).and_then(|mut machines| {
        let inner = machines.behind(7)?;
        Ok((machines, inner))
    });
    let (machines, inner) = match laid {
        Ok(laid) => laid,
        Err(why) => return skip("netns", test, &why),
    };
    let mut farm = Farm::start_in(Some(machines.name(0)), machines.address(0, 7117));
    let join = farm.state().join("worker.join");
    (0..=7).for_each(|machine| machines.lose(machine, 5));
    machines.close(1);
    for machine in 1..=6 {
        let name = format!("w{machine}");
        farm.add_worker_in(Some(machines.name(machine)), &name, &join, &["--slots", "2"]);
    }
    farm.add_worker_in(Some(&inner), "w7", &join, &["--slots", "2"]);
    farm.until_nodes_up(7);
    let id = farm.submit(&["--range", "0..8000", "--", "sleep", "0.05"]);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    // One that others cannot call may carry its own machine's back end.
    until("nobody carries others who cannot be reached", || {
        let tree = until_live(&farm, 7);
        nodes_with(&tree, &["ibe"]).len() >= 3 && !carry_others(&tree, &["w1", "w7"])
    });
    until("all seven are in the picture", || farm.job(&id)["usage"]["from"] == 7);
    assert_eq!(farm.logged("node_suspect").len(), 0, "nobody was taken for silent who was not");
    // An agent dies, and a machine goes.
    let tree = farm.ask(&["tree"]);
    let carrier = nodes_with(&tree, &["ibe"])[0].clone();
    let of = |post: &&Value| post["kind"] == "ibe" && post["node"] == carrier.as_str();
    let pid = tree["posts"].as_array().unwrap().iter().find(of).unwrap()["pid"].as_u64().unwrap() as u32;
    send(Signal::KILL, pid);
    // Those below it may not reach it for so long that it stands elsewhere then.
    until("another process has the post, or another post has its place", || {
        let tree = farm.ask(&["tree"]);
        let is_old = |post: &Value| post["pid"] == pid;
        !tree["posts"].as_array().unwrap().iter().any(|post| of(&post) && is_old(post))
    });
    until_live(&farm, 7);
    machines.cable(carrier.trim_start_matches('w').parse().unwrap(), false);
    farm.until_node(&carrier, "lost");
    until_live(&farm, 6);
    machines.cable(carrier.trim_start_matches('w').parse().unwrap(), true);
    farm.until_node(&carrier, "up");
    until_live(&farm, 7);
    until("the second root is where others can call it", || {
        let tree = farm.ask(&["tree"]);
        let roots = nodes_with(&tree, &["fe"]);
        matches!(&roots[..], [root] if root != "w1" && root != "w7")
    });
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 8000);
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
}
