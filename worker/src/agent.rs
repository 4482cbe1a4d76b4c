//! An agent's process: what it is told and what it says.

use std::io::{self, Write};
use std::process::ChildStdin;
use std::time::Duration;

use starfarm_agent::words::{Begin, FromAgent, ToAgent, line};

use crate::devices::{HostWork, Watcher};

/// A thread that hears an agent looks so often whether that is still wanted.
const LOOK: Duration = Duration::from_secs(3_600);

/// An agent's process. Once this is dropped it ends.
pub struct AgentProcess {
    pid: u32,
    to: ChildStdin,
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
        to.write_all(&line(&ToAgent::Begin(begin)))?;
        let pid = watcher.pid();
        let hear = move || {
            while let Some(said) = watcher.next(LOOK) {
                let Ok(word) = serde_json::from_slice(&said) else { break };
                if !say(Some(word)) {
                    return;
                }
            }
            // What its services have left behind is nobody's from here on.
            drop(watcher);
            starfarm_exec::reap_strays();
            say(None);
        };
        std::thread::Builder::new().name("agent".into()).spawn(hear)?;
        Ok(Self { pid, to })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells it something.
    ///
    /// # Errors
    /// It has gone.
    pub fn tell(&mut self, word: &ToAgent) -> io::Result<()> {
        self.to.write_all(&line(word))
    }
}
