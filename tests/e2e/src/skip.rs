//! What a test does that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write;

use starfarm_opencl::{Device, devices};
use starfarm_protocol::devices::DeviceKind;

/// Says, and notes for the summary of the whole run, that `test` lacks `need`. The caller returns.
pub fn skip(need: &str, test: &str, why: &str) {
    eprintln!("skipped {test}: it needs {need}: {why}");
    let Some(path) = std::env::var_os("STARFARM_SKIPS") else { return };
    let noted = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{need}: {test}: {why}"));
    if let Err(error) = noted {
        eprintln!("the skip could not be noted in {}: {error}", path.display());
    }
}

/// A program is on this machine; where it is not, `test` lacks it.
pub fn has(program: &str, test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !is_there {
        skip(program, test, "it is not installed");
    }
    is_there
}

/// The device that tests run on: PoCL's, the machine's own processor, or a card where `STARFARM_TEST_DEVICE=gpu`. None where
/// the machine has none, which `test` then lacks.
pub fn a_device(test: &str) -> Option<Device> {
    let (kind, need) = match std::env::var("STARFARM_TEST_DEVICE").as_deref() {
        Ok("gpu") => (DeviceKind::Gpu, "gpu"),
        _ => (DeviceKind::Cpu, "pocl"),
    };
    let found = devices().map(|devices| devices.into_iter().find(|device| device.facts().kind == kind));
    let why = match found {
        Ok(Some(device)) => return Some(device),
        Ok(None) => format!("no OpenCL device is a {kind}"),
        Err(error) => error.to_string(),
    };
    skip(need, test, &why);
    None
}
