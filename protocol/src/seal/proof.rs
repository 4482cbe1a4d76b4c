//! Proofs that an incarnation of the scheduler existed. A scheduler seals (farm, epoch) with a key that only
//! it can derive and gives that to its workers, who show it to whoever welcomes them later: so a scheduler
//! that was started from an old copy of its state learns that it is behind, from workers which it need not
//! trust. What it then does is decided elsewhere.

use std::fmt;

use zeroize::Zeroizing;

use super::keys::StaticKey;
use crate::ids::{Epoch, FarmId};

/// Bytes of a proof as they travel: half a hash, which nobody guesses over a network.
pub type EpochProof = [u8; 16];

/// Makes and checks the proofs of one farm.
#[derive(Clone)]
pub struct EpochProofs {
    key: Zeroizing<[u8; 32]>,
    farm: FarmId,
}

impl EpochProofs {
    /// For `farm`, whose scheduler has this key.
    pub fn new(scheduler: &StaticKey, farm: FarmId) -> Self {
        let key = Zeroizing::new(blake3::derive_key("starfarm 2026 epoch proof v1", &scheduler.private().0));
        Self { key, farm }
    }

    /// The proof of `epoch`.
    pub fn of(&self, epoch: Epoch) -> EpochProof {
        let mut sealed = [0; 24];
        sealed[..16].copy_from_slice(&self.farm.0);
        sealed[16..].copy_from_slice(&epoch.0.to_le_bytes());
        let mut proof = [0; 16];
        proof.copy_from_slice(&blake3::keyed_hash(&self.key, &sealed).as_bytes()[..16]);
        proof
    }

    /// Whether this is the proof of `epoch`, in a time that does not tell how much of it is right.
    pub fn is_genuine(&self, epoch: Epoch, proof: &EpochProof) -> bool {
        let difference = self.of(epoch).iter().zip(proof).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for EpochProofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochProofs({:?})", self.farm)
    }
}

/// The proof of one epoch: see [`EpochProofs`].
pub fn epoch_proof(scheduler: &StaticKey, farm: FarmId, epoch: Epoch) -> EpochProof {
    EpochProofs::new(scheduler, farm).of(epoch)
}

#[cfg(test)]
mod tests {
    use super::super::keys::Secret;
    use super::*;

    #[test]
    fn a_proof_holds_for_its_key_farm_and_epoch_only() {
        let key = |byte| StaticKey::from_secret(Secret([byte; 32]));
        let (farm, other) = (FarmId([1; 16]), FarmId([2; 16]));
        let ours = EpochProofs::new(&key(7), farm);
        let proof = epoch_proof(&key(7), farm, Epoch(9));
        assert!(ours.is_genuine(Epoch(9), &proof));
        assert!(!ours.is_genuine(Epoch(10), &proof));
        assert!(!EpochProofs::new(&key(8), farm).is_genuine(Epoch(9), &proof));
        assert!(!EpochProofs::new(&key(7), other).is_genuine(Epoch(9), &proof));
        for bit in 0..128 {
            let mut forged = proof;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ours.is_genuine(Epoch(9), &forged), "bit {bit}");
        }
        assert!(!ours.is_genuine(Epoch(0), &[0; 16]));
    }

    #[test]
    fn the_key_is_not_printed() {
        let proofs = EpochProofs::new(&StaticKey::from_secret(Secret([7; 32])), FarmId([1; 16]));
        assert_eq!(format!("{proofs:?}"), "EpochProofs(FarmId(01010101))");
    }
}
