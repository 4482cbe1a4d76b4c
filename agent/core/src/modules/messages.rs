//! Whose values a stage reads, and the message that it makes of them. Where the message goes its stage knows.

use crate::ids;
use crate::stage::Context;
use crate::values::{Message, TRIPLES_MAX, Triple, ValueId};

/// Bytes of a message's values, at most: what is beyond is counted as left out.
const BYTES_MAX: usize = 16 << 20;

/// Job and post that values are about. One that is no number is as if nobody had said it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct About {
    job: Option<u64>,
    post: Option<u64>,
}

impl About {
    /// Reads a triple that says whose values follow; false where it is a value itself.
    pub(super) fn reads(&mut self, triple: Triple<'_>) -> bool {
        match triple.id {
            ids::JOB => self.job = triple.number(),
            ids::POST => self.post = triple.number(),
            _ => {}
        }
        ids::says_whose(triple.id)
    }

    /// Says it.
    pub(super) fn put(self, message: &mut Message<'_>) {
        let said = [(ids::JOB, self.job), (ids::POST, self.post)];
        said.into_iter().for_each(|(id, of)| of.into_iter().for_each(|of| message.put_number(id, of)));
    }
}

/// A message as it is put together. What says whose values follow is written where a value follows.
#[derive(Default)]
pub(super) struct Draft {
    /// Ids, and where their values end in `bytes`.
    triples: Vec<(ValueId, usize)>,
    bytes: Vec<u8>,
    said: Vec<Said>,
    left_out: u64,
}

/// What says whose values follow.
struct Said {
    id: ValueId,
    value: Vec<u8>,
    written: bool,
}

impl Draft {
    /// Adds a triple.
    pub(super) fn put(&mut self, id: ValueId, value: &[u8]) {
        if ids::says_whose(id) {
            self.say(id, value);
            return;
        }
        let mut said = std::mem::take(&mut self.said);
        for one in said.iter_mut().filter(|one| !one.written) {
            self.write(one.id, &one.value);
            one.written = true;
        }
        self.said = said;
        self.write(id, value);
    }

    fn say(&mut self, id: ValueId, value: &[u8]) {
        if !self.said.iter().any(|one| one.written && one.id == id && one.value == value) {
            self.said.retain(|one| one.id != id);
            self.said.push(Said { id, value: value.to_vec(), written: false });
        }
    }

    /// Once one had no room, the rest has none: it would be read as somebody else's.
    fn write(&mut self, id: ValueId, value: &[u8]) {
        let is_full = self.triples.len() == TRIPLES_MAX || self.bytes.len() + value.len() > BYTES_MAX;
        if self.left_out > 0 || is_full {
            self.left_out += 1;
            return;
        }
        self.bytes.extend_from_slice(value);
        self.triples.push((id, self.bytes.len()));
    }

    /// Puts all into a message, at its start or behind what is in it.
    pub(super) fn copy_to(&self, message: &mut Message<'_>) {
        let mut start = 0;
        for &(id, end) in &self.triples {
            message.put(id, &self.bytes[start..end]);
            start = end;
        }
        message.leave_out(self.left_out);
    }

    /// Nothing is in it, and nothing is said.
    pub(super) fn clear(&mut self) {
        self.cut();
        self.said.clear();
    }

    /// Nothing is in it; what says whose values follow holds on.
    fn cut(&mut self) {
        self.triples.clear();
        self.bytes.clear();
        self.left_out = 0;
        self.said.iter_mut().for_each(|one| one.written = false);
    }

    /// Sends what is in it, if there is anything, and goes on with another message about the same.
    pub(super) fn send(&mut self, output: Option<usize>, context: &mut Context<'_>) {
        if let Some(output) = output
            && (!self.triples.is_empty() || self.left_out > 0)
        {
            context.emit(output, |message| self.copy_to(message));
        }
        self.cut();
    }

    /// Sends what is in it, if there is anything.
    pub(super) fn end(&mut self, output: Option<usize>, context: &mut Context<'_>) {
        self.send(output, context);
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Triples;

    /// Ids and lengths of what is written, and what was left out.
    fn written(draft: &Draft) -> (Vec<(u32, usize)>, u64) {
        let (mut out, mut left_out) = (Vec::new(), 0);
        draft.copy_to(&mut Message::new(&mut out, &mut left_out));
        let triples = Triples::read(&out).unwrap().into_iter();
        (triples.map(|triple| (triple.id.0, triple.value.len())).collect(), left_out)
    }

    #[test]
    fn what_says_whose_values_follow_is_written_once_and_only_where_one_follows() {
        let mut draft = Draft::default();
        for (id, value) in
            [(1_000, "seven"), (1_000, "nine"), (1, "x"), (1_000, "nine"), (2, "y"), (1_002, "p")]
        {
            draft.put(ValueId(id), value.as_bytes());
        }
        assert_eq!(written(&draft).0, [(1_000, 4), (1, 1), (2, 1)]);
        draft.cut();
        draft.put(ValueId(3), b"z");
        assert_eq!(written(&draft).0, [(1_000, 4), (1_002, 1), (3, 1)]);
        draft.clear();
        draft.put(ValueId(3), b"z");
        assert_eq!(written(&draft).0, [(3, 1)]);
    }

    /// A small value behind a big one that had no room was read as that of another job.
    #[test]
    fn behind_what_had_no_room_there_is_nothing() {
        let mut draft = Draft::default();
        draft.put(ValueId(1), &vec![0; BYTES_MAX - 10]);
        draft.put(ids::JOB, &[0; 11]);
        draft.put(ValueId(2), b"x");
        assert_eq!(written(&draft), (vec![(1, BYTES_MAX - 10)], 2));
        draft.clear();
        (0..TRIPLES_MAX + 2).for_each(|_| draft.put(ValueId(1), b""));
        assert_eq!((written(&draft).0.len(), written(&draft).1), (TRIPLES_MAX, 2));
    }
}
