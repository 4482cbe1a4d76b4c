//! `starfarm monitor graph`: an agent's stages, edges and timers, for people, for programs and for graphviz.

use std::fmt::Write;

use starfarm_protocol::admin::{EdgeInfo, GraphInfo, GraphLosses, GraphTimer, StageInfo};

use crate::commands::Context;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Column, Table, left, right};
use crate::output::{Document, Style};

pub(super) fn show(context: &mut Context, node: &str, is_dot: bool) -> Result<(), Failure> {
    let graph = context.connect()?.graph(node)?;
    if is_dot { context.printer.text(&dot(node, &graph)) } else { context.printer.document(&graph) }
}

/// A stage as others see it: by its name, or by its number.
fn called(stages: &[StageInfo], number: u64) -> String {
    let name = stages.iter().find(|stage| stage.number == number).and_then(|stage| stage.name.clone());
    name.unwrap_or_else(|| format!("#{number}"))
}

/// Columns of a setting's value that are shown.
const VALUE_COLUMNS: usize = 40;

/// What it was told.
fn settings(stage: &StageInfo) -> String {
    let all = stage.settings.iter().filter(|(_, value)| !value.is_empty());
    let all: Vec<_> =
        all.map(|(key, value)| format!("{key}={}", human::fitted(value, VALUE_COLUMNS))).collect();
    all.join(" ")
}

struct EdgeRow {
    from: String,
    to: String,
}

struct TimerRow {
    name: String,
    period: String,
    fires_for: String,
}

impl EdgeRow {
    fn of(stages: &[StageInfo], edge: &EdgeInfo) -> Self {
        let from = format!("{}.{}", called(stages, edge.from), edge.output);
        Self { from, to: format!("{}.{}", called(stages, edge.to), edge.input) }
    }
}

impl TimerRow {
    fn of(stages: &[StageInfo], timer: &GraphTimer) -> Self {
        let names: Vec<_> = timer.subscribers.iter().map(|stage| called(stages, *stage)).collect();
        let period = timer.period_seconds.map_or("once".to_owned(), human::seconds);
        Self { name: timer.name.clone(), period, fires_for: names.join(" ") }
    }
}

const STAGES: &[Column<StageInfo>] = &[
    right("stage", |stage| Cell::new(stage.number.to_string())),
    left("name", |stage| Cell::new(stage.name.as_deref().unwrap_or("-"))),
    left("type", |stage| Cell::new(&stage.type_name)),
    left("settings", |stage| Cell::new(settings(stage))),
];
const EDGES: &[Column<EdgeRow>] =
    &[left("from", |edge| Cell::new(&edge.from)), left("to", |edge| Cell::new(&edge.to))];
const TIMERS: &[Column<TimerRow>] = &[
    left("timer", |timer| Cell::new(&timer.name)),
    right("every", |timer| Cell::new(&timer.period)),
    left("fires for", |timer| Cell::new(&timer.fires_for)),
];

impl Document for GraphInfo {
    const NAME: &'static str = "graph";

    fn table(&self, style: Style) -> String {
        let edges: Vec<_> = self.edges.iter().map(|edge| EdgeRow::of(&self.stages, edge)).collect();
        let timers: Vec<_> = self.timers.iter().map(|timer| TimerRow::of(&self.stages, timer)).collect();
        let tables = [
            Table::of(&self.stages, STAGES).render(style),
            Table::of(&edges, EDGES).render(style),
            Table::of(&timers, TIMERS).render(style),
        ];
        tables.into_iter().chain(lost(self.losses)).collect::<Vec<_>>().join("\n")
    }

    fn quiet(&self) -> String {
        self.stages.iter().map(|stage| called(&self.stages, stage.number)).collect::<Vec<_>>().join("\n")
    }
}

