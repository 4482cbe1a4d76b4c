//! `starfarm run`: one job on a farm of its own on this machine. The scheduler runs in this process, the
//! worker in a child process, with sockets, keys and seals as on any farm.

mod again;
mod worker;

use starfarm_protocol::units::Units;
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use starfarm_protocol::admin::{JobInfo, MergeState};
use starfarm_protocol::devices::DeviceNeeds;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::spec::Work;
use starfarm_scheduler::{Handle, Options};
use starfarm_worker::Compiled;

use super::halt::Halting;
use super::results::{Choice, Folder, Follower, Sinks};
use super::{Context, joblog, results, submit, wait};
use crate::cli::Run;
use crate::client::{Client, holds_lock};
use crate::failure::{Exit, Failure};
use crate::interrupt::Signals;
use crate::jobfile::JobFile;
use crate::output::{Format, Printer, say};
use crate::progress::settled;
use crate::{config, human};
use again::Memo;
use worker::Worker;

/// How often the worker and the signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the job, or goes on with an earlier run of it, prints its results, and ends what it started.
pub(crate) fn run(context: &mut Context, run: &Run) -> Result<Exit, Failure> {
    let flags = &run.source.parallel;
    let mut job = submit::job_of(&run.source, joblog::over(flags, run.resume)?)?;
    job.notes().iter().for_each(|note| say(&format!("note: {note}")));
    check(&job, run.slots)?;
    if !joblog::leave_rest(&mut job, flags)? {
        return Ok(Exit::Ok);
    }
    let folder = run.dir.as_deref().map(Folder::open).transpose()?;
    // A line of GNU parallel prints what its units print, and nothing else.
    let is_bare = flags.parallel && matches!(context.printer.format, Format::Table | Format::Quiet);
    let prints = is_bare && flags.results.is_none();
    // The files of a merged result stand for those of the units.
    let is_text = matches!(context.printer.format, Format::Table | Format::Quiet);
    let merges = job.spec.work.merge().is_some();
    let is_merged = merges && is_text && !is_bare && flags.results.is_none();
    let (merged_into, folder) = if is_merged { (folder, None) } else { (None, folder) };
    let written = run.dir.as_deref().filter(|_| folder.is_some());
    let sinks = Sinks::open(flags, run.resume || flags.resume_failed, prints)?.saving(folder);
    let state = state_folder(run, &job)?;
    let signals = Signals::count()?;
    // What runs on devices alone has nothing else, so that the processor as a device is as good as any.
    let uses = (run.slots, devices_alone(&job.spec.work).map(|_| "all"));
    let memo = Memo::new(run.source.job.as_deref(), submit::hash(&job));
    if run.state.is_none() {
        memo.tell_of_left_behind(&state);
    }
    let mut farm =
        Farm::start(&state, uses).map_err(|failure| already(failure, run.state.is_some(), &state))?;
    memo.write(&state, false)?;
    let id = again::job_to_run(&mut farm.client, &job, run.fresh)?;
    let mut follower = Follower::new(id, &job, sinks)?;
    let mut halting = Halting::new(flags.halt);
    let printer = &mut context.printer;
    let look = halting.period(Some(LOOK));
    let waiting = wait::Waiting { look, progress: context.progress && !prints, ..wait::Waiting::default() };
    let ended = farm.until_end(id, &signals, waiting, |client, job| {
        follower.look(client, job, printer).map_err(|failure| left(failure, job, &state))?;
        halting.look(client, job)
    });
    if ended.as_ref().is_err_and(|failure| failure.exit == Exit::Interrupted) {
        say("stopping when the running units are done; Ctrl-C again stops at once");
        farm.worker.drain(&signals);
        say("what is done is kept: run the job again to go on");
    }
    if ended.as_ref().is_ok_and(|job| job.state.ended()) {
        memo.write(&state, true)?;
    }
    if ended.as_ref().map_or_else(|failure| failure.exit == Exit::Interrupted, |_| true) {
        let has_ended = ended.as_ref().is_ok_and(|job| job.state.ended());
        let finished = follower.finish(&mut farm.client, printer, has_ended);
        let job = farm.client.job(id)?;
        finished.map_err(|failure| left(failure, &job, &state))?;
        if !is_bare && flags.results.is_none() {
            let choice = Choice { folder: merged_into.as_ref(), written, ..Choice::default() };
            print_results(&mut farm.client, id, choice, is_text, printer)?;
        }
        follower.settle(&mut farm.client)?;
        printer.flush()?;
        let job = farm.client.job(id)?;
        if !is_bare || halting.exit_of(&job) != Exit::Ok {
            tell_end(&job, &state);
        }
    }
    farm.end();
    ended.map(|job| halting.exit_of(&job))
}

