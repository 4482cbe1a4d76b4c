//! The bulk channel of a real scheduler, spoken to record by record.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{BulkClient, Farm};
use starfarm_protocol::bulk::chunks;
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::seal::StaticKey;

fn content() -> (Vec<u8>, ContentHash) {
    let content: Vec<u8> = (0..200_000_u32).map(|i| (i / 7) as u8).collect();
    let hash = ContentHash::of(&content);
    (content, hash)
}

/// A farm with a job that runs programs: without one no content is taken.
fn farm() -> Farm {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--", "true"]);
    farm
}

fn open(farm: &Farm, name: &str) -> BulkClient {
    BulkClient::open(farm.address(), &farm.state().join("worker.join"), name)
}

/// Connections of one node.
fn open_many<const COUNT: usize>(farm: &Farm, name: &str) -> [BulkClient; COUNT] {
    let (key, join) = (StaticKey::generate().unwrap(), farm.state().join("worker.join"));
    [(); COUNT].map(|()| BulkClient::open_as(&key, farm.address(), &join, name))
}

#[test]
fn two_nodes_that_send_equal_contents_at_one_time_do_not_disturb_each_other() {
    let farm = farm();
    let (content, hash) = content();
    let total = content.len() as u64;
    let mut nodes = [open(&farm, "a"), open(&farm, "b")];
    for node in &mut nodes {
        node.put(hash, total);
        assert_eq!(node.reply().unwrap(), "Have { bytes: 0 }");
    }
    for chunk in chunks(&content, 0) {
        nodes.iter_mut().for_each(|node| node.chunk(chunk));
    }
    for node in &mut nodes {
        assert_eq!(node.reply().unwrap(), "Stored");
        node.put(hash, total);
        assert_eq!(node.reply().unwrap(), format!("Have {{ bytes: {total} }}"), "it is kept, once");
    }
}

#[test]
fn a_transfer_whose_connection_broke_goes_on_by_another_one() {
    let farm = farm();
    let (content, hash) = content();
    let total = content.len() as u64;
    let [mut first, mut second] = open_many(&farm, "a");
    first.put(hash, total);
    first.reply().unwrap();
    chunks(&content, 0).take(2).for_each(|chunk| first.chunk(chunk));
    drop(first);
    let mut other = open(&farm, "b");
    // The scheduler learns of the end when it has read all that came before.
    starfarm_e2e::until("what came is kept", || {
        second.put(hash, total);
        second.reply().unwrap() == "Have { bytes: 122880 }"
    });
    other.put(hash, total);
    assert_eq!(other.reply().unwrap(), "Have { bytes: 0 }", "it vouches for nothing that another node sent");
    chunks(&content, 122_880).for_each(|chunk| second.chunk(chunk));
    assert_eq!(second.reply().unwrap(), "Stored");
}

/// Whole contents lay in memory until their last chunk: 2.4 GiB of one node.
#[test]
fn contents_that_never_end_take_no_memory_and_count_in_what_their_node_may_put() {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--output-limit", "40000000", "--", "true"]);
    let hash = |number| ContentHash([number; 32]);
    let put = |node: &mut BulkClient, hash, total| {
        node.put(hash, total);
        node.reply().unwrap()
    };
    // 64 MiB, and four outputs: 227 MB.
    let mut slow: [_; 4] = open_many(&farm, "slow");
    let content = vec![7; 39_999_999];
    for (number, node) in slow.iter_mut().enumerate() {
        assert_eq!(put(node, hash(number as u8), 40_000_000), "Have { bytes: 0 }");
        chunks(&content, 0).for_each(|chunk| node.chunk(chunk));
    }
    // All of it has been read when the next put of the same connection is answered, which gives up the first.
    for (number, node) in slow.iter_mut().enumerate() {
        assert_eq!(put(node, hash(4 + number as u8), 40_000_000), "Have { bytes: 0 }");
        chunks(&content[..1_000_000], 0).for_each(|chunk| node.chunk(chunk));
    }
    let mut others: [[BulkClient; 4]; 20] =
        std::array::from_fn(|number| open_many(&farm, &format!("n{number}")));
    for node in others.iter_mut().flatten() {
        assert_eq!(put(node, hash(9), 40_000_000), "Have { bytes: 0 }", "others are not hindered");
    }
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", farm.scheduler.pid().as_raw_nonzero())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024;
    assert!(peak < 64, "the scheduler took {peak} MiB for 160 MB on their way");
}

