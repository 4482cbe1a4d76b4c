//! `starfarm jobs` and `starfarm job`.

use starfarm_events::counted;
use starfarm_protocol::admin::{
    ConflictInfo, DoubtfulInfo, JobCommand, JobInfo, MergeInfo, MergeState, NodeInfo, Subject,
};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_protocol::reason::Distrust;
use starfarm_protocol::units::Units;

use super::wait::{self, Waiting};
use super::{Context, explain};
use crate::cli::Job;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::table::{Cell, Column, facts, left, name, right};
use crate::output::{Format, Record, Style, say};

impl Record for JobInfo {
    const ONE: &'static str = "job";
    const MANY: &'static str = "jobs";
    const COLUMNS: &'static [Column<Self>] = &[
        right("id", |job| Cell::new(job.id.0.to_string())),
        name("name", |job| Cell::new(&job.name)),
        left("state", |job| Cell::state(job.state.word())),
        right("done", |job| Cell::new(human::share(job.units_done, job.units_total))),
        right("units", |job| Cell::new(human::units(job.units_total))),
        right("failed", |job| Cell::new(human::units(job.units_failed))),
        right("hits", |job| Cell::new(human::count(job.hits as f64))),
        right("units/s", |job| Cell::new(human::count(job.units_per_s))),
        right("left", |job| Cell::new(human::seconds_if_known(job.eta_seconds))),
        right("age", |job| Cell::new(human::seconds(job.age_seconds))),
    ];

    fn quiet(&self) -> String {
        self.id.0.to_string()
    }
}

/// All jobs, or those in one of `states`.
pub(crate) fn list(context: &mut Context, states: &[JobState]) -> Result<(), Failure> {
    let mut jobs = context.connect_or_look()?.jobs(Vec::new())?;
    jobs.retain(|job| states.is_empty() || states.contains(&job.state));
    context.printer.list(&jobs)
}

pub(crate) fn run(context: &mut Context, command: &Job) -> Result<Exit, Failure> {
    match command {
        Job::Show(job) => show(context, job.id)?,
        Job::Explain(job) => explain::run(context, Subject::Job(job.id))?,
        Job::Wait { job, timeout, wait_paused } => {
            let mut client = context.connect()?;
            let waiting = Waiting { paused: *wait_paused, ..Waiting::of_person(context.progress, *timeout) };
            let job = wait::until_end(&mut client, job.id, waiting, |_, _| Ok(()))?;
            context.printer.list(std::slice::from_ref(&job))?;
            return Ok(wait::exit_of(&job));
        }
        Job::Cancel(job) => steer(context, job.id, JobCommand::Cancel)?,
        Job::Pause(job) => steer(context, job.id, JobCommand::Pause)?,
        Job::Resume(job) => steer(context, job.id, JobCommand::Resume)?,
        Job::Front(job) => steer(context, job.id, JobCommand::Front)?,
        Job::Switch(job) => steer(context, job.id, JobCommand::Switch)?,
        Job::Delete { job, cancel } => {
            if *cancel {
                let mut client = context.connect()?;
                if !client.job(job.id)?.state.ended() {
                    client.job_verb(job.id, JobCommand::Cancel)?;
                }
            }
            steer(context, job.id, JobCommand::Delete)?;
        }
        Job::Merge(job) => {
            let mut client = context.connect()?.telling();
            client.merge(job.id)?;
            let job = client.job(job.id)?;
            context.printer.list(&[job])?;
        }
        Job::Retry { missing_outputs: true, job, .. } => rerun(context, job.id)?,
        Job::Retry { job, .. } => steer(context, job.id, JobCommand::Retry)?,
    }
    Ok(Exit::Ok)
}

/// Runs the units again whose outputs are lost, says how many they are, and prints the job as it is then.
fn rerun(context: &mut Context, id: JobId) -> Result<(), Failure> {
    let mut client = context.connect()?.telling();
    let units = client.rerun(id)?;
    match context.printer.format {
        Format::Quiet => Ok(()),
        _ => {
            let run = if units == 1 { "unit runs" } else { "units run" };
            say(&format!("{units} {run} again"));
            context.printer.list(&[client.job(id)?])
        }
    }
}

fn show(context: &mut Context, id: JobId) -> Result<(), Failure> {
    let mut client = context.connect_or_look()?;
    let job = client.job(id)?;
    match context.printer.format {
        Format::Table => {
            let text = whole(&job, context.printer.style) + &quarantined(&client.nodes()?);
            context.printer.text(&text)
        }
        _ => context.printer.list(&[job]),
    }
}

