//! `starfarm tree`: the monitoring tree.

mod hosts;
mod posts;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use starfarm_overlay_core::plan::{self, Features, Grade, Host, Placed, Plan, Weights};
use starfarm_protocol::orders::PostKind;

use super::Context;
use crate::cli::{Strategy, Tree, TreeCommand, TreePlan};
use crate::client::Client;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Column, Table, left, right};
use crate::output::{Document, Style};
use hosts::Needs;
pub(super) use posts::{in_short, rows};

/// The front end's host in a topology file: nobody has said its name.
const FRONT: &str = "scheduler";

pub(crate) fn run(context: &mut Context, command: &Tree) -> Result<(), Failure> {
    match &command.command {
        None => posts::show(context),
        Some(TreeCommand::Plan(asked)) => {
            let hosts = match &asked.hosts {
                Some(table) => of_table(table, asked.strategy)?,
                None => of_farm(&mut context.connect()?)?,
            };
            context.printer.document(&Planned::new(asked, hosts))
        }
        Some(TreeCommand::Form(form)) => posts::form(context, form),
    }
}

/// Where CPs would stand.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Planned {
    strategy: Strategy,
    fanout: u32,
    /// Levels of CPs between the front end and the back ends.
    cp_levels: usize,
    hosts: Vec<Row>,
    /// The same tree as a topology file.
    topology: String,
    /// That is what is to be printed.
    #[serde(skip)]
    as_topology: bool,
}

/// A host of the plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Row {
    name: String,
    be: u32,
    cp: u32,
    total: u64,
    /// From 0, poor, to 3, excellent.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grade: Option<&'static str>,
}

impl Planned {
    fn new(asked: &TreePlan, hosts: Vec<Host>) -> Self {
        let strategy = match asked.strategy {
            Strategy::Average => plan::Strategy::Average,
            Strategy::Fuzzy => plan::Strategy::Fuzzy(Weights::default()),
        };
        Self::of(asked, plan::plan(hosts, &strategy, asked.fanout))
    }

    fn of(asked: &TreePlan, plan: Plan) -> Self {
        let topology = plan.topology(FRONT).to_string();
        Self {
            strategy: asked.strategy,
            fanout: asked.fanout,
            cp_levels: plan.cp_levels,
            hosts: plan.hosts.into_iter().map(Row::of).collect(),
            topology,
            as_topology: asked.topology,
        }
    }
}

/// The hosts of a table.
fn of_table(table: &Path, strategy: Strategy) -> Result<Vec<Host>, Failure> {
    let needs = match strategy {
        Strategy::Average => Needs::Names,
        Strategy::Fuzzy => Needs::Features,
    };
    let wrong = |why| Failure::usage(format!("the table of hosts {}: {why}", table.display()));
    hosts::read(&hosts::text(table, "table of hosts")?, needs).map_err(wrong)
}

/// The machines of the farm's nodes, as the farm itself plans for them.
fn of_farm(client: &mut Client) -> Result<Vec<Host>, Failure> {
    let (tree, nodes) = (client.tree()?, client.nodes()?);
    let mut hosts = BTreeMap::<&str, Host>::new();
    for post in tree.posts.iter().filter(|post| post.kind == PostKind::Be) {
        let node = nodes.iter().find(|node| Some(&node.name) == post.node.as_ref());
        let usage = node.and_then(|node| node.usage.as_ref());
        let used_cores = usage.as_ref().and_then(|usage| usage.cpu_cores).unwrap_or(0.0);
        let used_bytes = usage.as_ref().and_then(|usage| usage.memory_bytes).unwrap_or(0.0);
        let has = node.map_or((0, 0), |node| (node.cores.unwrap_or(0), node.memory_bytes.unwrap_or(0)));
        let computes = node.is_none_or(|node| node.slots > 0);
        let new = || Host {
            name: post.host.clone(),
            backends: 0,
            cps_max: u32::MAX,
            carries_only: true,
            features: Features::of_machine(has, ((used_cores * 1e6) as u64, used_bytes as u64)),
        };
        let host = hosts.entry(&post.host).or_insert_with(new);
        host.backends += 1;
        host.carries_only &= !computes;
    }
    Ok(hosts.into_values().collect())
}

