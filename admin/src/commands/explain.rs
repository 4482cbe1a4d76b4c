//! `starfarm job explain` and `starfarm node explain`: the scheduler's reasons, in sentences.

mod job;
mod node;
mod said;
mod words;

use starfarm_protocol::admin::{SizeInfo, Subject};
use starfarm_protocol::units::Units;

use super::Context;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Column, Table, facts, left, name, paragraph, right};
use crate::output::{Document, Style};
pub(crate) use job::jobs_in_words;
pub(crate) use said::Said;

pub(crate) fn run(context: &mut Context, subject: Subject) -> Result<(), Failure> {
    let mut client = context.connect()?;
    let mut said = Said::from(client.explain(subject.clone())?);
    match subject {
        // It may have been deleted in between.
        Subject::Job(id) => {
            said = client.job(id).map_or(said.clone(), |job| said.and_uses(&job));
            said = client.alarms().map_or(said.clone(), |known| said.and_alarms_of_all(&known.alarms));
        }
        // A farm may have no monitor.
        Subject::Node(name) => {
            said = client.alarms().map_or(said.clone(), |known| said.and_alarms(&name, &known.alarms));
        }
    }
    context.printer.document(&said)
}

impl Document for Said {
    const NAME: &'static str = "explanation";

    fn table(&self, style: Style) -> String {
        let mut text = paragraph("", &human::printable(&self.verdict), style);
        for reason in &self.reasons {
            text.push_str(&paragraph("- ", &human::printable(&reason.text), style));
        }
        if !self.sizes.is_empty() {
            text.push_str("\nsize of the next task, in units:\n");
            text.push_str(&Table::of(&self.sizes, &SIZES).render(style));
        }
        let pairs: Vec<(&str, Cell)> =
            self.facts.iter().map(|fact| (fact.name.as_str(), Cell::new(&fact.value))).collect();
        text.push('\n');
        text.push_str(&facts(&pairs, style));
        text
    }

    fn quiet(&self) -> String {
        human::printable(&self.verdict)
    }
}

/// The columns of sizes; the first [`SIZES_NARROW`] of them tell by themselves what was decided, and by which rule.
pub(crate) const SIZES: [Column<SizeInfo>; 11] = [
    right("job", |size| Cell::new(size.job.0.to_string())),
    name("node", |size| Cell::new(seat(size))),
    right("size", |size| Cell::new(human::units(size.units))),
    left("decided by", |size| Cell::new(size.rule.word())),
    right("units/s", |size| Cell::new(human::count(size.units_per_s))),
    left("measured", |size| Cell::new(measured(size))),
    right("target", target),
    right("makes", |size| if_any(size.target_units)),
    right("growth allows", |size| if_any(size.growth_units_max)),
    right("end allows", |size| if_any(size.tail_units_max)),
    right("whole up to", |size| Cell::new(human::units(size.units_max))),
];
pub(crate) const SIZES_NARROW: usize = 6;

/// The node, and the devices there that it is for.
fn seat(size: &SizeInfo) -> String {
    let device = size.device.as_ref().map_or_else(String::new, |device| format!(", {device}"));
    format!("{}{device}", size.node)
}

fn measured(size: &SizeInfo) -> &'static str {
    match size.measured {
        _ if size.units_per_s == 0.0 => "nowhere",
        true => "here",
        false => "elsewhere",
    }
}

/// What a task should take, and whether that is for what starting takes.
fn target(size: &SizeInfo) -> Cell {
    let seconds = human::seconds_if_known(size.target_seconds);
    let is_for_start =
        size.start_seconds.zip(size.target_seconds).is_some_and(|(start, all)| all < 4.001 * start);
    Cell::new(if is_for_start { format!("{seconds}, 4 starts") } else { seconds })
}

fn if_any(units: Option<Units>) -> Cell {
    Cell::new(units.map_or("-".to_owned(), human::units))
}

#[cfg(test)]
mod tests {
    mod facts;
    mod sentences;

