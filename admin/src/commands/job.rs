//! `starfarm jobs` and `starfarm job`.

mod figures;

use std::time::{Duration, Instant};

use starfarm_protocol::admin::{JobCommand, JobInfo, MergeInfo, NodeInfo, Subject};
use starfarm_protocol::ids::JobId;

pub(super) use self::figures::{figures, troubles};
use super::wait::{self, Waiting};
use super::{Context, explain, results, selection};
use crate::cli::{Job, Jobs, Selection, Set};
use crate::client::Client;
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
        right("done", |job| Cell::new(human::share_of(job.units_done, job))),
        right("units", |job| Cell::new(human::total(job))),
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

/// All jobs, or those in one of some states, and with some labels.
pub(crate) fn list(context: &mut Context, wanted: &Jobs) -> Result<(), Failure> {
    let mut jobs = selection::labelled(&mut context.connect_or_look()?, &wanted.label)?;
    jobs.retain(|job| wanted.state.is_empty() || wanted.state.contains(&job.state));
    context.printer.list(&jobs)
}

pub(crate) fn run(context: &mut Context, command: &Job) -> Result<Exit, Failure> {
    match command {
        Job::Show(job) => show(context, job.id)?,
        Job::Explain(job) => explain::run(context, Subject::Job(job.id))?,
        Job::Wait { jobs, timeout, wait_paused } => return wait_for(context, jobs, *timeout, *wait_paused),
        Job::Logs(logs) => results::logs::run(context, logs)?,
        Job::Cancel(jobs) => steer(context, jobs, JobCommand::Cancel)?,
        Job::Pause(jobs) => steer(context, jobs, JobCommand::Pause)?,
        Job::Resume(jobs) => steer(context, jobs, JobCommand::Resume)?,
        Job::Set(set) => set_limits(context, set)?,
        Job::Front(job) => steer(context, &one(job.id), JobCommand::Front)?,
        Job::Switch(job) => steer(context, &one(job.id), JobCommand::Switch)?,
        Job::Delete { jobs, cancel } => {
            if *cancel {
                let mut client = context.connect()?;
                for id in selection::ids(&mut client, jobs, |_| true)? {
                    if !client.job(id)?.state.ended() {
                        client.job_verb(id, JobCommand::Cancel)?;
                    }
                }
            }
            steer(context, jobs, JobCommand::Delete)?;
        }
        Job::Merge(job) => {
            let mut client = context.connect()?.telling();
            let is_under_way = |job: &JobInfo| job.merge.as_ref().is_some_and(MergeInfo::is_pending);
            let stands = client.job(job.id)?;
            if !(stands.state.ended() && is_under_way(&stands)) {
                client.merge(job.id)?;
            }
            let waiting = wait::Waiting::of_person(context.progress, None);
            let job = wait::until_end(&mut client, job.id, waiting, |_, _| Ok(()))?;
            context.printer.list(std::slice::from_ref(&job))?;
            let failed = job.merge.as_ref().is_some_and(MergeInfo::has_failed);
            return Ok(if failed { Exit::UnitsFailed } else { Exit::Ok });
        }
        Job::Retry { missing_outputs: true, job, .. } => rerun(context, job.id)?,
        Job::Retry { job, .. } => steer(context, &one(job.id), JobCommand::Retry)?,
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

fn one(id: JobId) -> Selection {
    Selection { ids: vec![id], label: Vec::new() }
}

/// Waits for the jobs one after another; the exit code is that of the first that did not end well.
fn wait_for(
    context: &mut Context,
    jobs: &Selection,
    timeout: Option<f64>,
    paused: bool,
) -> Result<Exit, Failure> {
    let mut client = context.connect()?;
    let until = timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let (mut ended, mut exit) = (Vec::new(), Exit::Ok);
    for id in selection::ids(&mut client, jobs, |_| true)? {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64());
        let waiting = Waiting { paused, rides_out: true, ..Waiting::of_person(context.progress, left) };
        let job = wait::until_end(&mut client, id, waiting, |_, _| Ok(()))?;
        if exit == Exit::Ok {
            exit = wait::exit_of(&job);
        }
        ended.push(job);
    }
    context.printer.list(&ended)?;
    Ok(exit)
}

/// Does it, and prints the jobs as they are then; a script that wants silence gets it.
fn steer(context: &mut Context, jobs: &Selection, verb: JobCommand) -> Result<(), Failure> {
    let mut client = context.connect()?;
    let ids = selection::ids(&mut client, jobs, |job| selection::suits(verb, job))?;
    let (done, result) = selection::each(&ids, |id| client.job_verb(id, verb));
    match (verb, context.printer.format) {
        (JobCommand::Delete, Format::Quiet | Format::Table) => result,
        (JobCommand::Delete, _) => context.printer.list::<JobInfo>(&[]).and(result),
        _ => tell(context, &mut client, done).and(result),
    }
}

/// Changes limits, and prints the jobs as they are then.
fn set_limits(context: &mut Context, set: &Set) -> Result<(), Failure> {
    let mut client = context.connect()?;
    let limits = || set.limits().map(JobCommand::Limit);
    let suits = |job: &JobInfo| limits().all(|verb| selection::suits(verb, job));
    let ids = selection::ids(&mut client, &set.jobs, suits)?;
    let change = |id| limits().try_for_each(|verb| client.job_verb(id, verb));
    let (done, result) = selection::each(&ids, change);
    tell(context, &mut client, done).and(result)
}

/// Prints jobs as they are now; a script that wants silence gets it.
fn tell(context: &mut Context, client: &mut Client, ids: Vec<JobId>) -> Result<(), Failure> {
    match context.printer.format {
        Format::Quiet => Ok(()),
        // Of no number it would be all jobs.
        _ if ids.is_empty() => Ok(()),
        _ => context.printer.list(&client.jobs(ids)?),
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

/// A job with all that is known of it.
fn whole(job: &JobInfo, style: Style) -> String {
    facts(&figures(job), style) + &troubles(job)
}

#[cfg(test)]
pub(crate) mod testing {
    //! A job to test with.

    use starfarm_protocol::ids::ContentHash;
    use starfarm_protocol::job::JobState;
    use starfarm_protocol::journal::record::JobTotals;
    use starfarm_protocol::terms::Terms;
    use starfarm_protocol::units::Units;

    use super::*;

    pub(crate) fn job(id: u64) -> JobInfo {
        JobInfo {
            id: JobId(id),
            name: "keys".into(),
            user: "ada".into(),
            state: JobState::Running,
            spec: ContentHash([7; 32]),
            units_total: Units(3_089_157_760),
            grows: false,
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
            stored_bytes: 0,
            failures: Vec::new(),
            conflicts: Vec::new(),
            terms: Terms::default(),
            waits_for: Vec::new(),
            needs: None,
            merge: None,
            trust: None,
            usage: None,
            usage_total: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::{ConflictInfo, DoubtfulInfo, FailedInfo, Refusal, TrustInfo, UntrueInfo};
    use starfarm_protocol::job::JobState;
    use starfarm_protocol::reason::Distrust;
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
