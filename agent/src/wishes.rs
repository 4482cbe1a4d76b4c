//! What is to be measured, and how often, as the table of the parent has it: the timers of this post's stages follow it, and
//! jobs with a period of their own get a stage of their own.

use std::collections::{BTreeMap, BTreeSet};

use starfarm_agent_core::{Order, Refusal, Runtime, When, Who, Word};
use starfarm_protocol::ids::JobId;
use starfarm_protocol::link::{Scope, Table, Wish};
use starfarm_protocol::orders::{PostId, PostKind, PostOrder};

use crate::graph::{self, Doors, GATHER, HEALTH, HEALTH_US, MACHINE, TIMER, UNITS};
use crate::words::Begin;

/// A second, and all metrics.
const USUAL: Wish = Wish { scope: Scope::All, period_us: 1_000_000, metrics: 0 };

/// What holds at this post.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) table: Table,
    /// Jobs that have stages of their own.
    own: BTreeSet<JobId>,
    /// It is this post's turn to tell of its job.
    has_turn: bool,
}

impl Wishes {
    /// The parent's table has come.
    pub(crate) fn take(&mut self, table: Table) {
        self.table = table;
    }

    /// What holds for this post, where nothing is said of a job.
    fn of_all(&self, post: PostId) -> Wish {
        let said = |scope| self.table.wishes.iter().find(|wish| wish.scope == scope).copied();
        said(Scope::Post(post)).or_else(|| said(Scope::All)).unwrap_or(USUAL)
    }

    /// How often most machines are measured; where most are not, as often as the slowest of the others.
    fn period_of_machines(&self) -> u64 {
        let of_posts = self.table.wishes.iter().filter(|wish| matches!(wish.scope, Scope::Post(_)));
        let slowest_us = of_posts.map(|wish| wish.period_us).max().filter(|us| *us > 0);
        let of_all_us = Some(self.of_all(PostId::FRONT).period_us).filter(|us| *us > 0);
        of_all_us.or(slowest_us).unwrap_or(USUAL.period_us)
    }

    fn of_jobs(&self) -> BTreeMap<JobId, Wish> {
        let of = |wish: &Wish| match wish.scope {
            Scope::Job(job) => Some((job, *wish)),
            _ => None,
        };
        self.table.wishes.iter().filter_map(of).collect()
    }

