//! The XML log from outside: what is written comes back, what is damaged is told, and another reader of XML agrees.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod cut;
mod round_trip;
mod schema;
mod segments;
mod support;
