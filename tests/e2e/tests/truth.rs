//! What is measured against what the machine's own tools say: loads of a known size, measured by both at the same time.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use starfarm_e2e::machines::Machines;
use starfarm_e2e::{Daemon, Farm, has, skip, until, until_some};

/// Two figures may go apart by so much: a twentieth, and what a moment between two looks makes.
fn is_near(ours: f64, theirs: f64, moment: f64, what: &str) {
    let apart = (ours - theirs).abs();
    println!("{what}: {ours} here, {theirs} there");
    assert!(apart <= theirs.abs() / 20.0 + moment, "{what}: {ours} here, {theirs} there");
}

/// The waves of some seconds, as they come.
fn waves(farm: &Farm, of: &[&str], metric: &str, during: Duration) -> Vec<f64> {
    let (start, mut seen, mut last) = (Instant::now(), Vec::new(), f64::MAX);
    while start.elapsed() < during {
        let shown = farm.ask(&[&["monitor", "show"], of].concat());
        let series = shown["series"].as_array().unwrap().iter().find(|series| series["metric"] == metric);
        if let Some(series) = series {
            let age = series["age_seconds"].as_f64().unwrap();
            // A new one is younger than the one before was.
            if age < last {
                seen.push(series["sum"].as_f64().unwrap());
            }
            last = age;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    seen
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// What a tool prints in a number of seconds.
fn tool(words: &[&str]) -> std::process::Child {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The sum of a column over the averages that `pidstat` prints.
fn sum_of(printed: &str, column: &str) -> f64 {
    let averages = || printed.lines().filter(|line| line.starts_with("Average:"));
    let mut heads = averages().filter(|line| line.ends_with("Command"));
    let head = heads.find(|line| line.split_whitespace().any(|word| word == column)).unwrap();
    let at = head.split_whitespace().position(|word| word == column).unwrap();
    let rows =
        averages().skip_while(|line| *line != head).skip(1).take_while(|line| !line.ends_with("Command"));
    rows.map(|line| line.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn a_load_of_known_size_is_what_pidstat_and_free_say() {
    let test = "a_load_of_known_size_is_what_pidstat_and_free_say";
    if !has("pidstat", test) || !has("stress-ng", test) {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    let load = "exec stress-ng --quiet --cpu 1 --cpu-load 60 --vm 1 --vm-bytes 300m --vm-keep --vm-hang 0 --timeout 120";
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", load]);
    let usage = |key: &str| farm.job(&id)["usage"][key]["sum"].as_f64().unwrap_or_default();
    until("it uses memory", || usage("memory_bytes") > 3e8);
    let pidstat = tool(&["pidstat", "-u", "-r", "-p", "ALL", "-C", "stress-ng", "12", "1"]);
    let (cpu, memory) =
        (waves(&farm, &["--job", &id], "cpu", Duration::from_secs(12)), usage("memory_bytes"));
    let printed = String::from_utf8(pidstat.wait_with_output().unwrap().stdout).unwrap();
    is_near(mean(&cpu), sum_of(&printed, "%CPU") / 100.0, 0.03, "cores of the job");
    is_near(memory, sum_of(&printed, "RSS") * 1024.0, 1e6, "memory of the job");
    // The same of the machine: what `free` calls used is what is not available.
    let node = farm.ask(&["nodes"])["nodes"][0]["usage"]["memory_bytes"].as_f64().unwrap();
    let free = String::from_utf8(tool(&["free", "-b"]).wait_with_output().unwrap().stdout).unwrap();
    let words: Vec<f64> =
        free.lines().nth(1).unwrap().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    is_near(node, words[0] - words[5], 2e8, "memory of the machine");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

#[test]
fn figures_of_a_job_are_the_sum_over_its_units_on_two_nodes() {
    let test = "figures_of_a_job_are_the_sum_over_its_units_on_two_nodes";
    if !has("pidstat", test) {
        return;
    }
    let mut farm = Farm::start();
    for node in ["w1", "w2"] {
        farm.add_worker(node, &["--slots", "2"]);
        farm.until_node(node, "up");
    }
    // Units of 10, 15, 20 and 25 % of a core, and of 40, 60, 80 and 100 MiB, under a name that no other test gives.
    let load = "import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b'truth-unit')
n = int(sys.argv[1])
held, share = bytearray((40 + 20 * n) << 20), 0.1 + 0.05 * n
while True:
    end = time.monotonic() + 0.1 * share
    while time.monotonic() < end: pass
    time.sleep(0.1 * (1 - share))";
    let id = farm.submit(&["--range", "0..4", "--units-per-task", "1", "--", "python3", "-c", load, "{}"]);
    until("all four are measured, two on each node", || {
        let usage = farm.job(&id)["usage"].clone();
        let all = usage["units"] == 4 && usage["from"] == 2 && usage["of"] == 2;
        all && usage["memory_bytes"]["sum"].as_f64().unwrap_or_default() > 3e8
    });
    let pidstat = tool(&["pidstat", "-u", "-r", "-p", "ALL", "-C", "truth-unit", "12", "1"]);
    let cpu = waves(&farm, &["--job", &id], "cpu", Duration::from_secs(12));
    let usage = farm.job(&id)["usage"].clone();
    let printed = String::from_utf8(pidstat.wait_with_output().unwrap().stdout).unwrap();
    is_near(mean(&cpu), sum_of(&printed, "%CPU") / 100.0, 0.06, "cores of the job");
    let memory = |of: &str| usage["memory_bytes"][of].as_f64().unwrap();
    is_near(memory("sum"), sum_of(&printed, "RSS") * 1024.0, 4e6, "memory of the job");
    assert!((memory("avg") * 4.0 - memory("sum")).abs() < 4.0, "{usage}");
    let apart = memory("max") - memory("min");
    assert!((50e6..75e6).contains(&apart), "the greatest has 60 MiB more than the least: {usage}");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

/// A group of processes whose memory the kernel counts; it is gone at the end.
struct Group(std::path::PathBuf);

impl Group {
    fn make(name: &str) -> std::io::Result<Self> {
        let path =
            std::path::Path::new("/sys/fs/cgroup/memory").join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn bytes(&self) -> f64 {
        let stat = std::fs::read_to_string(self.0.join("memory.stat")).unwrap();
        let of = |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<f64>().ok());
        of("rss ").unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may take a moment to be gone.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn memory_of_a_unit_is_what_its_cgroup_says() {
    let test = "memory_of_a_unit_is_what_its_cgroup_says";
    let group = match Group::make("starfarm-truth") {
        Ok(group) => group,
        Err(why) => return skip("cgroup", test, &why.to_string()),
    };
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    // Two processes: one that computes with 200 MB, and one with 100.
    let holds = "import sys,time; held=bytearray(int(sys.argv[1])<<20); time.sleep(1000)";
    let load = "echo $$ > $1/cgroup.procs; python3 -c \"$2\" 100 & exec python3 -c \"$2\" 200";
    let group_path = group.0.display().to_string();
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", load, "sh", &group_path, holds]);
    let memory = || farm.job(&id)["usage"]["memory_bytes"]["sum"].as_f64().unwrap_or_default();
    until("it has taken all", || memory() > 3.1e8);
    std::thread::sleep(Duration::from_secs(2));
    // Pages of the interpreter's file that both share count for each, and not in the group: a few MiB.
    is_near(memory(), group.bytes(), 1.2e7, "memory of the unit");
    farm.cli(&["job", "cancel", &id]).exits(0);
    until("it has ended", || std::fs::read_to_string(group.0.join("cgroup.procs")).unwrap().is_empty());
}

#[test]
fn what_a_unit_writes_to_a_disk_is_what_pidstat_says() {
    let test = "what_a_unit_writes_to_a_disk_is_what_pidstat_says";
    if !has("pidstat", test) {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    // 10 MiB a second, each on the disk before the next.
    let writes = "import ctypes,os,sys,time
ctypes.CDLL(None).prctl(15, b'truth-disk')
f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(f, os.urandom(1 << 19), 0)
    os.fsync(f)
    time.sleep(0.05)";
    let file = farm.temp().path().join("written").display().to_string();
    let id = farm.submit(&["--range", "0..1", "--", "python3", "-c", writes, &file]);
    let io = || farm.job(&id)["usage"]["io_bytes_per_s"]["sum"].as_f64();
    until("it runs, and its writes are known", || io().is_some());
    std::thread::sleep(Duration::from_secs(2));
    if io() == Some(0.0) {
        return skip("disk", test, "the folder for tests is in memory, where nothing is written to a disk");
    }
    let pidstat = tool(&["pidstat", "-d", "-p", "ALL", "-G", "truth-disk", "12", "1"]);
    let written = waves(&farm, &["--job", &id], "io", Duration::from_secs(12));
    let printed = String::from_utf8(pidstat.wait_with_output().unwrap().stdout).unwrap();
    let theirs = (sum_of(&printed, "kB_rd/s") + sum_of(&printed, "kB_wr/s")) * 1024.0;
    is_near(mean(&written), theirs, 2e5, "bytes that the unit has read and written, a second");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

#[test]
fn the_processors_of_a_machine_are_as_busy_as_sar_says() {
    let test = "the_processors_of_a_machine_are_as_busy_as_sar_says";
    if !has("pidstat", test) || !has("stress-ng", test) {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    let load = "exec stress-ng --quiet --cpu 2 --cpu-load 50 --timeout 120";
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", load]);
    until("it runs", || farm.job(&id)["usage"]["cpu_cores"]["sum"].as_f64().unwrap_or_default() > 0.5);
    let sar = tool(&["sar", "-u", "12", "1"]);
    let cpu = waves(&farm, &["--node", "w1"], "cpu", Duration::from_secs(12));
    let printed = String::from_utf8(sar.wait_with_output().unwrap().stdout).unwrap();
    let average = printed.lines().find(|line| line.starts_with("Average:")).unwrap();
    // all, then %user %nice %system %iowait %steal %idle
    let shares: Vec<f64> = average.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let busy = (100.0 - shares[3] - shares[5]) / 100.0 * cores;
    is_near(mean(&cpu), busy, 0.08, "cores of the machine");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

/// Bytes that an interface has received and sent, as `ip -s` says.
fn bytes(namespace: &str) -> [f64; 2] {
    let shown =
        tool(&["ip", "-n", namespace, "-s", "-j", "link", "show", "cable"]).wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&shown.stdout).unwrap();
    ["rx", "tx"].map(|way| json[0]["stats64"][way]["bytes"].as_f64().unwrap())
}

#[test]
fn what_a_machine_receives_is_what_ip_says() {
    let test = "what_a_machine_receives_is_what_ip_says";
    let machines = match Machines::lay(2) {
        Ok(machines) => machines,
        Err(why) => return skip("netns", test, &why),
    };
    let mut farm = Farm::start_in(Some(machines.name(0)), machines.address(0, 7117));
    let join = farm.state().join("worker.join");
    farm.add_worker_in(Some(machines.name(1)), "w1", &join, &["--slots", "1"]);
    farm.until_node("w1", "up");
    // 40 datagrams of 50 kB a second, to the machine of the scheduler, which sends them back.
    let (near, far) = (machines.address(0, 9_000), machines.address(1, 9_000));
    let echo = format!(
        "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.bind(('{}',9000))\nwhile True:\n  d,a=s.recvfrom(65536)\n  s.sendto(d,a)",
        near.ip()
    );
    let mut echoes = Command::new("ip");
    echoes.args(["netns", "exec", machines.name(0), "python3", "-c", &echo]);
    let mut echoes = Daemon::start("echo", echoes, farm.temp().path());
    let sends = format!(
        "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.bind(('{}',9000))\ns.settimeout(1)\nwhile True:\n  s.sendto(b'x'*50000,('{}',9000))\n  try: s.recv(65536)\n  except OSError: pass\n  time.sleep(0.025)",
        far.ip(),
        near.ip()
    );
    let id = farm.submit(&["--range", "0..1", "--", "python3", "-c", &sends]);
    let received = |farm: &Farm| waves(farm, &["--node", "w1"], "network-received", Duration::from_secs(2));
    until_some("it receives", || received(&farm).last().copied().filter(|bytes| *bytes > 5e5));
    let (before, start) = (bytes(machines.name(1)), Instant::now());
    let cpu = std::thread::scope(|scope| {
        let [received, sent] = ["network-received", "network-sent"].map(|metric| {
            let farm = &farm;
            scope.spawn(move || waves(farm, &["--node", "w1"], metric, Duration::from_secs(12)))
        });
        [received.join().unwrap(), sent.join().unwrap()]
    });
    let (after, seconds) = (bytes(machines.name(1)), start.elapsed().as_secs_f64());
    for way in 0..2 {
        let theirs = (after[way] - before[way]) / seconds;
        is_near(mean(&cpu[way]), theirs, 2e4, ["received", "sent"][way]);
    }
    farm.cli(&["job", "cancel", &id]).exits(0);
    echoes.kill();
}

#[test]
fn metrics_are_written_as_prometheus_reads_them() {
    let test = "metrics_are_written_as_prometheus_reads_them";
    if !has("promtool", test) {
        return;
    }
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    let id = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    until("a job is measured", || !farm.job(&id)["usage"].is_null());
    let metrics = farm.cli(&["monitor", "metrics"]).exits(0).stdout.clone();
    assert!(metrics.contains("starfarm_job_"), "{metrics}");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{metrics}", String::from_utf8_lossy(&output.stderr));
    farm.cli(&["job", "cancel", &id]).exits(0);
}

/// Processor time, in seconds, of all children of a process that have ended.
fn of_children(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) / 100.0
}

#[test]
fn ten_thousand_units_of_a_moment_count_with_all_that_they_use() {
    let mut farm = Farm::start();
    farm.add_worker("w1", &["--slots", "1"]);
    farm.until_node("w1", "up");
    let pid = farm.workers[0].pid().as_raw_nonzero().get() as u32;
    until("it is measured", || !farm.ask(&["nodes"])["nodes"][0]["usage"].is_null());
    let before = of_children(pid);
    let id = farm.submit(&["--range", "0..10000", "--", "true"]);
    farm.wait(&id).exits(0);
    let theirs = of_children(pid) - before;
    let total = until_some("its life is known", || {
        Some(farm.job(&id)["usage_total"].clone()).filter(|total| total["cpu_seconds"].is_number())
    });
    is_near(total["cpu_seconds"].as_f64().unwrap(), theirs, 0.1, "seconds of 10 000 units");
}
