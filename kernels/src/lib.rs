//! What a starfarm task computes natively. Today that is `search`: every candidate of an interval of a
//! character space is hashed and compared with the digests looked for.
//!
//! The map, outside in:
//! - `search`: the public face; checks what it is given, cuts a scan into runs.
//! - `space`, `cut`, `tail`: unit index to candidate, which positions turn within a run, and the table that it steps through.
//! - `block`: where a candidate's bytes stand in the one message block.
//! - `targets`: which digests are looked for, and the quick tests before an exact look-up.
//! - `run`: the inner loop, generic over the algorithm and the code path.
//! - `digest`, `md`, `md5`, `ntlm`, `sha1`, `sha256`: the algorithms, each written once over `lanes`;
//!   `avx::sha_ni` is SHA-256 once more, by instructions of its own.
//! - `device`, `cl/`: the same search as a program of a device, in OpenCL C; `starfarm-opencl` runs it.
//! - `verify`: whether a candidate that somebody names has a target's digest.
//! - `lanes`, `path`, `avx`, `neon`, `portable`: a vector of 32-bit words, and who provides it.
//!
//! Not here: job files, hexadecimal, turning hits back into strings (`decomposers` does), threads and time.
//! This is for digests that one is entitled to audit.

// `unsafe` stands in `avx` and `neon` alone; the workspace denies it elsewhere.
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(target_arch = "x86_64")]
mod avx;
mod block;
mod cut;
mod device;
mod digest;
mod error;
mod lanes;
mod md;
mod md5;
#[cfg(target_arch = "aarch64")]
mod neon;
mod ntlm;
mod path;
mod portable;
mod run;
mod search;
mod sha1;
mod sha256;
mod space;
mod tail;
mod targets;
mod verify;

pub use device::{DeviceTargets, Stretch};
pub use error::SearchError;
pub use path::Path;
pub use search::{Hit, Search};
pub use verify::Verifier;
