//! Which machine this is.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;

use starfarm_protocol::orders::Host;

/// This machine: its name, and what tells it from others that have the same. Without either it is as if it were alone.
pub fn this_host() -> Host {
    let kernel = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (name, boot) = (kernel("hostname").trim().to_owned(), kernel("random/boot_id"));
    let shared = std::fs::metadata("/dev/shm").map(|folder| folder.dev()).unwrap_or_default();
    let mut hash = DefaultHasher::new();
    (boot, shared).hash(&mut hash);
    Host { name, id: hash.finish() }
}
