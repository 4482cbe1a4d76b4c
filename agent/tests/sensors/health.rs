//! `health` on recorded folders like /proc and /sys.

use starfarm_agent::sensors::health;
use starfarm_agent_core::ids;

use crate::common::{Bench, SECOND, Said, Tree};

/// Errors of what an interface has received.
fn interface(tree: &Tree, errors: &str) {
    let heads = "Inter-|   Receive    |  Transmit\n face |bytes packets errs drop|bytes packets errs drop\n";
    let line = format!("  eth0: 9 9 {errors} 0 0 0 0 0 9 9 0 0 0 0 0 0\n");
    tree.put("proc/net/dev", format!("{heads}{line}    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n"));
}

/// A machine that is well.
fn machine() -> (Tree, Bench) {
    let tree = Tree::new();
    tree.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
    tree.put("sys/class/hwmon/hwmon0/name", "k10temp\n");
    tree.put("sys/class/hwmon/hwmon0/temp1_label", "Tctl\n");
    tree.put("sys/class/hwmon/hwmon0/temp1_input", "61000\n");
    tree.put("sys/class/hwmon/hwmon0/temp1_max", "80000\n");
    tree.put("sys/class/hwmon/hwmon0/temp1_crit", "95000\n");
    // One that names no limits, and one whose limits are none.
    tree.put("sys/class/hwmon/hwmon1/temp1_input", "200000\n");
    tree.put("sys/class/hwmon/hwmon1/temp2_input", "30000\n");
    tree.put("sys/class/hwmon/hwmon1/temp2_crit", "0\n");
    tree.put("sys/class/hwmon/hwmon1/fan1_input", "900\n");
    tree.put("sys/class/hwmon/hwmon1/fan1_alarm", "0\n");
    for controller in ["mc0", "mc1"] {
        tree.put(&format!("sys/devices/system/edac/mc/{controller}/ce_count"), "3\n");
        tree.put(&format!("sys/devices/system/edac/mc/{controller}/ue_count"), "0\n");
    }
    interface(&tree, "7");
    let stage = health::stage(&tree.path().join("proc"), &tree.path().join("sys"));
    let mut bench = Bench::of(stage);
    for second in [2, 4, 6] {
        assert_eq!(bench.wave(second), [], "all is well");
    }
    (tree, bench)
}

/// Sensor, level and words.
fn told(said: &[Said]) -> Vec<(String, u64, String)> {
    let text = |said: &Said, id| String::from_utf8(said.value(id).unwrap().to_vec()).unwrap();
    let number = |said: &Said, id| u64::from_le_bytes(said.value(id).unwrap().try_into().unwrap());
    let of =
        |said: &Said| (text(said, ids::SENSOR), number(said, ids::ALARM_LEVEL), text(said, ids::ALARM_TEXT));
    said.iter().map(of).collect()
}

