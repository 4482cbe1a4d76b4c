//! Submitting a job. To read its specification, to plant answers in it and to put it on the disk takes as long as it has
//! targets, so that is done beside the runtime's only thread.

use std::io;
use std::sync::Arc;

use starfarm_kernels::Verifier;
use starfarm_protocol::admin::{ErrorCode, MergeState, Response, Submit};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::job::{JOB_NAME, WorkFacts, is_job_name};
use starfarm_protocol::seal::{Action, Role, StaticKey};
use starfarm_protocol::spec::{JobSpec, Work};
use starfarm_protocol::trust::TrustChecks;
use starfarm_scheduler_core as core;

use super::desk::Desk;
use crate::answers::{conflict, error};
use crate::plant::{Draws, plant};
use crate::threads::House;

/// What is said to who may have no program of his own run here.
const NOT_HERE: &str =
    "the job has a program run on the scheduler's host: submit it there, or with an admin's join file";

pub(super) async fn submit(desk: &Arc<Desk>, submit: Submit, (role, user): (Role, &str)) -> Response {
    if let Some(why) = desk.house.low_water.refusal() {
        return error(ErrorCode::Conflict, why);
    }
    if !is_job_name(&submit.name) {
        return error(ErrorCode::Usage, JOB_NAME);
    }
    let Submit { name, user: as_user, spec, sizing, place, max_failures, speculative, trust, terms, once } =
        submit;
    if let Err(why) = terms.check() {
        return error(ErrorCode::Usage, why);
    }
    let house = Arc::clone(&desk.house);
    let kept = beside(move || {
        let mut specified =
            specified(spec, trust, &house.state.key).map_err(|e| error(ErrorCode::Usage, e))?;
        if specified.runs_here && !role.may(Action::Govern) {
            return Err(error(ErrorCode::Refused, NOT_HERE));
        }
        let spec = keep(&house, &specified.bytes)?;
        specified.search.take().into_iter().for_each(|search| house.evidence.know(spec, search));
        Ok((spec, specified))
    });
    let (spec, Specified { bytes, work, units, grows, trust, merges, .. }) = match kept.await {
        Ok(kept) => kept,
        Err(response) => return response,
    };
    let user = if as_user.is_empty() { user.to_owned() } else { as_user };
    // A search may run twice at one time, and nobody notices. A program may have effects beside its output.
    let speculative = speculative.unwrap_or(!work.programs);
    let new = core::NewJob {
        name,
        user,
        spec,
        units,
        work,
        sizing,
        max_failures,
        speculative,
        trust,
        terms,
        place,
    };
    let asked = desk.ask(move |farm, now_us, deeds| {
        if let Some(id) = farm.same_job(&new.name, new.spec).filter(|_| once) {
            return Response::Submitted(id);
        }
        let submitted =
            if grows { farm.submit_growing(new, now_us, deeds) } else { farm.submit(new, now_us, deeds) };
        match submitted {
            Ok(id) => {
                if merges {
                    farm.note_merge(id, MergeState::Waiting);
                }
                Response::Submitted(id)
            }
            Err(why) => conflict(why, "the job"),
        }
    });
    let response = asked.await;
    if let Response::Submitted(id) = response {
        desk.house.merges.learn(id, &bytes);
        desk.house.shared.want_units();
    }
    response
}

/// Does what takes long while other callers are answered.
pub(super) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Response> + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(error(ErrorCode::Conflict, format!("the job cannot be read: {e}"))))
}

/// Says which contents of a submission the farm does not have.
pub(super) async fn lacking(desk: &Desk, mut hashes: Vec<ContentHash>) -> Response {
    let house = Arc::clone(&desk.house);
    let found = beside(move || {
        let mut broken = None;
        hashes.retain(|hash| match house.has_kept(hash) {
            Ok(has) => !has,
            Err(e) => broken.replace(e).is_none(),
        });
        match broken {
            None => Ok(Response::Lacking { hashes }),
            Some(e) => Err(error(ErrorCode::Conflict, format!("the scheduler cannot look for it: {e}"))),
        }
    });
    found.await.unwrap_or_else(|response| response)
}

/// Puts the specification on the disk.
fn keep(house: &House, bytes: &[u8]) -> Result<ContentHash, Response> {
    house.keep(bytes).map_err(|e| not_kept(&e))
}

/// What is said of a content that the disk does not take.
pub(super) fn not_kept(e: &io::Error) -> Response {
    error(ErrorCode::Conflict, format!("the scheduler cannot keep it: {e}"))
}

