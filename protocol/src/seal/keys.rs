//! Secrets and static keys: how they are made, written as text and wiped. Who is enrolled lives in
//! `store.rs`; no file is read or written here.

use std::fmt;

use serde::{Deserialize, Serialize};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::error::SealError;
use crate::ids::{JoinKeyId, PublicKey, from_hex, to_hex};
use crate::limits::NAME_BYTES_MAX;

/// 32 secret bytes: a join secret. Wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// The public name of the join key with this secret: the first 8 bytes of a BLAKE3 derivation, so
    /// that secret and id can be checked against each other.
    pub fn join_key_id(&self) -> JoinKeyId {
        let digest = Zeroizing::new(blake3::derive_key("starfarm 2026 join key id v1", &self.0));
        JoinKeyId([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]])
    }

    /// Lower-case hexadecimal digits, 64 of them; wiped when dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(to_hex(&self.0))
    }

    /// Reads what [`Secret::to_text`] wrote.
    ///
    /// # Errors
    /// A sentence for a person. It never repeats the text, which may be a secret with a slip in it.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let bytes = from_hex(text).map(Zeroizing::new).ok_or("a secret is written in hexadecimal digits")?;
        let bytes: [u8; 32] = bytes
            .as_slice()
            .try_into()
            .map_err(|_| format!("a secret has 64 hexadecimal digits, found {}", bytes.len() * 2))?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(d)?);
        Self::from_text(&text).map_err(serde::de::Error::custom)
    }
}

/// A Noise static key pair (X25519): who this process is.
#[derive(Clone)]
pub struct StaticKey {
    private: Secret,
    public: PublicKey,
}

impl StaticKey {
    /// Makes a new key from the system's random numbers.
    ///
    /// # Errors
    /// [`SealError::NoRandomness`] where the system has none.
    pub fn generate() -> Result<Self, SealError> {
        let pair = super::noise_builder().generate_keypair().map_err(|_| SealError::NoRandomness)?;
        let private = Zeroizing::new(pair.private);
        let bytes = private.as_slice().try_into().map_err(|_| SealError::NoRandomness)?;
        Ok(Self::from_secret(Secret(bytes)))
    }

    /// The key pair of a private key.
    pub fn from_secret(private: Secret) -> Self {
        let mut dh = DefaultResolver
            .resolve_dh(&DHChoice::Curve25519)
            .expect("snow is built with Curve25519, or nothing here could work");
        dh.set(&private.0);
        let mut public = [0; 32];
        public.copy_from_slice(dh.pubkey());
        Self { private, public: PublicKey(public) }
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The text of a key file: the private half, and a checksum, so that a slip does not make it another's key.
    pub fn to_file(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{} {:08x}\n", &*self.private.to_text(), crc32c::crc32c(&self.private.0)))
    }

    /// Reads what [`StaticKey::to_file`] wrote, or a release before, without a checksum.
    ///
    /// # Errors
    /// A sentence for a person. It never repeats the text.
    pub fn from_file(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (key, checksum) = text.split_once(' ').map_or((text, None), |(key, sum)| (key, Some(sum)));
        let private = Secret::from_text(key)?;
        match checksum {
            Some(sum) if sum != format!("{:08x}", crc32c::crc32c(&private.0)) => {
                Err("the file is damaged: the key does not have the checksum beside it".into())
            }
            _ => Ok(Self::from_secret(private)),
        }
    }

    /// The private half.
    pub fn private(&self) -> &Secret {
        &self.private
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticKey({:?})", self.public)
    }
}

/// Whether `name` may name a node or admin: 1 to [`NAME_BYTES_MAX`] ASCII letters, digits, `.`, `_`,
/// `-` or `@`, a letter or digit first, so that it is never taken for an option or a path.
pub fn is_valid_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_text() {
        let key = StaticKey::generate().unwrap();
        let text = key.private().to_text();
        let again = StaticKey::from_secret(Secret::from_text(&text).unwrap());
        assert_eq!(again.public(), key.public());
        assert_ne!(StaticKey::generate().unwrap().public(), key.public());
    }

    #[test]
    fn a_key_file_with_a_slip_is_refused_or_the_same_key() {
        let key = StaticKey::from_secret(Secret([7; 32]));
        let text = key.to_file();
        assert_eq!(StaticKey::from_file(&text).unwrap().public(), key.public());
        assert_eq!(
            StaticKey::from_file(&key.private().to_text()).unwrap().public(),
            key.public(),
            "without one"
        );
        for bit in 0..text.len() * 8 {
            let mut bytes = text.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(slip) = String::from_utf8(bytes) else { continue };
            match StaticKey::from_file(&slip) {
                Ok(read) => assert_eq!(read.public(), key.public(), "bit {bit}"),
                Err(why) => assert!(!why.contains("0707"), "{why}"),
            }
        }
    }

    #[test]
    fn the_public_key_is_that_of_rfc_7748() {
        let private = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
        let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let key = StaticKey::from_secret(Secret::from_text(private).unwrap());
        assert_eq!(key.public().to_string(), public);
    }

    #[test]
    fn a_secret_is_never_printed_and_its_errors_do_not_repeat_it() {
        let secret = Secret([7; 32]);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let key = StaticKey::from_secret(secret.clone());
        assert!(!format!("{key:?}").contains("0707"));
        let slip = format!("{}zz", "07".repeat(31));
        assert!(!Secret::from_text(&slip).unwrap_err().contains("0707"));
        assert!(Secret::from_text("0707").unwrap_err().contains("found 4"));
    }

    #[test]
    fn a_join_key_id_is_pinned_and_follows_its_secret() {
        assert_eq!(Secret([7; 32]).join_key_id().to_string(), "432fc3c6149f16b7");
        assert_ne!(Secret([7; 32]).join_key_id(), Secret([8; 32]).join_key_id());
    }

    #[test]
    fn names() {
        for good in ["a", "node-7.rack_2", "ann@laptop", "7", &"n".repeat(64)] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "-x", ".x", "a b", "a/b", "a\n", "ä", &"n".repeat(65)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
