//! Refusals that the peer hears, in words: what the scheduler answers, sealed, to somebody whose first
//! message was genuine but whom the rules do not admit. Which rule applies is decided in `keys.rs` and
//! `handshake.rs`.

use super::SEAL_VERSION;
use super::role::Role;
use crate::limits::{JOIN_BURST, JOINS_PER_SECOND, KEYS_PER_JOIN_KEY};
use crate::word::words;

/// What a name must look like, as a sentence with its remedy.
pub(super) const NAME_RULE: &str = "a name has 1 to 64 ASCII letters, digits, `.`, `_`, `-` or `@`, \
     and starts with a letter or digit: choose another with --name";

words! {
    /// Why a genuine peer is not admitted. The numbers are on the wire: append only. The words are for a log line.
    Refusal {
        /// The peer's own key was revoked.
        KeyRevoked = 1 => "the key was revoked",
        /// The join key was revoked, and this peer had not enrolled with it before.
        JoinKeyRevoked = 2 => "the join key was revoked",
        /// Another key holds the name.
        NameTaken = 3 => "another key holds the name",
        /// The two programs speak different versions of the seal.
        VersionSkew = 4 => "another version",
        /// The name breaks the rule for names.
        BadName = 5 => "a name that is not allowed",
        /// The key is enrolled with another role than the join key gives.
        RoleMismatch = 6 => "the key has another role than the join file",
        /// One side wants the seal off, the other does not.
        SealMismatch = 7 => "one side has turned the seal off",
        /// The worker's key is enrolled under another name.
        OtherName = 8 => "the key is enrolled under another name",
        /// Too many new keys came with the join key: this one may come later.
        Crowded = 9 => "too many machines join with this join file",
        /// The scheduler has not named this post to the one that it calls.
        NoVoucher = 10 => "the scheduler has not vouched for it",
    }
}

impl Refusal {
    /// The sentence sent to the peer: what is wrong and what to do about it.
    pub(super) fn words(self, name: &str, version: u8, enrolled: Option<(&str, Role)>) -> String {
        match self {
            Self::KeyRevoked => "this node's key was revoked: to come back as a new node, move its state \
                 directory away and start with a join file that is valid"
                .into(),
            Self::JoinKeyRevoked => "this join file was revoked: ask the farm's admin for a new one".into(),
            Self::NameTaken => format!(
                "the name `{name}` is held by another key: start with another --name, or let an admin revoke \
                 the old key"
            ),
            Self::VersionSkew => format!(
                "the scheduler speaks version {SEAL_VERSION} of the seal, this program version {version}: install \
                 the same starfarm on both"
            ),
            Self::BadName => NAME_RULE.into(),
            Self::RoleMismatch => format!(
                "this key is enrolled as {}, the join file is for another role: keep one state directory \
                 for each role",
                enrolled.map_or("another role", |(_, role)| role.word())
            ),
            Self::SealMismatch => "the scheduler and this program must both run sealed, or both with the \
                 seal off (which works on loopback only): start both the same way"
                .into(),
            Self::OtherName => {
                let name = enrolled.map_or("another name", |(name, _)| name);
                format!(
                    "this key is enrolled as `{name}`: start with --name {name}, or with another --state as a new node"
                )
            }
            Self::Crowded => format!(
                "too many machines join with this join file: {JOIN_BURST} may at once, then {JOINS_PER_SECOND} a second, \
                 {KEYS_PER_JOIN_KEY} in all; this one goes on trying"
            ),
            Self::NoVoucher => {
                "the scheduler has not named this post to the one that it calls: ask the scheduler for its place anew".into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::REASON_BYTES_MAX;
    use super::*;

    #[test]
    fn every_sentence_fits_the_answer_whole() {
        let name = "n".repeat(64);
        for &refusal in Refusal::ALL {
            let words = refusal.words(&name, 255, Some((&name, Role::Observer)));
            assert!(words.len() <= REASON_BYTES_MAX, "{} bytes: {words}", words.len());
        }
    }

    #[test]
    fn numbers_are_pinned_and_come_back() {
        let codes: Vec<u8> = Refusal::ALL.iter().map(|&r| r as u8).collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_number(refusal as u8), Some(refusal));
        }
        assert_eq!(Refusal::from_number(0), None);
        assert_eq!(Refusal::from_number(11), None);
    }
}
