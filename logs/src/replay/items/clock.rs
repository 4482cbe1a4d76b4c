//! One line of time for a whole log. The wall clock may be set back between two schedulers, so that a later epoch is
//! logged as earlier: for a picture its moments are moved forward, to where the epochs before it ended. What goes
//! back within an epoch is left as it is.

use std::collections::HashMap;

use starfarm_events::{Event, JobChange, JobInfo, Name, Snapshot};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;

use crate::{Item, LogError, Note, NoteKind, Opening, Place, duration};

/// Jobs, and nodes, whose moments are remembered at most.
const KNOWN_MAX: usize = 200_000;

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

/// The line of time.
#[derive(Debug, Default)]
struct Clock {
    /// The epoch at hand; none before the log begins.
    epoch: Option<u64>,
    /// How much later than logged it is shown.
    later_us: u64,
    /// The same of the epoch before.
    before_us: u64,
    /// No snapshot has come in it yet.
    is_new: bool,
    /// The latest moment until now, as it is shown.
    latest_us: u64,
    jobs: HashMap<JobId, Moved>,
    /// How much later than logged a node's joining is shown.
    nodes: HashMap<Name, u64>,
}

/// How much later than logged moments of a job are shown.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    submitted: Option<u64>,
    started: Option<u64>,
    ended: Option<u64>,
}

impl Clock {
    /// Moves what an item says of time.
    fn straighten(&mut self, item: &mut Item) -> Option<Note> {
        match item {
            Item::Opened(opening) => {
                let note = self.open(opening);
                self.pass(&mut opening.at_us);
                opening.utc_us = self.later(opening.utc_us);
                return note;
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
        None
    }

    /// A new epoch begins no earlier than what was shown until now. It is moved as far as the one before, so that
    /// the time between them is right, or farther where it must; not at all as soon as its clock is late enough.
    fn open(&mut self, opening: &Opening) -> Option<Note> {
        if self.epoch == Some(opening.epoch) {
            return None;
        }
        let later_us = match self.latest_us.saturating_sub(opening.at_us) {
            0 => 0,
            behind_us => behind_us.max(self.later_us),
        };
        self.before_us = std::mem::replace(&mut self.later_us, later_us);
        (self.epoch, self.is_new) = (Some(opening.epoch), true);
        let epoch = opening.epoch;
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
        *at_us = self.later(*at_us);
        self.latest_us = self.latest_us.max(*at_us);
    }

    /// A moment that the epoch at hand measured.
    fn later(&self, at_us: u64) -> u64 {
        at_us.saturating_add(self.later_us)
    }

    /// What nodes hold, and when they were heard, a scheduler knows by its own clock alone. Moments of jobs, and when
    /// nodes joined, are kept over a restart: each moves with the epoch that told it first. What the first snapshot of
    /// an epoch tells first happened in the epoch before, where nobody logged it any more.
    fn snapshot(&mut self, snapshot: &mut Snapshot) {
        let first_us = if self.is_new { self.before_us } else { self.later_us };
        for node in &mut snapshot.nodes {
            node.heard_us = node.heard_us.map(|heard_us| self.later(heard_us));
            // Of a node that has no slots the scheduler does not know when it joined: it says when it began itself.
            let joined = if node.slots == 0 {
                self.later_us
            } else {
                self.joined(&Name::from(node.name.as_str()), first_us)
            };
            node.joined_us = node.joined_us.saturating_add(joined);
        }
        for held in &mut snapshot.held {
            held.since_us = self.later(held.since_us);
        }
        snapshot.jobs.iter_mut().for_each(|job| self.job(job, first_us));
        self.is_new = false;
    }

    /// How much later a node's joining is shown; `first_us` where nothing told of it yet.
    fn joined(&mut self, node: &Name, first_us: u64) -> u64 {
        if self.nodes.len() >= KNOWN_MAX {
            return self.nodes.get(node).copied().unwrap_or(first_us);
        }
        *self.nodes.entry(node.clone()).or_insert(first_us)
    }

    fn job(&mut self, job: &mut JobInfo, first_us: u64) {
        let mut moved = self.jobs.get(&job.id).copied().unwrap_or_default();
        let totals = &mut job.totals;
        moved.ended = moved.ended.filter(|_| totals.ended_us.is_some());
        let moments = [
            (&mut moved.submitted, Some(&mut totals.submitted_us)),
            (&mut moved.started, totals.started_us.as_mut()),
            (&mut moved.ended, totals.ended_us.as_mut()),
        ];
        for (later_us, at_us) in moments {
            if let Some(at_us) = at_us {
                *at_us = at_us.saturating_add(*later_us.get_or_insert(first_us));
            }
        }
        self.remember(job.id, |known| *known = moved);
    }

    fn remember(&mut self, job: JobId, told: impl FnOnce(&mut Moved)) {
        if self.jobs.len() < KNOWN_MAX || self.jobs.contains_key(&job) {
            told(self.jobs.entry(job).or_default());
        }
    }

    fn event(&mut self, event: &mut Event) {
        let later_us = self.later_us;
        match event {
            // What workers measured was brought to the clock of the epoch that tells it.
            Event::Tasks { given_us, begun_us, ended_us, .. } => {
                *given_us = given_us.map(|given_us| self.later(given_us));
                (*begun_us, *ended_us) = (self.later(*begun_us), self.later(*ended_us));
            }
            Event::NodeJoined { node, .. } => {
                self.nodes.remove(node);
                self.joined(node, later_us);
            }
            Event::JobSubmitted { job, .. } => {
                self.remember(*job, |moved| moved.submitted = Some(later_us));
            }
            Event::JobState { job, state, .. } => match state {
                JobChange::To(JobState::Running) => self.remember(*job, |moved| {
                    moved.started.get_or_insert(later_us);
                }),
                JobChange::To(state) if state.ended() => {
                    self.remember(*job, |moved| moved.ended = Some(later_us));
                }
                JobChange::To(_) => {}
                JobChange::Deleted => drop(self.jobs.remove(job)),
            },
            _ => {}
        }
    }
}
