//! `starfarm submit`: from a job file or a command line to a job in the farm's queue, or on the screen.

mod contents;
mod dry_run;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use starfarm_protocol::admin::{JobCommand, JobInfo, Place, Request, Response};
use starfarm_protocol::ids::{ContentHash, JobId};
use starfarm_protocol::job::JobState;
use starfarm_protocol::spec::Work;
use starfarm_protocol::unit_set::UnitSet;

use super::halt::Halting;
use super::results::{self, Folder, Follower, Sinks};
use super::wait::{self, LOOK, Waiting};
use super::{Context, joblog};
use crate::cli::{JobOptions, Parallel, Source, Submit};
use crate::client::{Client, ask, user};
use crate::failure::{Exit, Failure};
use crate::jobfile::{self, JobFile, milliseconds};
use crate::output::{Document, Format, Style, say};

/// Submits, and waits if asked to.
///
/// # Errors
/// The job is at fault ([`Exit::Usage`]); as the client and the printer.
pub(crate) fn run(context: &mut Context, submit: &Submit) -> Result<Exit, Failure> {
    let flags = &submit.source.parallel;
    let mut job = job_of(&submit.source, joblog::over(flags, submit.resume)?)?;
    check(submit, &job)?;
    job.notes().iter().for_each(|note| say(&format!("note: {note}")));
    if let Some(trouble) = &job.not_here {
        say(&format!("note: {trouble}: each node needs it, and one that lacks it gets no task of this job"));
    }
    let whole = hash(&job);
    if !joblog::leave_rest(&mut job, flags)? {
        return Ok(Exit::Ok);
    }
    if submit.dry_run {
        context.printer.document(&dry_run::describe(&job)?)?;
        return Ok(Exit::Ok);
    }
    let folder = submit.dir.as_deref().map(Folder::open).transpose()?;
    let sinks = Sinks::open(flags, submit.resume || flags.resume_failed, false)?.saving(folder);
    let mut client = context.connect()?;
    let goes_on = submit.resume && flags.joblog.is_none();
    if flags.joblog.is_some() && (submit.resume || flags.resume_failed) {
        refuse_twice(&mut client, &job.name, whole)?;
    }
    let id = match goes_on.then(|| resumed(&mut client, &job, place(submit))).transpose()?.flatten() {
        Some(id) => id,
        None => send(&mut client, &job, place(submit), goes_on)?,
    };
    if !submit.wait || context.printer.format == Format::Quiet {
        context.printer.document(&Submitted { id })?;
        // A script may read the id while we wait.
        context.printer.flush()?;
    }
    if !submit.wait {
        return Ok(Exit::Ok);
    }
    say(&format!("job {}: waiting for its end; Ctrl-C leaves it to go on", id.0));
    let mut halting = Halting::new(flags.halt);
    let look = halting.period(sinks.are_any().then_some(LOOK));
    let rides_out = sinks.can_begin_anew();
    let mut follower = Follower::new(id, &job, sinks)?;
    let of_person = Waiting::of_person(context.progress, submit.timeout);
    let waiting = Waiting { look, paused: submit.wait_paused, rides_out, ..of_person };
    let job = wait::until_end(&mut client, id, waiting, |client, job| {
        let looked = follower.look(client, job, &mut context.printer);
        looked.map_err(|failure| wait::left(failure, job, submit.dir.is_some()))?;
        halting.look(client, job)
    })?;
    let finished = follower.finish(&mut client, &mut context.printer, job.state.ended());
    finished.map_err(|failure| wait::left(failure, &job, submit.dir.is_some()))?;
    if let (Some(dir), Some(_)) = (&submit.dir, &job.merge) {
        results::merged::write_files(&mut client, &job, &Folder::open(dir)?)?;
    }
    if context.printer.format != Format::Quiet {
        context.printer.list(std::slice::from_ref(&job))?;
    }
    follower.settle(&mut client)?;
    Ok(halting.exit_of(&job))
}

/// What the flags ask for together.
fn check(submit: &Submit, job: &JobFile) -> Result<(), Failure> {
    if submit.resume && job.trust.planted > 0 {
        return Err(Failure::usage(
            "answers that are planted make each submission another job: leave --resume out, or `planted`",
        ));
    }
    let Parallel { joblog, halt, results, .. } = &submit.source.parallel;
    if !submit.wait && !submit.dry_run && (joblog.is_some() || halt.is_some() || results.is_some()) {
        return Err(Failure::usage(
            "--joblog, --halt and --results are the work of the command that waits for the job: add --wait",
        ));
    }
    if submit.source.parallel.keep_order && !submit.wait && !submit.dry_run {
        return Err(Failure::usage(
            "--keep-order is of what a command prints and writes as it waits: add --wait, or give it to `starfarm results`",
        ));
    }
    Ok(())
}

