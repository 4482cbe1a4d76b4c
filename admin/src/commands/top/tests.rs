//! Stories told by keys and answers, and what the screen shows of a made-up farm.

mod commands;
mod screens;
mod stories;

use starfarm_protocol::job::JobState;
use starfarm_protocol::state::NodeState;
use starfarm_protocol::units::Units;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use starfarm_protocol::admin::{
    EventLine, Explanation, JobInfo, NodeInfo, PlaceCps, PostInfo, Reason, StatusInfo, Subject, TreeInfo,
    TreeState, TreeSummary, UsageLine,
};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::orders::{PostId, PostKind, PostState};

use super::app::{App, Ask, Input, Picture, Shows, Whole};
use super::draw::draw;
use crate::commands::explain::Said;
use crate::commands::job::testing::job;
use crate::commands::nodes::testing::node;

const SECOND: Duration = Duration::from_secs(1);

/// A screen with the made-up farm on it.
struct Seat {
    app: App,
    now: Duration,
}

impl Seat {
    fn new(read_only: bool, width: u16, height: u16) -> Self {
        let mut seat = Self { app: App::new(SECOND, read_only, false, (width, height)), now: Duration::ZERO };
        assert_eq!(seat.asks().len(), 1, "the first look is due at once");
        seat.sees(picture());
        seat
    }

    /// What is asked at this moment.
    fn asks(&mut self) -> Vec<Ask> {
        self.app.tick(self.now)
    }

    fn passes(&mut self, time: Duration) -> Vec<Ask> {
        self.now += time;
        self.asks()
    }

    fn hears(&mut self, input: Input) {
        self.app.on(input, self.now);
    }

    fn sees(&mut self, picture: Picture) {
        self.hears(Input::Picture(Box::new(picture)));
    }

    /// Presses keys: letters, and in angle brackets those that have a name.
    fn press(&mut self, keys: &str) -> &mut Self {
        let mut rest = keys;
        while let Some(first) = rest.chars().next() {
            let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            let code = match named {
                Some((name, behind)) => {
                    rest = behind;
                    self::named(name)
                }
                None => {
                    rest = &rest[first.len_utf8()..];
                    KeyCode::Char(first)
                }
            };
            self.hears(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        }
        self
    }

    /// The screen as text.
    fn screen(&self) -> String {
        let (width, height) = self.app.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(&self.app, frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            text.trim_end().to_owned() + "\n"
        };
        cells.chunks(usize::from(width.max(1))).map(line).collect()
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        let screen = self.screen();
        assert!(screen.contains(words), "`{words}` is missing:\n{screen}");
    }

    #[track_caller]
    fn shows_not(&self, words: &str) {
        let screen = self.screen();
        assert!(!screen.contains(words), "`{words}` is there:\n{screen}");
    }
}

fn named(name: &str) -> KeyCode {
    match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "back" => KeyCode::Backspace,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "pgup" => KeyCode::PageUp,
        "pgdn" => KeyCode::PageDown,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        other => panic!("no key {other}"),
    }
}

fn picture() -> Picture {
    Picture { status: status(3), jobs: jobs(), events: events(1..=6), missed: 0, whole: None, tree: None }
}

fn status(epoch: u64) -> StatusInfo {
    StatusInfo {
        tree: None,
        alarms: Vec::new(),
        farm: "0123456789abcdef0123456789abcdef".into(),
        epoch,
        up_seconds: 7_620.4,
        gq: 12,
        dq: 34,
        jq: 3,
        jobs_waiting: 0,
        resent: 5,
        offers_repeated: 6,
        dq_oldest_seconds: 8.5,
        granularity_seconds: Some(8.0),
        tasks_decomposed: 1_234_567,
        task_units_mean: 4.2e9,
        speed_ups: 7,
        slow_downs: 8,
        power_mean: 2.5,
        results_counted: 9,
        results_duplicate: 1,
        datagrams_dropped: 4,
        network: Default::default(),
        log_events_dropped: 0,
        stored_bytes: 0,
        storage_limit: None,
        stderr_lines_dropped: 0,
        datagrams_refused: 2,
        messages_malformed: 3,
        settings: [("speed_step".to_owned(), 1.0)].into(),
        notes: vec!["4 records were read".into()],
        nodes: nodes(),
    }
}

