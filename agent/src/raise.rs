//! The stage `alarm`: what comes to it somebody must know. It takes what `health` says, and what `threshold` does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use starfarm_agent_core::alarms::Seen;
use starfarm_agent_core::named::Named;
use starfarm_agent_core::{Context, Hook, Side, Stage, Triples, ValueId, Word, ids};
use starfarm_protocol::link::{AlarmLevel, SENSOR_BYTES_MAX};

/// What is seen, on its way to whoever should know it.
pub(crate) type Seeing = Rc<RefCell<Vec<Seen>>>;

/// A stage with any number of inputs and no output. An alarm of a `threshold` has the name of the input that it came by, and of its figure
/// and job: so two of one figure are two where their inputs are, and none is one of `health`. It ends with the input's last edge.
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
    /// Names of the inputs that have edges, and the alarms that stand by each.
    inputs: BTreeMap<usize, (String, Standing)>,
}

/// Alarms that stand, by figure and job.
type Standing = BTreeMap<(u64, Option<u64>), String>;

/// The input that most edges lead to, and what its alarms are named after.
const INPUT: (&str, &str) = ("in", "threshold");

impl Raise {
    pub(crate) fn new(seeing: Seeing, drains: bool) -> Self {
        Self { seeing, drains, level: AlarmLevel::Warning, text: None, inputs: BTreeMap::new() }
    }

    fn see(&self, sensor: &str, level: Option<AlarmLevel>, value: Option<f64>, text: &str) {
        let drains = self.drains && level == Some(AlarmLevel::Critical);
        let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
        let (sensor, text) = (plain(sensor), plain(text));
        self.seeing.borrow_mut().push(Seen { sensor, level, value, text, drains });
    }

    /// A figure is beyond its level, or is so no more.
    fn on_threshold(&mut self, input: usize, metric: u64, is_raised: bool, values: Triples<'_>) {
        let about = |id| values.find(id).and_then(|triple| triple.number());
        let id = ValueId(u32::try_from(metric).unwrap_or(0));
        let (figure, job) = (values.find(id), about(ids::JOB));
        let named = figure.and_then(|figure| Named::read(&figure));
        let name = ids::name(id).or(named.as_ref().map(|named| named.name));
        let name = name.map_or_else(|| metric.to_string(), str::to_owned);
        let (input, stand) = self.inputs.get_mut(&input).expect("values come by an edge");
        let sensor = if is_raised {
            let of_job = job.map(|job| format!("-job-{job}")).unwrap_or_default();
            let mut sensor = format!("{input}-{name}{of_job}");
            sensor.truncate(sensor.floor_char_boundary(SENSOR_BYTES_MAX));
            stand.insert((metric, job), sensor.clone());
            sensor
        } else {
            // What was not raised is not there to end. A figure that is not heard of any more is told without its name.
            let Some(sensor) = stand.remove(&(metric, job)) else { return };
            sensor
        };
        let number = || figure.and_then(|figure| figure.number()).map(|number| number as f64);
        let value = named.map_or_else(number, |named| Some(named.amount.max));
        let text = self.text.clone().unwrap_or_else(|| format!("{name} is beyond its level"));
        self.see(&sensor, is_raised.then_some(self.level), value, &text);
    }
}

fn text<'a>(values: Triples<'a>, id: ValueId) -> Option<&'a str> {
    values.find(id).and_then(|triple| std::str::from_utf8(triple.value).ok())
}

impl Stage for Raise {
    fn edge_made(&mut self, hook: Hook<'_>) -> Result<(), String> {
        match hook.side {
            Side::Input => {
                let name = if hook.name == INPUT.0 { INPUT.1 } else { hook.name };
                self.inputs.insert(hook.port, (name.to_owned(), Standing::new()));
                Ok(())
            }
            Side::Output => Err("`alarm` has no output: what it hears leaves the agent".into()),
        }
    }

    fn edge_gone(&mut self, hook: Hook<'_>) {
        let (_, stand) = self.inputs.remove(&hook.port).unwrap_or_default();
        stand.values().for_each(|sensor| self.see(sensor, None, None, "nobody looks at it any more"));
    }

    fn data(&mut self, input: usize, values: Triples<'_>, context: &mut Context<'_>) {
        let number = |id| values.find(id).and_then(|triple| triple.number());
        if let Some(sensor) = text(values, ids::SENSOR) {
            let level = number(ids::ALARM_LEVEL).and_then(|level| u8::try_from(level).ok());
            let level = level.and_then(AlarmLevel::from_number);
            let value = number(ids::ALARM_VALUE).map(f64::from_bits);
            self.see(sensor, level, value, text(values, ids::ALARM_TEXT).unwrap_or_default());
        } else if let Some(metric) = number(ids::ALARM_RAISED) {
            self.on_threshold(input, metric, true, values);
        } else if let Some(metric) = number(ids::ALARM_CLEARED) {
            self.on_threshold(input, metric, false, values);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_agent_core::{Order, PURE, Runtime, Who};

    use super::*;

    /// Tells what it is told as a threshold would.
    struct Teller;

    impl Stage for Teller {
        fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
            Ok(())
        }

        fn told(&mut self, word: &Word, context: &mut Context<'_>) -> Result<(), String> {
            let Word::Set { key, .. } = word else { return Ok(()) };
            let id = if key == "raised" { ids::ALARM_RAISED } else { ids::ALARM_CLEARED };
            context.emit(0, |message| {
                message.put_number(id, 2);
                message.put_number(ValueId(2), 95);
            });
            Ok(())
        }
    }

    fn link(runtime: &mut Runtime, from: &str, input: &str) {
        let link = Order::Link((from.into(), "out".to_owned()), ("alarm".into(), input.to_owned()));
        runtime.order(link, 0).unwrap();
    }

    #[test]
    fn alarms_of_thresholds_are_apart_by_input_and_end_with_their_edges() {
        let (seeing, mut runtime) = (Seeing::default(), Runtime::new(&PURE));
        runtime.add("alarm", Box::new(Raise::new(Rc::clone(&seeing), false)), Some("alarm")).unwrap();
        let long = "x".repeat(64);
        for (name, input) in [("one", "in"), ("other", "worse"), ("third", &long)] {
            runtime.add("teller", Box::new(Teller), Some(name)).unwrap();
            link(&mut runtime, name, input);
        }
        let seen = || -> Vec<String> {
            let seen = std::mem::take(&mut *seeing.borrow_mut());
            seen.into_iter().map(|of| format!("{} {}", of.sensor, of.level.is_some())).collect()
        };
        let mut tell = |who: &str, key: &str| {
            let word = Word::Set { key: key.to_owned(), value: String::new() };
            runtime.order(Order::Tell(Who::from(who), word), 0).unwrap();
            seen()
        };
        assert_eq!(tell("one", "raised"), ["threshold-memory true"]);
        assert_eq!(tell("other", "raised"), ["worse-memory true"]);
        assert_eq!(tell("third", "raised"), [format!("{long} true")]);
        assert_eq!(tell("one", "cleared"), ["threshold-memory false"]);
        for (who, ended) in [("one", vec![]), ("other", vec!["worse-memory false".to_owned()])] {
            runtime.order(Order::End(Who::from(who)), 0).unwrap();
            assert_eq!(seen(), ended);
        }
        // Another one at the same place has nothing of it.
        runtime.add("teller", Box::new(Teller), Some("other")).unwrap();
        link(&mut runtime, "other", "worse");
        runtime.order(Order::End(Who::from("other")), 0).unwrap();
        assert_eq!(seen(), [] as [&str; 0]);
    }
}