/// What is to be done, as the farm takes it.
struct Specified {
    bytes: Vec<u8>,
    work: WorkFacts,
    units: u128,
    /// Its units are named while it runs.
    grows: bool,
    trust: core::Trust,
    search: Option<Verifier>,
    /// It has a program of its user's run on this host.
    runs_here: bool,
    /// Its results are to be merged.
    merges: bool,
}

/// Reads what is submitted, and plants what is to be planted. No worker can run a job that fails here.
fn specified(text: String, asked: TrustChecks, scheduler: &StaticKey) -> Result<Specified, String> {
    let mut spec = JobSpec::from_bytes(text.as_bytes())?;
    // Without this, the hits of a search could not be shown to be some either.
    let search = match &spec.work {
        Work::Search(work) => Some(Verifier::new(work, &spec.space)?),
        Work::Command(work) if work.program.is_empty() => {
            return Err("the job names no program: submit it anew".into());
        }
        Work::Command(work) => {
            work.needs()?;
            None
        }
        Work::OpenCl(work) => {
            work.check()?;
            starfarm_decomposers::digits(&spec.space)?;
            None
        }
        Work::Nothing => None,
    };
    let merges = spec.work.merge().is_some();
    let (runs_here, grows) = (spec.runs_on_scheduler(), spec.space.grows());
    let units = starfarm_decomposers::units(&spec.space)?;
    let TrustChecks { check, planted: count } = asked;
    let (mut bytes, mut known, mut search) = (text.into_bytes(), Vec::new(), search);
    if count > 0 {
        let (Work::Search(work), Some(verifier)) = (&mut spec.work, &search) else {
            return Err("the job is no search: only a search has trust checks".to_owned());
        };
        let draws = Draws::of(scheduler, work, &spec.space);
        known = plant(work, verifier, units, count, &draws)?;
        search = Some(Verifier::new(work, &spec.space)?);
        bytes = spec.to_bytes();
    }
    let trust = core::Trust { check, planted: known };
    Ok(Specified { bytes, work: spec.work.facts(), units, grows, trust, search, runs_here, merges })
}

#[cfg(test)]
mod tests {
    use starfarm_protocol::ids::HexBytes;
    use starfarm_protocol::seal::Secret;
    use starfarm_protocol::spec::{Algorithm, SearchWork, Space, Stop};
    use starfarm_protocol::trust::Share;

    use super::*;

    fn search(targets: u32) -> String {
        let targets = (0..targets).map(|i| HexBytes([[7; 12].as_slice(), &i.to_le_bytes()].concat()));
        let work = SearchWork {
            algorithm: Algorithm::Md5,
            targets: targets.collect(),
            stop: Stop::Never,
            needs: None,
        };
        let space = Space::Chars { positions: vec![HexBytes(b"abcdefghij".to_vec()); 4], min: 4 };
        String::from_utf8(JobSpec { space, work: Work::Search(work) }.to_bytes()).unwrap()
    }

    fn key() -> StaticKey {
        StaticKey::from_secret(Secret([1; 32]))
    }

    fn planting(planted: u32) -> TrustChecks {
        TrustChecks { check: Share::default(), planted }
    }

    #[test]
    fn who_submits_very_many_targets_lets_others_be_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let text = search(50_000);
        let specified = runtime.block_on(async {
            let refused = |e| error(ErrorCode::Usage, e);
            let submitting =
                tokio::spawn(beside(move || specified(text, planting(9), &key()).map_err(refused)));
            // The other one begins now, and this one is next.
            tokio::task::yield_now().await;
            assert!(!submitting.is_finished(), "the others had to wait");
            submitting.await.unwrap().unwrap()
        });
        assert_eq!((specified.units, specified.trust.planted.len()), (10_000, 9));
        let told = JobSpec::from_bytes(&specified.bytes).unwrap();
        assert_eq!(
            (told.work.facts(), specified.work),
            (specified.work, WorkFacts::search(Stop::Never, 50_009))
        );
    }

    #[test]
    fn what_is_not_planted_in_is_kept_as_it_came() {
        let text = search(2);
        let plain = specified(text.clone(), planting(0), &key()).unwrap();
        assert_eq!((plain.bytes, plain.trust.planted.len()), (text.into_bytes(), 0));
        let nothing = JobSpec { space: Space::Range { from: 0, to: 9, step: 1 }, work: Work::Nothing };
        let text = String::from_utf8(nothing.to_bytes()).unwrap();
        let refused = specified(text, planting(1), &key()).map(drop);
        assert_eq!(refused, Err("the job is no search: only a search has trust checks".to_owned()));
    }
}
