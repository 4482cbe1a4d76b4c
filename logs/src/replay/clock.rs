//! One line of time for a whole log. The wall clock may be set back between two schedulers, so that a later epoch is
//! logged as earlier: for a picture its moments are moved forward, to where the epochs before it ended. What goes
//! back within an epoch is left as it is.

use std::collections::VecDeque;

use starfarm_events::{Event, Job, Snapshot};

use crate::{Item, LogError, Note, NoteKind, Opening, Place};

/// Earlier epochs that are remembered at most: the latest.
const SPANS_MAX: usize = 1_000;

/// Items of a log with all moments on one line of time; a note tells of each epoch that was moved.
pub(crate) fn straightened(
    items: impl Iterator<Item = Result<Item, LogError>>,
) -> impl Iterator<Item = Result<Item, LogError>> {
    let mut clock = Clock::default();
    items.flat_map(move |item| {
        let mut item = item;
        let note = item.as_mut().ok().and_then(|item| clock.straighten(item));
        // Behind the opening that it is about: whoever wants no later moment wants no note of it.
        [Some(item), note.map(|note| Ok(Item::Note(note)))].into_iter().flatten()
    })
}

/// An epoch, in moments of its own clock.
#[derive(Clone, Copy, Debug)]
struct Span {
    epoch: u64,
    from_us: u64,
    to_us: u64,
    /// How much later than logged it is shown.
    later_us: u64,
}

impl Span {
    /// How far a moment lies outside; 0 inside.
    fn distance_us(&self, at_us: u64) -> u64 {
        self.from_us.saturating_sub(at_us).max(at_us.saturating_sub(self.to_us))
    }
}

/// The line of time.
#[derive(Debug, Default)]
struct Clock {
    /// The epoch at hand is the last one.
    spans: VecDeque<Span>,
    /// The latest moment until now, as it is shown.
    latest_us: u64,
    /// Any of the epochs was moved.
    is_moved: bool,
}

impl Clock {
    /// Moves what an item says of time.
    fn straighten(&mut self, item: &mut Item) -> Option<Note> {
        let note = match item {
            Item::Opened(opening) => self.open(opening),
            _ => None,
        };
        match item {
            Item::Opened(opening) => {
                self.pass(&mut opening.at_us);
                opening.utc_us = self.later(opening.utc_us);
            }
            Item::Closed(closing) => {
                self.pass(&mut closing.at_us);
                closing.utc_us = self.later(closing.utc_us);
            }
            Item::Snapshot(at_us, snapshot) => {
                self.pass(at_us);
                self.snapshot(snapshot);
            }
            Item::Event(at_us, event) => {
                self.pass(at_us);
                self.event(event);
            }
            Item::Note(_) => {}
        }
        note
    }

    /// A new epoch begins no earlier than what was shown until now. It is moved as far as the one before, so that
    /// the time between them is right, or farther where it must; not at all as soon as its clock is late enough.
    fn open(&mut self, opening: &Opening) -> Option<Note> {
        let last = self.spans.back();
        if last.is_some_and(|last| last.epoch == opening.epoch) {
            return None;
        }
        let (epoch, from_us) = (opening.epoch, opening.at_us);
        let later_us = match self.latest_us.saturating_sub(from_us) {
            0 => 0,
            behind_us => behind_us.max(last.map_or(0, |last| last.later_us)),
        };
        if self.spans.len() == SPANS_MAX {
            self.spans.pop_front();
        }
        self.spans.push_back(Span { epoch, from_us, to_us: from_us, later_us });
        self.is_moved |= later_us > 0;
        (later_us > 0).then(|| Note {
            kind: NoteKind::SetBack,
            place: Place::default(),
            what: format!(
                "the wall clock had been set back when epoch {epoch} began: its times are shown {} later than \
                 they were logged",
                duration(later_us)
            ),
        })
    }

    /// An item's own moment.
    fn pass(&mut self, at_us: &mut u64) {
        if let Some(span) = self.spans.back_mut() {
            span.to_us = span.to_us.max(*at_us);
        }
        *at_us = self.later(*at_us);
        self.latest_us = self.latest_us.max(*at_us);
    }

    /// A moment that the epoch at hand measured.
    fn later(&self, at_us: u64) -> u64 {
        at_us.saturating_add(self.spans.back().map_or(0, |span| span.later_us))
    }

    /// A moment that may be of any epoch until now: it is of the one whose time lies nearest to it, and where several
    /// were running then, of the latest.
    fn of_any(&self, at_us: u64) -> u64 {
        let nearest = self.spans.iter().rev().min_by_key(|span| span.distance_us(at_us));
        at_us.saturating_add(nearest.map_or(0, |span| span.later_us))
    }

    /// A scheduler keeps moments of jobs over its restart; of nodes and of what they hold it knows its own alone.
    fn snapshot(&self, snapshot: &mut Snapshot) {
        if !self.is_moved {
            return;
        }
        for node in &mut snapshot.nodes {
            (node.joined_us, node.heard_us) = (self.later(node.joined_us), self.later(node.heard_us));
        }
        for held in &mut snapshot.held {
            held.since_us = self.later(held.since_us);
        }
        for Job { submitted_us, started_us, ended_us, .. } in &mut snapshot.jobs {
            let moments = [Some(submitted_us), started_us.as_mut(), ended_us.as_mut()];
            moments.into_iter().flatten().for_each(|at_us| *at_us = self.of_any(*at_us));
        }
    }

    /// What workers measured was brought to the clock of the epoch that tells it.
    fn event(&self, event: &mut Event) {
        if let Event::Tasks { given_us, begun_us, ended_us, .. } = event {
            *given_us = given_us.map(|given_us| self.later(given_us));
            (*begun_us, *ended_us) = (self.later(*begun_us), self.later(*ended_us));
        }
    }
}

/// A duration in words, with two units.
fn duration(us: u64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        0..60 => format!("{:.2} s", us as f64 / 1e6),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