fn place(submit: &Submit) -> Place {
    match (submit.now, submit.front) {
        (true, _) => Place::Now,
        (_, true) => Place::Front,
        _ => Place::Tail,
    }
}

/// The number of the same job, unfinished, if the farm has one. It goes on, and takes its new place.
fn resumed(client: &mut Client, job: &JobFile, place: Place) -> Result<Option<JobId>, Failure> {
    let Some(known) = unfinished(client, &job.name, hash(job))? else { return Ok(None) };
    let id = known.id;
    put_back(client, job)?;
    say(&format!("job {} is the same and has not ended: it goes on", id.0));
    if known.state == JobState::Paused {
        client.job_verb(id, JobCommand::Resume)?;
    }
    match place {
        Place::Tail => {}
        Place::Front => client.job_verb(id, JobCommand::Front)?,
        Place::Now => client.job_verb(id, JobCommand::Switch)?,
    }
    Ok(Some(id))
}

/// The job of this name and specification that has not ended, if the farm has one.
fn unfinished(client: &mut Client, name: &str, spec: ContentHash) -> Result<Option<JobInfo>, Failure> {
    let same = |known: &JobInfo| known.spec == spec && known.name == name && !known.state.ended();
    Ok(client.jobs(Vec::new())?.into_iter().find(same))
}

/// A job log is completed by the command that waits: what the farm still runs of it would run twice.
fn refuse_twice(client: &mut Client, name: &str, whole: ContentHash) -> Result<(), Failure> {
    let Some(JobInfo { id: JobId(id), .. }) = unfinished(client, name, whole)? else { return Ok(()) };
    Err(Failure::new(
        Exit::Conflict,
        format!(
            "job {id} is the same and has not ended: what is left would run twice. End it by `starfarm job cancel {id}` and \
             run this again, or leave it to go on: `starfarm results {id} --follow` prints what it gives"
        ),
    ))
}

/// What a job is known by, whatever it is called.
pub(crate) fn hash(job: &JobFile) -> ContentHash {
    ContentHash::of(&job.spec.to_bytes())
}

/// Sends what the farm has lost of what a job is made from, all else it has already.
pub(crate) fn put_back(client: &mut Client, job: &JobFile) -> Result<(), Failure> {
    contents::send(client, job)?;
    client.put(hash(job), &job.spec.to_bytes())
}

/// Uploads the list, if there is one, and submits the job.
/// Where `once`, a job that is the same and has not ended is meant, though somebody has submitted it just now.
pub(crate) fn send(client: &mut Client, job: &JobFile, place: Place, once: bool) -> Result<JobId, Failure> {
    contents::send(client, job)?;
    let spec = String::from_utf8(job.spec.to_bytes()).expect("a specification is written as JSON");
    let submit = starfarm_protocol::admin::Submit {
        name: job.name.clone(),
        user: user(),
        spec,
        sizing: job.sizing,
        place,
        max_failures: job.max_failures,
        speculative: job.speculative,
        trust: job.trust,
        terms: job.terms.clone(),
        once,
    };
    ask!(client, &Request::Submit(submit), Response::Submitted(id) => id)
}

/// The job that the command line means, of which some units are over.
pub(crate) fn job_of(source: &Source, over: UnitSet) -> Result<JobFile, Failure> {
    let base = Path::new("");
    let job = match &source.job {
        Some(path) => jobfile::read(path, &over)?,
        None if source.parallel.parallel => jobfile::from_parallel(&source.program, base)?.at_home(base),
        None => {
            let (range, lines) = (source.range.as_deref(), source.lines.as_deref());
            let text = |word: &OsString| {
                word.to_str().map(str::to_owned).ok_or_else(|| {
                    Failure::usage(format!("the word {} is not UTF-8: rewrite it", word.display()))
                })
            };
            let program = source.program.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            jobfile::from_command_line(range, lines, &source.grid, &program, base)?.at_home(base)
        }
    };
    let Parallel { joblog, results, .. } = &source.parallel;
    if !matches!(job.spec.work, Work::Command(_)) && (joblog.is_some() || results.is_some()) {
        return Err(Failure::usage("this job runs no program: leave --joblog and --results out"));
    }
    with_options(JobFile { over, ..job }, &source.options)
}

