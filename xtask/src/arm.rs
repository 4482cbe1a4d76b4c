//! The native kernels on aarch64: compiled here, run by an emulator, so that their NEON path is tested and not only promised.

use std::process::{Command, Stdio};

use crate::steps::{Steps, succeed};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// Runs the kernels' tests. Where something is missing that is said, and in CI that is a failure.
pub(crate) fn test(steps: &mut Steps, in_ci: bool) {
    let ready = steps.run("tools for aarch64", || match provide() {
        Err(why) if !in_ci => {
            println!("the kernels' tests on aarch64 are left out: {why}");
            Ok(())
        }
        came => came,
    });
    if ready && provide().is_ok() {
        let target = TARGET.to_uppercase().replace('-', "_");
        let (linker, runner) =
            (format!("CARGO_TARGET_{target}_LINKER"), format!("CARGO_TARGET_{target}_RUNNER"));
        let environment = [(linker.as_str(), LINKER), (runner.as_str(), EMULATOR)];
        steps.cargo(&format!("test -p starfarm-kernels --target {TARGET}"), &environment);
    }
}

fn provide() -> Result<(), String> {
    for tool in [LINKER, "qemu-aarch64"] {
        let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
        found.map_err(|error| format!("`{tool}` cannot be started: {error}"))?;
    }
    succeed(Command::new("rustup").args(["target", "add", TARGET]))
}
