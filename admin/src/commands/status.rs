//! `starfarm status`: the paper's online figures.

mod labelled;

use starfarm_protocol::admin::{NodeInfo, StatusInfo};
use starfarm_protocol::settings::SETTINGS;

use super::{Context, nodes, selection};
use crate::cli::Status;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Column, Table, facts, left, name, right};
use crate::output::{Document, Style};

/// The farm's figures, or with labels those of the jobs that have them.
pub(crate) fn run(context: &mut Context, wanted: &Status) -> Result<(), Failure> {
    if !wanted.label.is_empty() {
        let jobs = selection::labelled(&mut context.connect_or_look()?, &wanted.label)?;
        return context.printer.document(&labelled::Labelled::new(&wanted.label, &jobs));
    }
    let mut status = context.connect()?.status()?;
    nodes::sort(&mut status.nodes);
    context.printer.document(&status)
}

impl Document for StatusInfo {
    const NAME: &'static str = "status";

    fn table(&self, style: Style) -> String {
        let mut text = facts(&figures(self), style);
        if !self.nodes.is_empty() {
            text.push('\n');
            text.push_str(&Table::of(&self.nodes, &NODES).render(style));
        }
        for note in &self.notes {
            text.push_str(&format!("note: {}\n", human::printable(note)));
        }
        text
    }
}

fn figures(status: &StatusInfo) -> Vec<(&'static str, Cell)> {
    let number = |count: u64| Cell::new(human::count(count as f64));
    let mut figures = vec![
        ("farm", Cell::new(&status.farm)),
        ("epoch", Cell::new(status.epoch.to_string())),
        ("up", Cell::new(human::seconds(status.up_seconds))),
        ("jobs unfinished (jq)", number(status.jq)),
        ("  of them waiting", number(status.jobs_waiting)),
        ("tasks waiting (gq)", number(status.gq)),
        ("tasks at nodes (dq)", number(status.dq)),
        ("  oldest", Cell::new(human::seconds(status.dq_oldest_seconds))),
        ("tasks resent", number(status.resent)),
        ("offers repeated", number(status.offers_repeated)),
        ("granularity", Cell::new(human::seconds_if_known(status.granularity_seconds))),
        ("tasks cut", number(status.tasks_decomposed)),
        ("  mean units", Cell::new(human::count(status.task_units_mean))),
        ("speed-ups", Cell::new(format!("{} in the last period", human::count(status.speed_ups as f64)))),
        ("slow-downs", Cell::new(format!("{} in the last period", human::count(status.slow_downs as f64)))),
        (
            "mean speed (power)",
            Cell::new(format!("{} standard tasks a period", human::count(status.power_mean))),
        ),
        ("results counted", number(status.results_counted)),
        ("  duplicate", number(status.results_duplicate)),
        ("datagrams dropped", number(status.datagrams_dropped)),
        ("  refused", number(status.datagrams_refused)),
        ("messages malformed", number(status.messages_malformed)),
        ("datagrams in", traffic(status, status.network.datagrams_in, status.network.bytes_in)),
        ("  out", traffic(status, status.network.datagrams_out, status.network.bytes_out)),
        ("stored", Cell::new(stored(status))),
        ("log events dropped", number(status.log_events_dropped)),
        ("  lines on stderr", number(status.stderr_lines_dropped)),
    ];
    if let Some(tree) = &status.tree {
        let words = format!("{}, {} posts on {} levels", tree.state.word(), tree.posts, tree.depth + 1);
        figures.push(("monitoring tree", Cell::new(words)));
        let alarms = match status.alarms.len() {
            0 => Cell::new("none"),
            count => Cell { text: format!("{count}: see `starfarm monitor alarms`"), ..Cell::state("lost") },
        };
        figures.push(("alarms", alarms));
    }
    // By the keys that `config.toml` has.
    figures.extend(SETTINGS.iter().filter_map(|setting| {
        let value = status.settings.get(setting.key)?;
        Some((setting.key, Cell::new(value.to_string())))
    }));
    figures
}

/// What jobs store, and how much they may.
fn stored(status: &StatusInfo) -> String {
    let bytes = human::memory(status.stored_bytes);
    match status.storage_limit {
        None => bytes,
        Some(limit) => format!("{bytes} of {}", human::memory(limit)),
    }
}

