//! Figures that have names only, as programs give them: `switch.temperature`. The name travels with each value, so that
//! whoever does not know it reads it all the same; the id is made of the name, so that stages can tell figures apart.
//!
//! The value of such a triple is the length of the name, one byte; the name; and either one number, a float of 64 bits, or
//! an amount: count, a whole number of 64 bits, and sum, least and greatest, floats; all little endian.

use std::collections::BTreeMap;

use crate::values::{Message, Triple, ValueId};

/// Ids of figures that have names only are dealt from here on.
pub const NAMED_FIRST: u32 = 1_000_000;
/// Bytes of a name that a program gives, at most.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a whole name, at most: whose it is, a dot, and a program's.
pub const FULL_NAME_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;
/// Named figures of one job or machine, at most.
pub const NAMES_MAX: usize = 1_024;
/// Bytes of an amount.
const AMOUNT_BYTES: usize = 32;
/// Bytes of a triple beside name and amount: an id of 32 bits takes five, a length two, that of the name one.
const TRIPLE_BYTES: usize = 8;
/// Bytes of all that has names of one job or machine, at most: half of what goes by a link as one message.
pub const AMOUNTS_BYTES_MAX: usize = 32 << 10;

/// Whether a program may give this name: 1 to 64 letters, digits, `_`, `.` and `-`.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// The id of a name: FNV-1a of its bytes, in the room for ids that are dealt. Two names may share one; the name that travels with
/// the value tells them apart.
pub fn id(name: &str) -> ValueId {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ValueId(NAMED_FIRST + hash % (u32::MAX - NAMED_FIRST))
}

/// Count, sum, least and greatest of at least one number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Amount {
    /// How many numbers.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Amount {
    /// Of one number.
    pub fn of(number: f64) -> Self {
        Self { count: 1, sum: number, min: number, max: number }
    }

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            // Of numbers that are finite it could be infinite.
            sum: (self.sum + other.sum).clamp(f64::MIN, f64::MAX),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// Amounts by name, of one job or machine: as many as have room in a message.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Amounts {
    by_name: BTreeMap<String, Amount>,
    /// Bytes that they take in a message, at most.
    bytes: usize,
}

// An amount is finite, or it was not taken.
impl Eq for Amounts {}

impl Amounts {
    /// Adds what is known of a name; false where there is no room for one more.
    pub fn add(&mut self, name: &str, amount: Amount) -> bool {
        if let Some(known) = self.by_name.get_mut(name) {
            *known = known.and(amount);
            return true;
        }
        let bytes = TRIPLE_BYTES + name.len() + AMOUNT_BYTES;
        if self.by_name.len() == NAMES_MAX || self.bytes + bytes > AMOUNTS_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.by_name.insert(name.to_owned(), amount);
        true
    }

    /// Adds what others know, as far as there is room.
    pub fn add_all(&mut self, others: &Self) {
        for (name, amount) in others.iter() {
            let _ = self.add(name, amount);
        }
    }

    /// All by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.by_name.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Puts all into a message.
    pub fn put(&self, message: &mut Message<'_>) {
        self.iter().for_each(|(name, amount)| Named { name, amount }.put(message));
    }

    /// Bytes that they take in a message, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A figure and its name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Named<'a> {
    /// The whole name.
    pub name: &'a str,
    /// What is known of it.
    pub amount: Amount,
}

