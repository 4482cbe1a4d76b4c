//! Devices in a farm: a search uses them beside the cores, and one that fails costs nobody anything. The device of the tests is
//! PoCL's, the machine's own processor; what is found on it is `agreement`'s business.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use starfarm_e2e::{
    Daemon, Farm, Reply, Signal, TempDir, a_device, end, program, run, running_with, send, units, until,
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

/// A farm whose one worker has a core and a device, if there is one.
fn farm(test: &str) -> Option<Farm> {
    a_device(test)?;
    let mut farm = Farm::start();
    farm.add_worker("a", &["--slots", "1", "--devices", "0"]);
    Some(farm)
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
    let Some(mut farm) = farm("a_core_and_a_device_search_together") else { return };
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
    let Some(mut farm) = farm("a_host_that_is_killed_or_hangs_costs_no_unit") else { return };
    let id = farm.submit_text(&search(2, ""));
    for signal in [Signal::KILL, Signal::STOP] {
        let host = until_some("a host runs", || hosts(farm.temp().path()).first().copied());
        send(signal, host);
        until("it is noticed", || !hosts(farm.temp().path()).contains(&host));
    }
    farm.wait(&id).exits(0);
    assert_eq!(farm.workers[0].poll(), None, "the worker goes on");
    let job = farm.job(&id);
    assert_eq!((&job["units_done"], &job["units_failed"]), (&26_u64.pow(7).to_string().into(), &"0".into()));
}

/// Where units are not searched in their order, nothing may have been done when the search is stopped.
#[test]
fn a_device_whose_search_is_cancelled_is_not_sick() {
    let Some(farm) = farm("a_device_whose_search_is_cancelled_is_not_sick") else { return };
    let job = "[space]\nkind = \"chars\"\nmask = \"?l?l?l?l?h?h?1\"\nalphabets = { 1 = \"abcdefghijklmnopqrst\" }\n\
               [task]\nexecutor = \"search\"\nalgorithm = \"md5\"\nstop = \"never\"\n\
               targets = [\"95ebc3c7b3b9f1d2c40fec14415d3cb8\"]\nneeds = { device = \"cpu\" }\nunits_per_task = 1000000000\n";
    for _ in 0..12 {
        let id = farm.submit_text(job);
        until("the device computes", || farm.job(&id)["units_done"] != "0");
        farm.cli(&["job", "cancel", &id]).exits(0);
    }
    let id = farm.submit_text(&search(0, "needs = { device = \"cpu\" }"));
    farm.wait(&id).exits(0);
    let log = farm.workers[0].log();
    assert!(!log.contains("it was not given"), "{log}");
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
    send(Signal::STOP, host);
    farm.wait(&id).exits(0);
    assert_eq!(units(&farm.results(&id)["hits"]), [26_u128.pow(5) - 1]);
}

/// A driver of our own, from its text in C.
fn driver(dir: &Path, text: &str) -> PathBuf {
    let (source, library) = (dir.join("driver.c"), dir.join("libdriver.so"));
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).args([&library, &source]).status();
    assert!(built.unwrap().success(), "a linker is there, or this test would not be");
    library
}

/// A driver that ends whoever loads it.
const CRASHES: &str = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n";

/// PoCL's driver, whose device is gone while there is a file of the name `GONE`: as of a card that fell off its bus, no call
/// finds it, or where something is in the file, each call ends the process. The numbers are places in the table of calls of the ICD loader's ABI.
const VANISHES: &str = r#"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *(*address)();
static int (*create)(), (*launch)();
static int gone(void) {
    char some;
    int file = open(getenv("GONE"), O_RDONLY);
    if (file < 0) return 0;
    if (read(file, &some, 1) == 1) abort();
    close(file);
    return 1;
}
static void *context(void *p, int n, void *d, void *f, void *u, int *error) {
    if (gone()) { if (error) *error = -2; return 0; }
    return ((void *(*)(void *, int, void *, void *, void *, int *))create)(p, n, d, f, u, error);
}
static int range(void *q, void *k, unsigned n, void *o, void *g, void *l, unsigned e, void *w, void *ev) {
    if (gone()) return -2;
    return launch(q, k, n, o, g, l, e, w, ev);
}
static void patch(void ***platform) {
    void **table = platform[0];
    if (table[4] == context) return;
    char *page = (char *)((unsigned long)table & -4096L);
    mprotect(page, (char *)(table + 60) - page, PROT_READ | PROT_WRITE);
    create = table[4]; launch = table[59];
    table[4] = context; table[59] = range;
}
static int platforms(unsigned room, void ****list, unsigned *number) {
    int status = ((int (*)())address("clIcdGetPlatformIDsKHR"))(room, list, number);
    if (status == 0 && list && room) patch(list[0]);
    return status;
}
void *clGetExtensionFunctionAddress(const char *name) {
    if (!address) address = dlsym(dlopen("libpocl.so.2", RTLD_NOW), "clGetExtensionFunctionAddress");
    return strcmp(name, "clIcdGetPlatformIDsKHR") ? address(name) : platforms;
}
"#;

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
    let crash = driver(dir.path(), CRASHES);
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