fn one(bench: &mut Bench, second: u64) -> (String, u64, String) {
    let all = told(&bench.wave(second));
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

#[test]
fn a_part_that_gets_too_hot_is_told_once_and_again_when_it_is_clearly_cooler() {
    let (tree, mut bench) = machine();
    let heat = |degrees: u32| {
        tree.put("sys/class/hwmon/hwmon0/temp1_input", format!("{}\n", degrees * 1_000));
    };
    heat(84);
    let (sensor, level, text) = one(&mut bench, 8);
    assert_eq!((sensor.as_str(), level), ("temperature", 1));
    assert_eq!(text, "k10temp Tctl is at 84 degrees Celsius");
    assert_eq!(bench.wave(10), []);
    heat(97);
    assert_eq!(one(&mut bench, 12).1, 2);
    heat(93);
    assert_eq!(bench.wave(14), [], "it is hardly cooler");
    heat(79);
    assert_eq!(one(&mut bench, 16).1, 1);
    heat(70);
    assert_eq!(one(&mut bench, 18), ("temperature".to_owned(), 0, String::new()));
}

#[test]
fn errors_of_memory_are_told_for_ten_minutes() {
    let (tree, mut bench) = machine();
    tree.put("sys/devices/system/edac/mc/mc1/ce_count", "4\n");
    let (sensor, level, text) = one(&mut bench, 8);
    assert_eq!((sensor.as_str(), level), ("memory-errors", 1));
    assert_eq!(text, "7 errors of memory, corrected, since the machine started");
    tree.put("sys/devices/system/edac/mc/mc0/ue_count", "1\n");
    assert_eq!(one(&mut bench, 10).1, 2);
    assert_eq!(bench.wave(600), []);
    assert_eq!(one(&mut bench, 612).1, 0);
}

#[test]
fn little_memory_is_told() {
    let (tree, mut bench) = machine();
    tree.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 15000 kB\n");
    let (sensor, level, text) = one(&mut bench, 8);
    assert_eq!((sensor.as_str(), level, text.as_str()), ("memory", 2, "14 MiB of memory are available"));
    tree.put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
    tree.put("proc/pressure/memory", "some avg10=99.00\nfull avg10=75.00 avg60=1 avg300=1 total=9\n");
    assert_eq!(bench.wave(10), [], "still as bad, for another reason");
    tree.put("proc/pressure/memory", "some avg10=9.00\nfull avg10=5.00 avg60=1 avg300=1 total=9\n");
    assert_eq!(one(&mut bench, 12).1, 0);
}

#[test]
fn a_fan_that_stands_still_and_a_cable_that_is_bad_are_told() {
    let (tree, mut bench) = machine();
    tree.put("sys/class/hwmon/hwmon1/fan1_alarm", "1\n");
    tree.put("sys/class/hwmon/hwmon1/fan1_input", "0\n");
    assert_eq!(one(&mut bench, 8), ("fan".to_owned(), 1, "fan1 turns 0 times a minute".to_owned()));
    interface(&tree, "12");
    assert_eq!(bench.wave(10), [], "a few are nothing");
    interface(&tree, "40");
    let (sensor, _, text) = one(&mut bench, 12);
    assert_eq!(
        (sensor.as_str(), text.as_str()),
        ("link-errors", "28 errors of the network interface eth0 since the last look")
    );
    assert_eq!(one(&mut bench, 14).1, 0);
}

#[test]
fn one_that_is_woken_looks_at_once_and_not_all_the_time() {
    let (tree, mut bench) = machine();
    let heat = |degrees: u32| tree.put("sys/class/hwmon/hwmon0/temp1_input", format!("{degrees}000\n"));
    heat(84);
    assert_eq!(told(&bench.woken(7 * SECOND))[0].1, 1);
    heat(96);
    assert_eq!(bench.woken(7 * SECOND + 150_000), [], "it has just looked");
    assert_eq!(told(&bench.woken(7 * SECOND + 200_000))[0].1, 2);
    // The clock went back.
    heat(20);
    assert_eq!(told(&bench.woken(2 * SECOND))[0].1, 0);
}

/// Half of the time nobody could go on, since the look before.
#[test]
fn a_burst_of_waiting_for_memory_is_told_before_it_shows_in_the_mean() {
    let (tree, mut bench) = machine();
    let waits = |percent: &str, total_us: u64| {
        let text = format!("some avg10=9.00\nfull avg10={percent} avg60=1 avg300=1 total={total_us}\n");
        tree.put("proc/pressure/memory", text);
    };
    waits("0.00", 5_000_000);
    assert_eq!(bench.wave(8), [], "how long that was before nobody knows");
    waits("3.00", 5_900_000);
    assert_eq!(bench.wave(10), []);
    waits("9.00", 7_000_000);
    let (sensor, level, text) = one(&mut bench, 12);
    assert_eq!((sensor.as_str(), level), ("memory", 1));
    assert!(text.contains("half of the last seconds"), "{text}");
    waits("11.00", 7_000_000);
    assert_eq!(bench.wave(14), [], "it is not clearly better");
    waits("4.00", 7_000_000);
    assert_eq!(one(&mut bench, 16).1, 0);
}

#[test]
fn a_disk_is_that_of_a_folder_and_no_disk_is_none() {
    let (tree, mut bench) = machine();
    bench.set("disk", "/nowhere/at/all").unwrap();
    assert_eq!(bench.wave(8), []);
    bench.set("disk", tree.path().to_str().unwrap()).unwrap();
    bench.set("colour", "red").unwrap_err();
    assert!(told(&bench.wave(10)).iter().all(|(sensor, ..)| sensor == "disk"));
}

#[test]
fn what_cannot_be_read_any_more_stays_as_it_was() {
    let (tree, mut bench) = machine();
    tree.put("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
    assert_eq!(one(&mut bench, 8).1, 2);
    tree.remove("sys/class/hwmon");
    assert_eq!(bench.wave(10), []);
    tree.put("sys/devices/system/edac/mc/mc0/ce_count", "what\n");
    interface(&tree, "99999999999999999999");
    tree.put("proc/meminfo", "\0\n");
    assert_eq!(bench.wave(12), []);
}
