//! The native kernels on other processors than this one, by emulators: on aarch64, compiled here, so that their NEON path is
//! tested and not only promised; and on older x86-64, so that nobody gets a path whose instructions his processor lacks.

use std::process::{Command, Stdio};

use crate::steps::{Steps, succeed};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";

/// Tells the tests which paths the emulated processor has: what the system tells of is the processor below it.
const PATHS: &str = "STARFARM_KERNEL_PATHS";

/// Processors, and the paths that they have. The emulator has neither AVX-512 nor SHA for any.
const OLDER: [(&str, &str); 2] = [("Haswell", "avx2 portable"), ("Nehalem", "portable")];

const IS_X86: bool = cfg!(target_arch = "x86_64");

/// Runs the kernels' tests. Where something is missing that is said, and in CI that is a failure.
pub(crate) fn test(steps: &mut Steps, in_ci: bool) {
    let mut ready = |name, provide: fn() -> Result<(), String>| {
        let ready = steps.run(name, || match provide() {
            Err(why) if !in_ci => {
                println!("the kernels' tests there are left out: {why}");
                Ok(())
            }
            came => came,
        });
        ready && provide().is_ok()
    };
    let (is_arm_ready, is_older_ready) =
        (ready("tools for aarch64", provide), IS_X86 && ready("tools for older x86-64", older));
    if is_arm_ready {
        let linker = variable(TARGET, "LINKER");
        let runner = variable(TARGET, "RUNNER");
        let environment = [(linker.as_str(), LINKER), (runner.as_str(), EMULATOR), (PATHS, "neon portable")];
        steps.cargo(&format!("test -p starfarm-kernels --target {TARGET}"), &environment);
    }
    for (processor, paths) in OLDER.into_iter().filter(|_| is_older_ready) {
        let runner = variable("x86_64-unknown-linux-gnu", "RUNNER");
        let emulator = format!("qemu-x86_64 -cpu {processor}");
        let environment = [(runner.as_str(), emulator.as_str()), (PATHS, paths)];
        // The whole workspace's, so that nothing is compiled again.
        steps.cargo("test --workspace --test native", &environment);
    }
}

/// The environment variable for a target's part of cargo's settings.
fn variable(target: &str, part: &str) -> String {
    format!("CARGO_TARGET_{}_{part}", target.to_uppercase().replace('-', "_"))
}

fn has(tool: &str) -> Result<(), String> {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
    found.map(drop).map_err(|error| format!("`{tool}` cannot be started: {error}"))
}

fn older() -> Result<(), String> {
    has("qemu-x86_64")
}

fn provide() -> Result<(), String> {
    [LINKER, "qemu-aarch64"].into_iter().try_for_each(has)?;
    succeed(Command::new("rustup").args(["target", "add", TARGET]))
}
