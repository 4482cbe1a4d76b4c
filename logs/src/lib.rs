//! The log of a farm: what happened, as XML on the disk, and what can be made of it afterwards.

pub mod export;
pub mod joblog;
mod json;
pub mod replay;
mod xml;

pub use json::json_object;
pub use xml::*;
