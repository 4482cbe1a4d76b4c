//! What programs tell one by one: it reaches who follows, in order, with its job, unit and node, and what is lost is counted.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde_json::Value;
use starfarm_e2e::{Farm, until, until_some};

/// A program that tells what follows its first argument, a line each, and stays until the test is over, so that it is known.
const TELL: &str = "\
import os, socket, sys, time
socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def tell(line):
    while os.path.exists(sys.argv[1]):
        try:
            return socket.sendto(line.encode(), os.environ['STARFARM_METRICS'])
        except OSError:
            time.sleep(0.05)
for line in sys.argv[2:]:
    tell('event ' + line)
";

fn text(line: &Value) -> &str {
    line["text"].as_str().unwrap()
}

#[test]
fn what_a_program_tells_is_followed_with_its_job_unit_and_node() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "2"]);
    farm.until_node("w1", "up");
    let all = farm.follow("all", &["--stream", "trace"]);
    let script = format!("python3 -c \"$1\" \"$2\" started \"half\tdone\" & {}", farm.forever());
    let gate = farm.temp().path().display().to_string();
    let id = farm.submit(&["--range", "3..5", "--", "sh", "-c", &script, "sh", TELL, &gate]);
    let heard = until_some("both units are heard", || Some(all.lines()).filter(|lines| lines.len() == 4));
    let job: u64 = id.parse().unwrap();
    for line in &heard {
        assert_eq!((&line["node"], &line["job"], &line["lost"]), (&"w1".into(), &job.into(), &0.into()));
        // A sender that has ended says nothing of its unit any more.
        assert!(line["unit"] == "0" || line["unit"] == "1" || line["unit"].is_null(), "{line}");
        assert!(line["at_us"].as_u64().unwrap() > 1_700_000_000_000_000, "{line}");
    }
    let numbers: Vec<_> = heard.iter().map(|line| line["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4], "each once, in order");
    assert_eq!(heard.iter().filter(|line| text(line) == "started").count(), 2, "{heard:?}");
    assert_eq!(heard.iter().filter(|line| text(line) == "half done").count(), 2, "{heard:?}");
    // Who comes later hears what is kept, and of a job alone what that told.
    let other = farm.submit(&["--range", "7..8", "--", "sh", "-c", &script, "sh", TELL, &gate]);
    farm.cli(&["job", "cancel", &id]).exits(0);
    let of_job = farm.follow("of-job", &["--stream", "trace", "--job", &other]);
    until("the other job is heard", || of_job.lines().len() == 2);
    assert!(of_job.lines().iter().all(|line| line["job"] == other.parse::<u64>().unwrap()));
    let of_node = farm.follow("of-node", &["--stream", "trace", "--node", "w1"]);
    until("all of the node is kept", || of_node.lines().len() == 6);
    farm.cli(&["job", "cancel", &other]).exits(0);
}

/// Counts of the posts of a kind, one after the other.
fn counts(tree: &Value, kind: &str, keys: &[&str]) -> u64 {
    let posts = tree["posts"].as_array().unwrap().iter().filter(|post| post["kind"] == kind);
    posts.map(|post| keys.iter().map(|key| post[*key].as_u64().unwrap_or_default()).sum::<u64>()).sum()
}

#[test]
fn a_program_that_tells_too_much_is_cut_off_and_what_is_lost_is_counted() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    let all = farm.follow("all", &["--stream", "trace"]);
    let flood = format!(
        "{TELL}\
tell('event first')
time.sleep(1.5)
for part in range(10):
    tell(''.join('event %d\\n' % (500 * part + n) for n in range(500)))
time.sleep(2.5)
tell('event last')
time.sleep(1000)
"
    );
    let gate = farm.temp().path().display().to_string();
    let id = farm.submit(&["--range", "0..1", "--", "python3", "-c", &flood, &gate]);
    until("the last one is heard", || all.lines().iter().any(|line| text(line) == "last"));
    let heard = all.lines();
    let told: Vec<u64> = heard.iter().filter_map(|line| text(line).parse().ok()).collect();
    // A second may end amid the flood.
    assert!((1_000..=2_000).contains(&told.len()), "{}", told.len());
    assert!(told.is_sorted() && told[..1_000].iter().copied().eq(0..1_000), "the newest are dropped");
    let lost: u64 = heard.iter().map(|line| line["lost"].as_u64().unwrap()).sum();
    assert_eq!(told.len() as u64 + lost, 5_000);
    assert!(heard.iter().all(|line| line["unit"] == "0"), "it still lives");
    // Produced is delivered, dropped, late or missing.
    until("the counts balance", || {
        let tree = farm.ask(&["tree"]);
        let dropped = counts(&tree, "be", &["dropped"]);
        let came = counts(&tree, "fe", &["received", "late", "gaps"]);
        let sent = counts(&tree, "be", &["sent"]);
        // The front counts at once, the back end says it every two seconds.
        counts(&tree, "fe", &["gaps"]) == 0
            && dropped == lost
            && (sent..sent + 20).contains(&(came + dropped))
    });
    farm.cli(&["job", "cancel", &id]).exits(0);
}

#[test]
fn communication_processes_hand_on_what_is_told_in_order() {
    let mut farm = Farm::start();
    for n in 0..4 {
        farm.add_worker(&format!("w{n}"), &["--slots", "1"]);
    }
    farm.until_nodes_up(4);
    until("all are linked", || farm.ask(&["tree"])["posts"].as_array().unwrap().len() == 5);
    farm.cli(&["tree", "form", "--fanout", "2"]).exits(0);
    until("back ends are below CPs", || {
        let tree = farm.ask(&["tree"]);
        tree["tree"]["state"] == "live" && counts(&tree, "ibe", &["children"]) == 4
    });
    let all = farm.follow("all", &["--stream", "trace"]);
    let many = format!("{TELL}for n in range(300):\n    tell('event %d' % n)\ntime.sleep(1000)\n");
    let gate = farm.temp().path().display().to_string();
    let id = farm.submit(&["--range", "0..4", "--", "python3", "-c", &many, &gate]);
    let heard = until_some("all are heard", || Some(all.lines()).filter(|heard| heard.len() >= 1_200));
    let mut by_node = BTreeMap::<&str, Vec<u64>>::new();
    for line in &heard {
        assert_eq!(line["lost"], 0, "{line}");
        by_node.entry(line["node"].as_str().unwrap()).or_default().push(text(line).parse().unwrap());
    }
    assert_eq!(by_node.len(), 4, "of each node, and not of who handed it on");
    assert!(by_node.values().all(|told| told.iter().copied().eq(0..300)), "each once, in order");
    farm.cli(&["job", "cancel", &id]).exits(0);
}
