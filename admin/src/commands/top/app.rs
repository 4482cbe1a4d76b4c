//! What the screen holds: the last picture of the farm, what is selected, what is open. Keys, answers and the time
//! come in, asks go out. Nothing here waits, and nothing here draws.

use starfarm_protocol::job::JobState;
use starfarm_protocol::state::NodeState;
use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::KeyEvent;
use starfarm_protocol::admin::{
    AlarmInfo, EventLine, JobCommand, JobInfo, NodeCommand, NodeInfo, Request, StatusInfo, Subject, TreeInfo,
    UsageLine,
};
use starfarm_protocol::ids::JobId;
use unicode_width::UnicodeWidthStr;

use super::list::List;
use crate::commands::explain::Said;
use crate::failure::{Exit, Failure};
use crate::human;

/// Event lines that are kept to scroll back to.
const LINES_MAX: usize = 1_000;
/// Without an answer for this long, or for so many intervals, the scheduler is called silent.
const SILENCE: Duration = Duration::from_secs(3);
const SILENCE_INTERVALS: u32 = 3;
/// The first picture so long after a message puts the keys in its place.
const MESSAGE: Duration = Duration::from_secs(5);
/// A command that cannot be sent for this long is dropped: a person who said yes expects it now, not later.
const UNSENT_MAX: Duration = Duration::from_secs(3);

/// What comes in.
#[derive(Debug)]
pub(super) enum Input {
    Key(KeyEvent),
    /// The terminal has so many columns and lines now.
    Resize(u16, u16),
    /// How the farm stands: the answer to a look.
    Picture(Box<Picture>),
    /// A look was not answered, and why.
    Lost(String),
    /// The oldest command that is under way is being sent now.
    Sent,
    /// What became of the oldest command that is under way.
    Did(Result<(), Failure>),
    /// The screen is to be drawn anew, whatever is on it.
    Clear,
    /// The shell is to have the terminal for a while.
    Stop,
    /// The shell has given the terminal back.
    Continued,
    /// The terminal is gone, or a thread that the screen needs.
    Gone,
}

/// What goes out.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Ask {
    /// How does the farm stand, what came after that event line, and what is known of what is shown alone?
    Look { after: u64, shows: Shows },
    /// A command of the user's, and the time since the start of the screen from which on it is not sent any more.
    Do(Request, Duration),
}

/// What is shown alone, of which more is to be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Shows {
    Nothing,
    /// A job or a node.
    Whole(Subject),
    /// The monitoring tree.
    Tree,
}

/// A command between the user's yes and the scheduler's answer.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// Not sent later than this, since the start of the screen.
    until: Duration,
    is_sent: bool,
    /// The user knows that it has not been answered in time.
    is_told: bool,
}

/// What is said of a command that was dropped.
pub(super) fn dropped() -> Failure {
    let seconds = UNSENT_MAX.as_secs();
    Failure::unreachable(format!("no answer for {seconds} s: the command was dropped, nothing was sent"))
}

/// How the farm stands.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) status: StatusInfo,
    pub(super) jobs: Vec<JobInfo>,
    pub(super) events: Vec<EventLine>,
    /// Event lines that are not among these.
    pub(super) missed: u64,
    pub(super) whole: Option<Whole>,
    /// The tree, or why there is none.
    pub(super) tree: Option<Result<TreeInfo, String>>,
}

/// All that is known of a job or node that is open.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) subject: Subject,
    pub(super) job: Option<JobInfo>,
    pub(super) why: Option<Said>,
    /// What it used in the last two minutes.
    pub(super) line: Option<UsageLine>,
}

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Focus {
    #[default]
    Jobs,
    Nodes,
    Events,
}

/// What fills the screen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum View {
    #[default]
    Tables,
    /// A job or a node, from this line of it on.
    Open(Subject, usize),
    /// The monitoring tree, from this post on.
    Tree(usize),
}

/// Who gets the next key.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Mode {
    #[default]
    Plain,
    Help,
    /// The filter of the focused table is being written.
    Filter,
    /// A command waits for a yes.
    Confirm(PendingConfirmation),
}

/// A command, and the question before it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PendingConfirmation {
    pub(super) request: Request,
    /// The question up to the name, which may be a long one.
    pub(super) before: String,
    pub(super) name: String,
    /// The question behind the name.
    pub(super) after: &'static str,
    /// Only `y` will do: it cannot be taken back.
    pub(super) is_final: bool,
}

impl PendingConfirmation {
    /// The question on a screen so wide: of a long name less is shown, of the rest nothing is left out.
    pub(super) fn question(&self, width: usize) -> String {
        let Self { before, name, after, .. } = self;
        let room = width.saturating_sub(before.width() + after.width());
        format!("{before}{}{after}", human::fitted(name, room))
    }
}

