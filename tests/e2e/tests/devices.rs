//! Devices in a farm: a search uses them beside the cores, and one that fails costs nobody anything. The device of the tests is
//! PoCL's, the machine's own processor; what is found on it is `agreement`'s business.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use starfarm_e2e::{
    Daemon, Farm, Pid, Reply, Signal, TempDir, a_device, end, program, run, running_with, units, until,
    until_some, worker_args,
};

/// A job that finds `zzzzz`, over so many letters more, and nothing else.
fn search(letters: usize, more: &str) -> String {
    let mask = "?l".repeat(5 + letters);
    format!(
        "[space]\nkind = \"chars\"\nmask = \"{mask}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
         targets = [\"95ebc3c7b3b9f1d2c40fec14415d3cb8\"]\nstop = \"never\"\n{more}"
    )
}

/// The processes that run the devices of workers below `dir`.
fn hosts(dir: &Path) -> Vec<u32> {
    let is_host = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--slot-host=0")
    };
    running_with(dir.to_str().unwrap()).into_iter().filter(is_host).collect()
}

#[test]
fn a_core_and_a_device_search_together() {
    if a_device("a_core_and_a_device_search_together").is_none() {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("a", &["--slots", "1", "--devices", "0"]);
    let id = farm.submit_text(&search(0, "target_seconds = 0.05"));
    farm.wait(&id).exits(0);
    assert_eq!(farm.job(&id)["units_done"], 26_u32.pow(5).to_string());
    assert_eq!(units(&farm.results(&id)["hits"]), [26_u128.pow(5) - 1]);
    until("the device was used", || hosts(farm.temp().path()).len() == 1);
    end(&mut farm.workers);
    until("the host goes with its worker", || hosts(farm.temp().path()).is_empty());
}

#[test]
fn a_host_that_is_killed_or_hangs_costs_no_unit() {
    if a_device("a_host_that_is_killed_or_hangs_costs_no_unit").is_none() {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("a", &["--slots", "1", "--devices", "0"]);
    let id = farm.submit_text(&search(2, ""));
    for signal in [Signal::KILL, Signal::STOP] {
        let host = until_some("a host runs", || hosts(farm.temp().path()).first().copied());
        rustix::process::kill_process(Pid::from_raw(host.cast_signed()).unwrap(), signal).unwrap();
        until("it is noticed", || !hosts(farm.temp().path()).contains(&host));
    }
    farm.wait(&id).exits(0);
    assert_eq!(farm.workers[0].poll(), None, "the worker goes on");
    let job = farm.job(&id);
    assert_eq!((&job["units_done"], &job["units_failed"]), (&26_u64.pow(7).to_string().into(), &"0".into()));
}

/// The job is longer than a pipe: a host that is stopped reads nothing of it.
#[test]
fn a_host_that_does_not_read_its_job_is_noticed() {
    if a_device("a_host_that_does_not_read_its_job_is_noticed").is_none() {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("a", &["--slots", "1", "--devices", "0"]);
    let targets: String = (0..50_000_u32).map(|n| format!("{n:032x}\n")).collect();
    let list = farm.temp().write("targets", targets + "95ebc3c7b3b9f1d2c40fec14415d3cb8\n");
    let id = farm.submit_text(&search(0, "").replace(
        "targets = [\"95ebc3c7b3b9f1d2c40fec14415d3cb8\"]",
        &format!("targets_file = {list:?}\ntarget_seconds = 0.05"),
    ));
    let host = until_some("a host runs", || hosts(farm.temp().path()).first().copied());
    rustix::process::kill_process(Pid::from_raw(host.cast_signed()).unwrap(), Signal::STOP).unwrap();
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"]), [26_u128.pow(5) - 1]);
}

/// A driver that ends whoever loads it.
fn crashing_driver(dir: &Path) -> PathBuf {
    let (source, library) = (dir.join("crash.c"), dir.join("libcrash.so"));
    std::fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n",
    )
    .unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.unwrap().success(), "a linker is there, or this test would not be");
    library
}

/// What a worker finds where these libraries are the drivers of OpenCL.
fn probe_with(drivers: &[&str], args: &[&str]) -> Reply {
    let dir = TempDir::new();
    for (number, driver) in drivers.iter().enumerate() {
        dir.write(&format!("{number}.icd"), driver);
    }
    let mut command = program("starfarm-worker", dir.path());
    command.args(args).env("OCL_ICD_VENDORS", dir.path());
    run(command)
}

#[test]
fn a_machine_without_a_driver_or_with_a_broken_one_has_no_devices() {
    if a_device("a_machine_without_a_driver_or_with_a_broken_one_has_no_devices").is_none() {
        return;
    }
    let dir = TempDir::new();
    let crash = crashing_driver(dir.path());
    let crash = crash.to_str().unwrap();
    for (drivers, words) in [(&[][..], "no OpenCL platform was found"), (&[crash][..], "signal 6")] {
        let table = &probe_with(drivers, &["--probe"]).exits(0).stdout.clone();
        assert!(table.contains("devices  none") && table.contains(words), "{table}");
        let probed = probe_with(drivers, &["--probe", "json"]).exits(0).json();
        assert_eq!(probed["devices"], serde_json::json!([]));
        assert!(probed["no_devices"].as_str().unwrap().contains(words), "{probed}");
    }
    // One that cannot be loaded is no harm to the others.
    let probed = probe_with(&["libnowhere.so", "libpocl.so.2"], &["--probe", "json"]).exits(0).json();
    assert_eq!((&probed["devices"][0]["kind"], &probed["no_devices"]), (&"cpu".into(), &Value::Null));
}

#[test]
fn a_worker_without_a_driver_works_and_one_that_needs_it_says_so() {
    let mut farm = Farm::start();
    let empty = TempDir::new();
    let join = farm.state().join("worker.join");
    let worker = |name: &str, devices: &str| {
        let mut command = program("starfarm-worker", farm.temp().path());
        command.args(worker_args(name, &join, &farm.worker_state(name))).args(["--devices", devices]);
        command.env("OCL_ICD_VENDORS", empty.path());
        command
    };
    run(worker("a", "0")).exits(2).says(&["--devices: no OpenCL platform was found"]);
    let daemon = Daemon::start("b", worker("b", "gpu"), farm.temp().path());
    farm.workers.push(daemon);
    let id = farm.submit_text(&search(0, ""));
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"]), [26_u128.pow(5) - 1]);
    farm.workers[0].until_says("no devices beside the cores: no OpenCL platform was found");
}