/// Since the start, and as a share of what the paper's link carries.
fn traffic(status: &StatusInfo, datagrams: u64, bytes: u64) -> Cell {
    let load = bytes as f64 * 8.0 / 1e9 / status.up_seconds.max(1.0) * 100.0;
    let [datagrams, bytes] = [datagrams, bytes].map(|number| human::count(number as f64));
    Cell::new(format!("{datagrams}, {bytes} bytes: {load:.3} % of 1 Gbit/s"))
}

const NODES: [Column<NodeInfo>; 6] = [
    name("node", |node| Cell::new(&node.name)),
    left("state", nodes::state),
    right("speed", |node| Cell::new(human::count(node.power))),
    right("tasks", |node| Cell::new(human::count(node.tasks as f64))),
    right("speed-ups", |node| Cell::new(human::count(node.speed_ups as f64))),
    right("slow-downs", |node| Cell::new(human::count(node.slow_downs as f64))),
];

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::NetworkInfo;

    use super::*;
    use crate::commands::nodes::testing::node;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn status() -> StatusInfo {
        StatusInfo {
            farm: "0123456789abcdef0123456789abcdef".into(),
            epoch: 3,
            tree: None,
            alarms: Vec::new(),
            up_seconds: 7_620.0,
            gq: 12,
            dq: 34,
            jq: 1,
            jobs_waiting: 0,
            resent: 5,
            offers_repeated: 6,
            dq_oldest_seconds: 8.5,
            granularity_seconds: Some(8.0),
            tasks_decomposed: 1_234_567,
            task_units_mean: 4.2e9,
            speed_ups: 7,
            slow_downs: 8,
            power_mean: 2.5,
            results_counted: 9,
            results_duplicate: 1,
            datagrams_dropped: 0,
            network: NetworkInfo {
                datagrams_in: 1_200,
                bytes_in: 540_000_000,
                datagrams_out: 1_100,
                bytes_out: 9_000,
            },
            log_events_dropped: 0,
            stored_bytes: 0,
            storage_limit: None,
            stderr_lines_dropped: 0,
            datagrams_refused: 2,
            messages_malformed: 3,
            settings: [("speed_step".to_owned(), 1.0), ("heartbeat_seconds".to_owned(), 0.5)].into(),
            notes: vec!["jobs were lost\u{7}".into()],
            nodes: vec![node("a"), node("b")],
        }
    }

    #[test]
    fn the_figures_for_a_person() {
        expect![[r#"
            farm                  0123456789abcdef0123456789abcdef
            epoch                 3
            up                    2 h 07 min
            jobs unfinished (jq)  1
              of them waiting     0
            tasks waiting (gq)    12
            tasks at nodes (dq)   34
              oldest              8.5 s
            tasks resent          5
            offers repeated       6
            granularity           8 s
            tasks cut             1.23 M
              mean units          4.20 G
            speed-ups             7 in the last period
            slow-downs            8 in the last period
            mean speed (power)    2.5 standard tasks a period
            results counted       9
              duplicate           1
            datagrams dropped     0
              refused             2
            messages malformed    3
            datagrams in          1200, 540 M bytes: 0.057 % of 1 Gbit/s
              out                 1100, 9000 bytes: 0.000 % of 1 Gbit/s
            stored                0 B
            log events dropped    0
              lines on stderr     0
            speed_step            1
            heartbeat_seconds     0.5

            node  state  speed  tasks  speed-ups  slow-downs
            a     up       2.5      3          7           1
            b     up       2.5      3          7           1
            note: jobs were lost\u{7}
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&status())));
        assert_eq!(printed(Format::Quiet, |printer| printer.document(&status())), "");
    }

    #[test]
    fn the_keys_of_the_contract_stand_at_the_top() {
        let text = printed(Format::Json, |printer| printer.document(&status()));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, value) in [("gq", 12), ("dq", 34), ("jq", 1), ("resent", 5), ("epoch", 3)] {
            assert_eq!(json[key], value);
        }
        assert_eq!(json["schema"], "starfarm/status/1");
    }
}
