//! Unacknowledged results as bytes, for the file that outlives the process. Reading trusts nothing: a
//! cut or damaged spool is an error, never half a spool.
//!
//! `magic "SFSPOOL1", count u64, entries, BLAKE3 [32] of all before`; an entry is `job u64, spec [32],
//! attempt u64, lo u128, units u64, duration_us u64, outcome u8, length u16, body`, little endian.

use std::fmt;

use starfarm_protocol::bytes::{Malformed, Reader};
use starfarm_protocol::ids::{Attempt, ContentHash, JobId};
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::wire::Outcome;

use crate::outbox::Kept;
use crate::types::Part;

const MAGIC: &[u8; 8] = b"SFSPOOL1";
const SEAL_BYTES: usize = 32;

/// Why a spool was not loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpoolError {
    /// It does not begin as a spool of this version does.
    Unknown,
    /// It was cut or changed.
    Damaged,
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpoolError::Unknown => "it is not a spool of this version",
            SpoolError::Damaged => "it was cut or changed; its results are computed again",
        })
    }
}

impl std::error::Error for SpoolError {}

impl From<Malformed> for SpoolError {
    fn from(Malformed: Malformed) -> Self {
        SpoolError::Damaged
    }
}

/// The bytes of `results`. Only what was computed is worth keeping: the next incarnation holds no tasks
/// that it could give back.
pub(crate) fn write<'a>(results: impl Iterator<Item = &'a Kept>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[0; 8]);
    let mut count = 0_u64;
    for result in results.map(|kept| &kept.part).filter(|part| part.outcome == Outcome::Done) {
        count += 1;
        out.extend_from_slice(&result.job.0.to_le_bytes());
        out.extend_from_slice(&result.spec.0);
        out.extend_from_slice(&result.attempt.0.to_le_bytes());
        out.extend_from_slice(&result.lo.to_le_bytes());
        out.extend_from_slice(&result.units.to_le_bytes());
        out.extend_from_slice(&result.duration_us.to_le_bytes());
        out.push(result.outcome as u8);
        let length = u16::try_from(result.body.len()).expect("a body fits a datagram");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&result.body);
    }
    out[8..16].copy_from_slice(&count.to_le_bytes());
    let seal = ContentHash::of(&out);
    out.extend_from_slice(&seal.0);
    debug_assert!(read(&out).is_ok_and(|back| back.len() as u64 == count), "a spool can be read back");
    out
}

pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Kept>, SpoolError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(SpoolError::Unknown)?;
    let (entries, seal) =
        rest.split_at_checked(rest.len().wrapping_sub(SEAL_BYTES)).ok_or(SpoolError::Damaged)?;
    if ContentHash::of(&bytes[..bytes.len() - SEAL_BYTES]).0 != seal {
        return Err(SpoolError::Damaged);
    }
    let mut rest = Reader(entries);
    let count = rest.u64()?;
    let results = (0..count).map(|_| entry(&mut rest)).collect::<Result<_, _>>()?;
    if rest.0.is_empty() { Ok(results) } else { Err(SpoolError::Damaged) }
}

fn entry(rest: &mut Reader<'_>) -> Result<Kept, Malformed> {
    let part = Part {
        job: JobId(rest.u64()?),
        spec: ContentHash(rest.array()?),
        attempt: Attempt(rest.u64()?),
        lo: rest.u128()?,
        units: rest.u64()?,
        duration_us: rest.u64()?,
        outcome: match rest.u8()? {
            0 => Outcome::Done,
            _ => return Err(Malformed),
        },
        body: {
            let length = usize::from(rest.u16()?);
            rest.bytes(length)?.to_vec()
        },
    };
    let sound = part.body.len() <= RESULT_BODY_BYTES_MAX
        && part.units > 0
        && part.lo.checked_add(u128::from(part.units)).is_some();
    if sound { Ok(Kept { part, ended_us: None }) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: u8, outcome: Outcome) -> Kept {
        let part = Part {
            job: JobId(1),
            spec: ContentHash([n; 32]),
            attempt: Attempt(2),
            lo: u128::from(n) << 100,
            units: 3,
            duration_us: 4,
            outcome,
            body: vec![n; usize::from(n)],
        };
        Kept { part, ended_us: None }
    }

    #[test]
    fn computed_results_come_back_as_they_were() {
        let all = [kept(1, Outcome::Done), kept(2, Outcome::Returned), kept(200, Outcome::Done)];
        let read = read(&write(all.iter())).unwrap();
        assert_eq!(read, [all[0].clone(), all[2].clone()]);
    }

    #[test]
    fn a_cut_or_changed_spool_is_refused_whole() {
        let bytes = write([kept(1, Outcome::Done), kept(2, Outcome::Done)].iter());
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "changed at {at}");
        }
        assert_eq!(read(b"something else"), Err(SpoolError::Unknown));
        assert_eq!(read(&bytes[..20]), Err(SpoolError::Damaged));
    }
}
