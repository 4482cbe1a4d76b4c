//! A scheduler that gives made-up answers over a real socket.

use starfarm_protocol::admin::KeyKind;
use starfarm_protocol::job::JobState;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::state::NodeState;
use starfarm_protocol::terms::Terms;
use starfarm_protocol::trust::Share;
use starfarm_protocol::units::Units;
use starfarm_protocol::wire::FailReason;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Sender, channel};

use starfarm_protocol::admin::explain::JobReason;
use starfarm_protocol::admin::frames::FrameReader;
use starfarm_protocol::admin::pieces::answer_frames;
use starfarm_protocol::admin::{
    ConflictInfo, DoubtfulInfo, Error, ErrorCode, EventLine, Explanation, Fact, FactValue, FailedInfo,
    HitInfo, JobInfo, JobTotalUsage, JobUsage, KeyInfo, LostOutputs, NeedsInfo, NodeInfo, OutputInfo,
    OutputLoss, Reason, Refusal, Request, Response, ResultsPage, Rule, SizeInfo, Spread, StatusInfo,
    StreamInfo, Subject, TrustInfo, UntrueInfo,
};
use starfarm_protocol::ids::{ContentHash, FarmId, JobId, NodeId, PublicKey};
use starfarm_protocol::join::JoinFile;
use starfarm_protocol::journal::record::JobTotals;
use starfarm_protocol::seal::{Role, Secret};

use crate::program::Folder;

mod monitor;

/// Serves made-up answers from a socket in `folder` until the test ends.
pub(crate) fn serve(folder: &Folder) {
    let listener = UnixListener::bind(folder.path().join("admin.sock")).unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            answer_all(socket.unwrap());
        }
    });
}

/// The same for one caller, once `may_answer` has been sent to or dropped.
pub(crate) fn serve_late(folder: &Folder) -> Sender<()> {
    let listener = UnixListener::bind(folder.path().join("admin.sock")).unwrap();
    let (may_answer, wait) = channel();
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let _ = wait.recv();
        answer_all(socket);
    });
    may_answer
}

fn answer_all(mut socket: UnixStream) {
    let mut reader = FrameReader::default();
    let mut piece = [0; 4_096];
    loop {
        while let Some(request) = reader.next_message::<Request>().unwrap() {
            // The caller may be gone: `head` reads no more than it wants.
            for frame in answer_frames(&answer(&request)).unwrap() {
                let _ = socket.write_all(&frame);
            }
        }
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => reader.push(&piece[..bytes]),
        }
    }
}

