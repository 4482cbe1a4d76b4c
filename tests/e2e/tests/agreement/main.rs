//! Whoever computes the units of a job computes the same: the native kernels, a device, and hashcat, which is nobody's of
//! ours. The spaces, intervals and targets are random, each from a seed that a failure names. The truth is the judge's of
//! the native kernels' own tests; no farm runs here.
#![allow(clippy::unwrap_used)]
#![allow(dead_code)] // the judge knows more than is asked here

#[path = "../../../../kernels/tests/native/case.rs"]
mod case;
mod devices;
mod digits;
mod hashcat;
#[path = "../../../../kernels/tests/native/judge.rs"]
mod judge;
