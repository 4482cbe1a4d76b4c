//! What people wish to see measured, and how often. It holds until the scheduler ends, or the job does.

use std::collections::BTreeMap;

use starfarm_protocol::admin::{MonitorScope, MonitorWish};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::{Scope, Table, WISHES_MAX, Wish};
use starfarm_protocol::metric::Metric;

use super::{Known, Tree};

/// How often something is measured until somebody wishes otherwise, in microseconds.
const USUAL_US: u64 = 1_000_000;

/// All wishes.
#[derive(Default)]
pub(super) struct Wishes {
    all: Option<(u64, u64)>,
    jobs: BTreeMap<JobId, (u64, u64)>,
    nodes: BTreeMap<String, (u64, u64)>,
    /// As it was told last.
    table: Table,
}

impl Wishes {
    fn set(&mut self, wish: MonitorWish) {
        let bits = wish.metrics.into_iter().fold(0, |bits, metric: Metric| bits | 1 << metric as u8);
        let entry = wish.period_us.map(|period_us| (period_us, bits));
        match (wish.scope, entry) {
            (MonitorScope::All, entry) => self.all = entry,
            (MonitorScope::Job(job), Some(entry)) => drop(self.jobs.insert(job, entry)),
            (MonitorScope::Job(job), None) => drop(self.jobs.remove(&job)),
            (MonitorScope::Node(name), Some(entry)) => drop(self.nodes.insert(name, entry)),
            (MonitorScope::Node(name), None) => drop(self.nodes.remove(&name)),
        }
    }
}

impl Tree {
    /// It is to be so from now on; false where there are too many wishes already.
    pub(crate) fn wish(&self, wish: MonitorWish) -> bool {
        let mut known = self.known();
        if known.wishes.jobs.len() + known.wishes.nodes.len() + 1 >= WISHES_MAX && wish.period_us.is_some() {
            return false;
        }
        known.wishes.set(wish);
        known.renew_table();
        drop(known);
        let _ = self.waker.wake();
        true
    }

    /// Forgets what was wished of jobs that this does not hold for.
    pub(crate) fn keep_wishes(&self, is_live: impl Fn(JobId) -> bool) {
        let mut known = self.known();
        known.wishes.jobs.retain(|job, _| is_live(*job));
        known.renew_table();
    }

    /// What all posts are to do.
    pub(crate) fn table(&self) -> Table {
        self.known().wishes.table.clone()
    }

    /// A node of that name has posts.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        let known = self.known();
        known.front.posts().any(|(id, _)| known.front.node_of(id).is_some_and(|(_, of)| of == name))
    }
}

impl Known {
    /// Works out the table, which has another version if it is another.
    fn renew_table(&mut self) {
        let wish = |scope, (period_us, metrics): (u64, u64)| Wish { scope, period_us, metrics };
        let of_nodes = self.front.posts().filter(|(_, post)| post.level == 0).filter_map(|(id, _)| {
            let (_, name) = self.front.node_of(id)?;
            Some(wish(Scope::Post(id), *self.wishes.nodes.get(name)?))
        });
        let all = self.wishes.all.map(|of| wish(Scope::All, of));
        let of_jobs = self.wishes.jobs.iter().map(|(job, of)| wish(Scope::Job(*job), *of));
        let wishes: Vec<_> = all.into_iter().chain(of_jobs).chain(of_nodes).collect();
        if wishes != self.wishes.table.wishes {
            self.wishes.table = Table { version: self.wishes.table.version + 1, wishes };
            let periods = self.wishes.jobs.iter().map(|(job, (period_us, _))| (*job, *period_us)).collect();
            self.picture.set_periods(self.wishes.all.map_or(USUAL_US, |(period_us, _)| period_us), periods);
        }
    }
}
