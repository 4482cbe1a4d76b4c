//! Vouchers: whom the scheduler has named to a post as somebody who may link with it. A link is shaken hands for like a
//! stream to the scheduler, with a pre-shared key that the scheduler tells both ends and nobody else. It keeps no list of
//! these: they follow from its own private key and the two public ones, and so are the same after it has started again.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::door::Door;
use super::keys::{Secret, StaticKey};
use super::refusal::Refusal;
use super::role::Role;
use super::store::Claim;
use crate::ids::{JoinKeyId, PublicKey};

/// What the secrets of all pairs follow from.
#[derive(Clone)]
pub struct PairKey(Zeroizing<[u8; 32]>);

impl PairKey {
    /// That of the scheduler with this key.
    pub fn of(scheduler: &StaticKey) -> Self {
        Self(Zeroizing::new(blake3::derive_key("starfarm 2026 peer v1", &scheduler.private().0)))
    }

    /// The same of a tree of a job's own: no secret of it is one of another tree.
    pub fn of_job(scheduler: &StaticKey, job: u64) -> Self {
        let of = [&scheduler.private().0[..], &job.to_le_bytes()].concat();
        Self(Zeroizing::new(blake3::derive_key("starfarm 2026 peer of a job v1", &Zeroizing::new(of))))
    }

    /// The secret of a caller and of whom it calls.
    pub fn secret(&self, caller: &PublicKey, called: &PublicKey) -> Secret {
        let pair = [caller.0, called.0].concat();
        Secret(*blake3::keyed_hash(&self.0, &pair).as_bytes())
    }
}

/// The secret of a caller and of whom it calls, as the scheduler with this key makes it.
pub fn pair_secret(scheduler: &StaticKey, caller: &PublicKey, called: &PublicKey) -> Secret {
    PairKey::of(scheduler).secret(caller, called)
}

/// What the name of a post in a handshake begins with; its number follows.
const POST: &str = "post-";

/// The name of a post in a handshake.
pub fn post_name(post: u64) -> String {
    format!("{POST}{post}")
}

/// The post of that name.
pub fn post_of(name: &str) -> Option<u64> {
    let post = name.strip_prefix(POST)?.parse().ok()?;
    (post_name(post) == name).then_some(post)
}

/// Those who may link with a post. Who is not named here gets no answer.
#[derive(Clone, Default, Debug)]
pub struct Vouchers {
    by_secret: BTreeMap<JoinKeyId, Voucher>,
}

#[derive(Clone, Debug)]
struct Voucher {
    secret: Secret,
    post: u64,
    key: PublicKey,
}

impl Vouchers {
    /// The post with this key may link by this secret; as long as another may, it may not: no two posts have one key.
    pub fn add(&mut self, secret: Secret, post: u64, key: PublicKey) {
        let id = secret.join_key_id();
        if self.by_secret.get(&id).is_none_or(|known| known.post == post) {
            self.by_secret.insert(id, Voucher { secret, post, key });
        }
    }

    /// The post may no longer link.
    pub fn remove(&mut self, post: u64) {
        self.by_secret.retain(|_, voucher| voucher.post != post);
    }

    /// The voucher with the secret of that id alone.
    pub fn only(&self, id: &JoinKeyId) -> Option<Self> {
        let voucher = self.by_secret.get(id)?.clone();
        Some(Self { by_secret: BTreeMap::from([(*id, voucher)]) })
    }

    /// Whether somebody may link by the secret of that id.
    pub fn has(&self, id: &JoinKeyId) -> bool {
        self.by_secret.contains_key(id)
    }
}

impl Door for Vouchers {
    fn secret(&self, id: &JoinKeyId) -> Option<&Secret> {
        self.by_secret.get(id).map(|voucher| &voucher.secret)
    }

    fn admit(&self, claim: &Claim, _now_s: u64) -> Result<Role, Refusal> {
        let voucher = self.by_secret.get(&claim.join_key).ok_or(Refusal::NoVoucher)?;
        let named = voucher.key == claim.key && post_of(&claim.name) == Some(voucher.post);
        if named { Ok(Role::Peer) } else { Err(Refusal::NoVoucher) }
    }

    fn enrol(&mut self, claim: &Claim, now_s: u64) -> Result<bool, Refusal> {
        self.admit(claim, now_s).map(|_| false)
    }

    fn known(&self, _: &PublicKey) -> Option<(&str, Role)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Boot;

    #[test]
    fn one_that_tells_another_posts_key_as_its_own_does_not_shut_that_one_out() {
        let (own, others) = (PublicKey([1; 32]), Secret([2; 32]));
        let id = others.join_key_id();
        let mut vouchers = Vouchers::default();
        vouchers.add(others.clone(), 5, own);
        vouchers.add(others, 6, own);
        let claim = |post| Claim { key: own, name: post_name(post), boot: Boot(0), join_key: id };
        assert!(vouchers.admit(&claim(5), 0).is_ok());
        assert!(vouchers.admit(&claim(6), 0).is_err());
    }
}
