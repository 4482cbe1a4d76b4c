//! The outside programs that the tests use: which, why, and how they come onto a Debian machine. The tests
//! themselves note what they skip (see `skips`).

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::steps::succeed;

/// An outside program and the Debian package that brings it.
#[derive(Debug)]
struct Program {
    package: &'static str,
    name: &'static str,
    /// The tests that skip without it.
    used_by: &'static str,
}

/// All outside programs that any test runs, besides the shell.
const PROGRAMS: &[Program] = &[
    Program { package: "iproute2", name: "ip", used_by: "tests that cut or slow a network link" },
    Program {
        package: "iproute2",
        name: "ss",
        used_by: "tests of connections whose other end may have gone",
    },
    Program { package: "util-linux", name: "setsid", used_by: "tests of programs that leave their group" },
    Program { package: "util-linux", name: "unshare", used_by: "tests of power cuts" },
    Program { package: "e2fsprogs", name: "mkfs.ext4", used_by: "tests of power cuts" },
    Program { package: "mount", name: "mount", used_by: "tests of a disk that is full" },
    Program { package: "coreutils", name: "sleep", used_by: "tests that run a command job" },
    Program { package: "libxml2-utils", name: "xmllint", used_by: "tests that hold logs against the schema" },
    Program { package: "zsh", name: "zsh", used_by: "tests of zsh's completions" },
    Program { package: "fish", name: "fish", used_by: "tests of fish's completions" },
    Program { package: "man-db", name: "man", used_by: "tests that look at the manual" },
    Program { package: "nodejs", name: "node", used_by: "the page of a report, and tests of it," },
    Program { package: "npm", name: "npm", used_by: "the page of a report, and tests of it," },
    Program { package: "povray", name: "povray", used_by: "the test that renders an animation" },
    // By its path: other packages bring a `convert` as well.
    Program {
        package: "imagemagick",
        name: "/usr/bin/convert",
        used_by: "the tests that convert a folder of images",
    },
    Program { package: "ncbi-blast+", name: "blastn", used_by: "the test that splits a query" },
    Program { package: "clinfo", name: "clinfo", used_by: "the loader of OpenCL, and tests of devices," },
    Program {
        package: "pocl-opencl-icd",
        name: "/etc/OpenCL/vendors/pocl.icd",
        used_by: "the device of tests,",
    },
    Program {
        package: "gcc-aarch64-linux-gnu",
        name: "aarch64-linux-gnu-gcc",
        used_by: "the kernels' tests on aarch64",
    },
    Program {
        package: "libc6-dev-arm64-cross",
        name: "/usr/aarch64-linux-gnu/include/stdio.h",
        used_by: "the kernels' tests on aarch64",
    },
    Program { package: "qemu-user", name: "qemu-aarch64", used_by: "the kernels' tests on other processors" },
    Program {
        package: "python3",
        name: "python3",
        used_by: "tests of units that a program names, and of a tree's plan,",
    },
    Program { package: "nftables", name: "nft", used_by: "tests of networks that lose or refuse" },
    Program { package: "sysstat", name: "pidstat", used_by: "tests of what is measured" },
    Program { package: "stress-ng", name: "stress-ng", used_by: "tests of what is measured" },
    Program { package: "prometheus", name: "promtool", used_by: "the test of the metrics' format" },
    Program { package: "graphviz", name: "dot", used_by: "the test that draws a graph" },
    Program { package: "hashcat", name: "hashcat", used_by: "tests against hashcat" },
    Program { package: "chromium", name: "chromium", used_by: "tests that look at a report" },
];

/// Installs what is missing as root on Debian, elsewhere says what is missing. Never an error: a test that
/// lacks its program skips, and its skip is reported.
pub(crate) fn provide() -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        println!("all there: {}", PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join(", "));
        return Ok(());
    }
    if let Err(why) = install(&missing) {
        println!("{why}");
    }
    print!("{}", lament(&self::missing()));
    Ok(())
}

fn missing() -> Vec<&'static Program> {
    let path = path();
    PROGRAMS.iter().filter(|program| !is_there(program.name, &path)).collect()
}

fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn is_there(program: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

fn install(missing: &[&Program]) -> Result<(), String> {
    if !is_root() {
        return Err("not root, so nothing can be installed; run this once as root".to_owned());
    }
    if !is_there("apt-get", &path()) {
        return Err(
            "no apt-get here, so nothing can be installed; bring it by this system's own means".to_owned()
        );
    }
    succeed(apt_get().arg("update"))?;
    let packages = missing.iter().map(|program| program.package);
    succeed(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// A process owns its folder in /proc by its effective user.
fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|folder| folder.uid() == 0)
}

fn lament(missing: &[&Program]) -> String {
    let line = |program: &&Program| {
        format!(
            "missing: `{}` (Debian package {}); without it {} are skipped\n",
            program.name, program.package, program.used_by
        )
    };
    missing.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_and_a_strange_name_is_not() {
        assert!(is_there("sh", OsStr::new("/nowhere:/bin")));
        assert!(!is_there("sh", OsStr::new("/nowhere")));
        assert!(!is_there("no-program-has-this-name", OsStr::new("/bin:/usr/bin")));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package_and_its_tests() {
        let text = lament(&[&PROGRAMS[0]]);
        assert!(
            text.contains("`ip`") && text.contains("iproute2") && text.contains("network link"),
            "{text}"
        );
    }
}