/// Does it, and prints the job as it is then; a script that wants silence gets it.
fn steer(context: &mut Context, id: JobId, verb: JobCommand) -> Result<(), Failure> {
    let mut client = context.connect()?;
    client.job_verb(id, verb)?;
    let is_gone = verb == JobCommand::Delete;
    match context.printer.format {
        Format::Quiet => Ok(()),
        Format::Table if is_gone => Ok(()),
        _ if is_gone => context.printer.list::<JobInfo>(&[]),
        _ => context.printer.list(&[client.job(id)?]),
    }
}

/// Nodes that get nothing of any job, and why.
fn quarantined(nodes: &[NodeInfo]) -> String {
    let sick = nodes.iter().filter(|node| !node.why.is_empty());
    sick.map(|node| {
        let (name, state, why) = (&node.name, node.state, &node.why);
        format!("node {} is {state}: {}\n", human::printable(name), human::printable(why))
    })
    .collect()
}

/// What befell a job: who refuses it, why it is paused, what failed and where, of what nodes say different things.
pub(super) fn troubles(job: &JobInfo) -> String {
    let mut text = String::new();
    for refusal in &job.refused_by {
        let (node, why) = (human::printable(&refusal.node), human::printable(&refusal.why));
        text.push_str(&format!("node {node} cannot run it: {why}\n"));
    }
    if !job.note.is_empty() {
        let advice = if job.state == JobState::Paused { wait::paused_advice(job.id) } else { String::new() };
        let (state, note) = (job.state, human::printable(&job.note));
        text.push_str(&format!("{state}: {note}{advice}\n"));
    }
    text.extend(wait::cut(job.outputs_cut).map(|words| words + "\n"));
    for failed in &job.failures {
        let code = failed.exit_code.or(failed.signal).map_or_else(String::new, |code| format!(" {code}"));
        let place =
            failed.node.as_ref().map_or_else(String::new, |node| format!(" on {}", human::printable(node)));
        text.push_str(&format!("unit {} failed: {}{code}{place}\n", failed.unit, failed.reason));
    }
    let untold = job.units_failed.0.saturating_sub(job.failures.len() as u128);
    if untold > 0 && !job.failures.is_empty() {
        let id = job.id.0;
        text.push_str(&format!("{untold} more have failed: `starfarm results {id}` has them all\n"));
    }
    for ConflictInfo { lo, hi, node } in &job.conflicts {
        let node = node_of(node.as_ref());
        text.push_str(&format!(
            "conflict: {node}'s result for units [{lo}, {hi}) differs from the one that was counted first\n"
        ));
    }
    for untrue in job.trust.iter().flat_map(|trust| &trust.untrue) {
        let (node, why) = (node_of(untrue.node.as_ref()), untrue.why.words());
        let believed = match &untrue.believed {
            other if other.is_some() || untrue.believed_forgotten => {
                format!("the result of {}, whose hits are true", node_of(other.as_ref()))
            }
            _ if untrue.why == Distrust::Differs => "what was counted before".to_owned(),
            _ => "the digest".to_owned(),
        };
        text.push_str(&format!("untrue: {node}, unit {}: {why}; believed is {believed}\n", untrue.unit));
    }
    for DoubtfulInfo { node, units } in job.trust.iter().flat_map(|trust| &trust.doubtful) {
        let (node, units) = (node_of(node.as_ref()), counted(units.0, "unit"));
        text.push_str(&format!(
            "doubtful: {units} done by {node}, which was distrusted after the job had ended: submit the job again\n"
        ));
    }
    text
}

/// "node n3"; a node that is forgotten has no name.
fn node_of(name: Option<&String>) -> String {
    name.map_or_else(|| human::node(None).to_owned(), |name| format!("node {}", human::printable(name)))
}

