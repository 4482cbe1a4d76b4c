//! Programs that name the units of jobs while they run, as `threads::decomposers` asks them: a question when a job wants
//! units, an answer some time later, which may find another scheduler, or a job that wants nothing any more.

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::journal::record::GrownChunk;

use crate::agenda::{Batch, What};
use crate::sim::Sim;
use crate::violation::{Broken, rule};

/// A batch comes at most so late, in microseconds.
const LATE_US: u64 = 500_000;
/// One batch of so many is empty, or is asked for twice.
const ODD: u64 = 8;

impl Sim {
    /// Asks the programs of jobs that want units, each once until it has answered.
    pub(crate) fn ask_programs(&mut self) -> Result<(), Broken> {
        for job in self.farm.farm.wishing() {
            if !self.farm.naming.insert(job) {
                continue;
            }
            let wish = self.farm.farm.wish(job).expect("it wishes");
            let state = if wish.units == 0 { "null".to_owned() } else { wish.units.to_string() };
            rule(wish.state == state, "a program's state fits the units that it named", || {
                format!("{wish:?}")
            })?;
            let batch = Batch { job, from: wish.units as u64, next: wish.next };
            let times = if self.fate.below(ODD) == 0 { 2 } else { 1 };
            for _ in 0..times {
                let at_us = self.now_us + 1 + self.fate.below(LATE_US);
                self.agenda.at(at_us, What::Name(self.farm.incarnation, batch));
            }
        }
        Ok(())
    }

    /// The farm hears of the units.
    pub(crate) fn grow(&mut self, Batch { job, from, next }: Batch) -> Result<(), Broken> {
        self.farm.naming.remove(&job);
        let model = &self.jobs[job.0 as usize - 1].model;
        let more = match self.fate.below(ODD) {
            0 => 0,
            _ => model.batch.min(next.into()).min(model.units - from),
        };
        let chunk = |units: u64| GrownChunk { hash: ContentHash([8; 32]), units, cost: 1_000_000 };
        let chunks = [more / 3, more - more / 3].into_iter().filter(|units| *units > 0).map(chunk).collect();
        let state = if from + more == 0 { "null".to_owned() } else { (from + more).to_string() };
        let grown = (chunks, state, from + more == model.units);
        let (now_us, side) = (self.farm_us(), &mut self.farm);
        let before = side.farm.job(job, now_us).map_or(0, |job| job.units_total.0);
        let counts = side.farm.grow(job, from.into(), grown, now_us, &mut side.deeds);
        self.tally.vain_batches += u64::from(!counts);
        rule(
            !counts || before == u128::from(from),
            "a batch counts behind the units that it was asked for",
            || format!("behind {before}, asked behind {from}"),
        )
    }
}
