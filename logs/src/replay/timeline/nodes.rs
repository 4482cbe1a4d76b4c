//! All nodes of a log, by name, and how many of them have room in a report.

use std::cmp::Ordering;
use std::collections::HashMap;

use starfarm_events::{Event, Name, NodeInfo};

use super::bins::Axis;
use super::node::NodeLine;
use super::shown::Shown;

/// Nodes that are followed at most; more than a picture has room for.
pub(crate) const NODES_MAX: usize = 4_096;
/// Further nodes that are counted at most.
const OTHERS_MAX: usize = 200_000;
/// Changes of states that are kept at most, of all nodes.
const CHANGES_MAX: usize = 200_000;

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_name: HashMap<Name, usize>,
    pub(crate) all: Vec<NodeLine>,
    /// Changes at most, since the last look.
    changes: usize,
    /// Spells shorter than this are left out.
    pub(crate) least_us: u64,
    /// Slots of nodes that are not followed, for lack of room.
    others: HashMap<Name, u16>,
}

impl Nodes {
    /// A node by its name; none where there are too many.
    pub(crate) fn get(&mut self, axis: &Axis, name: &Name) -> Option<&mut NodeLine> {
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None if self.all.len() == NODES_MAX => {
                if self.others.len() < OTHERS_MAX {
                    self.others.entry(name.clone()).or_default();
                }
                return None;
            }
            None => {
                self.by_name.insert(name.clone(), self.all.len());
                self.all.push(NodeLine::new(name, axis.from_us));
                self.all.len() - 1
            }
        };
        self.all.get_mut(at)
    }

    /// How the nodes stand at a moment; whom the picture lacks is not in the farm.
    pub(crate) fn snapshot(&mut self, axis: &Axis, at_us: u64, nodes: &[NodeInfo], counts: bool) {
        let mut absent = vec![true; self.all.len()];
        for node in nodes {
            let name = Name::from(node.name.as_str());
            let Some(line) = self.get(axis, &name) else {
                self.other(&name, node.slots);
                continue;
            };
            line.picture(axis, at_us, node, counts);
            line.show_state(axis, at_us);
            if let Some(at) = self.by_name.get(&name).filter(|at| **at < absent.len()) {
                absent[*at] = false;
            }
        }
        let lines = self.all.iter_mut().zip(absent).filter(|(_, is_absent)| *is_absent);
        lines.for_each(|(line, _)| line.show(axis, at_us, Shown::Gone));
        self.changed(nodes.len());
    }

    /// Nobody looks at the farm from a moment on.
    pub(crate) fn leave(&mut self, axis: &Axis, at_us: u64) {
        self.all.iter_mut().for_each(|line| line.show(axis, at_us, Shown::Unknown));
        self.changed(self.all.len());
    }

    /// Another scheduler counts what nodes do; from zero, where the log has its begin.
    pub(crate) fn restart(&mut self, from_zero: bool) {
        self.all.iter_mut().for_each(|line| line.restart(from_zero));
    }

    /// Something happened to a node. Gives the change of the farm's nodes up, its nodes, and its slots.
    pub(crate) fn event(&mut self, axis: &Axis, at_us: u64, event: &Event, counts: bool) -> [i64; 3] {
        let Some(name) = event.node() else { return [0; 3] };
        let Some(line) = self.get(axis, name) else {
            if let Event::NodeJoined { node, slots, .. } = event {
                self.other(node, *slots);
            }
            return [0; 3];
        };
        let before = line.share_of_farm();
        let may_show = line.event(axis, at_us, event, counts);
        let now = line.share_of_farm();
        if may_show {
            self.changed(1);
        }
        [0, 1, 2].map(|figure| now[figure] - before[figure])
    }

    fn other(&mut self, name: &Name, slots: u16) {
        if let Some(most) = self.others.get_mut(name) {
            *most = slots.max(*most);
        }
    }

    /// How many nodes are not followed, and their slots.
    pub(crate) fn others(&self) -> (u64, u64) {
        (self.others.len() as u64, self.others.values().map(|slots| u64::from(*slots)).sum())
    }

    /// After the bins have doubled their width.
    pub(crate) fn double(&mut self) {
        self.all.iter_mut().for_each(NodeLine::double);
    }

    /// So many changes came at most. Where there are too many, the shortest spells are left out, trouble last.
    fn changed(&mut self, changes: usize) {
        const SECOND_US: u64 = 1_000_000;
        const HOUR_US: u64 = 3_600 * SECOND_US;
        self.changes += changes;
        if self.changes <= CHANGES_MAX {
            return;
        }
        let count = |all: &[NodeLine]| all.iter().map(|line| line.changes().len()).sum::<usize>();
        self.changes = count(&self.all);
        while self.changes > CHANGES_MAX / 2 && self.least_us < u64::MAX {
            self.least_us = self.least_us.saturating_mul(4).max(SECOND_US);
            let only_well = self.least_us < HOUR_US;
            self.all.iter_mut().for_each(|line| line.thin(self.least_us, only_well));
            self.changes = count(&self.all);
        }
    }
}

/// Order of names as people count, node2 before node10; of what counts the same, as text.
pub fn by_number(a: &str, b: &str) -> Ordering {
    number_key(a).cmp(&number_key(b)).then_with(|| a.cmp(b))
}

/// A name's bytes, where before each number stand a zero and how many digits the number has: of two numbers the one with
/// fewer digits is less, and beside anything else a number stands where its first digit would.
fn number_key(name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 16);
    for part in name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let zeros = part.iter().take_while(|byte| **byte == b'0').count();
        if part[0].is_ascii_digit() {
            key.push(b'0');
            key.extend((part.len() - zeros).to_be_bytes());
        }
        key.extend(&part[zeros..]);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_as_people_count() {
        let mut names = ["b", "a10", "a02", "a2", "a", "a02b", "a2a", "é", ""];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(names, ["", "a", "a02", "a2", "a2a", "a02b", "a10", "b", "é"]);
    }
}
