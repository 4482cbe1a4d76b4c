//! Devices: a search finds on one what it finds natively. The device of the tests is PoCL's, the machine's own processor.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::skip;
use starfarm_kernels::{Hit, Search, Verifier};
use starfarm_opencl::{Device, DeviceSearch, devices};
use starfarm_protocol::devices::DeviceKind;
use starfarm_protocol::ids::HexBytes;
use starfarm_protocol::spec::{Algorithm, SearchWork, Space, Stop};

/// PoCL's device; none where the machine has none, which `test` then lacks.
fn device(test: &str) -> Option<Device> {
    let pocl = |device: &Device| device.facts().kind == DeviceKind::Cpu;
    let found = devices().map(|devices| devices.into_iter().find(pocl));
    let why = match found {
        Ok(Some(device)) => return Some(device),
        Ok(None) => "no device is a processor".to_owned(),
        Err(error) => error.to_string(),
    };
    skip("pocl", test, &why);
    None
}

/// Digests of the candidates of these units, and `others` that are nobody's.
fn targets(
    algorithm: Algorithm,
    positions: &[Vec<u8>],
    min: usize,
    units: &[u128],
    others: u32,
) -> Vec<Vec<u8>> {
    let bytes = algorithm.digest_bytes();
    let noise = |n: u32| {
        (0..bytes as u32).map(|i| (n.wrapping_mul(0x9e37_79b9) >> (i % 24)) as u8 ^ i as u8).collect()
    };
    let mut targets: Vec<Vec<u8>> = (0..others).map(noise).collect();
    let work = SearchWork { algorithm, targets: vec![HexBytes(vec![0; bytes])], stop: Stop::Never };
    let space = Space::Chars { positions: positions.iter().cloned().map(HexBytes).collect(), min };
    let verifier = Verifier::new(&work, &space).unwrap();
    targets.extend(units.iter().map(|unit| verifier.digest(*unit).unwrap()));
    targets
}

fn compare(
    device: &Device,
    algorithm: Algorithm,
    positions: &[Vec<u8>],
    min: usize,
    others: u32,
    (lo, hi): (u128, u128),
) {
    let search = |targets: &[Vec<u8>]| Search::new(algorithm, positions, min, targets).unwrap();
    let middle = lo + (hi - lo) / 3;
    let targets = targets(algorithm, positions, min, &[lo, middle, hi - 1], others);
    let mut native = Vec::new();
    search(&targets).scan(lo, hi, &mut native, &mut |_| true);
    let mut device = DeviceSearch::new(device, search(&targets)).unwrap();
    let mut hits = Vec::new();
    assert_eq!(device.scan(lo, hi, &mut hits, &mut |_| true), Ok(hi));
    let units: Vec<u128> = native.iter().map(|hit: &Hit| hit.unit).collect();
    assert_eq!(units, [lo, middle, hi - 1], "{algorithm:?}");
    assert_eq!(hits, native, "{algorithm:?} {} targets", targets.len());
}

#[test]
fn a_device_finds_what_the_processor_finds() {
    let Some(device) = device("a_device_finds_what_the_processor_finds") else { return };
    let lower: Vec<u8> = (b'a'..=b'z').collect();
    for algorithm in [Algorithm::Md5, Algorithm::Ntlm, Algorithm::Sha1, Algorithm::Sha256] {
        for others in [0, 500] {
            compare(&device, algorithm, &vec![lower.clone(); 4], 2, others, (0, 400_000));
            compare(
                &device,
                algorithm,
                &vec![lower.clone(); 27],
                27,
                others,
                (u128::MAX >> 5, (u128::MAX >> 5) + 300_000),
            );
        }
    }
}
