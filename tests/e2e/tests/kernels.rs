//! Kernels of the user's own on PoCL's device: what they find is what a plain program finds, and what goes wrong with one
//! costs nobody else anything.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use starfarm_e2e::power::Disk;
use starfarm_e2e::{Farm, Reply, TempDir, a_device, binary, end, program, run, skip, until};
use starfarm_opencl::{Cache, Device, DeviceKernel, Left};
use starfarm_protocol::devices::{DeviceKind, DeviceNeeds};
use starfarm_protocol::ids::{ContentHash, from_hex};
use starfarm_protocol::spec::KernelWork;

/// A farm whose one worker uses PoCL's device; none where the machine has none, which `test` then lacks.
fn farm(test: &str) -> Option<Farm> {
    a_device(test)?;
    let mut farm = Farm::start();
    farm.add_worker("a", &["--slots", "1", "--devices", "0"]);
    Some(farm)
}

/// The job of a file among the examples, with some text of it replaced.
fn example(name: &str, from: &str, to: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap();
    let text = std::fs::read_to_string(examples.join(name)).unwrap();
    assert!(text.contains(from), "{text}");
    text.replace(from, to).replace("kernels/", &format!("{}/kernels/", examples.display()))
}

fn merged(farm: &Farm, id: &str) -> Vec<u8> {
    let mut command = program("starfarm", farm.temp().path());
    command.arg("--farm").arg(farm.state()).args(["results", id, "--merged"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The same as the kernel of the example, in the order of its sums.
fn pixel(x: usize, y: usize, steps: u32) -> u8 {
    let (re, im) = (-2.2 + x as f64 * 0.003_125, -1.2 + y as f64 * 0.003_125);
    let (mut a, mut b, mut step) = (0.0_f64, 0.0_f64, 0);
    while step < steps && a * a + b * b <= 4.0 {
        (a, b) = (a * a - b * b + re, 2.0 * a * b + im);
        step += 1;
    }
    (step * 255 / steps) as u8
}

#[test]
fn a_fractal_is_what_a_plain_program_makes_of_it() {
    let Some(farm) = farm("a_fractal_is_what_a_plain_program_makes_of_it") else { return };
    let id = farm.submit_text(&example("mandel.toml", "STEPS = 500", "STEPS = 60"));
    farm.wait(&id).exits(0);
    let image = merged(&farm, &id);
    assert_eq!(image.len(), 192 * 4_096);
    let (mut wrong, mut inside) = (0, 0);
    for (at, &grade) in image.iter().enumerate() {
        let (unit, pixel_at) = (at / 4_096, at % 4_096);
        let (x, y) = (unit % 16 * 64 + pixel_at % 64, unit / 16 * 64 + pixel_at / 64);
        inside += usize::from(grade == 255);
        wrong += usize::from(grade != pixel(x, y, 60));
    }
    // A device may round a sum and a product together: where a point is just at the border that shows.
    assert!(wrong < image.len() / 1_000 && inside > 50_000, "{wrong} pixels differ, {inside} are inside");
}

#[test]
fn a_scan_finds_what_a_plain_program_finds() {
    let Some(farm) = farm("a_scan_finds_what_a_plain_program_finds") else { return };
    let id = farm.submit_text(&example("minimum.toml", "hits = 1000", "hits = 3\ntarget_seconds = 0.02"));
    farm.wait(&id).exits(0);
    let report: Value = serde_json::from_slice(&merged(&farm, &id)).unwrap();
    let value = |unit: u64| {
        let (x, y) = (-4.5 + (unit % 1_500) as f64 * 0.006, -4.5 + (unit / 1_500) as f64 * 0.006);
        let (one, two) = (x * x + y - 11.0, x + y * y - 7.0);
        one * one + two * two
    };
    let (mut least, mut below, mut hits) = ((f64::INFINITY, 0), 0_u64, Vec::new());
    for unit in 0..2_250_000 {
        let value = value(unit);
        if value < least.0 {
            least = (value, unit);
        }
        below += u64::from(value < 10.0);
        if value < 0.001 {
            hits.push(serde_json::json!([unit.to_string(), 0]));
        }
    }
    assert_eq!(report["hits"], Value::Array(hits), "more than a launch has room for");
    assert_eq!(report["counters"]["below"]["sum"], below.to_string());
    let min = &report["counters"]["least"]["min"];
    assert_eq!(min["unit"], least.1.to_string());
    assert!((min["value"].as_f64().unwrap() - least.0).abs() < 1e-12, "{min} is not {}", least.0);
    assert_eq!(farm.job(&id)["units_done"], "2250000");
}

/// A job of the kernel `k` with this text and these keys.
fn kernel(farm: &Farm, text: &str, keys: &str, units: &str) -> String {
    farm.temp().write("k.cl", text);
    let path = farm.temp().path().join("k.cl");
    format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = {units}\n[task]\nexecutor = \"opencl\"\nkernel = {:?}\nentry = \"k\"\n{keys}\n",
        path.to_str().unwrap()
    )
}

const EVIL: &str = "__kernel void k(__global const ulong *base, ulong count, __global long *sum) {
    ulong unit = base[0] + get_global_id(0);
    if (unit == 30000) while (((volatile __global long *)sum)[0] != 123456789) {}
    if (unit == 50000) ((volatile __global long *)sum)[1L << 42] = 1;
    sum[get_global_id(0)] = unit;
}";

#[test]
fn a_unit_that_hangs_and_one_that_crashes_fail_alone_and_nobody_waits_for_them() {
    let Some(farm) = farm("a_unit_that_hangs_and_one_that_crashes_fail_alone_and_nobody_waits_for_them")
    else {
        return;
    };
    let keys = "counters = { sum = \"sum long\" }\nlaunch_seconds = 0.5\nmax_failures = \"never\"";
    let id = farm.submit_text(&kernel(&farm, EVIL, keys, "100000"));
    farm.wait(&id).exits(1);
    let job = farm.job(&id);
    assert_eq!((&job["units_done"], &job["units_failed"]), (&"99998".into(), &"2".into()));
    let failures: Vec<_> = job["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["unit"].clone(), f["reason"].clone()))
        .collect();
    assert_eq!(failures, [("30000".into(), "timeout".into()), ("50000".into(), "exit".into())]);
    // The device goes on with the next job.
    let good = "__kernel void k(__global const ulong *base, ulong count, __global long *sum) { sum[get_global_id(0)] = 2; }";
    let id = farm.submit_text(&kernel(&farm, good, "counters = { sum = \"sum long\" }", "1000"));
    farm.wait(&id).exits(0);
    let report: Value = serde_json::from_slice(&merged(&farm, &id)).unwrap();
    assert_eq!(report["counters"]["sum"]["sum"], "2000");
}

/// As long as a line of a host can be.
#[test]
fn a_block_may_have_16_mib() {
    let Some(farm) = farm("a_block_may_have_16_mib") else { return };
    let text = "__kernel void k(__global const ulong *base, ulong count, __global uchar *blocks) {
        ulong i = get_global_id(0);
        for (ulong at = 0; at < BLOCK; at++) blocks[i * BLOCK + at] = (uchar)(base[0] + i + at / 4096);
    }";
    let keys = "block = 16777216\nlaunch_seconds = 1\n[merge]\nkind = \"concat\"";
    let id = farm.submit_text(&kernel(&farm, text, keys, "3"));
    farm.wait(&id).exits(0);
    let blocks = merged(&farm, &id);
    assert_eq!(blocks.len(), 3 << 24);
    let is_wrong = |(at, byte): (usize, &u8)| *byte != ((at >> 24) + (at % (1 << 24)) / 4_096) as u8;
    assert_eq!(blocks.iter().enumerate().position(is_wrong), None);
}

#[test]
fn numbers_that_are_not_finite_are_counted_like_others() {
    let Some(farm) = farm("numbers_that_are_not_finite_are_counted_like_others") else { return };
    let text = "__kernel void k(__global const ulong *base, ulong count, __global double *greatest, __global double *least, __global double *sum) {
        ulong i = get_global_id(0), unit = base[0] + i;
        greatest[i] = unit == 700 ? INFINITY : unit == 800 ? NAN : unit;
        least[i] = unit == 900 ? -INFINITY : unit == 800 ? NAN : unit;
        sum[i] = 1e306;
    }";
    let keys = "counters = { greatest = \"max double\", least = \"min double\", sum = \"sum double\" }\ntarget_seconds = 0.02";
    let id = farm.submit_text(&kernel(&farm, text, keys, "100000"));
    farm.wait(&id).exits(0);
    let report: Value = serde_json::from_slice(&merged(&farm, &id)).unwrap();
    let counters = serde_json::json!({
        "greatest": {"max": {"value": "Infinity", "unit": "700"}},
        "least": {"min": {"value": "-Infinity", "unit": "900"}},
        "sum": {"sum": "Infinity"},
    });
    assert_eq!(report["counters"], counters);
}

