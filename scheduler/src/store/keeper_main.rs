//! What a process does that was started by `keeper`: its work by its arguments, its words on standard error.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use starfarm_protocol::ids::FarmId;

use crate::guard;
use crate::store::checkpoint;
use crate::store::journal::Retirer;
use crate::store::keeper::{PASSING, RETIRE, SAVE, Trouble};

/// For the first line of a `main` whose scheduler has [`keeper_process`](crate::Options::keeper_process): where this
/// process was started to save a checkpoint or to rewrite old segments, does so and says with what code to end.
pub fn keep_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let work = arguments.next().filter(|work| work == SAVE || work == RETIRE)?;
    let arguments: Vec<OsString> = arguments.collect();
    Some(match keep(&work, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble { words, passing }) => {
            starfarm_net::say(&words);
            if passing { PASSING.into() } else { ExitCode::FAILURE }
        }
    })
}

fn keep(work: &OsStr, arguments: &[OsString]) -> Result<(), Trouble> {
    let [parent, sequence, dir, rest @ ..] = arguments else { return Err("arguments are missing".into()) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse().ok());
    let (Some(parent), Some(sequence)) = (number(parent), number(sequence)) else {
        return Err("an argument is no number".into());
    };
    // A scheduler that was killed and started again must not meet us.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    if getppid().map(|pid| pid.as_raw_nonzero().get() as u64) != Some(parent) {
        return Err("the scheduler is gone".into());
    }
    guard::abort_on_panic();
    if work == RETIRE {
        let farm = rest.first().and_then(|farm| farm.to_str()).ok_or("the farm is missing")?;
        let farm: FarmId = farm.parse().map_err(|e: String| Trouble::from(e.as_str()))?;
        return Retirer::new(dir.into(), farm).retire(sequence);
    }
    let mut state = Vec::new();
    io::stdin().lock().read_to_end(&mut state)?;
    checkpoint::write_guarded(Path::new(dir), sequence, &state)
}
