//! Manual pages and completions as files, for who installs or packages `starfarm`. The program makes them itself,
//! from the definitions of its command line; nothing of it is kept in the repository.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::steps::{Steps, cargo, succeed};

/// A shell, and the name under which it looks for what completes `starfarm`.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "starfarm.bash"), ("zsh", "_starfarm"), ("fish", "starfarm.fish")];

/// Writes all of them into `out`.
pub(crate) fn write(steps: &mut Steps, out: &Path) {
    let out = out.to_owned();
    let root = steps.root();
    let starfarm = || -> Command {
        let mut command = cargo();
        command.current_dir(&root).args(["run", "--quiet", "-p", "starfarm", "--"]);
        command
    };
    steps.run("man", || {
        // The program may run elsewhere.
        let out = std::path::absolute(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        succeed(starfarm().arg("man").arg("--out").arg(&out))?;
        for (shell, name) in COMPLETIONS {
            let path = out.join(name);
            let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            succeed(starfarm().args(["completions", shell]).stdout(file))?;
        }
        println!("written into {}", out.display());
        Ok(())
    });
}
