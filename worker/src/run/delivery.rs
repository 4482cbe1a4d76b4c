//! Results of a task's units on their way to the main thread. One is reported when the scheduler has stored all that it
//! names, and not before; meanwhile the slot runs the next units. Short contents of several units are stored together.

use std::time::{Duration, Instant};

use starfarm_protocol::bulk::{Few, Source};
use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::limits::RESULT_BODY_BYTES_MAX;
use starfarm_protocol::wire::CommandUnit;
use starfarm_worker_core::Task;

use crate::bulk::{Bulk, FetchError, LOOK, Order};
use crate::report::{FLUSH, Report};
use starfarm_exec::CancelFlag;

/// What the record of a unit names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) hash: ContentHash,
    pub(super) content: Box<dyn Source>,
}

/// The results of one task. They are reported in the order of its units. At most two packs are in memory: one that is being
/// stored, and one that is gathered.
pub(super) struct Delivery<'a> {
    task: &'a Task,
    bulk: &'a Bulk,
    cancel: &'a CancelFlag,
    storing: Option<(Pack, Vec<Order>)>,
    gathered: Pack,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(task: &'a Task, bulk: &'a Bulk, cancel: &'a CancelFlag) -> Self {
        Self { task, bulk, cancel, storing: None, gathered: Pack::new(task.lo) }
    }

    /// The first unit that is not reported.
    pub(super) fn lo(&self) -> u128 {
        self.storing.as_ref().map_or(self.gathered.lo, |(pack, _)| pack.lo)
    }

    /// The next units are done, which are one unit, or all that one program ran. Waits where too much is not stored.
    ///
    /// # Errors
    /// What was done from [`Delivery::lo`] on cannot be delivered.
    pub(super) fn add(
        &mut self,
        outcome: &CommandUnit,
        named: Vec<Named>,
        report: &mut Report,
    ) -> Result<(), FetchError> {
        let mut record = Vec::new();
        outcome.write(&mut record);
        // What names nothing need not wait for what does.
        let waits_in_vain = !named.is_empty() && self.gathered.names_nothing();
        if waits_in_vain || self.gathered.body.len() + record.len() > RESULT_BODY_BYTES_MAX {
            self.send(report)?;
        }
        named.into_iter().for_each(|named| self.gathered.take(named));
        self.gathered.body.extend_from_slice(&record);
        self.gathered.units += outcome.units;
        self.gathered.duration_us = self.gathered.duration_us.saturating_add(outcome.duration_us);
        if !self.gathered.long.is_empty() || self.gathered.since.elapsed() >= FLUSH {
            self.send(report)?;
            report.flush_if_due();
        }
        Ok(())
    }

    /// Reports what is stored by now and sends what was gathered, without waiting: a unit that takes long runs. Says when to
    /// do so again, if that is of use.
    ///
    /// # Errors
    /// As of [`Delivery::add`]: the next call says so too.
    pub(super) fn go_on(&mut self, report: &mut Report) -> Result<Option<Duration>, FetchError> {
        let (bulk, cancel) = (self.bulk, self.cancel);
        let is_settled = |order: &mut Order| bulk.is_settled(order, cancel, Duration::ZERO);
        let is_under_way =
            self.storing.as_mut().is_some_and(|(_, orders)| !orders.iter_mut().all(is_settled));
        // Neither waits now. What cannot be stored stays here, and its error with it.
        let went = if is_under_way { Ok(()) } else { self.wait(report).and_then(|()| self.send(report)) };
        report.flush();
        went.map(|()| self.storing.as_ref().map(|_| LOOK))
    }

    /// All is stored and reported.
    ///
    /// # Errors
    /// As of [`Delivery::add`].
    pub(super) fn finish(&mut self, report: &mut Report) -> Result<(), FetchError> {
        self.send(report)?;
        self.wait(report)
    }

    /// What was gathered is on its way, or reported where it names nothing: what follows is another result.
    ///
    /// # Errors
    /// As of [`Delivery::add`].
    pub(super) fn send(&mut self, report: &mut Report) -> Result<(), FetchError> {
        if self.gathered.units == 0 {
            return Ok(());
        }
        self.wait(report)?;
        let next = Pack::new(self.gathered.lo + u128::from(self.gathered.units));
        let mut pack = std::mem::replace(&mut self.gathered, next);
        let orders = pack.store(self.bulk);
        match orders.is_empty() {
            true => pack.report(self.task, report),
            false => self.storing = Some((pack, orders)),
        }
        Ok(())
    }

    /// What is on its way is stored and reported.
    fn wait(&mut self, report: &mut Report) -> Result<(), FetchError> {
        let Some((_, orders)) = &mut self.storing else { return Ok(()) };
        for order in orders {
            // A unit is not done without its output.
            self.bulk.wait(order, self.cancel).map_err(|error| match error {
                FetchError::Refused(why) => {
                    FetchError::Refused(format!("the scheduler does not keep its output: {why}"))
                }
                other => other,
            })?;
        }
        if let Some((pack, _)) = self.storing.take() {
            pack.report(self.task, report);
            // The scheduler keeps few contents of a node that no result names: the next ones must not wait for these.
            report.flush();
        }
        Ok(())
    }
}

