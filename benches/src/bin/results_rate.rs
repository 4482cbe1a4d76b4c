//! How long `starfarm results` takes for so many hits: pages of a thousand, so twice the hits should take twice the time. The
//! space is all numbers of so many digits, and each of them is a target.
//!
//! ```text
//! cargo build --release --workspace --bins
//! target/release/results_rate [DIGITS...]
//! ```

use std::fmt::Write;
use std::time::Instant;

use md5::{Digest, Md5};
use starfarm_e2e::Farm;
use starfarm_protocol::ids::to_hex;

fn main() {
    let digits: Vec<u32> = std::env::args().skip(1).map(|n| n.parse().expect("a number of digits")).collect();
    let farm = Farm::with_workers(1, 2);
    for digits in if digits.is_empty() { vec![4, 5, 6] } else { digits } {
        let hits = 10_u64.pow(digits);
        let mut text = format!(
            "[space]\nkind = \"chars\"\nmask = \"{}\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\nstop = \"never\"\n\
             targets = [\n",
            "?d".repeat(digits as usize)
        );
        for number in 0..hits {
            let digest = to_hex(&Md5::digest(format!("{number:0width$}", width = digits as usize)));
            writeln!(text, "\"{digest}\",").expect("a string takes all");
        }
        text.push_str("]\n");
        let id = farm.submit_text(&text);
        farm.wait(&id).exits(0);
        let begun = Instant::now();
        let reply = farm.cli(&["--output", "quiet", "results", &id]);
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(reply.exits(0).stdout.lines().count() as u64, hits, "all are there");
        println!("{hits} hits: {seconds:.2} s, {:.0} a second", hits as f64 / seconds);
    }
}
