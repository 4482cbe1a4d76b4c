//! Which processes belong to which unit: the program's own, which the worker names, and all its descendants. One look at the
//! list of processes serves all units, and reads no more than it must: the list only if there are new ones, and of those that
//! are no unit's, what is known already stands as long as they have their parents.
//!
//! A descendant whose parent has ended is the worker's child from then on. It stays with its unit where it was seen before; else
//! its process group or session, which it shares with others of the unit, or the unit's mark in its environment tells whose it
//! is, in this order: the worker finds those that it has to end by the mark as well.

use std::path::Path;

use starfarm_agent_core::running::{Record, Used};
use starfarm_protocol::running::{Runs, Slot};

use super::family::{Family, Key};
use super::proc::{FILES, Files, Proc, Stat};

/// A process whose mark tells nothing is asked for it so often: its unit may be known a moment later.
const ASKED_MAX: u8 = 2;
/// Ancestors of a process that are looked through: files that make a circle come to an end there.
const ANCESTORS_MAX: usize = 1_000;

/// Files of processes that stay open, at most: this process may have 1 024 where nobody has changed that.
const FILES_MAX: usize = 600;

/// A family's slot and number.
type Member = (usize, u64);

struct Process {
    number: u32,
    stat: Stat,
    io_bytes: Option<u64>,
    /// The unit that it belongs to, or belonged to.
    family: Option<Member>,
    asked: u8,
    /// Those of a unit's that was seen before.
    files: Option<Files>,
}

impl Process {
    /// The same with its files: what is left of it knows what it was.
    fn take(&mut self) -> Self {
        Self { files: self.files.take(), ..*self }
    }
}

/// All processes, and the units that some of them belong to.
pub(super) struct Processes {
    proc: Proc,
    /// The numbers of all, and the newest that there was before they were listed.
    numbers: Vec<u32>,
    newest: Option<u64>,
    /// By number, at this look and at the one before.
    all: Vec<Process>,
    before: Vec<Process>,
    /// By slot.
    families: Vec<Option<Family>>,
    last: u64,
    /// Parents of programs of units: the worker.
    keepers: Vec<u32>,
}

impl Processes {
    pub(super) fn new(proc: &Path) -> Self {
        Self {
            proc: Proc::new(proc),
            numbers: Vec::new(),
            newest: None,
            all: Vec::new(),
            before: Vec::new(),
            families: Vec::new(),
            last: 0,
            keepers: Vec::new(),
        }
    }

    /// Looks at all processes; `anew`: also at those of which enough is known.
    pub(super) fn look(&mut self, anew: bool) {
        let newest = self.proc.newest();
        if newest.is_none() || newest != self.newest {
            if self.proc.processes(&mut self.numbers).is_none() {
                return;
            }
            self.newest = newest;
        }
        std::mem::swap(&mut self.all, &mut self.before);
        self.all.clear();
        let mut files = self.before.iter().filter(|process| process.files.is_some()).count() * FILES;
        let mut known = 0;
        for at in 0..self.numbers.len() {
            let number = self.numbers[at];
            while self.before.get(known).is_some_and(|process| process.number < number) {
                known += 1;
            }
            let known = self.before.get_mut(known).filter(|process| process.number == number);
            let process = match known.map(Process::take) {
                Some(known) if self.is_member(&known) => self.read_member(known, &mut files),
                Some(known) if !anew && self.has_parent(&known) => Some(known),
                known => self.read(number, known),
            };
            self.all.extend(process);
        }
        self.numbers.clear();
        self.numbers.extend(self.all.iter().map(|process| process.number));
        self.lose();
    }

    fn is_member(&self, process: &Process) -> bool {
        process.family.is_some_and(|family| is_current(&self.families, family))
    }

    /// One that has lost its parent has another one.
    fn has_parent(&self, process: &Process) -> bool {
        let parent = process.stat.parent;
        parent == 0 || self.numbers.binary_search(&parent).is_ok()
    }