/// What was on its way counted nowhere: each connection could bring as much again.
#[test]
fn what_is_on_its_way_counts_in_what_a_node_may_put() {
    let farm = Farm::start();
    farm.submit(&["--range", "0..1", "--output-limit", "100000", "--", "true"]);
    let mut bytes = vec![7; 100_000];
    let [mut node, mut other]: [_; 2] = open_many(&farm, "greedy");
    // 64 MiB and four outputs, less what is on its way.
    other.put(ContentHash([7; 32]), 100_000);
    assert_eq!(other.reply().unwrap(), "Have { bytes: 0 }");
    let mut stored = 0_u32;
    loop {
        bytes[..4].copy_from_slice(&stored.to_le_bytes());
        node.put(ContentHash::of(&bytes), 100_000);
        if node.reply().unwrap().contains("that no result has named") {
            break;
        }
        chunks(&bytes, 0).for_each(|chunk| node.chunk(chunk));
        assert_eq!(node.reply().unwrap(), "Stored");
        stored += 1;
    }
    assert_eq!(stored, ((64 << 20) + 400_000) / 100_000 - 1);
    drop(other);
    let mut third = open(&farm, "modest");
    third.put(ContentHash::of(&bytes), 100_000);
    assert_eq!(third.reply().unwrap(), "Have { bytes: 0 }", "others are not hindered");
    starfarm_e2e::until("its room is given back", || {
        node.put(ContentHash::of(&bytes), 100_000);
        node.reply().unwrap() == "Have { bytes: 0 }"
    });
}

#[test]
fn a_chunk_that_continues_nothing_breaks_the_connection_and_gets_no_answer() {
    let farm = farm();
    let (content, hash) = content();
    let mut node = open(&farm, "a");
    node.put(hash, content.len() as u64);
    node.reply().unwrap();
    // Each of them once had an answer, and the next questions were answered by these.
    chunks(&content, 0).skip(1).for_each(|chunk| node.chunk(chunk));
    let told = node.reply();
    assert!(told.is_err(), "{told:?}");
}

/// 423 MiB lay on the disk after 12 s, and nothing would ever have removed them.
#[test]
fn a_node_cannot_fill_the_disk_with_what_belongs_to_no_job() {
    let farm = Farm::start();
    let (content, hash) = content();
    let total = content.len() as u64;
    let asked = |name: &str, hash, total| {
        let mut node = open(&farm, name);
        node.put(hash, total);
        node.reply().unwrap()
    };
    assert!(asked("a", hash, total).contains("no unfinished job here runs programs"));
    assert!(asked("b", ContentHash::of(b""), 0).contains("no unfinished job"));
    let id = farm.submit(&["--range", "0..1", "--output-limit", "100000", "--", "true"]);
    let told = asked("c", hash, total);
    assert!(
        told.starts_with("NoRoom(\"no job here keeps an output of 200000 bytes: 100000 at most"),
        "{told}"
    );
    assert_eq!(asked("d", hash, 100_000), "Have { bytes: 0 }");
    assert_eq!(asked("e", ContentHash::of(b""), 0), "Have { bytes: 0 }");
    farm.cli(&["job", "cancel", &id]).exits(0);
}

/// Half of a connection whose other end lost its power would stay for ever.
#[test]
fn both_ends_of_a_bulk_connection_ask_whether_the_other_one_lives() {
    let test = "both_ends_of_a_bulk_connection_ask_whether_the_other_one_lives";
    if let Err(why) = std::process::Command::new("ss").arg("-V").output() {
        return starfarm_e2e::skip("ss", test, &why.to_string());
    }
    let mut farm = Farm::start();
    // Other connections of a node have their own ways to ask that.
    farm.add_worker("w1", &["--slots", "1", "--no-monitor"]);
    let id = farm.submit(&["--range", "0..1", "--", "true"]);
    farm.wait(&id).exits(0);
    let output = std::process::Command::new("ss").args(["-tnoH", "state", "established"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Other farms of this machine may have the same port.
    let address = format!("{} ", farm.address());
    let ends: Vec<&str> = text.lines().filter(|line| format!("{line} ").contains(&address)).collect();
    // The worker's end and the scheduler's: users talk by a local socket.
    assert!(ends.len() >= 2 && ends.iter().all(|end| end.contains("timer:(keepalive,")), "{text}");
}
