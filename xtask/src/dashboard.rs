//! The page that a report is made of: npm builds it from `dashboard/`, the repository keeps what comes out, and cargo
//! embeds that. Its checks and tests run here too. A browser looks at a finished report in `tests/e2e`.

use std::path::Path;
use std::process::Command;

use crate::steps::Steps;

/// The folder, below the repository's top.
const FOLDER: &str = "dashboard";
/// What npm leaves.
const BUILT: &str = "dashboard/dist/report.html";
/// What the repository keeps.
const KEPT: &str = "logs/page/report.html";
/// The oldest node that the page is built with.
const NODE_MIN: u32 = 20;

/// Builds the page and keeps it.
pub(crate) fn build(steps: &mut Steps) {
    let root = steps.root();
    // Whoever asks for it wants it: here it is an error that it cannot be built.
    if made(steps, true) {
        steps.run(KEPT, || {
            let copied = std::fs::copy(root.join(BUILT), root.join(KEPT));
            copied.map(|_| ()).map_err(|error| format!("cannot copy {BUILT} to {KEPT}: {error}"))
        });
    }
}

/// Sees that the page is the one that its sources make, checks their types, runs their tests.
pub(crate) fn test(steps: &mut Steps, in_ci: bool) {
    let root = steps.root();
    if made(steps, in_ci) {
        steps.run("the kept page is that of its sources", || agree(&root));
        npm(steps, "run check");
        npm(steps, "test");
    }
}

/// Builds the page; false where it could not be built. Without npm that is an error in CI alone.
fn made(steps: &mut Steps, in_ci: bool) -> bool {
    if let Err(why) = node_will_do() {
        let why = format!(
            "{why}; the report's page is not built from its sources, and the tests of it are skipped"
        );
        steps.run("dashboard", || {
            if in_ci {
                return Err(why);
            }
            println!("{why}");
            Ok(())
        });
        return false;
    }
    let is_fresh = is_installed(&steps.root().join(FOLDER));
    (is_fresh || npm(steps, "ci")) && npm(steps, "run build")
}

/// What was built and what is kept are the same bytes.
fn agree(root: &Path) -> Result<(), String> {
    let read =
        |path: &str| std::fs::read(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"));
    if read(BUILT)? == read(KEPT)? {
        return Ok(());
    }
    Err(format!("{KEPT} is not what {FOLDER}/ makes: run `cargo xtask dashboard` and commit both together"))
}

fn npm(steps: &mut Steps, arguments: &str) -> bool {
    let mut command = Command::new("npm");
    // What is no news is left out: advice to pay, and questions to a server that nobody may reach.
    command.args(["--prefix", FOLDER, "--no-fund", "--no-audit", "--no-update-notifier"]);
    steps.command(&format!("npm {arguments}"), command.args(arguments.split_whitespace()))
}

/// What the lock file names is there: npm notes that in a file of its own, later than the lock file.
fn is_installed(folder: &Path) -> bool {
    let changed = |path: &str| folder.join(path).metadata().and_then(|file| file.modified());
    match (changed("node_modules/.package-lock.json"), changed("package-lock.json")) {
        (Ok(installed), Ok(locked)) => installed >= locked,
        _ => false,
    }
}

fn node_will_do() -> Result<(), String> {
    let cannot = || format!("`node` {NODE_MIN} or newer and `npm` are needed (Debian packages nodejs, npm)");
    let said = |program: &str| {
        let output = Command::new(program).arg("--version").output().map_err(|_| cannot())?;
        String::from_utf8(output.stdout).map_err(|_| cannot())
    };
    said("npm")?;
    let version = said("node")?;
    match major(&version) {
        Some(major) if major >= NODE_MIN => Ok(()),
        _ => Err(format!("{}; here is {}", cannot(), version.trim())),
    }
}

/// 20 of `v20.11.1`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_begins_with_its_major_number() {
        assert_eq!((major("v20.11.1\n"), major("v8"), major("nonsense")), (Some(20), Some(8), None));
    }

    #[test]
    fn a_page_that_its_sources_do_not_make_is_an_error() {
        let root = std::env::temp_dir().join(format!("starfarm-xtask-page-{}", std::process::id()));
        for (path, text) in [(BUILT, "new"), (KEPT, "old")] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        assert!(agree(&root).unwrap_err().contains("cargo xtask dashboard"));
        std::fs::write(root.join(KEPT), "new").unwrap();
        agree(&root).unwrap();
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn modules_older_than_the_lock_file_are_installed_anew() {
        let folder = std::env::temp_dir().join(format!("starfarm-xtask-dashboard-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("node_modules")).unwrap();
        let write = |path: &str, seconds: u64| {
            let file = std::fs::File::create(folder.join(path)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        write("package-lock.json", 20);
        assert!(!is_installed(&folder), "nothing is there");
        write("node_modules/.package-lock.json", 10);
        assert!(!is_installed(&folder), "the lock file has changed");
        write("node_modules/.package-lock.json", 30);
        assert!(is_installed(&folder));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
