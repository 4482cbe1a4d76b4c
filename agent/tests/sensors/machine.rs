//! Sensors on this machine, as far as a test can know what is right.

use starfarm_agent::sensors::SENSORS;
use starfarm_agent_core::ids;
use starfarm_protocol::metric::Metric;

use crate::common::*;

#[test]
fn all_sensors_find_what_they_look_for() {
    for module in SENSORS {
        for of in module.types {
            let mut bench = Bench::of((of.new)());
            let first = bench.said(10);
            let second = bench.said(20);
            let number = |metric| second.as_ref().unwrap().number(metric);
            match of.name {
                "cpuload" => {
                    let times = first.unwrap().value(ids::CPU_TIMES).unwrap().len();
                    let cores = times as u64 / 8;
                    assert!(cores >= 1 && number(Metric::RunQueue).is_some());
                    // Both samples are within a moment, and the clock says ten seconds.
                    assert!(number(Metric::Cpu).unwrap() <= cores * 1_000_000);
                }
                "memory" => {
                    assert!(number(Metric::Memory).unwrap() > 1 << 20 && number(Metric::Swap).is_some());
                }
                // There may be no network and no disk.
                "network" | "disks" => assert_eq!(first, None),
                // Nobody can say how this machine is.
                "health" => {}
                "units" | "accelerators" => assert_eq!((first, second), (None, None)),
                other => panic!("{other}"),
            }
        }
    }
}
