//! The section `[trust]`: how the results of a search are checked beyond what always is.

use starfarm_protocol::spec::Work;
use starfarm_protocol::trust::{PLANTED_MAX, Share, TrustChecks};

use super::error::JobFileError;
use super::job::JobFile;
use super::table::Item;

/// Reads the section of a job whose task is known.
pub(super) fn read(trust: &Item<'_>, job: &JobFile) -> Result<TrustChecks, JobFileError> {
    let section = trust.table()?;
    section.only(&["check", "planted"])?;
    if !matches!(job.spec.work, Work::Search(_)) {
        return Err(
            section.error("only a search has trust checks: remove [trust], or use executor = \"search\"")
        );
    }
    let share = |item: &Item<'_>| {
        Share::try_from(item.number("a number")?).map_err(|e| item.error(format!("`check`: {e}: change it")))
    };
    let check = section.read("check", share)?.unwrap_or_default();
    let planted = section.read("planted", |item| item.integer_within(0, u64::from(PLANTED_MAX)))?;
    Ok(TrustChecks { check, planted: planted.unwrap_or(0) as u32 })
}
