//! An agent's process: what it is told and what it says.

use std::io::{self, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use starfarm_agent::OwnFile;
use starfarm_agent::words::{ALIVE, ALIVE_US, Begin, FromAgent, ToAgent, line};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::devices::{HostWork, Said, Watcher};
use crate::say::say as tell_person;

/// An agent that does not even say that it lives for so long hangs, as in a module of somebody's: it is killed.
const HANGS: Duration = Duration::from_secs(30);
const _: () = assert!(HANGS.as_micros() as u64 >= 10 * ALIVE_US);

/// So long the check of a file may take whose modules have to be loaded for it.
const CHECK: Duration = Duration::from_secs(10);

/// Whose code runs in an agent beside ours, in words.
fn suspects(file: &OwnFile) -> String {
    let libraries = file.libraries();
    let of = file.path.display();
    if libraries.is_empty() { String::new() } else { format!("; {of} has it run {}", libraries.join(", ")) }
}

/// Reads and checks the file of a node's own agent. Its modules are loaded by a child process: one that crashes takes nothing
/// with it.
///
/// # Errors
/// No agent can do what it says; where, and why.
pub(crate) fn read_file(path: &Path) -> Result<OwnFile, String> {
    let file = OwnFile::read(path).map_err(|error| error.to_string())?;
    if file.libraries().is_empty() {
        file.check().map_err(|error| error.to_string())?;
    } else {
        check_elsewhere(&file)?;
    }
    Ok(file)
}

fn check_elsewhere(file: &OwnFile) -> Result<(), String> {
    let no = |error: io::Error| format!("{}: it cannot be checked: {error}", file.path.display());
    let mut watcher = Watcher::start(HostWork::AgentFile).map_err(no)?;
    watcher.take_input().write_all(&line(file)).map_err(no)?;
    let checked: Option<Result<(), String>> = match watcher.next(CHECK) {
        Said::Line(said) => serde_json::from_slice(&said).ok(),
        Said::Nothing | Said::Ended => None,
    };
    checked.unwrap_or_else(|| {
        let how = watcher.fault().unwrap_or_else(|| "it has ended".to_owned());
        let (of, suspects) = (file.path.display(), suspects(file));
        Err(format!("{of}: the process that was to check it has not said what came of it: {how}{suspects}"))
    })
}

/// An agent's process. Once this is dropped it ends.
pub struct AgentProcess {
    pid: u32,
    /// What it is to be told next: the newest is enough.
    to: (Sender<ToAgent>, Receiver<ToAgent>),
    /// Until this is dropped.
    is_wanted: Arc<AtomicBool>,
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Release);
    }
}

impl AgentProcess {
    /// Starts it: this same program, whose `main` calls [`crate::host_if_asked`]. A thread hands all that it says to `say`, and
    /// nothing at its end, until `say` is false.
    ///
    /// # Errors
    /// The system's.
    pub fn start(begin: Begin, say: impl Fn(Option<FromAgent>) -> bool + Send + 'static) -> io::Result<Self> {
        let mut watcher = Watcher::start(HostWork::Agent)?;
        let mut to = watcher.take_input();
        let suspects = begin.file.as_ref().map(suspects).unwrap_or_default();
        to.write_all(&line(&ToAgent::Begin(begin)))?;
        let pid = watcher.pid();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        let hear = move || {
            if !hear_all(|| watcher.next(HANGS), &say) {
                return;
            }
            let fault = watcher.fault().filter(|_| wanted.load(Ordering::Acquire));
            // What its services have left behind is nobody's from here on.
            starfarm_exec::reap_strays();
            if say(None)
                && let Some(how) = fault
            {
                tell_person(&format!("the agent (process {pid}) has ended: {how}{suspects}"));
            }
        };
        std::thread::Builder::new().name("agent".into()).spawn(hear)?;
        let (words, to_say) = bounded(1);
        let newest = (words, to_say.clone());
        std::thread::Builder::new().name("to agent".into()).spawn(move || tell_all(&to_say, to))?;
        Ok(Self { pid, to: newest, is_wanted })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells it something, in place of what it has not been told yet. Nobody waits for an agent that does not listen.
    ///
    /// # Errors
    /// It has gone.
    pub fn tell(&mut self, word: ToAgent) -> io::Result<()> {
        let (words, waiting) = &self.to;
        let mut word = word;
        loop {
            match words.try_send(word) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(newer)) => {
                    drop(waiting.try_recv());
                    word = newer;
                }
                Err(TrySendError::Disconnected(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

/// Tells an agent what comes in, until it has gone or is not wanted any more.
fn tell_all(words: &Receiver<ToAgent>, mut to: ChildStdin) {
    while let Ok(word) = words.recv() {
        if to.write_all(&line(&word)).is_err() {
            return;
        }
    }
}

/// Hands on all that an agent says, until it ends, hangs, or says what nobody understands; whether somebody still listens.
fn hear_all(mut next: impl FnMut() -> Said, say: impl Fn(Option<FromAgent>) -> bool) -> bool {
    while let Said::Line(said) = next() {
        if said == line(&ALIVE) {
            continue;
        }
        let Ok(word) = serde_json::from_slice(&said) else { return true };
        if !say(Some(word)) {
            return false;
        }
    }
    true
}
