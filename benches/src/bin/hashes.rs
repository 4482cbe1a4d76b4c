//! Searches through a whole farm of real processes against hashcat, by turns: two slots on the machine's cores, and its first
//! OpenCL device (PoCL's where there is no card), with one target and with a million.
//!
//! ```sh
//! cargo build --release --bins --workspace
//! target/release/hashes [ROUNDS [ALGORITHM]]
//! ```

use std::fs;
use std::process::Command;

use starfarm_benches::{cpu_seconds, median};
use starfarm_e2e::{Farm, Pid};
use starfarm_opencl::devices;
use starfarm_protocol::random::SplitMix64;

/// Names, hashcat's modes, bytes of a digest.
const ALGORITHMS: [(&str, &str, usize); 4] =
    [("md5", "0", 16), ("ntlm", "1000", 16), ("sha1", "100", 20), ("sha256", "1400", 32)];
/// Candidates of the last six letters of seven.
const OF_SIX: f64 = 308_915_776.0;
/// How long a job is to take.
const SECONDS: f64 = 6.0;
/// The same with many targets, which take a second to read and sort: a real job of them runs for hours.
const SECONDS_MANY: f64 = 20.0;
const MANY: usize = 1_000_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds: usize = words.first().map_or(3, |word| word.parse().expect("a number"));
    let device = devices().expect("an OpenCL driver").into_iter().next().expect("an OpenCL device");
    let on_device = format!("needs = {{ device = \"{}\" }}", device.facts().kind);
    let farms = [
        ("cores", farm(&["--slots", "2", "--devices", "none"]), String::new()),
        ("device", farm(&["--slots", "1", "--devices", "0"]), on_device),
    ];
    println!("{}", device.facts().name);
    println!(
        "M/s, medians of {rounds} rounds; beside each rate its share of that in the column before, and CPU outside the search"
    );
    println!(
        "{:<8}{:<8}{:>9}{:>9}{:>8}{:>12}{:>8}{:>9}",
        "", "", "hashcat", "one", "", "million", "", "outside"
    );
    for (name, mode, bytes) in ALGORITHMS {
        if words.get(1).is_some_and(|word| word != name) {
            continue;
        }
        let mut found: Vec<[Vec<f64>; 3]> = farms.iter().map(|_| Default::default()).collect();
        let mut hashcats = Vec::new();
        for _ in 0..rounds {
            let rate = hashcat(mode);
            hashcats.push(rate);
            for ((_, farm, needs), [one, many, outside]) in farms.iter().zip(&mut found) {
                for (targets, rates) in [(1, &mut *one), (MANY, many)] {
                    let (rate, share) = search((farm, needs), (name, bytes), targets, rate);
                    rates.push(rate);
                    if targets == 1 {
                        outside.push(share);
                    }
                }
            }
        }
        let hashcat = median(hashcats);
        for ((place, _, _), [one, many, outside]) in farms.iter().zip(found) {
            let (one, many) = (median(one), median(many));
            println!(
                "{name:<8}{place:<8}{hashcat:>9.0}{one:>9.0}{:>7.2}x{many:>12.0}{:>7.2}x{:>8.2}%",
                one / hashcat,
                many / one,
                100.0 * median(outside)
            );
        }
    }
}

fn farm(args: &[&str]) -> Farm {
    let mut farm = Farm::start();
    farm.add_worker("w", args);
    farm.until_nodes_up(1);
    farm
}

/// hashcat's own measurement, in M/s.
fn hashcat(mode: &str) -> f64 {
    let mut hashcat = Command::new("hashcat");
    hashcat.args(["-b", "-m", mode, "-O", "--machine-readable", "--logfile-disable"]);
    let said = String::from_utf8(hashcat.output().expect("hashcat is installed").stdout).expect("plain text");
    let line = said.lines().find(|line| line.starts_with("1:")).expect("hashcat has a device");
    line.rsplit(':').next().and_then(|rate| rate.parse::<f64>().ok()).expect("a rate") / 1e6
}

/// M/s of a job through the farm, which takes some seconds, and which share of the CPU time was outside the search.
fn search(
    (farm, needs): (&Farm, &str),
    (name, bytes): (&str, usize),
    targets: usize,
    rate: f64,
) -> (f64, f64) {
    let seconds = if targets == 1 { SECONDS } else { SECONDS_MANY };
    let letters = ((rate * 1e6 * seconds / OF_SIX) as usize).clamp(1, 26);
    let mut random = SplitMix64(7);
    let list: String = (0..targets)
        .map(|_| (0..bytes).map(|_| format!("{:02x}", random.draw() as u8)).collect::<String>() + "\n")
        .collect();
    let file = farm.temp().write("targets", list);
    let alphabet = &"abcdefghijklmnopqrstuvwxyz"[..letters];
    let text = format!(
        "[space]\nkind = \"chars\"\nmask = \"?1?l?l?l?l?l?l\"\nalphabets = {{ 1 = \"{alphabet}\" }}\n[task]\n\
         executor = \"search\"\nalgorithm = \"{name}\"\ntargets_file = {file:?}\nstop = \"never\"\n{needs}"
    );
    let (inside, outside) = cpu(farm);
    let id = farm.submit_text(&text);
    farm.wait(&id).exits(0);
    let (inside, outside) = (cpu(farm).0 - inside, cpu(farm).1 - outside);
    let seconds = farm.job(&id)["run_seconds"].as_f64().expect("an ended job has run");
    (letters as f64 * OF_SIX / seconds / 1e6, outside / (inside + outside))
}

/// CPU seconds of the slots and the processes that run devices, and of all else that scheduler and worker do.
fn cpu(farm: &Farm) -> (f64, f64) {
    let worker = farm.workers[0].pid();
    let is_slot = |name: &str| name.starts_with("slot ");
    let children = fs::read_dir("/proc").expect("this is Linux").filter_map(|entry| {
        let id: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent: i32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (parent == worker.as_raw_nonzero().get()).then(|| Pid::from_raw(id)).flatten()
    });
    let hosts: f64 = children.map(|child| cpu_seconds(child, |_| true)).sum();
    let rest = cpu_seconds(farm.scheduler.pid(), |_| true) + cpu_seconds(worker, |name| !is_slot(name));
    (hosts + cpu_seconds(worker, is_slot), rest)
}
