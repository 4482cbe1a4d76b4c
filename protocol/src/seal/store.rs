//! Who is enrolled and with which join keys one may enrol: the data and the rules. Pure; the rim reads
//! and writes the file, and hands in wall time where a date is kept.
//!
//! The rules, in the order they are asked:
//! 1. A revoked key is refused, whatever join key it brings.
//! 2. An enrolled key is admitted with the join key it enrolled with, *also when that join key has been
//!    revoked since*: revoking a join file that leaked must not stop the farm's own machines. It is
//!    admitted with any other join key of the same role that is not revoked.
//! 3. A new key is admitted with any join key that is not revoked, as long as not too many come with that.
//! 4. A name belongs to one key and a key to one name, until the key is revoked. A worker that says another name than its
//!    key is enrolled under is refused: what a person did to the one name would not hold for the other. Others are called
//!    as they are enrolled, whatever they say: their host may have got another name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::index::Index;
use super::keys::{Secret, is_valid_name};
use super::refusal::Refusal;
use super::role::Role;
use crate::ids::{Boot, ContentHash, FarmId, JoinKeyId, PublicKey, to_hex};

/// Version of the file's layout. Version 1 had no checksum, 2 did not say whose it is.
pub const KEY_STORE_VERSION: u32 = 3;

/// Every key of a farm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyStore {
    version: u32,
    /// In the file: of all that follows, [`KeyStore::checksum`]. Empty in memory.
    #[serde(default)]
    checksum: String,
    /// Whose it is: the farm, and its scheduler's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<(FarmId, PublicKey)>,
    keys: BTreeMap<PublicKey, EnrolledKey>,
    join_keys: BTreeMap<JoinKeyId, JoinKey>,
    #[serde(skip)]
    index: Index,
}

/// A node or admin that has enrolled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolledKey {
    /// Its name, unique among the keys that are not revoked.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The join key it enrolled with.
    pub join_key: JoinKeyId,
    /// When, in seconds since 1970. For people only.
    pub added_unix: u64,
    /// It is no longer admitted.
    pub revoked: bool,
}

/// What a join file holds: everybody who has it may enrol.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinKey {
    /// The pre-shared key of the handshake.
    pub secret: Secret,
    /// The role of those who enrol with it.
    pub role: Role,
    /// No new key may enrol with it.
    pub revoked: bool,
}

/// What a peer says about itself in its first message. The key is proved there; the join key and so the
/// role only by the first transport message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its static key.
    pub key: PublicKey,
    /// The name it wants; empty where it sent none that is text.
    pub name: String,
    /// Its incarnation.
    pub boot: Boot,
    /// The join key it brings.
    pub join_key: JoinKeyId,
}

impl Default for KeyStore {
    fn default() -> Self {
        let (version, checksum) = (KEY_STORE_VERSION, String::new());
        let (keys, join_keys) = (BTreeMap::new(), BTreeMap::new());
        Self { version, checksum, owner: None, keys, join_keys, index: Index::default() }
    }
}

/// A key that a person may mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meant {
    /// That of a worker or an admin.
    Enrolled(PublicKey),
    /// One that lets others join.
    Join(JoinKeyId),
}

impl KeyStore {
    /// Whose store it is; none of one that a release before wrote.
    pub fn owner(&self) -> Option<(FarmId, PublicKey)> {
        self.owner
    }

    /// It is the store of that farm, whose scheduler has that key.
    pub fn belong_to(&mut self, farm: FarmId, scheduler: PublicKey) {
        self.owner = Some((farm, scheduler));
    }

    /// Adds a join key and returns its id. `secret` must be 32 fresh random bytes. Adding one again
    /// changes nothing, so that a revoked one cannot come back by mistake.
    pub fn add_join_key(&mut self, secret: Secret, role: Role) -> JoinKeyId {
        let id = secret.join_key_id();
        self.join_keys.entry(id).or_insert(JoinKey { secret, role, revoked: false });
        id
    }

    /// The join key of an id, revoked or not.
    pub fn join_key(&self, id: &JoinKeyId) -> Option<&JoinKey> {
        self.join_keys.get(id)
    }

    /// All join keys, by id.
    pub fn join_keys(&self) -> impl Iterator<Item = (&JoinKeyId, &JoinKey)> {
        self.join_keys.iter()
    }

    /// The enrolled key, revoked or not.
    pub fn key(&self, key: &PublicKey) -> Option<&EnrolledKey> {
        self.keys.get(key)
    }

    /// All enrolled keys, by key.
    pub fn keys(&self) -> impl Iterator<Item = (&PublicKey, &EnrolledKey)> {
        self.keys.iter()
    }

