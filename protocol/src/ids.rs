//! Identities. Each is a type of its own, so that a job's number can never be used as a task's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of a job within a farm, counted from 1 in the order of submission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// Number of a scheduler's incarnation. Each start of a scheduler raises it by one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Random number of a worker's incarnation: a restarted worker is the same node with another boot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Boot(pub u64);

/// Number of one dispatch of a task to a node. The upper bits are the epoch's, so it is unique in the farm.
/// Diagnostic only: a result is identified by its job and interval (R1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Attempt(pub u64);

impl Attempt {
    /// Bits that count within an epoch.
    pub const COUNT_BITS: u32 = 40;

    /// The number before the first one of `epoch`.
    pub fn before_epoch(epoch: Epoch) -> Self {
        Self(epoch.0.saturating_sub(1) << Self::COUNT_BITS)
    }
}

/// Index of a node in its farm, counted from 0 in the order in which they joined first; never given twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct NodeId(pub u32);

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&to_hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), &to_hex(&self.0)[..8])
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let bytes = from_hex(text).ok_or_else(|| format!("`{text}` is not hexadecimal"))?;
                let found = bytes.len();
                let bytes = bytes.try_into().map_err(|_| {
                    format!("expected {} hexadecimal digits, found {}", $bytes * 2, found * 2)
                })?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

hex_id!(
    /// BLAKE3 of a content: a job specification, a chunk of a list, a program's output.
    ContentHash, 32
);
hex_id!(
    /// Random identity of a farm, made when its state directory is.
    FarmId, 16
);
hex_id!(
    /// A Noise static public key (X25519): who a peer is.
    PublicKey, 32
);
hex_id!(
    /// Short public name of a join key; the secret itself never travels.
    JoinKeyId, 8
);

impl ContentHash {
    /// Hashes `content` with BLAKE3.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// The hash of these parts, one behind the other.
    ///
    /// # Errors
    /// The first one that is none.
    pub fn of_parts<P: AsRef<[u8]>, E>(parts: impl Iterator<Item = Result<P, E>>) -> Result<Self, E> {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part?.as_ref());
        }
        Ok(Self(*hasher.finalize().as_bytes()))
    }
}

/// Lower-case hexadecimal digits of `bytes`.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes that hexadecimal `text` stands for, either case; `None` where it is not hexadecimal.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Bytes, written as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HexBytes(pub Vec<u8>);

impl fmt::Debug for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl Serialize for HexBytes {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        from_hex(&text).map(HexBytes).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))
    }
}
