//! The bulk channel of a real scheduler, spoken to record by record.
#![allow(clippy::unwrap_used)]

use starfarm_e2e::{BulkClient, Farm};
use starfarm_protocol::bulk::chunks;
use starfarm_protocol::ids::ContentHash;

fn content() -> (Vec<u8>, ContentHash) {
    let content: Vec<u8> = (0..200_000_u32).map(|i| (i / 7) as u8).collect();
    let hash = ContentHash::of(&content);
    (content, hash)
}

fn open(farm: &Farm, name: &str) -> BulkClient {
    BulkClient::open(farm.address(), &farm.state().join("worker.join"), name)
}

#[test]
fn two_nodes_that_send_equal_contents_at_one_time_do_not_disturb_each_other() {
    let farm = Farm::start();
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
    let farm = Farm::start();
    let (content, hash) = content();
    let total = content.len() as u64;
    let mut first = open(&farm, "a");
    first.put(hash, total);
    first.reply().unwrap();
    chunks(&content, 0).take(2).for_each(|chunk| first.chunk(chunk));
    drop(first);
    let mut second = open(&farm, "b");
    // The scheduler learns of the end when it has read all that came before.
    starfarm_e2e::until("what came is kept", || {
        second.put(hash, total);
        second.reply().unwrap() == "Have { bytes: 122880 }"
    });
    chunks(&content, 122_880).for_each(|chunk| second.chunk(chunk));
    assert_eq!(second.reply().unwrap(), "Stored");
}

#[test]
fn a_chunk_that_continues_nothing_breaks_the_connection_and_gets_no_answer() {
    let farm = Farm::start();
    let (content, hash) = content();
    let mut node = open(&farm, "a");
    node.put(hash, content.len() as u64);
    node.reply().unwrap();
    // Each of them once had an answer, and the next questions were answered by these.
    chunks(&content, 0).skip(1).for_each(|chunk| node.chunk(chunk));
    let told = node.reply();
    assert!(told.is_err(), "{told:?}");
}

/// Half of a connection whose other end lost its power would stay for ever.
#[test]
fn both_ends_of_a_bulk_connection_ask_whether_the_other_one_lives() {
    let test = "both_ends_of_a_bulk_connection_ask_whether_the_other_one_lives";
    if let Err(why) = std::process::Command::new("ss").arg("-V").output() {
        return starfarm_e2e::skip("ss", test, &why.to_string());
    }
    let farm = Farm::with_workers(1, 1);
    let id = farm.submit(&["--range", "0..1", "--", "true"]);
    farm.wait(&id).exits(0);
    let output = std::process::Command::new("ss").args(["-tnoH", "state", "established"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let port = format!(":{} ", farm.address().port());
    let ends: Vec<&str> = text.lines().filter(|line| format!("{line} ").contains(&port)).collect();
    // The worker's end and the scheduler's: users talk by a local socket.
    assert!(ends.len() >= 2 && ends.iter().all(|end| end.contains("timer:(keepalive,")), "{text}");
}
