//! A job whose file says `tree = "own"`: its figures come by posts of its own, which are there as long as it is.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use starfarm_e2e::torture::own_tree;
use starfarm_e2e::{Farm, Signal, alive, each_done_once, send, until, until_some};

/// Posts of the job's own tree, or of the farm's: their numbers, kinds, nodes and processes.
fn posts(tree: &Value, job: Option<&str>) -> Vec<(u64, String, String, u32)> {
    let is_its = |post: &&Value| post["job"].as_u64().map(|job| job.to_string()).as_deref() == job;
    let text = |post: &Value, key: &str| post[key].as_str().unwrap_or_default().to_owned();
    let number = |post: &Value, key: &str| post[key].as_u64().unwrap_or(u64::MAX);
    let of =
        |post| (number(post, "post"), text(post, "kind"), text(post, "node"), number(post, "pid") as u32);
    tree["posts"].as_array().unwrap().iter().filter(is_its).map(of).collect()
}

/// The five units of a job are seen, each once, on all nodes that run some, and the job's own tree is live or not there.
fn seen(farm: &Farm, id: &str, own: Option<&str>) -> Option<Value> {
    let usage = farm.job(id)["usage"].clone();
    let all = usage["units"] == 5 && usage["from"] == usage["of"];
    let tree = farm.ask(&["tree"]);
    (all && own_tree(&tree, id).as_deref() == own && tree["tree"]["state"] == "live").then_some(tree)
}

/// Tells a figure until the gate opens or the test is over.
const SCRIPT: &str = "\
import os, socket, sys, time
metrics = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while os.path.isdir(sys.argv[2]) and not os.path.exists(sys.argv[2] + '/gate'):
    try:
        metrics.sendto(b'temperature %d' % (40 + int(sys.argv[1])), os.environ['STARFARM_METRICS'])
    except OSError:
        pass
    time.sleep(0.2)
";

/// Five nodes of two slots, a fan-out of two, and two jobs of five units: the first with a tree of its own.
fn farm() -> (Farm, String, String) {
    let farm = Farm::with_workers(5, 2);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    let script = farm.temp().write("unit.py", SCRIPT);
    let script = script.display();
    let text = |monitor: &str| {
        let dir = farm.temp().path().display();
        format!(
            "[space]\nkind = \"range\"\nfrom = 0\nto = 5\n[task]\nunits_per_task = 1\n\
             executor = \"command\"\nprogram = [\"python3\", \"{script}\", \"{{}}\", \"{dir}\"]\n{monitor}"
        )
    };
    let file = farm.temp().write("own.toml", text("[monitor]\nperiod = 0.5\ntree = \"own\"\n"));
    let own = farm.submit(&[file.to_str().unwrap()]);
    let file = farm.temp().write("usual.toml", text(""));
    let usual = farm.submit(&[file.to_str().unwrap()]);
    (farm, own, usual)
}

#[test]
fn a_job_has_a_tree_of_its_own_whatever_is_killed_and_until_it_ends() {
    let (mut farm, own, usual) = farm();
    let live = |farm: &Farm| seen(farm, &own, Some("live"));
    let tree = until_some("all units are seen, by both trees", || {
        live(&farm).filter(|_| seen(&farm, &usual, None).is_some())
    });
    let before = posts(&tree, Some(&own));
    let kinds = |kind: &str| before.iter().filter(|(_, of, ..)| of == kind).count();
    // Five units need three nodes of two slots at least.
    assert!(kinds("be") >= 3 && kinds("ibe") >= 2, "{tree}");
    // A wave of a node's may be missing while its units go from tree to tree.
    until("each tells of its own", || farm.job(&own)["usage"]["of"] == kinds("be"));
    let farms: Vec<_> = posts(&tree, None);
    assert_eq!(farms.iter().filter(|(_, kind, ..)| kind == "be").count(), 5, "{tree}");
    until("what its programs say comes as well", || {
        let named = &farm.job(&own)["usage"]["named"]["job.temperature"];
        named["min"] == 40.0 && named["max"] == 44.0
    });
    let shown = farm.cli(&["tree"]).exits(0).stdout.clone();
    assert!(
        shown.contains(&format!("job {own} has a tree of its own, live: {} posts", before.len())),
        "{shown}"
    );
    for kind in ["be", "ibe"] {
        let (post, _, _, pid) = before.iter().find(|(_, of, ..)| of == kind).unwrap().clone();
        send(Signal::KILL, pid);
        until("another process has the post, and all is seen again", || {
            let Some(tree) = live(&farm) else { return false };
            posts(&tree, Some(&own)).iter().any(|(id, _, _, other)| *id == post && *other != pid)
        });
    }
    let before = posts(&farm.ask(&["tree"]), Some(&own));
    farm.kill_scheduler();
    farm.restart_scheduler();
    let tree = until_some("the scheduler that starts again finds it", || live(&farm));
    assert_eq!(posts(&tree, Some(&own)), before, "{tree}");
    farm.open_gate();
    farm.wait(&own).exits(0);
    farm.wait(&usual).exits(0);
    until("its posts end with it", || {
        let tree = farm.ask(&["tree"]);
        tree["own_trees"].is_null() && posts(&tree, Some(&own)).is_empty()
    });
    until("their processes too", || !before.iter().any(|(.., pid)| alive(*pid)));
    let farms: Vec<_> = farms.iter().filter(|(_, kind, ..)| kind == "be").collect();
    assert!(farms.iter().all(|(.., pid)| alive(*pid)), "the farm's tree stands");
    for id in [&own, &usual] {
        each_done_once(&farm.job(id), &farm.results(id), 5);
    }
    assert!(farm.job(&own)["usage_total"]["cpu_seconds"].as_f64().unwrap() > 0.0);
    farm.cli(&["audit", &farm.state().to_string_lossy()]).exits(0);
}
