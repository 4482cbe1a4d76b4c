//! `starfarm plan`: the paper's scaling law with the time per dispatch of this machine. One node takes
//! K / T_target tasks a second, the scheduler gives 1 / T_dispatch; so P_max = T_target / (K * T_dispatch).

use serde::Serialize;

use super::{Context, bench};
use crate::cli::{Dispatch, Plan};
use crate::failure::{Exit, Failure};
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
    /// Tasks that were measured with.
    measured_tasks: u64,
    paper: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// As the measurement and the printer.
pub(crate) fn run(context: &mut Context, plan: &Plan) -> Result<Exit, Failure> {
    let signals = Signals::count()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let nodes = u16::try_from(cores).unwrap_or(u16::MAX).min(8);
    say(&format!(
        "measuring with {} tasks and {nodes} workers on this machine",
        human::count(plan.tasks as f64)
    ));
    let dispatch =
        Dispatch { tasks: plan.tasks, nodes, slots: 1, no_seal: false, no_journal: false, no_log: false };
    let report = bench::measure(&dispatch, &signals)?;
    // The workers shared this machine with the scheduler, so this is the worst that a farm will see.
    let here = Row::new("here", plan.slots, report.seconds / report.tasks as f64, target_seconds(plan));
    context.printer.document(&Law { here, measured_tasks: report.tasks, paper: paper() })?;
    Ok(Exit::Ok)
}

/// T_target, which is S / C where the user does not give it; clap sees to it that one of them is there.
fn target_seconds(plan: &Plan) -> f64 {
    let from_size = plan.size.zip(plan.speed).map(|(size, speed)| size / speed);
    plan.target_seconds.or(from_size).unwrap_or(f64::NAN)
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
        let mut table = Table::new(&[
            left("system"),
            right("K"),
            right("T_dispatch"),
            right("T_target"),
            right("P_max = T_target / (K * T_dispatch)"),
        ]);
        for row in std::iter::once(&self.here).chain(&self.paper) {
            table.push(vec![
                Cell::new(&row.system),
                Cell::new(row.slots.to_string()),
                Cell::new(format!("{} us", human::count(row.dispatch_us))),
                Cell::new(human::seconds(row.target_seconds)),
                Cell::new(human::count(row.nodes_max)),
            ]);
        }
        table.render(style)
    }

    fn quiet(&self) -> String {
        format!("{:.0}", self.here.nodes_max)
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
        let plan = Plan { slots: 2, speed: Some(4e8), size: Some(8e8), target_seconds: None, tasks: 1 };
        assert_eq!(target_seconds(&plan), 2.0);
        assert_eq!(target_seconds(&Plan { speed: None, size: None, target_seconds: Some(3.0), ..plan }), 3.0);
    }

    #[test]
    fn the_law_as_a_table() {
        let law = Law { here: Row::new("here", 2, 2e-6, 8.0), measured_tasks: 200_000, paper: paper() };
        expect![[r#"
            system                K  T_dispatch    T_target  P_max = T_target / (K * T_dispatch)
            here                  2        2 us         8 s                               2.00 M
            Tianhe-1 (C2050)      1     6000 us         8 s                                 1328
            Mole 8.5 (6 x C2050)  6     6000 us         8 s                                  221
            Tianhe-2 (3 MIC)      3     6000 us  1 min 00 s                                 3333
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&law)));
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&law)), "2000000\n");
    }
}