    /// Has the post's stages do what is wished, by the farm's clock: those that each has, and `others`.
    pub(crate) fn apply(
        &mut self,
        runtime: &mut Runtime,
        (begin, order): (&Begin, &PostOrder),
        (doors, others): (&Doors, &[String]),
        now_us: u64,
    ) -> Result<(), Refusal> {
        let (all, jobs) = (self.of_all(order.post), self.of_jobs());
        if begin.kind != PostKind::Be {
            let own = jobs.iter().filter(|(_, wish)| wish.period_us > 0);
            let own: String = own.map(|(job, wish)| format!(" {}={}", job.0, wish.period_us)).collect();
            // Those of machines come as often as of all: of a post that has its own, they come when they come.
            let period_us = self.period_of_machines();
            return set(runtime, GATHER, "periods", format!("{period_us}{own}"), now_us);
        }
        if let Some(job) = begin.job {
            let wish = jobs.get(&job).copied().unwrap_or(all);
            set(runtime, UNITS, "metrics", mask(wish).to_string(), now_us)?;
            // Until then the post of the farm's tree tells of them.
            let has_turn = order.apart.contains(&job);
            if !std::mem::replace(&mut self.has_turn, has_turn) && has_turn {
                // That one says with its next wave that it tells of them no more.
                set(runtime, UNITS, "prepare", String::new(), now_us)?;
            }
            let period_us = if has_turn { wish.period_us } else { 0 };
            return timer(runtime, (TIMER, period_us), &[UNITS], now_us);
        }
        doors.metrics.set(mask(all));
        timer(runtime, (HEALTH, HEALTH_US), &[HEALTH], now_us)?;
        let stages: Vec<_> =
            MACHINE.into_iter().chain([UNITS]).chain(others.iter().map(String::as_str)).collect();
        timer(runtime, (TIMER, all.period_us), &stages, now_us)?;
        set(runtime, UNITS, "metrics", mask(all).to_string(), now_us)?;
        let all_but: Vec<_> = jobs.keys().map(|job| job.0.to_string()).collect();
        set(runtime, UNITS, "all-but", all_but.join(" "), now_us)?;
        let apart = order.apart.iter().map(|job| job.0.to_string()).collect::<Vec<_>>().join(" ");
        set(runtime, UNITS, "apart", apart.clone(), now_us)?;
        for (job, wish) in &jobs {
            let name = format!("{UNITS}-{}", job.0);
            if self.own.insert(*job) {
                graph::units(runtime, begin, &name)?;
                set(runtime, &name, "only", job.0.to_string(), now_us)?;
            }
            set(runtime, &name, "apart", apart.clone(), now_us)?;
            set(runtime, &name, "metrics", mask(*wish).to_string(), now_us)?;
            timer(runtime, (&name, wish.period_us), &[&name], now_us)?;
        }
        let gone: Vec<_> = self.own.iter().filter(|job| !jobs.contains_key(job)).copied().collect();
        for job in gone {
            self.own.remove(&job);
            let name = format!("{UNITS}-{}", job.0);
            runtime.order(Order::End(Who::from(name.as_str())), now_us)?;
            let _ = runtime.order(Order::EndTimer(name), now_us);
        }
        Ok(())
    }
}

/// Metrics by their bits.
fn mask(wish: Wish) -> u64 {
    if wish.metrics == 0 { u64::MAX } else { wish.metrics }
}

fn set(runtime: &mut Runtime, stage: &str, key: &str, value: String, now_us: u64) -> Result<(), Refusal> {
    let word = Word::Set { key: key.to_owned(), value };
    runtime.order(Order::Tell(Who::from(stage), word), now_us).map(drop)
}

