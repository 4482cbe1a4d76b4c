//! Full-size runs that take too long for every day: each is a name, a reason and a command.

use crate::steps::Steps;
use crate::test::SKIPS_FILE;
use crate::{programs, skips};

/// One full-size run.
struct Soak {
    name: &'static str,
    /// What it shows, and about how long it takes.
    why: &'static str,
    /// Arguments of cargo, parted by blanks, one call after another.
    cargo: &'static [&'static str],
}

/// All of them, in the order in which they run. Those that need our programs build them first.
const SOAKS: &[Soak] = &[
    Soak {
        name: "guangzhou",
        why: "the paper's run of 300 nodes x 177 h, with faults; 1 to 2 minutes",
        cargo: &["run --release -p starfarm-sim -- run tests/scenarios/guangzhou.toml --seed 1"],
    },
    Soak {
        name: "replay",
        why: "the same run with its log written, checked and made a page; 5 minutes, 1 GiB below target",
        cargo: &[
            "run --release -p starfarm-sim -- run tests/scenarios/guangzhou.toml --seed 1 --log target/guangzhou-log",
            "run --release -p starfarm -- log validate target/guangzhou-log",
            "run --release -p starfarm -- log replay target/guangzhou-log --html target/guangzhou.html",
        ],
    },
    Soak {
        name: "mole",
        why: "the paper's run of 100 nodes x 6 slots x 169 h; 1 to 2 minutes",
        cargo: &["run --release -p starfarm-sim -- run tests/scenarios/mole.toml --seed 1"],
    },
    Soak {
        name: "paper-8s",
        why: "both runs with the paper's task target of 8 s and its speed step; half an hour",
        cargo: &[
            "run --release -p starfarm-sim -- run tests/scenarios/guangzhou_8s.toml --seed 1",
            "run --release -p starfarm-sim -- run tests/scenarios/mole_8s.toml --seed 1",
        ],
    },
    Soak {
        name: "law",
        why: "the law's farms of 1 328 x 1, 221 x 6 and 3 333 x 3 for an hour each: network load and card hours; minutes",
        cargo: &[
            "run --release -p starfarm-sim -- run tests/scenarios/law/tianhe1.toml --seed 1",
            "run --release -p starfarm-sim -- run tests/scenarios/law/mole.toml --seed 1",
            "run --release -p starfarm-sim -- run tests/scenarios/law/tianhe2.toml --seed 1",
        ],
    },
    Soak {
        name: "figure3",
        why: "the paper's figure 3 to its job's end: a switch is lost and comes back; seconds",
        cargo: &["run --release -p starfarm-sim -- run tests/scenarios/figure3.toml --seed 1"],
    },
    Soak {
        name: "storm",
        why: "all faults at once in the simulator, 200 seeds; minutes",
        cargo: &["run --release -p starfarm-sim -- run tests/scenarios/storm.toml --seeds 1000..1200"],
    },
    Soak {
        name: "trees",
        why: "monitoring trees in the simulator: 1 000 small ones, three of 1 000 nodes, and one of 10 000; minutes",
        cargo: &[
            "run --release -p starfarm-sim -- trees --seeds 1000..2000",
            "run --release -p starfarm-sim -- trees --nodes 1000 --fanout 16 --faults 30 --seeds 1..4",
            "run --release -p starfarm-sim -- trees --nodes 10000 --fanout 32 --faults 20 --look 1000",
        ],
    },
    Soak {
        name: "fuzz",
        why: "a million stories that nobody wrote, told to the scheduler's core; two hours",
        cargo: &[
            "test --release -p starfarm-scheduler-core --test fuzz --config env.FUZZ_STORIES=\"1000000\"",
        ],
    },
    Soak {
        name: "bytes",
        why: "mutants of all bytes that others write, shown to their readers: a thousand times as many as in CI; hours",
        cargo: &["test --release -p starfarm-fuzz --config env.FUZZ_ROUNDS=\"1000\""],
    },
    Soak {
        name: "memory",
        why: "the scheduler's memory after 10^7 tasks of a job of 10^18 units at 20 % loss; 2 to 4 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-benches --bin farm_rate -- memory",
        ],
    },
    Soak {
        name: "checkpoints",
        why: "memory of scheduler and worker over 10^5 checkpoints, one after another; an hour or more",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-benches --bin farm_rate -- checkpoints",
        ],
    },
    Soak {
        name: "dispatch",
        why: "tasks a second and scheduler CPU a task, 8 worker processes; a minute",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm -- bench dispatch --tasks 15000000 --nodes 8",
        ],
    },
    Soak {
        name: "programs",
        why: "10 000 programs against xargs and a bare loop, by turns; 2 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-benches --bin farm_rate -- true",
        ],
    },
    Soak {
        name: "torture",
        why: "10^6 tasks, 20 workers at 20 % loss, 50 and 20 killed; 10 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- search",
        ],
    },
    Soak {
        name: "torture-command",
        why: "the same with 200 000 programs that append to a file; 10 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- command",
        ],
    },
    Soak {
        name: "torture-files",
        why: "the same with 3 000 units that make a file of 1 MiB each from one that came along; 5 minutes, 8 GiB in /tmp",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- files",
        ],
    },
    Soak {
        name: "restart",
        why: "the scheduler killed with 10^6 tasks done and 10^4 at workers; 3 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- restart",
        ],
    },
    Soak {
        name: "waste",
        why: "tasks of a second at 20 % loss: how much is computed twice; 2 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- waste",
        ],
    },
    Soak {
        name: "hostile",
        why: "10^6 datagrams that must be refused; 2 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- hostile",
        ],
    },
    Soak {
        name: "tree-kills",
        why: "40 nodes in trees of fan-out 4 whose agents, workers and scheduler are killed for 10 minutes; a quarter of an hour",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- tree",
        ],
    },
    Soak {
        name: "tree-loss",
        why: "a tree on 8 machines whose cables lose 5 % each way: no false alarm in an hour, as root",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-torture -- tree-loss",
        ],
    },
    Soak {
        name: "wicked",
        why: "each attack of a rightful key beside an honest worker, then strangers at the ports; half an hour",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-wicked --bin starfarm-attacks",
            "run --release -p starfarm-benches --bin strangers",
        ],
    },
    Soak {
        name: "power-cut",
        why: "100 power cuts under load, as root; 5 minutes",
        cargo: &[
            "build --release --workspace --bins",
            "run --release -p starfarm-e2e --bin starfarm-power-cut",
        ],
    },
];