#[test]
fn a_run_searches_on_devices_alone_where_the_job_says_so_and_refuses_what_is_not_here() {
    let test = "a_run_searches_on_devices_alone_where_the_job_says_so_and_refuses_what_is_not_here";
    if a_device(test).is_none() {
        return;
    }
    let temp = TempDir::new();
    let run_it = |needs: &str, state: &str| {
        let job = temp.write("job.toml", search(0, needs));
        let mut command = program("starfarm", temp.path());
        command.args(["--output", "jsonl", "run", "--no-progress"]).arg(&job);
        command.arg("--state").arg(temp.path().join(state));
        run(command)
    };
    let reply = run_it("needs = { device = \"cpu\" }", "cpu");
    assert_eq!(
        reply.exits(0).stdout.matches("11881375").count(),
        1,
        "the last one is found once: {}",
        reply.stdout
    );
    run_it("needs = { memory = \"900TiB\" }", "none").exits(2).says(&[
        "the job needs a device",
        "this machine is the only node of a run: this machine has no such device",
    ]);
    assert!(!temp.path().join("none").exists(), "nothing was begun");
}

/// The device of a farm's worker by that driver, and the file that makes it vanish.
fn vanishing(test: &str) -> Option<(Farm, PathBuf)> {
    a_device(test)?;
    let mut farm = Farm::start();
    let (vendors, gone) = (farm.temp().path().join("vendors"), farm.temp().path().join("gone"));
    std::fs::create_dir(&vendors).unwrap();
    let driver = driver(farm.temp().path(), VANISHES);
    std::fs::write(vendors.join("0.icd"), driver.to_str().unwrap()).unwrap();
    let mut command = program("starfarm-worker", farm.temp().path());
    command.args(worker_args("a", &farm.state().join("worker.join"), &farm.worker_state("a")));
    command.args(["--slots", "1", "--devices", "0"]).env("OCL_ICD_VENDORS", &vendors).env("GONE", &gone);
    let daemon = Daemon::start("a", command, farm.temp().path());
    farm.workers.push(daemon);
    Some((farm, gone))
}

fn is_sick(farm: &Farm) -> bool {
    farm.ask(&["nodes"])["nodes"][0]["devices"][0]["slots"][0]["state"] == "sick"
}

/// A job of 60 units, each of which is a launch.
fn slow(farm: &Farm) -> String {
    farm.temp().write(
        "slow.cl",
        "__kernel void slow(__global const ulong *base, ulong count, __global ulong *sum) {
            for (int i = 0; i < 30000000; i++) sum[0] = sum[0] * 5 + i;
            sum[0] = 1;
        }",
    );
    format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = 60\n[task]\nexecutor = \"opencl\"\nkernel = {:?}\n\
         counters = {{ sum = \"sum ulong\" }}\n",
        farm.temp().path().join("slow.cl").to_str().unwrap()
    )
}

#[test]
fn a_device_that_vanishes_is_sick_until_it_is_back_and_no_unit_is_to_blame() {
    let test = "a_device_that_vanishes_is_sick_until_it_is_back_and_no_unit_is_to_blame";
    let Some((farm, gone)) = vanishing(test) else { return };
    // A unit of the second job is a launch, so that the one at which the device goes looks like one that fails.
    for job in [search(2, ""), slow(&farm)] {
        let id = farm.submit_text(&job);
        until("the device computes", || {
            !hosts(farm.temp().path()).is_empty() && farm.job(&id)["units_done"] != "0"
        });
        std::fs::write(&gone, "").unwrap();
        until("it is sick", || is_sick(&farm));
        std::fs::remove_file(&gone).unwrap();
        until("it is back", || !is_sick(&farm));
        farm.wait(&id).exits(0);
        assert_eq!(farm.job(&id)["units_failed"], "0");
    }
}

/// It looks like a kernel that crashes its compiler.
#[test]
fn a_driver_that_crashes_whatever_it_is_given_is_not_taken_for_a_kernel_that_cannot_be_compiled() {
    let test = "a_driver_that_crashes_whatever_it_is_given_is_not_taken_for_a_kernel_that_cannot_be_compiled";
    let Some((farm, gone)) = vanishing(test) else { return };
    std::fs::write(&gone, "for good").unwrap();
    let id = farm.submit_text(&slow(&farm));
    until("it is sick", || is_sick(&farm));
    std::fs::remove_file(&gone).unwrap();
    farm.wait(&id).exits(0);
    let job = farm.job(&id);
    assert_eq!((&job["units_failed"], &job["refused_by"]), (&"0".into(), &serde_json::json!([])));
}
