//! What is seen of the tree: what befalls its posts, and what jobs and nodes have used, as events for the log and as figures for
//! people.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_agent_core::{JobFigures, LINE_STEP_US, Points, Span, Told, Total};
use starfarm_events::{Event, JobUsage, Name};
use starfarm_overlay_core::front::PostNews;
use starfarm_protocol::admin::{
    self, AlarmLine, JobInfo, JobTotalUsage, Spread, Subject, UsageLine, UsageSpan,
};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::orders::PostId;
use starfarm_protocol::terms::Monitored;

use super::desk::AlarmDesk;
use super::{Known, MILLIONTHS, Tree, spread as now, spread_of};

impl Tree {
    /// Says of each job what its units use.
    pub(crate) fn fill_jobs(&self, jobs: &mut [JobInfo], now_us: u64) {
        self.with(|known| {
            let all = known.picture.jobs(now_us);
            for job in jobs {
                job.usage = all.get(&job.id).map(job_usage);
                job.usage_total = known.picture.lives.whole(job.id).map(total);
            }
        });
    }

    /// What has happened since this was asked last, to be told to the log, and how much more did that there was no room for.
    pub(crate) fn happened(&self, now_us: u64) -> (Vec<Event>, u64) {
        let happened = self.with(|known| {
            let (news, missed) = known.forest.take_news(now_us);
            let posts = news.into_iter().map(of_post);
            let jobs = known.picture.lives.due(now_us).into_iter().map(|(job, told)| of_job(job, &told));
            let AlarmDesk { alarms, story, .. } = &mut known.alarms;
            let alarms = story.tell(alarms.standing(), now_us).into_iter().map(of_alarm);
            (posts.chain(jobs).chain(alarms).collect(), missed)
        });
        happened.unwrap_or_default()
    }

    /// Takes down how all stands: once a second.
    pub(crate) fn step(&self, now_us: u64) {
        self.with(|known| known.picture.step(now_us));
    }

    /// Jobs of which it is to be known whether they have ended.
    pub(crate) fn jobs_to_ask(&self) -> BTreeSet<JobId> {
        let known = self.known();
        known.wishes.jobs().chain(known.picture.lives.open()).collect()
    }

    /// Of the jobs that were asked about there are these, and of these the last have not ended.
    /// And so much the files of live ones say of their measurement, and of those that are to have trees of their own these nodes
    /// have tasks.
    pub(crate) fn on_live(
        &self,
        (asked, known_jobs, live): (&BTreeSet<JobId>, &BTreeSet<JobId>, &BTreeSet<JobId>),
        (files, own_trees): (BTreeMap<JobId, Monitored>, &BTreeMap<JobId, BTreeSet<String>>),
        now_us: u64,
    ) {
        self.with(|known| {
            known.forest.want(own_trees, now_us);
            // What was wished since then is not among those that were asked about.
            known.wishes.keep(|job| live.contains(&job) || !asked.contains(&job), files);
            known.wishes.renew(known.forest.farm(), &mut known.picture);
            known.picture.lives.on_known(asked, |job| known_jobs.contains(&job));
            known.picture.lives.on_ended(asked, |job| !live.contains(&job), now_us);
        });
    }

    /// What a job or node used in the last two minutes.
    pub(crate) fn line(&self, subject: &Subject) -> UsageLine {
        let points = self.with(|known| match subject {
            Subject::Job(job) => known.picture.lives.job_line(*job),
            Subject::Node(name) => known.line_of_node(name),
        });
        let points = points.flatten().unwrap_or_default();
        let cores = |(cpu, _): &(Option<u64>, _)| cpu.map(|cpu| cpu as f64 / MILLIONTHS);
        UsageLine {
            step_seconds: LINE_STEP_US as f64 / 1e6,
            cpu_cores: points.iter().map(cores).collect(),
            memory_bytes: points.iter().map(|(_, memory)| memory.map(|bytes| bytes as f64)).collect(),
        }
    }
}

impl Known {
    fn line_of_node(&self, name: &str) -> Option<Points> {
        self.picture.lives.machine_line(self.forest.farm().back_end_of(name)?)
    }
}