/// Job 1 is running, 2 has finished, 3 has failed, 4 is gone, 5 refuses everything, 6 is past changing, 7 was paused by
/// the farm.
fn answer(request: &Request) -> Response {
    let error = |code, message: &str| Response::Error(Error { code, message: message.into() });
    match request {
        Request::Job { id: JobId(4), .. } | Request::Results { id: JobId(4), .. } => {
            error(ErrorCode::NotFound, "no job 4")
        }
        Request::Job { id: JobId(5), .. } => error(ErrorCode::Refused, "an observer may not do that"),
        Request::Job { id: JobId(6), .. } => error(ErrorCode::Conflict, "job 6 has ended"),
        Request::Jobs { ids } if ids.is_empty() => Response::Jobs((1..=3).map(job).collect()),
        Request::Jobs { ids } => Response::Jobs(ids.iter().map(|id| job(id.0)).collect()),
        Request::Wait { id, .. } => Response::Jobs(vec![job(id.0)]),
        Request::Submit(_) => Response::Submitted(JobId(2)),
        Request::Nodes => {
            let unheard = NodeInfo { state: NodeState::Lost, silent_seconds: None, ..node("lab-8") };
            Response::Nodes(vec![node("lab-7"), unheard])
        }
        Request::Monitor(_) => Response::Done,
        Request::Alarms => Response::Alarms(monitor::alarms()),
        Request::AlarmsAfter { after } => Response::AlarmPage(monitor::alarms_after(*after)),
        Request::Trace { after, about, .. } => Response::TracePage(monitor::trace(*after, about.as_ref())),
        Request::Graph { .. } => Response::Graph(monitor::graph()),
        Request::Tree | Request::FormTree { .. } => Response::Tree(monitor::tree()),
        Request::Results { id: JobId(2), skip: 0, .. } => Response::Results(results_with_a_loss()),
        Request::Results { skip, .. } => Response::Results(results(*skip)),
        // Outputs of job 2 are lost.
        Request::LostOutputs { id, all, .. } => {
            let of = |lo, hi, what| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded: false };
            let mut lost = vec![of(3, 4, OutputLoss::Damaged), of(20, 25, OutputLoss::Missing)];
            if *all {
                lost.push(LostOutputs { superseded: true, ..lost[1] });
            }
            Response::LostOutputs { lost: if id.0 == 2 { lost } else { Vec::new() }, more: false }
        }
        Request::Rerun { .. } => Response::Rerun(Units(6)),
        Request::Explain(Subject::Node(name)) if name.starts_with("lab-9") => {
            error(ErrorCode::NotFound, &format!("no node {name}"))
        }
        Request::Explain(_) => Response::Explanation(explanation()),
        Request::Status => Response::Status(status()),
        Request::Events { .. } => Response::Events { events: vec![event(7), event(8)], missed: 0 },
        Request::Keys => Response::Keys(keys()),
        Request::RevokeKey { .. } => Response::Keys(keys()[..1].to_vec()),
        Request::AddKey { .. } => Response::JoinFile(join_file()),
        Request::Fetch { hash: ContentHash([9, ..]), .. } => Response::Lost(OutputLoss::Damaged),
        Request::Fetch { offset, .. } => {
            Response::of(long_output()[*offset as usize..].chunks(100).next().unwrap_or(&[]).into())
        }
        _ => Response::Done,
    }
}

fn job(id: u64) -> JobInfo {
    let (state, failed) = match id {
        2 => (JobState::Finished, 0),
        3 => (JobState::Failed, 1),
        7 => (JobState::Paused, 2),
        _ => (JobState::Running, 0),
    };
    JobInfo {
        id: JobId(id),
        name: "keys".into(),
        user: "ada".into(),
        state,
        spec: ContentHash([7; 32]),
        units_total: Units(u128::MAX),
        grows: false,
        units_done: Units(12),
        units_failed: Units(failed),
        units_out: Units(3),
        units_pending: Units(4),
        units_abandoned: Units(0),
        hits: 2,
        units_per_s: 5.4e8,
        eta_seconds: (state == JobState::Running).then_some(3.5),
        age_seconds: 4.25,
        run_seconds: Some(2.0),
        totals: JobTotals {
            decomposed: 40,
            dispatched: 39,
            submitted_us: 1_000_000,
            started_us: Some(3_250_000),
            ..JobTotals::default()
        },
        task_units_mean: 3.2e7,
        refused_by: vec![Refusal { node: "lab-8".into(), why: "no such program".into() }],
        note: if state == JobState::Paused { "2 units failed".into() } else { String::new() },
        outputs_cut: 2,
        stored_bytes: 3 << 30,
        failures: vec![failed_unit()],
        conflicts: [Some("lab-8".to_owned()), None]
            .map(|node| ConflictInfo { lo: Units(5), hi: Units(9), node })
            .into(),
        terms: terms(),
        waits_for: vec![JobId(1)],
        needs: (id == 7).then_some(NeedsInfo { slots: 4, memory_bytes: 2 << 30, gpus: 0.5 }),
        merge: None,
        usage: (id == 7).then_some(usage()),
        usage_total: (id == 7).then_some(usage_total()),
        trust: Some(TrustInfo {
            check: Share::of_millionths(10_000).unwrap(),
            units_checked: Units(7),
            planted: 20,
            planted_found: 3,
            untrue: [(Some("lab-8"), Some("lab-7"), false), (Some("lab-8"), None, false), (None, None, true)]
                .map(|(node, believed, believed_forgotten)| UntrueInfo {
                    unit: Units(6),
                    node: node.map(str::to_owned),
                    why: Distrust::MissedHit,
                    believed: believed.map(str::to_owned),
                    believed_forgotten,
                })
                .into(),
            doubtful: [Some("lab-8".to_owned()), None]
                .map(|node| DoubtfulInfo { node, units: Units(6) })
                .into(),
        }),
    }
}