/// They are called as what the farm's own text uses, but for what a kernel is told of.
#[test]
fn constants_may_have_any_name_but_those_that_the_farm_gives_a_meaning() {
    let test = "constants_may_have_any_name_but_those_that_the_farm_gives_a_meaning";
    let Some(farm) = farm(test) else { return };
    let names = [
        "size", "digit", "digits", "carry", "at", "i", "base", "hits", "word", "count", "values", "best",
        "lane", "lanes", "sum", "where", "one", "other", "T", "NAME",
    ];
    let constants: Vec<String> = names.iter().map(|name| format!("{name} = 3")).collect();
    let text = "__kernel void k(__global const ulong *b, ulong c, __global uint *h, __global long *s) {
        ulong d[DIGITS];
        unit_digits(b, get_global_id(0), d);
        if (d[0] == size) hit(h, word);
        s[get_global_id(0)] = other;
    }";
    let keys = format!(
        "hits = 8\ncounters = {{ total = \"sum long\" }}\nconstants = {{ {} }}",
        constants.join(", ")
    );
    let id = farm.submit_text(&kernel(&farm, text, &keys, "1000"));
    farm.wait(&id).exits(0);
    let report: Value = serde_json::from_slice(&merged(&farm, &id)).unwrap();
    let wanted = serde_json::json!({"hits": [["3", 3]], "counters": {"total": {"sum": "3000"}}});
    assert_eq!(report, wanted);
    let job = farm
        .temp()
        .write("job.toml", kernel(&farm, text, "block = 1\nconstants = { N = 1, BLOCK = 5 }", "10"));
    let refused = farm.cli(&["submit", job.to_str().unwrap()]);
    refused.exits(2);
    assert!(
        refused.stderr.contains("toml:10:30: `BLOCK` is what the farm itself defines"),
        "{}",
        refused.stderr
    );
}

