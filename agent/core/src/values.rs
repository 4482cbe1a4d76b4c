//! Messages of values: triples of an id, which says what the value is, its length in bytes, and the value. Ids and
//! lengths are LEB128. Who does not know an id passes the triple on as it is.

use starfarm_protocol::bytes::{Malformed, Reader, put};

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValueId(pub u32);

/// Triples of a message, at most.
pub(crate) const TRIPLES_MAX: usize = 4_096;

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triple<'a> {
    /// What it is.
    pub id: ValueId,
    /// The value: a scalar, one value for each core, or a structure, as the id says.
    pub value: &'a [u8],
}

impl<'a> Triple<'a> {
    /// The value, if it is one number of 64 bits.
    pub fn number(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_le_bytes)
    }

    /// The numbers of 64 bits that the value is, one or several; none where it is anything else.
    pub fn numbers(&self) -> Option<impl Iterator<Item = u64> + use<'a>> {
        numbers(self.value)
    }
}

/// The same of a value alone.
pub(crate) fn numbers(value: &[u8]) -> Option<impl Iterator<Item = u64>> {
    let (numbers, rest) = value.as_chunks();
    let is_numbers = rest.is_empty() && !numbers.is_empty();
    is_numbers.then(|| numbers.iter().map(|number| u64::from_le_bytes(*number)))
}

/// The triples of a message, whose bytes were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Triples<'a>(&'a [u8]);

impl<'a> Triples<'a> {
    /// Checks bytes that came from somewhere.
    ///
    /// # Errors
    /// They are no triples, or more than a message may have.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Reader(bytes);
        let mut count = 0;
        while !rest.0.is_empty() {
            next(&mut rest)?;
            count += 1;
        }
        if count > TRIPLES_MAX { Err(Malformed) } else { Ok(Self(bytes)) }
    }

    /// Those that a [`Message`] wrote.
    pub(crate) fn of_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes of these, as [`Triples::read`] takes them.
    pub fn written(triples: impl Iterator<Item = Triple<'a>>) -> Vec<u8> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut message = Message::new(&mut out, &mut left_out);
        triples.for_each(|triple| message.put(triple.id, triple.value));
        out
    }

    /// The bytes, as [`Triples::read`] takes them.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The first value with this id.
    pub fn find(self, id: ValueId) -> Option<Triple<'a>> {
        self.into_iter().find(|triple| triple.id == id)
    }
}

fn next<'a>(rest: &mut Reader<'a>) -> Result<Triple<'a>, Malformed> {
    let id = ValueId(rest.small()?);
    let length = rest.small()?;
    Ok(Triple { id, value: rest.bytes(length)? })
}

impl<'a> IntoIterator for Triples<'a> {
    type Item = Triple<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter(Reader(self.0))
    }
}

/// The triples one by one.
pub struct Iter<'a>(Reader<'a>);

impl<'a> Iterator for Iter<'a> {
    type Item = Triple<'a>;

    fn next(&mut self) -> Option<Triple<'a>> {
        if self.0.0.is_empty() { None } else { next(&mut self.0).ok() }
    }
}

/// A message on its way out of a stage. One without triples is none.
pub struct Message<'a> {
    out: &'a mut Vec<u8>,
    count: usize,
    /// Triples that it had no room for.
    left_out: &'a mut u64,
}

impl<'a> Message<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, left_out: &'a mut u64) -> Self {
        Self { out, count: 0, left_out }
    }

    /// Adds a value. One beyond the most that a message may have is counted as dropped.
    pub fn put(&mut self, id: ValueId, value: &[u8]) {
        if self.count == TRIPLES_MAX {
            *self.left_out += 1;
            return;
        }
        self.count += 1;
        put(self.out, id.0.into());
        put(self.out, value.len() as u128);
        self.out.extend_from_slice(value);
    }

    /// Adds a number.
    pub fn put_number(&mut self, id: ValueId, number: u64) {
        self.put(id, &number.to_le_bytes());
    }

    /// Adds all of these.
    pub fn put_all(&mut self, triples: Triples<'_>) {
        triples.into_iter().for_each(|triple| self.put(triple.id, triple.value));
    }

    /// Counts values that there was no room for before they came here.
    pub(crate) fn leave_out(&mut self, triples: u64) {
        *self.left_out += triples;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(put: impl FnOnce(&mut Message<'_>)) -> (Vec<u8>, u64) {
        let (mut out, mut left_out) = (Vec::new(), 0);
        put(&mut Message::new(&mut out, &mut left_out));
        (out, left_out)
    }

    #[test]
    fn what_is_written_is_read_and_unknown_ids_are_values_like_others() {
        let (bytes, _) = written(|message| {
            message.put_number(ValueId(1), u64::MAX);
            message.put(ValueId(70_000), b"");
            message.put(ValueId(3), &[1; 300]);
        });
        let triples = Triples::read(&bytes).unwrap();
        assert_eq!(triples.find(ValueId(1)).unwrap().number(), Some(u64::MAX));
        assert_eq!(triples.find(ValueId(3)).unwrap().number(), None);
        assert_eq!(triples.find(ValueId(2)), None);
        let lengths: Vec<_> = triples.into_iter().map(|triple| (triple.id.0, triple.value.len())).collect();
        assert_eq!(lengths, [(1, 8), (70_000, 0), (3, 300)]);
        assert_eq!(written(|message| message.put_all(triples)).0, bytes);
    }

    #[test]
    fn a_value_is_as_many_numbers_as_it_has_room_for_or_none() {
        let numbers = |value: &[u8]| {
            Triple { id: ValueId(1), value }.numbers().map(|numbers| numbers.collect::<Vec<_>>())
        };
        assert_eq!(numbers(&7_u64.to_le_bytes()), Some(vec![7]));
        assert_eq!(numbers(&[7_u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat()), Some(vec![7, u64::MAX]));
        assert_eq!((numbers(&[]), numbers(&[0; 9])), (None, None));
    }

    #[test]
    fn bytes_that_are_no_triples_are_refused() {
        let (bytes, _) = written(|message| message.put(ValueId(1), &[7; 9]));
        for cut in 1..bytes.len() {
            assert!(Triples::read(&bytes[..cut]).is_err(), "{cut}");
        }
        let huge = [&[1][..], &[0xFF; 9], &[1]].concat();
        assert!(Triples::read(&huge).is_err(), "a length of 2^63 and more");
        let id = [&[0xFF; 4][..], &[0x7F, 0]].concat();
        assert!(Triples::read(&id).is_err(), "an id of more than 32 bits");
    }

    #[test]
    fn a_message_has_so_many_values_and_the_rest_is_counted() {
        let (bytes, left_out) = written(|message| {
            (0..TRIPLES_MAX + 3).for_each(|_| message.put(ValueId(1), b"x"));
        });
        assert_eq!(left_out, 3);
        assert_eq!(Triples::read(&bytes).unwrap().into_iter().count(), TRIPLES_MAX);
        assert!(Triples::read(&[&bytes[..], &[1, 0]].concat()).is_err());
    }
}
