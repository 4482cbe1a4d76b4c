//! Whether a candidate has the digest that somebody says it has: one digest, no tables. A hit that comes from elsewhere is
//! believed only after this.

use std::fmt;

use starfarm_protocol::spec::{Algorithm, SearchWork, Space as SpaceSpec};

use crate::block::{Block, Words, digest_words};
use crate::digest::Digest;
use crate::md5::Md5;
use crate::ntlm::Ntlm;
use crate::search::check_targets;
use crate::sha1::Sha1;
use crate::sha256::Sha256;
use crate::space::Space;

/// A search, as far as its hits are checked: memory goes with the targets, some 16 to 32 bytes each.
pub struct Verifier {
    space: Space,
    digest: fn(&Block) -> Words,
    /// The targets' digests, one behind the other.
    targets: Vec<u8>,
    digest_bytes: usize,
}

impl Verifier {
    /// Bytes of the targets' digests.
    pub fn bytes(&self) -> usize {
        self.targets.len()
    }

    /// The search that a specification describes.
    ///
    /// # Errors
    /// It is none that [`crate::Search`] would run; the sentence says why.
    pub fn new(work: &SearchWork, space: &SpaceSpec) -> Result<Self, String> {
        match work.algorithm {
            Algorithm::Md5 => Self::of::<Md5>(work, space),
            Algorithm::Sha1 => Self::of::<Sha1>(work, space),
            Algorithm::Sha256 => Self::of::<Sha256>(work, space),
            Algorithm::Ntlm => Self::of::<Ntlm>(work, space),
        }
    }

    fn of<D: Digest>(work: &SearchWork, space: &SpaceSpec) -> Result<Self, String> {
        let SpaceSpec::Chars { positions, min } = space else {
            return Err("a search needs a `chars` space: submit the job anew".to_owned());
        };
        let positions: Vec<_> = positions.iter().map(|position| position.0.clone()).collect();
        check_targets(work.algorithm, work.targets.iter().map(|target| target.0.len()))
            .map_err(|e| e.to_string())?;
        Ok(Self {
            space: Space::new(D::LAYOUT, &positions, *min, None).map_err(|e| e.to_string())?,
            digest: D::digest,
            targets: work.targets.iter().flat_map(|target| &target.0).copied().collect(),
            digest_bytes: work.algorithm.digest_bytes(),
        })
    }

    /// The digest of the candidate of `unit`, as targets are written; none where there is no such unit.
    pub fn digest(&self, unit: u128) -> Option<Vec<u8>> {
        let words = (unit < self.space.units()).then(|| (self.digest)(&self.space.block(unit)))?;
        let layout = self.space.layout();
        let bytes = words
            .into_iter()
            .flat_map(|word| if layout.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
        Some(bytes.take(self.digest_bytes).collect())
    }

    /// The candidate of `unit` has the digest `target`. False where there is no such unit or target.
    pub fn is_hit(&self, unit: u128, target: u32) -> bool {
        let target = self.targets.chunks_exact(self.digest_bytes).nth(target as usize);
        let Some(target) = target.filter(|_| unit < self.space.units()) else { return false };
        (self.digest)(&self.space.block(unit)) == digest_words(self.space.layout(), target)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("units", &self.space.units()).finish_non_exhaustive()
    }
}
