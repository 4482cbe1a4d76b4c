//! Which paths this processor has, by what others say of it.

use std::io::Write;

use starfarm_kernels::Path;

/// The paths that there are, one word each, where an emulator plays another processor than the system tells of.
const PATHS: &str = "STARFARM_KERNEL_PATHS";

/// By what the system says of its processor: the paths that it has, in the order of [`Path::ALL`].
fn expected() -> Vec<String> {
    if let Ok(paths) = std::env::var(PATHS) {
        return paths.split_whitespace().map(str::to_owned).collect();
    }
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = told.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |flag| flags.split_whitespace().any(|word| word == flag);
    let of = [
        ("avx512", has("avx512f")),
        ("sha", has("avx2") && has("sha_ni")),
        ("avx2", has("avx2")),
        ("neon", cfg!(target_arch = "aarch64")),
        ("portable", true),
    ];
    of.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_owned()).collect()
}

/// A processor that got a path whose instructions it lacks would end the worker.
#[test]
fn the_paths_are_those_whose_instructions_the_processor_has() {
    let there: Vec<_> = Path::ALL.into_iter().filter(|path| path.is_available()).map(Path::name).collect();
    assert_eq!(there, expected());
    assert_eq!(Path::best().name(), there[0]);
    if std::env::var_os(PATHS).is_none() {
        let of_this_kind = [Path::Avx512, Path::Sha, Path::Avx2];
        let missing =
            of_this_kind.into_iter().filter(|path| cfg!(target_arch = "x86_64") && !path.is_available());
        missing.for_each(|path| skip(path.name()));
    }
}

/// Notes that a path could not be tested.
fn skip(path: &str) {
    let Some(file) = std::env::var_os("STARFARM_SKIPS") else { return };
    let line = format!("{path}: all tests of kernels: this processor cannot run the path\n");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    file.unwrap().write_all(line.as_bytes()).unwrap();
}