fn of_post(news: PostNews) -> Event {
    match news {
        PostNews::Up { post, kind, node, parent } => {
            Event::TreePost { post: post.0, post_kind: kind, node: node.into(), parent: parent.0 }
        }
        PostNews::Adopted { post, kind, node, parent } => {
            Event::TreeAdopted { post: post.0, post_kind: kind, node: node.into(), parent: parent.0 }
        }
        PostNews::Lost { post, kind, node, why } => {
            Event::TreeLost { post: post.0, post_kind: kind, node: node.into(), why }
        }
    }
}

fn of_alarm((origin, line): (PostId, AlarmLine)) -> Event {
    let AlarmLine { change, id, node, sensor, level, value, text, .. } = line;
    let node = (origin != PostId::FRONT).then(|| Name::from(node));
    Event::Alarm { id, node, sensor, change, level, value, text }
}

fn job_usage(job: &JobFigures) -> admin::JobUsage {
    let of = |metric, unit| now(&job.figures, metric, unit);
    admin::JobUsage {
        cpu_cores: of(Metric::Cpu, MILLIONTHS),
        memory_bytes: of(Metric::Memory, 1.0),
        gpu: of(Metric::Gpu, MILLIONTHS),
        gpu_memory_bytes: of(Metric::GpuMemory, 1.0),
        io_bytes_per_s: of(Metric::Io, 1.0),
        named: job.named.iter().map(|(name, amount)| (name.to_owned(), spread_of(amount))).collect(),
        units: job.units,
        from: job.from,
        of: job.of,
        age_seconds: job.age_us as f64 / 1e6,
    }
}

/// A figure over a time; none where it was never known, or for no time.
fn spread(span: &Span, metric: Metric, unit: f64) -> Option<Spread> {
    let Total { min, max, sum, weight, .. } = *span.totals.get(&metric)?;
    let sum = sum as f64 / unit;
    (weight > 0 && span.for_us > 0).then(|| Spread {
        min: min as f64 / unit,
        avg: sum / weight as f64,
        max: max as f64 / unit,
        sum: sum / span.for_us as f64,
    })
}

fn of_job(job: JobId, told: &Told) -> Event {
    let (over, span) = match told {
        Told::Minute(span) => (UsageSpan::Minute, span),
        Told::Life(span) => (UsageSpan::Life, span),
    };
    let of = |metric, unit| {
        let spread = spread(span, metric, unit);
        let part = |part: fn(&Spread) -> f64| spread.as_ref().map(part);
        [part(|of| of.min), part(|of| of.avg), part(|of| of.max), part(|of| of.sum)]
    };
    let [cpu_cores_min, cpu_cores_avg, cpu_cores_max, cpu_cores_sum] = of(Metric::Cpu, MILLIONTHS);
    let [memory_bytes_min, memory_bytes_avg, memory_bytes_max, memory_bytes_sum] = of(Metric::Memory, 1.0);
    let [gpu_min, gpu_avg, gpu_max, gpu_sum] = of(Metric::Gpu, MILLIONTHS);
    let [io_bytes_per_s_min, io_bytes_per_s_avg, io_bytes_per_s_max, io_bytes_per_s_sum] =
        of(Metric::Io, 1.0);
    Event::JobUsage(JobUsage {
        job,
        over,
        for_us: span.for_us,
        cpu_cores_min,
        cpu_cores_avg,
        cpu_cores_max,
        cpu_cores_sum,
        memory_bytes_min,
        memory_bytes_avg,
        memory_bytes_max,
        memory_bytes_sum,
        gpu_min,
        gpu_avg,
        gpu_max,
        gpu_sum,
        io_bytes_per_s_min,
        io_bytes_per_s_avg,
        io_bytes_per_s_max,
        io_bytes_per_s_sum,
        units: span.units,
        from: span.from,
        of: span.of,
    })
}

/// What a job has used in all.
fn total(span: &Span) -> JobTotalUsage {
    let of = |metric, unit| spread(span, metric, unit);
    let total = |metric| span.totals.get(&metric);
    JobTotalUsage {
        seconds: span.for_us as f64 / 1e6,
        cpu_seconds: total(Metric::Cpu).map(|total| total.sum as f64 / MILLIONTHS / 1e6),
        cpu_cores: of(Metric::Cpu, MILLIONTHS),
        memory_bytes: of(Metric::Memory, 1.0),
        memory_bytes_max: total(Metric::Memory).map(|total| total.most as f64),
        gpu: of(Metric::Gpu, MILLIONTHS),
        io_bytes_per_s: of(Metric::Io, 1.0),
        units: span.units,
        from: span.from,
        of: span.of,
    }
}
