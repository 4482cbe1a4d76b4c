//! The smallest parts of a record: variable-length numbers (LEB128), signed ones in zigzag, text, lists of
//! intervals. Numbers that are near each other take few bytes.

use crate::wire::Malformed;

/// Appends a number, seven bits a byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends `number` as its distance from `near`.
pub(crate) fn put_near(out: &mut Vec<u8>, number: u128, near: u128) {
    let distance = number.wrapping_sub(near) as i128;
    put(out, ((distance << 1) ^ (distance >> 127)) as u128);
}

/// Appends text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u128);
    out.extend_from_slice(text.as_bytes());
}

/// Appends intervals; ascending ones that lie close take the least room.
pub(crate) fn put_intervals(out: &mut Vec<u8>, intervals: &[(u128, u128)]) {
    put(out, intervals.len() as u128);
    let mut near = 0;
    for &(lo, hi) in intervals {
        put_near(out, lo, near);
        put(out, hi.wrapping_sub(lo));
        near = hi;
    }
}

/// What is left to read of a body.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl<'a> Body<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn number(&mut self) -> Result<u128, Malformed> {
        let (mut number, mut shift) = (0_u128, 0);
        loop {
            let [byte] = self.array()?;
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

    pub(crate) fn near(&mut self, near: u128) -> Result<u128, Malformed> {
        let zigzag = self.number()?;
        let distance = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(near.wrapping_add(distance))
    }

    /// A number that fits a smaller type.
    pub(crate) fn small<T: TryFrom<u128>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.small()?;
        String::from_utf8(self.bytes(length)?.to_vec()).map_err(|_| Malformed)
    }

    pub(crate) fn intervals(&mut self) -> Result<Vec<(u128, u128)>, Malformed> {
        let mut near = 0;
        self.list(|body| {
            let lo = body.near(near)?;
            near = lo.checked_add(body.number()?).filter(|hi| *hi > lo).ok_or(Malformed)?;
            Ok((lo, near))
        })
    }

    /// A list with its length. Every item takes a byte or more, so the length cannot lie by much.
    pub(crate) fn list<T>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back_and_none_overflows() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u128::from(u64::MAX), 1 << 127, u128::MAX];
        numbers.iter().for_each(|&number| put(&mut out, number));
        let mut body = Body(&out);
        assert_eq!(numbers.map(|_| body.number().unwrap()), numbers);
        assert!(body.0.is_empty() && body.number().is_err());
        assert!(Body(&[0xFF; 20]).number().is_err(), "more than 128 bits");
        assert!(Body(&[0x80; 19]).number().is_err(), "no end");
    }

    #[test]
    fn near_numbers_may_lie_on_both_sides_of_each_other() {
        for (number, near) in [(5, 9), (9, 5), (0, u128::MAX), (u128::MAX, 0), (7, 7)] {
            let mut out = Vec::new();
            put_near(&mut out, number, near);
            assert_eq!(Body(&out).near(near).unwrap(), number);
            assert!(out.len() == 1, "{number} near {near} takes {} bytes", out.len());
        }
    }

    #[test]
    fn an_empty_or_overflowing_interval_is_malformed() {
        let read = |lo: u128, length: u128| {
            let mut out = vec![1];
            put_near(&mut out, lo, 0);
            put(&mut out, length);
            Body(&out).intervals()
        };
        assert_eq!(read(3, 2).unwrap(), [(3, 5)]);
        assert!(read(3, 0).is_err() && read(u128::MAX, 2).is_err());
        assert!(Body(&[200, 1, 0]).intervals().is_err(), "a list longer than its bytes");
    }
}
