//! What an agent may have at most, and why something cannot be done.

use std::fmt;

/// Stages of an agent, at most.
pub(crate) const STAGES_MAX: usize = 10_000;
/// Hooks on a side of a stage, at most.
pub(crate) const HOOKS_MAX: usize = 1_000;
/// Settings of a stage that are remembered, for who asks for the graph.
pub(crate) const SETTINGS_MAX: usize = 64;
/// Edges of an output, at most.
pub(crate) const EDGES_MAX: usize = 10_000;
/// Bytes of a name, at most.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// Shortest period, in microseconds.
pub(crate) const PERIOD_US_MIN: u64 = 10_000;
/// Timers of an agent, at most.
pub(crate) const TIMERS_MAX: usize = 1_000;

/// Why something cannot be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no stage of that number or name.
    NoStage(String),
    /// There is no such type of stages.
    NoType(String),
    /// There is another type of that name.
    TypeKnown(String),
    /// A name that cannot be one.
    BadName(String),
    /// Another stage has that name.
    NameTaken(String),
    /// There is no such timer.
    NoTimer(String),
    /// A timer's period is less than 10 ms.
    PeriodTooShort,
    /// There are as many timers as there may be.
    TooManyTimers,
    /// There are as many stages as there may be.
    TooManyStages,
    /// A stage has as many hooks on that side, or an output as many edges, as it may have.
    TooManyEdges,
    /// There is that edge already.
    EdgeThere,
    /// There is no such edge.
    NoEdge,
    /// Values would come back to where they came from.
    Ring,
    /// It is not for guests: what, in words.
    NotForGuests(String),
    /// The stage has refused; why, in words.
    ByStage(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStage(which) => write!(f, "there is no stage `{which}`"),
            Self::NoType(which) => {
                write!(f, "there is no type of stages `{which}`: is its module in the list?")
            }
            Self::TypeKnown(which) => write!(f, "there is another type of stages `{which}`"),
            Self::BadName(name) => {
                write!(f, "`{name}` is no name: write 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`")
            }
            Self::NameTaken(name) => write!(f, "another stage is named `{name}`"),
            Self::NoTimer(name) => write!(f, "there is no timer `{name}`"),
            Self::PeriodTooShort => f.write_str("a period is 0.01 seconds at least"),
            Self::TooManyTimers => write!(f, "an agent has {} timers at most", TIMERS_MAX),
            Self::TooManyStages => write!(f, "an agent has {STAGES_MAX} stages at most"),
            Self::TooManyEdges => {
                write!(f, "a stage has {HOOKS_MAX} inputs and outputs, an output {EDGES_MAX} edges at most")
            }
            Self::EdgeThere => f.write_str("that edge is there already"),
            Self::NoEdge => f.write_str("there is no such edge"),
            Self::Ring => {
                f.write_str("the edge would close a ring: values must not come back to where they came from")
            }
            Self::NotForGuests(what) => write!(f, "{what} cannot be changed from afar, or by a stage"),
            Self::ByStage(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}