    /// Reads what a unit's process has used, and keeps its files open where not too many `files` are.
    fn read_member(&mut self, mut known: Process, files: &mut usize) -> Option<Process> {
        if known.files.is_none() && *files < FILES_MAX {
            known.files = self.proc.files(known.number);
            *files += FILES;
        }
        match self.proc.stat(known.number, known.files.as_ref()) {
            Some(stat) if stat.start == known.stat.start => Some(Process { stat, ..known }),
            // It has ended, and another one may have its number.
            _ => self.read(known.number, None),
        }
    }

    fn read(&mut self, number: u32, known: Option<Process>) -> Option<Process> {
        let stat = self.proc.stat(number, None)?;
        let known = known.filter(|known| known.stat.start == stat.start);
        let new = Process { number, stat, io_bytes: None, family: None, asked: 0, files: None };
        Some(known.map_or(new, |known| Process { stat, ..known }))
    }

    /// Members that have ended: what they had used is in the figures of the parent that has waited for them, if that is a
    /// member.
    fn lose(&mut self) {
        let Self { all, before, families, .. } = self;
        for gone in before.iter() {
            let Some(family) = gone.family.and_then(|family| current(families, family)) else { continue };
            let lives = find(all, gone.number).is_some_and(|now| now.stat.start == gone.stat.start);
            let has_parent =
                find(before, gone.stat.parent).is_some_and(|parent| parent.family == gone.family);
            if !lives && !has_parent {
                family.loses(gone.stat.cpu_us, gone.io_bytes);
            }
        }
    }

    /// Says which processes the slots' programs are, and counts what each unit has used.
    pub(super) fn belong_to(&mut self, records: &[Record]) {
        self.families.resize_with(records.len(), || None);
        for (record, family) in records.iter().zip(&mut self.families) {
            let key = match record {
                Ok(Some(Slot { job, unit, runs: Runs::Process(process), .. })) => {
                    Some(Key { job: *job, unit: *unit, process: *process })
                }
                Ok(_) => None,
                // It says nothing, so it is as it was.
                Err(_) => continue,
            };
            if family.as_ref().map(|family| family.key) != key {
                self.last += 1;
                *family = key.map(|key| Family::new(key, self.last));
            }
        }
        if self.families.iter().any(Option::is_some) {
            self.find_programs();
            self.inherit();
            if self.adopt() {
                self.inherit();
            }
            self.count();
        }
    }

    fn find_programs(&mut self) {
        self.keepers.clear();
        for (slot, family) in self.families.iter_mut().enumerate() {
            let Some(family) = family else { continue };
            let at = self.all.binary_search_by_key(&family.key.process, |process| process.number);
            let Some(program) = at.ok().and_then(|at| self.all.get_mut(at)) else { continue };
            let member = Some((slot, family.number));
            if program.family != member {
                // What is known of a process that was no unit's may be old.
                let Some(stat) = self.proc.stat(program.number, None) else { continue };
                program.stat = stat;
            }
            if *family.start.get_or_insert(program.stat.start) == program.stat.start {
                program.family = member;
                if !self.keepers.contains(&program.stat.parent) {
                    self.keepers.push(program.stat.parent);
                }
            }
        }
    }

    /// Descendants belong to the unit of their ancestor.
    fn inherit(&mut self) {
        for at in 0..self.all.len() {
            if self.all[at].family.is_none() {
                self.all[at].family = self.of_ancestor(&self.all[at]);
            }
        }
    }

    fn of_ancestor(&self, process: &Process) -> Option<Member> {
        let mut process = process;
        for _ in 0..ANCESTORS_MAX {
            let parent = find(&self.all, process.stat.parent)?;
            if parent.stat.start > process.stat.start {
                // Another process has got the number of the parent.
                return None;
            }
            if parent.family.is_some() {
                return parent.family;
            }
            process = parent;
        }
        None
    }