#[derive(Debug, Default)]
pub(super) struct App {
    /// Keys change nothing: it was asked for, or the scheduler refuses this role.
    pub(super) read_only: bool,
    pub(super) color: bool,
    /// Columns and lines.
    pub(super) size: (u16, u16),
    pub(super) focus: Focus,
    pub(super) view: View,
    pub(super) mode: Mode,
    pub(super) jobs: List<JobInfo>,
    pub(super) nodes: List<NodeInfo>,
    pub(super) lines: VecDeque<EventLine>,
    /// The filter of the event lines.
    pub(super) line_filter: String,
    /// The last event line that is shown; none: the newest.
    pub(super) line_at: Option<u64>,
    pub(super) status: Option<StatusInfo>,
    pub(super) whole: Option<Whole>,
    pub(super) tree: Option<Result<TreeInfo, String>>,
    /// What became of the last command, or why a key did nothing.
    pub(super) message: Option<String>,
    said: Duration,
    interval: Duration,
    pub(super) now: Duration,
    /// When the last picture came.
    seen: Duration,
    /// Why the last look had no answer.
    lost: Option<String>,
    /// When the next look is due; none while one is on its way.
    due: Option<Duration>,
    asked: Duration,
    asks: Vec<Ask>,
    /// Oldest first, as they are answered.
    under_way: VecDeque<UnderWay>,
    pub(super) has_quit: bool,
}

impl App {
    /// An empty screen; times are since its start.
    pub(super) fn new(interval: Duration, read_only: bool, color: bool, size: (u16, u16)) -> Self {
        Self { read_only, color, size, interval, due: Some(Duration::ZERO), ..Self::default() }
    }

