//! What a key does, and that what is shown stays in sight whatever comes in.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use starfarm_protocol::admin::{JobCommand, NodeCommand, Request, Subject};

use super::app::{App, Focus, Input, Mode, PendingConfirmation, View, drain_or_resume, pause_or_resume};
use super::layout::Rows;
use crate::human;

/// The keys and what they do, as the help and the docs say it; whether they change the farm.
pub(super) const KEYS: [(&str, &str, bool); 12] = [
    ("Tab", "next table: jobs, nodes, events", false),
    ("↑↓ jk PgUp PgDn Home End", "move", false),
    ("Enter t", "open the job or node; the tree", false),
    ("Esc", "back; clear the filter", false),
    ("/", "filter the table, as you write", false),
    ("s S", "sort by the next column; reverse", false),
    ("p", "pause or resume the job", true),
    ("c", "cancel the job", true),
    ("d", "drain or resume the node", true),
    ("r Ctrl-L", "look now; draw all again", false),
    ("Ctrl-Z", "to the shell; fg comes back", false),
    ("q Ctrl-C", "quit", false),
];

impl App {
    pub(super) fn on(&mut self, input: Input, now: Duration) {
        self.now = now;
        match input {
            Input::Key(key) => self.on_key(key),
            input => {
                self.take_in(input);
                self.keep_in_sight();
            }
        }
    }

