//! The log of a farm: what happened, as XML on the disk, and what can be made of it afterwards.

mod xml;

pub use xml::*;
