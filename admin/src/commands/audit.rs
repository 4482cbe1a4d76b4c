//! `starfarm audit`: the completion certificates of a farm's jobs, derived from its ledger and journal alone.
//! The arithmetic is in `starfarm-audit`; here it is printed.

use std::path::Path;

use starfarm_audit::{
    Certificate, JobReport, LostContent, LostMerged, LostOutput, Outputs, Report, Violation, directory,
};
use starfarm_protocol::state::Completion;
use starfarm_protocol::units::Units;

use super::Context;
use crate::cli::Audit;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human::{interval, printable};
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};

/// Lost outputs and contents that are listed; all of them are in JSON.
const LOST_SHOWN: usize = 50;

/// Audits, and prints what came out.
///
/// # Errors
/// [`Exit::Usage`] where the directory cannot be read, [`Exit::NotFound`] where it has no such job; as the
/// printer.
pub(crate) fn run(context: &mut Context, audit: &Audit) -> Result<Exit, Failure> {
    let dir = audit.dir.as_deref().or(context.farm.as_deref()).ok_or_else(|| {
        Failure::usage("which farm? Give its state directory: `starfarm audit DIR`, or --farm DIR")
    })?;
    if dir.is_file() {
        let words =
            format!("{} is a file: give the scheduler's state directory, on its machine", dir.display());
        return Err(Failure::usage(words));
    }
    let scheduler_runs = scheduler_runs(dir);
    let outputs = audit.outputs.then_some(&*audit.job);
    let report = directory(dir, outputs).map_err(Failure::usage)?;
    let report = report.only(&audit.job).map_err(|id| {
        Failure::new(Exit::NotFound, format!("no job {} in the records of {}", id.0, dir.display()))
    })?;
    let audited = Audited { scheduler_runs, report };
    context.printer.document(&audited)?;
    Ok(if audited.report.holds { Exit::Ok } else { Exit::UnitsFailed })
}

/// Whether somebody answers on the directory's socket. Its lock is not touched: trying it would be in the way
/// of a scheduler that starts.
fn scheduler_runs(dir: &Path) -> bool {
    dir.join("admin.sock").exists() && Client::connect(dir).is_ok()
}

/// A report, and whether the books are still being written.
#[derive(serde::Serialize)]
struct Audited {
    scheduler_runs: bool,
    #[serde(flatten)]
    report: Report,
}

impl Document for Audited {
    const NAME: &'static str = "audit";

    fn table(&self, style: Style) -> String {
        let report = &self.report;
        let mut text: String = report.jobs.iter().map(|job| job_text(job, style)).collect();
        for violation in &report.violations {
            text.push_str(&format!("VIOLATION: {}\n", violation_text(violation)));
        }
        if report.violations_left_out > 0 {
            text.push_str(&format!("and {} more\n", report.violations_left_out));
        }
        text.push_str(&report.outputs.as_ref().map_or_else(String::new, outputs_text));
        for note in &report.notes {
            text.push_str(&format!("note: {}\n", printable(note)));
        }
        if self.scheduler_runs {
            text.push_str("note: a scheduler runs here; this is what was on the disk just now\n");
        }
        let (records, epoch) = (report.records, report.epoch);
        let verdict = if report.holds { "all of it holds" } else { "IT DOES NOT HOLD" };
        text.push_str(&format!("{verdict}: {records} records, the last epoch is {epoch}\n"));
        text
    }

    /// Number and hash of each certificate.
    fn quiet(&self) -> String {
        let hash = |job: &JobReport| Some(format!("{} {}", job.id.0, job.certificate_hash?));
        self.report.jobs.iter().filter_map(hash).collect::<Vec<_>>().join("\n")
    }
}

/// Outputs and contents that are missing or damaged, the first of them by name.
fn outputs_text(outputs: &Outputs) -> String {
    let of = |lost: &LostOutput| {
        let (units, what) = (interval(lost.lo, lost.hi), lost.what);
        format!("OUTPUT {}: job {}, unit {units}\n", what.word().to_uppercase(), lost.job.0)
    };
    let content = |lost: &LostContent| {
        let of = lost.job.map_or_else(String::new, |id| format!(", of job {}", id.0));
        format!("CONTENT {}: {}{of}\n", lost.what.word().to_uppercase(), lost.hash)
    };
    let merged = |lost: &LostMerged| {
        let what = if lost.name.is_empty() { "the result" } else { &lost.name };
        format!("MERGED {}: job {}, {}\n", lost.what.word().to_uppercase(), lost.job.0, printable(what))
    };
    let lines = outputs.lost.iter().map(of).chain(outputs.contents.iter().map(content));
    let lines: Vec<_> = lines.chain(outputs.merged.iter().map(merged)).collect();
    let mut text: String = lines.iter().take(LOST_SHOWN).map(String::as_str).collect();
    if let Some(left @ 1..) = lines.len().checked_sub(LOST_SHOWN) {
        text.push_str(&format!("and {left} more: --output json has them all\n"));
    }
    if outputs.contents.iter().any(|lost| lost.job.is_some()) {
        let words = "contents of a job come back when the same job file is submitted again; only then can `job retry` help";
        text.push_str(&format!("{words}\n"));
    }
    if !outputs.merged.is_empty() {
        text.push_str("`starfarm job merge ID` merges the results of a job again\n");
    }
    let lost: u128 = outputs.lost.iter().map(|lost| lost.hi.0.saturating_sub(lost.lo.0)).sum();
    text.push_str(&format!("outputs: {} checked, {lost} missing or damaged\n", outputs.units));
    text
}

