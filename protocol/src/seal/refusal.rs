//! Refusals that the peer hears, in words: what the scheduler answers, sealed, to somebody whose first
//! message was genuine but whom the rules do not admit. Which rule applies is decided in `keys.rs` and
//! `handshake.rs`.

use super::SEAL_VERSION;
use super::role::Role;

/// What a name must look like, as a sentence with its remedy.
pub(super) const NAME_RULE: &str = "a name has 1 to 64 ASCII letters, digits, `.`, `_`, `-` or `@`, \
     and starts with a letter or digit: choose another with --name";

/// Why a genuine peer is not admitted. The numbers are on the wire: append only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// The peer's own key was revoked.
    KeyRevoked = 1,
    /// The join key was revoked, and this peer had not enrolled with it before.
    JoinKeyRevoked = 2,
    /// Another key holds the name.
    NameTaken = 3,
    /// The two programs speak different versions of the seal.
    VersionSkew = 4,
    /// The name breaks the rule for names.
    BadName = 5,
    /// The key is enrolled with another role than the join key gives.
    RoleMismatch = 6,
    /// One side wants the seal off, the other does not.
    SealMismatch = 7,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::KeyRevoked,
        Self::JoinKeyRevoked,
        Self::NameTaken,
        Self::VersionSkew,
        Self::BadName,
        Self::RoleMismatch,
        Self::SealMismatch,
    ];

    /// The number on the wire, 1 or more.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The refusal of a number; `None` for one that a newer scheduler may know.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// A few words for a log line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::KeyRevoked => "the key was revoked",
            Self::JoinKeyRevoked => "the join key was revoked",
            Self::NameTaken => "another key holds the name",
            Self::VersionSkew => "another version",
            Self::BadName => "a name that is not allowed",
            Self::RoleMismatch => "the key has another role than the join file",
            Self::SealMismatch => "one side has turned the seal off",
        }
    }

    /// The sentence sent to the peer: what is wrong and what to do about it.
    pub(super) fn words(self, about: &About<'_>) -> String {
        match self {
            Self::KeyRevoked => "this node's key was revoked: to come back as a new node, move its state \
                 directory away and start with a join file that is valid"
                .into(),
            Self::JoinKeyRevoked => "this join file was revoked: ask the farm's admin for a new one".into(),
            Self::NameTaken => format!(
                "the name `{}` is held by another key: start with another --name, or let an admin revoke \
                 the old key",
                about.name
            ),
            Self::VersionSkew => format!(
                "the scheduler speaks version {SEAL_VERSION} of the seal, this program version {}: install \
                 the same starfarm on both",
                about.version
            ),
            Self::BadName => NAME_RULE.into(),
            Self::RoleMismatch => format!(
                "this key is enrolled as {}, the join file is for another role: keep one state directory \
                 for each role",
                about.enrolled_as.map_or("another role", Role::word)
            ),
            Self::SealMismatch => "the scheduler and this program must both run sealed, or both with the \
                 seal off (which works on loopback only): start both the same way"
                .into(),
        }
    }
}

/// What a sentence may mention.
pub(super) struct About<'a> {
    pub(super) name: &'a str,
    pub(super) version: u8,
    pub(super) enrolled_as: Option<Role>,
}

#[cfg(test)]
mod tests {
    use super::super::packet::REASON_BYTES_MAX;
    use super::*;

    #[test]
    fn every_sentence_fits_the_answer_whole() {
        let name = "n".repeat(64);
        let about = About { name: &name, version: 255, enrolled_as: Some(Role::Observer) };
        for refusal in Refusal::ALL {
            let words = refusal.words(&about);
            assert!(words.len() <= REASON_BYTES_MAX, "{} bytes: {words}", words.len());
        }
    }

    #[test]
    fn numbers_are_pinned_and_come_back() {
        let codes: Vec<u8> = Refusal::ALL.iter().map(|r| r.code()).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7]);
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_code(refusal.code()), Some(refusal));
        }
        assert_eq!(Refusal::from_code(0), None);
        assert_eq!(Refusal::from_code(8), None);
    }
}
