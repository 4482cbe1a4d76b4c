//! Figures of what units write: outputs, files, lines of a list. Whole farms of real processes.
//!
//! ```sh
//! cargo build --release --bins --workspace
//! target/release/outputs_rate outputs [UNITS]  # units that write 2 KiB against the same without output, by turns
//! target/release/outputs_rate files [UNITS]    # units with 1 MiB in, the same for all, and 1 MiB out
//! target/release/outputs_rate lines [LINES]    # `gzip -c` over a list, against GNU parallel --pipe and xargs, by turns
//! target/release/outputs_rate render [FRAMES]  # POV-Ray, against xargs -P2, by turns; the pixels are compared
//! target/release/outputs_rate named [UNITS]    # units that a program in Python names
//! target/release/outputs_rate merge [UNITS]    # the outputs of a tenth of the units, and of all, merged in order
//! target/release/outputs_rate beside [TIMES]   # a job of one unit, beside transfers of large files and without, by turns
//! ```

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use starfarm_benches::{kib, median};
use starfarm_e2e::{Farm, TempDir, program};

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count = |default| args.get(1).map_or(default, |n| n.parse().expect("a number"));
    match args.first().map(String::as_str) {
        Some("outputs") => outputs(count(20_000)),
        Some("files") => files(count(1_000)),
        Some("lines") => lines(count(1_000_000)),
        Some("render") => render(count(48)),
        Some("named") => named(count(1_000_000)),
        Some("merge") => merge(count(100_000)),
        Some("beside") => beside(count(20)),
        _ => panic!("usage: outputs_rate outputs|files|lines|render|named|merge|beside [NUMBER]"),
    }
}

fn resident(farm: &Farm) -> i64 {
    kib(&farm.scheduler, "VmRSS:")
}

fn outputs(units: u64) {
    let farm = Farm::with_workers(2, 1);
    let range = format!("0..{units}");
    let rate = |format: &str| {
        let start = Instant::now();
        let id = farm.submit(&["--range", &range, "--", "printf", format, "{}"]);
        farm.wait(&id).exits(0);
        units as f64 / start.elapsed().as_secs_f64()
    };
    rate("%08d");
    let before = resident(&farm);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Their contents differ from round to round: equal ones are kept once.
        with.push(rate(&format!("{round}%02047d")));
        without.push(rate("%08d"));
        println!(
            "{:.0}/s with 2 KiB, {:.0}/s without; {} KiB resident",
            with[round],
            without[round],
            resident(&farm)
        );
    }
    let shares = with.iter().zip(&without).map(|(with, without)| with / without).collect();
    let grown = resident(&farm) - before;
    println!("medians {:.0} and {:.0}/s; share {:.3}", median(with), median(without), median(shares));
    println!("{grown} KiB more than before {} such outputs", units * ROUNDS as u64);
}

fn files(units: u64) {
    let farm = Farm::with_workers(2, 2);
    let input: Vec<u8> = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(farm.temp().path().join("input.bin"), input).expect("a file");
    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        let id = farm.submit_text(&format!(
            "name = \"files-{round}\"\n[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"command\"\n\
             program = [\"cp\", \"input.bin\", \"out-{round}-{{}}.bin\"]\ninputs = [\"input.bin\"]\n\
             outputs = [\"out-{round}-{{}}.bin\"]\n"
        ));
        farm.wait(&id).exits(0);
        rates.push(units as f64 / start.elapsed().as_secs_f64());
        println!("{:.0} MiB/s of outputs stored and synced", rates[round]);
        farm.cli(&["job", "delete", &id]).exits(0);
    }
    println!("median {:.0} MiB/s, 4 slots on 2 workers", median(rates));
}

fn lines(count: u64) {
    let dir = TempDir::new();
    let list = dir.path().join("lines");
    let text: String =
        (0..count).map(|n| format!("line {n} of a list, {:x}\n", n.wrapping_mul(0x9E37_79B9))).collect();
    fs::write(&list, text).expect("a file");
    let farm = Farm::with_workers(1, 2);
    let shell = |script: &str| shell(dir.path(), script);
    let (mut ours, mut parallel, mut xargs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        let path = list.to_str().expect("UTF-8");
        let job = format!("gzip -c {{file}} # {round}");
        let id = farm.submit(&["--per", "task", "--lines", path, "--", "sh", "-c", &job]);
        farm.wait(&id).exits(0);
        ours.push(start.elapsed().as_secs_f64());
        parallel.push(shell("parallel -k --pipe -j2 gzip -c < lines"));
        xargs.push(shell(
            "tr '\\n' '\\0' < lines | xargs -0 -n 1000 -P 2 sh -c 'printf \"%s\\n\" \"$@\" | gzip -c' sh",
        ));
        println!(
            "{:.2} s, parallel --pipe {:.2} s, xargs {:.2} s",
            ours[round], parallel[round], xargs[round]
        );
    }
    println!(
        "medians {:.2}, {:.2}, {:.2} s for {count} lines",
        median(ours),
        median(parallel),
        median(xargs)
    );
}

/// How long a script of the shell takes there, in seconds.
fn shell(dir: &Path, script: &str) -> f64 {
    let start = Instant::now();
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(shell.status().expect("a shell").success(), "{script}");
    start.elapsed().as_secs_f64()
}

