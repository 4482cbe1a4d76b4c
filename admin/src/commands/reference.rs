//! What a user looks up: the keys of a job file, and the JSON schemas of what is printed.

use super::Context;
use crate::failure::{Exit, Failure};

/// What a job file may say, for a terminal. `docs/jobs.md` says the same at length.
pub(crate) const JOB_FILE: &str = include_str!("reference/job-file.txt");

/// The schemas by name. What is printed on one line keeps to that of the list that it would stand in.
const SCHEMAS: [(&str, &str); 17] = [
    ("audit", include_str!("../../schemas/audit.json")),
    ("bench-dispatch", include_str!("../../schemas/bench-dispatch.json")),
    ("dry-run", include_str!("../../schemas/dry-run.json")),
    ("error", include_str!("../../schemas/error.json")),
    ("events", include_str!("../../schemas/events.json")),
    ("explanation", include_str!("../../schemas/explanation.json")),
    ("jobs", include_str!("../../schemas/jobs.json")),
    ("join-file", include_str!("../../schemas/join-file.json")),
    ("keys", include_str!("../../schemas/keys.json")),
    ("log-replay", include_str!("../../schemas/log-replay.json")),
    ("log-state", include_str!("../../schemas/log-state.json")),
    ("log-validation", include_str!("../../schemas/log-validation.json")),
    ("nodes", include_str!("../../schemas/nodes.json")),
    ("plan", include_str!("../../schemas/plan.json")),
    ("results", include_str!("../../schemas/results.json")),
    ("status", include_str!("../../schemas/status.json")),
    ("submitted", include_str!("../../schemas/submitted.json")),
];

/// Prints what a job file may say.
pub(crate) fn job_file(context: &mut Context) -> Result<(), Failure> {
    context.printer.text(JOB_FILE)
}

/// Prints the schema `name`, or the names of all.
pub(crate) fn schema(context: &mut Context, name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else {
        SCHEMAS.iter().try_for_each(|(name, _)| context.printer.line(name))?;
        return Ok(());
    };
    // As a document or a line names its own: `starfarm/jobs/1`, `starfarm/job/1`.
    let own = name.strip_prefix("starfarm/").and_then(|own| own.split_once('/')).map_or(name, |(own, _)| own);
    let of = |name: &str| SCHEMAS.iter().find(|(known, _)| *known == name);
    let Some((_, schema)) = of(own).or_else(|| of(&format!("{own}s"))) else {
        let words = format!("there is no schema `{name}`: `starfarm schema` lists them");
        return Err(Failure::new(Exit::NotFound, words));
    };
    context.printer.text(schema)
}
