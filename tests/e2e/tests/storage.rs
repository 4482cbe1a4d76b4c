//! What units give back takes room on the scheduler's disk: it goes with its job, and nothing that another job shares.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::MetadataExt;

use starfarm_e2e::{Farm, stdouts, until};

/// Bytes on the disk that contents take.
fn room(farm: &Farm) -> u64 {
    std::fs::metadata(farm.state().join("blobs")).unwrap().blocks() * 512
}

/// A job whose units write 100 KB each, the same in each job.
fn submit_long(farm: &Farm, units: u32) -> String {
    submit_more(farm, units, &[])
}

fn submit_more(farm: &Farm, units: u32, flags: &[&str]) -> String {
    let range = format!("0..{units}");
    let of_it = ["--range", &range, "--", "sh", "-c", "yes the same of {} each time | head -c 100000"];
    farm.submit(&[flags, &of_it].concat())
}

#[test]
fn what_two_jobs_share_goes_with_the_last_of_them() {
    let mut farm = Farm::with_workers(1, 2);
    // Whatever this one will write, nobody knows what it names.
    let waits = farm.submit(&["--range", "0..1", "--", "sh", "-c", &farm.forever()]);
    let first = submit_long(&farm, 20);
    farm.wait(&first).exits(0);
    let before = room(&farm);
    assert!(before >= 2_000_000, "{before}");
    let second = submit_long(&farm, 20);
    farm.wait(&second).exits(0);
    assert!(room(&farm) < before + 100_000, "equal contents are kept once");
    let written = stdouts(&farm.results(&second));

    farm.cli(&["job", "delete", &first]).exits(0);
    assert_eq!(stdouts(&farm.results(&second)), written);
    assert!(room(&farm) >= 2_000_000);
    farm.kill_scheduler();
    farm.restart_scheduler();
    farm.until_nodes_up(1);
    assert_eq!(stdouts(&farm.results(&second)), written);
    // What earlier starts wrote is read beside everything else.
    farm.cli(&["job", "delete", &second]).exits(0);
    until("the room comes back", || room(&farm) < 100_000);
    let third = submit_long(&farm, 20);
    farm.wait(&third).exits(0);
    assert_eq!(stdouts(&farm.results(&third)), written);
    farm.cli(&["job", "delete", &third]).exits(0);
    assert!(room(&farm) < 100_000, "at once: {}", room(&farm));
    farm.cli(&["job", "cancel", &waits]).exits(0);
}
