//! A scheduler and its workers, in a directory of their own, and commands to them.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::address::own_address;
use crate::binaries::binary;
use crate::patience::{until, until_some};
use crate::process::{Daemon, end, run};
use crate::reply::Reply;
use crate::skip::skip;
use crate::temp::TempDir;

/// A farm. Dropping it ends its workers, then its scheduler, then removes its directory.
#[derive(Debug)]
pub struct Farm {
    /// Its workers, in the order in which they were started.
    pub workers: Vec<Daemon>,
    /// Its scheduler.
    pub scheduler: Daemon,
    address: SocketAddr,
    dir: TempDir,
    /// What its scheduler is told at each start, beside where it is.
    args: Vec<String>,
    namespace: Option<String>,
}

impl Farm {
    /// A scheduler without workers.
    ///
    /// # Panics
    /// It does not come up; so do all below where what they ask for does not come about.
    pub fn start() -> Self {
        Self::start_in(None, own_address())
    }

    /// A scheduler that is told this at each start.
    pub fn start_with(args: &[&str]) -> Self {
        Self::start_so(None, own_address(), args.iter().map(ToString::to_string).collect())
    }

    /// A scheduler in a network namespace, if one is named, that listens on `address`.
    pub fn start_in(namespace: Option<&str>, address: SocketAddr) -> Self {
        Self::start_so(namespace, address, Vec::new())
    }

    /// One of both kinds.
    pub fn start_so(namespace: Option<&str>, address: SocketAddr, args: Vec<String>) -> Self {
        let dir = TempDir::new();
        let scheduler = start_scheduler(&dir, namespace, address, &args);
        let join = dir.path().join("farm/worker.join");
        let address = until_some("the scheduler writes worker.join", || address_in(&join));
        let namespace = namespace.map(str::to_owned);
        let farm = Self { workers: Vec::new(), scheduler, address, dir, args, namespace };
        until("the scheduler answers", || farm.answers());
        farm
    }

    /// A scheduler and workers `w1`, `w2` ... of so many slots, all of them up.
    pub fn with_workers(count: usize, slots: usize) -> Self {
        let mut farm = Self::start();
        for number in 1..=count {
            farm.add_worker(&format!("w{number}"), &["--slots", &slots.to_string()]);
        }
        farm.until_nodes_up(count);
        farm
    }

    fn answers(&self) -> bool {
        self.cli(&["status", "--output", "quiet"]).code == 0
    }

    /// Where the scheduler listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A directory for whatever the test needs.
    pub fn temp(&self) -> &TempDir {
        &self.dir
    }

    /// A shell command that ends only when the test is over: nothing that a test leaves behind by mistake
    /// stays for long.
    pub fn forever(&self) -> String {
        format!("while test -d {}; do sleep 0.05; done", self.dir.path().display())
    }

    /// A shell script that writes each unit into the file `log`; from unit `gate` on it waits until [`Farm::open_gate`],
    /// so that what a test does between comes neither too early nor too late, however slow the machine is.
    pub fn gated(&self, log: &Path, gate: u32) -> String {
        let (dir, log) = (self.dir.path().display(), log.display());
        format!(
            "echo {{}} >> {log}; \
             while test {{}} -ge {gate} && test -d {dir} && ! test -e {dir}/gate; do sleep 0.01; done; sleep 0.02"
        )
    }

    /// Lets the programs of [`Farm::gated`] go on.
    pub fn open_gate(&self) {
        self.dir.write("gate", "");
    }

