//! Stub.

mod jobfile;

fn main() {}
