//! Slots that hang on nodes that live. Heartbeats name the unit that each slot runs; one that is named for far longer
//! than such a task takes is told of, once. What its node lists does not go back to gq: near the job's end an idle node
//! gets a copy where the job allows copies, and a worker ends a program itself where the job has `hang_seconds`.

use starfarm_events::Event;
use starfarm_protocol::ids::JobId;

use crate::deed::Deeds;
use crate::explain::time;
use crate::farm::Farm;
use crate::job::{Sizing, WorkFacts};
use crate::limits::{HANG_MIN_US, LAMBDA};
use crate::node::Run;
use crate::task::{NodeId, Task};

impl Farm {
    /// Node `id` said what its slots run.
    pub(crate) fn note_runs(&mut self, id: NodeId, running: &[(JobId, u128)], now_us: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let before = std::mem::take(&mut node.runs);
        let run =
            |unit: &(JobId, u128)| before.get(unit).copied().unwrap_or(Run { since_us: now_us, told: false });
        node.runs = running.iter().map(|unit| (*unit, run(unit))).collect();
    }

    /// Tells of what node `id` has run for too long.
    pub(crate) fn tell_hangs(&mut self, id: NodeId, now_us: u64, deeds: &mut Deeds) {
        // So many times what such a task takes: a run that lasts longer hangs, as far as one can tell.
        let times = LAMBDA * self.config.settings.retry_targets;
        let Some(node) = self.nodes.get(&id) else { return };
        let long = |run: &Run| !run.told && now_us.saturating_sub(run.since_us) >= HANG_MIN_US;
        let long: Vec<(JobId, u128)> =
            node.runs.iter().filter(|(_, run)| long(run)).map(|(&unit, _)| unit).collect();
        for (job, unit) in long {
            let Some(usual_us) = self.usual_us(id, job, unit) else { continue };
            let node = self.nodes.get_mut(&id).expect("it was found above");
            let run = node.runs.get_mut(&(job, unit)).expect("it was found above");
            let for_us = now_us.saturating_sub(run.since_us);
            if for_us >= usual_us.saturating_mul(times) {
                run.told = true;
                deeds.event(Event::RunHangs { node: node.name.clone(), job, unit, for_us, usual_us });
            }
        }
    }

    /// How long the task of that unit takes on node `id` by what was learnt; none where nothing was, or where the node
    /// has no such task any more.
    pub(crate) fn usual_us(&self, id: NodeId, job_id: JobId, unit: u128) -> Option<u64> {
        let job = self.jobs.get(&job_id)?;
        let rate = job.rates.get(&id).map_or(job.mean_rate, |rate| rate.units_per_s);
        let node = self.nodes.get(&id)?;
        let holds = |task: &&Task| task.job == job_id && (task.lo..task.hi).contains(&unit);
        let task = node.tasks.iter().filter_map(|&task| self.dq.peek(task)).find(holds)?;
        let all = (task.hi - task.lo) as f64;
        let units = match job.facts.sizing {
            // Neighbours that a heartbeat joined are many tasks.
            Sizing::TargetUs(target_us) if task.is_found() => all.min(rate * target_us as f64 / 1e6).max(1.0),
            Sizing::Units(units) => all.min(units as f64),
            Sizing::TargetUs(_) => all,
        };
        (rate > 0.0).then(|| (units * 1e6 / rate) as u64)
    }

    /// What node `id` was told to run for too long: job, unit, and that in words.
    pub(crate) fn hung_on(&self, id: NodeId, now_us: u64) -> Vec<(JobId, u128, String)> {
        let Some(node) = self.nodes.get(&id) else { return Vec::new() };
        let told = node.runs.iter().filter(|(_, run)| run.told);
        let text = |(&(job, unit), run): (&(JobId, u128), &Run)| {
            let usual_us = self.usual_us(id, job, unit)?;
            let (for_us, usual) = (now_us.saturating_sub(run.since_us), time(usual_us));
            let text = format!(
                "has run on node {} for {}, and such a task takes about {usual} there: it hangs, as it seems.",
                node.name,
                time(for_us)
            );
            Some((job, unit, text))
        };
        told.filter_map(text).collect()
    }

    /// What ends a run of that job that hangs.
    pub(crate) fn cure(&self, job: JobId) -> &'static str {
        match self.jobs.get(&job).map(|job| (job.facts.speculative, &job.facts.work)) {
            Some((true, _)) => "Near the job's end a node that idles gets a copy of it.",
            Some((false, WorkFacts::Command { .. })) => {
                "A job with `hang_seconds` or `timeout_seconds` ends such a unit; end its process on the machine, and \
                 the unit fails and is tried again as `retries` says."
            }
            _ => "The job allows no copies: start the worker anew, and the unit goes to another node.",
        }
    }
}
