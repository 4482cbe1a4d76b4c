//! Two machines, as far as the network can tell: scheduler and worker in network namespaces of their own,
//! a cable between them that is pulled and put back.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use starfarm_e2e::{Farm, each_done_once, skip, until};

/// Two namespaces with a cable; removed when dropped.
struct Cable {
    near: String,
    far: String,
}

impl Cable {
    /// Lays the cable: 10.99.0.1 is near, 10.99.0.2 far.
    fn lay() -> Result<Self, String> {
        let number = std::process::id();
        let cable = Self { near: format!("sfa{number}"), far: format!("sfb{number}") };
        let (near, far) = (cable.near.as_str(), cable.far.as_str());
        ip(&["netns", "add", near])?;
        ip(&["netns", "add", far])?;
        // `exec` needs more rights than `add`: try it here, where a skip is still possible.
        ip(&["netns", "exec", near, "true"])?;
        ip(&["-n", near, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", far])?;
        for (end, address) in [(near, "10.99.0.1/24"), (far, "10.99.0.2/24")] {
            ip(&["-n", end, "address", "add", address, "dev", "cable"])?;
            ip(&["-n", end, "link", "set", "lo", "up"])?;
            ip(&["-n", end, "link", "set", "cable", "up"])?;
        }
        Ok(cable)
    }

    fn set(&self, state: &str) {
        ip(&["-n", &self.near, "link", "set", "cable", state]).unwrap();
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            let _ = ip(&["netns", "delete", end]);
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

#[test]
fn a_job_survives_a_cable_that_is_pulled_and_put_back() {
    let cable = match Cable::lay() {
        Ok(cable) => cable,
        Err(why) => return skip("netns", "a_job_survives_a_cable_that_is_pulled_and_put_back", &why),
    };
    let mut farm = Farm::start_in(Some(&cable.near), "10.99.0.1:7117".parse().unwrap());
    let join = farm.state().join("worker.join");
    farm.add_worker_in(Some(&cable.far), "far", &join, &["--slots", "2"]);
    farm.until_nodes_up(1);
    let id = farm.submit(&["--range", "0..300", "--", "sleep", "0.02"]);
    let done = || farm.job(&id)["units_done"].as_str().unwrap().parse::<u64>().unwrap();
    until("it works", || done() >= 10);
    cable.set("down");
    farm.until_node("far", "suspect");
    let before = done();
    cable.set("up");
    farm.until_node("far", "up");
    farm.wait(&id).exits(0);
    assert!(before < 300, "the job outlived the cut");
    each_done_once(&farm.job(&id), &farm.results(&id), 300);
    // The administration goes over the cable too.
    assert_eq!(farm.cli_by(&farm.state().join("admin.join"), &["jobs"]).code, 3, "not from outside");
}
