//! The smallest parts of what is written and read: numbers of a fixed size (little endian) and of any size (LEB128,
//! signed ones in zigzag), text, lists of intervals. Nothing here trusts its input: no length is believed before it is
//! checked. What the bytes mean lives where they are read.

/// Bytes that do not follow the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Puts and reads what is nothing but its fields, in this order: `put` and `read` of the trait `$codec`.
macro_rules! fields {
    ($codec:ident: $($name:ident { $($field:tt),* $(,)? })*) => {
        $(impl $codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: $codec::read(rest)?),* })
            }
        })*
    };
}
pub(crate) use fields;

/// The same of what has no fields of its own.
macro_rules! items {
    ($codec:ident: $($type:ty: |$item:ident, $out:ident| $put:expr, |$rest:ident| $read:expr;)*) => {
        $(impl $codec for $type {
            fn put(&self, $out: &mut Vec<u8>) {
                let $item = self;
                $put;
            }

            fn read($rest: &mut Reader<'_>) -> Result<Self, Malformed> {
                $read
            }
        })*
    };
}
pub(crate) use items;

/// The same of enums: a number says which variant it is, and so what follows it. A record has that number in its frame,
/// so the parts have names. Behind the semicolon stand variants whose fields two functions write and read.
macro_rules! tagged {
    ($codec:ident: $($name:ident {
        $($tag:literal $variant:ident $(($inner:ident))? $({ $($field:ident),* })?,)*
        $(; $($hand_tag:literal $hand:ident($put:ident, $read:ident),)*)?
    })*) => {$(
        #[allow(unused_variables, reason = "some have no fields")]
        impl $name {
            pub(crate) fn tag(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => $tag,)*
                    $($(Self::$hand { .. } => $hand_tag,)*)?
                }
            }

            pub(crate) fn put_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($inner))? $({ $($field),* })? => {
                        $($inner.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                    $($(Self::$hand { .. } => $put(self, out),)*)?
                }
            }

            pub(crate) fn read_fields(tag: u8, body: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(match tag {
                    $($tag => {
                        $(let $inner = $codec::read(body)?;)?
                        $($(let $field = $codec::read(body)?;)*)?
                        Self::$variant $(($inner))? $({ $($field),* })?
                    })*
                    $($($hand_tag => $read(body)?,)*)?
                    _ => return Err(Malformed),
                })
            }
        }

        impl $codec for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.tag().put(out);
                self.put_fields(out);
            }

            fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
                Self::read_fields($codec::read(body)?, body)
            }
        }
    )*};
}
pub(crate) use tagged;

/// Appends a number, seven bits a byte, the lowest first.
pub fn put(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends `number` as its distance from `near`.
pub fn put_near(out: &mut Vec<u8>, number: u128, near: u128) {
    let distance = number.wrapping_sub(near) as i128;
    put(out, ((distance << 1) ^ (distance >> 127)) as u128);
}

/// Appends text with its length.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u128);
    out.extend_from_slice(text.as_bytes());
}

/// Appends intervals; ascending ones that lie close take the least room.
pub fn put_intervals(out: &mut Vec<u8>, intervals: &[(u128, u128)]) {
    put(out, intervals.len() as u128);
    let mut near = 0;
    for &(lo, hi) in intervals {
        put_near(out, lo, near);
        put(out, hi.wrapping_sub(lo));
        near = hi;
    }
}

/// What is left to read. Each read fails with [`Malformed`] where too little is left, or what is there cannot be.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    /// A number of [`put`].
    pub fn number(&mut self) -> Result<u128, Malformed> {
        let (mut number, mut shift) = (0_u128, 0);
        loop {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7F);
            if shift >= 128 || bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            shift += 7;
            if byte < 0x80 {
                return Ok(number);
            }
        }
    }

    /// A number of [`put_near`].
    pub fn near(&mut self, near: u128) -> Result<u128, Malformed> {
        let zigzag = self.number()?;
        let distance = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(near.wrapping_add(distance))
    }

    /// A number of [`put`] that fits a smaller type.
    pub fn small<T: TryFrom<u128>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// Text of [`put_text`].
    pub fn text(&mut self) -> Result<String, Malformed> {
        let length = self.small()?;
        String::from_utf8(self.bytes(length)?.to_vec()).map_err(|_| Malformed)
    }

    /// Intervals of [`put_intervals`]; none is empty.
    pub fn intervals(&mut self) -> Result<Vec<(u128, u128)>, Malformed> {
        let mut near = 0;
        self.list(|body| {
            let lo = body.near(near)?;
            near = lo.checked_add(body.number()?).filter(|hi| *hi > lo).ok_or(Malformed)?;
            Ok((lo, near))
        })
    }

    /// A list with its length. Every item takes a byte or more, so the length cannot lie by much.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count: usize = self.small()?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        (0..count).map(|_| item(self)).collect()
    }
}

macro_rules! fixed {
    ($($number:ident)*) => {
        impl Reader<'_> {$(
            #[doc = concat!("A `", stringify!($number), "`, little endian.")]
            pub fn $number(&mut self) -> Result<$number, Malformed> {
                self.array().map($number::from_le_bytes)
            }
        )*}
    };
}
fixed!(u8 u16 u32 u64 u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back_and_none_overflows() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u128::from(u64::MAX), 1 << 127, u128::MAX];
        numbers.iter().for_each(|&number| put(&mut out, number));
        let mut body = Reader(&out);
        assert_eq!(numbers.map(|_| body.number().unwrap()), numbers);
        assert!(body.0.is_empty() && body.number().is_err());
        assert!(Reader(&[0xFF; 20]).number().is_err(), "more than 128 bits");
        assert!(Reader(&[0x80; 19]).number().is_err(), "no end");
    }

    #[test]
    fn near_numbers_may_lie_on_both_sides_of_each_other() {
        for (number, near) in [(5, 9), (9, 5), (0, u128::MAX), (u128::MAX, 0), (7, 7)] {
            let mut out = Vec::new();
            put_near(&mut out, number, near);
            assert_eq!(Reader(&out).near(near).unwrap(), number);
            assert!(out.len() == 1, "{number} near {near} takes {} bytes", out.len());
        }
    }

    #[test]
    fn an_empty_or_overflowing_interval_is_malformed() {
        let read = |lo: u128, length: u128| {
            let mut out = vec![1];
            put_near(&mut out, lo, 0);
            put(&mut out, length);
            Reader(&out).intervals()
        };
        assert_eq!(read(3, 2).unwrap(), [(3, 5)]);
        assert!(read(3, 0).is_err() && read(u128::MAX, 2).is_err());
        assert!(Reader(&[200, 1, 0]).intervals().is_err(), "a list longer than its bytes");
    }
}
