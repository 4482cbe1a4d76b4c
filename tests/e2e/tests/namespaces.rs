//! Two machines, as far as the network can tell: scheduler and worker in network namespaces of their own,
//! a cable between them that is pulled and put back, or a path whose middle swallows what is large.
#![allow(clippy::unwrap_used)]

use std::fs;
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

/// Three namespaces in a row. The middle one forwards to the far one over a link of MTU 600, and nobody hears of what
/// is too large for it. Removed when dropped.
struct NarrowPath {
    near: String,
    middle: String,
    far: String,
}

impl NarrowPath {
    /// 10.98.1.1 is near, 10.98.2.1 far.
    fn lay() -> Result<Self, String> {
        let number = std::process::id();
        let path = Self {
            near: format!("sfn{number}"),
            middle: format!("sfm{number}"),
            far: format!("sff{number}"),
        };
        let (near, middle, far) = (path.near.as_str(), path.middle.as_str(), path.far.as_str());
        for end in [near, middle, far] {
            ip(&["netns", "add", end])?;
            // `exec` needs more rights than `add`: try it here, where a skip is still possible.
            ip(&["netns", "exec", end, "ip", "link", "set", "lo", "up"])?;
        }
        for (end, name, network) in [(near, "left", 1), (far, "right", 2)] {
            ip(&["-n", end, "link", "add", name, "type", "veth", "peer", "name", name, "netns", middle])?;
            for (side, host) in [(end, 1), (middle, 2)] {
                ip(&["-n", side, "address", "add", &format!("10.98.{network}.{host}/24"), "dev", name])?;
                ip(&["-n", side, "link", "set", name, "up"])?;
            }
            ip(&["-n", end, "route", "add", "default", "via", &format!("10.98.{network}.2")])?;
        }
        ip(&["-n", middle, "link", "set", "right", "mtu", "600"])?;
        ip(&["netns", "exec", middle, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        // The middle says nothing by itself, so no ICMP either.
        ip(&["-n", middle, "rule", "add", "iif", "lo", "blackhole"])?;
        Ok(path)
    }
}

impl Drop for NarrowPath {
    fn drop(&mut self) {
        for end in [&self.near, &self.middle, &self.far] {
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
    farm.until_node_missed("far");
    let before = done();
    cable.set("up");
    farm.until_node("far", "up");
    farm.wait(&id).exits(0);
    assert!(before < 300, "the job outlived the cut");
    each_done_once(&farm.job(&id), &farm.results(&id), 300);
    // The administration goes over the cable too.
    assert_eq!(farm.cli_by(&farm.state().join("admin.join"), &["jobs"]).code, 3, "not from outside");
}

/// Workers that share no file system with anybody, and none of the machine where the files come from: all goes over the cable.
#[test]
fn files_come_and_go_over_a_cable_to_machines_that_share_nothing() {
    let cable = match Cable::lay() {
        Ok(cable) => cable,
        Err(why) => {
            return skip("netns", "files_come_and_go_over_a_cable_to_machines_that_share_nothing", &why);
        }
    };
    let mut farm = Farm::start_in(Some(&cable.near), "10.99.0.1:7117".parse().unwrap());
    let dir = farm.temp().path().join("animation");
    fs::create_dir_all(dir.join("textures")).unwrap();
    fs::write(dir.join("scene"), "a scene\n").unwrap();
    fs::write(dir.join("textures/oak"), "oak\n".repeat(100_000)).unwrap();
    let job = "[space]\nkind = \"frames\"\nfirst = 1\nlast = 24\n[task]\nexecutor = \"command\"\n\
               program = [\"sh\", \"-c\", \"(cat scene; echo {}; cat textures/oak) > frame{}\"]\n\
               inputs = [\"scene\", \"textures/**\"]\noutputs = [\"frame{}\"]\n";
    fs::write(dir.join("job.toml"), job).unwrap();
    let id = farm.submit(&[dir.join("job.toml").to_str().unwrap()]);
    // Whoever runs them finds them nowhere but at the scheduler.
    let gone = dir.with_file_name("gone");
    fs::rename(&dir, &gone).unwrap();
    let join = farm.state().join("worker.join");
    for name in ["left", "right"] {
        farm.add_worker_in(Some(&cable.far), name, &join, &["--slots", "1"]);
    }
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 24);
    let out = farm.temp().path().join("out");
    farm.cli(&["results", &id, "--dir", out.to_str().unwrap()]).exits(0);
    let oak = fs::read_to_string(gone.join("textures/oak")).unwrap();
    for frame in 1..=24 {
        let made = fs::read_to_string(out.join(format!("frame{frame}"))).unwrap();
        assert!(made == format!("a scene\n{frame}\n{oak}"), "frame {frame}");
    }
}

#[test]
fn a_job_goes_on_where_the_middle_of_the_path_swallows_large_datagrams() {
    let path = match NarrowPath::lay() {
        Ok(path) => path,
        Err(why) => {
            let test = "a_job_goes_on_where_the_middle_of_the_path_swallows_large_datagrams";
            return skip("netns", test, &why);
        }
    };
    let mut farm = Farm::start_in(Some(&path.near), "10.98.1.1:7117".parse().unwrap());
    let join = farm.state().join("worker.join");
    farm.add_worker_in(Some(&path.far), "far", &join, &["--slots", "4"]);
    farm.until_nodes_up(1);
    // Results of three units fill a datagram, and a heartbeat that lists what waits takes another.
    let script = "printf '%0400d' 7";
    let id = farm.submit(&["--range", "0..300", "--units-per-task", "1", "--", "sh", "-c", script]);
    farm.wait(&id).exits(0);
    each_done_once(&farm.job(&id), &farm.results(&id), 300);
    let show = || farm.cli(&["node", "show", "far"]).exits(0).stdout.clone();
    until("the path is known", || show().contains("at most 548 bytes"));
}
