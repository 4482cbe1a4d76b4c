//! Errors that somebody counts: the kernel those of memory (EDAC) and of network interfaces.

use std::path::{Path, PathBuf};

use starfarm_protocol::link::AlarmLevel;

use super::super::source::Source;
use super::super::text::{self, lines, words};
use super::found::{Found, Look};

/// All is well again so long after the last error.
const QUIET_US: u64 = 600_000_000;
/// Errors of an interface between two looks that are too many.
const LINK_ERRORS: u64 = 10;

/// The number in a file.
pub(super) fn number(path: &Path) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Folders of a folder whose names begin so, in order.
pub(super) fn folders(of: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(of) else { return Vec::new() };
    let named = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    };
    let mut all: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(named).collect();
    all.sort_unstable();
    all
}

/// Errors that something counts: corrected ones, and others.
#[derive(Default)]
pub(super) struct Errors {
    /// As they were counted last, and when the last of each came.
    counted: Option<[u64; 2]>,
    last_us: [Option<u64>; 2],
}

impl Errors {
    /// So many are counted now; `text` says how many those are, and of which kind. Nothing at the first look, which has nothing
    /// before it.
    pub(super) fn look(
        &mut self,
        counted: [u64; 2],
        now_us: u64,
        text: impl Fn(u64, &str) -> String,
    ) -> Option<Found> {
        let before = self.counted.replace(counted)?;
        for at in 0..2 {
            if counted[at] > before[at] {
                self.last_us[at] = Some(now_us);
            }
        }
        let is_recent = |at: usize| self.last_us[at].is_some_and(|last_us| last_us + QUIET_US > now_us);
        Some(if is_recent(1) {
            Found::bad(AlarmLevel::Critical, counted[1] as f64, text(counted[1], "not corrected"))
        } else if is_recent(0) {
            Found::bad(AlarmLevel::Warning, counted[0] as f64, text(counted[0], "corrected"))
        } else {
            Found::well()
        })
    }
}

pub(super) struct MemoryErrors {
    folder: PathBuf,
    errors: Errors,
}

impl MemoryErrors {
    pub(super) fn new(sys: &Path) -> Self {
        Self { folder: sys.join("devices/system/edac/mc"), errors: Errors::default() }
    }

    fn count(&self) -> Option<[u64; 2]> {
        let controllers = folders(&self.folder, "mc");
        let sum = |name: &str| -> Option<u64> {
            let counts = controllers.iter().filter_map(|folder| number(&folder.join(name))?.try_into().ok());
            counts.reduce(|a: u64, b| a.saturating_add(b))
        };
        Some([sum("ce_count")?, sum("ue_count")?])
    }
}

impl Look for MemoryErrors {
    fn sensor(&self) -> &'static str {
        "memory-errors"
    }

    fn look(&mut self, _: Option<AlarmLevel>, now_us: u64) -> Option<Found> {
        let text =
            |count: u64, kind: &str| format!("{count} errors of memory, {kind}, since the machine started");
        self.errors.look(self.count()?, now_us, text)
    }
}

pub(super) struct LinkErrors {
    dev: Source,
    counted: Vec<(Vec<u8>, u64)>,
}

impl LinkErrors {
    pub(super) fn new(proc: &Path) -> Self {
        Self { dev: Source::new(proc, "net/dev"), counted: Vec::new() }
    }
}

/// An interface, and its errors both ways.
fn errors(line: &[u8]) -> Option<(Vec<u8>, u64)> {
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let mut columns = words(&line[colon + 1..]).map(text::number);
    let errors = columns.nth(2)??.saturating_add(columns.nth(7)??);
    Some((line[..colon].trim_ascii().to_vec(), errors))
}

impl Look for LinkErrors {
    fn sensor(&self) -> &'static str {
        "link-errors"
    }

    fn look(&mut self, was: Option<AlarmLevel>, _: u64) -> Option<Found> {
        let counted: Vec<_> = lines(self.dev.read()?).filter_map(errors).collect();
        let before = std::mem::replace(&mut self.counted, counted);
        let more = self.counted.iter().filter_map(|(name, errors)| {
            let known = before.iter().find(|(of, _)| of == name)?.1;
            Some((errors.checked_sub(known)?, name))
        });
        let (most, name) = more.max()?;
        // One that has them still has them, if fewer.
        let bad = if was.is_some() { 1 } else { LINK_ERRORS };
        if most < bad {
            return Some(Found::well());
        }
        let name = String::from_utf8_lossy(name);
        let text = format!("{most} errors of the network interface {name} since the last look");
        Some(Found::bad(AlarmLevel::Warning, most as f64, text))
    }
}
