//! Nodes that have gone make room for those that come. Times in the stories are milliseconds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Bench, config, hello, spec};
use expect_test::expect;
use starfarm_protocol::ids::{Attempt, JobId};
use starfarm_protocol::journal::record::NodeMark;
use starfarm_protocol::wire::{Outcome, Packer, ResultEntry};
use starfarm_scheduler_core::limits::NODES_FORGOTTEN_MAX;
use starfarm_scheduler_core::{Config, Deed, Deeds, Farm, NodeId, Record};

#[test]
fn the_node_that_went_first_makes_room_and_one_that_a_person_drained_does_not() {
    let mut bench = Bench::new(Config { nodes_max: 4, ..config() });
    let story = bench.run(
        "join a slots 1\n join b slots 1\n join c slots 1\n drain b\n bye b\n at 1000\n bye c\n at 2000\n bye a
         join d slots 1\n nodes\n restart\n nodes\n hello d\n beat d none\n join e slots 1\n join f slots 1\n nodes
         join g slots 1\n nodes\n forget b\n join g slots 1\n nodes\n restart\n nodes",
    );
    expect![[r#"
        0: node a joined: 1 slot, boot 0000000000000001
        0: to a: welcome epoch 1
        0: node b joined: 1 slot, boot 0000000000000001
        0: to b: welcome epoch 1
        0: node c joined: 1 slot, boot 0000000000000001
        0: to c: welcome epoch 1
        0: node b draining
        0: node b left
        1000: node c left
        2000: node a left
        2000: node d joined: 1 slot, boot 0000000000000001
        2000: node c forgotten
        2000: to d: welcome epoch 1
        2000: a lost, b lost, d up
        2000: a lost, b lost, d suspect
        2000: node d is back
        2000: to d: welcome epoch 2
        2000: to d: answer 1
        2000: node e joined: 1 slot, boot 0000000000000001
        2000: node a forgotten
        2000: to e: welcome epoch 2
        2000: node f joined: 1 slot, boot 0000000000000001
        2000: to f: welcome epoch 2
        2000: b lost, d up, e up, f up
        2000: b lost, d up, e up, f up
        2000: node b forgotten
        2000: node g joined: 1 slot, boot 0000000000000001
        2000: to g: welcome epoch 2
        2000: d up, e up, f up, g up
        2000: d suspect, e suspect, f suspect, g suspect
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_node_that_was_forgotten_and_comes_back_is_a_new_one_and_its_results_count() {
    let mut bench = Bench::new(Config { nodes_max: 2, ..config() });
    let story = bench.run(
        "submit 20 units 10\n join a slots 1\n ack a\n at 16000\n join b slots 1\n nodes\n done a 0+10\n show 1
         hello a\n done a 0+10\n show 1\n nodes",
    );
    expect![[r#"
        0: job 1 submitted: 20 units
        0: node a joined: 1 slot, boot 0000000000000001
        0: to a: welcome epoch 1
        0: job 1 running
        0: to a: offer job 1: 1=0+10 2=10+10
        5000: node a suspect: no heartbeat
        15000: node a lost: 2 tasks back to gq
        16000: node b joined: 1 slot, boot 0000000000000001
        16000: node a forgotten
        16000: to b: welcome epoch 1; offer job 1: 3=0+10 4=10+10
        16000: b up
        16000: job 1 is running: done 0, out 20, waiting 0, resent tasks 2
        16000: node a joined: 1 slot, boot 0000000000000001
        16000: to a: welcome epoch 1
        16000: job 1 is running: done 10, out 10, waiting 0, resent tasks 2
        16000: a up, b up
    "#]]
    .assert_eq(&story);
}

/// Says hello, or what else there is to say, as node `id`.
fn say(farm: &mut Farm, id: u32, now_us: u64, deeds: &mut Deeds, say: impl FnOnce(&mut Packer)) {
    let mut packer = Packer::new();
    say(&mut packer);
    packer.finish().iter().for_each(|datagram| farm.on_datagram(NodeId(id), datagram, now_us, deeds));
}

#[test]
fn ever_new_workers_that_live_for_a_moment_lock_nobody_out() {
    const WORKERS: u32 = 5_000;
    const NODES: usize = 512;
    let mut bench = Bench::new(Config { nodes_max: NODES, ..config() });
    bench.run("submit 1000000 units 10");
    let (farm, mut welcome) = (&mut bench.farm, 0);
    for id in 0..WORKERS {
        let (now_us, mut deeds) = (u64::from(id) * 1_000, Deeds::default());
        farm.on_session(NodeId(id), &format!("n{id}"), now_us);
        let hello = hello(1);
        say(farm, id, now_us, &mut deeds, |packer| packer.hello(&hello));
        farm.on_tick(now_us, &mut deeds);
        farm.turn(now_us, &mut deeds);
        farm.on_durable(farm.last_sequence(), now_us);
        welcome +=
            deeds.0.iter().filter(|deed| matches!(deed, Deed::Send(to, _) if *to == NodeId(id))).count();
        let result = ResultEntry {
            job: JobId(1),
            spec: spec(1),
            sequence: 1,
            attempt: Attempt(u64::MAX),
            lo: u128::from(id) * 10,
            units: 10,
            duration_us: 1_000_000,
            outcome: Outcome::Done,
            body: &[],
        };
        say(farm, id, now_us, &mut deeds, |packer| packer.result(&result));
        say(farm, id, now_us, &mut deeds, Packer::bye);
        farm.check_all().unwrap();
    }
    assert_eq!(welcome, WORKERS as usize);
    let (_, records) = farm.snapshot(&mut Deeds::default());
    let nodes = records.iter().filter(|record| matches!(record, Record::Node { .. })).count();
    let is_forgotten = |record: &&Record| matches!(record, Record::Mark { mark: NodeMark::Forgotten, .. });
    let forgotten = records.iter().filter(is_forgotten).count();
    assert!((NODES - 4..=NODES).contains(&(nodes - forgotten)), "{nodes}");
    assert_eq!(forgotten, NODES_FORGOTTEN_MAX);
    let rates = records.iter().find_map(|record| match record {
        Record::Rates { nodes, .. } => Some(nodes.len()),
        _ => None,
    });
    assert!(rates.is_some_and(|rates| rates <= NODES), "{rates:?}");
}

/// It would come back as a good one.
#[test]
fn a_node_that_is_not_trusted_is_forgotten_once_its_key_is_revoked() {
    let mut bench = Bench::new(config());
    bench.run(
        "submit 100 search 2 targets never units 10\n join a slots 1\n join b slots 1\n ack a\n ack b
         done a 0+10 hits 3:1\n at 10\n bye b\n done a 0+10",
    );
    let story =
        bench.run("nodes\n bye a\n forget a\n nodes\n restart\n forget a\n revoke a\n forget a\n nodes");
    expect![[r#"
        10: a quarantined (its results differ from those of others), b lost
        10: node a left
        10: Forget: Conflict(NotTrusted)
        10: a lost (its results differ from those of others), b lost
        10: Forget: Conflict(NotTrusted)
        10: node a left
        10: node a forgotten
        10: b lost
    "#]]
    .assert_eq(&story);
}
