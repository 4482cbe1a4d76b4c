//! `starfarm job explain` and `starfarm node explain`: the scheduler's reasons, in sentences.

mod job;
mod node;
mod said;

use starfarm_protocol::admin::{SizeInfo, Subject};

use super::Context;
use crate::failure::Failure;
use crate::human;
use crate::output::table::{Cell, Table, facts, left, name, paragraph, right};
use crate::output::{Document, Style};
pub(crate) use said::Said;

pub(crate) fn run(context: &mut Context, subject: Subject) -> Result<(), Failure> {
    let explanation = context.connect()?.explain(subject)?;
    context.printer.document(&Said::from(explanation))
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
            text.push_str(&sizes(&self.sizes).render(style));
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

fn sizes(sizes: &[SizeInfo]) -> Table {
    fn measured(size: &SizeInfo) -> &'static str {
        match size.measured {
            _ if size.units_per_s == 0.0 => "nowhere",
            true => "here",
            false => "elsewhere",
        }
    }
    fn if_any(units: &Option<String>) -> Cell {
        Cell::new(units.as_deref().map_or("-".to_owned(), human::units))
    }
    Table::of(
        sizes,
        &[
            right("job", |size| Cell::new(size.job.0.to_string())),
            name("node", |size| Cell::new(&size.node)),
            right("size", |size| Cell::new(human::units(&size.units))),
            left("decided by", |size| Cell::new(size.rule.word())),
            right("units/s", |size| Cell::new(human::count(size.units_per_s))),
            left("measured", |size| Cell::new(measured(size))),
            right("target", |size| Cell::new(human::seconds_if_known(size.target_seconds))),
            right("makes", |size| if_any(&size.target_units)),
            right("growth allows", |size| if_any(&size.growth_units_max)),
            right("end allows", |size| if_any(&size.tail_units_max)),
            right("whole up to", |size| Cell::new(human::units(&size.units_max))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::{Fact, Reason};
    use starfarm_protocol::ids::JobId;

    use super::*;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn explanation() -> Explanation {
        let size = SizeInfo {
            job: JobId(3),
            node: "lab-7".into(),
            units: "524288".into(),
            rule: "target".into(),
            units_per_s: 65_536.0,
            measured: true,
            target_seconds: Some(8.0),
            target_units: Some("524288".into()),
            growth_units_max: Some("1048576".into()),
            tail_units_max: Some("24279104".into()),
            units_max: "1572864".into(),
        };
        let strange = SizeInfo {
            node: "new".into(),
            units: "10".into(),
            rule: "fixed".into(),
            measured: false,
            target_seconds: None,
            target_units: None,
            growth_units_max: None,
            tail_units_max: None,
            units_max: "30".into(),
            ..size.clone()
        };
        Explanation {
            subject: "job 3".into(),
            verdict: "Job 3 waits behind job 1.".into(),
            reasons: vec![Reason { code: "behind".into(), text: "It is number 2 of 2 in jq\u{1b}.".into() }],
            sizes: vec![size, strange],
            facts: vec![
                Fact { name: "state".into(), value: "queued".into() },
                Fact { name: "place_in_jq".into(), value: "2 of 2".into() },
            ],
        }
    }

    #[test]
    fn an_explanation_in_each_format() {
        expect![[r#"
            Job 3 waits behind job 1.
            - It is number 2 of 2 in jq\u{1b}.

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
        assert_eq!(quiet, "Job 3 waits behind job 1.\n");
    }

    #[test]
    fn what_has_no_next_task_has_no_table_of_sizes() {
        let explanation = Explanation { sizes: Vec::new(), ..explanation() };
        let text = printed(Format::Table, |printer| printer.document(&explanation));
        assert!(!text.contains("size of"), "{text}");
    }
}