    /// The time goes on; what is to be asked now.
    pub(super) fn tick(&mut self, now: Duration) -> Vec<Ask> {
        self.now = now;
        self.tell_what_is_late();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.asked = now;
            let after = self.lines.back().map_or(0, |line| line.number);
            let shows = match &self.view {
                View::Open(subject, _) => Shows::Whole(subject.clone()),
                View::Tree(_) => Shows::Tree,
                View::Tables => Shows::Nothing,
            };
            self.asks.push(Ask::Look { after, shows });
        }
        std::mem::take(&mut self.asks)
    }

    /// How long until the next look.
    pub(super) fn next_look(&self, now: Duration) -> Duration {
        self.due.map_or(Duration::MAX, |due| due.saturating_sub(now))
    }

    /// Something comes in that is no key.
    pub(super) fn take_in(&mut self, input: Input) {
        match input {
            Input::Resize(width, height) => self.size = (width, height),
            Input::Picture(picture) => self.on_picture(*picture),
            Input::Lost(why) => {
                self.lost = Some(why);
                self.due = Some(self.asked + self.interval);
            }
            Input::Sent => {
                if let Some(command) = self.under_way.front_mut() {
                    command.is_sent = true;
                }
            }
            Input::Did(done) => self.on_done(done),
            // The first is for `keys`, the others for the rim, which has the terminal.
            Input::Key(_) | Input::Clear | Input::Stop | Input::Continued | Input::Gone => {}
        }
    }

    fn on_done(&mut self, done: Result<(), Failure>) {
        let command = self.under_way.pop_front();
        match done {
            Ok(()) => self.say("done"),
            Err(failure) if failure.exit == Exit::Refused => self.on_refusal(&failure.message),
            // That it was dropped is not told twice.
            Err(_) if command.is_some_and(|command| command.is_told && !command.is_sent) => {}
            Err(failure) => self.say(&failure.message),
        }
        // What it changed is seen at once.
        self.look_soon();
    }

    /// Says what has become of commands that were not answered in time.
    fn tell_what_is_late(&mut self) {
        let now = self.now;
        let late = |command: &&mut UnderWay| command.until <= now && !command.is_told;
        let Some(command) = self.under_way.iter_mut().find(late) else { return };
        command.is_told = true;
        match command.is_sent {
            false => self.say(&dropped().message),
            true => self.say("the command was sent, but has no answer yet: it may still be carried out"),
        }
    }

    /// What the role may not do now, it may not do later: no key is offered that would be refused again.
    fn on_refusal(&mut self, why: &str) {
        self.read_only = true;
        if matches!(self.mode, Mode::Confirm(_)) {
            self.mode = Mode::Plain;
        }
        self.say(&format!("read-only now: {why}"));
    }

    /// Says something in the last line.
    pub(super) fn say(&mut self, words: &str) {
        self.message = Some(words.to_owned());
        self.said = self.now;
    }

    fn on_picture(&mut self, picture: Picture) {
        let Picture { mut status, jobs, events, missed, whole, tree } = picture;
        self.seen = self.now;
        self.lost = None;
        if self.now.saturating_sub(self.said) >= MESSAGE {
            self.message = None;
        }
        self.due = Some(self.asked + self.interval);
        let epoch = |status: &StatusInfo| (status.farm.clone(), status.epoch);
        // Another incarnation counts its lines anew: what was asked for made no sense to it.
        let is_another = self.status.as_ref().is_some_and(|before| epoch(before) != epoch(&status));
        if is_another {
            self.lines.clear();
            self.line_at = None;
            self.look_soon();
        } else {
            self.take_lines(events, missed);
        }
        self.nodes.take(std::mem::take(&mut status.nodes));
        self.jobs.take(jobs);
        self.status = Some(status);
        if let View::Open(subject, _) = &self.view
            && whole.as_ref().is_some_and(|whole| whole.subject == *subject)
        {
            self.whole = whole;
        }
        self.tree = tree.or(self.tree.take()).filter(|_| matches!(self.view, View::Tree(_)));
    }

    fn take_lines(&mut self, events: Vec<EventLine>, missed: u64) {
        // A hole in the story is told, but not what was before this screen.
        if missed > 0
            && let (Some(last), Some(first)) = (self.lines.back(), events.first())
        {
            let text = format!("({missed} lines are missing here)");
            let number = first.number.saturating_sub(1);
            let hole = EventLine { number, text, kind: String::new(), node: None, job: None, ..last.clone() };
            self.lines.push_back(hole);
        }
        self.lines.extend(events);
        let surplus = self.lines.len().saturating_sub(LINES_MAX);
        self.lines.drain(..surplus);
    }

    /// The next look is due at once, or as soon as the one on its way is answered.
    pub(super) fn look_soon(&mut self) {
        match self.due {
            Some(_) => self.due = Some(self.now),
            None => self.asked = self.now.saturating_sub(self.interval),
        }
    }

    pub(super) fn open(&mut self, subject: Subject) {
        self.view = View::Open(subject, 0);
        self.whole = None;
        self.look_soon();
    }

    /// Shows the tree, or goes back from it.
    pub(super) fn turn_to_tree(&mut self) {
        if matches!(self.view, View::Tree(_)) {
            return self.close();
        }
        (self.view, self.whole, self.tree) = (View::Tree(0), None, None);
        self.look_soon();
    }

    pub(super) fn close(&mut self) {
        (self.view, self.whole, self.tree) = (View::Tables, None, None);
    }

    pub(super) fn carry_out(&mut self, request: Request) {
        let until = self.now + UNSENT_MAX;
        self.under_way.push_back(UnderWay { until, is_sent: false, is_told: false });
        self.asks.push(Ask::Do(request, until));
    }

    /// How long the scheduler has been silent, where that is worth a word, and why as far as is known.
    pub(super) fn silence(&self) -> Option<(Duration, Option<&str>)> {
        let silent = self.now.saturating_sub(self.seen);
        let patience = SILENCE.max(self.interval * SILENCE_INTERVALS);
        (self.lost.is_some() || silent > patience).then_some((silent, self.lost.as_deref()))
    }

    /// The job that keys are about: the one that is open or selected.
    pub(super) fn job(&self) -> Option<&JobInfo> {
        match &self.view {
            View::Open(Subject::Job(id), _) => self.job_of(*id),
            View::Open(Subject::Node(_), _) | View::Tree(_) => None,
            View::Tables => (self.focus == Focus::Jobs).then(|| self.jobs.selected()).flatten(),
        }
    }

    /// The node that keys are about.
    pub(super) fn node(&self) -> Option<&NodeInfo> {
        match &self.view {
            View::Open(Subject::Node(name), _) => self.node_of(name),
            View::Open(Subject::Job(_), _) | View::Tree(_) => None,
            View::Tables => (self.focus == Focus::Nodes).then(|| self.nodes.selected()).flatten(),
        }
    }

    /// Alarms that stand, the worst first.
    pub(super) fn alarms(&self) -> &[AlarmInfo] {
        self.status.as_ref().map_or(&[], |status| &status.alarms)
    }

    /// A job by its number, as it was in the last picture.
    pub(super) fn job_of(&self, id: JobId) -> Option<&JobInfo> {
        self.jobs.all().find(|job| job.id == id)
    }

    pub(super) fn node_of(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.all().find(|node| node.name == name)
    }

    /// The event lines that the filter lets through, oldest first.
    pub(super) fn filtered_lines(&self) -> impl Iterator<Item = &EventLine> {
        let wanted = self.line_filter.to_lowercase();
        let is_wanted = move |text: &str| wanted.is_empty() || text.to_lowercase().contains(&wanted);
        self.lines.iter().filter(move |line| is_wanted(&line.text))
    }
}

/// `pause` or `resume` of a job; none for one that has ended.
pub(super) fn pause_or_resume(job: &JobInfo) -> Option<JobCommand> {
    match job.state {
        JobState::Paused => Some(JobCommand::Resume),
        JobState::Queued | JobState::Running | JobState::Waiting => Some(JobCommand::Pause),
        JobState::Finished | JobState::Failed | JobState::Cancelled => None,
    }
}

/// `drain` or `resume` of a node.
pub(super) fn drain_or_resume(node: &NodeInfo) -> NodeCommand {
    match node.state {
        // A lost one keeps it in mind that a person drains it.
        _ if node.drained => NodeCommand::Resume,
        NodeState::Draining | NodeState::Quarantined => NodeCommand::Resume,
        NodeState::Up | NodeState::Suspect | NodeState::Lost => NodeCommand::Drain,
    }
}
