//! What this machine is, read once at the start from files of the system. A file that is not there leaves its
//! fact out: a worker runs without knowing any.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use starfarm_protocol::wire::Facts;

use crate::cards;
use crate::system_files::value;

/// What no file says.
const UNKNOWN: &str = "unknown";

/// Reads the facts of the machine whose files lie below `root`, which is `/`. `cores` are those that this
/// process may use.
pub(crate) fn read(root: &Path, cores: usize) -> Facts {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let kernel = |what: &str| text(&format!("proc/sys/kernel/{what}")).trim().to_owned();
    let kernel_name = format!("{} {}", kernel("ostype"), kernel("osrelease"));
    let parts = [kernel("hostname"), os_name(&text("etc/os-release")), kernel_name.trim().to_owned()];
    let known: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let limit = limit_files(&text("proc/self/cgroup"))
        .iter()
        .filter_map(|path| fs::read_to_string(root.join(path)).ok()?.trim().parse().ok())
        .min();
    let memory_bytes = memory_bytes(&text("proc/meminfo")).min(limit.unwrap_or(u64::MAX));
    Facts {
        system: known.join(", "),
        cpu: cpu_model(&text("proc/cpuinfo")),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes,
        accelerators: counted(cards::read(root).into_iter().map(|card| card.model)),
    }
}

/// The number that the kernel gave to its own start, if it says so.
pub(crate) fn machine_start() -> Option<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// The system's name out of os-release(5).
fn os_name(text: &str) -> String {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
}

/// The processor's model out of cpuinfo. ARM's kernels give numbers only.
fn cpu_model(text: &str) -> String {
    if let Some(model) = value(text, "model name") {
        return model.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    match (value(text, "CPU implementer"), value(text, "CPU part")) {
        (Some(implementer), Some(part)) => {
            format!("{} implementer {implementer} part {part}", std::env::consts::ARCH)
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// The memory out of meminfo; 0 where it does not say.
fn memory_bytes(text: &str) -> u64 {
    let kib = value(text, "MemTotal").and_then(|value| value.strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib.saturating_mul(1_024))
}

/// Files that may limit the memory: those of the process's control group and of all above it, in either
/// version. In a container the group's own path may not be there, but the topmost is its own.
fn limit_files(cgroup: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (base, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        files.extend(groups.map(|group| Path::new(base).join(group).join(file)));
    }
    files
}

/// Models with their numbers: `2 x NVIDIA H100 PCIe`; a single one goes without.
fn counted(models: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    models.for_each(|model| *counts.entry(model).or_default() += 1);
    let words = counts.into_iter().map(|(model, count)| match count {
        1 => model,
        _ => format!("{count} x {model}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    /// A machine's files.
    fn machine(files: &[(&str, &str)]) -> TempDir {
        let dir = TempDir::new();
        for (path, text) in files {
            let path = dir.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_machine_with_all_there_is() {
        let gpus = "proc/driver/nvidia/gpus";
        let nodes = "sys/class/kfd/kfd/topology/nodes";
        let dir = machine(&[
            ("proc/sys/kernel/hostname", "lab-7\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 12 (bookworm)\"\nID=some\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some(R) CPU    @ 2.00GHz\n\nprocessor\t: 1\n",
            ),
            ("proc/meminfo", "MemTotal:       16384000 kB\nMemFree:         1000 kB\n"),
            ("proc/self/cgroup", "0::/a.slice/b\n"),
            ("sys/fs/cgroup/a.slice/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/a.slice/b/memory.max", "max\n"),
            (&format!("{gpus}/0000:01:00.0/information"), "Model: \t\t Some H100 PCIe\nIRQ:   \t\t 1\n"),
            (&format!("{gpus}/0000:02:00.0/information"), "Model: \t\t Some H100 PCIe\n"),
            (&format!("{nodes}/0/gpu_id"), "0\n"),
            (&format!("{nodes}/1/gpu_id"), "51234\n"),
            (&format!("{nodes}/1/name"), "aldebaran\n"),
        ]);
        let facts = Facts {
            system: "lab-7, Some Linux 12 (bookworm), Linux 6.1.0-18-amd64".into(),
            cpu: "Some(R) CPU @ 2.00GHz".into(),
            cores: 5,
            memory_bytes: 4 << 30,
            accelerators: "AMD aldebaran, 2 x Some H100 PCIe".into(),
        };
        assert_eq!(read(&dir.0, 5), facts);
    }

    #[test]
    fn a_machine_without_any_file_still_has_a_worker() {
        let dir = machine(&[]);
        let facts = Facts { cpu: UNKNOWN.into(), cores: 1, ..Facts::default() };
        assert_eq!(read(&dir.0, 1), facts);
    }

    #[test]
    fn this_machine_says_something() {
        let facts = read(Path::new("/"), 2);
        assert!(facts.memory_bytes > 1 << 20 && facts.system.contains("Linux"), "{facts:?}");
    }

    #[test]
    fn arm_gives_numbers_and_nonsense_gives_nothing() {
        let arm = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert!(cpu_model(arm).ends_with("implementer 0x41 part 0xd0c"), "{}", cpu_model(arm));
        for nonsense in ["", "model name", "\u{0}:\n:::", "CPU part : 1"] {
            assert_eq!(cpu_model(nonsense), UNKNOWN);
        }
        for nonsense in ["", "MemTotal: many kB", "MemTotal: 5 MB", "MemTotal: -1 kB"] {
            assert_eq!(memory_bytes(nonsense), 0);
        }
        assert_eq!(os_name("PRETTY_NAME=plain\n"), "plain");
    }

    #[test]
    fn limits_are_looked_for_in_both_versions_of_control_groups() {
        let old = "5:devices:/x\n4:cpu,memory:/docker/1\n3:memoryless:/y\nbroken\n";
        let files: Vec<_> = limit_files(old).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            files,
            [
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
                "sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert_eq!(limit_files("0::/\n"), [Path::new("sys/fs/cgroup/memory.max")]);
    }
}