/// PoCL compiles it when it is launched.
#[test]
fn a_kernel_that_takes_long_to_compile_is_not_taken_for_one_that_hangs() {
    let Some(farm) = farm("a_kernel_that_takes_long_to_compile_is_not_taken_for_one_that_hangs") else {
        return;
    };
    let steps: String = (0..150).map(|n: u32| {
        let (one, other) = (n.wrapping_mul(2_654_435_761), n.wrapping_mul(40_503) | 1);
        format!("x = (x ^ {one}u) + rotate(y, {}u); y = y * {other}u + (x >> 3); if (x == {one}u) y ^= s[x & 1];\n", n % 31 + 1)
    }).collect();
    let text = format!(
        "__kernel void k(__global const ulong *base, ulong count, __global ulong *s) {{
            uint x = get_global_id(0), y = base[0];
            {steps}
            s[get_global_id(0)] = (x | y) != 0;
        }}"
    );
    let keys = "counters = { sum = \"max ulong\" }\nlaunch_seconds = 0.5";
    let id = farm.submit_text(&kernel(&farm, &text, keys, "1000"));
    farm.wait(&id).exits(0);
    assert_eq!(farm.job(&id)["units_failed"], "0");
}

#[test]
fn a_text_that_includes_others_is_not_kept() {
    let test = "a_text_that_includes_others_is_not_kept";
    if a_device(test).is_none() {
        return;
    }
    let mut farm = Farm::start();
    let (dir, cache) = (TempDir::new(), TempDir::new());
    let args = ["--slots", "1", "--devices", "0", "--kernel-cache", cache.path().to_str().unwrap()];
    let header = dir.path().join("number.h");
    let text = format!(
        "#include {header:?}\n__kernel void k(__global const ulong *base, ulong count, __global long *sum) {{ sum[get_global_id(0)] = NUMBER; }}"
    );
    for (node, number) in [("a", 2), ("b", 3)] {
        std::fs::write(&header, format!("#define NUMBER {number}\n")).unwrap();
        farm.add_worker(node, &args);
        let id = farm.submit_text(&kernel(&farm, &text, "counters = { sum = \"sum long\" }", "1000"));
        farm.wait(&id).exits(0);
        let report: Value = serde_json::from_slice(&merged(&farm, &id)).unwrap();
        assert_eq!(report["counters"]["sum"]["sum"], (number * 1000).to_string());
        end(&mut farm.workers);
    }
}

