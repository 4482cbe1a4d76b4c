//! Requests about jobs: how they stand, what a user does to one, and waiting for an end. A question names only the
//! nodes that its answer names, and who waits asks only when the own job's bell is rung.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use starfarm_protocol::admin::{ErrorCode, JobCommand, JobInfo, MergeInfo, MergeState, Response, Subject};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::job::JobState;
use starfarm_scheduler_core as core;
use tokio::time::{Instant, timeout_at};

use super::bells::Bells;
use super::desk::Desk;
use super::{lost, room};
use crate::answers::{command_error, error};
use crate::pages;

/// Jobs that one question copies: a turn of the dispatcher stays short, however many there are.
const JOBS_A_QUESTION: usize = 1_000;

/// All jobs, in short, by number.
pub(crate) async fn all(desk: &Desk) -> Response {
    let (mut all, mut from) = (Vec::new(), JobId(0));
    loop {
        let page = move |farm: &mut core::Farm, now_us, _: &mut core::Deeds| {
            Response::Jobs(farm.jobs_from(from, JOBS_A_QUESTION, now_us))
        };
        let page = match desk.ask(page).await {
            Response::Jobs(mut page) => {
                fill(desk, &mut page);
                page
            }
            other => return other,
        };
        let last = page.last().map(|job| job.id).filter(|_| page.len() == JOBS_A_QUESTION);
        all.extend(page);
        match last {
            Some(JobId(last)) => from = JobId(last.saturating_add(1)),
            None => return Response::Jobs(all),
        }
    }
}

/// The jobs with these numbers, each with what befell it.
pub(crate) async fn whole(desk: &Desk, ids: Vec<JobId>) -> Response {
    let mut response = desk.ask(move |farm, now_us, _| pages::jobs(farm, &ids, now_us)).await;
    pages::fill_cut(&mut response, &desk.house.outputs);
    if let Response::Jobs(jobs) = &mut response {
        fill(desk, jobs);
    }
    response
}

/// What the core does not know of jobs: how their merges stand, and what their units use.
pub(super) fn fill(desk: &Desk, jobs: &mut [JobInfo]) {
    desk.house.merges.fill(jobs);
    let tree = desk.house.tree.iter();
    tree.for_each(|tree| tree.fill_jobs(jobs, desk.house.shared.now_us()));
}

async fn job(desk: &Desk, id: JobId) -> Result<JobInfo, Response> {
    match whole(desk, vec![id]).await {
        Response::Jobs(mut jobs) if jobs.len() == 1 => Ok(jobs.remove(0)),
        other => Err(other),
    }
}

pub(crate) async fn command(desk: &Arc<Desk>, id: JobId, command: JobCommand) -> Response {
    if command == JobCommand::Retry
        && let Err(why) = lost::can_run(desk, id).await
    {
        return why;
    }
    if let JobCommand::Limit(limit) = command
        && let Err(why) = limit.check()
    {
        return error(ErrorCode::Usage, why);
    }
    let act = move |farm: &mut core::Farm, now_us, deeds: &mut core::Deeds| match farm
        .command_job(id, command, now_us, deeds)
    {
        Ok(()) => Response::Done,
        Err(e) => command_error(e, &Subject::Job(id)),
    };
    if command == JobCommand::Delete {
        return delete(desk, id, act).await;
    }
    let response = desk.ask(act).await;
    if response == Response::Done && command == JobCommand::Retry {
        desk.house.merges.reopened(id);
    }
    response
}

/// Deletes a job by `act`, and what only it has.
pub(super) async fn delete(
    desk: &Arc<Desk>,
    id: JobId,
    act: impl FnOnce(&mut core::Farm, u64, &mut core::Deeds) -> Response + Send + 'static,
) -> Response {
    let made_from = room::made_from(desk, id).await;
    let response = desk.ask(act).await;
    if response != Response::Done {
        return response;
    }
    let given_back = match made_from {
        Ok(made_from) => room::give_back(desk, id, made_from).await,
        Err(e) => Err(e),
    };
    let failed = |e| error(ErrorCode::Conflict, format!("the files of job {} cannot be deleted: {e}", id.0));
    given_back.map_or_else(failed, |()| response)
}

/// Merges the results of a job again.
pub(super) async fn merge(desk: &Desk, id: JobId) -> Response {
    match job(desk, id).await.map(|job| desk.house.merges.again(&job)) {
        Ok(Ok(())) => {
            let note = desk.ask(move |farm, _, _| {
                farm.note_merge(id, MergeState::Waiting);
                Response::Done
            });
            note.await
        }
        Ok(Err(why)) => error(ErrorCode::Conflict, why),
        Err(response) => response,
    }
}

/// Waits for a job's end, or until the farm or a person pauses it, or until the time is over.
pub(crate) async fn wait(desk: &Desk, id: JobId, timeout: Duration) -> Response {
    until_end(&desk.bells, id, timeout, || job(desk, id)).await
}

