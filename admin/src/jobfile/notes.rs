//! What is odd about a job that can be submitted as it is: slips that nothing refuses.

use std::collections::HashMap;

use starfarm_decomposers::template::{Rules, UnitText};
use starfarm_protocol::job::{Per, Sizing};
use starfarm_protocol::spec::{CommandWork, Work};
use strsim::levenshtein;

use super::job::{JobFile, names_of};

/// Giving out a task costs microseconds, and its way to the worker a round trip: a shorter task is mostly that.
const SHORT_TASK_US: u64 = 10_000;
/// Most units whose files are compared by their names.
const UNITS_LOOKED_AT: u128 = 100_000;
/// What programs are told of their unit without a placeholder.
const UNIT_VARIABLE: &str = "STARFARM_UNIT_INDEX";

impl JobFile {
    /// What the user should hear, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        // A line for a shell has braces of its own, and always a placeholder.
        if let Work::Command(command) = &self.spec.work
            && !command.parallel
        {
            let units = starfarm_decomposers::units(&self.spec.space).unwrap_or(1);
            let rules = Rules::of(command, &names_of(&self.spec.space));
            placeholders(command, &rules, units, &mut notes);
        }
        notes.extend(self.one_name_of_two());
        if self.repeated_targets > 0 {
            let (left, plural) = (self.repeated_targets, if self.repeated_targets == 1 { "" } else { "s" });
            notes.push(format!("{left} repeated target{plural} left out: each is looked for once"));
        }
        match self.sizing {
            Sizing::TargetUs(us) if us < SHORT_TASK_US => notes.push(format!(
                "tasks of {} s (`target_seconds`) take longer to give out than to compute; 8 is usual",
                us as f64 / 1e6
            )),
            _ => {}
        }
        notes
    }
}

impl JobFile {
    /// Two units that make a file of the same name: it cannot be written into one folder. Of very many units nobody looks.
    fn one_name_of_two(&self) -> Option<String> {
        let Work::Command(command) = &self.spec.work else { return None };
        let units = starfarm_decomposers::units(&self.spec.space).ok()?;
        if command.per == Per::Task || command.outputs.is_empty() || units > UNITS_LOOKED_AT {
            return None;
        }
        let space = self.opened().ok()?;
        let rules = Rules::of(command, &space.names());
        let templates = command.outputs.iter().map(|name| rules.text(name));
        // Of one that is the same for all units each has its own, in a folder.
        let templates: Vec<_> = templates.filter(|template| !template.is_fixed()).collect();
        let mut made = HashMap::new();
        for unit in 0..units {
            let text = UnitText::of(&*space, unit).ok()?;
            for template in &templates {
                let name = template.fill(&text);
                let shown = String::from_utf8_lossy(&name).into_owned();
                if let Some(first) = made.insert(name, unit).filter(|first| *first != unit) {
                    return Some(format!(
                        "units {first} and {unit} both make `{shown}`, and --dir can write one of them: put {{index}} \
                         into the name in `outputs`"
                    ));
                }
            }
        }
        None
    }
}

fn placeholders(command: &CommandWork, rules: &Rules, units: u128, notes: &mut Vec<String>) {
    let texts: Vec<&String> =
        command.program.iter().chain(command.env.values()).chain(&command.stdin).collect();
    let fixed = texts.iter().all(|text| rules.text(text).is_fixed()) && command.unit_inputs.is_empty();
    let known: Vec<&str> = std::iter::once("index").chain(rules.names().iter().map(String::as_str)).collect();
    for word in texts.iter().flat_map(|text| words_in_braces(text)) {
        if known.contains(&word) {
            continue;
        }
        let clean = word.trim().to_lowercase();
        let near = known.iter().find(|name| levenshtein(&name.to_lowercase(), &clean) <= slips(name));
        match near {
            Some(name) => notes
                .push(format!("`{{{word}}}` is no placeholder and stays as it is: is `{{{name}}}` meant?")),
            None if fixed => notes.push(format!("`{{{word}}}` is no placeholder and stays as it is")),
            None => {}
        }
    }
    let told = texts.iter().any(|text| text.contains(UNIT_VARIABLE));
    if fixed && !told && units > 1 {
        let value = (command.per == Per::Unit).then_some("");
        let known: Vec<String> = value.into_iter().chain(known).map(|name| format!("`{{{name}}}`")).collect();
        notes.push(format!(
            "no placeholder is in the program, its arguments or `env`: all {units} units run the same command, unless \
             it reads {UNIT_VARIABLE}; there are {}",
            known.join(", ")
        ));
    }
}