/// What was lost or refused, if anything was.
fn lost(losses: GraphLosses) -> Option<String> {
    let GraphLosses { not_taken, refused, left_out, too_far, cut_off } = losses;
    let all = [
        (not_taken, "values not taken"),
        (refused, "orders refused"),
        (left_out, "values left out"),
        (too_far, "messages that went too far"),
        (cut_off, "messages cut off"),
    ];
    let some: Vec<_> = all
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!some.is_empty()).then(|| format!("since the agent's start: {}\n", some.join(", ")))
}

/// The graph in graphviz's language. Timers are ellipses, and their arrows dashed.
fn dot(node: &str, graph: &GraphInfo) -> String {
    let mut out = format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(node));
    for stage in &graph.stages {
        let name = called(&graph.stages, stage.number);
        let label = if name == stage.type_name { name } else { format!("{name}\n{}", stage.type_name) };
        let _ = writeln!(out, "  s{} [label={}];", stage.number, quoted(&label));
    }
    for edge in &graph.edges {
        let (tail, head) = (quoted(&edge.output), quoted(&edge.input));
        let _ = writeln!(out, "  s{} -> s{} [taillabel={tail}, headlabel={head}];", edge.from, edge.to);
    }
    for (n, timer) in graph.timers.iter().enumerate() {
        let period = timer.period_seconds.map_or("once".to_owned(), human::seconds);
        let label = quoted(&format!("{}\n{period}", timer.name));
        let _ = writeln!(out, "  t{n} [label={label}, shape=ellipse];");
        for stage in &timer.subscribers {
            let _ = writeln!(out, "  t{n} -> s{stage} [style=dashed];");
        }
    }
    out.push_str("}\n");
    out
}

/// A string of graphviz's language; `\n` breaks a line there.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn graph() -> GraphInfo {
        let stage = |number, name: Option<&str>, type_name: &str| StageInfo {
            number,
            name: name.map(str::to_owned),
            type_name: type_name.to_owned(),
            settings: match type_name {
                "rate" => {
                    [("every", "10"), ("prepare", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
                }
                _ => [].into(),
            },
        };
        let edge = |from, to| EdgeInfo { from, output: "out".to_owned(), to, input: "a\"b".to_owned() };
        let timer = |name: &str, period_seconds, subscribers| GraphTimer {
            name: name.to_owned(),
            period_seconds,
            subscribers,
        };
        GraphInfo {
            stages: vec![
                stage(1, Some("cpuload"), "cpuload"),
                stage(4, Some("wave"), "wavebuf"),
                stage(9, None, "rate"),
            ],
            edges: vec![edge(1, 4), edge(4, 9)],
            timers: vec![timer("gather-3", None, vec![9]), timer("period", Some(1.0), vec![1, 4])],
            losses: GraphLosses { not_taken: 3, cut_off: 1, ..GraphLosses::default() },
        }
    }

    #[test]
    fn a_graph_is_three_tables() {
        let text = printed(Format::Table, |printer| printer.document(&graph()));
        expect![[r#"
            stage  name     type     settings
                1  cpuload  cpuload
                4  wave     wavebuf
                9  -        rate     every=10

            from         to
            cpuload.out  wave.a"b
            wave.out     #9.a"b

            timer     every  fires for
            gather-3   once  #9
            period      1 s  cpuload wave

            since the agent's start: 3 values not taken, 1 messages cut off
        "#]]
        .assert_eq(&text);
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&graph())), "cpuload\nwave\n#9\n");
    }

    #[test]
    fn a_graph_is_drawn_by_graphviz() {
        expect![[r##"
            digraph "a\"b" {
              rankdir=LR;
              node [shape=box];
              s1 [label="cpuload"];
              s4 [label="wave\nwavebuf"];
              s9 [label="#9\nrate"];
              s1 -> s4 [taillabel="out", headlabel="a\"b"];
              s4 -> s9 [taillabel="out", headlabel="a\"b"];
              t0 [label="gather-3\nonce", shape=ellipse];
              t0 -> s9 [style=dashed];
              t1 [label="period\n1 s", shape=ellipse];
              t1 -> s1 [style=dashed];
              t1 -> s4 [style=dashed];
            }
        "##]]
        .assert_eq(&dot("a\"b", &graph()));
    }
}
