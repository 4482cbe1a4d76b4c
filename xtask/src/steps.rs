//! A run as a list of named, timed steps. What the steps are lives in `test`, `check` and `soak`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The steps of one run so far. A failed step is remembered, so that one run shows all that is wrong.
pub(crate) struct Steps {
    root: PathBuf,
    done: Vec<Step>,
}

struct Step {
    name: String,
    took: Duration,
    outcome: Result<(), String>,
}

impl Steps {
    /// No step yet; commands will run in `root`, the repository's top.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, done: Vec::new() }
    }

    /// The repository's top.
    pub(crate) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Does `work` under a headline; true when it went well.
    pub(crate) fn run(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = work();
        let passed = outcome.is_ok();
        if let Err(why) = &outcome {
            println!("{why}");
        }
        self.done.push(Step { name: name.to_owned(), took: start.elapsed(), outcome });
        passed
    }

    /// Runs cargo with `arguments` (parted by blanks) and extra environment; true when it exits with 0.
    pub(crate) fn cargo(&mut self, arguments: &str, environment: &[(&str, &str)]) -> bool {
        let mut command = cargo();
        command.args(arguments.split_whitespace()).envs(environment.iter().copied());
        self.command(&format!("cargo {arguments}"), &mut command)
    }

    /// Runs `command` at the repository's top; true when it exits with 0.
    pub(crate) fn command(&mut self, name: &str, command: &mut Command) -> bool {
        command.current_dir(&self.root);
        self.run(name, || succeed(command))
    }

    /// Prints the time of each step and of the whole; fails when a step did.
    pub(crate) fn finish(self) -> ExitCode {
        print!("{}", table(&self.done));
        let passed = self.done.iter().all(|step| step.outcome.is_ok());
        if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The cargo that runs us, so that all steps use one toolchain.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` to its end; an error says what to look at.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program}` ended with {status}; its own words are above")),
        Err(error) => Err(format!("cannot start `{program}`: {error}; is it installed and on PATH?")),
    }
}

fn table(steps: &[Step]) -> String {
    let line = |took: Duration, outcome: &str, name: &str| {
        format!("{:>8.1} s  {outcome:<6}  {name}\n", took.as_secs_f64())
    };
    let rows = steps.iter().map(|step| {
        let outcome = if step.outcome.is_ok() { "ok" } else { "FAILED" };
        line(step.took, outcome, &step.name)
    });
    let total = line(steps.iter().map(|step| step.took).sum(), "", "in all");
    std::iter::once("==> steps\n".to_owned()).chain(rows).chain([total]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        Steps::new(PathBuf::from("."))
    }

    #[test]
    fn a_failed_step_fails_the_run_though_a_later_one_passes() {
        let mut steps = steps();
        assert!(!steps.run("first", || Err("broken".to_owned())));
        assert!(steps.run("second", || Ok(())));
        assert_eq!(steps.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn a_run_whose_steps_all_pass_succeeds() {
        let mut steps = steps();
        assert!(steps.command("true", &mut Command::new("true")));
        assert_eq!(steps.finish(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_command_that_exits_with_1_or_is_missing_fails_its_step() {
        let mut steps = steps();
        assert!(!steps.command("false", &mut Command::new("false")));
        assert!(!steps.command("missing", &mut Command::new("no-program-has-this-name")));
    }

    #[test]
    fn the_table_names_each_step_its_time_and_the_sum() {
        let step = |name: &str, ms, outcome| Step {
            name: name.to_owned(),
            took: Duration::from_millis(ms),
            outcome,
        };
        let steps = [step("build", 1500, Ok(())), step("test", 2000, Err("no".to_owned()))];
        let expected =
            "==> steps\n     1.5 s  ok      build\n     2.0 s  FAILED  test\n     3.5 s          in all\n";
        assert_eq!(table(&steps), expected);
    }
}
