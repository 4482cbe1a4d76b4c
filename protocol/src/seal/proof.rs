//! Proofs that an incarnation of the scheduler existed. A scheduler seals farm, epoch and a random number of
//! its start with a key that only it can derive and gives that to its workers, who show it to whoever welcomes
//! them later: so a scheduler that was started from an old copy of its state learns that it is behind, from
//! workers which it need not trust. The random number tells two starts of the same epoch apart, as when a
//! directory was copied and both were started. What it then does is decided elsewhere.

use std::fmt;

use zeroize::Zeroizing;

use super::cookie::same;
use super::keys::StaticKey;
use crate::ids::{Epoch, FarmId};

/// A proof as it travels: the start's random number and eight bytes of a hash, which nobody guesses over a
/// network.
pub type EpochProof = [u8; 16];
/// Random number of a start.
pub type Nonce = [u8; 8];

/// Makes and checks the proofs of one farm.
#[derive(Clone)]
pub struct EpochProofs {
    key: Zeroizing<[u8; 32]>,
    farm: FarmId,
    nonce: Nonce,
}

impl EpochProofs {
    /// For `farm`, whose scheduler has this key, in the start with this random number.
    pub fn new(scheduler: &StaticKey, farm: FarmId, nonce: Nonce) -> Self {
        let key = Zeroizing::new(blake3::derive_key("starfarm 2026 epoch proof v1", &scheduler.private().0));
        Self { key, farm, nonce }
    }

    /// The proof that this start makes of `epoch`.
    pub fn of(&self, epoch: Epoch) -> EpochProof {
        self.sealed(epoch, self.nonce)
    }

    fn sealed(&self, epoch: Epoch, nonce: Nonce) -> EpochProof {
        let sealed = [&self.farm.0[..], &epoch.0.to_le_bytes(), &nonce].concat();
        let mut proof = [0; 16];
        proof[..8].copy_from_slice(&nonce);
        proof[8..].copy_from_slice(&blake3::keyed_hash(&self.key, &sealed).as_bytes()[..8]);
        proof
    }

    /// Whether this is a proof that some start made of `epoch`, in a time that does not tell how much of it is right.
    pub fn is_genuine(&self, epoch: Epoch, proof: &EpochProof) -> bool {
        let nonce = proof.first_chunk().copied().unwrap_or_default();
        same(&self.sealed(epoch, nonce), proof)
    }
}

impl fmt::Debug for EpochProofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochProofs({:?})", self.farm)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Secret;
    use super::*;

    #[test]
    fn a_proof_holds_for_its_key_farm_and_epoch_only() {
        let key = |byte| StaticKey::from_secret(Secret([byte; 32]));
        let (farm, other) = (FarmId([1; 16]), FarmId([2; 16]));
        let ours = EpochProofs::new(&key(7), farm, [3; 8]);
        let other_start = EpochProofs::new(&key(7), farm, [4; 8]);
        let proof = other_start.of(Epoch(9));
        assert_ne!(proof, ours.of(Epoch(9)));
        assert!(ours.is_genuine(Epoch(9), &proof));
        assert!(!ours.is_genuine(Epoch(10), &proof));
        assert!(!EpochProofs::new(&key(8), farm, [3; 8]).is_genuine(Epoch(9), &proof));
        assert!(!EpochProofs::new(&key(7), other, [3; 8]).is_genuine(Epoch(9), &proof));
        for bit in 0..128 {
            let mut forged = proof;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ours.is_genuine(Epoch(9), &forged), "bit {bit}");
        }
        assert!(!ours.is_genuine(Epoch(0), &[0; 16]));
    }

    #[test]
    fn the_key_is_not_printed() {
        let proofs = EpochProofs::new(&StaticKey::from_secret(Secret([7; 32])), FarmId([1; 16]), [3; 8]);
        assert_eq!(format!("{proofs:?}"), "EpochProofs(FarmId(01010101))");
    }
}