    fn on_key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            if key.code == KeyCode::Char('c') {
                self.has_quit = true;
            }
            return;
        }
        self.message = None;
        match std::mem::take(&mut self.mode) {
            Mode::Plain => self.on_plain_key(key.code),
            // Any key closes the help, and does nothing else.
            Mode::Help => {}
            Mode::Filter => self.on_filter_key(key.code),
            Mode::Confirm(pending) => self.on_answer(pending, key.code),
        }
    }

    fn on_plain_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('q') => self.has_quit = true,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('r') => self.look_soon(),
            KeyCode::Char('t') => self.turn_to_tree(),
            KeyCode::Char('p') => self.confirm_job(false),
            KeyCode::Char('c') => self.confirm_job(true),
            KeyCode::Char('d') => self.confirm_drain(),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-self.page()),
            KeyCode::PageDown => self.move_by(self.page()),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            code if self.view == View::Tables => self.on_table_key(code),
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.close(),
            _ => {}
        }
    }

    fn on_table_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Tab => self.focus = self.neighbour(1),
            KeyCode::BackTab => self.focus = self.neighbour(2),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('s') => match self.focus {
                Focus::Jobs => self.jobs.sort_by_next(self.size.0),
                Focus::Nodes => self.nodes.sort_by_next(self.size.0),
                Focus::Events => {}
            },
            KeyCode::Char('S') => match self.focus {
                Focus::Jobs => self.jobs.reverse(),
                Focus::Nodes => self.nodes.reverse(),
                Focus::Events => {}
            },
            KeyCode::Enter => {
                let job = self.job().map(|job| Subject::Job(job.id));
                let node = self.node().map(|node| Subject::Node(node.name.clone()));
                if let Some(subject) = job.or(node) {
                    self.open(subject);
                }
            }
            _ => {}
        }
    }

    fn neighbour(&self, steps: usize) -> Focus {
        const ALL: [Focus; 3] = [Focus::Jobs, Focus::Nodes, Focus::Events];
        ALL[(self.focus as usize + steps) % ALL.len()]
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        let mut filter = self.filter().to_owned();
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => return self.set_filter(String::new()),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(letter) => filter.push(letter),
            KeyCode::Up => self.move_by(-1),
            KeyCode::Down => self.move_by(1),
            _ => {}
        }
        self.set_filter(filter);
        self.mode = Mode::Filter;
    }

    /// The filter of the focused table.
    pub(super) fn filter(&self) -> &str {
        match self.focus {
            Focus::Jobs => self.jobs.filter(),
            Focus::Nodes => self.nodes.filter(),
            Focus::Events => &self.line_filter,
        }
    }

    fn set_filter(&mut self, filter: String) {
        match self.focus {
            Focus::Jobs => self.jobs.set_filter(filter),
            Focus::Nodes => self.nodes.set_filter(filter),
            Focus::Events => {
                self.line_filter = filter;
                self.line_at = None;
            }
        }
    }

    /// Lines of what is scrolled.
    fn page(&self) -> isize {
        let layout = Rows::of(self);
        let rows = match (&self.view, self.focus) {
            (View::Open(..), _) => layout.body(),
            (View::Tree(_), _) => layout.posts(),
            (View::Tables, Focus::Jobs) => layout.jobs,
            (View::Tables, Focus::Nodes) => layout.nodes,
            (View::Tables, Focus::Events) => layout.events,
        };
        isize::from(rows.max(2) as i16) - 1
    }

    fn move_by(&mut self, rows: isize) {
        match (&mut self.view, self.focus) {
            // The end of what is open is found when it is drawn.
            (View::Open(_, top) | View::Tree(top), _) => *top = top.saturating_add_signed(rows),
            (View::Tables, Focus::Jobs) => self.jobs.move_by(rows),
            (View::Tables, Focus::Nodes) => self.nodes.move_by(rows),
            (View::Tables, Focus::Events) => self.scroll_lines(rows),
        }
        self.keep_in_sight();
    }

    /// What is open is not scrolled past its end, which moves with what is known of it and with the screen.
    fn keep_in_sight(&mut self) {
        let last = super::detail::below(self, 0);
        if let View::Open(_, top) | View::Tree(top) = &mut self.view {
            *top = (*top).min(last);
        }
    }

    fn scroll_lines(&mut self, rows: isize) {
        let numbers: Vec<u64> = self.filtered_lines().map(|line| line.number).collect();
        let last = numbers.len().saturating_sub(1);
        let place = self.line_at.map_or(last, |at| numbers.partition_point(|&number| number < at).min(last));
        // As many lines as there is room for stay in sight.
        let first = last.min(usize::from(Rows::of(self).events.max(1)) - 1);
        let place = place.saturating_add_signed(rows).clamp(first, last);
        // At the newest line, new ones are followed.
        self.line_at = numbers.get(place).copied().filter(|_| place < last);
    }

    /// Pauses or resumes the job, or cancels it.
    fn confirm_job(&mut self, is_final: bool) {
        let Some(job) = self.job() else {
            let key = if is_final { "c cancels" } else { "p pauses" };
            return self.say(&format!("{key} a job: select one in the table of jobs"));
        };
        let (id, name) = (job.id, human::printable(&job.name));
        let (what, command, after) = match pause_or_resume(job) {
            None => return self.say(&format!("job {} has ended", id.0)),
            Some(_) if is_final => ("cancel", JobCommand::Cancel, ") for good? type y"),
            Some(JobCommand::Pause) => ("pause", JobCommand::Pause, ")? y/n"),
            Some(verb) => ("resume", verb, ")? y/n"),
        };
        let before = format!("{what} job {} (", id.0);
        self.confirm(PendingConfirmation {
            request: Request::Job { id, command },
            before,
            name,
            after,
            is_final,
        });
    }

    fn confirm_drain(&mut self) {
        let Some(node) = self.node() else {
            return self.say("d drains a node: select one in the table of nodes");
        };
        let (name, command) = (node.name.clone(), drain_or_resume(node));
        let what = if command == NodeCommand::Drain { "drain" } else { "resume" };
        let before = format!("{what} node ");
        let shown = human::printable(&name);
        let request = Request::Node { name, command };
        self.confirm(PendingConfirmation { request, before, name: shown, after: "? y/n", is_final: false });
    }

    fn confirm(&mut self, pending: PendingConfirmation) {
        match self.unheard() {
            _ if self.read_only => self.say("read-only: nothing is changed from here"),
            Some(why) => self.say(&why),
            None => self.mode = Mode::Confirm(pending),
        }
    }

    /// Why no command is sent now: a silent scheduler would carry it out whenever it wakes up, on a farm that may be
    /// another by then.
    fn unheard(&self) -> Option<String> {
        let (silent, _) = self.silence()?;
        Some(format!("no answer for {} s: nothing was sent", silent.as_secs()))
    }

    fn on_answer(&mut self, pending: PendingConfirmation, code: KeyCode) {
        let yes = match code {
            KeyCode::Char('y' | 'Y') => true,
            KeyCode::Enter => !pending.is_final,
            _ => false,
        };
        match self.unheard() {
            _ if !yes => self.say("left as it is"),
            Some(why) => self.say(&why),
            None => self.carry_out(pending.request),
        }
    }
}
