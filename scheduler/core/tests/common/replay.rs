//! Replay equals live: what the records of a script say of the farm.

use starfarm_scheduler_core::{Deeds, Farm, Record, Restoring};

use super::Bench;

impl Bench {
    pub(super) fn restored<'a>(&self, records: impl IntoIterator<Item = &'a Record>) -> Farm {
        let mut restoring = Restoring::new(self.config.clone(), self.now_us);
        for record in records {
            let mut body = Vec::new();
            record.encode(&mut body);
            let record = Record::decode(record.kind(), &body).expect("what was written can be read");
            restoring.apply(&record).unwrap_or_else(|why| panic!("{why}: {record:?}, after\n{}", self.story));
        }
        restoring.finish(self.records.len() as u64, self.now_us)
    }

    /// The records alone give the same farm; so do the records of a checkpoint. Where neither they nor what is durable
    /// of the farm changed since they did so last, they still do.
    pub(super) fn replay_equals_live(&mut self) {
        let live = self.farm.durable_state();
        if (self.replayed.0, &self.replayed.1) == (self.records.len(), &live) {
            return;
        }
        self.are_same("replayed", &self.restored(&self.records).durable_state(), &live);
        let (sequence, snapshot) = self.farm.snapshot(&mut Deeds::default());
        assert_eq!(sequence as usize, self.records.len());
        self.are_same("from a checkpoint", &self.restored(&snapshot).durable_state(), &live);
        self.replayed = (self.records.len(), live);
    }

    fn are_same(&self, what: &str, found: &[Record], live: &[Record]) {
        if found != live {
            let at = found.iter().zip(live).take_while(|(found, live)| found == live).count();
            let [found, live] =
                [found, live].map(|of| of.get(at).map_or("nothing".into(), |of| format!("{of:?}")));
            panic!("{what}: {found}, live: {live}, after\n{}", self.story);
        }
    }
}