    /// The key that holds `name`; a revoked one does not.
    pub fn holder(&self, name: &str) -> Option<PublicKey> {
        self.index.holder(name)
    }

    /// The keys that a person may mean: the enrolled one that is written so, the join key of that id, the one whose holder is
    /// named so. As a rule it is one of them, but a worker may call itself as another's key is written.
    pub fn meant(&self, given: &str) -> Vec<Meant> {
        let enrolled = given.parse().ok().filter(|key| self.key(key).is_some());
        let join = given.parse().ok().filter(|id| self.join_key(id).is_some());
        let named = self.holder(given).filter(|key| enrolled != Some(*key));
        let keys = enrolled.into_iter().chain(named).map(Meant::Enrolled);
        keys.chain(join.map(Meant::Join)).collect()
    }

    /// Says whether `claim` would be admitted at `now_s`, seconds of the clock that [`KeyStore::enrol`] is given, and with
    /// which role. The rules stand at the top.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn admit(&self, claim: &Claim, now_s: u64) -> Result<Role, Refusal> {
        let join_key = self.join_keys.get(&claim.join_key).ok_or(Refusal::JoinKeyRevoked)?;
        match self.keys.get(&claim.key) {
            Some(entry) if entry.revoked => return Err(Refusal::KeyRevoked),
            Some(entry) if entry.join_key == claim.join_key => {}
            _ if join_key.revoked => return Err(Refusal::JoinKeyRevoked),
            Some(entry) if entry.role != join_key.role => return Err(Refusal::RoleMismatch),
            _ => {}
        }
        match self.keys.get(&claim.key) {
            Some(entry) if entry.role == Role::Worker && entry.name != claim.name => Err(Refusal::OtherName),
            Some(_) => Ok(join_key.role),
            None if !is_valid_name(&claim.name) => Err(Refusal::BadName),
            None if self.holder(&claim.name).is_some() => Err(Refusal::NameTaken),
            None if !self.index.has_room(&claim.join_key, now_s) => Err(Refusal::Crowded),
            None => Ok(join_key.role),
        }
    }

    /// Enrols the peer of `claim`; `added_unix` is in seconds since 1970. Only after its first transport message has
    /// opened: not before that has it proved the join key. `true` where the store has changed and must be written.
    ///
    /// # Errors
    /// As [`KeyStore::admit`]; the store is then unchanged.
    pub fn enrol(&mut self, claim: &Claim, added_unix: u64) -> Result<bool, Refusal> {
        let role = self.admit(claim, added_unix)?;
        if self.keys.contains_key(&claim.key) {
            return Ok(false);
        }
        let (name, join_key) = (claim.name.clone(), claim.join_key);
        let entry = EnrolledKey { name, role, join_key, added_unix, revoked: false };
        self.index.add(claim.key, &entry.name, join_key, added_unix);
        self.keys.insert(claim.key, entry);
        Ok(true)
    }

    /// Revokes an enrolled key for good. Its sessions are ended by
    /// [`super::table::SessionTable::revoke`], its streams by whoever holds them. The key as it is then; none where there
    /// is no such key.
    pub fn revoke_key(&mut self, key: &PublicKey) -> Option<&EnrolledKey> {
        let entry = self.keys.get_mut(key)?;
        if !std::mem::replace(&mut entry.revoked, true) {
            self.index.remove(&entry.name, &entry.join_key);
        }
        Some(entry)
    }

    /// Revokes a join key: nobody new may enrol with it. Keys that enrolled with it stay. The join key as it is then; none
    /// where there is no such join key.
    pub fn revoke_join_key(&mut self, id: &JoinKeyId) -> Option<&JoinKey> {
        let join_key = self.join_keys.get_mut(id)?;
        join_key.revoked = true;
        Some(join_key)
    }

    /// The text of the file: JSON, with the join secrets in clear, so it must be private.
    pub fn to_json(&self) -> Zeroizing<String> {
        let file = Self { checksum: self.checksum(), ..self.clone() };
        Zeroizing::new(serde_json::to_string_pretty(&file).expect("every key of the maps is text"))
    }

    /// The first 8 bytes of the BLAKE3 of all keys and join keys, in hexadecimal digits.
    pub fn checksum(&self) -> String {
        let bytes = match &self.owner {
            None => serde_json::to_vec(&(&self.keys, &self.join_keys)),
            Some(owner) => serde_json::to_vec(&(owner, &self.keys, &self.join_keys)),
        };
        let bytes = bytes.map(Zeroizing::new);
        let hash = ContentHash::of(&bytes.expect("every key of the maps is text"));
        to_hex(&hash.0[..8])
    }

    /// Reads what [`KeyStore::to_json`] wrote.
    ///
    /// # Errors
    /// A sentence for a person, with line and column.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let mut store: Self =
            serde_json::from_str(text).map_err(|e| format!("the key store cannot be read: {e}"))?;
        if !(1..=KEY_STORE_VERSION).contains(&store.version) {
            return Err(format!(
                "the key store has version {}, this program reads {KEY_STORE_VERSION}: run the starfarm \
                 that wrote it",
                store.version
            ));
        }
        if let Some((id, _)) = store.join_keys.iter().find(|(id, key)| key.secret.join_key_id() != **id) {
            return Err(format!("the join key {id} in the key store does not fit its secret"));
        }
        if std::mem::take(&mut store.checksum) != store.checksum() && store.version > 1 {
            return Err("the key store is damaged: it does not have the checksum that it says".into());
        }
        store.version = KEY_STORE_VERSION;
        store.index = store.indexed();
        Ok(store)
    }

    fn indexed(&self) -> Index {
        let valid = self.keys.iter().filter(|(_, entry)| !entry.revoked);
        Index::of(valid.map(|(key, entry)| (*key, entry.name.as_str(), entry.join_key)))
    }

    /// What [`KeyStore::enrol`] did last for `key`, as a line for a file that is only appended to: CRC32C and JSON.
    pub fn enrolment(&self, key: &PublicKey) -> String {
        let entry = self.keys.get(key).expect("it was enrolled just now");
        line(&serde_json::to_string(&(key, entry)).expect("both are plain"))
    }

    /// First line of such a file: it goes on where the store of this moment is.
    pub fn enrolments_head(&self) -> String {
        line(&format!("starfarm enrolments 1 after {}", self.checksum()))
    }

    /// Enrols again what stands in such a file, if it goes on where this store is. An end that is not whole is left out:
    /// if it was being written, nobody was told of it. Whether there was none.
    ///
    /// # Errors
    /// A line is damaged and others follow.
    pub fn enrol_again(&mut self, text: &str) -> Result<bool, String> {
        let mut lines = text.split_inclusive('\n').map(checked);
        let head = lines.next().flatten();
        if head.is_none() && lines.any(|line| line.is_some()) {
            return Err("its first line is damaged".into());
        }
        if head != checked(&self.enrolments_head()) {
            return Ok(head.is_some());
        }
        let mut is_whole = true;
        while let Some(next) = lines.next() {
            let entry = next.and_then(|json| serde_json::from_str::<(PublicKey, EnrolledKey)>(json).ok());
            match entry {
                Some((key, entry)) => drop(self.keys.insert(key, entry)),
                None if lines.all(|line| line.is_none()) => is_whole = false,
                None => return Err("a line in it is damaged".into()),
            }
        }
        self.index = self.indexed();
        Ok(is_whole)
    }
}

