//! Stub.
pub mod exec;
