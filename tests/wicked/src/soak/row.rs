//! What is told of an attack, and the limits.

use std::fmt;

use crate::attack::Attack;

/// The slowest `status`, in seconds.
const STATUS_SECONDS_MAX: f64 = 1.0;
/// Resident memory of the scheduler, in MiB.
const RESIDENT_MIB_MAX: f64 = 64.0;
/// Share of the honest worker's work.
const SHARE_MIN: f64 = 0.8;
/// Until the right node is blamed, in seconds.
const BLAMED_SECONDS_MAX: f64 = 5.0;

/// An attack, and what it cost.
#[derive(Clone, Debug)]
pub struct Row {
    pub(super) attack: Attack,
    /// Datagrams, contents and handshakes of the wicked worker a second.
    pub(super) messages: f64,
    pub(super) status_seconds: f64,
    pub(super) resident_mib: f64,
    /// The honest worker's work, of what it does unharmed: per second for which it had a core, and per second.
    pub(super) share: f64,
    pub(super) plain_share: f64,
    /// Of a core, what the scheduler used, without and with the attack.
    pub(super) scheduler: (f64, f64),
    /// When the wicked node was blamed, by what words.
    pub(super) blamed: Option<(f64, String)>,
    /// What is wrong beyond figures: the honest node is blamed, hits are wrong, the audit fails.
    pub(super) wrong: Vec<String>,
}

impl Row {
    /// The head of a table.
    pub const HEAD: &str = "| attack | messages/s | slowest `status`, s | RSS, MiB | honest work, % (plain) | scheduler, % of a core (before) | blamed after, s |\n| --- | --- | --- | --- | --- | --- | --- |";

    /// What broke a limit, in words.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = self.wrong.clone();
        let mut limit = |is_broken, what: &str| {
            if is_broken {
                broken.push(format!("{}: {what}", self.attack.name()));
            }
        };
        limit(self.status_seconds > STATUS_SECONDS_MAX, "`status` is slow");
        limit(self.resident_mib > RESIDENT_MIB_MAX, "the scheduler takes too much memory");
        limit(self.share < SHARE_MIN, "the honest worker is held up");
        let is_late = self.blamed.as_ref().is_none_or(|(seconds, _)| *seconds > BLAMED_SECONDS_MAX);
        limit(self.attack.is_told_of() && is_late, "the wicked node is not blamed in time");
        broken
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, status_seconds, resident_mib, share, plain_share, scheduler, .. } = self;
        write!(f, "| {} | {messages:.0} ", self.attack.name())?;
        write!(f, "| {status_seconds:.2} | {resident_mib:.1} ")?;
        write!(f, "| {:.0} ({:.0}) ", share * 100.0, plain_share * 100.0)?;
        write!(f, "| {:.0} ({:.0}) ", scheduler.1 * 100.0, scheduler.0 * 100.0)?;
        match &self.blamed {
            Some((seconds, why)) => write!(f, "| {seconds:.1}: {why} |"),
            None if self.attack.is_told_of() => write!(f, "| never |"),
            None => write!(f, "| - |"),
        }
    }
}
