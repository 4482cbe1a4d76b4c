//! What stages, the runtime and others say to each other.

use std::fmt;

/// Which stage: no other one of this agent ever has its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageNumber(pub u64);

/// Who has had a stage or timer made: what is not the agent's own goes with its maker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Maker {
    /// The agent itself, which needs it.
    Agent,
    /// A file.
    File,
    /// Somebody who gives orders from afar.
    Afar,
    /// A stage, by an order as a guest.
    Stage(StageNumber),
}

/// A timer's name.
pub type TimerName = String;

/// When a timer fires. All times are the farm's clock, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Once, at this time; at once if it is over.
    At(u64),
    /// Once, so long from now on.
    After(u64),
    /// Whenever the farm's clock is a multiple of it, 10 ms at least: so the agents of a farm measure at the same
    /// moments.
    Every(u64),
}

/// Which side of a stage a hook is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Values come in.
    Input,
    /// Values go out.
    Output,
}

/// An input or output of a stage: a name, and the number by which the runtime and the stage speak of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hook<'a> {
    /// On which side.
    pub side: Side,
    /// Its name, which may say a type, as in `load-u64`.
    pub name: &'a str,
    /// Its number, from 0, of its side of this stage, as long as it has edges.
    pub port: usize,
}

/// What a stage is told beside data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// These of its timers have fired, at one time.
    Fired(Vec<TimerName>),
    /// What it asked for by [`crate::Context::wait_for_wave`]: all that fired when it asked has reached everybody.
    WaveIsOver,
    /// Something that the stage waits for outside, such as a socket, can be looked at.
    Ready,
    /// A setting.
    Set {
        /// Which.
        key: String,
        /// To what.
        value: String,
    },
}

/// Something that the runtime is asked to do, by a stage or from outside. Stages go by their number or name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Make a stage.
    Create {
        /// Of which type.
        type_name: String,
        /// Its name, if it has one.
        name: Option<String>,
    },
    /// End a stage.
    End(Who),
    /// Name a stage.
    Name(Who, String),
    /// Make an edge, from an output to an input.
    Link((Who, String), (Who, String)),
    /// Take it away.
    Unlink((Who, String), (Who, String)),
    /// Make a timer, or set it anew.
    Timer(TimerName, When),
    /// End a timer.
    EndTimer(TimerName),
    /// Tell a stage when a timer fires, or no more.
    Subscribe(TimerName, Who, bool),
    /// Tell a stage something.
    Tell(Who, Word),
    /// Do that as somebody who may change what guests have made, and nothing of the agent's own.
    AsGuest(Box<Order>),
}

impl Order {
    /// The same, with the rights of a guest.
    pub fn as_guest(self) -> Self {
        Self::AsGuest(Box::new(self))
    }
}

/// A stage, as others speak of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// By its number.
    Number(StageNumber),
    /// By its name.
    Name(String),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{}", number.0),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl From<&str> for Who {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<StageNumber> for Who {
    fn from(number: StageNumber) -> Self {
        Self::Number(number)
    }
}
