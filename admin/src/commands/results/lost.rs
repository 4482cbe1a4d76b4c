//! Outputs that cannot be had: which they are, and what to do.

use starfarm_protocol::admin::{LostOutputs, Request, Response};
use starfarm_protocol::ids::JobId;

use super::pages::Seen;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;

/// Intervals of lost outputs that a message names.
const NAMED_MAX: usize = 8;

/// Fails where some of what was `seen` is lost.
pub(super) fn lost(client: &mut Client, id: JobId, seen: &Seen) -> Result<(), Failure> {
    match &seen.lost[..] {
        [] => Ok(()),
        lost => {
            let is_whole = has_specification(client, id)?;
            Err(Failure::new(Exit::Conflict, lament(id, lost, is_whole)))
        }
    }
}

/// Whether the job's units could run again: the farm has what the job is made from.
fn has_specification(client: &mut Client, id: JobId) -> Result<bool, Failure> {
    let hash = client.job(id)?.spec;
    Ok(!matches!(client.ask(&Request::Fetch { hash, offset: 0 })?, Response::Lost(_)))
}

/// Which outputs cannot be had, the first of them by name, and what to do.
fn lament(id: JobId, lost: &[LostOutputs], has_specification: bool) -> String {
    let (earlier, counting): (Vec<_>, Vec<_>) = lost.iter().partition(|lost| lost.superseded);
    let mut sentences = Vec::new();
    if !counting.is_empty() {
        let first = match has_specification {
            true => "",
            false => {
                "The job's specification is lost as well: submit the same job file again, which puts it back; then "
            }
        };
        let (words, unit) = are_lost(&counting, &format!("job {}", id.0));
        sentences.push(format!(
            "{words}: the others are printed, and what the job counted is not touched. {first}`starfarm job retry \
             --missing-outputs {}` runs the {unit} again",
            id.0
        ));
    }
    if !earlier.is_empty() {
        let (words, _) = are_lost(&earlier, &format!("runs of job {} that do not count", id.0));
        sentences.push(format!("{words}: nothing brings them back, and nothing needs them"));
    }
    sentences.join(". ")
}

/// How many outputs of `whose` are lost, and the first by name; and what to call their units.
fn are_lost(lost: &[&LostOutputs], whose: &str) -> (String, &'static str) {
    let count: u128 = lost.iter().map(|lost| lost.hi.0.saturating_sub(lost.lo.0)).sum();
    let named: Vec<_> = lost.iter().take(NAMED_MAX).map(|lost| human::interval(lost.lo, lost.hi)).collect();
    let (outputs, are, unit) =
        if count == 1 { ("output", "is", "unit") } else { ("outputs", "are", "units") };
    let more = if lost.len() > NAMED_MAX { ", ..." } else { "" };
    let named = named.join(", ");
    let words = format!(
        "{count} {outputs} of {whose} {are} missing or damaged on the scheduler's disk, {unit} {named}{more}"
    );
    (words, unit)
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::admin::OutputLoss;
    use starfarm_protocol::units::Units;

    use super::*;

    #[test]
    fn the_first_lost_outputs_are_named_and_all_are_counted() {
        let what = OutputLoss::Missing;
        let of = |lo, hi| LostOutputs { lo: Units(lo), hi: Units(hi), what, superseded: false };
        let words = lament(JobId(3), &[of(7, 8)], true);
        assert!(words.starts_with("1 output of job 3 is missing or damaged"), "{words}");
        assert!(words.contains("disk, unit 7: the others"), "{words}");
        let all: Vec<_> = (0..30).map(|at| of(at * 10, at * 10 + 3)).collect();
        let words = lament(JobId(3), &all, true);
        assert!(
            words.starts_with("90 outputs of job 3 are") && words.contains("0 to 2, 10 to 12, "),
            "{words}"
        );
        assert!(words.contains(", ...: the others") && words.contains("--missing-outputs 3`"), "{words}");
        let words = lament(JobId(3), &all, false);
        assert!(
            words.contains("submit the same job file again") && words.contains("then `starfarm job"),
            "{words}"
        );
        let earlier = LostOutputs { superseded: true, ..of(7, 8) };
        let words = lament(JobId(3), &[earlier], true);
        assert!(words.starts_with("1 output of runs of job 3 that do not count is missing"), "{words}");
        assert!(!words.contains("--missing-outputs"), "{words}");
        let words = lament(JobId(3), &[of(7, 8), earlier], true);
        assert!(words.contains("--missing-outputs 3` runs the unit again. 1 output of runs"), "{words}");
    }
}