fn dry_run(farm: &Farm, job: &str) -> Reply {
    let file = farm.temp().write("dry.toml", job);
    farm.cli(&["submit", "--dry-run", file.to_str().unwrap()])
}

#[test]
fn what_cannot_be_compiled_is_named_with_its_line() {
    let Some(farm) = farm("what_cannot_be_compiled_is_named_with_its_line") else { return };
    let text = "__kernel void k(__global const ulong *base, ulong count, __global long *sum) {\n    sum[0] = undeclared_thing;\n}";
    let job = kernel(&farm, text, "counters = { sum = \"sum long\" }", "1000");
    dry_run(&farm, &job).exits(2).says(&["k.cl:2:", "undeclared_thing", "sum[0] = undeclared_thing;"]);
    let id = farm.submit_text(&job);
    until("the node refuses it", || !farm.job(&id)["refused_by"].as_array().unwrap().is_empty());
    let why = farm.job(&id)["refused_by"][0]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("k.cl:2:") && why.contains("sum[0] = undeclared_thing;"), "{why}");
    let good = job.replace("entry = \"k\"", "entry = \"other\"");
    dry_run(&farm, &good).exits(2).says(&["undeclared_thing"]);
    let open = kernel(
        &farm,
        "__kernel void k(__global const ulong *base, ulong count, __global long *sum) {\n    sum[0] = 1;\n",
        "counters = { sum = \"sum long\" }",
        "1000",
    );
    dry_run(&farm, &open).exits(2).says(&["k.cl:"]);
    // Whatever the program is called.
    let name = farm.temp().path().join("farm-cli");
    std::fs::copy(binary("starfarm"), &name).unwrap();
    let mut command = Command::new(name);
    command.args(["submit", "--dry-run"]).arg(farm.temp().write("dry.toml", &job));
    run(command).exits(2).says(&["k.cl:3:"]);
}

#[test]
fn a_kernel_with_other_arguments_than_it_is_given_is_refused_in_words() {
    let Some(farm) = farm("a_kernel_with_other_arguments_than_it_is_given_is_refused_in_words") else {
        return;
    };
    let keys = "counters = { sum = \"sum long\" }";
    for (arguments, says) in [
        ("__global long *sum", "`k` has 1 arguments, and this job gives it 3: base, count, sum"),
        (
            "__global const ulong *base, uint count, __global long *sum",
            "argument 2 of `k`, `count`, has type uint: this job gives it ulong",
        ),
        ("__global const ulong *base, ulong count, __global double *sum", "this job gives it long*"),
    ] {
        let text = format!("__kernel void k({arguments}) {{ sum[get_global_id(0)] = 1; }}");
        dry_run(&farm, &kernel(&farm, &text, keys, "1000")).exits(2).says(&[says]);
    }
}