fn jobs() -> Vec<JobInfo> {
    let units = |id, name: &str, state, units: [u128; 5]| JobInfo {
        name: name.into(),
        state,
        units_total: Units(units.iter().sum()),
        units_done: Units(units[0]),
        units_failed: Units(units[1]),
        units_out: Units(units[2]),
        units_pending: Units(units[3]),
        units_abandoned: Units(units[4]),
        ..job(id)
    };
    let rest = |job: JobInfo| JobInfo { units_per_s: 0.0, eta_seconds: None, ..job };
    vec![
        rest(units(1, "old", JobState::Finished, [500, 0, 0, 0, 0])),
        rest(units(2, "broken", JobState::Failed, [300, 200, 0, 0, 0])),
        rest(units(3, "given-up", JobState::Cancelled, [100, 0, 0, 0, 400])),
        units(4, "keys", JobState::Running, [1_200_000_000, 3, 89_157_757, 1_800_000_000, 0]),
        rest(units(5, "tea\u{7}time", JobState::Paused, [10, 0, 0, 990, 0])),
        rest(units(6, "next", JobState::Queued, [0, 0, 0, 1_000, 0])),
    ]
}

fn nodes() -> Vec<NodeInfo> {
    let mut nodes: Vec<NodeInfo> = (1..=12).rev().map(|number| node(&format!("lab-{number}"))).collect();
    for (at, node) in nodes.iter_mut().enumerate() {
        node.load = vec![1_000 - 90 * at as u64, 1_000];
        node.tasks = at as u64;
    }
    let state = |node: &mut NodeInfo, state, silent_seconds| {
        node.state = state;
        node.silent_seconds = Some(silent_seconds);
    };
    state(&mut nodes[2], NodeState::Lost, 4_000.0);
    state(&mut nodes[5], NodeState::Suspect, 7.3);
    state(&mut nodes[8], NodeState::Draining, 0.1);
    state(&mut nodes[9], NodeState::Quarantined, 0.1);
    nodes[9].why = "it fails what others pass".into();
    nodes[2].load = Vec::new();
    nodes
}

fn events(numbers: std::ops::RangeInclusive<u64>) -> Vec<EventLine> {
    let line = |number| EventLine {
        number,
        at_us: 1_700_000_000_000_000 + number * 1_000_000,
        kind: "node_joined".into(),
        text: format!("node lab-{number} joined: 2 slots"),
        node: Some(format!("lab-{number}")),
        job: None,
    };
    numbers.map(line).collect()
}

/// What a job or node is asked about gets for an answer.
fn whole(subject: Subject) -> Whole {
    let job = match &subject {
        Subject::Job(id) => jobs().into_iter().find(|job| job.id == *id),
        Subject::Node(_) => None,
    };
    let why = Explanation {
        subject: subject.clone(),
        reasons: vec![Reason::NoDisk],
        verdict: 0,
        sizes: Vec::new(),
        facts: Vec::new(),
    };
    let mut why = Said { verdict: "It is as it should be.".into(), ..Said::from(why) };
    why.reasons[0].text = "It is made up.".into();
    Whole { subject, job, why: Some(why), line: Some(line()) }
}

/// Half a minute of rising load, a gap, and load that falls.
fn line() -> UsageLine {
    let known = |second: u32| (!(30..40).contains(&second)).then_some(second);
    let cores = |second: u32| known(second).map(|second| f64::from(second.abs_diff(60)) / 20.0);
    UsageLine {
        step_seconds: 1.0,
        cpu_cores: (0..120).map(cores).collect(),
        memory_bytes: (0..120).map(|second| known(second).map(|_| 3e9)).collect(),
    }
}

fn tree() -> TreeInfo {
    let post = |post, kind, parent: Option<u64>, depth| PostInfo {
        post: PostId(post),
        kind,
        node: parent.map(|_| format!("lab-{post}")),
        host: "lab".into(),
        parent: parent.map(PostId),
        job: None,
        depth,
        state: PostState::Joined,
        children: Some(2),
        pid: Some(7),
        sent: Some(12),
        received: Some(34),
        dropped: Some(0),
        late: Some(0),
        gaps: Some(0),
    };
    let back_ends = (2..40).map(|number| post(number, PostKind::Be, Some(1), 2));
    let above = [post(0, PostKind::Fe, None, 0), post(1, PostKind::Ibe, Some(0), 1)];
    let posts: Vec<_> = above.into_iter().chain(back_ends).collect();
    let (state, strategy) = (TreeState::Live, PlaceCps::Average);
    let tree = TreeSummary { state, strategy, fanout: 64, depth: 2, posts: 40, lost: 0, dropped: 0 };
    TreeInfo { tree, posts, own_trees: Vec::new() }
}

fn job_4() -> Subject {
    Subject::Job(JobId(4))
}
