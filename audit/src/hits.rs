//! The hits of searches, checked: each is computed anew from the specification. A hit that is none was believed by a
//! scheduler that did not look, or was written by somebody else.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use starfarm_kernels::Verifier;
use starfarm_protocol::spec::{JobSpec, Work};

use crate::books::Books;
use crate::contents::Contents;

/// Checks the hits of all searches whose specifications are in the state directory `dir`.
pub(crate) fn check(dir: &Path, books: &mut Books) -> io::Result<()> {
    let searches = books.with_hits();
    if searches.is_empty() {
        return Ok(());
    }
    let specs: BTreeSet<_> = searches.iter().map(|(_, spec)| spec.0).collect();
    let contents = Contents::read(&dir.join("blobs"), |hash| specs.contains(&hash.0))?;
    for (job, spec) in searches {
        let verifier = contents.get(&spec)?.and_then(|bytes| match JobSpec::from_bytes(&bytes).ok()? {
            JobSpec { space, work: Work::Search(work) } => Verifier::new(&work, &space).ok(),
            _ => None,
        });
        match verifier {
            Some(verifier) => books.check_hits(job, |unit, target| verifier.is_hit(unit, target)),
            None => books.notes.push(format!(
                "the hits of job {} are not checked: its specification is not among the contents",
                job.0
            )),
        }
    }
    Ok(())
}
