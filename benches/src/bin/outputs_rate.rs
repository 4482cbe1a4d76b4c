//! Figures of what units write: outputs, files, lines of a list. Whole farms of real processes.
//!
//! ```sh
//! cargo build --release --bins --workspace
//! target/release/outputs_rate outputs [UNITS]  # units that write 2 KiB against the same without output, by turns
//! target/release/outputs_rate files [UNITS]    # units with 1 MiB in, the same for all, and 1 MiB out
//! target/release/outputs_rate lines [LINES]    # `gzip -c` over a list, against GNU parallel --pipe and xargs, by turns
//! ```

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use starfarm_benches::{kib, median};
use starfarm_e2e::{Farm, TempDir};

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let count = |default| args.get(1).map_or(default, |n| n.parse().expect("a number"));
    match args.first().map(String::as_str) {
        Some("outputs") => outputs(count(20_000)),
        Some("files") => files(count(1_000)),
        Some("lines") => lines(count(1_000_000)),
        _ => panic!("usage: outputs_rate outputs|files|lines [NUMBER]"),
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
    let shell = |script: &str| {
        let start = Instant::now();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(shell.status().expect("a shell").success(), "{script}");
        start.elapsed().as_secs_f64()
    };
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