/// The job once it has ended, or is paused and was not at first, or as `look` finds it after `timeout`.
async fn until_end<L>(bells: &Arc<Bells>, id: JobId, timeout: Duration, look: impl Fn() -> L) -> Response
where
    L: Future<Output = Result<JobInfo, Response>>,
{
    // Before the first look: what changes after it is not missed.
    let mut bell = bells.hang(id);
    let until = Instant::now() + timeout;
    let mut before = None;
    loop {
        let info = match look().await {
            Ok(info) => info,
            Err(response) => return response,
        };
        let merges = info.merge.as_ref().is_some_and(MergeInfo::is_pending);
        let (paused, ended) = (info.state == JobState::Paused, info.state.ended() && !merges);
        // Whoever waits on while it is paused is not answered again and again.
        let news = ended || paused && before == Some(false);
        before = Some(paused);
        if news || timeout_at(until, bell.rung()).await.is_err() {
            return Response::Jobs(vec![info]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::HashSet;
    use std::rc::Rc;

    use starfarm_protocol::ids::ContentHash;

    use super::*;

    /// Polls all tasks that can go on: some sixty a time.
    async fn settle() {
        for _ in 0..256 {
            tokio::task::yield_now().await;
        }
    }

    fn info(id: u64, state: JobState) -> JobInfo {
        let farm =
            core::Config::new(starfarm_protocol::ids::FarmId([1; 16]), starfarm_protocol::ids::Epoch(1));
        let (mut farm, mut deeds) = (core::Farm::new(farm, 0), core::Deeds::default());
        let new = core::NewJob {
            name: "a".into(),
            user: "b".into(),
            spec: ContentHash([1; 32]),
            units: 1,
            work: core::WorkFacts::NOTHING,
            sizing: core::Sizing::Units(1),
            max_failures: core::MaxFailures::Usual,
            speculative: false,
            trust: core::Trust::default(),
            terms: core::Terms::default(),
            place: core::Place::Tail,
        };
        let made = farm.submit(new, 0, &mut deeds).expect("the farm takes a job");
        let info = farm.job(made, 0).expect("it was submitted");
        JobInfo { id: JobId(id), state, ..info }
    }

    fn on_one_thread(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    /// As many as 1 000 who wait, each for a job of its own; what they ask is counted.
    #[test]
    fn a_change_of_one_job_makes_no_question_of_those_who_wait_for_others() {
        on_one_thread(async {
            let (bells, asked) = (Arc::new(Bells::default()), Rc::new(Cell::new(0)));
            let ended = Rc::new(RefCell::new(HashSet::new()));
            let waiters: Vec<_> = (0..1_000)
                .map(|id| {
                    let (bells, asked, ended) = (Arc::clone(&bells), Rc::clone(&asked), Rc::clone(&ended));
                    let look = move || {
                        asked.set(asked.get() + 1);
                        let state =
                            if ended.borrow().contains(&id) { JobState::Finished } else { JobState::Running };
                        std::future::ready(Ok(info(id, state)))
                    };
                    let hour = Duration::from_secs(3_600);
                    tokio::task::spawn_local(async move { until_end(&bells, JobId(id), hour, look).await })
                })
                .collect();
            settle().await;
            assert_eq!(asked.get(), 1_000, "each looks once");
            (0..100).for_each(|_| bells.ring([JobId(5_000), JobId(7_000)]));
            settle().await;
            assert_eq!(asked.get(), 1_000, "nobody waits for these");
            ended.borrow_mut().insert(7);
            bells.ring([JobId(7)]);
            settle().await;
            assert_eq!(asked.get(), 1_001, "one waits for it");
            assert_eq!(waiters.iter().filter(|waiter| waiter.is_finished()).count(), 1);
            assert_eq!(bells.len(), 999, "who has gone leaves no bell behind");
        });
    }

    #[test]
    fn who_waits_hears_that_the_job_was_paused_meanwhile_and_not_that_it_was_before() {
        on_one_thread(async {
            let bells = Arc::new(Bells::default());
            let state = Rc::new(Cell::new(JobState::Running));
            let wait = || {
                let (bells, state) = (Arc::clone(&bells), Rc::clone(&state));
                let look = move || std::future::ready(Ok(info(1, state.get())));
                let hour = Duration::from_secs(3_600);
                tokio::task::spawn_local(async move { until_end(&bells, JobId(1), hour, look).await })
            };
            let first = wait();
            settle().await;
            state.set(JobState::Paused);
            bells.ring([JobId(1)]);
            settle().await;
            assert!(first.is_finished(), "it is news");
            let second = wait();
            settle().await;
            bells.ring([JobId(1)]);
            settle().await;
            assert!(!second.is_finished(), "it is none");
            for next in [JobState::Running, JobState::Paused] {
                state.set(next);
                bells.ring([JobId(1)]);
                settle().await;
            }
            assert!(second.is_finished(), "it went on, and was paused again");
        });
    }
}
