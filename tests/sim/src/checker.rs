//! What must hold when a scheduler has ended: its records say what it said, and its heir knows all that was
//! promised to workers and users. The journal is gone through by the simulation's own ledgers.

use starfarm_protocol::ids::Epoch;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::journal::Record;
use starfarm_scheduler_core::{Deeds, Farm, Restoring, limits};

use crate::agenda::Incarnation;
use crate::disk::Disk;
use crate::job::Job;
use crate::seat;
use crate::sim::Sim;
use crate::violation::{Broken, rule};

impl Sim {
    /// All records that the live farm has written make a farm that is the same to a user.
    pub(crate) fn replay_equals_live(&mut self) -> Result<(), Broken> {
        let Some(disk) = &self.farm.disk else { return Ok(()) };
        let (sequence, checkpoint) = disk.checkpoint().unwrap_or_default();
        let after = (disk.len(), self.farm_us());
        let replayed = self.replay(&[&checkpoint, &disk.records(sequence)], self.farm.number(), after)?;
        self.same("replay equals live", &replayed, &self.farm.farm)
    }

    /// Checks that cost something, every now and then.
    pub(crate) fn check_deeply(&mut self) -> Result<(), Broken> {
        let (farm, farm_us) = (&self.farm.farm, self.farm_us());
        farm.check_all().map_err(|found| ("state and place agree", found))?;
        farm.check_max_nodes().map_err(|found| ("a job has as many nodes as it may", found))?;
        for job in &self.jobs {
            if let Some(view) = job.id.and_then(|id| farm.job(id, farm_us)) {
                job.agrees(&view)?;
            }
        }
        let [gq, dq] = farm.tasks();
        let most = &mut self.tally.queues_max;
        *most = [most[0].max(gq), most[1].max(dq)];
        for node in self.farm.farm.nodes(farm_us) {
            let machine = &self.machines[node.id.0 as usize];
            let window = (machine.group.queue_tasks_max as usize).max(usize::from(machine.group.slots) + 1);
            // What a node gets back after it was thought lost comes on top of its window.
            rule(node.tasks <= 2 * window as u64, "a node holds no more than its window", || {
                format!("node {}: {} tasks, window at most {window}", node.name, node.tasks)
            })?;
        }
        // What came back from nodes comes on top of what refill may cut.
        let bound = limits::GQ_TASKS_MAX + self.tally.queues_max[1] + self.machines.len();
        rule(gq <= bound, "gq is bounded", || format!("{gq} tasks, bound {bound}"))
    }

    /// The farm that the last of `parts` ends with.
    pub(crate) fn replay(
        &self,
        parts: &[&[Record]],
        number: (Incarnation, Epoch),
        (sequence, now_us): (u64, u64),
    ) -> Result<Farm, Broken> {
        let mut restoring = Restoring::new(seat::config(&self.scenario, number), now_us);
        for record in parts.iter().copied().flatten() {
            let applied = restoring.apply(record);
            applied.map_err(|why| ("records can be applied", format!("{why}: {record:?}")))?;
        }
        Ok(restoring.finish(sequence, now_us))
    }

    /// A checkpoint is due: what it is to hold is compared with what the last one and the records since make.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Broken> {
        let every = self.scenario.farm.checkpoint_records;
        let due = |disk: &Disk| disk.len() >= disk.kept() + every;
        if !self.farm.disk.as_ref().is_some_and(due) {
            return Ok(());
        }
        self.replay_equals_live()?;
        let (sequence, records) = self.farm.farm.snapshot(&mut Deeds::default());
        if let Some(disk) = &mut self.farm.disk {
            rule(sequence == disk.len(), "a checkpoint knows how far it goes", || format!("{sequence}"))?;
            disk.keep(sequence, &records);
        }
        Ok(())
    }

    /// The two farms are the same to a user.
    pub(crate) fn same(&self, what: &'static str, ours: &Farm, theirs: &Farm) -> Result<(), Broken> {
        let (ours, theirs) = (ours.durable_state(), theirs.durable_state());
        let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        let differs = differs.or((ours.len() != theirs.len()).then_some(ours.len().min(theirs.len())));
        differs.map_or(Ok(()), |at| Err((what, format!("{:?}, not {:?}", ours.get(at), theirs.get(at)))))
    }

    /// A scheduler has started from these records: what was promised must hold.
    pub(crate) fn promises_hold(&mut self, records: &[Record]) -> Result<(), Broken> {
        self.farm.farm.check_all().map_err(|found| ("a restored farm is sound", found))?;
        self.reread(records)?;
        for job in &self.jobs {
            job.keeps_promises()?;
            let view = job.id.and_then(|id| self.farm.farm.job(id, self.farm_us()));
            rule(view.is_some() == job.id.is_some(), "a restored farm has its jobs", || {
                format!("{:?}", job.id)
            })?;
            let (Some(id), Some(view)) = (job.id, view) else { continue };
            job.agrees(&view)?;
            job.is_done(&self.farm.farm.done_intervals(id))?;
        }
        self.jobs_in_order(records)
    }

    /// The ledgers are written anew from the records.
    fn reread(&mut self, records: &[Record]) -> Result<(), Broken> {
        self.jobs.iter_mut().for_each(Job::forget_records);
        let mut settled = Vec::new();
        for record in records {
            let Some(JobId(id)) = record.job() else { continue };
            let Some(job) = self.jobs.get_mut(id as usize - 1) else {
                return Err(("records are of jobs that were submitted", format!("{record:?}")));
            };
            job.on_record(record, &mut settled)?;
            settled.drain(..).for_each(|(lo, hi)| job.on_durable(lo, hi));
        }
        Ok(())
    }

    /// jq is as the records say, by a reading of our own.
    fn jobs_in_order(&self, records: &[Record]) -> Result<(), Broken> {
        let (mut jq, mut ended): (Vec<JobId>, Vec<JobId>) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                Record::Submitted(facts) => jq.push(facts.job),
                Record::Moved { job, place } => {
                    jq.retain(|other| other != job);
                    jq.insert((*place as usize).min(jq.len()), *job);
                }
                Record::Ended(end) => {
                    jq.retain(|other| *other != end.job);
                    ended.push(end.job);
                }
                Record::Retried { job, .. } | Record::Rerun { job, .. } if ended.contains(job) => {
                    ended.retain(|other| other != job);
                    jq.push(*job);
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        for record in self.farm.farm.durable_state() {
            if let Record::Moved { job, .. } = record {
                found.push(job);
            }
        }
        rule(found == jq, "jobs stand in their order", || format!("{found:?}, not {jq:?}"))
    }

    /// At the end: the journal alone, read once more, says what the ledgers say, and every ended job is whole.
    pub(crate) fn audit(&mut self) -> Result<(), Broken> {
        if !self.farm.up || self.farm.disk.is_none() {
            return Ok(());
        }
        self.replay_equals_live()?;
        let Some(disk) = &self.farm.disk else { return Ok(()) };
        let records = disk.records(0);
        let whole = self.replay(&[&records], self.farm.number(), (disk.len(), self.farm_us()))?;
        self.same("the whole journal equals live", &whole, &self.farm.farm)?;
        self.reread(&records)?;
        self.check_deeply()?;
        for record in &records {
            if let Record::Ended(ended) = record {
                self.jobs[ended.job.0 as usize - 1].tiles(ended)?;
            }
        }
        Ok(())
    }
}