fn terms() -> Terms {
    Terms {
        after: vec![JobId(1)],
        labels: [("project".to_owned(), "x".to_owned())].into(),
        max_nodes: Some(3),
        storage_limit: Some(5 << 30),
        ..Terms::default()
    }
}

fn node(name: &str) -> NodeInfo {
    NodeInfo {
        id: NodeId(7),
        name: name.into(),
        state: NodeState::Up,
        why: "it fails what others pass".into(),
        drained: false,
        idle: None,
        slots: 2,
        power: 2.5,
        tasks: 3,
        tasks_queued: 1,
        tasks_done: 40,
        units_done: Units(1_200_000_000),
        speed_ups: 7,
        slow_downs: 1,
        offers_repeated: 0,
        silent_seconds: Some(0.42),
        joined_seconds: 7_300.0,
        load: vec![1_000, 250],
        idle_us: 0,
        datagram_bytes: Some(1_400),
        system: Some("lab-7, Debian GNU/Linux 12, Linux 6.1.0".into()),
        cpu: Some("Some CPU @ 2.00GHz".into()),
        cores: Some(16),
        memory_bytes: Some(1 << 34),
        accelerators: Some("2 x Some GPU".into()),
        ..NodeInfo::default()
    }
}

fn event(number: u64) -> EventLine {
    EventLine {
        number,
        at_us: 1_700_000_000_000_000,
        kind: "node_back".into(),
        text: "node lab-7 is back".into(),
        node: Some("lab-7".into()),
        job: None,
    }
}

fn status() -> StatusInfo {
    StatusInfo {
        farm: "0123456789abcdef0123456789abcdef".into(),
        epoch: 3,
        up_seconds: 7_620.0,
        gq: 12,
        dq: 34,
        jq: 1,
        jobs_waiting: 0,
        resent: 5,
        offers_repeated: 6,
        dq_oldest_seconds: 8.5,
        granularity_seconds: None,
        tasks_decomposed: 1_234_567,
        task_units_mean: 4.2e9,
        speed_ups: 7,
        slow_downs: 8,
        power_mean: 2.5,
        results_counted: 9,
        results_duplicate: 1,
        datagrams_dropped: 0,
        network: Default::default(),
        log_events_dropped: 0,
        stored_bytes: 3 << 30,
        storage_limit: Some(4 << 40),
        tree: Some(monitor::tree().tree),
        alarms: monitor::alarms().alarms,
        stderr_lines_dropped: 0,
        datagrams_refused: 2,
        messages_malformed: 3,
        settings: [("speed_step".to_owned(), 1.0)].into(),
        notes: vec!["a note".into()],
        nodes: vec![node("lab-7")],
    }
}

fn explanation() -> Explanation {
    let size = SizeInfo {
        device: None,
        job: JobId(1),
        node: "lab-7".into(),
        units: Units(524_288),
        rule: Rule::Target,
        units_per_s: 65_536.0,
        measured: true,
        start_seconds: Some(2.0),
        target_seconds: Some(8.0),
        target_units: Some(Units(524_288)),
        growth_units_max: Some(Units(1_048_576)),
        tail_units_max: Some(Units(24_279_104)),
        units_max: Units(1_572_864),
    };
    let fixed = SizeInfo {
        start_seconds: None,
        target_seconds: None,
        target_units: None,
        growth_units_max: None,
        tail_units_max: None,
        ..size.clone()
    };
    Explanation {
        subject: Subject::Job(JobId(1)),
        reasons: vec![
            Reason::Job(JobReason::NoNode { states: [("lost".into(), 2)].into(), probed: false }),
            Reason::NoDisk,
        ],
        verdict: 0,
        sizes: vec![size, fixed],
        facts: vec![Fact { name: "state".into(), value: FactValue::Word("queued".into()) }],
    }
}

