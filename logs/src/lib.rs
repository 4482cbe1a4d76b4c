//! The event model: what happened on a farm, as values. The command line, the log and the pictures all
//! speak of these. Reading and writing XML comes with the log itself.

mod event;

pub use event::Event;
