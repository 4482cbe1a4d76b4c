//! `starfarm plan`: the paper's scaling law with the time per dispatch of this machine. One node takes
//! K / T_target tasks a second, the scheduler gives 1 / T_dispatch; so P_max = T_target / (K * T_dispatch).

use serde::Serialize;
use starfarm_protocol::settings::Settings;

use super::{Context, bench};
use crate::cli::{Dispatch, Plan};
use crate::failure::Failure;
use crate::human;
use crate::interrupt::Signals;
use crate::output::table::{Cell, Table, left, right};
use crate::output::{Document, Style, say};

/// One row of the law.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Row {
    system: String,
    /// K.
    slots: u32,
    /// T_dispatch.
    dispatch_us: f64,
    /// T_target.
    target_seconds: f64,
    /// P_max, as its source gives it.
    nodes_max: f64,
}

/// The law for this machine, and for the paper's.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Law {
    #[serde(flatten)]
    here: Row,
    /// P, where it was asked what so many nodes need; T_target is then the least that they allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    /// S: units of a task that takes T_target, where C is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    granularity_units: Option<f64>,
    /// T_retry: a task that a live node no longer lists goes to another after this.
    retry_seconds: f64,
    /// Tasks that were measured with.
    measured_tasks: u64,
    paper: Vec<Row>,
}

pub(crate) fn run(context: &mut Context, plan: &Plan) -> Result<(), Failure> {
    let signals = Signals::count()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let nodes = u16::try_from(cores).unwrap_or(u16::MAX).min(8);
    say(&format!(
        "measuring with {} tasks and {nodes} workers on this machine",
        human::count(plan.tasks as f64)
    ));
    let dispatch = Dispatch {
        tasks: plan.tasks,
        nodes,
        slots: 1,
        no_seal: false,
        no_journal: false,
        no_log: false,
        no_monitor: false,
    };
    let report = bench::measure(&dispatch, &signals)?;
    // The workers shared this machine with the scheduler, so this is the worst that a farm will see.
    let law = Law::new(plan, report.seconds / report.tasks as f64, report.tasks);
    context.printer.document(&law)
}

/// T_target: as the user gives it, S / C, or P * K * T_dispatch; clap sees to it that one of them is there.
fn target_seconds(plan: &Plan, dispatch_seconds: f64) -> f64 {
    let from_size = plan.size.zip(plan.speed).map(|(size, speed)| size / speed);
    let from_nodes = plan.nodes.map(|nodes| f64::from(nodes) * f64::from(plan.slots) * dispatch_seconds);
    plan.target_seconds.or(from_size).or(from_nodes).unwrap_or(f64::NAN)
}

impl Law {
    fn new(plan: &Plan, dispatch_seconds: f64, measured_tasks: u64) -> Self {
        let target_seconds = target_seconds(plan, dispatch_seconds);
        let mut here = Row::new("here", plan.slots, dispatch_seconds, target_seconds);
        if let Some(nodes) = plan.nodes {
            // What the law gives back may be rounded down.
            here.nodes_max = f64::from(nodes);
        }
        let granularity_units = plan.speed.map(|speed| (speed * target_seconds).ceil());
        let retry_seconds = Settings::DEFAULT.retry_us((target_seconds * 1e6) as u64) as f64 / 1e6;
        Self { here, nodes: plan.nodes, granularity_units, retry_seconds, measured_tasks, paper: paper() }
    }

    /// What the target time brings with it.
    fn consequences(&self) -> String {
        let target = human::seconds(self.here.target_seconds);
        let mut text = match self.nodes {
            Some(nodes) => format!(
                "\n{nodes} nodes of {} slots need tasks of at least T_target = P * K * T_dispatch = {target}\n",
                self.here.slots
            ),
            None => "\n".to_owned(),
        };
        match self.granularity_units {
            Some(units) => text.push_str(&format!(
                "granularity: S = C * T_target = {} units a task (`units_per_task`)\n",
                human::count(units)
            )),
            None => text.push_str(&format!("granularity: tasks of {target} (`target_seconds`)\n")),
        }
        text.push_str(&format!(
            "T_retry = {} * T_target, three heartbeats at least = {}\n",
            Settings::DEFAULT.retry_targets,
            human::seconds(self.retry_seconds)
        ));
        text
    }
}

