//! Whom a responder lets in: whoever is enrolled in a farm's key store, or whoever a scheduler has vouched for. The
//! handshake asks; what the rules are is for each door.

use super::keys::Secret;
use super::refusal::Refusal;
use super::role::Role;
use super::store::{Claim, KeyStore};
use crate::ids::{JoinKeyId, PublicKey};

/// The rules of a responder.
pub trait Door {
    /// The pre-shared key of this id: without one a caller gets no answer.
    fn secret(&self, id: &JoinKeyId) -> Option<&Secret>;

    /// Whether who says this would be let in at `now_s`, seconds of the clock that [`Door::enrol`] is given, and with
    /// which role.
    ///
    /// # Errors
    /// The first rule that is broken.
    fn admit(&self, claim: &Claim, now_s: u64) -> Result<Role, Refusal>;

    /// Lets the caller in, who has now proved to know the pre-shared key. `true` where something has changed that must
    /// be written.
    ///
    /// # Errors
    /// As [`Door::admit`]; nothing has changed then.
    fn enrol(&mut self, claim: &Claim, now_s: u64) -> Result<bool, Refusal>;

    /// As whom this key is known.
    fn known(&self, key: &PublicKey) -> Option<(&str, Role)>;
}

impl Door for KeyStore {
    fn secret(&self, id: &JoinKeyId) -> Option<&Secret> {
        self.join_key(id).map(|join_key| &join_key.secret)
    }

    fn admit(&self, claim: &Claim, now_s: u64) -> Result<Role, Refusal> {
        KeyStore::admit(self, claim, now_s)
    }

    fn enrol(&mut self, claim: &Claim, now_s: u64) -> Result<bool, Refusal> {
        KeyStore::enrol(self, claim, now_s)
    }

    fn known(&self, key: &PublicKey) -> Option<(&str, Role)> {
        self.key(key).map(|entry| (entry.name.as_str(), entry.role))
    }
}
