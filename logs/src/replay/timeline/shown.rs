//! What a picture shows of a node at a moment: one word, one code.

use starfarm_events::{IdleReason, NodeState};

/// What is shown of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shown {
    /// Its state; of a node that is up, also that it has tasks.
    State(NodeState),
    /// It is up and has no task.
    Idle(IdleReason),
    /// It is not in the farm.
    #[default]
    Gone,
    /// Nobody looked: the scheduler was away, or the log is cut.
    Unknown,
}

impl Shown {
    /// Of a node in the farm.
    pub fn of(state: NodeState, idle: Option<IdleReason>) -> Self {
        match (state, idle) {
            (NodeState::Up, Some(reason)) => Self::Idle(reason),
            (state, _) => Self::State(state),
        }
    }

    /// All of them, in the order of their codes.
    pub fn all() -> impl Iterator<Item = Self> {
        let states = NodeState::ALL.iter().copied().map(Self::State);
        states.chain(IdleReason::ALL.iter().copied().map(Self::Idle)).chain([Self::Gone, Self::Unknown])
    }

    /// Its code in a report.
    pub fn code(self) -> u8 {
        let states = NodeState::ALL.len() as u8;
        let reasons = IdleReason::ALL.len() as u8;
        match self {
            Self::State(state) => state as u8,
            Self::Idle(reason) => states + reason as u8,
            Self::Gone => states + reasons,
            Self::Unknown => states + reasons + 1,
        }
    }

    /// Its word in a report.
    pub fn word(self) -> String {
        match self {
            Self::State(state) => state.word().to_owned(),
            Self::Idle(reason) => format!("idle:{}", reason.word()),
            Self::Gone => "gone".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }

    /// Which of several is shown where there is room for one: the largest.
    pub fn severity(self) -> u8 {
        match self {
            Self::Gone => 0,
            Self::Unknown => 1,
            Self::State(NodeState::Up) => 2,
            Self::Idle(_) => 3,
            Self::State(NodeState::Draining) => 4,
            Self::State(NodeState::Quarantined) => 5,
            Self::State(NodeState::Suspect) => 6,
            Self::State(NodeState::Lost) => 7,
        }
    }

    /// The worse of two; the first where none is.
    pub(crate) fn worse(self, other: Self) -> Self {
        if other.severity() > self.severity() { other } else { self }
    }

    /// Its slots compute, or could: what a suspect node has, it goes on with.
    pub fn computes(self) -> bool {
        use NodeState::{Draining, Suspect};
        self.is_well() || matches!(self, Self::State(Suspect | Draining))
    }

    /// It is no trouble: the node computes, or would if there were something.
    pub fn is_well(self) -> bool {
        matches!(self, Self::State(NodeState::Up) | Self::Idle(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions() {
        for (at, shown) in Shown::all().enumerate() {
            assert_eq!(usize::from(shown.code()), at);
            assert_eq!(Shown::all().nth(usize::from(shown.code())), Some(shown));
        }
        let words: Vec<String> = Shown::all().map(Shown::word).collect();
        assert_eq!(words[..6], ["up", "suspect", "lost", "draining", "quarantined", "idle:no_job"]);
        assert_eq!(words[words.len() - 2..], ["gone", "unknown"]);
    }

    #[test]
    fn idleness_is_shown_of_nodes_that_are_up() {
        assert_eq!(Shown::of(NodeState::Up, Some(IdleReason::Paused)), Shown::Idle(IdleReason::Paused));
        assert_eq!(
            Shown::of(NodeState::Draining, Some(IdleReason::State)),
            Shown::State(NodeState::Draining)
        );
    }
}
