//! Stages at which values leave the farm's monitoring: for a person, a database, or a program. They are for a node's own file
//! alone, for they name ports and programs.
//!
//! | file | holds |
//! | --- | --- |
//! | `values` | what a message says, as names and numbers |
//! | `print` | a line a message, on standard error |
//! | `line`, `outlet` | a line a value, to a database; the thread that sends them |
//! | `run` | a program that runs when values come |

mod line;
mod outlet;
mod print;
mod run;
mod values;

use starfarm_agent_core::{Module, Type};

pub(crate) use line::set_node;
pub(crate) use run::TYPE as RUN;

/// These stages.
pub(crate) const SINKS: [Module; 3] = [
    Module {
        name: print::TYPE,
        types: &[Type { name: print::TYPE, new: &|| Box::<print::Print>::default() }],
    },
    Module { name: line::TYPE, types: &[Type { name: line::TYPE, new: &|| Box::<line::Line>::default() }] },
    Module { name: run::TYPE, types: &[Type { name: run::TYPE, new: &|| Box::<run::Run>::default() }] },
];
