//! What a turn of the scheduler leads to: its deeds, the checks, and when the next turn is due.

use starfarm_events::Event;
use starfarm_protocol::ids::{Epoch, JobId};
use starfarm_scheduler_core::{Deed, Record, Trace, Traced};

use crate::agenda::What;
use crate::farm_log::FarmLog;
use crate::job::Job;
use crate::network::Way;
use crate::sim::Sim;
use crate::violation::{Broken, rule};

impl Sim {
    /// Commits what is not durable yet, unless a commit is under way: one at a time, in groups.
    pub(crate) fn commit(&mut self) {
        if !self.farm.committing && self.farm.recorded > self.farm.durable {
            self.farm.committing = true;
            if let Some(disk) = &mut self.farm.disk {
                disk.begin();
            }
            let delay_us = (self.scenario.farm.durable_ms * 1e3) as u64;
            self.agenda.at(self.now_us + delay_us, What::Durable(self.farm.incarnation, self.farm.recorded));
        }
    }

    /// Ends a turn of the scheduler: its deeds, the checks.
    pub(crate) fn turn_ends(&mut self) -> Result<(), Broken> {
        let (now_us, side) = (self.farm_us(), &mut self.farm);
        side.turns += 1;
        side.farm.check_counters().map_err(|found| ("the counters add up", found))?;
        if now_us >= side.asks_us {
            side.asks_us = now_us + 1_000_000;
            side.farm.check_standstill(now_us, &mut side.deeds);
        }
        let deep = side.turns.is_multiple_of(self.scenario.check_every);
        let mut deeds = std::mem::take(&mut side.deeds.0);
        for deed in &deeds {
            if let Deed::Send(node, datagrams) = deed {
                self.wiretap.before_farm_sends(node.0, datagrams, &mut self.jobs);
            }
        }
        let (mut ended, mut events, mut traces) = (Vec::new(), Vec::new(), Vec::new());
        for deed in deeds.drain(..) {
            match deed {
                Deed::Send(node, datagrams) => {
                    let peer = self.farm.peers[node.0 as usize];
                    for bytes in datagrams {
                        let heard = peer.life == self.machines[node.0 as usize].life;
                        if self.farm.rightful {
                            self.wiretap.on_farm_sends(node.0, &bytes, heard, &mut self.jobs)?;
                        }
                        self.send(node.0, Way::Down, peer, bytes);
                    }
                }
                Deed::Trace(trace) => traces.push(trace),
                // Nobody here looks at the hash that it lacks.
                Deed::Certify(event) => events.push(event),
                Deed::Superseded(epoch) => {
                    // It does nothing more.
                    return self.superseded(epoch);
                }
                Deed::Record(sequence, record) => self.record(sequence, &record, &mut ended)?,
                Deed::Event(event @ Event::Standstill { .. }) => {
                    return Err(("nothing stands still", event.to_string()));
                }
                Deed::Event(event) => {
                    self.tally.hangs += u64::from(matches!(event, Event::RunHangs { .. }));
                    if let Event::NodeQuarantined { node, .. } = &event {
                        self.tally.named.insert(node.to_string());
                    }
                    self.tally.stalls += u64::from(matches!(event, Event::Stalled { .. }));
                    events.push(event);
                }
            }
        }
        self.farm.deeds.0 = deeds;
        for trace in traces {
            self.trace(trace);
        }
        self.tell(&events)?;
        for id in ended {
            self.ended(id)?;
        }
        self.commit();
        self.waits();
        // What follows from a trace is told with the next turn.
        let is_told = self.farm.deeds.0.is_empty();
        if deep && is_told && self.farm.rightful { self.check_deeply() } else { Ok(()) }
    }

    /// Who computed what stands in the records. What the farm makes of that is for its next turn.
    fn trace(&mut self, trace: Trace) {
        let traced = match trace {
            Trace::Missed { job, hit, at, second } => {
                let node = self.jobs[job.0 as usize - 1].missed_by(hit, at, second);
                node.map(|node| Traced::Missed { job, unit: hit.0, node, second })
            }
            Trace::Node(node) => {
                let of = |job: &Job| job.id.filter(|_| !job.deleted).map(|id| (id, job.computed_at(node)));
                Some(Traced::Node(node, self.jobs.iter().filter_map(of).collect()))
            }
        };
        if let Some(traced) = traced {
            let now_us = self.farm_us();
            self.farm.farm.on_traced(traced, now_us, &mut self.farm.deeds);
        }
    }