/// The farm did not start: in a folder that is in use the same line runs already, unless the user chose it.
fn already(failure: Failure, is_chosen: bool, state: &Path) -> Failure {
    if !holds_lock(state).is_ok_and(|held| held) {
        return failure;
    }
    let shown = state.display();
    Failure::new(
        Exit::Conflict,
        match is_chosen {
            true => format!(
                "a scheduler, that of another run perhaps, has --state {shown}: name another directory"
            ),
            false => format!(
                "this same line is running already, its state is {shown}: wait for its end, or run it apart, with a directory \
                 of its own as --state"
            ),
        },
    )
}

/// Something could not be written, which ends the run: how to go on.
fn left(failure: Failure, job: &JobInfo, state: &Path) -> Failure {
    if failure.message.is_empty() {
        return failure;
    }
    let advice = match job.state.ended() {
        true => {
            let (state, id) = (human::shell(state), job.id.0);
            format!("The job has ended: `starfarm --farm {state} results {id} --dir OTHER` writes its files into another folder")
        }
        false => "The run ends here, and what is done is kept: run it again to go on, with another --dir where a file \
                  is in the way"
            .to_owned(),
    };
    Failure::new(failure.exit, format!("{}. {advice}", failure.message))
}

/// Prints what a job has given, as text what was merged of it.
fn print_results(
    client: &mut Client,
    id: JobId,
    choice: Choice<'_>,
    is_text: bool,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let job = client.job(id)?;
    match job.merge.as_ref().filter(|_| is_text) {
        Some(merge) if merge.state == MergeState::Done => {
            results::merged::print(client, &job, choice.folder, printer)
        }
        // Interrupted while its results are merged: the next run has them.
        Some(merge) if merge.is_pending() && job.state.ended() => Ok(()),
        // What there is of a merge that failed is not for the folder.
        _ => results::print(client, id, Choice { folder: None, ..choice }, printer),
    }
}

/// What this machine can run as a farm.
fn check(job: &JobFile, slots: Option<u16>) -> Result<(), Failure> {
    if let Some(trouble) = &job.not_here {
        // The only node of this farm is this machine.
        return Err(Failure::usage(format!(
            "{trouble}: this machine is the only node of a run; install it, or correct the path"
        )));
    }
    if let Work::Command(command) = &job.spec.work {
        let has = starfarm_worker::has(slots);
        if let Some(lack) = has.lacks(command.needs().map_err(Failure::usage)?) {
            return Err(Failure::usage(format!(
                "a unit needs more {lack} than this machine has for units, which is the only node of a run: ask for less"
            )));
        }
    }
    if let Some(needs) = devices_alone(&job.spec.work) {
        let compiled = starfarm_worker::check(&job.spec, &needs).map_err(Failure::usage)?;
        if let Compiled::Unknown(why) = compiled {
            return Err(Failure::usage(format!(
                "the job needs a device ({needs}), and this machine is the only node of a run: {why}"
            )));
        }
    }
    if job.terms.waits() {
        return Err(Failure::usage(
            "a run starts a farm of its own, with this job alone: leave `after` and `after_any` out, or submit it to a farm",
        ));
    }
    match job.trust.is_off() {
        true => Ok(()),
        false => Err(Failure::usage(
            "a run computes everything on this machine: remove [trust] from the job file, or submit it to a farm",
        )),
    }
}

/// What a device must be, where nothing else runs it.
fn devices_alone(work: &Work) -> Option<DeviceNeeds> {
    let on = work.facts().on;
    on.devices.filter(|_| !on.cores)
}

/// How the job stands, and what may be done next.
fn tell_end(job: &JobInfo, state: &Path) {
    say(&summary(job));
    say(&format!("`starfarm --farm {} results {}` prints its results again", human::shell(state), job.id.0));
    if wait::exit_of(job) == Exit::Paused {
        say("run it again to go on, or with --fresh to start anew");
    }
}

