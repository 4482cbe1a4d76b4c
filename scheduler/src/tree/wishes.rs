//! What people wish to see measured, and how often. It holds until the scheduler ends, or the job does.

use std::collections::BTreeMap;

use starfarm_agent_core::Picture;
use starfarm_overlay_core::front::Front;
use starfarm_protocol::admin::{MonitorScope, MonitorWish};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::{Scope, Table, WISHES_MAX, Wish};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::terms::Monitored;

/// How often something is measured until somebody wishes otherwise, in microseconds.
const USUAL_US: u64 = 1_000_000;

/// All wishes.
#[derive(Default)]
pub(super) struct Wishes {
    all: Option<(u64, u64)>,
    jobs: BTreeMap<JobId, (u64, u64)>,
    nodes: BTreeMap<String, (u64, u64)>,
    /// What the files of jobs say.
    files: BTreeMap<JobId, (u64, u64)>,
    /// As it was told last.
    table: Table,
}

impl Wishes {
    /// It is to be so from now on.
    pub(super) fn set(&mut self, wish: MonitorWish) {
        let bits = Metric::bits(&wish.metrics);
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

impl Wishes {
    /// Works out the table, which has another version if it is another, for these posts. The picture hears how often it
    /// is told.
    pub(super) fn renew(&mut self, front: &Front, picture: &mut Picture) {
        let wish = |scope, (period_us, metrics): (u64, u64)| Wish { scope, period_us, metrics };
        let of_node = |(id, name)| Some(wish(Scope::Post(id), *self.nodes.get(name)?));
        let of_nodes = front.back_ends().filter_map(of_node);
        let all = self.all.map(|of| wish(Scope::All, of));
        let jobs = self.of_jobs();
        let of_jobs = jobs.iter().map(|(job, of)| wish(Scope::Job(*job), *of));
        let wishes: Vec<_> = all.into_iter().chain(of_jobs).chain(of_nodes).collect();
        if wishes != self.table.wishes {
            self.table = Table { version: self.table.version + 1, wishes };
            let jobs = jobs.iter().map(|(job, (period_us, _))| (*job, *period_us)).collect();
            let of_post = |wish: &Wish| match wish.scope {
                Scope::Post(post) => Some((post, wish.period_us)),
                _ => None,
            };
            let posts = self.table.wishes.iter().filter_map(of_post).collect();
            picture.set_periods(self.all.map_or(USUAL_US, |(period_us, _)| period_us), jobs, posts);
        }
    }

    /// What holds of jobs that have something of their own: what a person has said comes before what their files say. Of files
    /// as many count as there is room for.
    fn of_jobs(&self) -> BTreeMap<JobId, (u64, u64)> {
        let room = WISHES_MAX.saturating_sub(self.jobs.len() + self.nodes.len() + 1);
        let files = self.files.iter().filter(|(job, _)| !self.jobs.contains_key(job)).take(room);
        files.chain(&self.jobs).map(|(job, of)| (*job, *of)).collect()
    }

    /// Forgets what was wished of jobs that this does not hold for. These are the files of those that have not ended.
    pub(super) fn keep(&mut self, is_live: impl Fn(JobId) -> bool, files: BTreeMap<JobId, Monitored>) {
        self.jobs.retain(|job, _| is_live(*job));
        let of = |monitored: Monitored| (monitored.period_us, Metric::bits(&monitored.metrics));
        self.files = files.into_iter().map(|(job, monitored)| (job, of(monitored))).collect();
    }

    /// Jobs that something was wished of.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// There is room for another.
    pub(super) fn has_room(&self) -> bool {
        self.jobs.len() + self.nodes.len() + 1 < WISHES_MAX
    }

    /// What all posts are to do.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}