impl<'a> Named<'a> {
    /// Reads a triple, if it is one of these: its value is no number then, whatever its length. None where the name, or the number,
    /// could be none, or the id is another name's.
    pub fn read(triple: &Triple<'a>) -> Option<Self> {
        if triple.id.0 < NAMED_FIRST {
            return None;
        }
        let (&length, rest) = triple.value.split_first()?;
        let (name, value) = rest.split_at_checked(length.into())?;
        let name = std::str::from_utf8(name).ok()?;
        let is_right = (1..=FULL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        let (words, []) = value.as_chunks::<8>() else { return None };
        let float = |at: usize| Some(f64::from_le_bytes(words[at])).filter(|of| of.is_finite());
        let amount = match words.len() {
            1 => Amount::of(float(0)?),
            4 => {
                let (count, sum, min, max) = (u64::from_le_bytes(words[0]), float(1)?, float(2)?, float(3)?);
                Amount { count, sum, min, max }
            }
            _ => return None,
        };
        let is_its_id = is_right && id(name) == triple.id;
        (is_its_id && amount.count > 0 && amount.min <= amount.max).then_some(Self { name, amount })
    }

    /// Puts it into a message. A name that could be none is not put.
    pub fn put(&self, message: &mut Message<'_>) {
        let Amount { count, sum, min, max } = self.amount;
        let Some(length) = u8::try_from(self.name.len()).ok() else { return };
        let mut value = vec![length];
        value.extend_from_slice(self.name.as_bytes());
        if count == 1 {
            value.extend_from_slice(&sum.to_le_bytes());
        } else {
            value.extend_from_slice(&count.to_le_bytes());
            [sum, min, max].iter().for_each(|number| value.extend_from_slice(&number.to_le_bytes()));
        }
        message.put(id(self.name), &value);
    }

    /// Bytes that it takes in a message, at most.
    pub fn bytes(&self) -> usize {
        TRIPLE_BYTES + self.name.len() + if self.amount.count == 1 { 8 } else { AMOUNT_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Triples;

    fn written(named: Named<'_>) -> Vec<u8> {
        let (mut out, mut left_out) = (Vec::new(), 0);
        named.put(&mut Message::new(&mut out, &mut left_out));
        out
    }

    #[test]
    fn what_is_written_is_read_and_bytes_are_pinned() {
        let one = Named { name: "a.b", amount: Amount::of(-1.5) };
        let many = Named { amount: Amount { count: 3, sum: 6.5, min: -1.0, max: 4.0 }, ..one };
        for named in [one, many] {
            let bytes = written(named);
            let triple = Triples::read(&bytes).unwrap().into_iter().next().unwrap();
            assert_eq!((triple.id, Named::read(&triple)), (id("a.b"), Some(named)));
            assert!(bytes.len() <= named.bytes());
        }
        let value = [3, b'a', b'.', b'b', 0, 0, 0, 0, 0, 0, 0xF8, 0xBF];
        assert_eq!(Triples::read(&written(one)).unwrap().into_iter().next().unwrap().value, value);
        assert_eq!((id("a.b"), id("")), (ValueId(278_607_692), ValueId(2_166_136_261 + 1_000_000)));
    }

    #[test]
    fn amounts_of_parts_make_that_of_the_whole_and_there_is_room_for_so_many() {
        let mut all = Amounts::default();
        for number in [3.0, -1.0, 4.5] {
            assert!(all.add("a", Amount::of(number)));
        }
        let a = Amount { count: 3, sum: 6.5, min: -1.0, max: 4.5 };
        assert_eq!(all.iter().collect::<Vec<_>>(), [("a", a)]);
        let taken = (0..2 * NAMES_MAX).filter(|n| all.add(&format!("long-enough-name-{n:04}"), a)).count();
        assert!(taken > 500 && taken < NAMES_MAX, "{taken}");
        assert!(all.bytes() <= AMOUNTS_BYTES_MAX && all.add("a", a), "one that is known has room");
        let (mut out, mut left_out) = (Vec::new(), 0);
        all.put(&mut Message::new(&mut out, &mut left_out));
        assert!(out.len() <= all.bytes() && left_out == 0, "{} {}", out.len(), all.bytes());
        let mut others = Amounts::default();
        others.add_all(&all);
        assert_eq!(others, all);
    }

    #[test]
    fn what_could_be_no_name_or_number_is_none() {
        let of_id = |id, value: &[u8]| Named::read(&Triple { id, value }).map(|of| of.amount);
        let read = |value: &[u8]| {
            let name = value.split_first().and_then(|(length, rest)| rest.get(..usize::from(*length)));
            of_id(id(&String::from_utf8_lossy(name.unwrap_or_default())), value)
        };
        let with = |name: &[u8], numbers: &[f64]| {
            let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
            [&[name.len() as u8][..], name].concat().into_iter().chain(numbers).collect::<Vec<_>>()
        };
        assert!(read(&with(b"a", &[1.0])).is_some());
        assert_eq!(of_id(id("b"), &with(b"a", &[1.0])), None, "the id of another name");
        for none in [
            with(b"", &[1.0]),
            with(b"a b", &[1.0]),
            with(b"a\n", &[1.0]),
            with(&[0xFF], &[1.0]),
            with(&[b'x'; FULL_NAME_BYTES_MAX + 1], &[1.0]),
            with(b"a", &[]),
            with(b"a", &[1.0, 2.0]),
            with(b"a", &[f64::NAN]),
            with(b"a", &[f64::INFINITY]),
            with(b"a", &[0.0, 1.0, 1.0, 1.0]),
            with(b"a", &[f64::from_bits(2), 1.0, 2.0, 1.0]),
            vec![200, b'a'],
            Vec::new(),
        ] {
            assert_eq!(read(&none), None, "{none:?}");
        }
        let id = ValueId(NAMED_FIRST - 1);
        assert_eq!(Named::read(&Triple { id, value: &with(b"a", &[1.0]) }), None, "another's");
    }
}