/// "job 3, units [5, 8): a gap".
fn violation_text(violation: &Violation) -> String {
    let mut place = violation.job.map_or_else(|| "the journal".to_owned(), |id| format!("job {}", id.0));
    if let (Some(lo), Some(hi)) = (&violation.lo, &violation.hi) {
        place.push_str(&format!(", units [{lo}, {hi})"));
    }
    format!("{place}: {}", printable(&violation.what))
}

fn job_text(job: &JobReport, style: Style) -> String {
    let mut text = format!("job {} {}: {}\n", job.id.0, printable(&job.name), in_words(job.verdict));
    let pairs = match (&job.certificate, &job.certificate_hash) {
        (Some(certificate), Some(hash)) => certified(certificate, &hash.to_string()),
        _ => counts(job),
    };
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, Cell::new(value))).collect();
    text.extend(facts(&pairs, style).lines().map(|line| format!("  {line}\n")));
    text
}

fn in_words(completion: Completion) -> &'static str {
    match completion {
        Completion::Complete => "complete",
        Completion::CompleteWithFailures => "complete with failures",
        Completion::EndedEarly => "ended early",
        Completion::NotEnded => "not ended: nothing to certify yet",
        Completion::Broken => "BROKEN",
    }
}

fn counts(job: &JobReport) -> Vec<(&'static str, String)> {
    vec![
        ("state", job.state.to_string()),
        ("units", job.units_total.to_string()),
        ("  done", job.units_done.to_string()),
        ("  failed", job.units_failed.to_string()),
        ("  abandoned", job.units_abandoned.to_string()),
        ("hits", job.hits.to_string()),
    ]
}

