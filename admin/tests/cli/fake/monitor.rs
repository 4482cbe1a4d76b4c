//! What the made-up scheduler knows of its monitor: alarms, what programs told, an agent's graph, the tree.

use starfarm_protocol::admin::{
    AlarmChange, AlarmInfo, AlarmLine, AlarmPage, AlarmPath, AlarmsInfo, EdgeInfo, GraphInfo, GraphLosses,
    GraphTimer, OwnTree, PlaceCps, PostInfo, StageInfo, Subject, TraceLine, TracePage, TreeInfo, TreeState,
    TreeSummary,
};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::AlarmLevel;
use starfarm_protocol::orders::{PostId, PostKind, PostState};
use starfarm_protocol::units::Units;

pub(super) fn alarms() -> AlarmsInfo {
    let alarm = AlarmInfo {
        id: "7-disk-1700000000000000".into(),
        node: "lab-7".into(),
        sensor: "disk".into(),
        level: AlarmLevel::Critical,
        value: Some(0.004),
        text: "12 MiB are free on the disk of /var/lib/starfarm".into(),
        since_seconds: 12.5,
        paths: 2,
        reacted: true,
    };
    AlarmsInfo { path: AlarmPath::Double, reacts: Some("lab-8".into()), alarms: vec![alarm] }
}

pub(super) fn alarms_after(after: u64) -> AlarmPage {
    let line = |number, change| {
        let AlarmInfo { id, node, sensor, level, value, text, .. } = alarms().alarms.swap_remove(0);
        AlarmLine { number, at_us: 1_700_000_000_000_000, change, id, node, sensor, level, value, text }
    };
    let lines = [line(1, AlarmChange::Begun), line(2, AlarmChange::Over)];
    AlarmPage { lines: lines.into_iter().filter(|line| line.number > after).collect(), missed: 0 }
}

/// Three lines, page by page; after them some are missing.
pub(super) fn trace(after: u64, about: Option<&Subject>) -> TracePage {
    let line = |number, unit, lost| TraceLine {
        number,
        at_us: 1_700_000_000_000_000 + number,
        node: Some("lab-7".into()),
        job: Some(JobId(number)),
        unit,
        text: "step \u{1b}[2J done".into(),
        lost,
    };
    let lines = [line(1, Some(Units(12)), 0), line(2, None, 3), line(9, Some(Units(u128::MAX)), 0)];
    let next = lines.into_iter().find(|line| line.number > after);
    let last = next.as_ref().map_or(after, |line| line.number);
    let missed = if last == 9 && after < 9 { 6 } else { 0 };
    let is_asked =
        |line: &TraceLine| about.is_none_or(|of| *of == Subject::Job(line.job.expect("it has one")));
    TracePage { lines: next.into_iter().filter(is_asked).collect(), missed, last, more: last < 9 }
}

pub(super) fn graph() -> GraphInfo {
    let stage = |number, name: Option<&str>, type_name: &str| StageInfo {
        number,
        name: name.map(str::to_owned),
        type_name: type_name.to_owned(),
        settings: [("every".to_owned(), "10".to_owned())].into(),
    };
    GraphInfo {
        stages: vec![stage(1, Some("cpuload"), "cpuload"), stage(2, None, "rate")],
        edges: vec![EdgeInfo { from: 1, output: "out".into(), to: 2, input: "in".into() }],
        timers: vec![
            GraphTimer { name: "period".into(), period_seconds: Some(1.0), subscribers: vec![1] },
            GraphTimer { name: "once".into(), period_seconds: None, subscribers: Vec::new() },
        ],
        losses: GraphLosses { refused: 7, ..GraphLosses::default() },
    }
}

pub(super) fn tree() -> TreeInfo {
    let (state, strategy) = (TreeState::Live, PlaceCps::Average);
    let tree = TreeSummary { state, strategy, fanout: 32, depth: 1, posts: 2, lost: 0, dropped: 0 };
    let front = PostInfo {
        post: PostId::FRONT,
        kind: PostKind::Fe,
        node: None,
        host: "lab-1".into(),
        parent: None,
        job: None,
        depth: 0,
        state: PostState::Joined,
        children: Some(1),
        pid: Some(10),
        sent: Some(0),
        received: Some(9),
        dropped: Some(0),
        late: Some(0),
        gaps: Some(0),
    };
    let back_end = PostInfo {
        post: PostId(7),
        kind: PostKind::Be,
        node: Some("lab-7".into()),
        parent: Some(PostId::FRONT),
        depth: 1,
        state: PostState::Starting,
        children: None,
        pid: None,
        sent: None,
        received: None,
        dropped: None,
        late: None,
        gaps: None,
        ..front.clone()
    };
    let own = PostInfo { post: PostId(8), job: Some(JobId(3)), ..back_end.clone() };
    let own_trees = vec![OwnTree { job: JobId(3), state: TreeState::Building, depth: 1, posts: 1 }];
    TreeInfo { tree, posts: vec![front, back_end, own], own_trees }
}
