//! The direction of the crates: who may use whom. Read from the manifests, so an arrow counts from the day it
//! is drawn, used or not.

use toml::{Table, Value};

use super::problem::Problem;

const CORES_AND_BELOW: &[&str] = &[
    "starfarm-protocol",
    "starfarm-scheduler-core",
    "starfarm-worker-core",
    "starfarm-decomposers",
    "starfarm-overlay-core",
    "starfarm-agent-core",
    "starfarm-events",
    // The simulator writes real logs.
    "starfarm-logs",
];

/// Each crate and the crates of ours that it may use; a crate at the top may use every other.
const MAY_USE: &[(&str, MayUse)] = &[
    ("starfarm-protocol", MayUse::Only(&[])),
    // The event model is values only, so that the core can say what happened.
    ("starfarm-scheduler-core", MayUse::Only(&["starfarm-protocol", "starfarm-events"])),
    ("starfarm-worker-core", MayUse::Only(&["starfarm-protocol"])),
    ("starfarm-decomposers", MayUse::Only(&["starfarm-protocol"])),
    ("starfarm-kernels", MayUse::Only(&["starfarm-protocol"])),
    // Its files belong to one user alone, as those of daemons do.
    ("starfarm-opencl", MayUse::Only(&["starfarm-protocol", "starfarm-kernels", "starfarm-net"])),
    ("starfarm-events", MayUse::Only(&["starfarm-protocol"])),
    ("starfarm-logs", MayUse::Only(&["starfarm-protocol", "starfarm-events"])),
    // The monitoring tree and its agents, decided; the simulator and the farm use the same.
    ("starfarm-agent-core", MayUse::Only(&["starfarm-protocol"])),
    ("starfarm-overlay-core", MayUse::Only(&["starfarm-protocol"])),
    ("starfarm-overlay", MayUse::Only(&["starfarm-protocol", "starfarm-overlay-core"])),
    // Sockets and bytes, and how words of others are said.
    ("starfarm-net", MayUse::Only(&["starfarm-protocol"])),
    // Programs: the worker's, and those of whoever else has to see to all that they leave.
    ("starfarm-exec", MayUse::Only(&["starfarm-protocol"])),
    // What reads the machine, for agents.
    (
        "starfarm-agent",
        MayUse::Only(&[
            "starfarm-protocol",
            "starfarm-agent-core",
            "starfarm-overlay-core",
            "starfarm-overlay",
            "starfarm-net",
            "starfarm-exec",
        ]),
    ),
    (
        "starfarm-scheduler",
        MayUse::Only(&[
            "starfarm-protocol",
            "starfarm-scheduler-core",
            "starfarm-decomposers",
            "starfarm-kernels",
            "starfarm-events",
            "starfarm-logs",
            "starfarm-net",
            // What agents can be told to do, so that it is checked before it is kept.
            "starfarm-agent",
            "starfarm-overlay",
            "starfarm-overlay-core",
            "starfarm-agent-core",
        ]),
    ),
    (
        "starfarm-worker",
        MayUse::Only(&[
            "starfarm-protocol",
            "starfarm-worker-core",
            "starfarm-decomposers",
            "starfarm-kernels",
            "starfarm-opencl",
            "starfarm-exec",
            "starfarm-net",
            "starfarm-agent",
            "starfarm-overlay-core",
        ]),
    ),
    // An audit shares no accounting code with the scheduler, so it may not even see it.
    ("starfarm-audit", MayUse::Only(&["starfarm-protocol", "starfarm-kernels"])),
    // The simulator drives the real cores and never the rim.
    ("starfarm-sim", MayUse::Only(CORES_AND_BELOW)),
    ("starfarm", MayUse::All),
    // It knows sockets and bytes, nothing of the farm.
    ("starfarm-chaos", MayUse::Only(&[])),
    ("starfarm-e2e", MayUse::All),
    // It has the wire and nothing else of ours, as somebody else's worker would.
    ("starfarm-wicked", MayUse::Only(&["starfarm-protocol", "starfarm-e2e"])),
    ("starfarm-fuzz", MayUse::All),
    ("starfarm-benches", MayUse::All),
    ("xtask", MayUse::Only(&[])),
];

/// What the cores may use from outside: data structures.
const CORES: &[&str] =
    &["starfarm-scheduler-core", "starfarm-worker-core", "starfarm-overlay-core", "starfarm-agent-core"];
const DATA_STRUCTURES: &[&str] = &["hashbrown", "slab"];

enum MayUse {
    Only(&'static [&'static str]),
    All,
}

/// A line of a manifest that draws an arrow.
struct Arrow {
    to: String,
    line: usize,
    /// Only the tests of the crate see it.
    for_tests: bool,
}