/// Has a timer fire so often for these stages; never, where the period is 0.
fn timer(
    runtime: &mut Runtime,
    (name, period_us): (&str, u64),
    stages: &[&str],
    now_us: u64,
) -> Result<(), Refusal> {
    if period_us == 0 {
        // It may have ended already.
        let _ = runtime.order(Order::EndTimer(name.to_owned()), now_us);
        return Ok(());
    }
    runtime.order(Order::Timer(name.to_owned(), When::Every(period_us)), now_us)?;
    for stage in stages {
        runtime.order(Order::Subscribe(name.to_owned(), Who::from(*stage), true), now_us)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_protocol::ids::FarmId;

    use super::*;

    const POST: PostId = PostId(9);
    const SECOND_US: u64 = 1_000_000;

    fn begin(kind: PostKind) -> Begin {
        let (farm, running) = (FarmId([1; 16]), "/nowhere/running".into());
        Begin::new(farm, kind, u8::from(kind != PostKind::Be), running)
    }

    fn order() -> PostOrder {
        PostOrder::new(POST, (PostKind::Be, 0))
    }

    fn wish(scope: Scope, period_us: u64) -> Wish {
        Wish { scope, period_us, metrics: 0 }
    }

    /// Stages by name, and when the next timer is due, after these wishes.
    fn after(wishes: &mut Wishes, runtime: &mut Runtime, table: &[Wish], now_us: u64) -> (Vec<String>, u64) {
        wishes.take(Table { version: 1, wishes: table.to_vec() });
        wishes.apply(runtime, (&begin(PostKind::Be), &order()), (&Doors::default(), &[]), now_us).unwrap();
        let names = runtime.stages().into_iter().filter_map(|(_, name, _)| name.map(str::to_owned));
        (names.filter(|name| name.starts_with(UNITS)).collect(), runtime.next_due_us().unwrap_or(0))
    }

    #[test]
    fn a_job_with_a_period_of_its_own_has_a_stage_of_its_own_as_long_as_the_table_has_it() {
        let (mut runtime, mut wishes) = (Runtime::new(&graph::modules()), Wishes::default());
        graph::build(&mut runtime, &begin(PostKind::Be), &Doors::default()).unwrap();
        let s = SECOND_US;
        assert_eq!(after(&mut wishes, &mut runtime, &[], s), (vec!["units".into()], 2 * s));
        let seven = wish(Scope::Job(JobId(7)), s / 10);
        let both = vec!["units".to_owned(), "units-7".to_owned()];
        for _ in 0..3 {
            assert_eq!(after(&mut wishes, &mut runtime, &[seven], s), (both.clone(), s + s / 10));
        }
        // It is not measured at all, and neither is anything else.
        let off = [wish(Scope::All, 0), wish(Scope::Job(JobId(7)), 0)];
        // But for how the machine is.
        assert_eq!(after(&mut wishes, &mut runtime, &off, s), (both, HEALTH_US));
        let others = [wish(Scope::Post(PostId(8)), s / 2), wish(Scope::All, 3 * s / 2)];
        assert_eq!(after(&mut wishes, &mut runtime, &others, s), (vec!["units".into()], 3 * s / 2));
        let own = [wish(Scope::All, 5 * s), wish(Scope::Post(POST), s / 2)];
        assert_eq!(after(&mut wishes, &mut runtime, &own, s), (vec!["units".into()], s + s / 2));
    }

    #[test]
    fn a_communication_process_hears_of_all_periods() {
        let (mut runtime, mut wishes) = (Runtime::new(&graph::modules()), Wishes::default());
        let (begin, doors) = (begin(PostKind::Ibe), Doors::default());
        graph::build(&mut runtime, &begin, &doors).unwrap();
        let table =
            [wish(Scope::All, 0), wish(Scope::Job(JobId(7)), SECOND_US), wish(Scope::Job(JobId(8)), 0)];
        wishes.take(Table { version: 1, wishes: table.to_vec() });
        wishes.apply(&mut runtime, (&begin, &order()), (&doors, &[]), SECOND_US).unwrap();
    }

    #[test]
    fn a_post_of_a_jobs_own_tree_measures_its_units_alone() {
        let (mut runtime, mut wishes) = (Runtime::new(&graph::modules()), Wishes::default());
        let (begin, doors) = (Begin { job: Some(JobId(7)), ..begin(PostKind::Be) }, Doors::default());
        graph::build(&mut runtime, &begin, &doors).unwrap();
        let stages: Vec<_> = runtime.stages().into_iter().map(|(_, _, of)| of.to_owned()).collect();
        assert_eq!(stages, ["up", "up", "up", UNITS]);
        let s = SECOND_US;
        let mut due = |table: &[Wish], apart: &[JobId]| {
            wishes.take(Table { version: 1, wishes: table.to_vec() });
            let order = PostOrder { apart: apart.to_vec(), ..order() };
            wishes.apply(&mut runtime, (&begin, &order), (&doors, &[]), s).unwrap();
            (runtime.stages().len(), runtime.next_due_us())
        };
        let turn = vec![JobId(6), JobId(7)];
        assert_eq!(due(&[], &[]), (4, None), "the farm's tells of them");
        let mut due = |table: &[Wish]| due(table, &turn);
        assert_eq!(due(&[]), (4, Some(2 * s)));
        let [all, other] = [wish(Scope::All, s / 2), wish(Scope::Job(JobId(8)), s / 10)];
        assert_eq!(due(&[all, other]), (4, Some(s + s / 2)));
        assert_eq!(due(&[all, other, wish(Scope::Job(JobId(7)), s / 4)]), (4, Some(s + s / 4)));
        assert_eq!(due(&[wish(Scope::Job(JobId(7)), 0)]), (4, None));
    }
}
