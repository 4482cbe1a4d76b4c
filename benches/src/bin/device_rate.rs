//! Prints how many million candidates an OpenCL device tests in a second, for each algorithm, with one target and with
//! many: `cargo run --release -p starfarm-benches --bin device_rate -- [SECONDS [DEVICE [WORD]]]` spends SECONDS
//! (default 2) on each line, on the device of that number (default 0, as `clinfo -l` counts them), and with WORD on the
//! lines of that algorithm alone.

use std::error::Error;
use std::time::{Duration, Instant};

use starfarm_kernels::Search;
use starfarm_opencl::{DeviceSearch, devices};
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::spec::Algorithm;

const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("md5", Algorithm::Md5),
    ("ntlm", Algorithm::Ntlm),
    ("sha1", Algorithm::Sha1),
    ("sha256", Algorithm::Sha256),
];
/// Targets and length of the candidates (lower-case letters) of each line.
const CASES: [(usize, usize); 5] = [(1, 7), (1, 8), (1, 9), (500, 8), (1_000_000, 8)];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let time = Duration::try_from_secs_f64(words.first().map_or(Ok(2.0), |word| word.parse())?)?;
    let number: usize = words.get(1).map_or(Ok(0), |word| word.parse())?;
    let device = devices()?.into_iter().nth(number).ok_or("there is no device of that number")?;
    println!("{}, {}", device.facts().name, device.facts().platform);
    println!("{:<10}{:>9}{:>8}{:>12}{:>10}", "algorithm", "targets", "length", "compile ms", "M/s");
    for (name, algorithm) in ALGORITHMS {
        if words.get(2).is_some_and(|word| word != name) {
            continue;
        }
        for (targets, length) in CASES {
            let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); length];
            let digests: Vec<Vec<u8>> =
                (0..targets as u64).map(|n| noise(n, algorithm.digest_bytes())).collect();
            let search = Search::new(algorithm, &positions, length, &digests)?;
            let (units, mut hits) = (search.units(), Vec::new());
            let mut search = DeviceSearch::new(&device, search)?;
            let begin = Instant::now();
            search.scan(0, 1, &mut hits, &mut |_| true)?;
            let compile = begin.elapsed();
            // The launches find their size.
            let warm = Instant::now();
            search.scan(0, units, &mut hits, &mut |at| at.is_none() || warm.elapsed() < time / 4)?;
            search.prepare(0, units)?;
            let begin = Instant::now();
            let reached =
                search.scan(0, units, &mut hits, &mut |at| at.is_none() || begin.elapsed() < time)?;
            let rate = reached as f64 / begin.elapsed().as_secs_f64() / 1e6;
            println!("{name:<10}{targets:>9}{length:>8}{:>12}{rate:>10.1}", compile.as_millis());
        }
    }
    Ok(())
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    std::iter::repeat_with(|| random.draw() as u8).take(bytes).collect()
}
