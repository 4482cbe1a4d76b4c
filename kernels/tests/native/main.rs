//! The CPU search through its public face. `judge` knows the truth; the tests are cut by what they are
//! about: published digests and refusals, random spaces, the arithmetic
//! of units, the contract of `scan`.
#![allow(clippy::unwrap_used)]

mod arithmetic;
mod case;
mod choice;
mod judge;
mod judged;
mod scanning;
mod vectors;
mod verifying;
