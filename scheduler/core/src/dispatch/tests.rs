//! That a turn looks at what changed and not at everything: nodes and tasks that are looked at are counted.

use starfarm_protocol::ids::{Boot, ContentHash, Epoch, FarmId, JobId};
use starfarm_protocol::limits::PROTOCOL_VERSION;
use starfarm_protocol::wire::{Heartbeat, Hello, Packer};

use super::*;
use crate::limits::TASKS_A_TURN;
use crate::{Config, Deed, MaxFailures, NewJob, Place, Sizing, Terms, Trust, WorkFacts};

/// A farm of `nodes` idle nodes.
fn farm(nodes: u32, slots: u16) -> Farm {
    let (mut farm, mut deeds) = (Farm::new(Config::new(FarmId([1; 16]), Epoch(1)), 1), Deeds::default());
    for id in 0..nodes {
        let hello = Hello {
            version: PROTOCOL_VERSION,
            boot: Boot(u64::from(id) + 1),
            slots,
            queue_tasks_max: 64,
            receive_datagrams_max: 64,
            known_epoch: Epoch(0),
            known_proof: [0; 16],
            died_running: Vec::new(),
        };
        farm.on_session(NodeId(id), &format!("n{id}"), 1);
        hear(&mut farm, id, 1, |packer| packer.hello(&hello), &mut deeds);
    }
    turn(&mut farm, 1);
    farm
}

/// Nodes with an idle slot.
fn hungry(farm: &Farm) -> Vec<NodeId> {
    let after = |id: &NodeId| farm.nodes.hungry_from(NodeId(id.0 + 1), Reach::Slots);
    std::iter::successors(farm.nodes.hungry_from(NodeId(0), Reach::Slots), after).collect()
}

fn hear(farm: &mut Farm, id: u32, now_us: u64, say: impl FnOnce(&mut Packer), deeds: &mut Deeds) {
    let mut packer = Packer::new();
    say(&mut packer);
    farm.on_datagram(NodeId(id), &packer.finish()[0], now_us, deeds);
}

fn turn(farm: &mut Farm, now_us: u64) {
    farm.on_durable(farm.last_sequence(), now_us);
    farm.turn(now_us, &mut Deeds::default());
    farm.check_all().unwrap();
}

fn submit(farm: &mut Farm, units: u128, work: WorkFacts) -> JobId {
    let new = NewJob {
        name: String::new(),
        user: String::new(),
        spec: ContentHash([1; 32]),
        units,
        work,
        sizing: Sizing::Units(1),
        max_failures: MaxFailures::Never,
        speculative: true,
        trust: Trust::default(),
        terms: Terms::default(),
        place: Place::Tail,
    };
    farm.submit(new, 1, &mut Deeds::default()).unwrap()
}

fn beat(farm: &mut Farm, id: u32, now_us: u64) {
    let beat = Heartbeat {
        number: 1,
        part: 0,
        parts: 1,
        queued_tasks: 0,
        draining: false,
        running: Vec::new(),
        held: Vec::new(),
    };
    hear(farm, id, now_us, |packer| packer.heartbeat(&beat), &mut Deeds::default());
}

#[test]
fn a_small_job_among_many_idle_nodes_is_no_walk_through_all_of_them() {
    let mut farm = farm(400, 1);
    let before = farm.telemetry.looks;
    for _ in 0..200 {
        submit(&mut farm, 1, WorkFacts::NOTHING);
        turn(&mut farm, 2);
        turn(&mut farm, 2);
    }
    assert_eq!(farm.queues.out(), 200, "each job's unit went out");
    assert!(
        farm.telemetry.looks - before <= 200 * 4,
        "{} looks for 200 units",
        farm.telemetry.looks - before
    );
}

#[test]
fn idle_nodes_do_not_each_walk_through_the_tasks_at_a_jobs_end() {
    let mut farm = farm(600, 4);
    submit(&mut farm, 1_000, WorkFacts::NOTHING);
    while farm.queues.out() < 1_000 {
        turn(&mut farm, 2);
    }
    let (idle, walks) = (hungry(&farm), farm.agenda.walks);
    assert!(idle.len() > 300, "{} idle", idle.len());
    for (id, now_us) in idle.into_iter().zip(3..) {
        beat(&mut farm, id.0, now_us);
        turn(&mut farm, now_us);
    }
    assert!(farm.agenda.walks - walks <= 1, "{} walks", farm.agenda.walks - walks);
}

#[test]
fn a_turn_gives_out_no_more_than_a_turns_worth_and_the_next_goes_on() {
    let mut farm = farm(1_000, 32);
    submit(&mut farm, 1_000_000, WorkFacts::NOTHING);
    let mut out = 0;
    for _ in 0..40 {
        turn(&mut farm, 2);
        let given = farm.queues.out() - out;
        assert!(given as u64 <= TASKS_A_TURN + 64, "{given} tasks in one turn");
        assert_eq!(farm.next_deadline_us() == 0, given as u64 > TASKS_A_TURN);
        out = farm.queues.out();
    }
    assert_eq!(out, 64_000, "all windows are full");
}

#[test]
fn half_of_the_nodes_lost_and_back_is_no_walk_through_all_of_what_they_ran() {
    let mut farm = farm(200, 8);
    let job = submit(&mut farm, 100_000, WorkFacts::command(0));
    while farm.queues.out() < 3_200 {
        turn(&mut farm, 2);
    }
    for id in 0..100 {
        let running = farm.queues.tasks_at(NodeId(id)).take(8).map(|task| (job, task.at.lo));
        farm.nodes.at_mut(NodeId(id)).running = running.collect();
    }
    // The others are heard.
    for now_us in [10_000_000, 15_500_000] {
        (100..200).for_each(|id| beat(&mut farm, id, now_us));
        farm.on_tick(now_us, &mut Deeds::default());
        turn(&mut farm, now_us);
    }
    assert_eq!(farm.nodes.iter().filter(|(_, node)| node.health().is_lost()).count(), 100);
    let before = farm.queues.looks();
    // They come as other incarnations, one after another, each into a turn of its own.
    for id in 0..100 {
        let mut deeds = Deeds::default();
        beat(&mut farm, id, 15_600_000);
        farm.turn(15_600_000, &mut deeds);
        assert!(deeds.0.iter().any(|deed| matches!(deed, Deed::Send(..))));
    }
    farm.check_all().unwrap();
    let looks = farm.queues.looks() - before;
    assert!(looks <= 100 * 3 * 3 * 64, "{looks} looks at what waits");
}
