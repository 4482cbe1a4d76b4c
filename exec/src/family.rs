//! Which children this process has started itself, so that `strays` can tell them from those that it
//! inherits as a subreaper. Every child of the worker has to be started here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError};

use super::collect::collect;
use super::sigmask::Unmasked;

/// The environment variable that marks a child and, by inheritance, all its descendants.
pub const UNIT_VARIABLE: &str = "STARFARM_UNIT";

/// Held for reading while a child is being started: it exists a moment before its number is known.
static STARTING: RwLock<()> = RwLock::new(());
/// The children that have an owner, by their mark's number; no process id until it is known.
static OWNED: Mutex<BTreeMap<u64, Option<u32>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);
/// What all marks that a process gave begin with, from one of them: `OUTER/PID-` of `OUTER/PID-NUMBER`.
pub(super) fn siblings(mark: &[u8]) -> Option<&[u8]> {
    let dash = mark.iter().rposition(|&byte| byte == b'-')?;
    let (prefix, number) = mark.split_at(dash + 1);
    (prefix.len() > 1 && !number.is_empty() && number.iter().all(u8::is_ascii_digit)).then_some(prefix)
}

/// What the marks of this process begin with. It holds the mark this process itself carries, so that a
/// farm can run inside a unit of another farm and neither takes the other's processes for its own.
static PREFIX: LazyLock<Vec<u8>> =
    LazyLock::new(|| prefix(std::env::var_os(UNIT_VARIABLE).as_deref(), std::process::id()));

/// A child and its owner's claim to it. When this is dropped the child should have been waited for:
/// whatever is left of it and its descendants is from then on a stray.
#[derive(Debug)]
pub struct Relative {
    /// The child.
    pub child: Child,
    _claim: Claim,
}

impl Relative {
    /// Collects the ended child and gives up the claim. Blocks until the child has ended.
    ///
    /// # Errors
    /// `ECHILD` if something else has collected it, as the kernel does where SIGCHLD is ignored.
    pub fn wait(mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait()
    }

    /// The same, and the CPU time of it and of those of its descendants that were waited for.
    pub(super) fn collect(self) -> io::Result<(std::process::ExitStatus, std::time::Duration)> {
        collect(&self.child)
    }
}

/// Starts a child that [`reap_strays`](super::reap_strays) leaves to the caller. Its descendants are
/// marked by [`UNIT_VARIABLE`]; it starts with no signal blocked.
///
/// # Errors
/// Those of [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Relative> {
    let claim = Claim::new();
    command.env(UNIT_VARIABLE, mark(&PREFIX, claim.0));
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let _unmasked = Unmasked::new();
    let child = command.spawn()?;
    owned().insert(claim.0, Some(child.id()));
    Ok(Relative { child, _claim: claim })
}

/// The claim to a child's number; it stands before the child exists, so that there is no moment in
/// which a marked process looks ownerless.
#[derive(Debug)]
struct Claim(u64);

impl Claim {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        owned().insert(number, None);
        Self(number)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        owned().remove(&self.0);
    }
}

fn owned() -> MutexGuard<'static, BTreeMap<u64, Option<u32>>> {
    OWNED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn is_owned(pid: u32) -> bool {
    owned().values().any(|&owned| owned == Some(pid))
}

/// Whether `mark` was given by this process to a child that has no owner any more. Marks of other
/// farms, and things that are not marks, are not ours to judge.
pub(super) fn is_ownerless(mark: &[u8]) -> bool {
    number_of(&PREFIX, mark).is_some_and(|number| !owned().contains_key(&number))
}

/// While it is held no child is being started. `None` while one is: an exec may hang for as long as a
/// file server does, and nobody should hang with it.
pub(super) fn hold_starts() -> Option<RwLockWriteGuard<'static, ()>> {
    match STARTING.try_write() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// `OUTER/PID-`, or `PID-` where the process carries no mark itself.
fn prefix(outer: Option<&OsStr>, pid: u32) -> Vec<u8> {
    let mut prefix = outer.map_or(Vec::new(), |outer| [outer.as_bytes(), b"/"].concat());
    prefix.extend_from_slice(format!("{pid}-").as_bytes());
    prefix
}

fn mark(prefix: &[u8], number: u64) -> OsString {
    let digits = number.to_string();
    OsStr::from_bytes(&[prefix, digits.as_bytes()].concat()).to_owned()
}

/// The number in a mark that begins with `prefix`; what a farm inside that unit added is passed over.
fn number_of(prefix: &[u8], mark: &[u8]) -> Option<u64> {
    let rest = mark.strip_prefix(prefix)?;
    let digits = rest.split(|&byte| byte == b'/').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leads_back_to_its_number() {
        let ours = prefix(None, 70);
        assert_eq!(number_of(&ours, mark(&ours, 12).as_bytes()), Some(12));
        assert_eq!(number_of(&ours, b"701-12"), None);
        assert_eq!(number_of(&ours, b"70-"), None);
        assert_eq!(number_of(&ours, b"70-x"), None);
    }

    #[test]
    fn a_mark_tells_those_of_its_siblings() {
        assert_eq!(siblings(b"70-12"), Some(&b"70-"[..]));
        assert_eq!(siblings(b"70-3/900-5"), Some(&b"70-3/900-"[..]));
        for none in [&b""[..], b"-", b"-1", b"70", b"70-", b"70-x", b"70-1/9"] {
            assert_eq!(siblings(none), None, "{}", String::from_utf8_lossy(none));
        }
    }

    #[test]
    fn marks_of_a_farm_inside_a_unit_belong_to_that_unit() {
        let outer = prefix(None, 70);
        let inner = prefix(Some(&mark(&outer, 3)), 900);
        let innermost = mark(&inner, 5);
        assert_eq!(innermost, "70-3/900-5");
        assert_eq!(number_of(&outer, innermost.as_bytes()), Some(3));
        assert_eq!(number_of(&inner, b"70-3"), None);
    }
}