/// `starfarm run --slots 2` of a job file in a directory, in seconds; its files come into `out`.
fn run_here(dir: &Path, job: &str, round: usize) -> f64 {
    fs::write(dir.join("job.toml"), job).expect("a file");
    // A second run would not overwrite the files of the first.
    let _ = fs::remove_dir_all(dir.join("out"));
    let mut run = program("starfarm", dir);
    run.args(["--output", "quiet", "run", "--slots", "2", "--dir", "out", "job.toml", "--state"])
        .arg(dir.join(format!("state-{round}")))
        .current_dir(dir)
        .stdout(Stdio::null());
    let start = Instant::now();
    assert!(run.status().expect("starfarm").success());
    start.elapsed().as_secs_f64()
}

fn render(frames: u64) {
    let dir = TempDir::new();
    let scene = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ball");
    shell(dir.path(), &format!("cp -r {} ball && mkdir serial", scene.display()));
    // Where a frame stands between the first and the last, as `{clock}` says it.
    let clock = format!("$(awk \"BEGIN {{ printf \\\"%.17g\\\", ($1 - 1) / {} }}\")", (frames - 1).max(1));
    let line = |clock: &str, out: &str| {
        format!(
            "povray +Iball/scene.pov +Lball/textures +K{clock} +FP +O{out} +W320 +H240 +WT1 +A0.2 -D -V -GA 2> /dev/null"
        )
    };
    let words: Vec<String> = line("{clock}", "frame{}.ppm")
        .split(' ')
        .take_while(|word| *word != "2>")
        .map(|word| format!("{word:?}"))
        .collect();
    let job = format!(
        "[space]\nkind = \"frames\"\nfirst = 1\nlast = {frames}\n[task]\nexecutor = \"command\"\nprogram = [{}]\n\
         inputs = [\"ball/scene.pov\", \"ball/textures/**\"]\noutputs = [\"frame{{}}.ppm\"]\n",
        words.join(", ")
    );
    fs::write(dir.path().join("frame.sh"), line(&clock, "serial/frame$1.ppm")).expect("a file");
    let (mut ours, mut xargs) = (Vec::new(), Vec::new());
    for round in 0..3 {
        ours.push(run_here(dir.path(), &job, round));
        xargs.push(shell(dir.path(), &format!("seq {frames} | xargs -P 2 -n 1 sh frame.sh")));
        println!("{:.1} s, xargs -P2 {:.1} s", ours[round], xargs[round]);
    }
    // The header says when a frame was rendered.
    shell(
        dir.path(),
        "for frame in serial/*; do sed -i '/^# Render Date/d' $frame out/${frame#*/}; done; diff -r out serial",
    );
    println!("medians {:.1} and {:.1} s for {frames} frames; pixels equal", median(ours), median(xargs));
}

fn named(units: u64) {
    let dir = TempDir::new();
    let names = format!(
        "import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n    at = asked['state'] or 0\n    \
         end = min(at + asked['next'], {units})\n    sys.stdout.write(''.join('{{\"unit\":%d}}\\n' % n for n in range(at, end)))\n    \
         print(json.dumps({{'end': True}} if end == {units} else {{'state': end}}), flush=True)\n"
    );
    fs::write(dir.path().join("names.py"), names).expect("a file");
    let job = "[space]\nkind = \"program\"\nprogram = [\"python3\", \"names.py\"]\n[task]\nexecutor = \"command\"\n\
               per = \"task\"\nprogram = [\"wc\", \"-l\", \"{file}\"]\n";
    let times: Vec<f64> = (0..ROUNDS).map(|round| run_here(dir.path(), job, round)).collect();
    let all = median(times);
    println!("median {all:.2} s from the start of the farm to its end: {:.0} units/s", units as f64 / all);
}

fn merge(units: u64) {
    let farm = Farm::with_workers(2, 1);
    for count in [units / 10, units] {
        for kind in ["concat", "sum"] {
            let id = farm.submit_text(&format!(
                "name = \"merge-{count}-{kind}\"\n[space]\nkind = \"range\"\nfrom = 0\nto = {count}\n[task]\nexecutor = \"command\"\n\
                 program = [\"printf\", \"%d\\\\n\", \"{{}}\"]\n[merge]\nkind = \"{kind}\"\n"
            ));
            farm.wait(&id).exits(0);
            let seconds = farm.job(&id)["merge"]["seconds"].as_f64().expect("it was merged");
            println!(
                "{kind} of {count} outputs: {seconds:.3} s; {} KiB resident at most",
                kib(&farm.scheduler, "VmHWM:")
            );
        }
    }
}

fn beside(times: u64) {
    let farm = Farm::with_workers(2, 1);
    let latency = || {
        let each = (0..times).map(|_| {
            let start = Instant::now();
            let id = farm.submit(&["--range", "0..1", "--now", "--", "true"]);
            farm.wait(&id).exits(0);
            start.elapsed().as_secs_f64() * 1e3
        });
        median(each.collect())
    };
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        alone.push(latency());
        // One of the workers makes files and sends them as long as is measured.
        let id = farm.submit_text(&format!(
            "name = \"large-{round}\"\n[space]\nkind = \"range\"\nfrom = 0\nto = 100000\n[task]\nexecutor = \"command\"\n\
             program = [\"sh\", \"-c\", \"head -c 64M /dev/urandom > f{{}}\"]\noutputs = [\"f{{}}\"]\nmax_nodes = 1\n"
        ));
        std::thread::sleep(std::time::Duration::from_secs(2));
        beside.push(latency());
        farm.cli(&["job", "delete", "--cancel", &id]).exits(0);
        std::thread::sleep(std::time::Duration::from_secs(1));
        println!("a job of one unit: {:.1} ms, beside transfers {:.1} ms", alone[round], beside[round]);
    }
    println!("medians {:.1} and {:.1} ms", median(alone), median(beside));
}
