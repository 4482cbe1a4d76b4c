//! The sentence of each reason, with its code and, where it can decide, its verdict.

use std::fmt::Write;

use expect_test::{Expect, expect};
use starfarm_protocol::admin::explain::{
    AheadInfo, JobReason, Lack, NodeReason, OfferReason, OfferState, PlaceReason, Silence, UnitReason,
    WorkReason,
};
use starfarm_protocol::admin::{Explanation, Reason, Subject};
use starfarm_protocol::devices::{DeviceFacts, DeviceKind, DeviceNeeds};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::reason::{Distrust, Fault, HoldReason, QuarantineReason};
use starfarm_protocol::resources::Resource;
use starfarm_protocol::units::Units;

use super::Said;

const JOB: JobId = JobId(3);

/// What is printed of an explanation by this reason alone, as it comes from the scheduler.
fn gpu() -> DeviceNeeds {
    DeviceNeeds { device: Some(DeviceKind::Gpu), opencl: (1, 2), memory_bytes: 2 << 30 }
}

fn cpu() -> DeviceFacts {
    DeviceFacts { name: "Some CPU".into(), kind: DeviceKind::Cpu, version: (3, 0), ..DeviceFacts::default() }
}

fn said(subject: &Subject, reason: Reason) -> Said {
    let (subject, reasons) = (subject.clone(), vec![reason]);
    let sent = Explanation { subject, reasons, verdict: 0, sizes: Vec::new(), facts: Vec::new() };
    let json = serde_json::to_string(&sent).unwrap();
    let received: Explanation = serde_json::from_str(&json).unwrap();
    assert_eq!(received, sent, "{json}");
    Said::from(received)
}

fn check(subject: &Subject, reasons: impl IntoIterator<Item = Reason>, expected: Expect) {
    let mut text = String::new();
    for reason in reasons {
        let said = said(subject, reason);
        // What never decides has no verdict of its own.
        let verdict = said.verdict.strip_suffix(" .").map_or(said.verdict.as_str(), |_| "-");
        writeln!(text, "{}: {verdict}\n    {}", said.reasons[0].code, said.reasons[0].text).unwrap();
    }
    expected.assert_eq(&text);
}

fn of_job(reasons: impl IntoIterator<Item = Reason>, expected: Expect) {
    check(&Subject::Job(JOB), reasons, expected);
}

fn of_node(reasons: impl IntoIterator<Item = Reason>, expected: Expect) {
    check(&Subject::Node("lab-7".into()), reasons, expected);
}

const fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000
}

fn max_failures() -> HoldReason {
    HoldReason::MaxFailures { failed: Units(12), max: 10 }
}