/// Runs the soaks of these `names`, all without any, or only prints what would run.
pub(crate) fn run(steps: &mut Steps, names: &[String], list: bool) {
    let chosen = match choose(SOAKS, names) {
        Ok(chosen) => chosen,
        Err(why) => {
            steps.run("soak", || Err(why));
            return;
        }
    };
    print!("{}", plan(&chosen));
    if !list {
        let skips_file = steps.root().join(SKIPS_FILE);
        steps.run("outside programs", programs::provide);
        steps.run("empty the list of skipped checks", || skips::empty(&skips_file));
        let file = skips_file.to_string_lossy();
        for soak in chosen {
            // A step that fails is noted; the next one would only fail for the same reason.
            soak.cargo.iter().all(|call| steps.cargo(call, &[(skips::VARIABLE, &file)]));
        }
        steps.run("skipped checks", || skips::report(&skips_file, true));
    }
}

fn choose<'a>(soaks: &'a [Soak], names: &[String]) -> Result<Vec<&'a Soak>, String> {
    if let Some(unknown) = names.iter().find(|name| soaks.iter().all(|soak| soak.name != **name)) {
        return Err(format!(
            "no soak is named `{unknown}`; `cargo xtask soak --list` prints those there are"
        ));
    }
    Ok(soaks.iter().filter(|soak| names.is_empty() || names.iter().any(|name| name == soak.name)).collect())
}

fn plan(soaks: &[&Soak]) -> String {
    let one = |soak: &&Soak| {
        let calls: String = soak.cargo.iter().map(|call| format!("    cargo {call}\n")).collect();
        format!("{}: {}\n{calls}", soak.name, soak.why)
    };
    soaks.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Soak; 2] = [
        Soak { name: "long", why: "a week in one hour", cargo: &["build", "run --bin long"] },
        Soak { name: "wide", why: "300 nodes, 2 minutes", cargo: &["run --bin wide"] },
    ];

    #[test]
    fn no_name_chooses_all_and_a_name_that_one() {
        let names = |wanted: &[String]| -> Vec<&str> {
            choose(&TWO, wanted).unwrap().iter().map(|soak| soak.name).collect()
        };
        assert_eq!(names(&[]), ["long", "wide"]);
        assert_eq!(names(&["wide".to_owned()]), ["wide"]);
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_way_on_is_named() {
        let error = choose(&TWO, &["deep".to_owned()]).err().unwrap();
        assert!(error.contains("`deep`") && error.contains("soak --list"), "{error}");
    }

    #[test]
    fn the_plan_prints_reason_and_commands() {
        let text = "long: a week in one hour\n    cargo build\n    cargo run --bin long\n";
        assert_eq!(plan(&[&TWO[0]]), text);
    }
}
