//! What a job needs of a device: `needs = { device = "gpu", api = "opencl>=1.2", memory = "2GiB" }`.

use starfarm_protocol::devices::{DeviceKind, DeviceNeeds};
use starfarm_protocol::resources;

use super::error::JobFileError;
use super::table::Item;

/// Reads it.
pub(super) fn read(item: &Item<'_>) -> Result<DeviceNeeds, JobFileError> {
    let needs = item.table()?;
    needs.only(&["device", "api", "memory"])?;
    Ok(DeviceNeeds {
        device: needs.read("device", device)?,
        opencl: needs.read("api", api)?.unwrap_or_default(),
        memory_bytes: needs.read("memory", memory)?.unwrap_or(0),
    })
}

fn device(item: &Item<'_>) -> Result<DeviceKind, JobFileError> {
    let word = item.string()?;
    DeviceKind::from_word(word).ok_or_else(|| {
        let known: Vec<&str> = DeviceKind::ALL.iter().map(|kind| kind.word()).collect();
        item.error(format!("`device` \"{word}\" is not known: write one of {}", known.join(", ")))
    })
}

/// `opencl`, or `opencl>=MAJOR.MINOR`.
fn api(item: &Item<'_>) -> Result<(u8, u8), JobFileError> {
    let text = item.string()?;
    let version = |text: &str| {
        let (major, minor) = text.trim().split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let known = || match text.strip_prefix("opencl")?.trim_start() {
        "" => Some((1, 0)),
        rest => version(rest.strip_prefix(">=")?),
    };
    known().ok_or_else(|| {
        item.error(format!("`api` \"{text}\" is not known: write \"opencl\", or \"opencl>=1.2\""))
    })
}

fn memory(item: &Item<'_>) -> Result<u64, JobFileError> {
    match item.string() {
        Ok(text) => {
            resources::memory(text).map_err(|words| item.error(format!("`memory` \"{text}\": {words}")))
        }
        Err(_) => item.integer_within(0, resources::MEMORY_MAX),
    }
}
