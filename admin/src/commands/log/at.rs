//! `starfarm log replay --at`: the farm's state at a moment.

use serde::ser::{Serialize, SerializeMap, Serializer};
use starfarm_events::{Form, Node};
use starfarm_logs::Utc;
use starfarm_logs::replay::State;

use crate::human;
use crate::output::table::{Cell, Table, facts, left, name, right};
use crate::output::{Document, Style};

/// The farm at a moment.
pub(super) struct At<'a>(pub(super) &'a State);

impl Document for At<'_> {
    const NAME: &'static str = "log-state";

    fn table(&self, style: Style) -> String {
        let state = self.0;
        let mut text = facts(&figures(state), style);
        for table in [job_table(state), node_table(state), held_table(state)].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(style));
        }
        text
    }

    /// A script wants JSON here.
    fn quiet(&self) -> String {
        String::new()
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

fn job_table(state: &State) -> Option<Table> {
    let mut table = Table::new(&[
        right("job"),
        name("name"),
        left("state"),
        right("units"),
        right("done"),
        right("failed"),
        right("out"),
        right("pending"),
        right("abandoned"),
        right("hits"),
    ]);
    let units = |units: u128| Cell::new(human::count(units as f64));
    for job in state.jobs.values() {
        table.push(vec![
            Cell::new(job.job.0.to_string()),
            Cell::new(&job.name),
            Cell::state(&job.state),
            units(job.units),
            units(job.done),
            units(job.failed),
            units(job.out),
            units(job.pending),
            units(job.abandoned),
            Cell::new(job.hits.to_string()),
        ]);
    }
    (!state.jobs.is_empty()).then_some(table)
}

fn node_table(state: &State) -> Option<Table> {
    let mut table = Table::new(&[
        name("node"),
        left("state"),
        left("idle"),
        right("slots"),
        right("speed"),
        right("tasks"),
        right("queued"),
        right("load"),
        right("done"),
        right("units"),
    ]);
    for node in state.nodes.values() {
        table.push(vec![
            Cell::new(&node.node),
            Cell::state(if state.away { "unknown" } else { State::word(node) }),
            Cell::new(node.idle.map_or("-", |reason| reason.word())),
            Cell::new(node.slots.to_string()),
            Cell::new(human::count(node.power)),
            Cell::new(node.tasks.to_string()),
            Cell::new(node.queued.to_string()),
            Cell::new(load(&node.load)),
            Cell::new(human::count(node.tasks_done as f64)),
            Cell::new(human::count(node.units_done as f64)),
        ]);
    }
    (!state.nodes.is_empty()).then_some(table)
}

/// Mean load of all slots; each is told in thousandths.
fn load(slots: &[u64]) -> String {
    if slots.is_empty() {
        return "-".to_owned();
    }
    let sum: f64 = slots.iter().map(|load| *load as f64).sum();
    format!("{:.0} %", sum / slots.len() as f64 / 10.0)
}

fn held_table(state: &State) -> Option<Table> {
    let mut table = Table::new(&[
        left("held by"),
        right("job"),
        right("from unit"),
        right("to unit"),
        right("tasks at least"),
        right("offered"),
        right("oldest"),
    ]);
    for held in &state.held {
        let age_us = state.at_us.saturating_sub(held.since_us);
        table.push(vec![
            Cell::new(held.node.as_deref().unwrap_or("nobody yet")),
            Cell::new(held.job.0.to_string()),
            Cell::new(held.lo.to_string()),
            Cell::new(held.hi.to_string()),
            Cell::new(held.tasks.to_string()),
            Cell::new(held.offered.to_string()),
            Cell::new(human::seconds(age_us as f64 / 1e6)),
        ]);
    }
    (!state.held.is_empty()).then_some(table)
}

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("farm", &state.farm)?;
        map.serialize_entry("at", &Utc(state.at_us).to_string())?;
        map.serialize_entry("epoch", &state.epoch)?;
        map.serialize_entry("snapshot", &state.snapshot_us.map(|us| Utc(us).to_string()))?;
        map.serialize_entry("figures_of", &Utc(state.sample_us).to_string())?;
        map.serialize_entry("complete", &!state.partial)?;
        map.serialize_entry("scheduler_away", &state.away)?;
        map.serialize_entry("figures", &Fields(&state.sample))?;
        map.serialize_entry("jobs", &all(state.jobs.values()))?;
        map.serialize_entry("nodes", &nodes(state))?;
        map.serialize_entry("held", &all(state.held.iter()))?;
        map.end()
    }
}

fn all<'a, F: Form + 'a>(forms: impl Iterator<Item = &'a F>) -> Vec<Fields<'a>> {
    forms.map(|form| Fields(form)).collect()
}

/// As in the log, but that who said goodbye is gone.
fn nodes(state: &State) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let fields = |node: &Node| {
        let mut fields = starfarm_logs::json_object(node);
        fields.insert("state".to_owned(), State::word(node).into());
        fields
    };
    state.nodes.values().map(fields).collect()
}

/// The fields of a form, named as in the log.
struct Fields<'a>(&'a dyn Form);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        starfarm_logs::json_object(self.0).serialize(serializer)
    }
}