    /// The scheduler's state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("farm")
    }

    /// The state directory of the worker with that name.
    pub fn worker_state(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("state-{name}"))
    }

    /// Kills the scheduler as a power cut would.
    pub fn kill_scheduler(&mut self) {
        self.scheduler.kill();
    }

    /// Starts the scheduler again in the same directory, at the same address.
    pub fn restart_scheduler(&mut self) {
        let namespace = self.namespace.as_deref();
        self.scheduler = start_scheduler(&self.dir, namespace, self.address, &self.args);
        until("the scheduler answers", || self.answers());
    }

    /// Starts a worker with the farm's own join file.
    pub fn add_worker(&mut self, name: &str, args: &[&str]) -> &mut Daemon {
        let join = self.state().join("worker.join");
        self.add_worker_by(name, &join, args)
    }

    /// Starts a worker with another join file.
    pub fn add_worker_by(&mut self, name: &str, join: &Path, args: &[&str]) -> &mut Daemon {
        self.add_worker_in(None, name, join, args)
    }

    /// Starts a worker in a network namespace, if one is named.
    pub fn add_worker_in(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        join: &Path,
        args: &[&str],
    ) -> &mut Daemon {
        let mut command = program_in(namespace, "starfarm-worker", self.dir.path());
        command.args(worker_args(name, join, &self.worker_state(name))).args(args);
        self.workers.push(Daemon::start(name, command, self.dir.path()));
        self.workers.last_mut().expect("one was just added")
    }

    /// A copy of one of the farm's join files, `worker.join` or `admin.join`, that names another address.
    pub fn join_file_at(&self, name: &str, address: SocketAddr) -> PathBuf {
        rewritten(&self.dir, &self.state().join(name), address, &format!("at-{}.join", address.port()))
    }

    /// Runs a command of the command line on this farm.
    pub fn cli<S: AsRef<OsStr>>(&self, args: &[S]) -> Reply {
        self.cli_by(&self.state(), args)
    }

    /// Runs a command by another way: a join file.
    pub fn cli_by<S: AsRef<OsStr>>(&self, farm: &Path, args: &[S]) -> Reply {
        let mut command = program("starfarm", self.dir.path());
        command.arg("--farm").arg(farm).args(args);
        run(command)
    }

    /// What a command prints as JSON; it must succeed.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--output", "json"].iter().chain(args).copied().collect();
        self.cli(&args).exits(0).json()
    }

    /// `starfarm monitor follow` with these arguments, beside the test: it prints lines of JSON.
    pub fn follow(&self, name: &str, args: &[&str]) -> Daemon {
        let mut command = program("starfarm", self.temp().path());
        command.arg("--farm").arg(self.state()).args(["--output", "jsonl", "monitor", "follow"]).args(args);
        Daemon::start(name, command, self.temp().path())
    }

    /// Submits a job by the command line; returns its number.
    #[track_caller]
    pub fn submit(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["--output", "quiet", "submit"].iter().chain(args).copied().collect();
        let reply = self.cli(&args);
        let id = reply.exits(0).stdout.trim();
        assert!(id.parse::<u64>().is_ok(), "the id alone: {:?}", reply.stdout);
        id.to_owned()
    }

    /// Submits a job file with this text; returns its number.
    #[track_caller]
    pub fn submit_text(&self, text: &str) -> String {
        let path = self.dir.write("job.toml", text);
        self.submit(&[&path.to_string_lossy()])
    }

    /// Waits for a job's end.
    pub fn wait(&self, id: &str) -> Reply {
        // Less than GUARD: a job that hangs is told as such, with the farm's own words.
        self.cli(&["job", "wait", id, "--timeout", "110"])
    }

    /// A job as it is now.
    #[track_caller]
    pub fn job(&self, id: &str) -> Value {
        self.ask(&["job", "show", id])["jobs"][0].take()
    }

    /// Waits until a job's field has that value.
    #[track_caller]
    pub fn until_job(&self, id: &str, key: &str, value: &str) {
        until(&format!("job {id} has {key} = {value}"), || self.job(id)[key] == value);
    }

    /// A job's results.
    #[track_caller]
    pub fn results(&self, id: &str) -> Value {
        self.ask(&["results", id])
    }

    /// The online figures.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.ask(&["status"])
    }

    /// What the farm's log has of that kind of event.
    #[track_caller]
    pub fn logged(&self, kind: &str) -> Vec<Value> {
        let log = self.state().join("log");
        let reply = self.cli(&["log", "export", &log.to_string_lossy(), "--format", "jsonl"]);
        let lines = reply.exits(0).stdout.lines();
        let entries = lines.map(|line| serde_json::from_str::<Value>(line).expect("each line is JSON"));
        entries.filter(|entry| entry["event"] == kind).collect()
    }

    /// The state of a node; empty where there is none of that name.
    #[track_caller]
    pub fn node_state(&self, name: &str) -> String {
        let nodes = self.ask(&["nodes"])["nodes"].take();
        let node = nodes.as_array().into_iter().flatten().find(|node| node["name"] == name);
        node.and_then(|node| node["state"].as_str()).unwrap_or_default().to_owned()
    }

    /// Whatever a test does to a farm, its log can be read and fits the schema.
    fn check_log(&self) {
        let log = self.state().join("log");
        let Ok(files) = std::fs::read_dir(&log) else { return };
        let mut validate = program("starfarm", self.dir.path());
        validate.args(["log", "validate"]).arg(&log);
        run(validate).exits(0);
        let closed = files.map(|file| file.expect("a folder of ours").path());
        let closed: Vec<PathBuf> =
            closed.filter(|path| path.extension().is_some_and(|end| end == "xml")).collect();
        let mut lint = Command::new("xmllint");
        lint.args(["--noout", "--schema"]).arg(schema()).args(&closed);
        match lint.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success() || closed.is_empty(),
                    "a log that does not fit its schema: {said}"
                );
            }
            Err(error) => skip("xmllint", "the schema's part of a farm's log check", &error.to_string()),
        }
    }

    /// Waits until a node has that state.
    #[track_caller]
    pub fn until_node(&self, name: &str, state: &str) {
        until(&format!("node {name} is {state}"), || self.node_state(name) == state);
    }

    /// Waits until a node whose machine is cut off is suspect, or lost already: where the members of the tree miss it too,
    /// a suspect node may be lost before anybody looks.
    #[track_caller]
    pub fn until_node_missed(&self, name: &str) {
        until(&format!("node {name} is missed"), || {
            ["suspect", "lost"].contains(&self.node_state(name).as_str())
        });
    }

    /// Waits until so many nodes are up.
    #[track_caller]
    pub fn until_nodes_up(&self, count: usize) {
        until(&format!("{count} nodes are up"), || {
            let nodes = self.ask(&["nodes"])["nodes"].take();
            let up = nodes.as_array().into_iter().flatten().filter(|node| node["state"] == "up");
            up.count() == count
        });
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        end(&mut self.workers);
        self.scheduler.finish();
        if !std::thread::panicking() {
            self.check_log();
        }
    }
}

