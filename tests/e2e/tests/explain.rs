//! Explanations of a real farm: each hindrance that is taken away gives room to the next.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{Farm, until};

/// The codes of the reasons, and the verdict.
fn why(farm: &Farm, subject: [&str; 2]) -> (Vec<String>, String) {
    let explanation = farm.ask(&[subject[0], "explain", subject[1]]);
    let reasons = explanation["reasons"].as_array().unwrap();
    let codes = reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect();
    (codes, explanation["verdict"].as_str().unwrap().to_owned())
}

#[test]
fn a_job_that_waits_says_for_what_until_it_ends() {
    let mut farm = Farm::start();
    let forever = farm.forever();
    let first = farm.submit(&["--range", "0..4", "--units-per-task", "1", "--", "sh", "-c", &forever]);
    let second = farm.submit(&["--range", "0..2", "--", "true"]);
    assert_eq!(why(&farm, ["job", &second]).1, "Job 2 waits for a node.");

    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_job(&first, "state", "running");
    let (codes, verdict) = why(&farm, ["job", &second]);
    assert_eq!((verdict.as_str(), &codes[..]), ("Job 2 waits behind job 1.", &["behind".to_owned()][..]));
    assert_eq!(why(&farm, ["node", "w1"]).1, "Node w1 works.");
    let size = farm.ask(&["job", "explain", &first])["sizes"][0].take();
    assert_eq!((&size["node"], &size["rule"], &size["units"]), (&"w1".into(), &"fixed".into(), &"1".into()));

    farm.cli(&["job", "pause", &second]).exits(0);
    farm.cli(&["job", "pause", &first]).exits(0);
    let reply = farm.cli(&["job", "explain", &first]);
    assert!(reply.exits(0).stdout.starts_with("Job 1 is paused.\n- A person paused it."), "{reply:?}");
    assert!(reply.stdout.contains("`starfarm job resume 1`"), "what helps: {reply:?}");

    farm.cli(&["job", "cancel", &first]).exits(0);
    until("the node idles", || why(&farm, ["node", "w1"]).0.contains(&"job_paused".to_owned()));
    assert_eq!(why(&farm, ["node", "w1"]).1, "Node w1 idles: jobs are paused.");
    farm.cli(&["node", "drain", "w1"]).exits(0);
    assert_eq!(why(&farm, ["node", "w1"]).0, ["drained"]);
    farm.cli(&["node", "resume", "w1"]).exits(0);
    farm.cli(&["job", "resume", &second]).exits(0);
    farm.wait(&second).exits(0);
    assert_eq!(why(&farm, ["job", &second]).1, "Job 2 has ended (finished).");
    farm.cli(&["job", "explain", "9"]).exits(4).says(&["starfarm jobs"]);
    farm.cli(&["node", "explain", "w9"]).exits(4).says(&["starfarm nodes"]);
}