impl Row {
    fn of(host: Placed) -> Self {
        Self {
            name: host.name,
            be: host.backends,
            cp: host.cps,
            total: u64::from(host.backends) + u64::from(host.cps),
            score: host.judged.map(|judged| judged.score as f64 / plan::fuzzy::WHOLE as f64),
            grade: host.judged.map(|judged| Grade::word(judged.grade)),
        }
    }
}

impl Document for Planned {
    const NAME: &'static str = "tree-plan";

    fn table(&self, style: Style) -> String {
        if self.as_topology {
            return self.topology.clone();
        }
        let mut columns: Vec<Column<Row>> = vec![
            left("host", |row| Cell::new(&row.name)),
            right("BEs", |row| Cell::new(row.be.to_string())),
            right("CPs", |row| Cell::new(row.cp.to_string())),
            right("total", |row| Cell::new(row.total.to_string())),
        ];
        if self.strategy == Strategy::Fuzzy {
            columns.push(right("score", |row| Cell::new(format!("{:.3}", row.score.unwrap_or(0.0)))));
            columns.push(left("grade", |row| Cell::new(row.grade.unwrap_or("-"))));
        }
        let sum = |of: fn(&Row) -> u32| self.hosts.iter().map(|row| u64::from(of(row))).sum::<u64>() as f64;
        let table = Table::of(&self.hosts, &columns).render(style);
        format!(
            "{table}\n{} back ends, {} CPs on {} levels below the front end, {} children each at most\n",
            human::count(sum(|row| row.be)),
            human::count(sum(|row| row.cp)),
            self.cp_levels,
            self.fanout
        )
    }

    fn quiet(&self) -> String {
        if self.as_topology {
            return self.topology.trim_end().to_owned();
        }
        let with = self.hosts.iter().filter(|row| row.cp > 0);
        with.map(|row| format!("{} {}", row.name, row.cp)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn planned(strategy: Strategy, topology: bool) -> Planned {
        let asked = TreePlan { hosts: None, strategy, fanout: 2, topology };
        let table = "host be cores idle memory link\n\
                     b 3 4 0.9 16 25\n\
                     a 2 1.5 0.5 2 1\n\
                     c 0 8 0.05 64 25\n";
        let (by, needs) = match strategy {
            Strategy::Average => (plan::Strategy::Average, Needs::Names),
            Strategy::Fuzzy => (plan::Strategy::Fuzzy(Weights::default()), Needs::Features),
        };
        Planned::of(&asked, plan::plan(hosts::read(table, needs).unwrap(), &by, asked.fanout))
    }

    #[test]
    fn a_plan_says_what_stands_on_each_host() {
        expect![[r#"
            host  BEs  CPs  total  score  grade
            a       2    2      4  1.424  fair
            b       3    3      6  3.000  excellent
            c       0    0      0  0.000  poor

            5 back ends, 5 CPs on 2 levels below the front end, 2 children each at most
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&planned(Strategy::Fuzzy, false))));
        expect![[r#"
            {
              "schema": "starfarm/tree-plan/1",
              "strategy": "average",
              "fanout": 2,
              "cp_levels": 2,
              "hosts": [
                {
                  "name": "a",
                  "be": 2,
                  "cp": 2,
                  "total": 4
                },
                {
                  "name": "b",
                  "be": 3,
                  "cp": 0,
                  "total": 3
                },
                {
                  "name": "c",
                  "be": 0,
                  "cp": 3,
                  "total": 3
                }
              ],
              "topology": "scheduler:0 => c:0 c:1 ;\nc:0 => c:2 a:1 ;\nc:1 => a:0 ;\n"
            }
        "#]]
        .assert_eq(&printed(Format::Json, |printer| printer.document(&planned(Strategy::Average, false))));
        expect![[r#"
            scheduler:0 => c:0 c:1 ;
            c:0 => c:2 a:1 ;
            c:1 => a:0 ;
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&planned(Strategy::Average, true))));
        expect![[r#"
            a 2
            c 3
        "#]]
        .assert_eq(&printed(Format::Quiet, |printer| printer.document(&planned(Strategy::Average, false))));
    }
}
