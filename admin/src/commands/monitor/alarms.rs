//! Alarms that stand, for people and programs.

use starfarm_protocol::admin::{AlarmInfo, AlarmPath, AlarmsInfo};
use starfarm_protocol::link::AlarmLevel;

use crate::human;
use crate::output::table::{Cell, Column, Table, left, right};
use crate::output::{Document, Style};

const COLUMNS: &[Column<AlarmInfo>] = &[
    left("level", level),
    left("node", |alarm| Cell::new(&alarm.node)),
    left("sensor", |alarm| Cell::new(&alarm.sensor)),
    right("since", |alarm| Cell::new(human::seconds(alarm.since_seconds))),
    right("paths", |alarm| Cell::new(alarm.paths.to_string())),
    left("program", |alarm| Cell::new(if alarm.reacted { "run" } else { "-" })),
    left("what", |alarm| Cell::new(human::printable(&alarm.text))),
];

fn level(alarm: &AlarmInfo) -> Cell {
    let state = match alarm.level {
        AlarmLevel::Warning => "suspect",
        AlarmLevel::Critical => "lost",
    };
    Cell { text: alarm.level.word().to_owned(), ..Cell::state(state) }
}

impl Document for AlarmsInfo {
    const NAME: &'static str = "alarms";

    fn table(&self, style: Style) -> String {
        let path = match self.path {
            AlarmPath::Single => "alarms have one way, through the scheduler",
            AlarmPath::Double => "alarms have two ways",
        };
        let reacts = self.reacts.as_ref().map_or_else(
            || "no node has a program for them: see `starfarm worker --on-alarm`".to_owned(),
            |node| format!("the program of {node} runs for each"),
        );
        let all = match &self.alarms[..] {
            [] => "no alarm stands\n".to_owned(),
            alarms => Table::of(alarms, COLUMNS).render(style),
        };
        format!("{all}{path}; {reacts}\n")
    }

    fn quiet(&self) -> String {
        self.alarms.iter().map(|alarm| format!("{}\n", alarm.id)).collect()
    }
}
