//! Manual pages and completions, made from the definitions of the command line and from nothing else.

use std::path::Path;

use clap::CommandFactory;

use super::Context;
use crate::cli::{Cli, Shell};
use crate::failure::{Exit, Failure};

/// Prints a shell's completions.
///
/// # Errors
/// Standard output takes no more.
pub(crate) fn completions(context: &mut Context, shell: Shell) -> Result<Exit, Failure> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "starfarm", &mut script);
    context.printer.bytes(&script)?;
    Ok(Exit::Ok)
}

/// Prints the page of `starfarm`, or writes a page for each command into `out`.
///
/// # Errors
/// Standard output takes no more, or `out` cannot be written to.
pub(crate) fn pages(context: &mut Context, out: Option<&Path>) -> Result<Exit, Failure> {
    let Some(out) = out else {
        let mut page = Vec::new();
        // Writing into memory does not fail.
        let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
        rendered.map_err(|error| Failure::usage(error.to_string()))?;
        context.printer.bytes(&page)?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(out).and_then(|()| clap_mangen::generate_to(Cli::command(), out)).map_err(
        |error| Failure::usage(format!("--out {}: {error}: name a folder of yours", out.display())),
    )?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Each command that is shown, with the name of its page.
    fn commands(command: &Command, page: &str, all: &mut Vec<(String, Command)>) {
        all.push((page.to_owned(), command.clone()));
        for child in
            command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help")
        {
            commands(child, &format!("{page}-{}", child.get_name()), all);
        }
    }

    fn all_commands() -> Vec<(String, Command)> {
        let mut whole = Cli::command();
        whole.build();
        let mut all = Vec::new();
        commands(&whole, "starfarm", &mut all);
        all
    }

    fn page(command: Command) -> String {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).unwrap();
        // Hyphens are escaped, so that they can be copied.
        String::from_utf8(page).unwrap().replace("\\-", "-")
    }

    #[test]
    fn the_pages_name_every_command_and_every_flag() {
        let all = all_commands();
        assert!(all.iter().any(|(name, _)| name == "starfarm-job-explain"), "the walk goes down");
        for (name, command) in all {
            let page = page(command.clone());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let flag = argument.get_long().map(|long| format!("--{long}"));
                let value = argument.get_value_names().unwrap_or_default().join(" ");
                let word = flag.unwrap_or(value);
                assert!(page.contains(&word), "{name} does not tell of {word}:\n{page}");
            }
            for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
                assert!(page.contains(child.get_name()), "{name} does not tell of {}", child.get_name());
            }
        }
    }
}
