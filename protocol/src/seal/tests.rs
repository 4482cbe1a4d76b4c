//! Tests that need more than one part of the seal.

mod cookie_flow;
mod handshakes;
mod hostile;
mod sessions;
mod streams;
