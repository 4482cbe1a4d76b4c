//! The stage `alarm`: what comes to it somebody must know. It takes what `health` says, and what `threshold` does.

use std::cell::RefCell;
use std::rc::Rc;

use starfarm_agent_core::alarms::Seen;
use starfarm_agent_core::{Context, Hook, Side, Stage, Triples, ValueId, Word, ids};
use starfarm_protocol::link::AlarmLevel;

/// What is seen, on its way to whoever should know it.
pub(crate) type Seeing = Rc<RefCell<Vec<Seen>>>;

/// A stage with any number of inputs and no output.
///
/// | setting | means |
/// | --- | --- |
/// | `level = warning` or `critical` | how bad it is when a figure is beyond the level of a `threshold`; warning at first |
/// | `text = WORDS` | what is wrong then, for a person; the figure's name at first |
pub(crate) struct Raise {
    seeing: Seeing,
    /// The node is to get no more tasks when it is critical.
    drains: bool,
    level: AlarmLevel,
    text: Option<String>,
}

impl Raise {
    pub(crate) fn new(seeing: Seeing, drains: bool) -> Self {
        Self { seeing, drains, level: AlarmLevel::Warning, text: None }
    }

    fn see(&self, sensor: &str, level: Option<AlarmLevel>, value: Option<f64>, text: &str) {
        let drains = self.drains && level == Some(AlarmLevel::Critical);
        let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        let (sensor, text) = (plain(sensor), plain(text));
        self.seeing.borrow_mut().push(Seen { sensor, level, value, text, drains });
    }

    /// A figure is beyond its level, or is so no more.
    fn on_threshold(&self, metric: u64, is_raised: bool, values: Triples<'_>) {
        let name = u32::try_from(metric).ok().and_then(|id| ids::name(ValueId(id)));
        let name = name.map_or_else(|| metric.to_string(), str::to_owned);
        let about = |id| values.find(id).and_then(|triple| triple.number());
        let sensor = about(ids::JOB).map_or_else(|| name.clone(), |job| format!("{name}-job-{job}"));
        let value = u32::try_from(metric).ok().and_then(|id| about(ValueId(id)));
        let text = self.text.clone().unwrap_or_else(|| format!("{name} is beyond its level"));
        self.see(&sensor, is_raised.then_some(self.level), value.map(|value| value as f64), &text);
    }
}

fn text<'a>(values: Triples<'a>, id: ValueId) -> Option<&'a str> {
    values.find(id).and_then(|triple| std::str::from_utf8(triple.value).ok())
}

impl Stage for Raise {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => Ok(()),
            Side::Output => Err("`alarm` has no output: what it hears leaves the agent".into()),
        }
    }

    fn data(&mut self, _: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let number = |id| values.find(id).and_then(|triple| triple.number());
        if let Some(sensor) = text(values, ids::SENSOR) {
            let level = number(ids::ALARM_LEVEL).and_then(|level| u8::try_from(level).ok());
            let level = level.and_then(AlarmLevel::from_number);
            let value = number(ids::ALARM_VALUE).map(f64::from_bits);
            self.see(sensor, level, value, text(values, ids::ALARM_TEXT).unwrap_or_default());
        } else if let Some(metric) = number(ids::ALARM_RAISED) {
            self.on_threshold(metric, true, values);
        } else if let Some(metric) = number(ids::ALARM_CLEARED) {
            self.on_threshold(metric, false, values);
        } else {
            context.not_taken(1);
        }
    }

    fn told(&mut self, word: &Word, _: &mut Context<'_>) -> Result<(), String> {
        let Word::Set { key, value } = word else { return Ok(()) };
        match key.as_str() {
            "level" => {
                let none = || format!("`level` is `warning` or `critical`, not `{value}`");
                self.level = AlarmLevel::from_word(value).ok_or_else(none)?;
            }
            "text" => self.text = Some(value.clone()),
            _ => return Err(format!("`alarm` has no setting `{key}`, but `level` and `text`")),
        }
        Ok(())
    }
}
