//! Replay and exports of logs made by hand and by chance, against models that are slow and plain.

#![allow(clippy::unwrap_used)]

mod absurd;
mod clock;
mod exports;
mod farm;
mod page;
mod state;
mod timeline;