/// The same job comes back to the same folder.
fn state_folder(run: &Run, job: &JobFile) -> Result<PathBuf, Failure> {
    let folder = match &run.state {
        Some(folder) => folder.clone(),
        None => {
            let hash = submit::hash(job).to_string();
            config::state_folder()?.join("runs").join(&hash[..16])
        }
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| {
        let shown = folder.display();
        let message = format!("cannot make the state directory {shown}: {error}: name another by --state");
        Failure::new(Exit::Conflict, message)
    })?;
    Ok(folder)
}

/// A scheduler and a worker. Dropping it ends the worker first: it has unfinished business with the
/// scheduler.
struct Farm {
    client: Client,
    worker: Worker,
    scheduler: Handle,
}

impl Farm {
    fn start(state: &Path, uses: (Option<u16>, Option<&str>)) -> Result<Self, Failure> {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = Options { quiet: true, keeper_process: true, ..Options::new(state.to_owned(), listen) };
        let scheduler = starfarm_scheduler::start(options).map_err(|error| {
            let exit = if error.exit_code() == Exit::Conflict as u8 { Exit::Conflict } else { Exit::Usage };
            Failure::new(exit, error.to_string())
        })?;
        let mut client = Client::connect(state)?;
        worker::renew_key(state, &mut client)?;
        Ok(Self { client, worker: Worker::start(state, uses)?, scheduler })
    }

    /// Waits for the job's end and keeps the worker alive meanwhile. The farm ends with this command: no other can be given
    /// to it.
    fn until_end(
        &mut self,
        id: JobId,
        signals: &Signals,
        waiting: wait::Waiting,
        mut look: impl FnMut(&mut Client, &JobInfo) -> Result<(), Failure>,
    ) -> Result<JobInfo, Failure> {
        let worker = &mut self.worker;
        wait::until_end(&mut self.client, id, waiting, |client, job| {
            signals.check()?;
            look(client, job)?;
            // When it grows, the worker gets on.
            worker.keep_alive(settled(job).0)
        })
    }

    fn end(self) {
        let Self { client, mut worker, scheduler } = self;
        worker.end();
        drop(client);
        scheduler.stop();
    }
}

/// "job finished: 3.09 G of 3.09 G units in 5.2 s, 594 M/s, 6 hits".
fn summary(job: &JobInfo) -> String {
    let seconds = job.run_seconds.unwrap_or(0.0);
    let mut text = format!(
        "job {}: {} of {} units done in {}",
        job.state,
        human::units(job.units_done),
        human::total(job),
        human::seconds(seconds)
    );
    let rate = job.units_done.0 as f64 / seconds;
    if rate.is_finite() {
        text.push_str(&format!(", {}/s", human::count(rate)));
    }
    for (number, what) in [(Units(job.hits.into()), "hits"), (job.units_failed, "failed")] {
        if number != 0 {
            text.push_str(&format!(", {} {what}", human::units(number)));
        }
    }
    if job.units_abandoned != 0 {
        text.push_str(&format!(", {} not needed any more", human::units(job.units_abandoned)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Source;
    use crate::commands::job::testing::job;
    use starfarm_protocol::job::JobState;

    #[test]
    fn a_summary_says_what_there_is() {
        let ended = JobInfo {
            state: JobState::Finished,
            units_done: Units(3_000_000_000),
            units_abandoned: Units(89_157_760),
            run_seconds: Some(6.0),
            hits: 6,
            ..job(1)
        };
        assert_eq!(
            summary(&ended),
            "job finished: 3.00 G of 3.09 G units done in 6 s, 500 M/s, 6 hits, 89.2 M not needed any more"
        );
        let none = JobInfo {
            state: JobState::Cancelled,
            units_done: Units(0),
            units_failed: Units(2),
            hits: 0,
            run_seconds: None,
            ..job(1)
        };
        assert_eq!(summary(&none), "job cancelled: 0 of 3.09 G units done in 0 s, 2 failed");
    }

    #[test]
    fn the_same_job_has_the_same_folder() {
        let text = "[space]\nkind = \"range\"\nfrom = 0\nto = 9\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";
        let job = crate::jobfile::parse(text, "demo.toml", Path::new("")).unwrap();
        let state = std::env::temp_dir().join(format!("starfarm-run-{}", std::process::id()));
        let run = Run {
            source: Source::default(),
            resume: false,
            slots: None,
            state: Some(state.clone()),
            fresh: false,
            dir: None,
        };
        assert_eq!(state_folder(&run, &job), Ok(state.clone()));
        std::fs::remove_dir(&state).unwrap();
    }
}
