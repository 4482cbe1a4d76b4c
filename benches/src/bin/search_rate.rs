//! Prints how many million candidates one core tests in a second, for each algorithm and code path, with
//! one target and with many: `cargo run --release -p starfarm-benches --bin search_rate -- [SECONDS] [WORD]`
//! spends SECONDS (default 1) on each line, cut into slices of which the median and the best are printed;
//! with WORD only on the lines of that algorithm or path. Other work on the machine lowers the median
//! first; the best slice shows what the core can do.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use starfarm_kernels::{Path, Search, SearchError};
use starfarm_protocol::random::SplitMix64;
use starfarm_protocol::spec::Algorithm;

const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("md5", Algorithm::Md5),
    ("ntlm", Algorithm::Ntlm),
    ("sha1", Algorithm::Sha1),
    ("sha256", Algorithm::Sha256),
];
/// Targets and length of the candidates (lower-case letters) for each line of MD5.
const MD5_CASES: [(usize, usize); 7] = [(1, 6), (1, 8), (1, 9), (1, 12), (8, 8), (500, 8), (1_000_000, 8)];
/// The same for each other algorithm.
const OTHER_CASES: [(usize, usize); 3] = [(1, 8), (500, 8), (1_000_000, 8)];
const SLICES: u32 = 21;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "1".to_owned());
    let Some(time) = argument.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()) else {
        eprintln!("search_rate: SECONDS is a number, for example 0.5; not {argument:?}");
        return ExitCode::from(2);
    };
    match print_rates(time, std::env::args().nth(2).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("search_rate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_rates(time: Duration, word: Option<&str>) -> Result<(), SearchError> {
    println!("{:<10}{:<10}{:>9}{:>8}{:>10}{:>10}", "algorithm", "path", "targets", "length", "M/s", "best");
    for (name, algorithm) in ALGORITHMS {
        let cases: &[_] = if algorithm == Algorithm::Md5 { &MD5_CASES } else { &OTHER_CASES };
        for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
            // Its other algorithms are those of AVX2.
            let is_another = path == Path::Sha && algorithm != Algorithm::Sha256;
            if is_another || word.is_some_and(|word| word != name && word != path.name()) {
                continue;
            }
            for (targets, length) in cases.iter().copied() {
                let (median, best) = rates(&search(algorithm, path, targets, length)?, time);
                println!("{name:<10}{:<10}{targets:>9}{length:>8}{median:>10.1}{best:>10.1}", path.name());
            }
        }
    }
    Ok(())
}

fn search(algorithm: Algorithm, path: Path, targets: usize, length: usize) -> Result<Search, SearchError> {
    let positions = vec![(b'a'..=b'z').collect::<Vec<u8>>(); length];
    let digests: Vec<Vec<u8>> = (0..targets as u64).map(|n| noise(n, algorithm.digest_bytes())).collect();
    Search::new(algorithm, &positions, length, &digests)?.with_path(path)
}

/// Million candidates in a second: the median slice and the best one, after a warm-up.
fn rates(search: &Search, time: Duration) -> (f64, f64) {
    scan_for(search, time / SLICES);
    let mut rates: Vec<f64> = (0..SLICES).map(|_| rate(search, time / SLICES)).collect();
    rates.sort_unstable_by(f64::total_cmp);
    (rates[rates.len() / 2], rates[rates.len() - 1])
}

fn rate(search: &Search, time: Duration) -> f64 {
    let begin = Instant::now();
    let units = scan_for(search, time);
    units as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// Candidates scanned in about `time`. A space that is finished earlier is begun again.
fn scan_for(search: &Search, time: Duration) -> u128 {
    let begin = Instant::now();
    let mut units = 0;
    let mut hits = Vec::new();
    while begin.elapsed() < time {
        units += search.scan(0, search.units(), &mut hits, &mut |at| at.is_none() || begin.elapsed() < time);
    }
    units
}

/// Bytes that look like a digest and are nobody's on purpose.
fn noise(n: u64, bytes: usize) -> Vec<u8> {
    let mut random = SplitMix64(n);
    std::iter::repeat_with(|| random.draw() as u8).take(bytes).collect()
}
