//! The program as a user or a script meets it: run as a process, judged by its output and exit code.

#![allow(clippy::unwrap_used)]

mod audit;
mod bench;
mod daemons;
mod embedded;
mod fake;
mod input;
mod log;
mod output;
mod program;
mod schemas;