fn certified(certificate: &Certificate, hash: &str) -> Vec<(&'static str, String)> {
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    let epochs: Vec<_> = certificate.epochs.iter().map(u64::to_string).collect();
    let mut pairs = vec![
        ("certificate", hash.to_owned()),
        ("specification", certificate.spec.to_string()),
        ("state", certificate.state.to_string()),
        ("user", certificate.user.clone()),
        ("units", certificate.units_total.to_string()),
        ("  done", certificate.units_done.to_string()),
        ("  failed", certificate.units_failed.to_string()),
        ("  abandoned", certificate.units_abandoned.to_string()),
        ("intervals", certificate.intervals_hash.to_string()),
        ("hits", certificate.hits.to_string()),
        ("units duplicate", certificate.units_duplicate.to_string()),
        ("tasks given out", certificate.tasks_dispatched.to_string()),
        ("  resent", certificate.tasks_resent.to_string()),
        ("  copies", certificate.tasks_copied.to_string()),
        ("conflicts", certificate.conflicts.to_string()),
        ("epochs", epochs.join(" ")),
    ];
    let shares = certificate.nodes.iter();
    pairs.extend(shares.map(|share| ("done by", format!("{}: {}", share.name, share.units))));
    if certificate.units_again > Units(0) {
        pairs.push(("ran again", certificate.units_again.to_string()));
    }
    if certificate.units_doubtful > Units(0) {
        let words = "done by nodes that were distrusted after its end";
        pairs.push(("doubtful", format!("{}, {words}", certificate.units_doubtful)));
    }
    if let Some(trust) = &certificate.trust {
        let share = f64::from(trust.check_ppm) / 1e4;
        let (found, planted) = (trust.planted_found, trust.planted);
        pairs.push((
            "computed twice",
            format!("{} with one result, of {share} % asked for", trust.units_checked),
        ));
        pairs.push(("planted answers", format!("{found} of {planted} found")));
        pairs.push(("untrue results", trust.untrue.to_string()));
    }
    pairs.extend([
        ("submitted", certificate.submitted.clone()),
        ("started", time(&certificate.started)),
        ("ended", time(&certificate.ended)),
    ]);
    debug_assert!(certificate.verdict != Completion::Broken);
    pairs
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_audit::{NodeShare, TrustShare};
    use starfarm_protocol::admin::OutputLoss;
    use starfarm_protocol::ids::{ContentHash, JobId};
    use starfarm_protocol::job::JobState;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn certificate() -> Certificate {
        let hash = ContentHash([7; 32]);
        Certificate {
            farm: "09".repeat(16),
            job: JobId(3),
            name: "keys".into(),
            user: "ada".into(),
            spec: hash,
            verdict: Completion::CompleteWithFailures,
            state: JobState::Failed,
            units_total: Units(30),
            units_done: Units(28),
            units_failed: Units(2),
            units_abandoned: Units(0),
            intervals_hash: hash,
            hits: 1,
            hits_hash: hash,
            units_duplicate: Units(5),
            tasks_dispatched: 8,
            tasks_resent: 2,
            tasks_copied: 1,
            conflicts: 0,
            units_again: Units(0),
            units_doubtful: Units(0),
            trust: Some(TrustShare {
                check_ppm: 10_000,
                units_checked: Units(31),
                planted: 20,
                planted_found: 20,
                untrue: 1,
            }),
            epochs: vec![1, 4],
            nodes: ["a", "b"].map(|name| NodeShare { name: name.into(), units: Units(14) }).into(),
            submitted: "2026-11-21T10:00:00.000000Z".into(),
            started: Some("2026-11-21T10:00:01.000000Z".into()),
            ended: Some("2026-11-21T10:00:09.000000Z".into()),
        }
    }

    fn audited() -> Audited {
        let certified = JobReport {
            id: JobId(3),
            name: "keys".into(),
            state: JobState::Failed,
            verdict: Completion::CompleteWithFailures,
            units_total: Units(30),
            units_done: Units(28),
            units_failed: Units(2),
            units_abandoned: Units(0),
            hits: 1,
            certificate: Some(certificate()),
            certificate_hash: Some(ContentHash([1; 32])),
        };
        let (certificate, certificate_hash) = (None, None);
        let broken = JobReport {
            id: JobId(4),
            verdict: Completion::Broken,
            certificate,
            certificate_hash,
            ..certified.clone()
        };
        let gap =
            Violation { job: Some(JobId(4)), lo: Some(Units(5)), hi: Some(Units(8)), what: "a gap".into() };
        let cut = Violation { job: None, lo: None, hi: None, what: "the chain is cut".into() };
        let report = Report {
            farm: "09".repeat(16),
            holds: false,
            records: 12,
            last_sequence: 12,
            epoch: 4,
            jobs: vec![certified, broken],
            violations: vec![gap, cut],
            violations_left_out: 7,
            outputs: Some(outputs()),
            notes: vec!["the last write was cut short".into()],
        };
        Audited { scheduler_runs: true, report }
    }

    fn outputs() -> Outputs {
        let of = |lo, hi, what| LostOutput { job: JobId(3), lo: Units(lo), hi: Units(hi), what };
        let lost = vec![of(5, 6, OutputLoss::Damaged), of(7, 10, OutputLoss::Missing)];
        let content = |job, what| LostContent { hash: ContentHash([9; 32]), job, what };
        let contents = vec![content(None, OutputLoss::Damaged), content(Some(JobId(3)), OutputLoss::Missing)];
        let merged = vec![LostMerged { job: JobId(4), name: "sum.txt".into(), what: OutputLoss::Missing }];
        Outputs { units: Units(30), in_journal: Units(0), lost, contents, merged, idle_damaged: 1 }
    }

    #[test]
    fn a_report_for_a_person() {
        expect![[r#"
            job 3 keys: complete with failures
              certificate      0101010101010101010101010101010101010101010101010101010101010101
              specification    0707070707070707070707070707070707070707070707070707070707070707
              state            failed
              user             ada
              units            30
                done           28
                failed         2
                abandoned      0
              intervals        0707070707070707070707070707070707070707070707070707070707070707
              hits             1
              units duplicate  5
              tasks given out  8
                resent         2
                copies         1
              conflicts        0
              epochs           1 4
              done by          a: 14
              done by          b: 14
              computed twice   31 with one result, of 1 % asked for
              planted answers  20 of 20 found
              untrue results   1
              submitted        2026-11-21T10:00:00.000000Z
              started          2026-11-21T10:00:01.000000Z
              ended            2026-11-21T10:00:09.000000Z
            job 4 keys: BROKEN
              state        failed
              units        30
                done       28
                failed     2
                abandoned  0
              hits         1
            VIOLATION: job 4, units [5, 8): a gap
            VIOLATION: the journal: the chain is cut
            and 7 more
            OUTPUT DAMAGED: job 3, unit 5
            OUTPUT MISSING: job 3, unit 7 to 9
            CONTENT DAMAGED: 0909090909090909090909090909090909090909090909090909090909090909
            CONTENT MISSING: 0909090909090909090909090909090909090909090909090909090909090909, of job 3
            MERGED MISSING: job 4, sum.txt
            contents of a job come back when the same job file is submitted again; only then can `job retry` help
            `starfarm job merge ID` merges the results of a job again
            outputs: 30 checked, 4 missing or damaged
            note: the last write was cut short
            note: a scheduler runs here; this is what was on the disk just now
            IT DOES NOT HOLD: 12 records, the last epoch is 4
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&audited())));
        let hash = "01".repeat(32);
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&audited())), format!("3 {hash}\n"));
    }
}