/// All arrows of the manifest at `path` that point the wrong way.
pub(super) fn check(path: &str, text: &str) -> Vec<Problem> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => {
            return vec![Problem::at(path, 1, format!("not TOML ({}): repair it", error.message()))];
        }
    };
    let Some(name) = package_name(&manifest) else {
        return Vec::new();
    };
    let Some((_, may_use)) = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name) else {
        let what = format!("the crate `{name}` has no place yet: give it one in xtask/src/tidy/arrows.rs");
        return vec![Problem::at(path, 1, what)];
    };
    let wrong = |arrow: &Arrow| Some(Problem::at(path, arrow.line, objection(name, may_use, arrow)?));
    arrows(&manifest, text).iter().filter_map(wrong).collect()
}

fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

fn objection(name: &str, may_use: &MayUse, arrow: &Arrow) -> Option<String> {
    let to = &arrow.to;
    if MAY_USE.iter().any(|(ours, _)| ours == to) {
        let MayUse::Only(allowed) = may_use else {
            return None;
        };
        let pointless = !allowed.contains(&to.as_str());
        return pointless
            .then(|| format!("an upward arrow, `{name}` to `{to}`: move what is shared further in"));
    }
    let foreign = CORES.contains(&name) && !arrow.for_tests && !DATA_STRUCTURES.contains(&to.as_str());
    foreign.then(|| format!("`{to}` in a core, which uses data structures only: move its use to the rim"))
}

fn arrows(manifest: &Table, text: &str) -> Vec<Arrow> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    tables.flat_map(|table| arrows_of(table, text)).collect()
}

/// The arrows of a manifest's top or of one of its targets.
fn arrows_of(table: &Table, text: &str) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for (section, for_tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let entries = table.get(section).and_then(Value::as_table);
        for (key, value) in entries.into_iter().flatten() {
            let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
            arrows.push(Arrow { to: package.to_owned(), line: line_of(text, key), for_tests });
        }
    }
    arrows
}

/// The first line that starts with `key`, or that heads its table; 1 when none does.
fn line_of(text: &str, key: &str) -> usize {
    let names = |line: &str| {
        let line = line.trim_start().trim_start_matches('"');
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with(['.', '=', ' ', '"'])) || line.ends_with(&format!(".{key}]"))
    };
    text.lines().position(names).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, rest: &str) -> Vec<(usize, String)> {
        let problems = check("Cargo.toml", &format!("[package]\nname = \"{name}\"\n{rest}"));
        problems.into_iter().map(|problem| (problem.line, problem.what)).collect()
    }

    fn lines(name: &str, rest: &str) -> Vec<usize> {
        found(name, rest).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn an_upward_or_sideways_arrow_is_refused() {
        assert_eq!(lines("starfarm-protocol", "[dependencies]\nstarfarm-kernels.workspace = true\n"), [4]);
        assert_eq!(
            lines("starfarm-worker-core", "[dependencies]\nstarfarm-scheduler-core.workspace = true\n"),
            [4]
        );
        assert_eq!(lines("starfarm-scheduler", "[dependencies]\nstarfarm.workspace = true\n"), [4]);
        assert_eq!(lines("starfarm-sim", "[dependencies]\nstarfarm-scheduler.workspace = true\n"), [4]);
    }

    #[test]
    fn a_downward_arrow_is_fine() {
        assert!(
            lines("starfarm-scheduler", "[dependencies]\nstarfarm-scheduler-core.workspace = true\n")
                .is_empty()
        );
        assert!(
            lines("starfarm", "[dependencies]\nstarfarm-worker.workspace = true\nclap = \"4\"\n").is_empty()
        );
        assert!(lines("starfarm-sim", "[dependencies]\nstarfarm-logs.workspace = true\n").is_empty());
    }

    #[test]
    fn no_spelling_hides_an_arrow() {
        let name = "starfarm-decomposers";
        assert_eq!(
            lines(name, "[dependencies]\nx = { package = \"starfarm-worker\", path = \"..\" }\n"),
            [4]
        );
        assert_eq!(lines(name, "[target.'cfg(unix)'.dependencies]\nstarfarm-worker = \"1\"\n"), [4]);
        assert_eq!(lines(name, "[dependencies.starfarm-worker]\nworkspace = true\n"), [3]);
        assert_eq!(lines(name, "[dev-dependencies]\nstarfarm-worker.workspace = true\n"), [4]);
    }

    #[test]
    fn a_core_uses_data_structures_only_but_for_its_tests() {
        let rest = "[dependencies]\nhashbrown = \"1\"\nlibc.workspace = true\n[dev-dependencies]\nproptest = \"1\"\n";
        assert_eq!(lines("starfarm-scheduler-core", rest), [5]);
        assert!(lines("starfarm-decomposers", rest).is_empty());
    }

    #[test]
    fn a_new_crate_must_be_given_a_place() {
        let (line, what) = found("starfarm-new", "").remove(0);
        assert!(line == 1 && what.contains("arrows.rs"), "{what}");
    }

    #[test]
    fn a_workspace_manifest_draws_no_arrow() {
        assert!(check("Cargo.toml", "[workspace.dependencies]\nstarfarm = \"1\"\n").is_empty());
    }
}
