//! The processes of a run: a scheduler behind the chaos proxy, workers, and the command line. Each is ended
//! by the number that it was given.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use starfarm_chaos::Proxy;

use crate::address::own_address;
use crate::farm::{program, rewritten, worker_args};
use crate::patience::until;
use crate::process::{Daemon, end, run_within};
use crate::reply::Reply;
use crate::temp::TempDir;

/// No command takes longer.
const COMMAND: Duration = Duration::from_secs(300);

/// A farm that can be hurt.
#[derive(Debug)]
pub struct Stage {
    workers: Vec<Option<Daemon>>,
    scheduler: Option<Daemon>,
    /// The bad network; workers know no other address.
    pub proxy: Proxy,
    address: SocketAddr,
    state: PathBuf,
    /// More arguments for the scheduler, and for workers.
    args: [Vec<String>; 2],
    starts: usize,
    /// The scheduler was ended on purpose.
    away: bool,
    started: Instant,
    /// Everything lies here.
    pub dir: TempDir,
}

impl Stage {
    /// A scheduler that is ready, with places for so many workers, and a network that does no harm yet.
    ///
    /// # Panics
    /// It does not come up; so do all below where what they ask for does not come about.
    pub fn set(workers: usize, seed: u64, scheduler_args: &[&str]) -> Self {
        let dir = TempDir::new();
        let state = dir.path().join("farm");
        Self::set_in(dir, state, workers, seed, scheduler_args, &[])
    }

    /// As [`Stage::set`], with the scheduler's state elsewhere and more arguments for workers too.
    pub fn set_in(
        dir: TempDir,
        state: PathBuf,
        workers: usize,
        seed: u64,
        scheduler_args: &[&str],
        worker_args: &[&str],
    ) -> Self {
        let address = own_address();
        let proxy = Proxy::start(address, seed).unwrap_or_else(|error| panic!("no proxy: {error}"));
        let mut stage = Self {
            workers: std::iter::repeat_with(|| None).take(workers).collect(),
            scheduler: None,
            proxy,
            address,
            state,
            args: [scheduler_args, worker_args]
                .map(|args| args.iter().map(|&word| word.to_owned()).collect()),
            starts: 0,
            away: false,
            started: Instant::now(),
            dir,
        };
        stage.start_scheduler();
        until("the scheduler is ready", || stage.is_ready());
        stage
    }

    /// Where the scheduler itself listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The scheduler's state directory.
    pub fn state(&self) -> &PathBuf {
        &self.state
    }

    /// From now on the scheduler's state lies there.
    pub fn set_state(&mut self, state: PathBuf) {
        self.state = state;
    }

    /// The scheduler is started with these flags from now on.
    pub fn set_scheduler_args(&mut self, args: &[&str]) {
        self.args[0] = args.iter().map(|&word| word.to_owned()).collect();
    }

    /// The name of a worker.
    pub fn name(worker: usize) -> String {
        format!("w{worker:02}")
    }

    /// Starts the scheduler, again with the same state and address.
    pub fn start_scheduler(&mut self) {
        let mut command = program("starfarm-scheduler", self.dir.path());
        command.arg("--state").arg(&self.state).args(["--listen", &self.address.to_string()]);
        command.args(["--advertise", &self.proxy.address().to_string()]).args(&self.args[0]);
        self.started = Instant::now();
        self.scheduler = Some(Daemon::start("scheduler", command, self.dir.path()));
        self.starts += 1;
        self.away = false;
    }

    /// Whether the scheduler that was started last has said that it listens.
    pub fn is_ready(&self) -> bool {
        let log = self.scheduler.as_ref().map(Daemon::log).unwrap_or_default();
        log.lines().filter(|line| line.contains(" listens on ")).count() == self.starts
    }

    /// Since the last start of the scheduler.
    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// What all schedulers have said.
    pub fn scheduler_log(&self) -> String {
        self.scheduler.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// The scheduler's process.
    pub fn scheduler(&mut self) -> &mut Daemon {
        self.scheduler.as_mut().expect("the scheduler was started")
    }

    /// Kills the scheduler as a power cut would.
    pub fn kill_scheduler(&mut self) {
        self.scheduler().kill();
        self.away = true;
    }

    /// A worker's process, if it runs.
    pub fn worker(&mut self, worker: usize) -> Option<&mut Daemon> {
        self.workers[worker].as_mut()
    }

    /// Kills a worker as a power cut would, if it runs.
    pub fn kill_worker(&mut self, worker: usize) -> bool {
        match self.workers[worker].take() {
            Some(mut daemon) => {
                daemon.kill();
                true
            }
            None => false,
        }
    }

    /// Starts a worker, again with the same state.
    pub fn start_worker(&mut self, worker: usize) {
        let name = Self::name(worker);
        let join = self.state.join("worker.join");
        let copy = self.dir.path().join("worker.join");
        if !copy.exists() {
            // The scheduler's own file may lie on a disk that is away for a while.
            rewritten(&self.dir, &join, self.proxy.address(), "worker.join");
        }
        let mut command = program("starfarm-worker", self.dir.path());
        command.args(worker_args(&name, &copy, &self.dir.path().join(format!("state-{name}"))));
        command.args(["--slots", "1"]).args(&self.args[1]);
        self.workers[worker] = Some(Daemon::start(&name, command, self.dir.path()));
    }

    /// Starts all workers.
    pub fn start_workers(&mut self) {
        (0..self.workers.len()).for_each(|worker| self.start_worker(worker));
    }

    /// Ends all workers as a user would.
    pub fn end_workers(&mut self) {
        let mut daemons: Vec<Daemon> = self.workers.iter_mut().filter_map(Option::take).collect();
        end(&mut daemons);
    }

    /// Requires that nobody has ended by itself.
    pub fn check_alive(&mut self) {
        let scheduler = self.scheduler.iter_mut().filter(|_| !self.away);
        let daemons = scheduler.chain(self.workers.iter_mut().flatten());
        for daemon in daemons {
            if let Some(code) = daemon.poll() {
                panic!("{daemon:?} has ended by itself with {code}");
            }
        }
    }

    /// Runs a command of the command line.
    pub fn cli(&self, args: &[&str]) -> Reply {
        let mut command = program("starfarm", self.dir.path());
        command.arg("--farm").arg(&self.state).args(args);
        run_within(command, COMMAND)
    }

    /// What a command prints as JSON; it must succeed.
    pub fn ask(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--output", "json"].iter().chain(args).copied().collect();
        self.cli(&args).exits(0).json()
    }

    /// Audits the state directory; returns what the audit prints.
    pub fn audit(&self) -> String {
        self.cli(&["audit", &self.state.to_string_lossy()]).exits(0).stdout.clone()
    }

    /// Submits a job; its number is returned.
    pub fn submit(&self, args: &[&str]) -> String {
        let args: Vec<&str> = ["--output", "quiet", "submit"].iter().chain(args).copied().collect();
        self.cli(&args).exits(0).stdout.trim().to_owned()
    }

    /// A job as it is now.
    pub fn job(&self, id: &str) -> Value {
        self.ask(&["job", "show", id])["jobs"][0].take()
    }

    /// The state of a node; empty where there is none of that name.
    pub fn node_state(&self, name: &str) -> String {
        let nodes = self.ask(&["nodes"])["nodes"].take();
        let node = nodes.as_array().into_iter().flatten().find(|node| node["name"] == name);
        node.and_then(|node| node["state"].as_str()).unwrap_or_default().to_owned()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end_workers();
    }
}