/// What stands in braces and looks like a name. `${NAME}` is a shell's.
pub(crate) fn words_in_braces(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, _) in text.match_indices('{') {
        let Some(end) = text[at..].find('}').map(|length| at + length) else { break };
        let word = &text[at + 1..end];
        let is_name = !word.trim().is_empty()
            && word.trim().chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if is_name && !text[..at].ends_with('$') {
            words.push(word);
        }
    }
    words
}

/// How many letters may be wrong where a name is meant.
fn slips(name: &str) -> usize {
    if name.chars().count() <= 3 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use crate::jobfile::parse;

    #[track_caller]
    fn noted(space: &str, task: &str, expected: Expect) {
        let text = format!("[space]\n{space}\n[task]\n{task}\n");
        let notes = parse(&text, "demo.toml", Path::new("")).unwrap().notes();
        expected.assert_eq(&notes.iter().map(|note| format!("{note}\n")).collect::<String>());
    }

    const GRID: &str = "kind = \"grid\"\ngrid = { rate = [1, 2], mode = [\"a\"] }";

    #[test]
    fn a_placeholder_with_a_slip_is_named() {
        let program = |words: &str| format!("executor = \"command\"\nprogram = [\"true\", {words}]");
        noted(
            GRID,
            &program("\"{rates}\", \"{mode}\""),
            expect![[r#"
            `{rates}` is no placeholder and stays as it is: is `{rate}` meant?
        "#]],
        );
        noted(
            GRID,
            &program("\"{Mode}\", \"{ rate }\", \"{INDEX}\""),
            expect![[r#"
            `{Mode}` is no placeholder and stays as it is: is `{mode}` meant?
            `{ rate }` is no placeholder and stays as it is: is `{rate}` meant?
            `{INDEX}` is no placeholder and stays as it is: is `{index}` meant?
            no placeholder is in the program, its arguments or `env`: all 2 units run the same command, unless it reads STARFARM_UNIT_INDEX; there are `{}`, `{index}`, `{rate}`, `{mode}`
        "#]],
        );
        noted(GRID, &program("\"${HOME}/{rate}\", \"{print}\", \"{ }\", \"{a: 1}\""), expect![[""]]);
    }

    #[test]
    fn a_program_that_cannot_tell_its_units_apart_is_told() {
        let program = |words: &str| format!("executor = \"command\"\nprogram = [\"true\", {words}]");
        noted(
            GRID,
            &program("\"{print}\""),
            expect![[r#"
            `{print}` is no placeholder and stays as it is
            no placeholder is in the program, its arguments or `env`: all 2 units run the same command, unless it reads STARFARM_UNIT_INDEX; there are `{}`, `{index}`, `{rate}`, `{mode}`
        "#]],
        );
        noted(GRID, &program("\"$STARFARM_UNIT_INDEX\""), expect![[""]]);
        noted("kind = \"range\"\nfrom = 0\nto = 1", &program("\"x\""), expect![[""]]);
    }

    #[test]
    fn two_units_that_make_one_file_are_told() {
        let outputs = |names: &str| {
            format!("executor = \"command\"\nprogram = [\"true\", \"{{}}\"]\noutputs = [{names}]")
        };
        noted(
            GRID,
            &outputs("\"{mode}.png\""),
            expect![[r#"
            units 0 and 1 both make `a.png`, and --dir can write one of them: put {index} into the name in `outputs`
        "#]],
        );
        // Of a fixed name each unit has its own.
        noted(GRID, &outputs("\"{rate}.png\", \"same.png\", \"{mode}-{rate}\""), expect![[""]]);
        noted(GRID, &(outputs("\"{lo}.png\"").replace("{}", "{hi}") + "\nper = \"task\""), expect![[""]]);
    }

    #[test]
    fn a_task_of_no_time_and_a_target_given_twice_are_told() {
        let task = "executor = \"command\"\nprogram = [\"true\", \"{}\"]\ntarget_seconds = 0.001";
        noted(
            GRID,
            task,
            expect![[r#"
            tasks of 0.001 s (`target_seconds`) take longer to give out than to compute; 8 is usual
        "#]],
        );
        let digest = "d41d8cd98f00b204e9800998ecf8427e";
        let task = format!(
            "executor = \"search\"\nalgorithm = \"md5\"\ntargets = [\"{digest}\", \"{}\"]",
            digest.to_uppercase()
        );
        noted(
            "kind = \"chars\"\nmask = \"?l\"",
            &task,
            expect![[r#"
            1 repeated target left out: each is looked for once
        "#]],
        );
    }
}