    /// Children of the worker that are no programs of units may be descendants of one.
    fn adopt(&mut self) -> bool {
        let mut some = false;
        for at in 0..self.all.len() {
            let process = &self.all[at];
            if process.family.is_none() && self.keepers.contains(&process.stat.parent) {
                let family = self.of_kin(process).or_else(|| self.of_mark(at));
                some |= family.is_some();
                self.all[at].family = family;
            }
        }
        some
    }

    /// The unit of others in its process group or session, if it has one of its own.
    fn of_kin(&self, process: &Process) -> Option<Member> {
        let keeper = find(&self.all, process.stat.parent)?.stat;
        let Stat { group, session, .. } = process.stat;
        let is_kin = |other: &&Process| {
            let in_group = other.stat.group == group && group != keeper.group;
            in_group || other.stat.session == session && session != keeper.session
        };
        let mut families = self.all.iter().filter(is_kin).filter_map(|other| other.family);
        families.find(|family| is_current(&self.families, *family))
    }

    fn of_mark(&mut self, at: usize) -> Option<Member> {
        let process = &mut self.all[at];
        if process.asked == ASKED_MAX {
            return None;
        }
        process.asked += 1;
        let mark = self.proc.mark(process.number)?.to_owned();
        for (slot, family) in self.families.iter_mut().enumerate() {
            let Some(family) = family else { continue };
            let of_unit = family.mark.get_or_insert_with(|| {
                self.proc.mark(family.key.process).map(<[u8]>::to_owned).unwrap_or_default()
            });
            if is_marked(&mark, of_unit) {
                return Some((slot, family.number));
            }
        }
        None
    }

    fn count(&mut self) {
        let Self { proc, all, families, .. } = self;
        families.iter_mut().flatten().for_each(Family::begin);
        for process in all.iter_mut() {
            let Some(family) = process.family.and_then(|family| current(families, family)) else { continue };
            let (number, files) = (process.number, process.files.as_ref());
            let memory_bytes = proc.memory_bytes(number, files);
            process.io_bytes = proc.io_bytes(number, files).or(process.io_bytes);
            family.count(process.stat.cpu_us, memory_bytes, process.io_bytes);
        }
        families.iter_mut().flatten().for_each(Family::end);
    }

    /// What the unit has used whose program runs in this slot.
    pub(super) fn used(&self, slot: usize) -> Used {
        let family = self.families.get(slot).and_then(Option::as_ref);
        family.map_or(Used::default(), Family::used)
    }

    /// CPU time of a thread since its start, in microseconds.
    pub(super) fn thread_cpu_us(&mut self, thread: u32) -> Option<u64> {
        self.proc.thread_cpu_us(thread)
    }
}

fn find(processes: &[Process], number: u32) -> Option<&Process> {
    let at = processes.binary_search_by_key(&number, |process| process.number);
    at.ok().map(|at| &processes[at])
}

/// The family of a member, if its unit still runs.
fn current(families: &mut [Option<Family>], (slot, number): Member) -> Option<&mut Family> {
    families.get_mut(slot)?.as_mut().filter(|family| family.number == number)
}

fn is_current(families: &[Option<Family>], (slot, number): Member) -> bool {
    families.get(slot).and_then(Option::as_ref).is_some_and(|family| family.number == number)
}

/// The mark is that of the unit, or one that a farm inside of the unit has made of it.
fn is_marked(mark: &[u8], of_unit: &[u8]) -> bool {
    let rest = mark.strip_prefix(of_unit).filter(|_| !of_unit.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_its_units_or_of_a_farm_inside_of_it() {
        assert!(is_marked(b"70-12", b"70-12") && is_marked(b"70-12/900-5", b"70-12"));
        for other in [&b"70-1"[..], b"70-123", b"", b"170-12", b"900-5"] {
            assert!(!is_marked(other, b"70-12"), "{}", String::from_utf8_lossy(other));
        }
        assert!(!is_marked(b"70-12", b"") && !is_marked(b"", b""), "a program without a mark");
    }
}
