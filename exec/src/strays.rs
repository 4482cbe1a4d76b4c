//! Descendants of ended units that have escaped their process group (setsid, daemons): as a subreaper
//! this process inherits them, finds them by their mark and ends them. Children that have an owner,
//! and descendants of units that still run, are left alone.
//!
//! Out of reach: a process that has cleared or overwritten its environment (`env -i`, daemons that set
//! their title). It lives on as our child until it ends, and is collected then.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid,
};

use super::{family, pipes};

/// The kernel's list of the main thread's children, kept open: one read tells whether there are any.
/// Orphans go to the first living thread of a subreaper, and the main thread lives as long as we do.
static MAIN_CHILDREN: OnceLock<File> = OnceLock::new();

/// How often to look again: the children of a stray become ours when it dies.
const ROUNDS_MAX: usize = 16;
/// How long to wait for killed strays to be gone.
const DEATH_MAX: Duration = Duration::from_millis(100);

/// Makes this process the parent of all its orphaned descendants, for good; from then on every
/// [`run`](super::run) clears them away when it ends. To be called once, at the start of a worker, which
/// must start its children by [`spawn`](super::spawn) or [`run`](super::run) only.
///
/// # Errors
/// The kernel is older than Linux 5.3 or built without `CONFIG_PROC_CHILDREN`, or /proc is not mounted.
/// Then nothing has changed: programs run as well, but those that leave their process group stay.
pub fn become_subreaper() -> io::Result<()> {
    let pid = getpid();
    let children = File::open(format!("/proc/self/task/{pid}/children"))?;
    pidfd_open(pid, PidfdFlags::empty())?;
    set_child_subreaper(Some(pid))?;
    // A second call finds the file of the first, which is the same.
    let _ = MAIN_CHILDREN.set(children);
    Ok(())
}

/// Ends and collects what ended units have left behind, and collects orphans that ended by themselves.
/// Returns how many processes it has killed. Does nothing before [`become_subreaper`].
///
/// Costs one read where there are no orphans. Else it waits for those it kills, and for what they leave
/// behind in turn, but not for one that KILL does not end within 0.1 s; what it misses the next call
/// finds. [`run`](super::run) calls it; call it now and then while units run for
/// long, or their ended orphans pile up.
pub fn reap_strays() -> usize {
    let mut killed = 0;
    for _ in 0..ROUNDS_MAX {
        let orphans = orphans();
        if orphans.is_empty() {
            break;
        }
        let strays: Vec<OwnedFd> = orphans.into_iter().filter_map(kill_if_stray).collect();
        killed += strays.len();
        let gone = bury(&strays);
        collect_ended();
        if strays.is_empty() || !gone {
            break;
        }
    }
    killed
}

/// Children of ours that have no owner. One that is just being started may be among them.
fn orphans() -> Vec<Pid> {
    let Some(children) = MAIN_CHILDREN.get() else { return Vec::new() };
    let listed = read_list(children).unwrap_or_default();
    let pids = listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
    pids.filter(|pid| !family::is_owned(pid.unsigned_abs())).filter_map(Pid::from_raw).collect()
}

fn read_list(file: &File) -> io::Result<String> {
    let mut list = Vec::new();
    let mut piece = [0; 1024];
    loop {
        match file.read_at(&mut piece, list.len() as u64)? {
            0 => return Ok(String::from_utf8_lossy(&list).into_owned()),
            read => list.extend_from_slice(&piece[..read]),
        }
    }
}

/// Kills `pid` if it belongs to an ended unit. The pidfd comes first: should `pid` become another
/// process while its environment is read, the signal finds nobody.
fn kill_if_stray(pid: Pid) -> Option<OwnedFd> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    if !family::is_ownerless(&mark_of(pid)?) {
        return None;
    }
    pidfd_send_signal(&pidfd, Signal::KILL).ok().map(|()| pidfd)
}

/// The mark of a process, if it carries one and we may see it.
pub(super) fn mark_of(pid: Pid) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    variable(&environment, family::UNIT_VARIABLE).map(<[u8]>::to_vec)
}

/// The value of `name` in an environment as the kernel shows it: `NAME=VALUE` entries, each ended by NUL.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let entries = environment.split(|&byte| byte == 0);
    entries.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next()
}

/// Waits for killed processes and collects them; false if some are still there after [`DEATH_MAX`].
fn bury(killed: &[OwnedFd]) -> bool {
    let until = Instant::now() + DEATH_MAX;
    killed.iter().all(|pidfd| {
        let mut ended = PollFlags::empty();
        while ended.is_empty() && Instant::now() < until {
            [ended] = pipes::wait([Some(pidfd.as_fd())], Some(until));
        }
        // Another slot's call may have collected it already.
        let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        !ended.is_empty()
    })
}

/// Collects orphans that have ended. An ended process shows no mark, so that this rests on knowing every
/// child that has an owner: not while one is being started.
fn collect_ended() {
    let Some(_no_starts) = family::hold_starts() else { return };
    for pid in orphans() {
        // One that lives stays.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"XSTARFARM_UNIT=1\0STARFARM_UNITS=2\0STARFARM_UNIT=70-3\0A=\0";
        assert_eq!(variable(environment, "STARFARM_UNIT"), Some(&b"70-3"[..]));
        assert_eq!(variable(environment, "A"), Some(&b""[..]));
        assert_eq!(variable(b"", "A"), None);
    }
}