#[test]
fn a_unit_with_more_hits_than_there_is_room_for_fails_and_says_so() {
    let Some(farm) = farm("a_unit_with_more_hits_than_there_is_room_for_fails_and_says_so") else { return };
    let text = "__kernel void k(__global const ulong *base, ulong count, __global uint *hits) {
        if (base[0] + get_global_id(0) == 700) for (uint i = 0; i < 9; i++) hit(hits, i);
    }";
    let id = farm.submit_text(&kernel(&farm, text, "hits = 8", "1000"));
    farm.wait(&id).exits(1);
    let job = farm.job(&id);
    assert_eq!((&job["units_done"], &job["failures"][0]["unit"]), (&"999".into(), &"700".into()));
    let said = farm.results(&id).to_string();
    assert!(said.contains("one unit has 9 hits, and the job's `hits` has room for 8"), "{said}");
}

/// The next job fills a node that lacks the device, and it is said who lacks what.
#[test]
fn a_job_that_needs_a_card_waits_for_one_and_others_do_not() {
    let test = "a_job_that_needs_a_card_waits_for_one_and_others_do_not";
    let (Some(device), Some(farm)) = (a_device(test), farm(test)) else { return };
    // Where the test runs on a card, it is the processor that is not there.
    let has = device.facts().kind;
    let lacks = if has == DeviceKind::Gpu { DeviceKind::Cpu } else { DeviceKind::Gpu };
    let needs = |needs: &str| format!("counters = {{ sum = \"sum long\" }}\nneeds = {{ {needs} }}");
    let much = needs(&format!("device = \"{lacks}\", api = \"opencl>=1.2\", memory = \"1GiB\""));
    let first = farm.submit_text(&kernel(&farm, EVIL, &much, "1000"));
    let next = farm.submit_text(&kernel(&farm, EVIL, &needs(&format!("device = \"{has}\"")), "1000"));
    let dry = dry_run(&farm, &kernel(&farm, EVIL, &much, "1000")).exits(0).stdout.clone();
    assert!(dry.contains("not compiled: this machine has no such device"), "{dry}");
    farm.wait(&next).exits(0);
    assert_eq!(farm.job(&first)["units_done"], "0");
    let said = farm.cli(&["job", "explain", &first]).exits(0).stdout.clone();
    for part in [
        "waits for a node with such a device",
        &format!("{lacks}, OpenCL 1.2 or later, 1.0 GiB"),
        "node a has",
        &format!("({has}, OpenCL"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let node = farm.cli(&["node", "show", "a"]).exits(0).stdout.clone();
    assert!(node.contains("devices            1: 1 x "), "{node}");
}

/// The files of that kind in a kernel cache.
fn kept_all(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == kind)).collect()
}

/// The one file of that kind.
fn kept(folder: &Path, kind: &str) -> PathBuf {
    let kept = kept_all(folder, kind);
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

/// What a kernel leaves that writes `byte` for each unit, and how large its first launch would be. It is compiled for a device
/// that keeps programs in `folder`.
fn blocks(device: &Device, folder: &Path, byte: u8) -> (Vec<u8>, u64) {
    let cache = Cache::open(folder.to_owned(), |words| panic!("{words}"));
    let work = KernelWork {
        source: format!(
            "__kernel void k(__global const ulong *base, ulong count, __global uchar *blocks) {{
                volatile int steps = 2000;
                for (int i = 0; i < steps; i++) {{}}
                blocks[get_global_id(0)] = {byte};
            }}"
        ),
        file: "k.cl".into(),
        kernel: "k".into(),
        constants: [].into(),
        block_bytes: 1,
        hits: 0,
        counters: [].into(),
        needs: DeviceNeeds::ANY,
        launch_ms: 5_000,
        retries: 0,
        merge: None,
    };
    let mut kernel = DeviceKernel::new(&device.clone().cached(cache), work, vec![1 << 40]).unwrap();
    let first = kernel.next_units(1 << 40, None);
    let mut left = Vec::new();
    let mut next = 0;
    while next < 1 << 17 {
        let (units, Left::Blocks(blocks)) = kernel.launch(next, kernel.next_units(1 << 40, None)).unwrap()
        else {
            panic!("it leaves blocks");
        };
        next += u128::from(units);
        left = blocks;
    }
    kernel.take_unkept().into_iter().for_each(|keep| keep());
    left.dedup();
    (left, first)
}