#[test]
fn a_job_waits_for_nodes() {
    let states = [("draining", 1), ("no_hello", 2), ("quarantined", 1)];
    let states = states.map(|(word, nodes)| (word.into(), nodes)).into();
    let reasons = [
        JobReason::Paused { why: None },
        JobReason::Paused { why: Some(max_failures()) },
        JobReason::Restart { units: Units(1), release_us: seconds(13) },
        JobReason::NoNode { states: [].into(), probed: false },
        JobReason::NoNode { states, probed: true },
        JobReason::RefusedByAll,
        JobReason::WaitsForRoom { unit: Units(7) },
        JobReason::FitsNowhere { needs: vec![(Resource::Slots, 8), (Resource::Memory, 2 << 30)] },
        JobReason::TooSmall { node: "b".into(), lack: Lack { resource: Resource::Slots, needs: 8, has: 4 } },
        JobReason::TooSmallMore { nodes: 2 },
        JobReason::NoDeviceAnywhere { needs: gpu() },
        JobReason::NoDevice { node: "b".into(), needs: gpu(), has: vec![] },
        JobReason::NoTime,
        JobReason::Refused { node: "a".into(), why: "no python".into(), again_us: seconds(10) },
        JobReason::RefusedByMore { nodes: 1 },
        JobReason::NoRoom { tasks: 2 },
    ];
    of_job(
        reasons.map(Reason::Job),
        expect![[r#"
            paused: Job 3 is paused.
                A person paused it. `starfarm job resume 3` lets it go on.
            paused: Job 3 is paused.
                The farm paused it: 12 units failed, and max_failures is 10. `starfarm results 3` shows the failed units, `starfarm job resume 3` lets it go on, `starfarm job cancel 3` ends it.
            restart: Job 3 waits for nodes to reconnect after the restart.
                The scheduler was restarted: 1 unit may be at nodes that have not reported yet. Units that no node reports go back to gq in 13 s, or as soon as all nodes known before the restart have sent a full heartbeat.
            no_node: Job 3 waits for a node.
                No worker has joined: start one with `starfarm worker --join FILE`.
            no_node: Job 3 waits for a node.
                No node takes tasks: 1 draining, 2 without a hello, 1 quarantined. A quarantined node gets a task now and then, as a probe. `starfarm node explain NAME` says why; `starfarm worker --join FILE` starts another.
            refused_by_all: Job 3 waits for a node that can run it.
                Every node that takes tasks has refused it; their reasons are below.
            waits_for_room: Job 3 waits for a node whose disk has room.
                What is left has files that some disks have no room for, unit 7 first: make room there, or start a worker with more.
            fits_nowhere: Job 3 waits for a node that is large enough.
                A unit needs 8 slots and 2.0 GiB of memory, and no node that takes tasks has as much: start a larger worker, or submit it with less.
            too_small: -
                A unit needs 8 slots, and node b has 4 slots.
            too_small: -
                2 more nodes are too small as well: `starfarm nodes` lists what they have.
            no_device_anywhere: Job 3 waits for a node with such a device.
                It runs on devices alone (gpu, OpenCL 1.2 or later, 2.0 GiB), and no node that takes tasks has one: start a worker where there is one. `starfarm worker --probe` lists what a machine has; a processor as a device must be named by `--devices`.
            no_device: -
                It runs on devices alone (gpu, OpenCL 1.2 or later, 2.0 GiB), and node b has none that it uses.
            no_time: Job 3 waits for a node that has time for it.
                The nodes that could take it leave by themselves before a task of it would be over: start workers with a later `--deadline`, or submit it in smaller units.
            refused: -
                Node a cannot run it: no python. It is asked again in 10 s, or at once after `starfarm job resume 3`.
            refused: -
                1 more node cannot run it: `starfarm job show 3` lists them.
            no_room: Job 3 waits for room at nodes.
                The nodes that could take it have no room: they hold 2 tasks of other jobs. It is its turn as these end; `starfarm job switch 3` runs it at once.
        "#]],
    );
}

#[test]
fn a_job_waits_for_others_or_runs() {
    let behind = |units, other_jobs, other_units| JobReason::Behind {
        place: 4,
        of: 5,
        job: JobId(1),
        units: Units(units),
        other_jobs,
        other_units: Units(other_units),
    };
    let all_out = |copies| JobReason::AllOut { units: Units(50), copies };
    let ended = |ago_us| JobReason::Ended {
        state: JobState::Failed,
        ago_us,
        of: Units(u128::MAX),
        done: Units(u128::MAX - 3),
        failed: Units(1),
        abandoned: Units(2),
    };
    let reasons = [
        behind(1, 0, 0),
        behind(20, 0, 0),
        behind(1, 2, 1),
        JobReason::Lease { durable: Units(1_610), mark: Units(4_820) },
        all_out(None),
        all_out(Some(true)),
        all_out(Some(false)),
        JobReason::Runs { nodes: 0, taking: 2 },
        JobReason::Runs { nodes: 1, taking: 2 },
        ended(None),
        ended(Some(seconds(200))),
        JobReason::FailedUnits,
    ];
    of_job(
        reasons.map(Reason::Job).into_iter().chain([Reason::NoDisk]),
        expect![[r#"
            behind: Job 3 waits behind job 1.
                It is number 4 of 5 in jq: 1 unit of job 1 goes first. `starfarm job front 3` makes it the next, `starfarm job switch 3` runs it at once.
            behind: Job 3 waits behind job 1.
                It is number 4 of 5 in jq: 20 units of job 1 go first. `starfarm job front 3` makes it the next, `starfarm job switch 3` runs it at once.
            behind: Job 3 waits behind job 1.
                It is number 4 of 5 in jq: 1 unit of job 1 and 1 unit of 2 other jobs go first. `starfarm job front 3` makes it the next, `starfarm job switch 3` runs it at once.
            lease: Job 3 waits for the scheduler's disk.
                It may be given out up to unit 1610; the record that allows units up to 4820 is on its way to the disk.
            all_out: Job 3 waits for its last tasks at nodes.
                All remaining units (50) are at nodes.
            all_out: Job 3 waits for its last tasks at nodes.
                All remaining units (50) are at nodes. Idle nodes get copies of late tasks.
            all_out: Job 3 waits for its last tasks at nodes.
                All remaining units (50) are at nodes. Idle nodes get no copies: it was submitted without `--speculative true`.
            runs: Job 3 gets nodes in a moment.
                Nodes with tasks of it: 0. Nodes that take tasks: 2.
            runs: Job 3 runs.
                Nodes with tasks of it: 1. Nodes that take tasks: 2.
            ended: Job 3 has ended (failed).
                It ended: 340282366920938463463374607431768211452 of 340282366920938463463374607431768211455 units done, 1 failed, 2 abandoned.
            ended: Job 3 has ended (failed).
                It ended 3 min 20 s ago: 340282366920938463463374607431768211452 of 340282366920938463463374607431768211455 units done, 1 failed, 2 abandoned.
            failed_units: -
                `starfarm results 3` shows the failed units, `starfarm job retry --failed 3` tries them again.
            no_disk: Job 3 waits for room on the scheduler's disk.
                The scheduler's disk has too little room above its low-water mark, or jobs store as much as the farm may: `starfarm status` says which. No program is started, and what programs wrote waits at its node. Searches go on. Make room, as with `starfarm job delete`, and programs start again by themselves.
        "#]],
    );
}

#[test]
fn where_a_jobs_tasks_are() {
    let at_node = |node: &str, offer, copy| PlaceReason::AtNode {
        node: node.into(),
        lo: Units(0),
        hi: Units(10),
        for_us: 4_500_000,
        offer,
        copy,
    };
    let reasons = [
        at_node("a", OfferState::Assigned, None),
        at_node("a", OfferState::Offered, None),
        at_node("a", OfferState::Held(1_500_000), Some(("b".into(), seconds(26)))),
        PlaceReason::MoreAtNodes { tasks: 1 },
        PlaceReason::Unclaimed { lo: Units(0), hi: Units(u128::MAX) },
        PlaceReason::MoreUnclaimed { ranges: 2, units: Units(930) },
    ];
    of_job(
        reasons.map(Reason::Place),
        expect![[r#"
            at_node: -
                Node a has had units [0, 10) for 4.5 s, not sent yet.
            at_node: -
                Node a has had units [0, 10) for 4.5 s, sent and not acknowledged yet.
            at_node: -
                Node a has had units [0, 10) for 4.5 s, last confirmed 1.5 s ago; node b got a copy 26 s ago.
            at_node: -
                Nodes have 1 more task; none is older.
            at_node: -
                Units [0, 340282366920938463463374607431768211455) were given out before the restart, and no node has reported them yet.
            at_node: -
                The same holds for 2 more ranges with 930 units.
        "#]],
    );
}

#[test]
fn what_befell_units() {
    let hangs = |usual_us, copies, program| UnitReason::Hangs {
        job: JOB,
        unit: Units(10),
        node: "a".into(),
        for_us: seconds(125),
        usual_us,
        copies,
        program,
    };
    let on = || vec![Some("a".into()), None, Some("c".into())];
    let reasons = [
        hangs(seconds(4), true, true),
        hangs(0, false, true),
        hangs(seconds(4), false, false),
        UnitReason::SuspectUnit { unit: Units(2), times: 1, on: vec![Some("a".into())], more: 0, most: 3 },
        UnitReason::TriedAgain { unit: Units(1), times: 7, on: on(), more: 2 },
        UnitReason::Others { code: "tried_again".into(), units: 1 },
        UnitReason::LacksRoom { unit: Units(5), on: on(), more: 0 },
    ];
    of_job(
        reasons.map(Reason::Unit),
        expect![[r#"
            hangs: -
                Unit 10 of job 3 has run on node a for 2 min 05 s, and such a task takes about 4 s there: it seems to hang. The next node with room gets a copy of it.
            hangs: -
                Unit 10 of job 3 has run on node a for 2 min 05 s, and no unit of the job has ended yet: it seems to hang. A job with `hang_seconds` or `timeout_seconds` ends such a unit by itself. To end this one, kill its process on the machine: it fails and is tried again as `retries` says.
            hangs: -
                Unit 10 of job 3 has run on node a for 2 min 05 s, and such a task takes about 4 s there: it seems to hang. The job allows no copies: restart the worker, and the unit goes to another node.
            suspect_unit: -
                Unit 2 was running, or may have been, when workers died: 1 time (on a). It is tried alone, on other nodes first; after 3 deaths it is given up as poison.
            tried_again: -
                Unit 1 failed 7 times (on a, a forgotten node, c, 2 more) and is tried again.
            tried_again: -
                The same holds for 1 other unit.
            lacks_room: -
                The files of unit 5 have no room on the disk of a, a forgotten node, c: it waits for another node. These are asked again now and then, and at once after `job resume`.
        "#]],
    );
}

#[test]
fn a_node_is_kept_out() {
    let (heard, restored) = (Silence::For(seconds(7)), Silence::SinceBefore(seconds(61)));
    let (suspect_us, lost_us) = (seconds(5), seconds(15));
    let fails = |in_a_row| QuarantineReason::Fails(Fault { job: JOB, units: 7, in_a_row });
    let probe = Some((seconds(6), seconds(20)));
    let reasons = [
        NodeReason::Revoked,
        NodeReason::Left { silence: heard },
        NodeReason::Left { silence: restored },
        NodeReason::Lost { silence: heard, lost_us, units: Units(1) },
        NodeReason::Lost { silence: restored, lost_us, units: Units(0) },
        NodeReason::NoHello { again: false },
        NodeReason::NoHello { again: true },
        NodeReason::Suspect { silence: heard, suspect_us, lost_us, tasks: 2 },
        NodeReason::Suspect { silence: restored, suspect_us, lost_us, tasks: 0 },
        NodeReason::Drained { lost: false },
        NodeReason::Drained { lost: true },
        NodeReason::Stopping,
        NodeReason::Distrusted { why: Distrust::Differs },
        NodeReason::Quarantined { why: None, probe },
        NodeReason::Quarantined { why: Some(QuarantineReason::GivesBack { tasks: 70 }), probe },
        NodeReason::Quarantined { why: Some(QuarantineReason::Keeps { tasks: 70 }), probe },
        NodeReason::Quarantined { why: Some(fails(true)), probe: Some((0, seconds(20))) },
        NodeReason::Quarantined { why: Some(fails(false)), probe: None },
        NodeReason::Conflict { job: JOB, lo: Units(0), hi: Units(10) },
    ];
    of_node(
        reasons.map(Reason::KeptOut),
        expect![[r#"
            revoked: Node lab-7 is out: its key was revoked.
                Its tasks went back to gq, and it cannot come back with that key. To have its machine back, move the worker's state directory away and start it with a valid join file; `starfarm node forget lab-7` drops this node from the list.
            left: Node lab-7 has left.
                Its worker said goodbye 7 s ago. Start it again, or drop it from the list with `starfarm node forget lab-7`.
            left: Node lab-7 has left.
                Its worker said goodbye before this scheduler started 1 min 01 s ago. Start it again, or drop it from the list with `starfarm node forget lab-7`.
            lost: Node lab-7 is lost.
                It has been silent for 7 s. A node is lost after 15 s. 1 unit went back to gq. See whether its machine, its network and its worker are up; `starfarm node forget lab-7` drops it from the list.
            lost: Node lab-7 is lost.
                It has not been heard since before this scheduler started 1 min 01 s ago. See whether its machine, its network and its worker are up; `starfarm node forget lab-7` drops it from the list.
            no_hello: Node lab-7 has not joined yet.
                It has opened a session and not said hello yet, or its worker speaks another version: install the same version here and there.
            no_hello: Node lab-7 is coming back.
                It has opened a new session; it gets tasks once its worker has said hello in it, in this version of the protocol.
            suspect: Node lab-7 is suspect.
                It has been silent for 7 s. After 5 s a node gets no new tasks; after 15 s it is lost, and its tasks go back to gq (2 now).
            suspect: Node lab-7 is suspect.
                It has not been heard since before this scheduler started 1 min 01 s ago. After 5 s a node gets no new tasks; after 15 s it is lost, and its tasks go back to gq (0 now).
            drained: Node lab-7 is draining.
                A person drained it: it finishes its tasks and gets no new ones. `starfarm node resume lab-7` undoes that.
            drained: Node lab-7 is draining.
                A person also drained it: when it is back it gets nothing until `starfarm node resume lab-7`.
            stopping: Node lab-7 is draining.
                Its worker is stopping: it finishes its running tasks and says goodbye. Start the worker again to have it back.
            distrusted: Node lab-7 is quarantined.
                It gets nothing: its results differ from those of others. Test its machine, then `starfarm node resume lab-7`.
            quarantined: Node lab-7 is quarantined.
                It lost tasks that it had acknowledged. It gets one task at a time as a probe, the next one in 6 s, the one after that no sooner than 20 s later; a probe that passes brings it back, or `starfarm node resume lab-7`.
            quarantined: Node lab-7 is quarantined.
                It gave back 70 tasks that nobody took from it. It gets one task at a time as a probe, the next one in 6 s, the one after that no sooner than 20 s later; a probe that passes brings it back, or `starfarm node resume lab-7`.
            quarantined: Node lab-7 is quarantined.
                It kept 70 tasks that it was asked to give back. It gets one task at a time as a probe, the next one in 6 s, the one after that no sooner than 20 s later; a probe that passes brings it back, or `starfarm node resume lab-7`.
            quarantined: Node lab-7 is quarantined.
                It failed the last 7 units of job 3 that it ran, and others pass. It gets one task at a time as a probe, the next one at once, the one after that no sooner than 20 s later; a probe that passes brings it back, or `starfarm node resume lab-7`.
            quarantined: Node lab-7 is quarantined.
                It is also quarantined: it failed 7 units of job 3 that others pass.
            conflict: -
                Its results for units [0, 10) of job 3 differ from those of others.
        "#]],
    );
}

#[test]
fn a_node_works_or_idles() {
    let window = |ahead, steps, slots| WorkReason::Window {
        held: 1,
        tasks: 40,
        a_slot: 15,
        slots,
        ahead,
        steps,
        queue: 100,
    };
    let busy = |tasks, ranges, units| {
        let units = Units(units);
        WorkReason::Busy { job: JOB, tasks, ranges, units, for_us: 1_500_000 }
    };
    let reasons = [
        busy(40, false, 400),
        busy(1, true, 1),
        WorkReason::Running { units: vec![(JOB, Units(40))], more: 0 },
        WorkReason::Running { units: vec![(JOB, Units(40)), (JobId(4), Units(0))], more: 3 },
        window(AheadInfo::Nothing(JOB), 0, 1),
        window(AheadInfo::Learning, 0, 1),
        window(AheadInfo::Scarce(JOB, seconds(5)), 10, 2),
        window(AheadInfo::Full(seconds(60)), -6, 2),
        WorkReason::NoJob,
        WorkReason::Paused,
        WorkReason::Refused,
        WorkReason::NothingLeft,
        WorkReason::TooSmall,
        WorkReason::NoTime { left_us: seconds(40) },
        WorkReason::Waiting,
    ];
    of_node(
        reasons.map(Reason::Work).into_iter().chain([Reason::NoDisk]),
        expect![[r#"
            busy: Node lab-7 works.
                It has 40 tasks of job 3, 400 units; the oldest for 1.5 s.
            busy: Node lab-7 works.
                It has 1 range of job 3, 1 unit; the oldest for 1.5 s.
            running: -
                Its last heartbeat said that it runs unit 40 of job 3.
            running: -
                Its last heartbeat said that it runs unit 40 of job 3, unit 0 of job 4 and 3 more.
            window: -
                It has 1 task and may hold 40: 15 for each of 1 slot (of job 3, whose runs compute whole tasks, none waits while their start is learnt or little is left), speed-ups and slow-downs change nothing; its own queue takes 100.
            window: -
                It has 1 task and may hold 40: 15 for each of 1 slot (the duration of its tasks is still being learnt), speed-ups and slow-downs change nothing; its own queue takes 100.
            window: -
                It has 1 task and may hold 40: 15 for each of 2 slots (little is left of job 3, so 5 s of work ahead), speed-ups add 10; its own queue takes 100.
            window: -
                It has 1 task and may hold 40: 15 for each of 2 slots (1 min 00 s of work ahead), slow-downs take 6 away; its own queue takes 100.
            no_job: Node lab-7 idles: there is no job.
                There is no unfinished job. `starfarm submit` adds one.
            paused: Node lab-7 idles: jobs are paused.
                The jobs that it could work on are paused.
            refused: Node lab-7 idles: it refused the jobs.
                It cannot run the jobs that have work.
            nothing_left: Node lab-7 idles: nothing is left to give.
                All remaining units are at other nodes.
            too_small: Node lab-7 idles: it is too small for the jobs.
                A unit of the jobs that have work needs more than it has.
            no_time: Node lab-7 idles: it leaves soon.
                It leaves by itself in 40 s, before a task of what waits would be over.
            waiting: Node lab-7 gets a task in a moment.
                There is work for it.
            no_disk: Node lab-7 idles: the scheduler's disk has no room.
                The scheduler's disk has too little room above its low-water mark, or jobs store as much as the farm may: `starfarm status` says which. No program is started, and what programs wrote waits at its node. Searches go on. Make room, as with `starfarm job delete`, and programs start again by themselves.
        "#]],
    );
}

#[test]
fn a_job_has_nothing_for_a_node() {
    let reasons = [
        OfferReason::Paused { why: None },
        OfferReason::Paused { why: Some(max_failures()) },
        OfferReason::Refused { why: "no python".into(), again_us: 0 },
        OfferReason::AllOut { units: Units(1), copies: false },
        OfferReason::AllOut { units: Units(10), copies: true },
        OfferReason::Doubted,
        OfferReason::Lease,
        OfferReason::TooSmall { lack: Lack { resource: Resource::Memory, needs: 3 << 30, has: 1 << 30 } },
        OfferReason::NoDevice { needs: gpu(), has: vec![cpu()] },
        OfferReason::NoTime,
        OfferReason::Waits { units: Units(1) },
        OfferReason::Waits { units: Units(2) },
    ];
    of_node(
        reasons.map(|reason| Reason::Offer(JOB, reason)),
        expect![[r#"
            job_paused: -
                Job 3 is paused. `starfarm job resume 3` lets it go on.
            job_paused: -
                Job 3 is paused: 12 units failed, and max_failures is 10. `starfarm job resume 3` lets it go on.
            job_refused: -
                It cannot run job 3: no python. It is asked again at once, or at once after `starfarm job resume 3`.
            job_all_out: -
                The last unit of job 3 is at another node; the job allows no copies.
            job_all_out: -
                The last 10 units of job 3 are at other nodes; it gets a copy of a late one.
            job_doubted: -
                The last units of job 3 that it ran failed, while others pass: it gets one unit at a time, from other parts of the job, until one passes.
            job_lease: -
                More of job 3 can be given out once its record is on the scheduler's disk.
            job_too_small: -
                A unit of job 3 needs 3.0 GiB of memory, and the node has 1.0 GiB of memory.
            job_no_device: -
                Job 3 runs on devices alone (gpu, OpenCL 1.2 or later, 2.0 GiB), and the node has Some CPU (cpu, OpenCL 3.0, 0 B).
            job_no_time: -
                A task of job 3 would not be over before the node leaves by itself.
            job_waits: -
                1 unit of job 3 waits.
            job_waits: -
                2 units of job 3 wait.
        "#]],
    );
}

#[test]
fn jobs_start_after_others_and_have_so_many_nodes() {
    let of_job = [
        JobReason::After { jobs: vec![JobId(1)] },
        JobReason::After { jobs: vec![JobId(1), JobId(2), JobId(9)] },
        JobReason::AfterFailed { job: JobId(1), state: JobState::Cancelled },
        JobReason::MaxNodes { nodes: 2 },
    ];
    let offers = [OfferReason::After { jobs: vec![JobId(1), JobId(2)] }, OfferReason::MaxNodes { nodes: 1 }];
    let reasons = of_job.map(Reason::Job).into_iter().chain(offers.map(|offer| Reason::Offer(JOB, offer)));
    check(
        &Subject::Job(JOB),
        reasons,
        expect![[r#"
        after: Job 3 waits for job 1.
            It starts when job 1 has ended; merging results is a part of that.
        after: Job 3 waits for jobs 1, 2 and 9.
            It starts when jobs 1, 2 and 9 have ended; merging results is a part of that.
        after_failed: -
            It was to start after job 1, which is cancelled: mend that one, then submit this one again.
        max_nodes: -
            2 nodes have tasks of it, as many as `max_nodes` allows at once: other nodes get nothing of it.
        job_after: -
            Job 3 waits for jobs 1 and 2 to end.
        job_max_nodes: -
            Job 3 has 1 node, as many as `max_nodes` allows.
    "#]],
    );
    of_node(
        [WorkReason::After, WorkReason::MaxNodes].map(Reason::Work),
        expect![[r#"
        after: Node lab-7 idles: jobs wait for other jobs.
            The jobs that it could work on wait for other jobs to end.
        max_nodes: Node lab-7 idles: jobs have as many nodes as they may have.
            The jobs that it could work on have as many nodes as `max_nodes` allows.
    "#]],
    );
}
