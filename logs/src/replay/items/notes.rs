//! What the reader noted, for people: of many notes of one kind the first stands for all.

use crate::{Note, NoteKind};

/// So many notes of a kind are told one by one.
const TOLD_MAX: usize = 3;

/// Notes by kind, in the order in which the kinds came.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Notes(Vec<OfKind>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct OfKind {
    kind: NoteKind,
    /// The first ones.
    told: Vec<String>,
    count: u64,
}

impl Notes {
    /// One more.
    pub(crate) fn add(&mut self, note: &Note) {
        let at = self.0.iter().position(|one| one.kind == note.kind).unwrap_or_else(|| {
            self.0.push(OfKind { kind: note.kind, told: Vec::new(), count: 0 });
            self.0.len() - 1
        });
        let of_kind = &mut self.0[at];
        of_kind.count += 1;
        if of_kind.told.len() < TOLD_MAX {
            of_kind.told.push(note.to_string());
        }
    }

    /// Forgets all but what is said of clocks that were set.
    pub(crate) fn keep_clocks(&mut self) {
        self.0.retain(|one| matches!(one.kind, NoteKind::SetBack | NoteKind::ClockSet));
    }

    /// Whether one among them says that something of the log is missing.
    pub(crate) fn has_loss(&self) -> bool {
        self.0.iter().any(|one| one.kind.is_loss())
    }

    /// All of them, in words.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = |one: &OfKind| match (&one.told[..], one.count) {
            ([first, ..], count) if count > TOLD_MAX as u64 => {
                vec![format!("{first} (and {} more notes of this kind)", count - 1)]
            }
            (few, _) => few.to_vec(),
        };
        self.0.iter().flat_map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    #[test]
    fn a_few_are_told_one_by_one_and_of_many_the_first() {
        let note = |kind, line| Note {
            kind,
            place: Place { file: "x.xml".into(), line, offset: 0 },
            what: "so".to_owned(),
        };
        let mut notes = Notes::default();
        (1..=3).for_each(|line| notes.add(&note(NoteKind::Stopped, line)));
        notes.add(&note(NoteKind::Cut, 7));
        let told = notes.told();
        assert_eq!((told.len(), told[2].as_str()), (4, "x.xml, line 3 (byte 0): so"));
        notes.add(&note(NoteKind::Stopped, 4));
        assert_eq!(
            notes.told(),
            ["x.xml, line 1 (byte 0): so (and 3 more notes of this kind)", "x.xml, line 7 (byte 0): so"]
        );
        assert!(notes.has_loss());
        notes.keep_clocks();
        assert!(!notes.has_loss());
    }
}
