//! The digits that a kernel is given of a unit, against plain arithmetic, in spaces of up to 2^128 - 1 units.

use crate::case::Case;
use crate::judge::{ALGORITHMS, Chance};
use starfarm_decomposers::digits;
use starfarm_e2e::a_device;
use starfarm_opencl::{Device, DeviceKernel, Left};
use starfarm_protocol::devices::DeviceNeeds;
use starfarm_protocol::spec::{HexBytes, KernelWork, LAUNCH_MS, Space};

const KERNEL: &str = "__kernel void k(__global const ulong *base, ulong count, __global uchar *blocks) {
    ulong digits[DIGITS];
    unit_digits(base, get_global_id(0), digits);
    for (int at = 0; at < DIGITS; at++)
        ((__global ulong *)blocks)[get_global_id(0) * DIGITS + at] = digits[at];
}";

fn work(digits: usize) -> KernelWork {
    KernelWork {
        source: KERNEL.to_owned(),
        file: "digits.cl".to_owned(),
        kernel: "k".to_owned(),
        constants: [].into(),
        block_bytes: 8 * digits as u64,
        hits: 0,
        counters: [].into(),
        needs: DeviceNeeds::ANY,
        launch_ms: LAUNCH_MS,
        retries: 0,
        merge: None,
    }
}

/// The digits of `unit`, the first one first.
fn plain(sizes: &[u128], unit: u128) -> Vec<u64> {
    let weight = |at: usize| sizes[at + 1..].iter().product::<u128>();
    (0..sizes.len()).map(|at| (unit / weight(at) % sizes[at]) as u64).collect()
}

/// Launches over units in which digits turn, and powers of two are passed.
fn check(device: &Device, seed: u64, sizes: &[u128]) {
    let chance = &mut Chance::new(seed);
    let all = sizes.iter().try_fold(1_u128, |product, size| product.checked_mul(*size)).unwrap();
    let mut kernel = DeviceKernel::new(device, work(sizes.len()), sizes.to_vec()).unwrap();
    let weights = (1..sizes.len()).map(|at| sizes[at..].iter().product::<u128>());
    let powers = [32, 63, 64, 65, 96, 126, 127].map(|power| 1 << power);
    let mut seams: Vec<u128> = weights.flat_map(|weight| [weight, all / weight * weight]).collect();
    seams.extend(powers);
    seams.extend([0, all - 1]);
    seams.extend((0..4).map(|_| chance.below(all)));
    for seam in seams.into_iter().filter(|seam| *seam < all) {
        let lo = seam - chance.below(seam.min(63) + 1);
        let units = [64, 128][chance.index(2)];
        let units = if all - lo < units { 1 } else { units };
        let (done, left) = kernel.launch(lo, units as u64).unwrap();
        let Left::Blocks(blocks) = left else { panic!("the kernel leaves blocks") };
        assert_eq!((u128::from(done), blocks.len()), (units, units as usize * 8 * sizes.len()));
        let found = blocks.chunks_exact(8).map(|eight| u64::from_ne_bytes(eight.try_into().unwrap()));
        let found: Vec<u64> = found.collect();
        for (unit, found) in (lo..=lo + (units - 1)).zip(found.chunks(sizes.len())) {
            assert_eq!(found, plain(sizes, unit), "seed {seed}, {sizes:?}, unit {unit} from {lo} on");
        }
    }
}

#[test]
fn a_units_digits_on_a_device_are_those_of_plain_arithmetic() {
    let Some(device) = a_device("a_units_digits_on_a_device_are_those_of_plain_arithmetic") else { return };
    let range = Space::Range { from: i64::MIN, to: i64::MAX, step: 1 };
    let mut all_but_one = vec![256; 16];
    all_but_one[0] = 255;
    let known: [Vec<u128>; 6] = [
        digits(&range).unwrap(),
        vec![2; 127],
        all_but_one,
        // What 2^128 - 1 is made of.
        vec![3, 5, 17, 257, 641, 65_537, 274_177, 6_700_417, 67_280_421_310_721],
        vec![67_280_421_310_721, 1, 6_700_417, 274_177, 1, 65_537, 641, 257, 17, 5, 3, 1],
        vec![7, 1 << 63, 1 << 61],
    ];
    assert_eq!(known[3].iter().product::<u128>(), u128::MAX);
    for (seed, sizes) in (0..).zip(&known) {
        check(&device, seed, sizes);
    }
    for seed in 100..106 {
        let Case { positions, .. } = Case::random(&mut Chance::new(seed), ALGORITHMS[0], 55);
        let min = positions.len();
        let space = Space::Chars { positions: positions.into_iter().map(HexBytes).collect(), min };
        check(&device, seed, &digits(&space).unwrap());
    }
}
