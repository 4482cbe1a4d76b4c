//! The node's own figures, on recorded folders.

use starfarm_agent::sensors::{cpuload, disks, memory, network};
use starfarm_agent_core::{Order, Runtime, ids};
use starfarm_protocol::metric::Metric;

use crate::common::*;

fn numbers(value: &[u8]) -> Vec<u64> {
    value.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect()
}

#[test]
fn cpu_time_in_use_is_told_from_the_second_wave_on_and_that_of_each_core_from_the_first() {
    let tree = Tree::new();
    tree.put("stat", "cpu  100 10 20 9000 50 3 7 0 40 4\ncpu0 60 5 10 1 1 0 0 0 0 0\ncpu1 40 5 10 1 1 3 7 0 0 0\nintr 9 9\ncpu9 5\n");
    tree.put("loadavg", "1.85 1.78 2.05 3/92 20990\n");
    let mut bench = Bench::of(cpuload::stage(tree.path()));
    let first = bench.said(10).unwrap();
    assert_eq!((first.number(Metric::Cpu), first.number(Metric::RunQueue)), (None, Some(1_850)));
    assert_eq!(numbers(first.value(ids::CPU_TIMES).unwrap()), [750_000, 650_000]);
    // 140 + 130 ticks of 10 ms in 2 s; the second core is off.
    tree.put("stat", "cpu  240 10 140 9999 99 3 7 10 99 9\ncpu0 160 5 60 1 1 0 0 10 0 0\n");
    tree.put("loadavg", "nothing\n");
    let second = bench.said(12).unwrap();
    assert_eq!((second.number(Metric::Cpu), second.number(Metric::RunQueue)), (Some(1_350_000), None));
    assert_eq!(numbers(second.value(ids::CPU_TIMES).unwrap()), [2_350_000, 650_000]);
    // A counter that falls is no figure, and the next one is.
    tree.put("stat", "cpu  1 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(bench.said(13).unwrap().number(Metric::Cpu), None);
    tree.put("stat", "cpu  51 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(bench.said(14).unwrap().number(Metric::Cpu), Some(500_000));
}

#[test]
fn a_file_that_is_away_or_says_nothing_is_no_figure() {
    let tree = Tree::new();
    let stages = [cpuload::stage, memory::stage, network::stage, disks::stage];
    for stage in stages {
        let mut bench = Bench::of(stage(tree.path()));
        assert_eq!((bench.wave(1), bench.wave(2)), (vec![], vec![]));
    }
    for file in ["stat", "loadavg", "meminfo", "net/dev", "diskstats"] {
        tree.put(file, b"cpu \xFF\ncpu\ncpu99999999999999999999 1 1 1 1\n: \n\0\n  8 0 sda\n");
    }
    for stage in stages {
        let mut bench = Bench::of(stage(tree.path()));
        assert_eq!((bench.wave(1), bench.wave(2)), (vec![], vec![]));
    }
}

#[test]
fn a_file_that_goes_and_comes_is_read_again() {
    let tree = Tree::new();
    let mut bench = Bench::of(memory::stage(tree.path()));
    assert_eq!(bench.said(1), None);
    tree.put(
        "meminfo",
        "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\nSwapTotal: 9 kB\nSwapFree: 2 kB\n",
    );
    let said = bench.said(2).unwrap();
    assert_eq!((said.number(Metric::Memory), said.number(Metric::Swap)), (Some(60 * 1_024), Some(7 * 1_024)));
    // An empty one is none; then there is another one, longer than the first.
    tree.put("meminfo", "");
    assert_eq!(bench.said(3), None);
    tree.remove("meminfo");
    let more = "Filler: 1 kB\n".repeat(1_000);
    tree.put("meminfo", format!("MemTotal: 100 kB\n{more}MemAvailable: 50 kB\n"));
    let said = bench.said(4).unwrap();
    assert_eq!((said.number(Metric::Memory), said.number(Metric::Swap)), (Some(50 * 1_024), None));
}

const HEAD: &str =
    "Inter-|   Receive                            |  Transmit\n face |bytes    packets|bytes    packets\n";

fn dev(interfaces: &[(&str, u64, u64)]) -> String {
    let lines = interfaces.iter().map(|(name, received, sent)| {
        format!("{name:>6}: {received:>7} 1 0 0 0 0 0 0 {sent:>8} 1 0 0 0 0 0 0\n")
    });
    HEAD.to_owned() + &lines.collect::<String>()
}

#[test]
fn network_traffic_leaves_out_the_loopback_and_what_comes_and_goes() {
    let tree = Tree::new();
    tree.put("net/dev", dev(&[("lo", 5, 5), ("eth0", 1_000, 4_294_967_000), ("veth1a", 7, 7)]));
    let mut bench = Bench::of(network::stage(tree.path()));
    assert_eq!(bench.said(1), None);
    // eth0 sends beyond 32 bits; ib0 is new.
    tree.put(
        "net/dev",
        dev(&[("lo", 99_999, 99_999), ("ib0", 1, 2), ("eth0", 3_000, 704), ("veth1a", 99, 99)]),
    );
    let said = bench.said(3).unwrap();
    let rates = |said: &Said| (said.number(Metric::NetworkReceived), said.number(Metric::NetworkSent));
    assert_eq!(rates(&said), (Some(1_000), Some(500)));
    // eth0 is gone.
    tree.put("net/dev", dev(&[("lo", 99_999, 99_999), ("ib0", 11, 32)]));
    assert_eq!(rates(&bench.said(4).unwrap()), (Some(10), Some(30)));
    // It is back, with counters that began anew.
    tree.put("net/dev", dev(&[("lo", 0, 0), ("ib0", 11, 32), ("eth0", 8, 8)]));
    assert_eq!(rates(&bench.said(5).unwrap()), (Some(0), Some(0)));
}

#[test]
fn disks_count_once_and_in_bytes() {
    let tree = Tree::new();
    let stats = |read: u64, written: u64| {
        format!(
            " 259 0 nvme0n1 1 2 {read} 4 5 6 {written} 8 9 1 1\n 259 1 nvme0n1p1 1 2 {read} 4 5 6 {written} 8 9 1 1\n \
             253 0 dm-0 1 2 {read} 4 5 6 {written} 8 9 1 1\n   7 0 loop0 1 2 {read} 4 5 6 {written} 8 9 1 1\n"
        )
    };
    tree.put("diskstats", stats(1_000, 500));
    let mut bench = Bench::of(disks::stage(tree.path()));
    assert_eq!(bench.said(1), None);
    tree.put("diskstats", stats(1_004, 506));
    assert_eq!(bench.said(2).unwrap().number(Metric::Io), Some(10 * 512));
}

#[test]
fn a_sensor_has_one_output_and_says_in_words_what_it_has_not() {
    let mut runtime = Runtime::new(&starfarm_agent::sensors::SENSORS);
    for name in ["cpuload", "memory", "network", "disks", "units"] {
        let create = Order::Create { type_name: name.to_owned(), name: Some(name.to_owned()) };
        runtime.order(create, 0).unwrap();
        let mut link = |from: (&str, &str), to: (&str, &str)| {
            let ends = [from, to].map(|(stage, hook)| (stage.into(), hook.to_owned()));
            let [from, to] = ends;
            runtime.order(Order::Link(from, to), 0).unwrap_err().to_string()
        };
        let (output, input) =
            (link((name, "load"), ("cpuload", "in")), link(("cpuload", "out"), (name, "in")));
        if name != "cpuload" {
            assert_eq!(output, format!("`{name}` has one output, `out`, not `load`"));
            assert_eq!(input, format!("`{name}` has no inputs"));
        }
    }
    let tree = Tree::new();
    let mut bench = Bench::of(memory::stage(tree.path()));
    assert_eq!(bench.set("period", "1"), Err("`memory` has no setting `period`".to_owned()));
}
