//! Types of stages that need nothing from outside, a file for each module.
//!
//! | file | holds |
//! | --- | --- |
//! | `settings` | how stages take settings and hooks, and the words in which they refuse |
//! | `messages` | whose values a stage reads, and what it makes of a message |
//! | `kept` | what stages remember of jobs and posts: bounded, and forgotten |
//! | `op` | one number out of many |
//! | the others | a type of stages each |
//!
//! All take values from any number of inputs. What says whose values follow ([`crate::ids::says_whose`]) holds for those
//! behind it in a message; a message that would say nothing else is none.

mod aggregate;
mod blackhole;
mod control;
mod demux;
mod derivative;
mod filter;
mod kept;
mod messages;
mod op;
mod prepend;
mod rate;
mod settings;
mod threshold;
mod wavebuf;
mod window;

use crate::stage::Module;

/// These modules.
pub const PURE: [Module; 11] = [
    aggregate::MODULE,
    blackhole::MODULE,
    control::MODULE,
    demux::MODULE,
    derivative::MODULE,
    filter::MODULE,
    prepend::MODULE,
    rate::MODULE,
    threshold::MODULE,
    wavebuf::MODULE,
    window::MODULE,
];