/// A flag takes precedence over the file.
fn with_options(mut job: JobFile, options: &JobOptions) -> Result<JobFile, Failure> {
    job.name = options.name.clone().unwrap_or(job.name);
    if let Some(folder) = &options.cwd {
        job.in_folder(folder);
    }
    job.sizing = options.target_seconds.or(options.units_per_task).unwrap_or(job.sizing);
    job.max_failures = options.max_failures.unwrap_or(job.max_failures);
    job.speculative = options.speculative.or(job.speculative);
    set_terms(&mut job, options)?;
    given_once("--env", &options.env)?;
    let for_programs = options.timeout_seconds.or(options.hang_seconds).is_some()
        || options.retries.is_some()
        || options.per.is_some()
        || options.output_limit.is_some()
        || options.cwd.is_some()
        || !options.env.is_empty()
        || options.stdin.is_some()
        || !(options.inputs.is_empty() && options.outputs.is_empty())
        || options.files_limit.is_some()
        || options.unit_slots.is_some()
        || options.memory.is_some();
    match &mut job.spec.work {
        Work::Command(command) => {
            if let Some(seconds) = options.timeout_seconds {
                command.timeout_ms = Some(milliseconds(seconds));
            }
            if let Some(seconds) = options.hang_seconds {
                command.hang_ms = Some(milliseconds(seconds));
            }
            command.per = options.per.unwrap_or(command.per);
            if let Some(times) = options.retries {
                // GNU parallel counts all runs of a unit, and we the further ones.
                command.retries = if command.parallel { times.saturating_sub(1) } else { times };
            }
            command.output_limit = options.output_limit.unwrap_or(command.output_limit);
            command.env.extend(options.env.iter().cloned());
            command.stdin = options.stdin.clone().or(command.stdin.take());
            command.files_limit = options.files_limit.unwrap_or(command.files_limit);
            command.slots = options.unit_slots.unwrap_or(command.slots);
            command.memory_bytes = options.memory.unwrap_or(command.memory_bytes);
            command.gpus = options.gpus.unwrap_or(command.gpus);
        }
        _ if for_programs => {
            return Err(Failure::usage(
                "this job runs no program: leave --per, --timeout-seconds, --hang-seconds, --retries, --output-limit, --cwd, --env, \
                 --stdin, --inputs, --outputs, --files-limit, --unit-slots, --memory and --gpus out",
            ));
        }
        _ => {}
    }
    job.set_files(&options.inputs, &options.outputs, Path::new("")).map_err(Failure::usage)?;
    job.templates_fit().and_then(|()| job.no_nul_in_line()).map_err(Failure::usage)?;
    Ok(job)
}

/// A list of jobs takes the place of the file's; labels are added to the file's.
fn set_terms(job: &mut JobFile, options: &JobOptions) -> Result<(), Failure> {
    given_once("--label", &options.label)?;
    let terms = &mut job.terms;
    for (jobs, flag) in [(&mut terms.after, &options.after), (&mut terms.after_any, &options.after_any)] {
        if !flag.is_empty() {
            jobs.clone_from(flag);
        }
    }
    terms.labels.extend(options.label.iter().cloned());
    terms.max_nodes = options.max_nodes.or(terms.max_nodes);
    terms.storage_limit = options.storage_limit.or(terms.storage_limit);
    terms.check().map_err(Failure::usage)
}

/// Whoever names a thing twice means two things, and one of them would be lost.
fn given_once(flag: &str, pairs: &[(String, String)]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match pairs.iter().find(|(name, _)| !names.insert(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::usage(format!("{flag} {name} is given twice: give it once"))),
    }
}

#[derive(serde::Serialize)]
struct Submitted {
    id: JobId,
}

impl Document for Submitted {
    const NAME: &'static str = "submitted";

    fn table(&self, _: Style) -> String {
        format!("job {}\n", self.id.0)
    }