/// The schema of the log.
fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../logs/schema/starfarm-log-1.xsd")
}

/// The arguments of a worker.
pub fn worker_args(name: &str, join: &Path, state: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let args = ["--name".into(), name.into(), "--join".into(), text(join), "--state".into(), text(state)];
    args.to_vec()
}

/// A command for a program of ours, with nothing of the user's own settings and its homes below `dir`.
pub fn program(name: &str, dir: &Path) -> Command {
    program_in(None, name, dir)
}

fn program_in(namespace: Option<&str>, name: &str, dir: &Path) -> Command {
    let mut command = match namespace {
        None => Command::new(binary(name)),
        Some(namespace) => {
            let mut command = Command::new("ip");
            // Machines share no memory either; by that they are told apart.
            let alone = "mount -t tmpfs none /dev/shm && exec \"$@\"";
            command.args(["netns", "exec", namespace, "sh", "-c", alone, "sh"]).arg(binary(name));
            command
        }
    };
    for name in ["FARM", "OUTPUT", "STATE", "JOIN"] {
        command.env_remove(format!("STARFARM_{name}"));
    }
    command.env("HOME", dir).env("XDG_STATE_HOME", dir.join("xdg-state"));
    command.env("XDG_CONFIG_HOME", dir.join("xdg-config")).env("XDG_CACHE_HOME", dir.join("xdg-cache"));
    command.env("NO_COLOR", "1");
    command
}

fn start_scheduler(dir: &TempDir, namespace: Option<&str>, listen: SocketAddr, args: &[String]) -> Daemon {
    let mut command = program_in(namespace, "starfarm-scheduler", dir.path());
    command.arg("--state").arg(dir.path().join("farm")).args(["--listen", &listen.to_string()]);
    command.args(args);
    Daemon::start("scheduler", command, dir.path())
}

/// The first address of a join file, once it is there.
fn address_in(join: &Path) -> Option<SocketAddr> {
    let file: Value = serde_json::from_slice(&std::fs::read(join).ok()?).ok()?;
    file["addresses"][0].as_str()?.parse().ok()
}

/// A copy, with that name, of a join file that names another address.
pub(crate) fn rewritten(dir: &TempDir, join: &Path, address: SocketAddr, name: &str) -> PathBuf {
    let text = std::fs::read(join).unwrap_or_else(|error| panic!("{}: {error}", join.display()));
    let mut file: Value =
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("no join file: {error}"));
    file["addresses"] = Value::from(vec![address.to_string()]);
    let copy = dir.write(name, file.to_string());
    // It holds a secret; the programs warn of one that others can read.
    let private = std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o600));
    private.unwrap_or_else(|error| panic!("{}: {error}", copy.display()));
    copy
}