    use expect_test::expect;
    use starfarm_protocol::admin::explain::JobReason;
    use starfarm_protocol::admin::{
        AlarmInfo, Explanation, Fact, FactValue, JobInfo, JobUsage, Reason, Rule, Spread,
    };
    use starfarm_protocol::ids::JobId;
    use starfarm_protocol::link::AlarmLevel;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn explanation() -> Said {
        let size = SizeInfo {
            device: None,
            job: JobId(3),
            node: "lab-7".into(),
            units: Units(524288),
            rule: Rule::Target,
            units_per_s: 65_536.0,
            measured: true,
            start_seconds: None,
            target_seconds: Some(8.0),
            target_units: Some(Units(524288)),
            growth_units_max: Some(Units(1048576)),
            tail_units_max: Some(Units(24279104)),
            units_max: Units(1572864),
        };
        let strange = SizeInfo {
            node: "new".into(),
            units: Units(10),
            rule: Rule::Fixed,
            measured: false,
            target_seconds: None,
            target_units: None,
            growth_units_max: None,
            tail_units_max: None,
            units_max: Units(30),
            ..size.clone()
        };
        let refused =
            JobReason::Refused { node: "a".into(), why: "no python\u{1b}".into(), again_us: 10_000_000 };
        Said::from(Explanation {
            subject: Subject::Job(JobId(3)),
            reasons: vec![Reason::Job(JobReason::RefusedByAll), Reason::Job(refused)],
            verdict: 0,
            sizes: vec![size, strange],
            facts: vec![
                Fact { name: "state".into(), value: FactValue::Word("queued".into()) },
                Fact { name: "place_in_jq".into(), value: FactValue::Place(2, 2) },
            ],
        })
    }

    #[test]
    fn an_explanation_in_each_format() {
        expect![[r#"
            Job 3 waits for a node that can run it.
            - Every node that takes tasks has refused it; their reasons are below.
            - Node a cannot run it: no python\u{1b}. It is asked again in 10 s, or at once after `starfarm job resume 3`.

            size of the next task, in units:
            job  node    size  decided by  units/s  measured   target  makes  growth allows  end allows  whole up to
              3  lab-7  524 K  target       65.5 K  here          8 s  524 K         1.05 M      24.3 M       1.57 M
              3  new       10  fixed        65.5 K  elsewhere       -      -              -           -           30

            state        queued
            place_in_jq  2 of 2
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.document(&explanation())));
        let json = printed(Format::Jsonl, |printer| printer.document(&explanation()));
        assert!(json.starts_with("{\"schema\":\"starfarm/explanation/1\",\"subject\":\"job 3\","), "{json}");
        let quiet = printed(Format::Quiet, |printer| printer.document(&explanation()));
        assert_eq!(quiet, "Job 3 waits for a node that can run it.\n");
    }

    #[test]
    fn a_job_whose_units_wait_says_so() {
        let spread = |sum| Spread { min: 0.0, avg: sum / 8.0, max: sum, sum };
        let job = |sum| JobInfo {
            usage: Some(JobUsage { cpu_cores: Some(spread(sum)), units: 8, ..JobUsage::default() }),
            ..JobInfo::default()
        };
        let said = explanation().and_uses(&job(0.3));
        assert_eq!(said.verdict, "Job 3 waits for a node that can run it; its units use 0.3 of 8 cores.");
        let busy = explanation().and_uses(&job(7.9));
        assert_eq!(busy.verdict, explanation().verdict);
        assert_eq!(busy.facts.last().unwrap().value, "7.9 of 8 cores");
        assert_eq!(explanation().and_uses(&JobInfo::default()), explanation(), "nothing is known");
    }

    fn alarm(node: &str, level: AlarmLevel) -> AlarmInfo {
        AlarmInfo {
            id: "7-disk-1".into(),
            node: node.into(),
            sensor: "disk".into(),
            level,
            value: None,
            text: "it is full".into(),
            since_seconds: 1.0,
            paths: 1,
            reacted: false,
        }
    }

    #[test]
    fn a_node_tells_of_its_own_alarms() {
        let alarms = ["lab-7", "lab-8"].map(|node| alarm(node, AlarmLevel::Critical));
        let said = explanation().and_alarms("lab-7", &alarms);
        assert_eq!(said.facts.len(), explanation().facts.len() + 1);
        let last = said.facts.last().unwrap();
        assert_eq!((&*last.name, &*last.value), ("alarm", "disk, critical: it is full"));
    }

    #[test]
    fn a_job_tells_of_the_worst_alarms_of_all_nodes() {
        let mut alarms: Vec<_> = (0..9).map(|n| alarm(&format!("n{n}"), AlarmLevel::Critical)).collect();
        alarms.push(alarm("n9", AlarmLevel::Warning));
        let said = explanation().and_alarms_of_all(&alarms);
        let facts = &said.facts[explanation().facts.len()..];
        assert_eq!((facts.len(), &*facts[0].name), (9, "alarm"));
        assert_eq!(facts[0].value, "n0, disk, critical: it is full");
        assert_eq!(facts[8].value, "and 2 more: `starfarm monitor alarms` lists them");
        assert_eq!(explanation().and_alarms_of_all(&[]), explanation());
    }

    #[test]
    fn what_has_no_next_task_has_no_table_of_sizes() {
        let explanation = Said { sizes: Vec::new(), ..explanation() };
        let text = printed(Format::Table, |printer| printer.document(&explanation));
        assert!(!text.contains("size of"), "{text}");
    }
}