/// A job's figures, by name.
pub(super) fn figures(job: &JobInfo) -> Vec<(&'static str, Cell)> {
    let share_of =
        |part| Cell::new(format!("{}  ({})", human::units(part), human::share(part, job.units_total)));
    let mut figures = vec![
        ("id", Cell::new(job.id.0.to_string())),
        ("name", Cell::new(&job.name)),
        ("state", Cell::state(job.state.word())),
        ("user", Cell::new(&job.user)),
        ("specification", Cell::new(job.spec.to_string())),
        ("units", Cell::new(human::units(job.units_total))),
        ("  done", share_of(job.units_done)),
        ("  failed", share_of(job.units_failed)),
        ("  out, at nodes", share_of(job.units_out)),
        ("  pending", share_of(job.units_pending)),
        ("  abandoned", share_of(job.units_abandoned)),
        ("duplicate", Cell::new(human::units(Units(job.totals.duplicate_units)))),
        ("hits", Cell::new(human::count(job.hits as f64))),
        ("units per second", Cell::new(human::count(job.units_per_s))),
        ("left", Cell::new(human::seconds_if_known(job.eta_seconds))),
        ("age", Cell::new(human::seconds(job.age_seconds))),
        ("run time", Cell::new(human::seconds_if_known(job.run_seconds))),
        ("tasks cut", Cell::new(human::count(job.totals.decomposed as f64))),
        ("  mean units", Cell::new(human::count(job.task_units_mean))),
        ("  given out", Cell::new(human::count(job.totals.dispatched as f64))),
        ("  resent", Cell::new(human::count(job.totals.resent as f64))),
        ("certificate", Cell::new(certificate(job))),
    ];
    if let Some(merge) = &job.merge {
        figures.push(("merge", Cell::new(merged(merge))));
    }
    if let Some(trust) = &job.trust {
        let (checked, total) = (trust.units_checked, job.units_total);
        let share = human::share(checked, total);
        let (asked, found) = (f64::from(trust.check.millionths()) / 1e4, trust.planted_found);
        figures.push((
            "computed twice",
            Cell::new(format!("{}  ({share} of {asked} %)", human::units(checked))),
        ));
        figures.push(("planted answers", Cell::new(format!("{found} of {} found", trust.planted))));
    }
    figures
}

/// How the merge of its results stands, in words.
fn merged(merge: &MergeInfo) -> String {
    let bytes: u64 = merge.output.iter().chain(&merge.files).map(|file| file.bytes).sum();
    match merge.state {
        MergeState::Failed => format!("failed: {}", human::printable(&merge.why)),
        MergeState::Done => format!("done, {} bytes", human::count(bytes as f64)),
        state => state.word().to_owned(),
    }
}

/// What the job's certificate says, in words.
fn certificate(job: &JobInfo) -> String {
    let (done, failed, total) = (job.units_done.0, job.units_failed.0, job.units_total.0);
    let verdict = match job.state {
        state if !state.ended() => return "when it has ended".to_owned(),
        _ if done == total => "complete",
        _ if done + failed == total => "complete, with failures",
        _ => "ended early",
    };
    format!("{verdict}; `starfarm audit DIR --job {}` proves it from the files", job.id.0)
}

/// A job with all that is known of it.
fn whole(job: &JobInfo, style: Style) -> String {
    facts(&figures(job), style) + &troubles(job)
}

#[cfg(test)]
pub(crate) mod testing {
    //! A job to test with.

    use starfarm_protocol::ids::ContentHash;
    use starfarm_protocol::journal::record::JobTotals;

    use super::*;

