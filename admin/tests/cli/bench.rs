//! `bench udp` and `bench tree`, with real processes and sockets: what they print, and that their counts agree.

use serde_json::Value;

use crate::program::Folder;
use crate::schemas::Schemas;

#[test]
fn of_all_datagrams_that_are_offered_each_is_received_or_counted_as_lost() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    for flags in ["--rate 2000", "--rate 2000 --senders 50 --values 9 --mean"] {
        let text = folder.run(&format!("bench udp --seconds 0.5 {flags} --output json")).with(0);
        schemas.check("bench-udp", &text);
        let report: Value = serde_json::from_str(&text).unwrap();
        let count = |key: &str| report[key].as_u64().unwrap();
        assert_eq!((count("offered"), count("received") + count("lost_counted")), (1_000, 1_000), "{text}");
        assert_eq!(count("lost"), count("lost_counted"), "{text}");
        assert_eq!(count("values_summed"), if flags.contains("--mean") { 9 * count("received") } else { 0 });
    }
}

#[test]
fn trees_of_two_three_and_four_levels_form_and_sum_up() {
    let (folder, schemas) = (Folder::new(), Schemas::load());
    for (shape, posts) in [("1x3", 4), ("1x2x4", 7), ("1x2x3x5", 11)] {
        let text = folder.run(&format!("bench tree --shape {shape} --rounds 20 --output json")).with(0);
        schemas.check("bench-tree", &text);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&report["shape"], &report["posts"]), (&shape.into(), &posts.into()));
    }
}