fn line(text: &str) -> String {
    format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes()))
}

/// A line's text, if it is whole.
fn checked(line: &str) -> Option<&str> {
    let (crc, text) = line.strip_suffix('\n')?.split_once(' ')?;
    (crc == format!("{:08x}", crc32c::crc32c(text.as_bytes()))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{JOIN_BURST, JOINS_PER_SECOND, KEYS_PER_JOIN_KEY};

    fn claim(key: u8, name: &str, join_key: JoinKeyId) -> Claim {
        Claim { key: PublicKey([key; 32]), name: name.into(), boot: Boot(1), join_key }
    }

    fn farm() -> (KeyStore, JoinKeyId, JoinKeyId) {
        let mut store = KeyStore::default();
        let worker = store.add_join_key(Secret([1; 32]), Role::Worker);
        let admin = store.add_join_key(Secret([2; 32]), Role::Admin);
        (store, worker, admin)
    }

    #[test]
    fn a_key_enrols_once_and_may_come_again() {
        let (mut store, worker, _) = farm();
        assert_eq!(store.enrol(&claim(7, "a", worker), 99), Ok(true));
        assert_eq!(store.enrol(&claim(7, "a", worker), 100), Ok(false));
        let entry = store.key(&PublicKey([7; 32])).unwrap();
        assert_eq!((entry.name.as_str(), entry.role, entry.added_unix), ("a", Role::Worker, 99));
    }

    #[test]
    fn a_name_belongs_to_one_key_until_that_is_revoked() {
        let (mut store, worker, _) = farm();
        store.enrol(&claim(7, "a", worker), 0).unwrap();
        assert_eq!(store.enrol(&claim(8, "a", worker), 0), Err(Refusal::NameTaken));
        assert_eq!(store.key(&PublicKey([8; 32])), None);
        store.revoke_key(&PublicKey([7; 32])).unwrap();
        assert_eq!(store.enrol(&claim(8, "a", worker), 0), Ok(true));
        assert_eq!(store.enrol(&claim(7, "b", worker), 0), Err(Refusal::KeyRevoked));
    }

    #[test]
    fn a_key_is_meant_by_how_it_is_written_and_by_its_name() {
        let (mut store, worker, _) = farm();
        let (one, other) = (PublicKey([7; 32]), PublicKey([8; 32]));
        store.enrol(&claim(7, &worker.to_string(), worker), 0).unwrap();
        store.enrol(&claim(8, &one.to_string(), worker), 0).unwrap();
        assert_eq!(store.meant(&worker.to_string()), [Meant::Enrolled(one), Meant::Join(worker)]);
        assert_eq!(store.meant(&one.to_string()), [Meant::Enrolled(one), Meant::Enrolled(other)]);
        assert_eq!(store.meant(&other.to_string()), [Meant::Enrolled(other)]);
        let revoked = store.revoke_key(&one).unwrap();
        assert_eq!((&*revoked.name, revoked.revoked), (&*worker.to_string(), true));
        assert_eq!(store.meant(&worker.to_string()), [Meant::Join(worker)]);
        assert_eq!(store.meant("nobody"), []);
    }

    #[test]
    fn a_worker_keeps_the_name_it_is_enrolled_under_and_others_are_called_so() {
        let (mut store, worker, admin) = farm();
        store.enrol(&claim(7, "a", worker), 0).unwrap();
        store.enrol(&claim(8, "b", worker), 0).unwrap();
        for name in ["b", "c", "no good"] {
            assert_eq!(store.enrol(&claim(7, name, worker), 0), Err(Refusal::OtherName), "{name}");
        }
        assert_eq!((store.holder("c"), store.holder("a")), (None, Some(PublicKey([7; 32]))));
        store.enrol(&claim(9, "ada@old", admin), 0).unwrap();
        assert_eq!(store.enrol(&claim(9, "ada@new", admin), 0), Ok(false));
        assert_eq!((store.holder("ada@new"), store.holder("ada@old")), (None, Some(PublicKey([9; 32]))));
    }

    #[test]
    fn a_join_key_lets_in_a_burst_of_machines_then_so_many_a_second_and_never_too_many() {
        let (mut store, worker, admin) = farm();
        let numbered = |number: u32, join_key| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_le_bytes());
            Claim { key: PublicKey(key), name: format!("n{number}"), boot: Boot(1), join_key }
        };
        let mut number = 0;
        let mut come = |store: &mut KeyStore, now_s| {
            let start = number;
            while store.enrol(&numbered(number, worker), now_s) == Ok(true) {
                number += 1;
            }
            assert_eq!(store.admit(&numbered(number, worker), now_s), Err(Refusal::Crowded));
            number - start
        };
        assert_eq!(come(&mut store, 100), JOIN_BURST);
        assert_eq!(come(&mut store, 103), 3 * JOINS_PER_SECOND as u32);
        assert_eq!(come(&mut store, 50), 0, "a clock that goes back gives nothing");
        assert_eq!(store.enrol(&numbered(0, worker), 103), Ok(false), "who is in may come again");
        assert_eq!(store.enrol(&numbered(900_000, admin), 103), Ok(true), "another join key has its own");
        let mut now_s = 103;
        let mut all = JOIN_BURST + 3 * JOINS_PER_SECOND as u32;
        while all < KEYS_PER_JOIN_KEY {
            now_s += 1_000;
            all += come(&mut store, now_s);
        }
        assert_eq!((all, come(&mut store, now_s + 1_000)), (KEYS_PER_JOIN_KEY, 0));
        let mut again = KeyStore::from_json(&store.to_json()).unwrap();
        assert_eq!(come(&mut again, 0), 0, "a start forgets no key");
        again.revoke_key(&numbered(5, worker).key).unwrap();
        again.revoke_key(&numbered(5, worker).key).unwrap();
        assert_eq!(come(&mut again, 0), 1);
    }

    #[test]
    fn a_revoked_join_key_keeps_its_own_and_takes_nobody_new() {
        let (mut store, worker, _) = farm();
        let other = store.add_join_key(Secret([3; 32]), Role::Worker);
        store.enrol(&claim(7, "a", worker), 0).unwrap();
        store.enrol(&claim(9, "c", other), 0).unwrap();
        store.revoke_join_key(&worker).unwrap();
        assert_eq!(store.admit(&claim(7, "a", worker), 0), Ok(Role::Worker));
        assert_eq!(store.admit(&claim(8, "b", worker), 0), Err(Refusal::JoinKeyRevoked));
        assert_eq!(store.admit(&claim(9, "c", worker), 0), Err(Refusal::JoinKeyRevoked));
        assert_eq!(store.admit(&claim(7, "a", other), 0), Ok(Role::Worker));
        store.add_join_key(Secret([1; 32]), Role::Worker);
        assert!(store.join_key(&worker).unwrap().revoked, "adding it again must not bring it back");
    }

    #[test]
    fn a_role_cannot_be_changed_by_another_join_key() {
        let (mut store, worker, admin) = farm();
        store.enrol(&claim(7, "a", worker), 0).unwrap();
        assert_eq!(store.admit(&claim(7, "a", admin), 0), Err(Refusal::RoleMismatch));
        assert_eq!(store.admit(&claim(8, "b", admin), 0), Ok(Role::Admin));
        assert_eq!(store.admit(&claim(8, "no good", admin), 0), Err(Refusal::BadName));
    }

    #[test]
    fn what_is_not_there_cannot_be_revoked() {
        let (mut store, ..) = farm();
        assert_eq!(store.revoke_key(&PublicKey([9; 32])), None);
        assert_eq!(store.revoke_join_key(&JoinKeyId([9; 8])), None);
    }

    #[test]
    fn the_file_comes_back_and_says_what_is_wrong_with_it() {
        let (mut store, worker, _) = farm();
        store.enrol(&claim(7, "a", worker), 99).unwrap();
        store.revoke_join_key(&worker).unwrap();
        let before = store.to_json().replace("\"version\": 3", "\"version\": 2");
        assert_eq!(KeyStore::from_json(&before).unwrap(), store, "of the release before");
        store.belong_to(FarmId([4; 16]), PublicKey([5; 32]));
        let text = store.to_json();
        assert_eq!(KeyStore::from_json(&text).unwrap(), store);
        let other = text.replace(&"04".repeat(16), &"06".repeat(16));
        assert!(KeyStore::from_json(&other).unwrap_err().contains("damaged"));
        let newer = text.replace("\"version\": 3", "\"version\": 4");
        assert!(KeyStore::from_json(&newer).unwrap_err().contains("version 4"));
        let changed = text.replace(&"07".repeat(32), &"09".repeat(32));
        assert!(KeyStore::from_json(&changed).unwrap_err().contains("damaged"));
        let older = changed.replace("\"version\": 3", "\"version\": 1");
        assert!(
            KeyStore::from_json(&older).unwrap().key(&PublicKey([9; 32])).is_some(),
            "it had no checksum"
        );
        let cut = &text[..text.len() / 2];
        assert!(KeyStore::from_json(cut).unwrap_err().contains("line"));
        let swapped = text.replace(&"01".repeat(32), &"05".repeat(32));
        assert!(KeyStore::from_json(&swapped).unwrap_err().contains("does not fit"));
    }

    #[test]
    fn enrolments_that_were_appended_are_made_again_but_for_an_end_that_was_torn() {
        let (mut store, worker, _) = farm();
        let before = store.clone();
        let mut text = store.enrolments_head();
        for (key, name) in [(7, "a"), (8, "b"), (9, "c")] {
            store.enrol(&claim(key, name, worker), 99).unwrap();
            text += &store.enrolment(&PublicKey([key; 32]));
        }
        let again = |text: &str| {
            let mut again = before.clone();
            again.enrol_again(text).map(|is_whole| (again, is_whole))
        };
        assert_eq!(again(&text).unwrap(), (store.clone(), true));
        let torn = again(&text[..text.len() - 1]).unwrap();
        assert!(torn.0.holder("b").is_some() && torn.0.holder("c").is_none() && !torn.1);
        assert_eq!(again(&text.replace("\"c\"", "\"x\"")).unwrap(), torn);
        assert_eq!(again("").unwrap(), (before.clone(), false));
        assert!(again(&text.replace("\"b\"", "\"x\"")).is_err(), "another line follows");
        let other = if text.starts_with('0') { "1" } else { "0" };
        assert!(again(&format!("{other}{}", &text[1..])).is_err(), "so they do behind the head");
        assert_eq!(again(&store.enrolments_head()[1..]).unwrap(), (before.clone(), false));
        store.revoke_key(&PublicKey([8; 32])).unwrap();
        let revoked = store.clone();
        assert!(store.enrol_again(&text).unwrap());
        assert_eq!(store, revoked, "those of an older store say nothing");
    }
}