impl Row {
    fn new(system: &str, slots: u32, dispatch_seconds: f64, target_seconds: f64) -> Self {
        Self {
            system: system.to_owned(),
            slots,
            dispatch_us: dispatch_seconds * 1e6,
            target_seconds,
            nodes_max: (target_seconds / (f64::from(slots) * dispatch_seconds)).floor(),
        }
    }
}

/// The paper's rows, with the P_max that it prints. Its 6 ms are rounded: 6.02 ms gives its numbers.
fn paper() -> Vec<Row> {
    let row = |system: &str, slots, target_seconds, nodes_max| Row {
        nodes_max,
        dispatch_us: 6_000.0,
        ..Row::new(system, slots, 0.006, target_seconds)
    };
    vec![
        row("Tianhe-1 (C2050)", 1, 8.0, 1_328.0),
        row("Mole 8.5 (6 x C2050)", 6, 8.0, 221.0),
        row("Tianhe-2 (3 MIC)", 3, 60.2, 3_333.0),
    ]
}

impl Document for Law {
    const NAME: &'static str = "plan";

    fn table(&self, style: Style) -> String {
        let table = Table::of(
            std::iter::once(&self.here).chain(&self.paper),
            &[
                left("system", |row| Cell::new(&row.system)),
                right("K", |row| Cell::new(row.slots.to_string())),
                right("T_dispatch", |row| Cell::new(format!("{} us", human::count(row.dispatch_us)))),
                right("T_target", |row| Cell::new(human::seconds(row.target_seconds))),
                right("P_max = T_target / (K * T_dispatch)", |row| Cell::new(human::count(row.nodes_max))),
            ],
        );
        table.render(style) + &self.consequences()
    }

    /// What was asked for.
    fn quiet(&self) -> String {
        match self.nodes {
            Some(_) => self.here.target_seconds.to_string(),
            None => format!("{:.0}", self.here.nodes_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    #[test]
    fn the_law_gives_the_papers_numbers() {
        for row in paper() {
            let ours = Row::new("", row.slots, 0.006_02, row.target_seconds).nodes_max;
            assert!((ours - row.nodes_max).abs() <= 1.0, "{ours} for {row:?}");
        }
    }

    #[test]
    fn size_and_speed_make_a_time() {
        assert_eq!(target_seconds(&Plan { speed: Some(4e8), size: Some(8e8), ..plan() }, 1e-6), 2.0);
        assert_eq!(target_seconds(&Plan { target_seconds: Some(3.0), ..plan() }, 1e-6), 3.0);
    }

    fn plan() -> Plan {
        Plan { slots: 2, nodes: None, speed: None, size: None, target_seconds: None, tasks: 1 }
    }

    #[test]
    fn so_many_nodes_need_tasks_of_such_a_size() {
        let law = Law::new(&Plan { nodes: Some(1_000), speed: Some(1e9), ..plan() }, 2e-6, 200_000);
        assert_eq!((law.here.target_seconds, law.here.nodes_max), (0.004, 1_000.0));
        assert_eq!((law.granularity_units, law.retry_seconds), (Some(4e6), 3.0));
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&law)), "0.004\n");
        expect![[r#"

            1000 nodes of 2 slots need tasks of at least T_target = P * K * T_dispatch = 4 ms
            granularity: S = C * T_target = 4.00 M units a task (`units_per_task`)
            T_retry = 10 * T_target, three heartbeats at least = 3 s
        "#]]
        .assert_eq(&law.consequences());
        // The other way round it is the same law.
        let back = Law::new(&Plan { target_seconds: Some(0.004), ..plan() }, 2e-6, 200_000);
        assert_eq!(back.here.nodes_max, 1_000.0);
    }

    #[test]
    fn the_law_as_a_table() {
        let law = Law::new(&Plan { target_seconds: Some(8.0), ..plan() }, 2e-6, 200_000);
        expect![[r#"
            system                K  T_dispatch    T_target  P_max = T_target / (K * T_dispatch)
            here                  2        2 us         8 s                               2.00 M
            Tianhe-1 (C2050)      1     6000 us         8 s                                 1328
            Mole 8.5 (6 x C2050)  6     6000 us         8 s                                  221
            Tianhe-2 (3 MIC)      3     6000 us  1 min 00 s                                 3333

            granularity: tasks of 8 s (`target_seconds`)
            T_retry = 10 * T_target, three heartbeats at least = 1 min 20 s
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&law)));
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&law)), "2000000\n");
    }
}
