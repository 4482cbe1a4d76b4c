//! The code paths and the choice between them at run time. What a path does is in its own file.

use starfarm_protocol::spec::Algorithm;

#[cfg(target_arch = "x86_64")]
use crate::avx;
#[cfg(target_arch = "aarch64")]
use crate::neon;
use crate::portable;
use crate::run::Runner;

/// A way to do the same computation. All of them find the same hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// x86-64 with AVX-512F: vectors of 16 words.
    Avx512,
    /// x86-64 with AVX2 and SHA: SHA-256 by instructions of its own, the others as with AVX2.
    Sha,
    /// x86-64 with AVX2: vectors of 8 words.
    Avx2,
    /// aarch64, which always has NEON: vectors of 4 words.
    Neon,
    /// Any processor; what the compiler makes of plain code.
    Portable,
}

impl Path {
    /// All paths, in the order in which they are chosen: as measured, the fastest first.
    pub const ALL: [Path; 5] = [Path::Avx512, Path::Sha, Path::Avx2, Path::Neon, Path::Portable];

    /// `avx512`, `sha`, `avx2`, `neon` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            Path::Avx512 => "avx512",
            Path::Sha => "sha",
            Path::Avx2 => "avx2",
            Path::Neon => "neon",
            Path::Portable => "portable",
        }
    }

    /// This processor can run it.
    pub fn is_available(self) -> bool {
        self.runner(Algorithm::Md5).is_some()
    }

    /// The fastest path that this processor can run.
    pub fn best() -> Path {
        Path::ALL.into_iter().find(|path| path.is_available()).unwrap_or(Path::Portable)
    }

    /// The inner loop for an algorithm; none where the processor lacks what it needs.
    pub(crate) fn runner(self, algorithm: Algorithm) -> Option<Runner> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => avx::avx512(algorithm),
            #[cfg(target_arch = "x86_64")]
            Path::Sha => avx::sha(algorithm),
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => avx::avx2(algorithm),
            #[cfg(not(target_arch = "x86_64"))]
            Path::Avx512 | Path::Sha | Path::Avx2 => None,
            #[cfg(target_arch = "aarch64")]
            Path::Neon => Some(neon::neon(algorithm)),
            #[cfg(not(target_arch = "aarch64"))]
            Path::Neon => None,
            Path::Portable => Some(portable::runner(algorithm)),
        }
    }
}