/// A file as the cache writes one.
fn entry(path: &Path, program: &[u8]) -> Vec<u8> {
    let name = from_hex(path.file_stem().unwrap().to_str().unwrap()).unwrap();
    let hash = ContentHash::of(&[&name, &b"program"[..], program].concat());
    [b"starfarm kernel\x01", &hash.0[..], program].concat()
}

#[test]
fn a_kernel_is_compiled_once_and_anew_where_its_file_is_damaged_or_refused() {
    let Some(device) = a_device("a_kernel_is_compiled_once_and_anew_where_its_file_is_damaged_or_refused")
    else {
        return;
    };
    let (seven, other) = (TempDir::new(), TempDir::new());
    assert_eq!(blocks(&device, seven.path(), 7), (vec![7], 1));
    assert_eq!(blocks(&device, other.path(), 8).0, [8]);
    let path = kept(seven.path(), "program");
    let (_, first) = blocks(&device, seven.path(), 7);
    assert!(first > 1, "the size of launches was kept");
    // What is run is what was kept: here that is the other kernel.
    let program = std::fs::read(kept(other.path(), "program")).unwrap()[48..].to_vec();
    std::fs::write(&path, entry(&path, &program)).unwrap();
    assert_eq!(blocks(&device, seven.path(), 7).0, [8]);
    let whole = std::fs::read(&path).unwrap();
    for damaged in [entry(&path, b"no driver takes this"), whole[..whole.len() / 2].to_vec(), Vec::new()] {
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(blocks(&device, seven.path(), 7).0, [7], "compiled anew");
        let program = std::fs::read(&path).unwrap();
        assert_eq!(program, entry(&path, &program[48..]), "replaced");
    }
}

#[test]
fn a_full_kernel_cache_costs_one_line_and_a_damaged_one_nothing() {
    let test = "a_full_kernel_cache_costs_one_line_and_a_damaged_one_nothing";
    if a_device(test).is_none() {
        return;
    }
    let mut farm = Farm::start();
    let disk = match Disk::tmpfs(&farm.temp().path().join("cache"), 1 << 10) {
        Ok(disk) => disk,
        Err(lack) => return skip("mount", test, &lack.0),
    };
    let folder = disk.path().join("kernels");
    std::fs::create_dir(&folder).unwrap();
    let full = disk.path().join("full");
    assert!(std::fs::write(&full, vec![0; 2 << 20]).is_err());
    let args = ["--slots", "1", "--devices", "0", "--kernel-cache", folder.to_str().unwrap()];
    let runs = |farm: &Farm, to: u32| {
        let text = "__kernel void k(__global const ulong *base, ulong count, __global long *sum) { sum[get_global_id(0)] = 2; }";
        let id = farm.submit_text(&kernel(farm, text, "counters = { sum = \"sum long\" }", &to.to_string()));
        farm.wait(&id).exits(0);
        let report: Value = serde_json::from_slice(&merged(farm, &id)).unwrap();
        assert_eq!(report["counters"]["sum"]["sum"], (2 * to).to_string());
    };
    farm.add_worker("a", &args);
    // Each is a program of its own.
    (1000..1003).for_each(|to| runs(&farm, to));
    let words = "keeps nothing: No space left on device";
    farm.workers[0].until_says(words);
    assert_eq!(farm.workers[0].log().matches("kernel cache").count(), 1, "{}", farm.workers[0].log());
    end(&mut farm.workers);
    std::fs::remove_file(full).unwrap();
    for name in ["b", "c", "d"] {
        farm.add_worker(name, &args);
        runs(&farm, 1000);
        assert!(!farm.workers[0].log().contains("kernel cache"), "{}", farm.workers[0].log());
        until("the program is kept", || !kept_all(&folder, "program").is_empty());
        let path = kept(&folder, "program");
        let read = || std::fs::read(&path).unwrap();
        until("it is whole", || read() == entry(&path, &read()[48..]));
        end(&mut farm.workers);
        let whole = read();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    }
}
