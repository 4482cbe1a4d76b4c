//! `starfarm log replay --at`: the farm's state at a moment.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use starfarm_events::{Form, NodeInfo};
use starfarm_logs::replay::State;
use starfarm_logs::{Utc, json_object};

use crate::commands::nodes;
use crate::human;
use crate::output::table::{Cell, Table, facts, left, name, right};
use crate::output::{Document, Style};

pub(super) struct At<'a>(pub(super) &'a State);

impl Document for At<'_> {
    const NAME: &'static str = "log-state";

    fn table(&self, style: Style) -> String {
        let state = self.0;
        let mut text = facts(&figures(state), style);
        for table in [job_table(state), node_table(state), held_table(state)] {
            if !table.is_empty() {
                text.push('\n');
                text.push_str(&table.render(style));
            }
        }
        text
    }
}

fn figures(state: &State) -> Vec<(&'static str, Cell)> {
    let sample = &state.sample;
    let number = |count: u64| Cell::new(human::count(count as f64));
    let ago = |us: u64| human::seconds(state.at_us.saturating_sub(us) as f64 / 1e6);
    let snapshot = match state.snapshot_us {
        Some(us) => format!("{}, {} before", Utc(us), ago(us)),
        None => "none before that moment".to_owned(),
    };
    vec![
        ("farm", Cell::new(&state.farm)),
        ("at", Cell::new(Utc(state.at_us).to_string())),
        ("epoch", Cell::new(state.epoch.to_string())),
        ("snapshot", Cell::new(snapshot)),
        ("figures of", Cell::new(format!("{}, {} before", Utc(state.sample_us), ago(state.sample_us)))),
        ("jobs unfinished (jq)", number(sample.jq)),
        ("tasks waiting (gq)", number(sample.gq)),
        ("tasks at nodes (dq)", number(sample.dq)),
        ("  oldest", Cell::new(human::seconds(sample.dq_oldest_us as f64 / 1e6))),
        ("nodes up", Cell::new(format!("{} of {}", sample.nodes_up, sample.nodes))),
        ("slots", number(sample.slots)),
        ("tasks resent", number(sample.resent)),
        ("offers repeated", number(sample.offers_repeated)),
        ("speed-ups", number(sample.speed_ups)),
        ("slow-downs", number(sample.slow_downs)),
        (
            "mean speed (power)",
            Cell::new(format!("{} standard tasks a period", human::count(sample.power_mean))),
        ),
        ("results counted", number(sample.results_counted)),
        ("  duplicate", number(sample.results_duplicate)),
    ]
}

fn job_table(state: &State) -> Table {
    Table::of(
        state.jobs.values(),
        &[
            right("job", |job| Cell::new(job.id.0.to_string())),
            name("name", |job| Cell::new(&job.name)),
            left("state", |job| Cell::state(job.state.word())),
            right("units", |job| Cell::new(human::units(job.units_total))),
            right("done", |job| Cell::new(human::units(job.units_done))),
            right("failed", |job| Cell::new(human::units(job.units_failed))),
            right("out", |job| Cell::new(human::units(job.units_out))),
            right("pending", |job| Cell::new(human::units(job.units_pending))),
            right("abandoned", |job| Cell::new(human::units(job.units_abandoned))),
            right("hits", |job| Cell::new(job.hits.to_string())),
        ],
    )
}

fn node_table(state: &State) -> Table {
    let nodes: Vec<(&NodeInfo, bool)> = state.nodes.values().map(|node| (node, state.away)).collect();
    Table::of(
        &nodes,
        &[
            name("node", |(node, _)| Cell::new(&node.name)),
            left("state", |(node, away)| Cell::state(if *away { "unknown" } else { State::word(node) })),
            left("idle", |(node, _)| Cell::new(node.idle.map_or("-", |reason| reason.word()))),
            right("slots", |(node, _)| Cell::new(node.slots.to_string())),
            right("speed", |(node, _)| Cell::new(human::count(node.power))),
            right("tasks", |(node, _)| Cell::new(node.tasks.to_string())),
            right("queued", |(node, _)| Cell::new(node.tasks_queued.to_string())),
            right("load", |(node, _)| Cell::new(nodes::load(node))),
            right("done", |(node, _)| Cell::new(human::count(node.tasks_done as f64))),
            right("units", |(node, _)| Cell::new(human::units(node.units_done))),
        ],
    )
}

fn held_table(state: &State) -> Table {
    let held: Vec<_> =
        state.held.iter().map(|held| (held, state.at_us.saturating_sub(held.since_us))).collect();
    Table::of(
        &held,
        &[
            left("held by", |(held, _)| Cell::new(held.node.as_deref().unwrap_or("nobody yet"))),
            right("job", |(held, _)| Cell::new(held.job.0.to_string())),
            right("from unit", |(held, _)| Cell::new(held.lo.to_string())),
            right("to unit", |(held, _)| Cell::new(held.hi.to_string())),
            right("tasks at least", |(held, _)| Cell::new(held.tasks.to_string())),
            right("offered", |(held, _)| Cell::new(held.offered.to_string())),
            right("oldest", |(_, age_us)| Cell::new(human::seconds(*age_us as f64 / 1e6))),
        ],
    )
}

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("farm", &state.farm)?;
        map.serialize_entry("at", &Utc(state.at_us))?;
        map.serialize_entry("epoch", &state.epoch)?;
        map.serialize_entry("snapshot", &state.snapshot_us.map(Utc))?;
        map.serialize_entry("figures_of", &Utc(state.sample_us))?;
        map.serialize_entry("complete", &!state.partial)?;
        map.serialize_entry("scheduler_away", &state.away)?;
        map.serialize_entry("figures", &json_object(&state.sample))?;
        map.serialize_entry("jobs", &all(state.jobs.values()))?;
        map.serialize_entry("nodes", &nodes(state))?;
        map.serialize_entry("held", &all(state.held.iter()))?;
        map.end()
    }
}

fn all<'a, F: Form + 'a>(forms: impl Iterator<Item = &'a F>) -> Vec<Map<String, Value>> {
    forms.map(|form| json_object(form)).collect()
}

/// As in the log, but that who said goodbye is gone.
fn nodes(state: &State) -> Vec<Map<String, Value>> {
    let fields = |node: &NodeInfo| {
        let mut fields = json_object(node);
        fields.insert("state".to_owned(), State::word(node).into());
        fields
    };
    state.nodes.values().map(fields).collect()
}
