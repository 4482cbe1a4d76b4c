//! Full-size runs that take too long for every day: each is a name, a reason and a command.

use crate::steps::Steps;

/// One full-size run.
struct Soak {
    name: &'static str,
    /// What it shows, and about how long it takes.
    why: &'static str,
    /// Arguments of cargo, parted by blanks.
    cargo: &'static str,
}

/// All of them, in the order in which they run. None yet.
const SOAKS: &[Soak] = &[];

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
        for soak in chosen {
            steps.cargo(soak.cargo, &[]);
        }
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
    if soaks.is_empty() {
        return "no soak is defined yet\n".to_owned();
    }
    soaks.iter().map(|soak| format!("{}: {}\n    cargo {}\n", soak.name, soak.why, soak.cargo)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Soak; 2] = [
        Soak { name: "long", why: "a week in one hour", cargo: "run --bin long" },
        Soak { name: "wide", why: "300 nodes, 2 minutes", cargo: "run --bin wide" },
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
    fn the_plan_prints_reason_and_command() {
        assert_eq!(plan(&[&TWO[0]]), "long: a week in one hour\n    cargo run --bin long\n");
        assert_eq!(plan(&[]), "no soak is defined yet\n");
    }
}