/// Units side by side that are done and not reported, with what their records name.
struct Pack {
    lo: u128,
    units: u64,
    duration_us: u64,
    body: Vec<u8>,
    since: Instant,
    /// Short contents, by [`Few::add`].
    few: Vec<Vec<u8>>,
    long: Vec<Named>,
}

impl Pack {
    fn new(lo: u128) -> Self {
        Self {
            lo,
            units: 0,
            duration_us: 0,
            body: Vec::new(),
            since: Instant::now(),
            few: Vec::new(),
            long: Vec::new(),
        }
    }

    /// It has units, and all of them can be reported now.
    fn names_nothing(&self) -> bool {
        self.units > 0 && self.few.is_empty() && self.long.is_empty()
    }

    /// Puts a content to the short ones or the long ones.
    fn take(&mut self, named: Named) {
        let bytes = named.content.bytes();
        let is_short = bytes <= Few::CONTENT_BYTES_MAX as u64;
        let content = is_short.then(|| named.content.read(0, bytes as usize)).and_then(Result::ok);
        // What cannot be read, or became shorter meanwhile, is told of where it is sent by itself.
        let Some(content) = content.filter(|content| content.len() as u64 == bytes) else {
            return self.long.push(named);
        };
        if !self.few.last_mut().is_some_and(|few| Few::add(few, &content)) {
            let mut few = Vec::new();
            assert!(Few::add(&mut few, &content), "one of them fits");
            self.few.push(few);
        }
    }

    fn store(&mut self, bulk: &Bulk) -> Vec<Order> {
        let few = self.few.drain(..).map(|few| bulk.begin_put_all(few));
        let long = self.long.drain(..).map(|named| bulk.begin_put(named.hash, named.content));
        few.chain(long).collect()
    }

    fn report(self, task: &Task, report: &mut Report) {
        report.done(task, self.lo, self.units, Duration::from_micros(self.duration_us), self.body);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use crossbeam_channel::{Receiver, unbounded};
    use starfarm_protocol::bulk::Work;
    use starfarm_protocol::ids::{Attempt, JobId};
    use starfarm_protocol::wire::{Cancel, Outputs, Stream};

    use super::*;
    use crate::event::{Event, News};

    const TASK: Task =
        Task { job: JobId(1), spec: ContentHash([1; 32]), attempt: Attempt(1), lo: 10, units: 100 };

    fn report() -> (Report, Receiver<Event>) {
        let (to_inbox, inbox) = unbounded();
        (Report::new(0, to_inbox), inbox)
    }

    /// First units and counts of what was reported.
    fn reported(inbox: &Receiver<Event>) -> Vec<(u128, u64)> {
        let news = inbox.try_iter().flat_map(|event| match event {
            Event::Slot { news, .. } => news,
            _ => Vec::new(),
        });
        let part = |item| if let News::Part(part) = item { Some((part.lo, part.units)) } else { None };
        news.filter_map(part).collect()
    }

    /// A unit that wrote so much.
    fn unit(bytes: usize) -> (CommandUnit, Vec<Named>) {
        let content = vec![7; bytes];
        let hash = ContentHash::of(&content);
        let (stdout, named) = match bytes {
            0..=512 => (Stream::Inline(content), Vec::new()),
            _ => {
                let stdout = Stream::Uploaded { hash, kept: bytes as u64, total: bytes as u64 };
                (stdout, vec![Named { hash, content: Box::new(content) }])
            }
        };
        let outputs = Outputs::streams(stdout, Stream::Inline(Vec::new()));
        (CommandUnit { units: 1, failed: None, code: 0, duration_us: 1, outputs }, named)
    }

    fn add(delivery: &mut Delivery<'_>, bytes: usize, report: &mut Report) -> Result<(), FetchError> {
        let (outcome, named) = unit(bytes);
        delivery.add(&outcome, named, report)
    }

    /// A channel that keeps what it is given to store.
    fn keeps() -> (Bulk, Arc<Mutex<Vec<Vec<usize>>>>) {
        let stored = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&stored);
        let bulk = Bulk::answered_by(move |work| {
            let lengths = match work {
                Work::PutAll(few) => Few::new(&few).contents().map(<[u8]>::len).collect(),
                Work::Put { content, .. } => vec![content.bytes() as usize],
                other => panic!("{other:?}"),
            };
            theirs.lock().unwrap().push(lengths);
            Ok(Vec::new())
        });
        (bulk, stored)
    }