fn keys() -> Vec<KeyInfo> {
    let key = |kind, id: String, name: &str| KeyInfo {
        kind,
        id,
        name: name.into(),
        role: Role::Worker,
        revoked: false,
    };
    vec![key(KeyKind::Join, "00".repeat(8), ""), key(KeyKind::Enrolled, "11".repeat(32), "lab-7")]
}

fn join_file() -> String {
    let addresses = vec!["127.0.0.1:1".into()];
    let file = JoinFile::new(FarmId([1; 16]), addresses, PublicKey([2; 32]), Secret([3; 32]), Role::Observer);
    file.to_text().to_string()
}

/// What the long output of the made-up results holds.
pub(crate) fn long_output() -> Vec<u8> {
    "long output\n".repeat(100).into_bytes()
}

fn usage() -> JobUsage {
    let cores = Spread { min: 0.5, avg: 0.75, max: 1.0, sum: 1.5 };
    JobUsage { cpu_cores: Some(cores), units: 2, from: 1, of: 2, age_seconds: 0.5, ..JobUsage::default() }
}

fn usage_total() -> JobTotalUsage {
    let bytes = Spread { min: 1e6, avg: 2e6, max: 3e6, sum: 4e6 };
    JobTotalUsage {
        seconds: 8.0,
        cpu_seconds: Some(12.0),
        cpu_cores: usage().cpu_cores,
        memory_bytes: Some(bytes),
        memory_bytes_max: Some(5e6),
        units: 2,
        from: 1,
        of: 2,
        ..JobTotalUsage::default()
    }
}

fn failed_unit() -> FailedInfo {
    FailedInfo {
        unit: Units(8),
        reason: FailReason::Timeout,
        exit_code: None,
        signal: None,
        node: Some("lab-7".into()),
    }
}

/// As [`results`] has them, but the standard error of the unit cannot be had.
fn results_with_a_loss() -> ResultsPage {
    let mut page = results(0);
    let stderr = &mut page.outputs[0].stderr;
    (stderr.text, stderr.hash) = (String::new(), Some(ContentHash([9; 32])));
    page
}

/// Two pages.
fn results(skip: u64) -> ResultsPage {
    let hit = |unit, value: &str, value_hex: Option<&str>| HitInfo {
        unit: Units(unit),
        value: value.into(),
        value_hex: value_hex.map(str::to_owned),
        target: "00ff".into(),
    };
    if skip > 0 {
        return ResultsPage { hits: vec![hit(9, "\u{fffd}", Some("ff"))], ..ResultsPage::default() };
    }
    let text = |text: &str| StreamInfo {
        text: text.into(),
        hex: None,
        hash: None,
        lost: None,
        kept: text.len() as u64,
        total: text.len() as u64,
        cut_at: None,
    };
    let long = long_output();
    let stdout = StreamInfo {
        hash: Some(ContentHash::of(&long)),
        kept: long.len() as u64,
        total: 2 * long.len() as u64,
        cut_at: Some(long.len() as u64 / 2),
        ..text("")
    };
    ResultsPage {
        hits: vec![hit(7, "word", None)],
        failed: vec![failed_unit()],
        outputs: vec![OutputInfo {
            unit: Units(3),
            units: Units::one(),
            attempt: 17,
            run: 2,
            node: None,
            failed: Some(FailReason::Signal),
            superseded: false,
            exit_code: None,
            signal: Some(11),
            seconds: 0.5,
            stdout,
            stderr: text("warning\n"),
            files: Vec::new(),
        }],
        more: true,
        ..ResultsPage::default()
    }
}
