//! What messages and the heads of segments are made of: fields of a fixed length, little endian, each said once for both
//! directions.

use crate::bytes::{Malformed, Reader, fields, items};
use crate::ids::{Attempt, Boot, ContentHash, Epoch, FarmId, JobId};

/// Something in a message.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// One after another up to the end.
    fn read_all(rest: &mut Reader<'_>) -> Result<Vec<Self>, Malformed> {
        let mut all = Vec::new();
        while !rest.0.is_empty() {
            all.push(Self::read(rest)?);
        }
        Ok(all)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        items! { Field: $($number: |number, out| out.extend_from_slice(&number.to_le_bytes()),
            |rest| rest.array().map(Self::from_le_bytes);)* }
    };
}
numbers!(u8 u16 u32 u64 u128 i32);

items! { Field:
    bool: |is, out| out.push(u8::from(*is)), |rest| Ok(rest.u8()? != 0);
    // With its length before it.
    Vec<u8>: |bytes, out| { (bytes.len() as u16).put(out); out.extend_from_slice(bytes) }, |rest| {
        let length = rest.u16()?;
        Ok(rest.bytes(length.into())?.to_vec())
    };
}

fields! { Field:
    JobId { 0 }
    Epoch { 0 }
    Boot { 0 }
    Attempt { 0 }
    FarmId { 0 }
    ContentHash { 0 }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        rest.array()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn read(rest: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((A::read(rest)?, B::read(rest)?))
    }
}