    pub(crate) fn job(id: u64) -> JobInfo {
        JobInfo {
            id: JobId(id),
            name: "keys".into(),
            user: "ada".into(),
            state: JobState::Running,
            spec: ContentHash([7; 32]),
            units_total: Units(3_089_157_760),
            units_done: Units(1_200_000_000),
            units_failed: Units(0),
            units_out: Units(89_157_760),
            units_pending: Units(1_800_000_000),
            units_abandoned: Units(0),
            hits: 2,
            units_per_s: 5.4e8,
            eta_seconds: Some(3.5),
            age_seconds: 4.25,
            run_seconds: Some(2.25),
            totals: JobTotals {
                decomposed: 40,
                dispatched: 39,
                submitted_us: 1_000_000,
                started_us: Some(3_000_000),
                ..JobTotals::default()
            },
            task_units_mean: 3.2e7,
            refused_by: Vec::new(),
            note: String::new(),
            outputs_cut: 0,
            failures: Vec::new(),
            conflicts: Vec::new(),
            merge: None,
            trust: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::{FailedInfo, Refusal, TrustInfo, UntrueInfo};
    use starfarm_protocol::trust::Share;
    use starfarm_protocol::units::Units;
    use starfarm_protocol::wire::FailReason;

    use super::testing::job;
    use super::*;
    use crate::output::testing::printed;

    #[test]
    fn jobs_in_each_format() {
        let late = JobInfo { eta_seconds: None, state: JobState::Paused, name: "a\tb".into(), ..job(12) };
        let jobs = [job(3), late];
        expect![[r#"
            id  name  state      done   units  failed  hits  units/s   left     age
             3  keys  running  38.8 %  3.09 G       0     2    540 M  3.5 s  4.25 s
            12  a\tb  paused   38.8 %  3.09 G       0     2    540 M      -  4.25 s
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.list(&jobs)));
        assert_eq!(printed(Format::Quiet, |printer| printer.list(&jobs)), "3\n12\n");
        let json = printed(Format::Json, |printer| printer.list(&jobs));
        assert!(json.starts_with("{\n  \"schema\": \"starfarm/jobs/1\",\n  \"jobs\": [\n"), "{json}");
        let lines = printed(Format::Jsonl, |printer| printer.list(&jobs));
        assert_eq!(lines.lines().count(), 2);
        assert!(lines.starts_with("{\"schema\":\"starfarm/job/1\",\"id\":3,"), "{lines}");
    }

    fn trust() -> TrustInfo {
        let untrue = |unit, node: &str, why, believed: Option<&str>| UntrueInfo {
            unit: Units(unit),
            node: Some(node.into()),
            why,
            believed: believed.map(str::to_owned),
            believed_forgotten: false,
        };
        TrustInfo {
            check: Share::of_millionths(10_000).unwrap(),
            units_checked: Units(31_200_000),
            planted: 20,
            planted_found: 8,
            untrue: vec![
                untrue(5, "n3", Distrust::MissedHit, Some("n4")),
                untrue(9, "n5", Distrust::FalseHit, None),
                untrue(11, "n6", Distrust::Differs, None),
            ],
            doubtful: vec![DoubtfulInfo { node: Some("n7".into()), units: Units(31_200_000) }],
        }
    }

    #[test]
    fn a_whole_job() {
        let refused = Refusal { node: "n1".into(), why: "no program".into() };
        let failed = |unit, reason, exit_code, node: Option<&str>| FailedInfo {
            unit: Units(unit),
            reason,
            exit_code,
            signal: None,
            node: node.map(str::to_owned),
        };
        let conflict = ConflictInfo { lo: Units(5), hi: Units(9), node: Some("n3".into()) };
        let job = JobInfo {
            refused_by: vec![refused],
            units_failed: Units(7),
            note: "more than half of its units fail".into(),
            failures: vec![
                failed(4, FailReason::Exit, Some(2), Some("n2")),
                failed(6, FailReason::Poison, None, None),
            ],
            conflicts: vec![conflict],
            trust: Some(trust()),
            ..job(3)
        };
        expect![[r#"
            id                3
            name              keys
            state             running
            user              ada
            specification     0707070707070707070707070707070707070707070707070707070707070707
            units             3.09 G
              done            1.20 G  (38.8 %)
              failed          7  (0.0 %)
              out, at nodes   89.2 M  (2.8 %)
              pending         1.80 G  (58.2 %)
              abandoned       0  (0.0 %)
            duplicate         0
            hits              2
            units per second  540 M
            left              3.5 s
            age               4.25 s
            run time          2.25 s
            tasks cut         40
              mean units      32.0 M
              given out       39
              resent          0
            certificate       when it has ended
            computed twice    31.2 M  (1.0 % of 1 %)
            planted answers   8 of 20 found
            node n1 cannot run it: no program
            running: more than half of its units fail
            unit 4 failed: exit 2 on n2
            unit 6 failed: poison
            5 more have failed: `starfarm results 3` has them all
            conflict: node n3's result for units [5, 9) differs from the one that was counted first
            untrue: node n3, unit 5: it reported units as done without a hit that is among them; believed is the result of node n4, whose hits are true
            untrue: node n5, unit 9: it reported a hit that is none; believed is the digest
            untrue: node n6, unit 11: its results differ from those of others; believed is what was counted before
            doubtful: 31200000 units done by node n7, which was distrusted after the job had ended: submit the job again
        "#]]
        .assert_eq(&whole(&job, Style::PLAIN));
    }

    #[test]
    fn a_forgotten_node_is_called_one_in_each_trouble() {
        let of = |node: Option<&str>, why, believed_forgotten| UntrueInfo {
            unit: Units(5),
            node: node.map(str::to_owned),
            why,
            believed: None,
            believed_forgotten,
        };
        let untrue = vec![
            of(None, Distrust::MissedHit, false),
            of(Some("n3"), Distrust::MissedHit, true),
            of(None, Distrust::Differs, false),
        ];
        let doubtful = vec![DoubtfulInfo { node: None, units: Units(1) }];
        let job = JobInfo {
            conflicts: vec![ConflictInfo { lo: Units(5), hi: Units(9), node: None }],
            trust: Some(TrustInfo { untrue, doubtful, ..TrustInfo::default() }),
            ..job(3)
        };
        expect![[r#"
            conflict: a forgotten node's result for units [5, 9) differs from the one that was counted first
            untrue: a forgotten node, unit 5: it reported units as done without a hit that is among them; believed is the digest
            untrue: node n3, unit 5: it reported units as done without a hit that is among them; believed is the result of a forgotten node, whose hits are true
            untrue: a forgotten node, unit 5: its results differ from those of others; believed is what was counted before
            doubtful: 1 unit done by a forgotten node, which was distrusted after the job had ended: submit the job again
        "#]]
        .assert_eq(&troubles(&job));
    }
}
