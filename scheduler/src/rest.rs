//! A farm at rest: jobs and results as they lie in a state directory that no scheduler has open. Its ledger and journal
//! are replayed in memory. Nothing is written and no lock is taken, so that looking is never in the way of a start.

use std::path::Path;
use std::sync::Mutex;

use starfarm_protocol::admin::{ErrorCode, Request, Response};
use starfarm_scheduler_core::{Config, Farm, HitsKept, Restoring};

use crate::answers::error;
use crate::error::SchedulerError;
use crate::merge::Merges;
use crate::pages::{self, Asked, Look, Reading};
use crate::restart::apply;
use crate::store::blobs::Blobs;
use crate::store::journal;
use crate::store::outputs::OutputStore;
use crate::store::state::{FarmFile, read_farm, unix_now_us};

/// What lies in a state directory, put together.
pub struct AtRest {
    farm: Farm,
    outputs: Mutex<OutputStore>,
    blobs: Mutex<Blobs>,
    merges: Merges,
    reading: Reading,
}

impl AtRest {
    /// Reads the state directory `dir`; none where it holds no farm.
    ///
    /// # Errors
    /// Something in it is damaged or cannot be read; the sentence says what to do.
    pub fn read(dir: &Path) -> Result<Option<Self>, SchedulerError> {
        let Some(FarmFile { id, epoch, .. }) = read_farm(dir)? else { return Ok(None) };
        let (now_us, retired) = (unix_now_us(), journal::retired_at_rest(dir, id)?);
        let mut outputs = OutputStore::look(&dir.join("outputs"), id, retired);
        let config = Config { hits_kept: HitsKept::ALL, ..Config::new(id, epoch) };
        let mut restoring = Restoring::new(config, now_us);
        let last = journal::replay_at_rest(dir, (id, epoch), &mut |framed| {
            let record = apply(framed, &mut restoring)?;
            outputs.take(framed.sequence, &record).expect("what cannot be read is told to who asks for it");
            Ok(())
        })?;
        let path = dir.join("blobs");
        let cannot_read = |e| SchedulerError::State(format!("cannot read {}: {e}", path.display()));
        let mut blobs = Blobs::look(&path).map_err(cannot_read)?;
        let farm = restoring.finish(last, now_us);
        let merges = Merges::new(dir.join("merged"));
        for (job, spec) in farm.specs_with_outcomes() {
            let spec = blobs.read(&spec, 0, usize::MAX).ok().flatten();
            spec.into_iter().for_each(|spec| merges.learn(job, &spec));
        }
        Ok(Some(Self {
            farm,
            outputs: Mutex::new(outputs),
            blobs: Mutex::new(blobs),
            merges,
            reading: Reading::default(),
        }))
    }

    /// Answers who looks, as a scheduler would.
    pub fn answer(&mut self, request: &Request) -> Response {
        let now_us = unix_now_us();
        match request {
            Request::Jobs { ids } if ids.is_empty() => Response::Jobs(self.farm.jobs(now_us)),
            Request::Jobs { ids } => {
                let mut response = pages::jobs(&self.farm, ids, now_us);
                pages::fill_cut(&mut response, &self.outputs);
                if let Response::Jobs(jobs) = &mut response {
                    self.merges.fill(jobs);
                }
                response
            }
            Request::Nodes => Response::Nodes(self.farm.nodes(now_us)),
            Request::Results { id, skip, take } => {
                self.results(Asked::new(*id, *skip, *take)).unwrap_or_else(|response| response)
            }
            Request::LostOutputs { id, all, skip, take } => {
                let look = Look { anew: false, all: *all };
                let lost = pages::owed(&self.farm, *id)
                    .and_then(|owed| pages::lost(*id, &owed, (&self.outputs, &self.blobs), look));
                lost.map_or_else(|response| response, |lost| pages::lost_page(&lost, *skip, *take))
            }
            Request::Merged { id, file, offset } => {
                pages::merged(&self.merges, *id, file.as_deref(), *offset)
            }
            Request::Fetch { hash, offset } => pages::fetch(&self.blobs, hash, *offset),
            _ => error(
                ErrorCode::Conflict,
                "no scheduler runs there, so nothing can be done but look: start it first",
            ),
        }
    }

    fn results(&mut self, asked: Asked) -> Result<Response, Response> {
        let found = pages::find(&self.farm, asked, self.reading.mark(asked))?;
        let outputs = pages::outputs(asked, &self.outputs)?;
        let names = pages::names(&self.farm, pages::writers(&outputs));
        Ok(pages::page(asked, (found, outputs), &names, &self.blobs, &mut self.reading))
    }
}
