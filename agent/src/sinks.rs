//! Stages at which values leave the farm's monitoring: for a person, a database, or a program. They are for a node's own file
//! alone, for they name ports and programs.
//!
//! | file | holds |
//! | --- | --- |
//! | `values` | what a message says, as names and numbers |
//! | `lines` | a message as one line for people, and not too many of these |
//! | `print` | these lines on standard error |
//! | `journal` | and in the machine's journal |
//! | `line`, `outlet` | a line a value, to a database; the thread that sends them |
//! | `run` | a program that runs when values come |

mod journal;
mod line;
mod lines;
mod outlet;
mod print;
mod run;
mod values;

use starfarm_agent_core::{Module, Type};

pub(crate) use line::set_node;
pub(crate) use run::TYPE as RUN;

/// These stages.
pub(crate) const SINKS: [Module; 4] = [
    Module {
        name: print::TYPE,
        types: &[Type { name: print::TYPE, new: &|| Box::<print::Print>::default() }],
    },
    Module {
        name: journal::TYPE,
        types: &[Type { name: journal::TYPE, new: &|| Box::<journal::Journal>::default() }],
    },
    Module { name: line::TYPE, types: &[Type { name: line::TYPE, new: &|| Box::<line::Line>::default() }] },
    Module { name: run::TYPE, types: &[Type { name: run::TYPE, new: &|| Box::<run::Run>::default() }] },
];