    #[test]
    fn short_outputs_are_stored_together_and_all_units_are_reported_in_order() {
        let ((bulk, stored), cancel, (mut report, inbox)) = (keeps(), CancelFlag::new().unwrap(), report());
        let mut delivery = Delivery::new(&TASK, &bulk, &cancel);
        for bytes in [3, 2_048, 3, 2_048, 100_000, 5] {
            add(&mut delivery, bytes, &mut report).unwrap();
        }
        delivery.finish(&mut report).unwrap();
        assert_eq!(*stored.lock().unwrap(), [vec![2_048, 2_048], vec![100_000]]);
        report.flush();
        assert_eq!(reported(&inbox), [(10, 1), (11, 4), (15, 1)]);
        assert_eq!(delivery.lo(), 16);
        // More than travel together.
        stored.lock().unwrap().clear();
        (0..40).for_each(|_| add(&mut delivery, 3_000, &mut report).unwrap());
        delivery.finish(&mut report).unwrap();
        let stored = stored.lock().unwrap();
        assert!(stored.iter().map(Vec::len).sum::<usize>() == 40 && stored.len() < 10, "{stored:?}");
        assert_eq!(reported(&inbox).iter().map(|part| part.1).sum::<u64>(), 40);
    }

    #[test]
    fn a_unit_whose_output_is_not_stored_is_not_reported_nor_any_after_it() {
        let bulk = Bulk::answered_by(|_| Err("the disk is broken".into()));
        let (cancel, (mut report, inbox)) = (CancelFlag::new().unwrap(), report());
        let mut delivery = Delivery::new(&TASK, &bulk, &cancel);
        add(&mut delivery, 5, &mut report).unwrap();
        add(&mut delivery, 600, &mut report).unwrap();
        add(&mut delivery, 5, &mut report).unwrap();
        let why = "the scheduler does not keep its output: the disk is broken";
        for _ in 0..2 {
            assert_eq!(delivery.finish(&mut report), Err(FetchError::Refused(why.into())));
        }
        let again = delivery.go_on(&mut report);
        assert_eq!(again, Err(FetchError::Refused(why.into())), "nothing comes of it");
        assert_eq!((reported(&inbox), delivery.lo()), (vec![(10, 1)], 11));
    }

    /// A unit that takes hours must not hold up what was done before it, whose output was on its way.
    #[test]
    fn while_the_next_unit_runs_what_is_stored_by_then_is_reported() {
        let (stores, may_store) = unbounded::<()>();
        let bulk =
            Bulk::answered_by(move |_| may_store.recv().map(|()| Vec::new()).map_err(|e| e.to_string()));
        let (cancel, (mut report, inbox)) = (CancelFlag::new().unwrap(), report());
        let mut delivery = Delivery::new(&TASK, &bulk, &cancel);
        assert_eq!(delivery.go_on(&mut report), Ok(None), "there is nothing to do");
        add(&mut delivery, 600, &mut report).unwrap();
        assert_eq!(delivery.go_on(&mut report), Ok(Some(LOOK)));
        assert_eq!((delivery.go_on(&mut report), reported(&inbox)), (Ok(Some(LOOK)), vec![]));
        stores.send(()).unwrap();
        while let Some(after) = delivery.go_on(&mut report).unwrap() {
            std::thread::sleep(after);
        }
        assert_eq!(reported(&inbox), [(10, 1)]);
        // A worker that must leave at once waits for nothing.
        add(&mut delivery, 600, &mut report).unwrap();
        cancel.raise(Cancel::Forced);
        assert_eq!(delivery.finish(&mut report), Err(FetchError::Cancelled));
        assert_eq!((reported(&inbox), delivery.lo()), (vec![], 11));
    }
}