    fn record(&mut self, sequence: u64, record: &Record, ended: &mut Vec<JobId>) -> Result<(), Broken> {
        let expected = self.farm.recorded + 1;
        rule(sequence == expected, "records are numbered without a gap", || {
            format!("{sequence}, expected {expected}")
        })?;
        self.farm.recorded = sequence;
        if let Some(disk) = &mut self.farm.disk {
            disk.append(record);
        }
        if !self.farm.rightful {
            return Ok(());
        }
        self.tally.records += 1;
        let Some(job) = record.job() else { return Ok(()) };
        if let Record::Ended(_) | Record::Retried { .. } | Record::Rerun { .. } = record {
            ended.push(job);
        }
        let Some(ours) = self.jobs.get_mut(job.0 as usize - 1) else {
            return Err(("records are of jobs that were submitted", format!("{record:?}")));
        };
        let mut settled = Vec::new();
        ours.on_record(record, &mut settled)?;
        let place = job.0 as usize - 1;
        self.farm.settling.extend(settled.into_iter().map(|interval| (sequence, place, interval)));
        Ok(())
    }

    /// Counts the jobs that have not ended, those to be submitted included.
    pub(crate) fn count_unfinished(&mut self) {
        let unfinished = self.jobs.iter().filter(|job| !job.is_over()).count();
        if unfinished == 0 && self.unfinished > 0 {
            self.ended_us = self.now_us;
            self.utilise();
        }
        self.unfinished = unfinished;
    }

    /// A job has ended, or does not end after all.
    fn ended(&mut self, id: JobId) -> Result<(), Broken> {
        self.count_unfinished();
        match self.farm.farm.job(id, self.farm_us()) {
            Some(view) if view.state.ended() => self.jobs[id.0 as usize - 1].ended_well(&view),
            _ => Ok(()),
        }
    }

    /// What happened in a turn at the scheduler: to the log's hash, to whoever listens, to the log itself. What is
    /// only for pictures is in the log alone, so that a run is the same whether it is watched or not.
    fn tell(&mut self, events: &[Event]) -> Result<(), Broken> {
        for event in events.iter().filter(|event| !event.dense()) {
            self.log.bytes(event.to_string().as_bytes());
            if self.verbose {
                eprintln!("{:>14.6} {event}", self.now_us as f64 / 1e6);
            }
        }
        let now_us = self.farm_us();
        let Some(dir) = self.scenario.log.as_ref().filter(|_| self.farm.rightful) else { return Ok(()) };
        let farm_log = match &mut self.farm_log {
            Some(farm_log) => farm_log,
            none => none.insert(FarmLog::open(dir.clone(), self.farm.epoch, now_us)?),
        };
        farm_log.turn(&mut self.farm, events, now_us)
    }

    /// A worker has shown the scheduler that a later one has been.
    fn superseded(&mut self, epoch: Epoch) -> Result<(), Broken> {
        rule(!self.farm.rightful, "the right scheduler is not superseded", || format!("by {epoch:?}"))?;
        self.tally.superseded += 1;
        self.farm.up = false;
        Ok(())
    }

    /// The turn's deeds are done: the dispatcher waits for the next one.
    fn waits(&mut self) {
        let side = &mut self.farm;
        let until_us = side.turning_until_us + side.ahead_us;
        side.beat.wait_us(&side.farm, until_us);
        self.wake_farm(self.turn_due_us());
    }

    /// When the next turn is due, on the simulation's clock.
    pub(crate) fn turn_due_us(&self) -> u64 {
        let side = &self.farm;
        let waits = side.inbox.is_empty() && side.durable == side.beat.durable;
        let wanted_us = if waits { side.farm.next_deadline_us().saturating_sub(side.ahead_us) } else { 0 };
        wanted_us.max(self.free_us())
    }

    pub(crate) fn wake_farm(&mut self, at_us: u64) {
        let at_us = at_us.max(self.now_us + 1);
        if at_us < self.farm.tick_us {
            self.farm.tick_us = at_us;
            self.agenda.at(at_us, What::FarmTick(self.farm.incarnation));
        }
    }

    /// Until then the dispatcher does something else, or nothing.
    pub(crate) fn free_us(&self) -> u64 {
        self.farm.turning_until_us.max(self.farm.stalled_until_us)
    }
}