    fn quiet(&self) -> String {
        self.id.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use starfarm_protocol::job::MaxFailures;
    use starfarm_protocol::job::Sizing;
    use starfarm_protocol::spec::{CommandWork, Space};

    use super::*;
    use crate::cli::{Cli, Command};

    const SEARCH: &str = "name = \"s\"\n[space]\nkind = \"chars\"\nmask = \"?l\"\n[task]\nexecutor = \"search\"\n\
        algorithm = \"md5\"\ntargets = [\"d41d8cd98f00b204e9800998ecf8427e\"]\nunits_per_task = 3\n";
    const COMMAND: &str = "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\n\
        program = [\"true\"]\nretries = 2\nmax_failures = 7\nspeculative = false\nenv = { A = \"1\", B = \"2\" }\n";

    fn parsed(text: &str) -> JobFile {
        jobfile::parse(text, "demo.toml", Path::new("")).unwrap()
    }

    #[test]
    fn flags_take_precedence_over_the_file() {
        let options = JobOptions {
            name: Some("n".into()),
            target_seconds: Sizing::target(2.5).ok(),
            timeout_seconds: Some(0.0001),
            max_failures: Some(MaxFailures::Never),
            speculative: Some(true),
            env: vec![("B".into(), "3".into())],
            ..JobOptions::default()
        };
        let job = with_options(parsed(COMMAND), &options).unwrap();
        assert_eq!((job.name.as_str(), job.sizing), ("n", Sizing::TargetUs(2_500_000)));
        assert_eq!((job.max_failures, job.speculative), (MaxFailures::Never, Some(true)));
        let Work::Command(command) = job.spec.work else { panic!("a command") };
        assert_eq!((command.timeout_ms, command.retries), (Some(1), 2));
        assert_eq!(
            command.env.into_iter().collect::<Vec<_>>(),
            [("A".into(), "1".into()), ("B".into(), "3".into())]
        );
    }

    #[test]
    fn options_reach_the_job() {
        let words = "starfarm submit --name mine --units-per-task 5 --timeout-seconds 1.5 --output-limit strict \
            --retries 2 --max-failures 3 --speculative true --env A={} -- true";
        let Command::Submit(submit) = Cli::parse_from(words.split_whitespace()).command else {
            panic!("{words}")
        };
        let job = job_of(&submit.source, UnitSet::default()).unwrap();
        assert_eq!((job.name.as_str(), job.sizing), ("mine", Sizing::Units(5)));
        assert_eq!((job.max_failures, job.speculative), (MaxFailures::Units(3), Some(true)));
        assert_eq!(job.spec.space, Space::Range { from: 0, to: 1, step: 1 });
        let Work::Command(command) = job.spec.work else { panic!("a command") };
        assert_eq!((command.timeout_ms, command.retries), (Some(1500), 2));
        assert_eq!(command.output_limit, "strict".parse().unwrap());
        assert_eq!(command.env.into_iter().collect::<Vec<_>>(), [("A".into(), "{}".into())]);
    }

    #[test]
    fn without_flags_the_file_stands() {
        for text in [SEARCH, COMMAND] {
            assert_eq!(with_options(parsed(text), &JobOptions::default()), Ok(parsed(text)));
        }
    }

    #[test]
    fn a_search_has_no_retries() {
        let options = JobOptions { retries: Some(1), ..JobOptions::default() };
        assert_eq!(with_options(parsed(SEARCH), &options).unwrap_err().exit, Exit::Usage);
        let options = JobOptions { units_per_task: Some(Sizing::Units(9)), ..JobOptions::default() };
        assert_eq!(with_options(parsed(SEARCH), &options).unwrap().sizing, Sizing::Units(9));
    }

    /// The job that these words say, in the folder of this package.
    fn said(words: &str) -> Result<CommandWork, String> {
        let cli = Cli::read(words.split_whitespace().map(OsString::from)).unwrap();
        let Command::Run(run) = cli.command else { panic!("{words}") };
        let Work::Command(command) =
            job_of(&run.source, UnitSet::default()).map_err(|e| e.message)?.spec.work
        else {
            panic!("a command")
        };
        Ok(command)
    }

    #[test]
    fn files_are_said_by_flags() {
        let command = said(
            "starfarm run --inputs Cargo.toml --inputs src/cli/*.rs --outputs o{} --files-limit 9 \
             --stdin ./Cargo.toml --range 0..2 -- true",
        )
        .unwrap();
        let inputs: Vec<_> = command.inputs.iter().map(|input| input.path.as_str()).collect();
        assert_eq!(inputs[0], "Cargo.toml");
        assert!(inputs.contains(&"src/cli/parallel.rs"), "{inputs:?}");
        assert_eq!((command.outputs, command.files_limit), (vec!["o{}".to_owned()], 9));
        assert_eq!((command.cwd, command.stdin.as_deref()), (None, Some("./Cargo.toml")));
        // By the rules of GNU parallel a number is no name.
        let command = said("starfarm run --outputs {.}.png --parallel true ::: a.jpg").unwrap();
        assert_eq!((command.parallel, command.outputs), (true, vec!["{.}.png".to_owned()]));
    }

    /// Each unit ran once more than GNU parallel lets it.
    #[test]
    fn retries_of_a_line_of_gnu_parallel_are_runs_in_all() {
        for (times, retries) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            let line = said(&format!("starfarm run --retries {times} --parallel true ::: a")).unwrap();
            assert_eq!(line.retries, retries, "{times}");
            let job = said(&format!("starfarm run --retries {times} -- true")).unwrap();
            assert_eq!(job.retries, times);
        }
    }

    #[test]
    fn files_that_do_not_fit_together_are_refused() {
        for (flags, words) in [
            ("--inputs Cargo.toml --cwd /tmp", "leave `cwd` out"),
            ("--inputs ../Cargo.lock", "does not lie beneath"),
            ("--inputs missing", "is not a file"),
            ("--outputs a --outputs a", "named twice"),
            ("--outputs ../a", "is no path inside"),
            ("--outputs a --stdin Cargo.toml", "none of the `inputs`"),
        ] {
            let why = said(&format!("starfarm run {flags} -- true")).unwrap_err();
            assert!(why.contains(words), "{flags}: {why}");
        }
    }
}
